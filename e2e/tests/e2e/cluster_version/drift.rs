//! Changes by others are undone as the watch shows them, a rollout over an unchanged cluster writes nothing, and repairs of
//! a contested object back off.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use cvo::testing::api::{ClusterVersion, NAMESPACE, OWN_DEPLOYMENT, progress::NodeState};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Event, Namespace},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher::Config,
};
use serde_json::{Value, json};

use e2e::simulator::requests::is_bookkeeping;
use e2e::until::changes;
use e2e::{
    conditions::Conditions,
    harness::{audit, is_oldest_kubernetes},
    simulator::cluster::{InitialEvents, LIMIT, SimulatedCluster},
};

/// Far below every period of the daemon, and long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(10);

/// A managed object and what another client does to it.
struct Drift {
    version: &'static str,
    kind: &'static str,
    namespace: &'static str,
    name: &'static str,
    /// Where the change is, and the value of the release.
    field: (&'static str, Value),
    /// The merge patch; without one the object is deleted.
    change: Option<Value>,
}

impl Drift {
    fn api(&self, client: &Client) -> Api<DynamicObject> {
        let (group, version) = self.version.rsplit_once('/').unwrap_or(("", self.version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, self.kind));
        match self.namespace {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        }
    }

    fn is_as_desired(&self, object: &DynamicObject) -> bool {
        let object = serde_json::to_value(object).unwrap();
        object.pointer(self.field.0) == Some(&self.field.1) && object.pointer("/metadata/deletionTimestamp").is_none()
    }

    /// Makes the change and waits until it is undone.
    async fn make_and_await_repair(&self, cluster: &SimulatedCluster) {
        let api = self.api(&cluster.client);
        let before = api.get(self.name).await.unwrap();
        assert!(self.is_as_desired(&before), "{} {} before the change: {before:?}", self.kind, self.name);
        let what = match &self.change {
            Some(patch) => {
                let params = PatchParams { field_manager: Some("other-client".into()), ..PatchParams::default() };
                let changed = api.patch(self.name, &params, &Patch::Merge(patch)).await.unwrap();
                assert!(!self.is_as_desired(&changed), "the change must have an effect: {changed:?}");
                format!("{} {} to be changed back", self.kind, self.name)
            }
            None => {
                api.delete(self.name, &DeleteParams::default()).await.unwrap();
                format!("{} {} to be created again", self.kind, self.name)
            }
        };
        let (uid, deleted) = (before.metadata.uid, self.change.is_none());
        let back = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| self.is_as_desired(object) && (object.metadata.uid != uid) == deleted)
        };
        let (_, took) = cluster.until_object(&what, api, self.name, SOON, back).await.unwrap();
        println!("{what}: {} ms", took.as_millis());
    }
}

type Row = (&'static str, &'static str, &'static str, &'static str, (&'static str, Value), Option<Value>);

fn drifts() -> Vec<Drift> {
    let drift =
        |(version, kind, namespace, name, field, change)| Drift { version, kind, namespace, name, field, change };
    core_drifts().into_iter().chain(other_drifts()).map(drift).collect()
}

fn core_drifts() -> Vec<Row> {
    vec![
        (
            "v1",
            "ConfigMap",
            "beta",
            "settings",
            ("/data/colour", json!("blue")),
            Some(json!({"data": {"colour": "red"}})),
        ),
        ("v1", "ConfigMap", "beta", "settings", ("/data/colour", json!("blue")), None),
        (
            "apps/v1",
            "Deployment",
            "beta",
            "beta",
            ("/spec/template/spec/containers/0/image", json!("registry.invalid/lab@sha256:00")),
            Some(json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "elsewhere.invalid/x",
                "env": [{"name": "RELEASE_VERSION", "value": "1.0.0"}]}]}}}})),
        ),
        (
            "apps/v1",
            "Deployment",
            "gamma",
            "gamma",
            ("/spec/replicas", json!(1)),
            Some(json!({"spec": {"replicas": 3}})),
        ),
        ("apps/v1", "Deployment", "gamma", "gamma", ("/spec/replicas", json!(1)), None),
        (
            "v1",
            "Service",
            "gamma",
            "gamma",
            ("/spec/selector/app", json!("gamma")),
            Some(json!({"spec": {"selector": {"app": "nobody"}}})),
        ),
        ("v1", "Service", "gamma", "gamma", ("/spec/selector/app", json!("gamma")), None),
    ]
}

/// Of a cluster-scoped kind, of a CustomResourceDefinition, and of an object of its kind.
fn other_drifts() -> Vec<Row> {
    vec![
        (
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "",
            "delta-reader",
            ("/rules/0/verbs", json!(["get", "list"])),
            Some(json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]})),
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "",
            "delta-reader",
            ("/rules/0/verbs", json!(["get", "list"])),
            None,
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "",
            "widgets.lab.example.com",
            ("/spec/names/singular", json!("widget")),
            Some(json!({"spec": {"names": {"singular": "gadget"}}})),
        ),
        (
            "lab.example.com/v1",
            "Widget",
            "alpha",
            "first",
            ("/spec/release", json!("1.0.0")),
            Some(json!({"spec": {"release": "none"}})),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_and_deleted_objects_are_restored_by_watch() {
    changed_and_deleted_objects_are_restored(InitialEvents::Sent).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the same on other API servers"]
async fn changed_and_deleted_objects_are_restored_without_initial_events() {
    changed_and_deleted_objects_are_restored(InitialEvents::Disabled).await;
    changed_and_deleted_objects_are_restored(InitialEvents::RefusedFor("configmaps")).await;
}

async fn changed_and_deleted_objects_are_restored(initial_events: InitialEvents) {
    let (cluster, _proxy, _) = SimulatedCluster::with_installed_behind_proxy(initial_events, &["1.0.0"]).await.unwrap();
    let begun = Timestamp::now();
    for drift in drifts() {
        drift.make_and_await_repair(&cluster).await;
    }
    let lists = || {
        let later = cluster.requests().unwrap().into_iter().filter(|request| request.at > begun);
        later.filter(|request| request.verb == "list").collect::<Vec<_>>()
    };
    assert_eq!(lists(), Vec::new(), "no kind was listed again");

    // A custom object is deleted with its CustomResourceDefinition, and both are restored.
    let widget = Api::<DynamicObject>::namespaced_with(
        cluster.client.clone(),
        "alpha",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("lab.example.com", "v1", "Widget")),
    );
    let uid = widget.get("first").await.unwrap().metadata.uid;
    let definition = drifts().into_iter().find(|drift| drift.kind == "CustomResourceDefinition").unwrap();
    Drift { change: None, ..definition }.make_and_await_repair(&cluster).await;
    let back = |found: Option<&DynamicObject>| {
        found.is_some_and(|found| found.metadata.uid != uid && found.data["spec"]["release"] == "1.0.0")
    };
    cluster.until_object("the Widget to be created again", widget, "first", LIMIT, back).await.unwrap();
    let others: Vec<_> = lists().into_iter().filter(|list| list.resource != "widgets").collect();
    assert_eq!(others, Vec::new(), "only the kind that was deleted is listed again");
    cluster.close().await.unwrap();
}

/// The objects of a namespace cannot be created again before it is gone, and then they are, without the pauses that their
/// failed repairs have earned.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_namespace_is_restored_with_its_objects() {
    let (cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "beta");
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let finalizer = |list: Value| Patch::Merge(json!({"metadata": {"finalizers": list}}));
    let params = PatchParams::default();
    // A foreign object keeps the namespace until the repairs have failed many times.
    maps.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "foreign"}})).unwrap())
        .await
        .unwrap();
    maps.patch("foreign", &params, &finalizer(json!(["lab.example.com/hold"]))).await.unwrap();
    namespaces.delete("beta", &DeleteParams::default()).await.unwrap();
    let waits = |object: &ClusterVersion| object.says("Failing=True", &["beta/settings"]);
    cluster.until("the repairs to have failed", waits).await.unwrap();
    maps.patch("foreign", &params, &finalizer(json!([]))).await.unwrap();
    let back = |object: Option<&ConfigMap>| object.and_then(colour) == Some("blue");
    let (_, took) =
        cluster.until_object("the settings to be there again", maps, "settings", LIMIT, back).await.unwrap();
    println!("restored {} ms after the namespace could go", took.as_millis());
    let well = |object: &ClusterVersion| object.has("Failing=False");
    cluster.until("nothing to be failing", well).await.unwrap();
    cluster.close().await.unwrap();
}

/// Scaling the daemon to zero is how an administrator switches it off.
#[tokio::test(flavor = "multi_thread")]
async fn own_deployment_stays_scaled_to_zero_and_is_repaired_otherwise() {
    let (cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let change = json!({"metadata": {"annotations": {"include.release.openshift.io/self-managed-high-availability": "no"}},
        "spec": {"replicas": 0}});
    deployments.patch(OWN_DEPLOYMENT, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let told = cluster.wait("an event that says so").event(changes(events, Config::default()), |event: &Event| {
        (event.reason.as_deref() == Some("ScaledToZero")).then(|| event.message.clone().unwrap_or_default())
    });
    let message = told.await.unwrap();
    assert!(message.contains("scaled to 1 again"), "{message}");
    let repaired = |object: Option<&Deployment>| {
        object.is_some_and(|o| {
            o.annotations()["include.release.openshift.io/self-managed-high-availability"] == "true"
                && o.spec.as_ref().and_then(|spec| spec.replicas) == Some(0)
        })
    };
    let what = "the rest of the Deployment to be restored";
    cluster.until_object(what, deployments.clone(), OWN_DEPLOYMENT, SOON, repaired).await.unwrap();

    // Any other number is a mistake.
    let scaled = json!({"spec": {"replicas": 3}});
    deployments.patch(OWN_DEPLOYMENT, &PatchParams::default(), &Patch::Merge(&scaled)).await.unwrap();
    let one = |object: Option<&Deployment>| object.is_some_and(|o| o.spec.as_ref().and_then(|s| s.replicas) == Some(1));
    cluster.until_object("one replica", deployments, OWN_DEPLOYMENT, SOON, one).await.unwrap();
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn second_rollout_writes_nothing() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.request(&releases[1]).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    // The old daemon may still write its record between the count and its end.
    let counted = Timestamp::now();
    let before = write_counts(&cluster.client).await;
    let restarted = Timestamp::now();
    cluster.node.restart().await.unwrap();
    cluster
        .until_progress("the second rollout to be done", |progress| {
            let fresh = progress.rollout.started.is_some_and(|started| started > restarted);
            fresh && !progress.nodes.is_empty() && progress.nodes.iter().all(|node| node.state == NodeState::Done)
        })
        .await
        .unwrap();

    let after = write_counts(&cluster.client).await;
    let grown = after.iter().filter_map(|(key, count)| {
        let more = count - before.get(key).copied().unwrap_or(0);
        (more > 0).then(|| (key.clone(), more))
    });
    let grown: BTreeMap<String, u64> = grown.collect();
    println!("writes by the API server's count: {grown:?}");
    let requests = cluster.requests().unwrap();
    assert_nothing_is_read_twice(requests.iter().filter(|request| request.at > restarted));
    let of_daemon: Vec<_> = requests.into_iter().filter(|r| r.at > counted && r.wrote()).collect();
    let records = of_daemon.iter().filter(|request| request.name == "cluster-version-progress").count() as u64;
    let events = of_daemon.iter().filter(|request| request.resource == "events").count();
    assert!(events <= 2, "the end of the update, if it is told late, and that the release was loaded: {of_daemon:?}");
    let told: Api<Event> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let told = told.list(&ListParams::default()).await.unwrap().items;
    let ends = told.iter().filter(|event| event.reason.as_deref() == Some("UpdateCompleted")).count();
    assert_eq!(ends, 1, "the next process does not tell it again: {told:?}");
    for (key, count) in &grown {
        let allowed = match key.as_str() {
            "PUT leases" | "PUT clusterversions/status" => *count,
            "PUT configmaps" => records.min(*count),
            // The heartbeat of the simulated node, and events, among them late ones of controllers.
            "PATCH leases" | "PATCH nodes/status" | "POST events" | "PATCH events" => *count,
            // Late writes of controllers, such as those for the own Deployment when the daemon is replaced.
            late if (late.ends_with("/status") || late.ends_with(" endpointslices"))
                && !of_daemon.iter().any(|r| late.ends_with(&r.resource_path())) =>
            {
                *count
            }
            _ => 0,
        };
        assert_eq!(*count, allowed, "{key}: {grown:?}");
    }
    assert_eq!(
        of_daemon.iter().filter(|request| !is_bookkeeping(request)).collect::<Vec<_>>(),
        Vec::<&audit::Request>::new()
    );
    cluster.close().await.unwrap();
}

/// By one process that starts. The lease is read for as long as another process holds it.
fn assert_nothing_is_read_twice<'a>(requests: impl Iterator<Item = &'a audit::Request>) {
    let (mut reads, mut number) = (BTreeMap::<String, Vec<String>>::new(), 0);
    for request in requests.filter(|request| request.resource != "leases") {
        number += 1;
        if !request.is_write() {
            reads.entry(request.object()).or_default().push(format!("{} {}", request.verb, request.code));
        }
    }
    println!("requests of a start: {number}");
    // A server without initial events is asked for them once, then for a list and for what follows.
    let most = if is_oldest_kubernetes() { 3 } else { 1 };
    reads.retain(|_, reads| reads.len() > most);
    assert!(reads.is_empty(), "{reads:#?}");
}

/// The API server's own count of successful writes of all users, by verb and resource (`PUT deployments/status`).
async fn write_counts(client: &Client) -> BTreeMap<String, u64> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let (labels, value) = line.rsplit_once(' ').unwrap();
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0
        };
        let written =
            ["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&label("verb")) && label("code").starts_with('2');
        if written {
            let slash = if label("subresource").is_empty() { "" } else { "/" };
            let key = format!("{} {}{slash}{}", label("verb"), label(",resource"), label("subresource"));
            *counts.entry(key).or_default() += value.parse::<f64>().unwrap() as u64;
        }
    }
    counts
}

/// Sets the colour to red whenever it is blue, as field manager `rival`.
async fn contest(client: Client, namespace: &'static str, turns: Arc<AtomicU32>) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let mut states = changes(maps.clone(), Config::default().fields("metadata.name=settings"));
    let params = PatchParams { field_manager: Some("rival".into()), ..PatchParams::default() };
    while let Some(map) = states.next().await {
        if colour(&map) == Some("blue") {
            maps.patch("settings", &params, &Patch::Merge(json!({"data": {"colour": "red"}}))).await.unwrap();
            turns.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn colour(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get("colour").map(String::as_str)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn conflict_is_reported_and_repairs_back_off() {
    /// How long the rival undoes the repairs.
    const CONFLICT: Duration = Duration::from_secs(10);
    /// Two repairs at once, then more after pauses of at least 1, 2, 4, and 8 seconds: the sixth after 15 s.
    const MOST_WRITES: usize = 5;

    let (cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let begun = Timestamp::now();
    let turns = Arc::new(AtomicU32::new(0));
    let rival = tokio::spawn(contest(cluster.client.clone(), "gamma", turns.clone()));
    cluster
        .until("the conflict to be reported", |object| {
            object
                .condition("Contested=True")
                .is_some_and(|c| c.message.contains("\"rival\"") && c.message.contains("data.colour"))
        })
        .await
        .unwrap();
    // The length of the conflict is part of the test.
    let left = CONFLICT.saturating_sub(Timestamp::now().duration_since(begun).unsigned_abs());
    tokio::time::sleep(left).await;
    let writes = cluster.writes().unwrap();
    rival.abort();
    let repairs = writes
        .iter()
        .filter(|write| write.at > begun && write.namespace == "gamma" && write.name == "settings")
        .count();
    println!("{repairs} repairs against {} turns of the rival", turns.load(Ordering::Relaxed));
    assert!((3..=MOST_WRITES).contains(&repairs), "{repairs} repairs in {CONFLICT:?}: {writes:?}");

    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "gamma");
    cluster
        .until_object("the object to be as desired once the rival has stopped", maps, "settings", LIMIT, |map| {
            map.and_then(colour) == Some("blue")
        })
        .await
        .unwrap();
    cluster.close().await.unwrap();
}

/// Wants two replicas whenever there is another number of them, as an autoscaler does.
async fn scale(client: Client, name: &'static str, turns: Arc<AtomicU32>) {
    let deployments: Api<Deployment> = Api::namespaced(client, name);
    let mut states = changes(deployments.clone(), Config::default().fields(&format!("metadata.name={name}")));
    while let Some(found) = states.next().await {
        if found.spec.is_some_and(|spec| spec.replicas != Some(2)) {
            let scaled = Patch::Merge(json!({"spec": {"replicas": 2}}));
            deployments.patch_scale(name, &PatchParams::default(), &scaled).await.unwrap();
            turns.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A client that reverts two ConfigMaps at once, and an autoscaler of a Deployment of the release.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn objects_that_others_keep_changing_do_not_hold_up_an_update() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    let turns = [(); 3].map(|()| Arc::new(AtomicU32::new(0)));
    let [one, other, scaled] = turns.clone();
    let rivals = [
        tokio::spawn(contest(cluster.client.clone(), "beta", one)),
        tokio::spawn(contest(cluster.client.clone(), "gamma", other)),
        tokio::spawn(scale(cluster.client.clone(), "beta", scaled)),
    ];
    let asked = Timestamp::now();
    cluster.request(&releases[1]).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    let took = Timestamp::now().duration_since(asked);
    let turns = turns.map(|turns| turns.load(Ordering::Relaxed));
    println!("completed after {:.1} s, while rivals had {turns:?} turns", took.as_secs_f64());
    assert!(turns.iter().all(|turns| *turns >= 2), "{turns:?}");
    let all = ["beta/settings", "gamma/settings", "beta/beta"];
    let named = |object: &ClusterVersion| object.says("Contested=True", &all);
    let object = cluster.until("each of them to be named", named).await.unwrap();
    println!("{}", object.condition("Contested=True").unwrap().message);
    rivals.iter().for_each(tokio::task::JoinHandle::abort);
    cluster.close().await.unwrap();
}
