//! Packages, as kubectl reads them through the API server.

use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World};
use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use e2e::conditions::Conditions;
use e2e::olm;
use e2e::workspace;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;

impl World {
    pub(super) async fn register(&self, port: u16) {
        olm::register_packages(&self.cluster, port).await.unwrap();
    }

    pub(super) async fn kubectl(&self, arguments: &str) -> String {
        self.cluster.kubectl(arguments.split(' ')).await.unwrap()
    }
}

/// The holder of the lease makes the certificate and tells the API server of it.
#[tokio::test(flavor = "multi_thread")]
async fn packages_of_a_catalog_are_read_with_kubectl() {
    let world = World::up().await;
    world.push("catalogs/one:v1", "one", &[]).await;
    let port = world.cluster.port("packages");
    let process = world.process(PROCESS).flag("--secure-port", port.to_string());
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/one:v1"), "displayName": "One"});
    for namespace in [GLOBAL_CATALOG_NAMESPACE, "shop"] {
        world.create(namespace, "catalog", spec.clone()).await;
    }
    world.register(port).await;
    let services: Api<APIService> = Api::all(world.client.clone());
    let wait = world.cluster.until("the API of packages", &[PROCESS]).within(LIMIT);
    wait.existing(services, olm::PACKAGES, |it| it.has("Available=True")).await.unwrap();
    let rows = async |of: &str| {
        let text = world.kubectl(&format!("get packagemanifests {of} --no-headers")).await;
        text.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Once in each catalog that a namespace sees.
    assert_eq!(rows("-n shop").await, ["one", "one"]);
    assert_eq!(rows("-n default").await, ["one"]);
    assert_eq!(rows("-n default -l catalog=catalog").await, ["one"]);
    assert!(rows("-n default -l catalog=other").await.is_empty());
    let one: Value = serde_json::from_str(&world.kubectl("get packagemanifest one -n shop -o json").await).unwrap();
    assert_eq!((&one["kind"], &one["status"]["catalogSourceNamespace"]), (&json!("PackageManifest"), &json!("shop")));
    assert_eq!(one["status"]["channels"][0]["currentCSV"], "one.v1.0.0");
    world.cluster.down().await.unwrap();
}

/// Who may edit a namespace asks what would come of a Subscription, by kubectl and nothing else. Nothing is stored.
#[tokio::test(flavor = "multi_thread")]
async fn question_about_subscriptions_is_answered_to_who_may_edit() {
    let world = World::up().await;
    let roles = workspace::root().join("manifests/olm/0000_50_olm_03_user-roles.yaml").display().to_string();
    world.cluster.kubectl(["apply", "--server-side", "-f", &roles]).await.unwrap();
    for (user, role) in [("editor", "aggregate-olm-edit"), ("viewer", "aggregate-olm-view")] {
        world.kubectl(&format!("create rolebinding {user} --clusterrole={role} --user={user} -n shop")).await;
    }
    world.push("catalogs/one:v1", "one", &[]).await;
    let port = world.cluster.port("packages");
    let process = world.process(PROCESS).flag("--secure-port", port.to_string());
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    world.group("one").await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/one:v1")})).await;
    world.until("its content", ("shop", "main"), |it| it.has("ContentLoaded=True")).await;
    world.register(port).await;
    let services: Api<APIService> = Api::all(world.client.clone());
    let wait = world.cluster.until("the API of packages", &[PROCESS]).within(LIMIT);
    wait.existing(services, olm::PACKAGES, |it| it.has("Available=True")).await.unwrap();
    let file = world.cluster.dir().join("question.json").display().to_string();
    let ask = async |user: &str, spec: Value| {
        let question = json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "SubscriptionReview",
            "metadata": {"namespace": "shop"}, "spec": spec});
        std::fs::write(&file, question.to_string()).unwrap();
        let asked =
            world.cluster.kubectl(["create", "--validate=false", "-f", &file, "-o", "json", "--as", user]).await;
        asked.map(|answer| serde_json::from_str::<Value>(&answer).unwrap()).map_err(|error| format!("{error:?}"))
    };
    let wanted = json!({"subscribe": [{"name": "one", "source": "main"}], "toHead": true});
    let answer = ask("editor", wanted.clone()).await.unwrap();
    assert_eq!(answer["status"]["rounds"][0]["install"][0]["name"], "one.v1.0.0", "{answer}");
    let refused = ask("viewer", wanted).await.unwrap_err();
    assert!(refused.contains("cannot create resource"), "{refused}");
    let nobody = ask("editor", json!({"whyNot": {"subscription": "one", "clusterServiceVersion": "one.v1.0.0"}})).await;
    assert!(nobody.unwrap_err().contains("there is no Subscription one"));
    let resources = world.kubectl("api-resources --api-group=packages.operators.coreos.com -o name").await;
    assert!(resources.contains("subscriptionreviews"), "{resources}");
    assert_eq!(world.kubectl("get subscriptions -n shop -o name").await.trim(), "");
    world.cluster.down().await.unwrap();
}
