//! What an update waits for is reconciled like everything else, and a later process knows how long it was waited for.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use cvo::testing::api::{
    ClusterOperator, ClusterVersion, HistoryState, NAMESPACE,
    progress::{CONFIG_MAP, KEY, NodeState, Progress},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    },
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use e2e::conditions::Conditions;
use e2e::simulator::requests::is_bookkeeping;
use e2e::until::until;
use e2e::{
    harness::audit::Request,
    simulator::{cluster::SimulatedCluster, history::is_signed},
};

/// Far below every period of the daemon, and long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(30);
const CLOCK: &str = "clusteroperator/delta";

/// Since when the operator is waited for; `None` if it is not.
fn waiting_since(progress: &Progress) -> Option<Timestamp> {
    let mut waiting = progress.nodes.iter().flat_map(|node| &node.waiting);
    let waits = waiting.any(|waiting| waiting.kind == "ClusterOperator" && waiting.name == "delta");
    progress.clocks.get(CLOCK).copied().filter(|_| waits && progress.release.version == "1.0.1")
}

/// Waits until a rollout that began later than that waits for the operator, and returns since when.
async fn wait_begun(cluster: &SimulatedCluster, later_than: Option<Timestamp>) -> Timestamp {
    let since = Mutex::new(None);
    let found = |progress: &Progress| {
        *since.lock().unwrap() = waiting_since(progress).filter(|_| progress.rollout.started > later_than);
        since.lock().unwrap().is_some()
    };
    cluster.until_progress("the operator to be waited for", found).await.unwrap();
    let since = since.into_inner().unwrap();
    since.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn awaited_operator_is_restored_and_its_clock_continues() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    let since = wait_begun(&cluster, None).await;

    let operators: Api<ClusterOperator> = Api::all(cluster.client.clone());
    let waited = operators.get("delta").await.unwrap();
    operators.delete("delta", &DeleteParams::default()).await.unwrap();
    let recreated =
        |object: Option<&ClusterOperator>| object.is_some_and(|object| object.metadata.uid != waited.metadata.uid);
    let (_, took) =
        cluster.until_object("the operator to be created again", operators, "delta", SOON, recreated).await.unwrap();
    println!("restored while it was waited for within {} ms", took.as_millis());

    let crashed = Timestamp::now();
    cluster.node.crash().await.unwrap();
    assert_eq!(wait_begun(&cluster, Some(crashed)).await, since, "a restart does not hide a slow operator");
    cluster.simulation.release("delta");
    cluster.completed(&releases[1]).await.unwrap();
    cluster.close().await.unwrap();
}

/// The last operator of an update drains one node after another, so pods of updated components move at that time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn moving_pods_are_waited_for_without_being_a_failure() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    wait_begun(&cluster, None).await;

    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let cordon = json!({"spec": {"unschedulable": true}});
    nodes.patch("fake-0", &PatchParams::default(), &Patch::Merge(&cordon)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "alpha");
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "alpha");
    let available =
        |object: Option<&Deployment>| object.and_then(|o| o.status.as_ref()?.available_replicas).unwrap_or(0);
    let unavailable = |object: Option<&Deployment>| available(object) == 0;
    cluster.until_object("the pods to be unavailable", deployments.clone(), "alpha", SOON, unavailable).await.unwrap();
    // An update says what it waits for.
    let reported = |object: &ClusterVersion| object.says("Progressing=True", &["alpha"]);
    cluster.until("the moving pods to be reported", reported).await.unwrap();

    cluster.simulation.release("delta");
    let done = |progress: &Progress| progress.nodes.iter().all(|node| node.state == NodeState::Done);
    cluster.until_progress("all nodes to be done", done).await.unwrap();
    let waiting = cluster.until("the moving pods to be still reported", reported).await.unwrap();
    assert!(waiting.has("Failing=False"), "{:?}", waiting.status);
    assert_eq!(newest(&waiting), HistoryState::Partial);

    let uncordon = json!({"spec": {"unschedulable": false}});
    nodes.patch("fake-0", &PatchParams::default(), &Patch::Merge(&uncordon)).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    assert!(available(Some(&deployments.get("alpha").await.unwrap())) > 0);
    cluster.close().await.unwrap();
}

fn newest(object: &ClusterVersion) -> HistoryState {
    object.status.as_ref().unwrap().history[0].state
}

/// An admission policy that refuses some requests. It counts only a moment after it was created: until `probe`, a dry run
/// of such a request, is refused by it.
struct Refusal {
    client: Client,
}

const REFUSAL: &str = "refusal";

impl Refusal {
    async fn of(client: &Client, rule: Value, allowed: &str, probe: impl AsyncFn() -> kube::Result<()>) -> Refusal {
        let policy = json!({"metadata": {"name": REFUSAL}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": allowed, "message": "not today"}]}});
        let binding = json!({"metadata": {"name": REFUSAL},
            "spec": {"policyName": REFUSAL, "validationActions": ["Deny"]}});
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
        policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
        // Nothing tells when a policy counts.
        let refused = async || match probe().await {
            Err(error) if error.to_string().contains("not today") => Ok(()),
            other => Err(format!("{other:?}")),
        };
        until("the policy to count", SOON).answer(refused).await.unwrap();
        Refusal { client: client.clone() }
    }

    async fn end(self) {
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        bindings.delete(REFUSAL, &DeleteParams::default()).await.unwrap();
        policies.delete(REFUSAL, &DeleteParams::default()).await.unwrap();
    }
}

/// Refuses to create the ConfigMap `settings` in namespace `beta`.
async fn refuse_settings(client: &Client) -> Refusal {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
        "resourceNames": ["settings"]});
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "beta");
    let settings: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "settings"}})).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let create = async || maps.create(&dry_run, &settings).await.map(drop);
    Refusal::of(client, rule, "object.metadata.namespace != 'beta'", create).await
}

/// Whatever happens after the first write of an update: its history, with `verified` and the risks that were accepted,
/// is known to the next process.
#[tokio::test(flavor = "multi_thread")]
async fn update_writes_nothing_before_its_history_entry() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    let rule = json!({"apiGroups": ["config.openshift.io"], "apiVersions": ["v1"],
        "resources": ["clusterversions/status"], "operations": ["UPDATE"]});
    let allowed = "!has(object.status.history) || object.status.history[0].version != '1.0.1'";
    let versions = cluster.versions();
    let before = versions.get("version").await.unwrap();
    let mut entry = before.status.clone().unwrap().history.remove(0);
    entry.version = "1.0.1".into();
    let patch = Patch::Merge(json!({"status": {"history": [entry]}}));
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    let probe = async || versions.patch_status("version", &dry_run, &patch).await.map(drop);
    let refusal = Refusal::of(&cluster.client, rule, allowed, probe).await;
    let begun = Timestamp::now();
    cluster.request(&releases[1]).await.unwrap();
    let since = || cluster.requests().unwrap().into_iter().filter(|request| request.at > begun);
    let refused = |request: &Request| request.resource_path() == "clusterversions/status" && request.code == 422;
    // The audit log tells nobody that it has grown.
    let tried = async || since().filter(refused).count() >= 3;
    cluster.wait("the daemon to try to write the status").within(SOON).holds(tried).await.unwrap();
    let wrote = |request: &Request| request.wrote() && !is_bookkeeping(request);
    let of_update = |request: &Request| request.namespace != NAMESPACE && wrote(request);
    assert_eq!(since().filter(of_update).collect::<Vec<_>>(), [], "nothing of the release");
    refusal.end().await;
    let updated = cluster.completed(&releases[1]).await.unwrap();
    assert_eq!((newest(&updated), is_signed(&updated.status.unwrap().history[0])), (HistoryState::Completed, true));
    assert!(since().any(|request| of_update(&request)));
    cluster.close().await.unwrap();
}

/// What broke after its turn is waited for by name, and nothing is recorded Completed before.
#[tokio::test(flavor = "multi_thread")]
async fn update_does_not_complete_while_something_fails_again() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    wait_begun(&cluster, None).await;

    let refusal = refuse_settings(&cluster.client).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "beta");
    maps.delete("settings", &DeleteParams::default()).await.unwrap();
    cluster.simulation.hold("alpha");
    let operators: Api<ClusterOperator> = Api::all(cluster.client.clone());
    let condition = |status: &str| {
        let condition = |type_, status| {
            json!({"type": type_, "status": status, "reason": "Broken", "message": "it broke",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        json!({"status": {"conditions": [condition("Available", status), condition("Degraded", "False")]}})
    };
    let patch = async |status| {
        let patch = Patch::Merge(condition(status));
        operators.patch_status("alpha", &PatchParams::default(), &patch).await.unwrap()
    };
    patch("False").await;
    cluster.simulation.release("delta");

    let names = |object: &ClusterVersion, names: &[&str]| {
        object.condition("Failing=True").is_some_and(|c| names.iter().all(|name| c.message.contains(name)))
    };
    let done = |progress: &Progress| progress.nodes.iter().all(|node| node.state == NodeState::Done);
    cluster.until_progress("all nodes to be done", done).await.unwrap();
    let both = |object: &ClusterVersion| names(object, &["alpha", "beta/settings", "not today"]);
    let failing = cluster.until("both to be named", both).await.unwrap();
    assert_eq!(newest(&failing), HistoryState::Partial, "{:?}", failing.status);

    patch("True").await;
    let one = |object: &ClusterVersion| names(object, &["beta/settings"]) && !names(object, &["alpha"]);
    let failing = cluster.until("one to be named", one).await.unwrap();
    assert_eq!(newest(&failing), HistoryState::Partial, "{:?}", failing.status);
    refusal.end().await;
    let completed = cluster.completed(&releases[1]).await.unwrap();
    assert!(completed.has("Failing=False"), "{:?}", completed.status);
    assert!(maps.get_opt("settings").await.unwrap().is_some());
    cluster.close().await.unwrap();
}

/// The namespaced Role comes before the Deployment that is to use it.
fn role(verbs: &[&str]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "beta", "namespace": "beta", "annotations": included()},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    })
}

fn included() -> Value {
    json!({"include.release.openshift.io/self-managed-high-availability": "true"})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn manifest_that_waits_for_a_webhook_holds_its_component_and_nothing_else() {
    /// How long nobody answers for the webhook.
    const AWAY: Duration = Duration::from_secs(10);

    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    for (release, verbs) in releases.iter().zip([&["get"][..], &["get", "list"]]) {
        release.put("0000_20_beta_35_role.json", &role(verbs).to_string()).unwrap();
    }
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let absent = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "absent"},
        "webhooks": [{
            "name": "absent.example.com", "clientConfig": {"url": "https://127.0.0.1:1/x"}, "failurePolicy": "Fail",
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
            "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["roles"]}],
        }],
    });
    webhooks.create(&PostParams::default(), &serde_json::from_value(absent).unwrap()).await.unwrap();
    let asked = Timestamp::now();
    cluster.request(&releases[1]).await.unwrap();
    let named = |object: &ClusterVersion| object.says("Failing=True", &["absent.example.com"]);
    cluster.until("the webhook to be named", named).await.unwrap();
    let done = |progress: &Progress| {
        progress.nodes.iter().any(|node| node.id.ends_with("/gamma") && node.state == NodeState::Done)
    };
    cluster.until_progress("the component beside it to be done", done).await.unwrap();
    // How long it is away is part of the test.
    let left = AWAY.saturating_sub(Timestamp::now().duration_since(asked).unsigned_abs());
    tokio::time::sleep(left).await;
    let writes = |resource: &str| -> Vec<Timestamp> {
        let writes = cluster.writes().unwrap();
        let of = |write: &&Request| write.at > asked && write.resource == resource && write.namespace == "beta";
        writes.iter().filter(of).filter(|write| write.code < 300).map(|write| write.at).collect()
    };
    assert_eq!(
        (writes("roles"), writes("deployments")),
        (Vec::new(), Vec::new()),
        "nothing that may need it is written"
    );

    let back = Timestamp::now();
    webhooks.delete("absent", &DeleteParams::default()).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    println!("completed {:.1} s after the webhook was gone", Timestamp::now().duration_since(back).as_secs_f64());
    assert!(writes("roles")[0] < writes("deployments")[0], "the order of the files is that of the writes");
    cluster.close().await.unwrap();
}

/// Of the component beta.
fn daemon_set(name: &str) -> Value {
    let container = json!({"name": "main", "image": "registry.invalid/lab@sha256:00",
        "terminationMessagePolicy": "FallbackToLogsOnError"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "beta", "annotations": included()},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [container]},
        }},
    })
}

/// Its pods find no room, so that it is never rolled out.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn workload_that_takes_too_long_is_told_by_a_later_process_too() {
    const KEY_OF_CLOCK: &str = "daemonset/beta/stuck";

    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let mut stuck = daemon_set("stuck");
    stuck["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100000"}});
    releases[1].put("0000_20_beta_45_daemonset.json", &stuck.to_string()).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    cluster.request(&releases[1]).await.unwrap();
    let waits = |progress: &Progress| progress.clocks.contains_key(KEY_OF_CLOCK);
    cluster.until_progress("the DaemonSet to be waited for", waits).await.unwrap();
    let object = cluster.until("nothing to fail", |object| object.has("Failing=False"));
    object.await.unwrap();

    // As if half an hour had passed, which a process that is killed leaves to the next one.
    let records: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let record = records.get(CONFIG_MAP).await.unwrap().data.unwrap()[KEY].clone();
    let mut record: Value = serde_json::from_str(&record).unwrap();
    record["clocks"][KEY_OF_CLOCK] = json!(Timestamp::now() - jiff::SignedDuration::from_mins(31));
    let backdated = Patch::Merge(json!({"data": {KEY: record.to_string()}}));
    records.patch(CONFIG_MAP, &PatchParams::default(), &backdated).await.unwrap();
    cluster.node.crash().await.unwrap();
    let slow = |object: &ClusterVersion| {
        object.condition("Failing=Unknown").is_some_and(|told| {
            told.reason == "SlowResource" && told.message.contains("daemonset.apps \"beta/stuck\" is rolling out")
        })
    };
    let object = cluster.until("it to be told as slow", slow).await.unwrap();
    println!("{}", object.condition("Progressing=True").unwrap().message);
    cluster.close().await.unwrap();
}

/// Its kubelet does not run, so that the pod that the DaemonSet has there does not begin.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn node_that_is_not_ready_is_named_behind_the_daemon_set_that_waits_for_it() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let mut agents = daemon_set("agents");
    agents["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    releases[1].put("0000_20_beta_45_daemonset.json", &agents.to_string()).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let room = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
    // No other pods are sent there.
    let spec = json!({"taints": [{"key": "dead", "effect": "NoSchedule"}]});
    let status = json!({"capacity": room, "allocatable": room});
    let dead = json!({"metadata": {"name": "dead"}, "spec": spec, "status": status});
    let dead: Node = serde_json::from_value(dead).unwrap();
    nodes.create(&PostParams::default(), &dead).await.unwrap();
    cluster.request(&releases[1]).await.unwrap();
    let waits = |progress: &Progress| progress.clocks.contains_key("daemonset/beta/agents");
    cluster.until_progress("the DaemonSet to be waited for", waits).await.unwrap();
    let (said, took) = cluster.status_says(&["pod beta/agents-", "node dead has had it since"], &[]).await.unwrap();
    println!("named after {} s:\n{said}", took.as_secs());
    let object = cluster.until("nothing to fail", |object| object.has("Failing=False"));
    object.await.unwrap();
    let begun = Instant::now();
    nodes.delete("dead", &DeleteParams::default()).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    println!("completed {} s after the node was gone", begun.elapsed().as_secs());
    cluster.close().await.unwrap();
}
