//! A cluster whose definition of ClusterVersion is older than the daemon, and the policy that keeps the ClusterVersion.

use std::{net::Ipv4Addr, path::PathBuf};

use cvo::testing::api::{ClusterVersion, progress::Progress};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, PostParams, PropagationPolicy},
};
use serde_json::{Value, json};

use e2e::{
    conditions::Conditions,
    harness::audit,
    services::update_service::UpdateService,
    simulator::{
        cluster::{LIMIT, SimulatedCluster},
        releases::Release,
        sample::config_kind,
    },
};

const DEFINITION: &str = "0000_00_cluster-version-operator_01_clusterversions.crd.yaml";

/// Replaces the definition in the release by one that lacks the fields of newer releases and does not know their
/// capabilities.
fn make_older(release: &Release) {
    let file = release.folder.join("manifests").join(DEFINITION);
    let mut object: Value = serde_yaml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let schema = object.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    let spec = "/properties/spec/properties";
    let status = "/properties/status/properties";
    for (place, field) in [
        (format!("{spec}/desiredUpdate/properties"), "acceptRisks"),
        (format!("{spec}/desiredUpdate/properties"), "mode"),
        (spec.to_owned(), "signatureStores"),
        (status.to_owned(), "conditionalUpdateRisks"),
        (format!("{status}/conditionalUpdates/items/properties"), "riskNames"),
        (format!("{status}/conditionalUpdates/items/properties/risks/items/properties"), "conditions"),
    ] {
        let removed = schema.pointer_mut(&place).unwrap().as_object_mut().unwrap().remove(field);
        assert!(removed.is_some(), "{place} has no {field}");
    }
    for list in ["enabledCapabilities", "knownCapabilities"] {
        let known = schema.pointer_mut(&format!("{status}/capabilities/properties/{list}/items/enum")).unwrap();
        known.as_array_mut().unwrap().retain(|name| name != "ClusterAPI" && name != "CompatibilityRequirements");
    }
    std::fs::write(&file, object.to_string()).unwrap();
}

fn graph(own: &Release) -> Value {
    let risk = json!({"name": "Broken", "message": "Everything breaks.", "url": "https://risks.invalid/1",
        "matchingRules": [{"type": "Always"}]});
    json!({
        "nodes": [{"version": own.version, "payload": own.image}, {"version": "1.0.1", "payload": "r@sha256:01"}],
        "edges": [],
        "conditionalEdges": [{"edges": [{"from": own.version, "to": "1.0.1"}], "risks": [risk]}],
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn status_goes_on_where_the_definition_lacks_fields_and_values() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let own = &releases[0];
    make_older(own);
    own.put("0000_10_alpha_03_featuregates.json", &config_kind("FeatureGate", "featuregates").to_string()).unwrap();
    let service = UpdateService::start(Ipv4Addr::LOCALHOST.into(), None, None, PathBuf::new()).await.unwrap();
    service.answer(graph(own));
    cluster.run_daemon(own).await.unwrap();
    cluster.completed(own).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let live = definitions.get("clusterversions.config.openshift.io").await.unwrap();
    assert!(!serde_json::to_string(&live.spec).unwrap().contains("riskNames"), "the definition is the older one");

    cluster.enable_gates("1.0.0", &["ClusterUpdateAcceptRisks", "ClusterAPIMachineManagement"]).await.unwrap();
    let upstream = format!("http://{}/graph", service.address);
    cluster.patch(json!({"spec": {"upstream": upstream, "channel": "a"}})).await.unwrap();
    let judged = |object: &ClusterVersion| {
        let updates = object.status.as_ref().map(|status| status.conditional_updates.clone()).unwrap_or_default();
        updates.iter().flat_map(|update| &update.conditions).any(|c| c.reason == "Broken" && c.status == "False")
    };
    let object = cluster.until("the update to be judged", judged).await.unwrap();
    let status = object.status.as_ref().unwrap();
    assert_eq!(status.conditional_update_risks, []);
    assert!(status.conditional_updates.iter().all(|update| update.risk_names.is_empty()), "{status:?}");
    assert!(!status.capabilities.known_capabilities.contains(&"ClusterAPI".to_owned()), "{status:?}");
    assert!(object.has("Failing=False"), "{status:?}");

    // What the server drops or refuses is neither missed nor written again and again.
    let restarted = Timestamp::now();
    cluster.node.restart().await.unwrap();
    let told = |progress: &Progress| {
        let answered = progress.advice.as_ref().and_then(|advice| advice.answered);
        answered.is_some_and(|at| at > restarted) && progress.nodes.iter().all(|node| node.done == node.total)
    };
    cluster.until_progress("the next process to be answered", told).await.unwrap();
    cluster.patch(json!({"spec": {"channel": "b"}})).await.unwrap();
    let observed = |object: &ClusterVersion| {
        object.status.as_ref().map(|status| status.observed_generation) == object.metadata.generation
    };
    cluster.until("the change to be observed", observed).await.unwrap();
    let requests = audit::within(&cluster.requests().unwrap(), restarted..Timestamp::now());
    let writes = requests.iter().filter(|r| r.is_write() && r.resource == "clusterversions").count();
    println!("{writes} writes of status in {} ms", Timestamp::now().duration_since(restarted).as_millis());
    assert!(writes <= 12, "{writes} writes");
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn cluster_version_is_not_deleted_by_accident() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let installed = cluster.completed(&releases[0]).await.unwrap();
    let delete = async |params: DeleteParams| cluster.versions().delete("version", &params).await;
    for params in [DeleteParams::default(), DeleteParams::foreground(), DeleteParams::background()] {
        let refused = delete(params).await.unwrap_err().to_string();
        assert!(refused.contains("--cascade=orphan"), "{refused}");
    }
    // The policy is for the one that counts.
    let other = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "other"},
        "spec": {"clusterID": "66666666-6666-4666-8666-666666666666"}});
    let other: ClusterVersion = serde_json::from_value(other).unwrap();
    cluster.versions().create(&PostParams::default(), &other).await.unwrap();
    cluster.versions().delete("other", &DeleteParams::default()).await.unwrap();
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    delete(orphan.clone()).await.unwrap();
    let gone = |object: Option<&ClusterVersion>| object.is_none();
    cluster.until_object("it to be deleted", cluster.versions(), "version", LIMIT, gone).await.unwrap();

    // One that is made anew goes on with what runs, with and without a restart of the daemon in between.
    for restart in [false, true] {
        if restart {
            cluster.versions().delete("version", &orphan).await.unwrap();
            cluster.until_object("it to be deleted again", cluster.versions(), "version", LIMIT, gone).await.unwrap();
            cluster.node.restart().await.unwrap();
        }
        let anew: ClusterVersion = serde_json::from_value(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": installed.spec,
        }))
        .unwrap();
        cluster.versions().create(&PostParams::default(), &anew).await.unwrap();
        let object = cluster.completed(&releases[0]).await.unwrap();
        assert_eq!(object.status.unwrap().history, installed.status.as_ref().unwrap().history);
        let reconciles = |progress: &Progress| progress.rollout.mode == "reconcile";
        cluster.until_progress("it to be kept, not installed", reconciles).await.unwrap();
    }
    cluster.close().await.unwrap();
}
