//! `cvo collect`: what one needs to understand an update on another machine, in one file. Only reads.

mod redact;

use super::output::remark;
use super::reach;
use super::status::{Archive, Recorded, State, View};
use crate::cluster::{ApiError, Clients};
use crate::cluster_version::api::{ClusterVersion, OWN_DEPLOYMENT};
use crate::cluster_version::cli::request::Source;
use crate::cluster_version::progress::CONFIG_MAP;
use crate::object::cluster_operator::ClusterOperator;
use crate::object::read::Read;
use crate::olm::cli::status::{Lists, What};
use crate::process::serving::METRICS_AUDIENCE;
use crate::serve::caller::FORWARDED;
use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, LogParams, PostParams};
use kube::core::ObjectList;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Write a file with all that is needed to understand an update on another machine
///
/// The file, a tar archive compressed with Zstandard, holds the ClusterVersion, ClusterOperators, pools and nodes, the progress record, what
/// says where installed operators and their catalogs stand, the pods, events and messages of what is waited for, and the daemon's pods with
/// their events, logs and metrics. For the metrics it asks for a token of the daemon's service account that is good for metrics only, for ten
/// minutes. It holds no Secrets, no ConfigMaps but the progress record, no environment variables and no arguments of containers, and no
/// manifests of operators; passwords in URLs, tokens and private keys in texts are replaced. Show it with `cvo status --from FILE`,
/// `cvo history --from FILE` or `cvo page --from FILE`. Changes nothing in the cluster.
#[derive(Args, Debug)]
pub(crate) struct CollectArgs {
    /// File to write; it must not exist
    #[arg(long, value_name = "FILE.tar.zst")]
    pub to: PathBuf,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: Source,
}

/// Most pods, and most events, of a namespace.
const PAGE: u32 = 1000;
/// Most lines of a log.
const LOG_LINES: i64 = 50_000;
/// Most bytes of a log.
const LOG_BYTES: i64 = 16 << 20;
/// The shortest time for which the API server grants a token.
const TOKEN_SECONDS: i64 = 600;

pub(crate) async fn run(args: CollectArgs) -> anyhow::Result<()> {
    // Before anything is read, which may take minutes. It is made only then, so that nothing is left if that is interrupted.
    if args.to.exists() {
        bail!("{} exists: name a new file, or remove it", args.to.display());
    }
    let folder = args.to.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("{} is not a folder: make it, or name a file in another one", folder.display());
    }
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let archive = collect(&clients, &args.source).await?;
    let folder = format!("cvo-{}", Timestamp::now().strftime("%Y%m%d-%H%M%S"));
    let packed = archive.pack(&folder).context("cannot make the archive")?;
    write_new(&args.to, &packed).with_context(|| format!("cannot write {}", args.to.display()))?;
    remark(&format!("wrote {} ({} files, {} kB)", args.to.display(), archive.files.len(), packed.len() / 1000));
    Ok(())
}

/// For the owner alone, because that nothing in a log is secret is a guess. What has appeared there meanwhile stays.
fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content).inspect_err(|_| {
        // It is incomplete.
        let _ignored = std::fs::remove_file(path);
    })
}

async fn collect(clients: &Clients, source: &Source) -> anyhow::Result<Archive> {
    let (client, now) = (&clients.call, Timestamp::now());
    let mut state = State::gather(client, source).await.map_err(|error| reach::explain(&clients.server(), error))?;
    state.explain_silence(clients, source).await;
    state.look_behind(client, true, now).await;
    let mut unknown = std::mem::take(&mut state.remarks);
    let installed = installed(state.take_installed(clients, &What::ALL).await, &mut unknown);
    let record = read_record(client, source, &mut unknown).await;
    let namespaces = namespaces(&state, source, now);
    let mut files = Vec::new();
    for namespace in &namespaces {
        files.extend(of_namespace(client, namespace, &mut unknown).await);
    }
    let pods = pods_of_daemon(client, &source.namespace).await;
    let mut texts = logs(client, &source.namespace, &pods, &mut unknown).await;
    texts.extend(metrics(client, &source.namespace, &pods, &mut unknown).await);
    let about = Recorded {
        schema: 1,
        collected: now,
        server: clients.server(),
        name: source.name.clone(),
        namespace: source.namespace.clone(),
        cvo: env!("CARGO_PKG_VERSION").to_owned(),
        unknown,
    };
    let mut archive = Archive::new(&about)?;
    // Nodes can be configured by pools without one.
    if let Some(version) = &state.cluster_version {
        let version = ClusterVersion { metadata: redact::metadata(&version.metadata), ..version.clone() };
        archive.put(Archive::VERSION, &version)?;
    }
    let mut operators = state.operators().to_vec();
    operators.iter_mut().for_each(|operator| operator.metadata = redact::metadata(&operator.metadata));
    // Whoever reads the file must not take what could not be read for none.
    if !matches!(state.operators, Read::Failed(_)) {
        archive.put(Archive::OPERATORS, &operators)?;
    }
    archive.put(Archive::SILENCES, &state.silences)?;
    let mut pools = state.pools.clone();
    pools.iter_mut().for_each(|pool| pool.metadata = redact::metadata(&pool.metadata));
    archive.put(Archive::POOLS, &pools)?;
    archive.put(Archive::NODES, &state.nodes.iter().map(redact::node).collect::<Vec<Value>>())?;
    archive.put(Archive::DETAILS, &state.details)?;
    if let Some(record) = record {
        archive.put(Archive::RECORD, &ConfigMap { metadata: redact::metadata(&record.metadata), ..record })?;
    }
    for (name, content) in installed.into_iter().chain(files) {
        archive.put(&name, &content)?;
    }
    for bytes in archive.files.values_mut() {
        let mut content: Value = serde_json::from_slice(bytes)?;
        redact::texts(&mut content);
        *bytes = serde_json::to_vec_pretty(&content)?;
    }
    let redacted = |(name, text): (String, String)| (name, redact::text(&text).into_owned().into_bytes());
    archive.files.extend(texts.into_iter().map(redacted));
    Ok(archive)
}

/// What says where installed operators stand, by the names of its files. One that does not fit its type cannot be redacted, and stays behind.
fn installed(lists: Lists, unknown: &mut Vec<String>) -> Vec<(String, Vec<Value>)> {
    let mut files = Vec::new();
    for (what, list) in lists {
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                unknown.push(format!("{} cannot be read: {error}", what.text()));
                continue;
            }
        };
        let mut kept = Vec::new();
        for object in list {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
            match what.kept(&object) {
                Ok(object) => kept.push(object),
                Err(error) => {
                    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
                    unknown.push(format!("One of the {} is left out, {namespace}/{name}: {error}", what.text()));
                }
            }
        }
        files.push((what.file(), kept));
    }
    files
}

async fn read_record(client: &Client, source: &Source, unknown: &mut Vec<String>) -> Option<ConfigMap> {
    let records: Api<ConfigMap> = Api::namespaced(client.clone(), &source.namespace);
    match records.get_opt(CONFIG_MAP).await {
        Ok(record) => record,
        // The remark of the state says it.
        Err(error) => {
            unknown.push(
                ApiError::of(&format!("read the progress record {}/{CONFIG_MAP}", source.namespace), error).to_string(),
            );
            None
        }
    }
}

/// That of the daemon, and those of what is waited for.
fn namespaces(state: &State, source: &Source, now: Timestamp) -> BTreeSet<String> {
    let waits = || state.progress.iter().flat_map(|progress| &progress.nodes).flat_map(|node| &node.waiting);
    let awaited = waits().filter(|waiting| waiting.kind == "ClusterOperator").map(|waiting| waiting.name.clone());
    let unwell = View::of(state, now).operators.into_iter().map(|operator| operator.name);
    let names: BTreeSet<String> = awaited.chain(unwell).collect();
    let is_named =
        |operator: &&ClusterOperator| operator.metadata.name.as_ref().is_some_and(|name| names.contains(name));
    let related = state.operators().iter().filter(is_named);
    let related = related.flat_map(|operator| operator.status.iter().flat_map(|status| &status.related_objects));
    let related = related.map(|object| if object.resource == "namespaces" { &object.name } else { &object.namespace });
    let all = waits().map(|waiting| &waiting.namespace).chain(related).chain([&source.namespace]);
    all.filter(|namespace| !namespace.is_empty()).cloned().collect()
}

/// Pods and events, by the names of their files.
async fn of_namespace(client: &Client, namespace: &str, unknown: &mut Vec<String>) -> Vec<(String, Vec<Value>)> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().limit(PAGE);
    let (pods, events) = tokio::join!(pods.list(&params), events.list(&params));
    let pods = known(pods, "pods", namespace, redact::pod, unknown);
    let events = known(events, "events", namespace, redact::event, unknown);
    let file =
        |what: &str, list: Option<Vec<Value>>| list.map(|list| (format!("namespaces/{namespace}/{what}.json"), list));
    file("pods", pods).into_iter().chain(file("events", events)).collect()
}

/// What was read of a namespace, redacted; that it is not all, or why it is nothing, is told.
fn known<K: Clone>(
    list: kube::Result<ObjectList<K>>,
    what: &str,
    namespace: &str,
    redacted: fn(&K) -> Value,
    unknown: &mut Vec<String>,
) -> Option<Vec<Value>> {
    match list {
        Ok(list) => {
            if list.metadata.continue_.is_some_and(|token| !token.is_empty()) {
                unknown.push(format!("Only the first {PAGE} {what} of namespace {namespace} were read"));
            }
            Some(list.items.iter().map(redacted).collect())
        }
        Err(error) => {
            unknown.push(format!("The {what} of namespace {namespace} cannot be read: {error}"));
            None
        }
    }
}

/// None if they cannot be read, which is told of all pods of their namespace.
async fn pods_of_daemon(client: &Client, namespace: &str) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let list = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    list.into_iter().filter(|pod| name_of(pod).starts_with(OWN_DEPLOYMENT)).collect()
}

fn name_of(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// What the daemon's pods measure, by the API server's connection to them.
async fn metrics(client: &Client, namespace: &str, pods: &[Pod], unknown: &mut Vec<String>) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for pod in pods {
        let name = name_of(pod);
        match metrics_of(client, namespace, pod).await {
            Ok(text) => texts.extend(text.map(|text| (format!("metrics/{name}.txt"), text))),
            Err(error) => unknown.push(format!("The metrics of pod {namespace}/{name} cannot be read: {error}")),
        }
    }
    texts
}

/// `None`: it serves none.
async fn metrics_of(client: &Client, namespace: &str, pod: &Pod) -> anyhow::Result<Option<String>> {
    let spec = pod.spec.as_ref();
    let ports =
        spec.into_iter().flat_map(|spec| &spec.containers).flat_map(|container| container.ports.iter().flatten());
    let mut ports = ports.filter(|port| port.name.as_deref() == Some("metrics"));
    let Some(port) = ports.next().map(|port| port.container_port) else { return Ok(None) };
    let account = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest { spec: Some(token_spec()), ..TokenRequest::default() };
    let granted = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    let token = granted.status.and_then(|status| status.token).context("the API server has granted no token")?;
    let path = format!("/api/v1/namespaces/{namespace}/pods/https:{}:{port}/proxy/metrics", name_of(pod));
    let request = http::Request::get(path).header(FORWARDED, format!("Bearer {token}")).body(Vec::new())?;
    Ok(Some(client.request_text(request).await?))
}

/// The API server checks no certificate of a pod, and whoever listens there gets the token: so it is good for metrics only. The
/// account may do everything in the cluster.
fn token_spec() -> TokenRequestSpec {
    TokenRequestSpec {
        audiences: Some(vec![METRICS_AUDIENCE.to_owned()]),
        expiration_seconds: Some(TOKEN_SECONDS),
        ..TokenRequestSpec::default()
    }
}

/// Those of the daemon's containers, also of those that ended last.
async fn logs(client: &Client, namespace: &str, pods: &[Pod], unknown: &mut Vec<String>) -> Vec<(String, String)> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut logs = Vec::new();
    for name in pods.iter().map(name_of) {
        for previous in [false, true] {
            let params = LogParams {
                previous,
                timestamps: true,
                tail_lines: Some(LOG_LINES),
                limit_bytes: Some(LOG_BYTES),
                ..LogParams::default()
            };
            match api.logs(name, &params).await {
                Ok(log) => {
                    let suffix = if previous { "-previous" } else { "" };
                    logs.push((format!("logs/{name}{suffix}.log"), log));
                }
                // Most have not ended before.
                Err(_) if previous => {}
                Err(error) => unknown.push(format!("The log of pod {namespace}/{name} cannot be read: {error}")),
            }
        }
    }
    logs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_for_its_owner_and_takes_the_place_of_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write_new(&path, b"new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write_new(&path, b"other").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn operator_that_cannot_be_redacted_stays_behind_and_is_told() {
        let object = |name: &str, modes: &str| {
            serde_json::json!({"kind": "ClusterServiceVersion", "metadata": {"name": name, "namespace": "n"},
                "spec": {"description": "long", "installModes": serde_json::from_str::<Value>(modes).unwrap()}})
        };
        let lists = Lists::from([
            (What::Versions, Ok(vec![object("a.v1", "[]"), object("odd.v1", "7")])),
            (What::Plans, Err("forbidden".to_owned())),
        ]);
        let mut unknown = Vec::new();
        let files = installed(lists, &mut unknown);
        assert_eq!(files.len(), 1);
        assert_eq!((files[0].0.as_str(), files[0].1.len()), ("operators/clusterserviceversions.json", 1));
        assert!(!files[0].1[0].to_string().contains("long"), "{files:?}");
        assert_eq!(unknown[0], "InstallPlans cannot be read: forbidden");
        let odd = "One of the ClusterServiceVersions is left out, n/odd.v1: spec.installModes: ";
        assert!(unknown[1].starts_with(odd), "{unknown:?}");
    }

    #[test]
    fn list_that_is_cut_is_told() {
        let list = |next: &str| -> kube::Result<ObjectList<Event>> {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "EventList", "metadata": {"continue": next},
                "items": [{"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {}}]});
            Ok(serde_json::from_value(list).unwrap())
        };
        for (next, expected) in [("", &[][..]), ("page-2", &["Only the first 1000 events of namespace n were read"])] {
            let mut unknown = Vec::new();
            let found = known(list(next), "events", "n", redact::event, &mut unknown).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(unknown, expected);
        }
    }

    #[tokio::test]
    async fn nothing_is_left_of_what_could_not_be_collected() {
        let folder = tempfile::tempdir().unwrap();
        let run = |to: &str| {
            let (to, kubeconfig) = (folder.path().join(to), Some(folder.path().join("none")));
            run(CollectArgs { to, kubeconfig, source: Source::default() })
        };
        assert!(run("f").await.is_err() && !folder.path().join("f").exists());
        let error = run("missing/f").await.unwrap_err().to_string();
        assert!(error.ends_with("missing is not a folder: make it, or name a file in another one"), "{error}");
        std::fs::write(folder.path().join("there"), "x").unwrap();
        assert!(run("there").await.unwrap_err().to_string().contains("exists: name a new file"));
    }
}
