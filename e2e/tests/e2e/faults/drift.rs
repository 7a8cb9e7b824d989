//! What other hands change comes back by watch, a pass over what is as wanted writes nothing, and somebody who insists
//! does not cause a storm.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use cvo::api::progress::NodeState;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

use e2e::{
    harness::audit,
    theatre::{PATIENCE, Theatre, counts, says},
};

/// Far below every period of the daemon, and long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(10);

/// A managed object and what another hand does to it.
struct Drift {
    version: &'static str,
    kind: &'static str,
    namespace: &'static str,
    name: &'static str,
    /// Where the change is, and what the release says there.
    field: (&'static str, Value),
    /// The merge patch; deletion when there is none.
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

    fn is_as_wanted(&self, object: &DynamicObject) -> bool {
        let object = serde_json::to_value(object).unwrap();
        object.pointer(self.field.0) == Some(&self.field.1) && object.pointer("/metadata/deletionTimestamp").is_none()
    }

    /// Makes the change and waits until it is undone.
    async fn play(&self, theatre: &Theatre) {
        let api = self.api(&theatre.client);
        let before = api.get(self.name).await.unwrap();
        assert!(self.is_as_wanted(&before), "{} {} at the beginning: {before:?}", self.kind, self.name);
        let what = match &self.change {
            Some(patch) => {
                let params = PatchParams { field_manager: Some("vandal".into()), ..PatchParams::default() };
                let changed = api.patch(self.name, &params, &Patch::Merge(patch)).await.unwrap();
                assert!(!self.is_as_wanted(&changed), "the change has to be one: {changed:?}");
                format!("{} {} to be changed back", self.kind, self.name)
            }
            None => {
                api.delete(self.name, &DeleteParams::default()).await.unwrap();
                format!("{} {} to be there again", self.kind, self.name)
            }
        };
        let (uid, deleted) = (before.metadata.uid, self.change.is_none());
        let back = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| self.is_as_wanted(object) && (object.metadata.uid != uid) == deleted)
        };
        let took = theatre.until_object(&what, api, self.name, SOON, back).await;
        println!("{what}: {} ms", took.as_millis());
    }
}

fn drifts() -> Vec<Drift> {
    let table = [
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
    ];
    let drift =
        |(version, kind, namespace, name, field, change)| Drift { version, kind, namespace, name, field, change };
    table.into_iter().map(drift).collect()
}

/// §10.21: drift on a live cluster.
#[tokio::test(flavor = "multi_thread")]
async fn changed_and_deleted_objects_come_back_by_watch() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    let begun = Timestamp::now();
    for drift in drifts() {
        drift.play(&theatre).await;
    }
    let lists = || {
        let later = theatre.requests().into_iter().filter(|request| request.at > begun);
        later.filter(|request| request.verb == "list").collect::<Vec<_>>()
    };
    assert_eq!(lists(), Vec::new(), "nothing was read again as a whole");

    // With its definition a custom object goes as well, and both come back.
    let widget = Api::<DynamicObject>::namespaced_with(
        theatre.client.clone(),
        "alpha",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("lab.example.com", "v1", "Widget")),
    );
    let uid = widget.get("first").await.unwrap().metadata.uid;
    let definition = drifts().into_iter().find(|drift| drift.kind == "CustomResourceDefinition").unwrap();
    Drift { change: None, ..definition }.play(&theatre).await;
    // A watch of a kind that is not served ends, so polling the object is what is left.
    let mut back = false;
    let deadline = std::time::Instant::now() + PATIENCE;
    while !back {
        let found = widget.get_opt("first").await.ok().flatten();
        back = found.is_some_and(|found| found.metadata.uid != uid && found.data["spec"]["release"] == "1.0.0");
        if std::time::Instant::now() > deadline {
            theatre.give_up("the Widget to be there again").await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let foreign: Vec<_> = lists().into_iter().filter(|list| list.resource != "widgets").collect();
    assert_eq!(foreign, Vec::new(), "only the kind that was gone is read again");
    theatre.close().await;
}

/// §10.22: also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_pass_writes_nothing() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    theatre.ask_for(&releases[1]).await;
    theatre.completed(&releases[1]).await;
    // The old daemon may still write its record between the count and its end.
    let counted = Timestamp::now();
    let before = counts::write_counts(&theatre.client).await;
    let restarted = Timestamp::now();
    theatre.restart_daemon().await;
    theatre
        .until_progress("the second pass to be over", |progress| {
            let fresh = progress.pass.started.is_some_and(|started| started > restarted);
            fresh && !progress.nodes.is_empty() && progress.nodes.iter().all(|node| node.state == NodeState::Done)
        })
        .await;

    let after = counts::write_counts(&theatre.client).await;
    let grown = after.iter().filter_map(|(key, count)| {
        let more = count - before.get(key).copied().unwrap_or(0);
        (more > 0).then(|| (key.clone(), more))
    });
    let grown: std::collections::BTreeMap<String, u64> = grown.collect();
    println!("writes by the API server's count: {grown:?}");
    let of_daemon: Vec<_> = theatre.requests().into_iter().filter(|r| r.at > counted && r.wrote()).collect();
    let records = of_daemon.iter().filter(|request| request.name == "cluster-version-progress").count() as u64;
    let told = of_daemon.iter().filter(|request| request.resource == "events").count();
    assert!(told <= 1, "one event says that the release was loaded: {of_daemon:?}");
    for (key, count) in &grown {
        let allowed = match key.as_str() {
            "PUT leases" | "PUT clusterversions/status" => *count,
            "PUT configmaps" => records.min(*count),
            // The played node's heartbeat, and events, among them of controllers about what came before.
            "PATCH leases" | "PATCH nodes/status" | "POST events" | "PATCH events" => *count,
            // A controller that still settles, as the one of the own Deployment does when the daemon is replaced.
            status
                if status.ends_with("/status") && !of_daemon.iter().any(|r| status.ends_with(&r.resource_path())) =>
            {
                *count
            }
            _ => 0,
        };
        assert_eq!(*count, allowed, "{key}: {grown:?}");
    }
    assert_eq!(
        of_daemon.iter().filter(|request| !request.is_bookkeeping()).collect::<Vec<_>>(),
        Vec::<&audit::Request>::new()
    );
    theatre.close().await;
}

/// Sets the colour to red whenever it is blue, as field manager `rival`.
async fn insist(client: Client, turns: Arc<AtomicU32>) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "gamma");
    let config = watcher::Config::default().fields("metadata.name=settings");
    let mut events = watcher(maps.clone(), config).default_backoff().boxed();
    let params = PatchParams { field_manager: Some("rival".into()), ..PatchParams::default() };
    while let Some(event) = events.next().await {
        let Ok(watcher::Event::Apply(map) | watcher::Event::InitApply(map)) = event else { continue };
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
async fn a_fight_is_named_and_stays_slow() {
    /// How long the rival insists.
    const FIGHT: Duration = Duration::from_secs(20);
    /// Two repairs at once, then after pauses of at least 1, 2, 4, 8 and 16 seconds: the seventh comes after 31 s.
    const MOST_WRITES: usize = 6;

    let (mut theatre, releases) = Theatre::open(&["1.0.0"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    let begun = Timestamp::now();
    let turns = Arc::new(AtomicU32::new(0));
    let rival = tokio::spawn(insist(theatre.client.clone(), turns.clone()));
    theatre
        .until("the fight to be named", |object| {
            says(object, "Contested", "True")
                .is_some_and(|c| c.message.contains("\"rival\"") && c.message.contains("data.colour"))
        })
        .await;
    // The length of the fight is what is tried.
    let left = FIGHT.saturating_sub(Timestamp::now().duration_since(begun).unsigned_abs());
    tokio::time::sleep(left).await;
    let writes = theatre.writes();
    rival.abort();
    let repairs = writes
        .iter()
        .filter(|write| write.at > begun && write.namespace == "gamma" && write.name == "settings")
        .count();
    println!("{repairs} repairs against {} turns of the rival", turns.load(Ordering::Relaxed));
    assert!((3..=MOST_WRITES).contains(&repairs), "{repairs} repairs in {FIGHT:?}: {writes:?}");

    let maps: Api<ConfigMap> = Api::namespaced(theatre.client.clone(), "gamma");
    theatre
        .until_object("the object to be as wanted once the rival is gone", maps, "settings", PATIENCE, |map| {
            map.and_then(colour) == Some("blue")
        })
        .await;
    theatre.close().await;
}
