//! What an administrator asks for, one command after the other, and what the daemon makes of it.

use cvo::testing::api::{ClusterVersion, HistoryEntry};
use serde_json::json;

use e2e::administrator::{Administrator, oc};
use e2e::conditions::Conditions;
use e2e::simulator::releases::Release;

use super::scenario::Scenario;
use super::{until_beta_is_waited_for, until_refused};

const NOTHING: &str = "adm upgrade --clear";

/// The daemon has nothing to retrieve: the release that runs is accepted.
pub(super) async fn until_at_rest(scenario: &Scenario) -> ClusterVersion {
    let at_rest = |object: &ClusterVersion| {
        let observed = object.status.as_ref().map(|status| status.observed_generation);
        let accepted = object.has("ReleaseAccepted=True");
        accepted && observed == object.metadata.generation && !object.has("Invalid=True")
    };
    scenario.cluster.until("the request to be forgotten", at_rest).await.unwrap()
}

pub(super) async fn without_an_update_service(who: &Administrator) {
    let view =
        ["Cluster version is 1.0.0", "Channel: stable", "RemoteFailed", "spec.upstream names this update service"];
    who.run(oc("adm upgrade").says(&view)).await;
    let refusal = ["cannot refresh available updates", "RemoteFailed"];
    who.run(oc("adm upgrade --to 1.0.1").fails().says(&refusal)).await;
    let channel = json!({"spec": {"channel": "fast-1.0"}});
    who.run(oc("adm upgrade channel fast-1.0").sends(channel)).await;
    who.run(oc("adm upgrade channel fast-1.0").says(&["info"])).await;
    who.run(oc(NOTHING).says(&["No update in progress"])).await;
}

pub(super) async fn choosing_a_channel(scenario: &Scenario, who: &Administrator) {
    let list = ["fast-1.0", "stable-1.0"];
    who.run(oc("adm upgrade channel nonsense").fails().says(&list)).await;
    let asked = scenario.service.count();
    let nonsense = json!({"spec": {"channel": "nonsense"}});
    who.run(oc("adm upgrade channel nonsense --allow-explicit-channel").sends(nonsense)).await;
    scenario.service.until_asked(asked).await.unwrap();
    until_channel_is_asked_for(scenario, "nonsense").await;

    let none = json!({"spec": {"channel": ""}});
    who.run(oc("adm upgrade channel").sends(none)).await;
    let no_channel =
        |object: &ClusterVersion| object.condition("RetrievedUpdates=False").is_some_and(|c| c.reason == "NoChannel");
    scenario.cluster.until("the missing channel to be told", no_channel).await.unwrap();
    who.run(oc("adm upgrade").says(&["NoChannel"])).await;
    let stable = json!({"spec": {"channel": "stable-1.0"}});
    who.run(oc("adm upgrade channel stable-1.0").sends(stable)).await;
    until_channel_is_asked_for(scenario, "stable-1.0").await;
    scenario.until_judged().await;
    who.run(oc("adm upgrade channel").fails().says(&["stable-1.0"])).await;
}

async fn until_channel_is_asked_for(scenario: &Scenario, channel: &str) {
    let channel = format!("channel={channel}");
    scenario.service.until_asked_for(&channel).await.unwrap();
}

pub(super) async fn looking_at_updates(who: &Administrator) {
    let channels = "(available channels: fast-1.0, stable-1.0)";
    let safe = ["Cluster version is 1.0.0", channels, "Recommended updates:", "1.1.0", "1.0.4", "1.0.1"];
    who.run(oc("adm upgrade").says(&safe).omits(&["Failing", "ReleaseAccepted", "warning"])).await;
    let issues = [
        "Updates with known issues:",
        "1.0.3",
        "EvaluationFailed",
        "1.0.2",
        "Broken",
        "Broken is what it is. https://risks.invalid/Broken",
    ];
    who.run(oc("adm upgrade --include-not-recommended").says(&issues)).await;
    // No token, so that alerts cannot be asked for.
    who.run(oc("adm upgrade recommend").says(&["1.1.0", "1.0.4", "no known issues"])).await;
    who.run(oc("adm upgrade recommend --show-outdated-releases").says(&["1.0.3", "1.0.2", "Broken"])).await;
    let accepted = "adm upgrade recommend --accept FailedToCompletePrecheck --version";
    who.run(oc(&format!("{accepted} 1.0.1")).says(&["https://errata.invalid/1.0.1"])).await;
    who.run(oc(&format!("{accepted} 1.0.4")).says(&["1.0.4"])).await;
    let risky = ["Broken is what it is.", "ConditionalUpdateRisk"];
    who.run(oc(&format!("{accepted} 1.0.2")).fails().says(&risky)).await;
    who.run(oc("adm upgrade recommend --version 1.7.0").fails()).await;
}

/// None of these asks for anything.
pub(super) async fn asking_in_vain(who: &Administrator) {
    who.run(oc("adm upgrade --to 1.0.0").says(&["already at version 1.0.0"])).await;
    let others = ["1.1.0, 1.0.4, 1.0.1"];
    who.run(oc("adm upgrade --to 1.0.9").fails().says(&others)).await;
    let not = ["1.0.2", "Recommended=False", "Broken"];
    who.run(oc("adm upgrade --to 1.0.2").fails().says(&not)).await;
    who.run(oc("adm upgrade --to 1.0.3").fails().says(&["Recommended=Unknown", "EvaluationFailed"])).await;
    who.run(oc("adm upgrade rollback").fails()).await;
}

pub(super) async fn another_architecture(scenario: &Scenario, who: &Administrator) {
    let multi = json!({"architecture": "Multi", "version": "1.0.0", "image": "", "force": false});
    let asked = json!({"spec": {"desiredUpdate": multi}});
    who.run(oc("adm upgrade --to-multi-arch").sends(asked).says(&["Requested update to multi"])).await;
    let noted = |object: &ClusterVersion| object.says("ReleaseAccepted=True", &["architecture Multi"]);
    let object = scenario.cluster.until("the request to be understood", noted).await.unwrap();
    println!("{}", object.condition("ReleaseAccepted=True").unwrap().message);
    scenario.service.until_asked_for("arch=multi").await.unwrap();
    who.run(oc("adm upgrade --to-multi-arch").fails().says(&["already"])).await;
    who.run(oc(NOTHING).sends(json!({"spec": {"desiredUpdate": null}}))).await;
    until_at_rest(scenario).await;
    scenario.until_judged().await;
}

pub(super) async fn an_unsigned_image(scenario: &Scenario, who: &Administrator) {
    let unsigned = scenario.unsigned("1.0.5");
    let image = &unsigned.image;
    let line = format!("adm upgrade --to-image {image}");
    who.run(oc(&line).fails().says(&["--allow-explicit-upgrade"])).await;
    let line = format!("{line} --allow-explicit-upgrade");
    who.run(oc(&line).asks("", image).says(&["Requested update to release image"])).await;
    let cause = until_refused(&scenario.cluster, &unsigned).await;
    println!("{cause}");
    let refusal = ["ReleaseAccepted=False", "Reason: RetrievePayload", image];
    who.run(oc("adm upgrade").says(&refusal).omits(&["Failing", "in progress"])).await;
    let cancelled = json!({"spec": {"desiredUpdate": null}});
    who.run(oc(NOTHING).sends(cancelled).says(&["Cancelled requested upgrade to", image])).await;
    until_at_rest(scenario).await;
}

/// Under the name that a mirror gives it.
pub(super) async fn an_image_from_a_mirror(scenario: &Scenario, who: &Administrator) {
    let next = scenario.release("1.0.1");
    let image = format!("mirror.invalid/release@{}", next.digest());
    scenario.cluster.simulation.hold("beta");
    let line = format!("adm upgrade --to-image {image}");
    who.run(oc(&line).asks("1.0.1", &image).says(&["Requested update to 1.0.1"])).await;
    let mirrored = Release { image, ..next.clone() };
    until_beta_is_waited_for(&scenario.cluster, &mirrored).await;
    let progress = ["info: An upgrade is in progress. Working towards 1.0.1", "ClusterVersionUpdating"];
    who.run(oc("adm upgrade").says(&progress)).await;
    let busy = ["the cluster is already upgrading", "Working towards 1.0.1", "--allow-upgrade-with-warnings"];
    who.run(oc("adm upgrade --to 1.0.4").fails().says(&busy)).await;
    who.run(oc("adm upgrade recommend").says(&["An update is in progress"])).await;
    // The update goes on: its process runs already.
    let cleared = json!({"spec": {"desiredUpdate": null}});
    who.run(oc(NOTHING).sends(cleared).says(&["Cleared the update field, still at 1.0.1"])).await;
    scenario.cluster.simulation.release("beta");
    scenario.cluster.completed(&mirrored).await.unwrap();
}

pub(super) async fn back_to_the_release_before(scenario: &Scenario, who: &Administrator) {
    let before = scenario.release("1.0.0");
    let said = ["Requested rollback from 1.0.1 to 1.0.0"];
    who.run(oc("adm upgrade rollback").asks("1.0.0", &before.image).says(&said)).await;
    scenario.cluster.completed(before).await.unwrap();
    scenario.until_judged().await;
}

/// The administrator has read the risk, and the daemon wants to be told so.
pub(super) async fn a_risk_that_applies(scenario: &Scenario, who: &Administrator) {
    let risky = scenario.release("1.0.2");
    let line = "adm upgrade --to 1.0.2 --allow-not-recommended";
    let warning = ["Recommended=False", "Broken", "Requested update to 1.0.2"];
    who.run(oc(line).asks("1.0.2", &risky.image).says(&warning)).await;
    println!("{}", until_refused(&scenario.cluster, risky).await);
    who.run(oc("adm upgrade").says(&["ReleaseAccepted=False", "PreconditionChecks", "Broken is what it is."])).await;
    let line = format!("{line} --force");
    who.run(oc(&line).asks_by("1.0.2", &risky.image, true).says(&["warning"])).await;
    let object = scenario.cluster.completed(risky).await.unwrap();
    let entry = newest(&object);
    assert!(entry.accepted_risks.contains("Broken is what it is."), "{entry:?}");
    println!("acceptedRisks: {}", entry.accepted_risks);
}

pub(super) async fn the_latest_release(scenario: &Scenario, who: &Administrator) {
    scenario.until_judged().await;
    let latest = scenario.release("1.1.0");
    let said = ["Requested update to 1.1.0"];
    who.run(oc("adm upgrade --to-latest").asks("1.1.0", &latest.image).says(&said)).await;
    scenario.cluster.completed(latest).await.unwrap();
    scenario.until_judged().await;
    let said = ["already at the latest available version 1.1.0"];
    who.run(oc("adm upgrade --to-latest").says(&said)).await;
    who.run(oc("adm upgrade --to 1.0.1").fails()).await;
    // Not across minor versions.
    who.run(oc("adm upgrade rollback").fails().says(&["1.1.0", "1.0.2"])).await;
}

pub(super) fn newest(object: &ClusterVersion) -> &HistoryEntry {
    &object.status.as_ref().unwrap().history[0]
}
