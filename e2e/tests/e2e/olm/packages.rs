//! Packages, as kubectl reads them through the API server.

use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World};
use cvo::testing::api::olm::{GLOBAL_CATALOG_NAMESPACE, NAMESPACE};
use e2e::conditions::Conditions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;

impl World {
    /// The API server reaches the process, which runs in no pod, by the name of this machine.
    pub(super) async fn register(&self, port: u16) {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "packageserver-service", "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}});
        let registered = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1.packages.operators.coreos.com"},
            "spec": {"group": "packages.operators.coreos.com", "version": "v1",
                "groupPriorityMinimum": 2000, "versionPriority": 15,
                "service": {"namespace": NAMESPACE, "name": "packageserver-service", "port": port}}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [service, registered]});
        let file = self.cluster.dir().join("packages.json");
        std::fs::write(&file, list.to_string()).unwrap();
        self.cluster.kubectl(["apply", "-f", &file.display().to_string()]).await.unwrap();
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
    wait.existing(services, "v1.packages.operators.coreos.com", |it| it.has("Available=True")).await.unwrap();
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
