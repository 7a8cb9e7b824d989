//! The sample platform installed and updated on a cluster with a real node: the daemon replaces itself, refuses releases
//! that are not as signed, and waits for a component that fails.

use std::collections::BTreeSet;

use cvo::testing::api::{self, ClusterOperator, ClusterVersion, HistoryEntry, HistoryState};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};
use serde_json::Value;

use e2e::simulator::requests::DAEMON;
use e2e::{
    conditions::Conditions,
    harness::{
        audit::{self, Request},
        named,
    },
    platform::{
        LIMIT, Platform, Release,
        follow::{completed, offered},
        releases::{Contents, SAMPLES},
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn platform_is_installed_and_updated_and_untrusted_releases_are_refused() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, second, _] = platform.samples().await.unwrap();

    platform.install(&first).await.unwrap();
    installed(&platform, &first).await;
    refuses_what_is_not_as_signed(&platform, &first, &second).await;
    updates_and_replaces_itself(&platform, &first, &second).await;
    waits_for_a_failing_component(&platform, &second).await;
    platform.close().await.unwrap();
}

async fn installed(platform: &Platform, first: &Release) {
    let version = platform.until_completed(first, LIMIT).await.unwrap();
    let [entry] = history(&version) else { panic!("one entry: {:?}", history(&version)) };
    assert_eq!((entry.version.as_str(), entry.verified), ("1.0.0", false), "nobody verified what was installed");
    assert_eq!(states(&version), [("Available", true), ("Failing", false), ("Progressing", false)]);
    assert_eq!(
        operator_versions(platform).await,
        ["config-api 1.0.0", "console 1.0.0", "network 1.0.0", "storage 1.0.0"]
    );
    assert_eq!(mtu(platform).await, "1400");
    println!("installed");
}

/// Each target is refused with its reason, nothing of it is written, and the running release is still reconciled.
async fn refuses_what_is_not_as_signed(platform: &Platform, first: &Release, second: &Release) {
    let contents = |version| Contents { version, ..SAMPLES[1] };
    let unsigned = platform.release(contents("1.0.2")).await.unwrap();
    let untrusted = platform.release(contents("1.0.3")).await.unwrap();
    platform.keys.add("somebody@else.invalid").await.unwrap();
    platform.sign_as(&untrusted, "somebody@else.invalid").await.unwrap();
    let tampered = platform.changed_release(SAMPLES[1], add_manifest).await.unwrap();
    assert_ne!(tampered.image, second.image);
    copy_signature(platform, second, &tampered);

    let targets = [
        (&unsigned, "no signature of this digest", ("network", "network-settings")),
        (&untrusted, "not in the keyring", ("config-api", "platform-defaults")),
        (&tampered, "the signature is for", ("console", "legacy-theme")),
    ];
    for (target, cause, (namespace, map)) in targets {
        platform.ask_image(&target.image, &target.version).await.unwrap();
        refused(platform, first, &target.image, "RetrievePayload", cause).await;
        repairs(platform, namespace, map).await;
        assert!(maps(platform, "config-api").await.get_opt("added").await.unwrap().is_none());
    }
    let jobs = |writes: Vec<Request>| writes.iter().filter(|write| write.resource == "jobs").count();
    assert_eq!(jobs(writes(platform)), 0, "nothing unverified is unpacked");

    // Signed, but the registry serves something else: the node's runtime does not unpack it, and that is reported.
    let corrupted = platform.release(contents("1.0.4")).await.unwrap();
    platform.sign(&corrupted).await.unwrap();
    corrupt(platform, &corrupted);
    platform.ask_image(&corrupted.image, "1.0.4").await.unwrap();
    let reported = |version: &ClusterVersion| {
        let said = version.says("ReleaseAccepted", &[&corrupted.image, "unexpected commit digest"]);
        said && !version.has("ReleaseAccepted=True")
    };
    let version = platform.until("the corrupted layer to be reported", LIMIT, reported).await.unwrap();
    assert_eq!(states(&version), [("Available", true), ("Failing", false), ("Progressing", false)]);

    // Its Job waits for another try of the runtime. When it is deleted, nothing will ever end it.
    let unpacking: Api<Job> = Api::namespaced(platform.cluster.client().await.unwrap(), api::NAMESPACE);
    let ours = ListParams::default().labels("k8s-app=retrieve-openshift-release");
    unpacking.delete_collection(&DeleteParams::background(), &ours).await.unwrap();
    refused(platform, first, &corrupted.image, "RetrievePayload", "was deleted before its end was seen").await;

    // A good signature, but of another version than the requested one.
    platform.ask_image(&second.image, "1.0.7").await.unwrap();
    refused(platform, first, &second.image, "VerifyPayloadVersion", "1.0.7").await;
    assert!(jobs(writes(platform)) > 0, "this one was unpacked");

    platform.ask(Value::Null).await.unwrap();
    let version =
        platform.until("the request to be dropped", LIMIT, |it| it.has("ReleaseAccepted=True")).await.unwrap();
    assert_eq!(history(&version).len(), 1);
}

/// Adds a manifest that must never be applied.
fn add_manifest(components: &std::path::Path) -> anyhow::Result<()> {
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: added, namespace: config-api, annotations: \
                    {include.release.openshift.io/self-managed-high-availability: 'true'}}}\n";
    Ok(std::fs::write(components.join("config-api/0000_10_config-api_05_added.yaml"), manifest)?)
}

/// Changes bytes of the release's last layer on the registry's disk.
fn corrupt(platform: &Platform, release: &Release) {
    let blobs = platform.cluster.dir().join("registry/docker/registry/v2/blobs/sha256");
    let blob = |digest: &str| {
        let hex = digest.strip_prefix("sha256:").unwrap();
        blobs.join(&hex[..2]).join(hex).join("data")
    };
    let manifest: Value = serde_json::from_slice(&std::fs::read(blob(release.digest())).unwrap()).unwrap();
    let layer = blob(manifest["layers"].as_array().unwrap().last().unwrap()["digest"].as_str().unwrap());
    let mut bytes = std::fs::read(&layer).unwrap();
    // In the middle of the compressed data; its length stays.
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8].iter_mut().for_each(|byte| *byte = !*byte);
    std::fs::write(&layer, bytes).unwrap();
}

/// Publishes the signature of one release as that of another.
fn copy_signature(platform: &Platform, of: &Release, by: &Release) {
    let folder = |release: &Release| platform.store().join(release.digest().replace(':', "="));
    std::fs::create_dir_all(folder(by)).unwrap();
    std::fs::copy(folder(of).join("signature-1"), folder(by).join("signature-1")).unwrap();
}

pub(super) async fn refused(platform: &Platform, running: &Release, image: &str, reason: &str, cause: &str) {
    let refused = |version: &ClusterVersion| version.says("ReleaseAccepted=False", &[image]);
    let version = platform.until(&format!("{image} to be refused"), LIMIT, refused).await.unwrap();
    let accepted = version.condition("ReleaseAccepted").unwrap();
    println!("refused: {}: {}", accepted.reason, accepted.message);
    assert_eq!(accepted.reason, reason, "{}", accepted.message);
    assert!(accepted.message.contains(cause), "{cause:?} is not in {:?}", accepted.message);
    let status = version.status.as_ref().unwrap();
    assert_eq!(status.desired.image, running.image);
    assert_eq!((history(&version).len(), completed(&version, running)), (1, true));
    assert_eq!(states(&version), [("Available", true), ("Failing", false), ("Progressing", false)]);
}

/// The running release is reconciled: what is deleted is restored.
async fn repairs(platform: &Platform, namespace: &str, name: &str) {
    let maps = maps(platform, namespace).await;
    let before = maps.get(name).await.unwrap();
    maps.delete(name, &DeleteParams::default()).await.unwrap();
    let wait = platform.wait(format!("{namespace}/{name} to be restored"), LIMIT);
    let restored = wait.existing(maps, name, |map: &ConfigMap| map.uid() != before.uid()).await.unwrap();
    assert_eq!(restored.data, before.data);
}

async fn updates_and_replaces_itself(platform: &Platform, first: &Release, second: &Release) {
    let before = daemon_pod(platform).await;
    assert_eq!(image(&before), first.image);
    assert_eq!(holder(platform).await, before.uid().unwrap());
    let asked = Timestamp::now();
    platform.until("1.0.1 to be offered", LIMIT, |version| offered(version, second)).await.unwrap();
    let planned = plan(platform, second).await;
    platform.ask_version("1.0.1").await.unwrap();

    let version = platform.until_completed(second, LIMIT).await.unwrap();
    let [update, install] = history(&version) else { panic!("two entries: {:?}", history(&version)) };
    assert_eq!((update.version.as_str(), update.state, update.verified), ("1.0.1", HistoryState::Completed, true));
    assert_eq!((install.version.as_str(), install.state), ("1.0.0", HistoryState::Completed));
    let after = daemon_pod(platform).await;
    assert_eq!(image(&after), second.image);
    assert_ne!(after.uid(), before.uid(), "another pod");
    assert_eq!(holder(platform).await, after.uid().unwrap());
    let created = after.creation_timestamp().unwrap().0;
    assert!(update.started_time.0 <= created, "the entry was added before the successor existed");
    assert!(update.completion_time.as_ref().unwrap().0 >= created, "the successor completed it");

    let writes = writes(platform);
    let status = |write: &&Request| write.at > asked && write.resource_path() == "clusterversions/status";
    let mut writers: Vec<String> = writes.iter().filter(status).map(|write| write.pod.clone()).collect();
    writers.dedup();
    assert_eq!(writers, [before.name_any(), after.name_any()], "one writer after the other, never in between");
    let done = writes.iter().filter(|write| write.at > asked && of_the_release(write));
    let done: BTreeSet<_> = done.map(line).collect();
    assert!(planned.iter().any(|line| line.starts_with("create jobs storage/")), "{planned:?}");
    assert_eq!(done, planned, "what was planned from the image in the registry was done");
    assert_eq!(
        operator_versions(platform).await,
        ["config-api 1.0.1", "console 1.0.1", "network 1.0.1", "storage 1.0.1"]
    );
    assert_eq!(mtu(platform).await, "1450");
    let layout = maps(platform, "storage").await.get("storage-layout").await.unwrap();
    assert_eq!(layout.data.unwrap()["layout"], "1.0.1", "the Job of 1.0.1 has run");
    println!("updated");
}

/// What `cvo plan` shows of the update to a release image, as `verb resource namespace/name`.
async fn plan(platform: &Platform, to: &Release) -> BTreeSet<String> {
    let kubeconfig = platform.cluster.kubeconfig().display().to_string();
    let arguments = ["plan", "-o", "json", "--kubeconfig", &kubeconfig, "--from", "cluster", "--to", &to.image];
    let plan: Value = serde_json::from_str(&platform.cvo(arguments).await.unwrap()).unwrap();
    let list = |value: &Value, key: &str| value[key].as_array().unwrap().clone();
    let nodes = list(&plan, "stages").into_iter().flat_map(|stage| list(&stage, "nodes"));
    let lines = nodes.flat_map(|node| list(&node, "steps")).filter_map(|step| {
        let verb = match step["action"].as_str().unwrap() {
            "leave" => return None,
            "change" => "update",
            other => other,
        };
        let text = |key: &str| step["object"][key].as_str().unwrap_or_default();
        let resource = text("kind").to_lowercase();
        Some(format!("{verb} {resource}s {}/{}", text("namespace"), text("name")))
    });
    lines.collect()
}

fn line(write: &Request) -> String {
    format!("{} {} {}/{}", write.effect(), write.resource, write.namespace, write.name)
}

/// Not bookkeeping, retrieval, or a stored signature.
fn of_the_release(write: &Request) -> bool {
    let own = write.namespace == api::NAMESPACE && write.resource != "deployments";
    let bookkeeping = ["clusterversions", "leases", "events"].contains(&write.resource.as_str());
    !own && !bookkeeping && write.subresource.is_empty() && write.namespace != api::MANAGED_NAMESPACE
}

async fn waits_for_a_failing_component(platform: &Platform, second: &Release) {
    let folders = &["base", "1.1.0", "failing-network"];
    let third =
        platform.release(Contents { version: "1.1.0", folders, previous: &["1.0.1"], components: &[] }).await.unwrap();
    platform.sign(&third).await.unwrap();
    let asked = Timestamp::now();
    platform.ask_image(&third.image, "1.1.0").await.unwrap();

    let names_it = |version: &ClusterVersion| version.says("Failing=True", &["network"]);
    let version = platform.until("Failing to name network", LIMIT, names_it).await.unwrap();
    println!("failing: {:?}", version.condition("Failing"));
    // The other component of its stage continues: only later stages have to wait.
    let operators: Api<ClusterOperator> = Api::all(platform.cluster.client().await.unwrap());
    let wait = platform.wait("storage to be updated", LIMIT);
    wait.existing(operators, "storage", |it| operator_version(it) == "1.1.0").await.unwrap();
    assert_eq!(console_arguments(platform).await, ["operator", "--component=console", "--version=1.0.1"]);
    assert!(maps(platform, "console").await.get_opt("legacy-theme").await.unwrap().is_some(), "1.1.0 deletes it");

    let generation = platform.until("any state", LIMIT, |_| true).await.unwrap().metadata.generation;
    let repair = ConfigMap { metadata: ObjectMeta { ..named("repair") }, ..Default::default() };
    let repair = maps(platform, "network").await.create(&PostParams::default(), &repair).await.unwrap();
    let version = platform.until_completed(&third, LIMIT).await.unwrap();
    assert_eq!(version.metadata.generation, generation, "the spec was not changed again");
    assert!(!version.has("Failing=True"));
    let versions: Vec<_> = history(&version).iter().map(|entry| (entry.version.as_str(), entry.state)).collect();
    let done = HistoryState::Completed;
    assert_eq!(versions, [("1.1.0", done), ("1.0.1", done), ("1.0.0", done)]);
    assert_eq!(history(&version)[1].image, second.image);
    assert_eq!(console_arguments(platform).await, ["operator", "--component=console", "--version=1.1.0"]);
    assert!(maps(platform, "console").await.get_opt("legacy-theme").await.unwrap().is_none());

    let repaired = repair.creation_timestamp().unwrap().0;
    let writes = writes(platform);
    let later: Vec<_> = writes.iter().filter(|write| write.at > asked && write.namespace == "console").collect();
    let early: Vec<_> = later.iter().filter(|write| write.at < repaired).collect();
    assert!(!later.is_empty() && early.is_empty(), "written before the previous stage was done: {early:?}");
    println!("repaired");
}

/// What the daemon has written so far, including its own bookkeeping.
fn writes(platform: &Platform) -> Vec<Request> {
    let requests = audit::requests(&platform.cluster.audit_log(), DAEMON).unwrap();
    requests.into_iter().filter(Request::wrote).collect()
}

fn history(version: &ClusterVersion) -> &[HistoryEntry] {
    version.status.as_ref().map_or(&[], |status| &status.history)
}

fn states(version: &ClusterVersion) -> [(&'static str, bool); 3] {
    ["Available", "Failing", "Progressing"].map(|type_| (type_, version.has(&format!("{type_}=True"))))
}

fn operator_version(operator: &ClusterOperator) -> &str {
    let versions = operator.status.iter().flat_map(|status| &status.versions);
    versions.into_iter().find(|version| version.name == "operator").map_or("", |version| &version.version)
}

async fn operator_versions(platform: &Platform) -> Vec<String> {
    let operators: Api<ClusterOperator> = Api::all(platform.cluster.client().await.unwrap());
    let all = operators.list(&ListParams::default()).await.unwrap();
    all.iter().map(|operator| format!("{} {}", operator.name_any(), operator_version(operator))).collect()
}

async fn maps(platform: &Platform, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(platform.cluster.client().await.unwrap(), namespace)
}

/// The value that differs between the releases.
async fn mtu(platform: &Platform) -> String {
    maps(platform, "network").await.get("network-settings").await.unwrap().data.unwrap()["mtu"].clone()
}

/// The daemon's only pod.
async fn daemon_pod(platform: &Platform) -> Pod {
    let pods: Api<Pod> = Api::namespaced(platform.cluster.client().await.unwrap(), api::NAMESPACE);
    let labelled = ListParams::default().labels("k8s-app=cluster-version-operator");
    let mut all = pods.list(&labelled).await.unwrap().items;
    assert_eq!(all.len(), 1, "one pod of the daemon: {all:?}");
    all.remove(0)
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

async fn holder(platform: &Platform) -> String {
    let leases: Api<Lease> = Api::namespaced(platform.cluster.client().await.unwrap(), api::NAMESPACE);
    leases.get(api::NAME).await.unwrap().spec.unwrap().holder_identity.unwrap()
}

/// The first three arguments of console's operator.
async fn console_arguments(platform: &Platform) -> Vec<String> {
    let deployments: Api<Deployment> = Api::namespaced(platform.cluster.client().await.unwrap(), "console");
    let pod = deployments.get("console-operator").await.unwrap().spec.unwrap().template.spec.unwrap();
    pod.containers[0].args.clone().unwrap().into_iter().take(3).collect()
}
