//! The end-to-end suite of operator-lifecycle-manager, which is built elsewhere, against the component in three Deployments.

mod deployed;
mod held;
mod images;
mod specs;

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, fs};

use cvo::testing::api::olm::NAMESPACE;
use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::harness::{Cluster, Options, Programs, machine};
use e2e::olm;
use e2e::platform::{images as programs, operators};
use kube::Api;
use serde_json::json;
use tokio::process::Command;

use super::{LIMIT, clients, state};

/// Names the program of the suite, the folder with its data, and which specs run.
const PROGRAM: &str = "OLM_E2E";
const DATA: &str = "OLM_E2E_DATA";
const LABELS: &str = "OLM_E2E_LABELS";
const FOCUS: &str = "OLM_E2E_FOCUS";
/// What runs where nothing else is said.
const USUAL_LABELS: &str = "Subscription || InstallPlan || CRDs || CatalogExclusion || CatalogSource || \
    ClusterServiceVersion || OperatorGroup || Webhooks || FailForward || DisablingCopiedCSVs || GarbageCollection || \
    PackageManifest || Operator || UserDefinedServiceAccount || ScopedClient || OperatorCondition || APIDeprecation || ObjectTypes";
/// Where the suite installs operators that are for all namespaces.
const OPERATORS: &str = "operators";
/// The catalog that the suite waits for before its first spec.
const CATALOG: &str = "operatorhubio-catalog";
/// The image of operators that do nothing, which every node has.
const IDLE: &str = "cvo.invalid/lab/pause:1";

/// What somebody gives to the test.
struct Given {
    program: PathBuf,
    data: PathBuf,
    /// A server of catalogs, linked statically.
    opm: Option<PathBuf>,
    labels: String,
    focus: Option<OsString>,
}

impl Given {
    fn find() -> Option<Given> {
        let path = |name| env::var_os(name).map(PathBuf::from);
        Some(Given {
            program: path(PROGRAM)?,
            data: path(DATA)?,
            opm: path(clients::OPM),
            labels: env::var(LABELS).unwrap_or_else(|_| USUAL_LABELS.to_owned()),
            focus: env::var_os(FOCUS),
        })
    }
}

/// A failing spec is one of those that are named, with the reason, in `peer_suite/differences.txt`.
#[tokio::test(flavor = "multi_thread")]
async fn specs_of_the_other_suite_pass_but_for_named_differences() {
    let Some(given) = Given::find() else {
        return println!("skipped: no suite (set {PROGRAM} to its program and {DATA} to its folder testdata)");
    };
    if !machine::is_root() {
        return println!("skipped: a node needs root");
    }
    let options = Options { node: true, registry: true, audit: true, ..Options::default() };
    let cluster = Cluster::up(options).await.unwrap();
    let image = programs::build(&cluster, &Programs::find().unwrap()).await.unwrap().cvo;
    images::push_all(&cluster, given.opm.as_deref()).await;
    olm::prepare(&cluster).await.unwrap();
    operators::trust(&cluster).await.unwrap();
    images::mirror(&cluster).await;
    deployed::install(&cluster, &image).await;
    offer(&cluster).await;
    let _held = held::hold(&cluster).await;
    let folder = folder_of_this_run();
    let report = run(&cluster, &given, &folder).await;
    let specs = specs::read(&report);
    let verdict = specs::judge(&specs, &specs::differences());
    println!("{}", verdict.table);
    assert!(verdict.wrong.is_empty(), "{}\n(report and log are in {})", verdict.wrong.join("\n"), folder.display());
    fs::remove_dir_all(&folder).unwrap();
    cluster.down().await.unwrap();
}

/// For report and log, which stay where a spec fails.
fn folder_of_this_run() -> PathBuf {
    let folder = env::temp_dir().join(format!("olm-e2e-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
    folder
}

/// Creates the catalog that the suite waits for.
async fn offer(cluster: &Cluster) {
    let client = cluster.client().await.unwrap();
    let spec = json!({"sourceType": "grpc", "image": images::COMMUNITY});
    olm::create(&client, NAMESPACE, CATALOG, spec).await.unwrap();
    let wait = cluster.until("the usual catalog to be ready", &[]).within(LIMIT);
    let sources: Api<CatalogSource> = Api::namespaced(client, NAMESPACE);
    wait.existing(sources, CATALOG, |it| state(it) == Some(Connection::Ready)).await.unwrap();
}

/// Runs the suite, and returns where its report is. That specs fail is told by the report.
async fn run(cluster: &Cluster, given: &Given, folder: &Path) -> PathBuf {
    let (report, log) = (folder.join("report.json"), folder.join("log"));
    println!("the suite runs, and writes {}", log.display());
    let output = fs::File::create(&log).unwrap();
    let mut command = Command::new(&given.program);
    command.current_dir(given.data.parent().unwrap_or(Path::new("/"))).env("KUBECONFIG", cluster.kubeconfig());
    let kubectl = cluster.kubectl_program();
    let path = env::join_paths(
        kubectl
            .parent()
            .map(Path::to_owned)
            .into_iter()
            .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    command.env("PATH", path.unwrap());
    for (name, value) in [
        ("namespace", OPERATORS),
        ("olmNamespace", NAMESPACE),
        ("catalogNamespace", NAMESPACE),
        ("dummyImage", IDLE),
        ("communityOperators", images::COMMUNITY),
        ("gather-artifacts-script-path", "/bin/true"),
        ("ginkgo.label-filter", &given.labels),
        ("ginkgo.timeout", "4h"),
    ] {
        command.arg(format!("-{name}={value}"));
    }
    command.arg("-ginkgo.v").arg("-ginkgo.no-color");
    command.arg("-test-data-dir").arg(&given.data).arg("-ginkgo.json-report").arg(&report);
    if let Some(focus) = &given.focus {
        command.arg("-ginkgo.focus").arg(focus);
    }
    command.stdout(Stdio::from(output.try_clone().unwrap())).stderr(Stdio::from(output)).kill_on_drop(true);
    let status = command.status().await.unwrap();
    assert!(report.is_file(), "{status}, without a report: see {}", log.display());
    report
}
