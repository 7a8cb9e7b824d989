//! Catalogs in folders, and what reading one costs a process that does nothing else.

use super::{LIMIT, asked};
use crate::catalog::{BUNDLES, Cost, Format, PACKAGES, WriteArgs, write};
use anyhow::{Context, bail};
use e2e::harness::{process, programs};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// Catalogs that together have as many bundles as the large one.
pub(super) const SMALLER: usize = 5;
/// Between two looks whether a server answers.
const PAUSE: Duration = Duration::from_millis(20);

/// The folders, removed with this.
pub(super) struct Folders(PathBuf);

impl Drop for Folders {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

impl Folders {
    /// Writes one catalog in both forms, and smaller ones that differ.
    pub(super) fn write() -> anyhow::Result<Self> {
        let folders = Folders(std::env::temp_dir().join(format!("cvo-bench-catalogs-{}", std::process::id())));
        let catalog = |out, seed, parts, format| {
            let (packages, bundles) = (PACKAGES / parts, BUNDLES / parts);
            write(&WriteArgs { packages, bundles, seed, format, one_file: false, out })
        };
        println!("{}", catalog(folders.json(), 1, 1, Format::Json)?);
        catalog(folders.yaml(), 1, 1, Format::Yaml)?;
        for number in 0..SMALLER {
            catalog(folders.smaller(number), number as u64 + 2, SMALLER, Format::Json)?;
        }
        // So that nothing is written to the disk while something else is measured.
        rustix::fs::sync();
        Ok(folders)
    }

    pub(super) fn json(&self) -> PathBuf {
        self.0.join("json")
    }

    pub(super) fn yaml(&self) -> PathBuf {
        self.0.join("yaml")
    }

    pub(super) fn smaller(&self, number: usize) -> PathBuf {
        self.0.join(format!("smaller-{number}"))
    }
}

/// Until the index is on disk.
pub(super) async fn read(folder: &Path) -> anyhow::Result<Cost> {
    let mut command = Command::new(programs::lab()?);
    command.args(["catalog", "measure", "--json"]).arg(folder).kill_on_drop(true);
    Ok(serde_json::from_str(&process::output("lab catalog measure", command).await?)?)
}

/// The server of operator-registry, with an empty cache, until it answers.
pub(super) async fn peer(opm: &Path, folders: &Folders) -> anyhow::Result<Cost> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let (cache, log) = (folders.0.join("opm-cache"), folders.0.join("opm.log"));
    fs::create_dir(&cache)?;
    let begun = Instant::now();
    let mut command = Command::new(opm);
    command.arg("serve").arg(folders.json()).args(["--pprof-addr=", "--cache-enforce-integrity=false"]);
    command.arg(format!("--port={}", address.port())).arg(format!("--cache-dir={}", cache.display()));
    command.arg(format!("--termination-log={}", folders.0.join("opm-end").display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| opm.display().to_string())?;
    while !answers(address).await {
        if child.try_wait()?.is_some() || begun.elapsed() > 5 * LIMIT {
            bail!("{} does not answer: {}", opm.display(), fs::read_to_string(&log).unwrap_or_default());
        }
        tokio::time::sleep(PAUSE).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).context("it has ended")?;
    let peak_kib = process::memory(pid).0.context("it has ended")?;
    child.kill().await?;
    Ok(Cost { seconds, peak_kib })
}

async fn answers(address: SocketAddr) -> bool {
    asked::call(address, "localhost", "ListPackages").await.is_ok_and(|answer| answer.messages == PACKAGES)
}
