//! An operator that supports the cluster up to a minor version, on the sample platform with a real node: an update to the next one is
//! foretold to be refused, is refused, and goes on once the update of the operator is installed.

use cvo::testing::api::ClusterVersion;
use e2e::conditions::Conditions;
use e2e::harness::audit;
use e2e::olm;
use e2e::platform::releases::{Contents, SAMPLES};
use e2e::platform::{LIMIT, Platform, Release, follow, library, operators};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

struct World {
    platform: Platform,
}

impl World {
    async fn up() -> Option<(World, [Release; 3])> {
        let platform = Platform::on_a_node().await.unwrap()?;
        operators::prepare(&platform).await.unwrap();
        let samples = SAMPLES.map(|contents| Contents { components: &[operators::COMPONENT], ..contents });
        let releases = platform.chain(samples).await.unwrap();
        let [first, ..] = &releases;
        platform.install(first).await.unwrap();
        platform.until_completed(first, LIMIT).await.unwrap();
        operators::until_offered(&platform.cluster, first, LIMIT).await.unwrap();
        Some((World { platform }, releases))
    }

    async fn cvo(&self, arguments: &[String]) {
        self.platform.cluster.cvo(arguments).output().await.unwrap();
    }

    /// Approves the plan that installs a version, once it waits for that.
    async fn approve(&self, version: &str) {
        let arguments = library::approve(&self.platform.cluster, version, LIMIT).await.unwrap();
        self.cvo(&arguments).await;
        library::until_runs(&self.platform.cluster, version, LIMIT).await.unwrap();
    }

    /// The operator as a plan of the update has it, and what would stop the update.
    async fn planned(&self, update: &Release) -> (Value, Vec<Value>) {
        let offered = |it: &ClusterVersion| follow::offered(it, update);
        self.platform.until("the update to be offered", LIMIT, offered).await.unwrap();
        let arguments = ["plan", "--from", "cluster", "--to", &update.image, "-o", "json"];
        let plan: Value = self.platform.cluster.cvo(arguments).run().await.unwrap().json().unwrap();
        let blockers = plan["blockers"].as_array().unwrap().iter().filter(|it| it["severity"] == "blocks");
        (plan["operators"][0].clone(), blockers.cloned().collect())
    }

    async fn until(&self, what: &str, condition: impl FnMut(&ClusterVersion) -> bool) -> ClusterVersion {
        self.platform.until(what, LIMIT, condition).await.unwrap()
    }

    /// Pods of the operator that are not being deleted.
    async fn pods(&self) -> Vec<String> {
        let pods: Api<Pod> = Api::namespaced(self.platform.cluster.client().await.unwrap(), library::NAMESPACE);
        let found = pods.list(&ListParams::default()).await.unwrap();
        let stay = found.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        stay.map(|pod| pod.uid().unwrap()).collect()
    }
}

/// What each condition that tells of the operator names.
const NAMED: [&str; 2] = ["operator-lifecycle-manager", "reading/library.v1.0.0 is 1.0"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes; hack/demo shows the same"]
async fn operator_holds_the_cluster_at_the_last_version_it_supports_until_it_is_updated() {
    let Some((world, [_, patch, minor])) = World::up().await else { return };
    library::prepare(&world.platform.cluster).await.unwrap();
    world.cvo(&library::subscribe()).await;
    world.approve("library.v1.0.0").await;
    world.until("the operator to be named", |it| it.says("Upgradeable=False", &NAMED)).await;

    // A patch is for all operators, and changes nothing of this one.
    let pods = world.pods().await;
    assert_eq!(pods.len(), 1);
    let (operator, blockers) = world.planned(&patch).await;
    assert_eq!((&operator["name"], &operator["maximum"]), (&json!("library.v1.0.0"), &json!("1.0")));
    assert_eq!(blockers, Vec::<Value>::new());
    world.platform.ask_version(&patch.version).await.unwrap();
    world.platform.until_completed(&patch, LIMIT).await.unwrap();
    operators::until_offered(&world.platform.cluster, &patch, LIMIT).await.unwrap();
    assert_eq!(world.pods().await, pods);

    // The catalog of this release has what helps.
    let update = library::approve(&world.platform.cluster, "library.v1.1.0", LIMIT).await.unwrap();
    let (operator, blockers) = world.planned(&minor).await;
    let why = "the last version of the cluster that it supports is 1.0, not 1.1";
    let help =
        "library.v1.1.0 of channel stable supports 1.1: let it be updated to that first, once its plans are approved";
    assert_eq!((&operator["hindrances"], &operator["help"]), (&json!([why]), &json!(help)));
    let of = |cause: &str| -> Vec<&str> {
        let found = blockers.iter().filter(|it| it["cause"] == cause);
        found.map(|it| it["message"].as_str().unwrap()).collect()
    };
    assert_eq!(of("operator"), [format!("{why}; {help}")]);
    let [precondition] = of("precondition")[..] else { panic!("{blockers:?}") };
    assert!(NAMED.iter().all(|words| precondition.contains(words)), "{precondition}");

    // The request stands, and nothing of the release is begun.
    world.platform.ask_version(&minor.version).await.unwrap();
    let refused = |it: &ClusterVersion| it.says("ReleaseAccepted=False", &NAMED);
    let version = world.until("the release to be refused", refused).await;
    assert_eq!(version.condition("ReleaseAccepted").unwrap().reason, "PreconditionChecks");
    assert!(follow::completed(&version, &patch), "{:?}", version.status.unwrap().history);

    // With the update of the operator it goes on by itself.
    world.cvo(&update).await;
    let updated = library::until_runs(&world.platform.cluster, "library.v1.1.0", LIMIT).await.unwrap();
    let version = world.platform.until_completed(&minor, LIMIT).await.unwrap();
    let begun = version.status.unwrap().history[0].started_time.0;
    let updated = updated.status.unwrap().last_transition_time.unwrap().0;
    assert!(begun >= updated, "the cluster from {begun} on, the operator by {updated}");
    library::until_runs(&world.platform.cluster, "library.v1.1.0", LIMIT).await.unwrap();
    // And so far, and no further, as the update of the operator says.
    let next = ["1.2.0 or higher", "reading/library.v1.1.0 is 1.1"];
    world.until("the next version to be held", |it| it.says("Upgradeable=False", &next)).await;

    let requests = audit::requests(&world.platform.cluster.audit_log(), olm::USER).unwrap();
    let forbidden: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(requests.len() > 50 && forbidden.is_empty(), "{} requests, {forbidden:?}", requests.len());
    world.platform.close().await.unwrap();
}
