//! The client `oc`: what it reads is right at any time, and what it sends is carried out.
//!
//! The requests that `oc` sends are also sent by the test itself, so that nothing here depends on `oc`. With
//! `OC=/path/to/oc` in the environment the same is done by that program, and what it says must fit.

mod changes;
mod checklist;
mod commands;
mod risks;
mod scenario;
mod views;

use cvo::testing::api::{ClusterOperator, ClusterVersion, HistoryState};
use kube::Api;
use serde_json::json;

use checklist::Situation;
use e2e::administrator::{self, Administrator, oc};
use e2e::conditions::Conditions;
use e2e::harness::audit;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::releases::Release;
use scenario::Scenario;

/// Of 1.0.0.
const UPDATES: (&[&str], &[&str]) = (&["1.1.0", "1.0.4", "1.0.1"], &["1.0.4", "1.0.3", "1.0.2"]);
/// Of 1.0.1.
const NEXT_UPDATES: (&[&str], &[&str]) = (&["1.1.0", "1.0.4"], &["1.0.4", "1.0.3", "1.0.2"]);

#[tokio::test(flavor = "multi_thread")]
async fn oc_finds_every_field_it_relies_on() {
    let scenario = Scenario::installed().await.unwrap();
    let (first, next) = (scenario.release("1.0.0"), scenario.release("1.0.1"));
    let installed = Situation {
        name: "installed, without an update service",
        release: first,
        progressing: "False",
        failing: "False",
        accepted: "True",
        retrieved: "False",
        updates: None,
    };
    installed.check(&scenario).await;
    views::tables_show(&scenario, "1.0.0").await;

    scenario.name_update_service().await;
    scenario.until_judged().await;
    let offered = Situation { name: "with updates", retrieved: "True", updates: Some(UPDATES), ..installed };
    offered.check(&scenario).await;

    scenario.cluster.simulation.hold("beta");
    let ours = Administrator::Ours(scenario.cluster.client.clone());
    ours.run(oc("adm upgrade --to 1.0.1").asks("1.0.1", &next.image)).await;
    until_beta_is_waited_for(&scenario.cluster, next).await;
    let updated = Situation { release: next, ..offered };
    let updating = Situation { name: "updating", progressing: "True", updates: Some(NEXT_UPDATES), ..updated };
    scenario.until_judged().await;
    updating.check(&scenario).await;
    operators_say_what_has_been_rolled_out(&scenario.cluster).await;

    scenario.cluster.simulation.release("beta");
    scenario.cluster.completed(next).await.unwrap();
    scenario.until_judged().await;
    let updated = Situation { name: "updated", updates: Some(NEXT_UPDATES), ..updated };
    updated.check(&scenario).await;
    views::tables_show(&scenario, "1.0.1").await;

    views::break_beta(&scenario).await;
    Situation { name: "failing", failing: "True", ..updated }.check(&scenario).await;
    views::mend_beta(&scenario).await;

    let unsigned = scenario.unsigned("1.0.5");
    ours.run(oc("adm upgrade --to-image").asks("", &unsigned.image)).await;
    until_refused(&scenario.cluster, &unsigned).await;
    Situation { name: "after a refused request", accepted: "False", ..updated }.check(&scenario).await;
    ours.run(oc("adm upgrade --clear").sends(json!({"spec": {"desiredUpdate": null}}))).await;
    let accepted = |object: &ClusterVersion| object.has("ReleaseAccepted=True");
    scenario.cluster.until("the request to be forgotten", accepted).await.unwrap();
    Situation { name: "after it was withdrawn", ..updated }.check(&scenario).await;
    scenario.recording.check_times();
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn oc_requests_are_carried_out() {
    let scenario = Scenario::installed().await.unwrap();
    let ours = Administrator::Ours(scenario.cluster.client.clone());
    carries_out(&scenario, &ours).await;
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn oc_itself_is_served() {
    let Some(program) = administrator::program() else { return };
    let scenario = Scenario::installed().await.unwrap();
    let oc = Administrator::oc(program, &scenario.cluster.control_plane);
    carries_out(&scenario, &oc).await;
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_cvo_do_what_those_of_oc_do() {
    let scenario = Scenario::installed().await.unwrap();
    let (client, kubeconfig) = (scenario.cluster.client.clone(), scenario.cluster.control_plane.kubeconfig());
    let cvo = Administrator::Cvo { client, kubeconfig };
    carries_out(&scenario, &cvo).await;
    cvo.waits_for("1.1.0", 0).await;
    cvo.waits_for("9.9.9", 4).await;
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn oc_requests_accept_risks() {
    let scenario = Scenario::installed().await.unwrap();
    let ours = Administrator::Ours(scenario.cluster.client.clone());
    accepts_risks(&scenario, &ours).await;
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn oc_itself_accepts_risks() {
    let Some(program) = administrator::program() else { return };
    let scenario = Scenario::installed().await.unwrap();
    let oc = Administrator::oc(program, &scenario.cluster.control_plane);
    accepts_risks(&scenario, &oc).await;
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn oc_itself_shows_the_cluster() {
    let Some(program) = administrator::program() else { return };
    let scenario = Scenario::installed().await.unwrap();
    let oc = Administrator::oc(program, &scenario.cluster.control_plane);
    scenario.name_update_service().await;
    scenario.until_judged().await;
    views::add_nodes(&scenario).await;
    views::of_a_cluster_at_rest(&oc).await;
    views::of_a_failing_cluster(&scenario, &oc).await;
    views::of_an_update(&scenario, &oc).await;
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn oc_requests_change_an_update() {
    let scenario = Scenario::installed().await.unwrap();
    let ours = Administrator::Ours(scenario.cluster.client.clone());
    changes_an_update(&scenario, &ours).await;
    scenario.cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn oc_itself_changes_an_update() {
    let Some(program) = administrator::program() else { return };
    let scenario = Scenario::installed().await.unwrap();
    let oc = Administrator::oc(program, &scenario.cluster.control_plane);
    changes_an_update(&scenario, &oc).await;
    scenario.cluster.close().await.unwrap();
}

async fn changes_an_update(scenario: &Scenario, who: &Administrator) {
    scenario.name_update_service().await;
    scenario.until_judged().await;
    changes::of_the_release(scenario, who).await;
    changes::of_the_architecture(scenario, who).await;
    changes::to_an_image_that_no_graph_has(scenario, who).await;
    scenario.recording.check_agreement();
    scenario.recording.check_times();
}

/// Version and state of all history entries, newest first.
fn versions(object: &ClusterVersion) -> Vec<(String, HistoryState)> {
    let history = &object.status.as_ref().unwrap().history;
    history.iter().map(|entry| (entry.version.clone(), entry.state)).collect()
}

async fn accepts_risks(scenario: &Scenario, who: &Administrator) {
    scenario.name_update_service().await;
    scenario.until_judged().await;
    risks::are_refused_while_the_gate_is_off(scenario, who).await;
    risks::are_accepted_by_name(scenario, who).await;
    risks::let_an_update_pass(scenario, who).await;
    risks::of_the_cluster_are_told_once(scenario, who).await;
    scenario.recording.check_times();
}

async fn carries_out(scenario: &Scenario, who: &Administrator) {
    commands::without_an_update_service(who).await;
    scenario.name_update_service().await;
    scenario.until_judged().await;
    commands::looking_at_updates(who).await;
    commands::choosing_a_channel(scenario, who).await;
    commands::asking_in_vain(who).await;
    commands::another_architecture(scenario, who).await;
    commands::an_unsigned_image(scenario, who).await;
    commands::an_image_from_a_mirror(scenario, who).await;
    commands::back_to_the_release_before(scenario, who).await;
    commands::a_risk_that_applies(scenario, who).await;
    commands::the_latest_release(scenario, who).await;
    scenario.recording.check_agreement();
    scenario.recording.check_times();
}

/// Everything is done that does not wait for the component that is held.
async fn until_beta_is_waited_for(cluster: &SimulatedCluster, release: &Release) {
    cluster
        .until_progress("beta to be waited for", |progress| {
            let node = |name: &str| progress.nodes.iter().find(|node| node.id.ends_with(name));
            let waiting = node("/beta").is_some_and(|node| node.waiting.iter().any(|w| w.kind == "ClusterOperator"));
            let beside = node("/gamma").is_some_and(|node| node.done == node.total);
            progress.release.image == release.image && waiting && beside
        })
        .await
        .unwrap();
    let told = |object: &ClusterVersion| {
        object.condition("Progressing=True").is_some_and(|c| c.message.ends_with("waiting on beta"))
    };
    cluster.until("status to name beta", told).await.unwrap();
}

async fn until_refused(cluster: &SimulatedCluster, release: &Release) -> String {
    let refusal = |object: &ClusterVersion| {
        let refused = object.condition("ReleaseAccepted=False")?.message;
        refused.contains(&release.image).then_some(refused)
    };
    let object = cluster.until("the release to be refused", |object| refusal(object).is_some()).await.unwrap();
    refusal(&object).unwrap()
}

/// Each has the annotations of its manifest, and the version of the release only once it has been rolled out.
async fn operators_say_what_has_been_rolled_out(cluster: &SimulatedCluster) {
    let operators: Api<ClusterOperator> = Api::all(cluster.client.clone());
    for (name, version) in [("alpha", "1.0.1"), ("beta", "1.0.0"), ("delta", "1.0.0")] {
        let operator = operators.get(name).await.unwrap();
        let annotations = operator.metadata.annotations.unwrap_or_default();
        let included = annotations.get("include.release.openshift.io/self-managed-high-availability");
        assert_eq!(included.map(String::as_str), Some("true"), "{name}: metadata.annotations");
        let versions = operator.status.unwrap_or_default().versions;
        let operator = versions.iter().find(|of| of.name == "operator");
        assert_eq!(operator.map(|of| of.version.as_str()), Some(version), "{name}: status.versions[operator]");
    }
    // What an operator has reached only the operator says.
    let requests = cluster.requests().unwrap();
    let reported = requests.iter().filter(|r| r.wrote() && r.resource_path() == "clusteroperators/status");
    assert_eq!(reported.collect::<Vec<_>>(), Vec::<&audit::Request>::new());
}
