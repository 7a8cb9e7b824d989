//! Catalogs of operators: what one in the proportions of real ones costs the process that looks after catalogs, from a folder and from
//! an image, asked for as packages and over gRPC, and several at rest. Beside it, where `OPM` names the program, what the server of
//! operator-registry needs for the same folder.

mod asked;
mod folder;
mod process;
mod rest;

use super::figures::{Measured, Row};
use super::memory::mebibytes;
use super::{Group, machine};
use crate::catalog::{BUNDLES, Cost, PACKAGES};
use anyhow::{Context, ensure};
use e2e::olm::PROCESS;
use folder::Folders;
use process::Olm;
use std::path::PathBuf;
use std::time::{Duration, Instant};

static ROW: Row = Row {
    name: "catalog",
    about: "600 packages of operators with 15000 bundles: read, asked for and at rest; beside `opm serve` where OPM names it",
    needs: &[],
    targets: &[
        (JSON_SECONDS, 3.0),
        (JSON_PEAK, 60.0),
        (YAML_SECONDS, 12.0),
        (YAML_PEAK, 60.0),
        (PEER_SECONDS, 0.2),
        (PEER_PEAK, 0.2),
        (IMAGE, 6.0),
        (RESTART, 0.2),
        (TABLE, 0.3),
        (JSON, 1.5),
        (ONE, 0.02),
        (PACKAGES_PEAK, 90.0),
        (BUNDLES_SECONDS, 3.0),
        (BUNDLES_MEMORY, 10.0),
        (rest::RATE, 0.02),
        (rest::LEASE, 0.3),
        (rest::RESIDENT, 60.0),
        (rest::ASKED, 1.0),
        (rest::WRITTEN, 1.0),
    ],
};

const JSON_SECONDS: &str = "folder of JSON, seconds";
const JSON_PEAK: &str = "folder of JSON, peak, MiB";
const YAML_SECONDS: &str = "folder of YAML, seconds";
const YAML_PEAK: &str = "folder of YAML, peak, MiB";
const PEER_SECONDS: &str = "folder of JSON, seconds / opm";
const PEER_PEAK: &str = "folder of JSON, peak / opm";
const IMAGE: &str = "image to READY, seconds";
const RESTART: &str = "restart to READY, seconds";
const TABLE: &str = "packages as Table, seconds";
const JSON: &str = "packages as JSON, seconds";
const ONE: &str = "one package, seconds";
const PACKAGES_PEAK: &str = "packages, peak, MiB";
const BUNDLES_SECONDS: &str = "ListBundles, slowest, seconds";
const BUNDLES_MEMORY: &str = "ListBundles, MiB more / client";

pub(super) static GROUP: Group = Group {
    name: "catalog",
    rows: &[&ROW],
    measure: |run, report| {
        Box::pin(async move {
            let rest = Duration::from_secs(run.bench.steady_seconds);
            run.keep(report, &ROW, measure(rest).await?);
            Ok(())
        })
    },
};

/// For one step.
const LIMIT: Duration = Duration::from_secs(60);
/// Clients that list all bundles at once.
const CLIENTS: usize = 4;
/// How often packages are asked for; the median counts.
const TIMES: usize = 5;
/// Name of the catalog.
const LARGE: &str = "large";

async fn measure(window: Duration) -> anyhow::Result<Measured> {
    e2e::harness::install_tls_provider();
    let mut measured = Measured::default();
    let folders = Folders::write()?;
    machine::quiet().await;
    read(&folders, &mut measured).await?;
    let olm = Olm::start().await?;
    let outcome = on_a_cluster(&olm, &folders, window, &mut measured).await;
    if outcome.is_err() {
        eprintln!("The end of the process's log:\n{}", olm.log());
    }
    let ended = olm.cluster.down().await;
    outcome?;
    ended?;
    Ok(measured)
}

/// A process that does nothing else.
async fn read(folders: &Folders, measured: &mut Measured) -> anyhow::Result<()> {
    let json = folder::read(&folders.json()).await?;
    measured.add(JSON_SECONDS, json.seconds);
    measured.add(JSON_PEAK, mebibytes(json.peak_kib));
    let yaml = folder::read(&folders.yaml()).await?;
    measured.add(YAML_SECONDS, yaml.seconds);
    measured.add(YAML_PEAK, mebibytes(yaml.peak_kib));
    let Some(opm) = std::env::var_os("OPM") else {
        println!("skipped: no opm (OPM names none)");
        measured.skip([PEER_SECONDS, PEER_PEAK]);
        return Ok(());
    };
    let Cost { seconds, peak_kib } = folder::peer(&PathBuf::from(opm), folders).await?;
    measured.add("opm, seconds", seconds);
    measured.add("opm, peak, MiB", mebibytes(peak_kib));
    measured.add(PEER_SECONDS, json.seconds / seconds);
    measured.add(PEER_PEAK, json.peak_kib as f64 / peak_kib as f64);
    Ok(())
}

async fn on_a_cluster(olm: &Olm, folders: &Folders, window: Duration, measured: &mut Measured) -> anyhow::Result<()> {
    let image = olm.push(LARGE, &folders.json()).await?;
    olm.spawn()?;
    olm.until_ready(PROCESS).await?;
    machine::quiet().await;
    from_image(olm, &image, measured).await?;
    restart(olm, measured).await?;
    packages(olm, measured).await?;
    bundles(olm, measured).await?;
    olm.delete(LARGE).await?;
    rest::measure(olm, folders, window, measured).await
}

async fn from_image(olm: &Olm, image: &str, measured: &mut Measured) -> anyhow::Result<()> {
    olm.forget_peak()?;
    let begun = Instant::now();
    olm.create(LARGE, image, "1h0m0s").await?;
    olm.until_served(LARGE).await?;
    measured.add(IMAGE, begun.elapsed().as_secs_f64());
    measured.add("image to READY, peak, MiB", olm.memory()?.peak);
    measured.add("resident then, MiB", olm.memory()?.resident);
    Ok(())
}

/// The index is on disk. It counts from the start of the process until packages are served and the catalog answers.
async fn restart(olm: &Olm, measured: &mut Measured) -> anyhow::Result<()> {
    ensure!(olm.terminate().await?, "the process does not end when it is told to");
    machine::quiet().await;
    let begun = Instant::now();
    olm.spawn()?;
    olm.until_ready(PROCESS).await?;
    let found = asked::call(olm.catalogs(), &olm.authority(LARGE), "ListPackages").await?;
    measured.add(RESTART, begun.elapsed().as_secs_f64());
    ensure!(found.messages == PACKAGES, "{} packages are served", found.messages);
    measured.add("resident after the restart, MiB", olm.memory()?.resident);
    Ok(())
}

/// Through the API server.
async fn packages(olm: &Olm, measured: &mut Measured) -> anyhow::Result<()> {
    olm.register_packages().await?;
    let all = "/apis/packages.operators.coreos.com/v1/packagemanifests";
    let json = "application/json";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let listed = asked::text(&olm.client, all, table).await?;
    let rows = listed.1.matches("\"cells\":").count();
    ensure!(rows == PACKAGES, "the table has {rows} packages");
    let name = listed.1.split("\"cells\":[\"").nth(1).and_then(|rest| rest.split('"').next()).context("no package")?;
    let one = format!("/apis/packages.operators.coreos.com/v1/namespaces/default/packagemanifests/{name}");
    machine::quiet().await;
    olm.forget_peak()?;
    for (figure, path, accept) in [(TABLE, all, table), (JSON, all, json), (ONE, one.as_str(), json)] {
        let (mut seconds, mut bytes) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let (took, text) = asked::text(&olm.client, path, accept).await?;
            seconds.push(took.as_secs_f64());
            bytes = text.len();
        }
        seconds.sort_by(f64::total_cmp);
        measured.add_known(figure, seconds.get(TIMES / 2).copied());
        measured.add(format!("{}, MB", figure.trim_end_matches(", seconds")), bytes as f64 / 1e6);
    }
    measured.add(PACKAGES_PEAK, olm.memory()?.peak);
    Ok(())
}

/// All bundles, over gRPC.
async fn bundles(olm: &Olm, measured: &mut Measured) -> anyhow::Result<()> {
    machine::quiet().await;
    olm.forget_peak()?;
    let before = olm.memory()?.resident;
    let begun = Instant::now();
    let listed = (0..CLIENTS).map(|_| async {
        let answer = asked::call(olm.catalogs(), &olm.authority(LARGE), "ListBundles").await?;
        anyhow::Ok((answer, begun.elapsed().as_secs_f64()))
    });
    let listed = futures::future::try_join_all(listed).await?;
    let (answer, _) = listed.first().context("no client")?;
    // Each bundle once for each of its channels.
    ensure!(answer.messages > BUNDLES && listed.iter().all(|(it, _)| it == answer), "other answers: {listed:?}");
    measured.add_known(BUNDLES_SECONDS, listed.iter().map(|(_, seconds)| *seconds).max_by(f64::total_cmp));
    measured.add(BUNDLES_MEMORY, (olm.memory()?.peak - before) / CLIENTS as f64);
    measured.add("ListBundles, messages", answer.messages as f64);
    measured.add("ListBundles, MB", answer.bytes as f64 / 1e6);
    Ok(())
}
