//! An update to another release while one is in progress, and one to another architecture.

use cvo::testing::api::{ClusterVersion, HistoryState};
use cvo::testing::payload::metadata;
use cvo::testing::work::retrieve;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use e2e::administrator::{Administrator, oc};
use e2e::harness::files;
use e2e::signing::TRUSTED;
use e2e::simulator::history::is_signed;
use e2e::simulator::releases::Release;

use super::scenario::{Scenario, graph};
use super::{until_beta_is_waited_for, until_refused, versions};

/// A patch goes on to another patch; a minor version has to wait.
pub(super) async fn of_the_release(scenario: &Scenario, who: &Administrator) {
    let [next, patch, minor] = ["1.0.1", "1.0.4", "1.1.0"].map(|version| scenario.release(version));
    scenario.cluster.simulation.hold("beta");
    who.run(oc("adm upgrade --to 1.0.1").asks("1.0.1", &next.image)).await;
    until_beta_is_waited_for(&scenario.cluster, next).await;
    scenario.until_judged().await;

    let bypassed = ["--allow-upgrade-with-warnings is bypassing", "already upgrading", "Working towards 1.0.1"];
    let line = "adm upgrade --to 1.1.0 --allow-upgrade-with-warnings";
    who.run(oc(line).asks("1.1.0", &minor.image).says(&bypassed)).await;
    let cause = until_refused(&scenario.cluster, minor).await;
    assert!(cause.contains("An update is in progress"), "{cause}");
    let line = "adm upgrade --to 1.0.4 --allow-upgrade-with-warnings";
    who.run(oc(line).asks("1.0.4", &patch.image).says(&bypassed)).await;
    // Until it is handed over, 1.0.1 could still be completed.
    let handed_over =
        |object: &ClusterVersion| object.status.as_ref().is_some_and(|status| status.desired.image == patch.image);
    scenario.cluster.until("1.0.4 to be handed over", handed_over).await.unwrap();
    scenario.cluster.simulation.release("beta");
    let object = scenario.cluster.completed(patch).await.unwrap();
    use HistoryState::{Completed, Partial};
    let expected = [("1.0.4", Completed), ("1.0.1", Partial), ("1.0.0", Completed)];
    assert_eq!(versions(&object), expected.map(|(version, state)| (version.to_owned(), state)));
    let entry = &object.status.as_ref().unwrap().history[0];
    println!("acceptedRisks: {:?}", entry.accepted_risks);
}

/// The same version, for several architectures: the service has it for those who ask for them.
pub(super) async fn of_the_architecture(scenario: &Scenario, who: &Administrator) {
    let multi = multi(scenario, scenario.release("1.0.4")).await;
    scenario.until_judged().await;
    scenario.service.answer(graph_with(scenario, &multi));
    let asked = json!({"architecture": "Multi", "version": "1.0.4", "image": "", "force": false});
    let said = ["Requested update to multi cluster architecture"];
    let line = "adm upgrade --to-multi-arch";
    who.run(oc(line).sends(json!({"spec": {"desiredUpdate": asked}})).says(&said)).await;
    scenario.service.until_asked_for("arch=multi").await.unwrap();
    let object = scenario.cluster.completed(&multi).await.unwrap();
    use HistoryState::{Completed, Partial};
    let expected = [("1.0.4", Completed), ("1.0.4", Completed), ("1.0.1", Partial), ("1.0.0", Completed)];
    assert_eq!(versions(&object), expected.map(|(version, state)| (version.to_owned(), state)));
    let desired = scenario.version().await["status"]["desired"].clone();
    assert_eq!(desired["architecture"], "Multi", "{desired}");
    assert_eq!(desired["image"], json!(multi.image), "{desired}");
    // The request stays, and means what runs.
    who.run(oc(line).fails().says(&["already been requested"])).await;
    who.run(oc("adm upgrade").says(&["Cluster version is 1.0.4"]).omits(&["ReleaseAccepted", "Failing"])).await;
    let offered = |object: &ClusterVersion| {
        let updates = object.status.as_ref().and_then(|status| status.available_updates.clone());
        updates.is_some_and(|updates| updates.iter().any(|update| update.version == "1.1.0"))
    };
    scenario.cluster.until("1.1.0 to be offered", offered).await.unwrap();
}

/// As where no update service is: the image alone says what is asked for.
pub(super) async fn to_an_image_that_no_graph_has(scenario: &Scenario, who: &Administrator) {
    scenario
        .service
        .answer(json!({"nodes": [{"version": "1.0.4", "payload": scenario.release("1.0.4").image}], "edges": []}));
    let channel = json!({"spec": {"channel": "fast-1.0"}});
    who.run(oc("adm upgrade channel fast-1.0").sends(channel)).await;
    let none = |object: &ClusterVersion| {
        let updates = object.status.as_ref().and_then(|status| status.available_updates.as_ref());
        updates.is_some_and(Vec::is_empty)
    };
    scenario.cluster.until("no updates to be offered", none).await.unwrap();
    who.run(oc("adm upgrade").says(&["No updates available"])).await;

    let release = scenario.release("1.1.0");
    let line = format!("adm upgrade --to-image {} --allow-explicit-upgrade", release.image);
    let said = ["Requested update to release image", "not one of the available updates"];
    who.run(oc(&line).asks("", &release.image).says(&said)).await;
    let object = scenario.cluster.completed(release).await.unwrap();
    let entry = &object.status.as_ref().unwrap().history[0];
    assert_eq!((entry.version.as_str(), is_signed(entry)), ("1.1.0", true), "{entry:?}");
    assert!(entry.accepted_risks.contains("has no update from 1.0.4 to 1.1.0"), "{entry:?}");
    println!("acceptedRisks: {}", entry.accepted_risks);
    let line = format!("adm upgrade --to-image {}", release.image);
    who.run(oc(&line).says(&["info: Cluster is already at"])).await;
}

/// The release as an image for several architectures.
async fn multi(scenario: &Scenario, release: &Release) -> Release {
    let digest = hex::encode(Sha256::digest(format!("{}-multi", release.version)));
    let image = format!("registry.invalid/release@sha256:{digest}");
    let folder = scenario.cluster.payloads().join(retrieve::folder(&image));
    files::copy_dir(&release.folder, &folder).unwrap();
    let multi = Release { version: release.version.clone(), image, folder };
    let file = multi.folder.join("release-manifests").join(metadata::FILE);
    let mut content: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    content["metadata"] = json!({"release.openshift.io/architecture": "multi"});
    std::fs::write(&file, content.to_string()).unwrap();
    scenario.cluster.sign(&multi, TRUSTED).await.unwrap();
    multi
}

/// What the service answers to those who ask for several architectures.
fn graph_with(scenario: &Scenario, multi: &Release) -> Value {
    let mut graph = graph(&scenario.releases);
    let nodes = graph["nodes"].as_array_mut().unwrap();
    let node = nodes.iter_mut().find(|node| node["version"] == json!(multi.version)).unwrap();
    node["payload"] = json!(multi.image);
    node["metadata"]["release.openshift.io/architecture"] = json!("multi");
    graph
}
