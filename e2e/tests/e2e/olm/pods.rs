//! Catalogs that pods serve, on an API server without nodes: the objects are as they should be.

use cvo::testing::api::olm::catalog_source::CatalogSource;
use e2e::conditions::Conditions;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World};

impl World {
    /// The only pod of a catalog, once it is another one than this.
    async fn pod(&self, catalog: &str, but: Option<&str>) -> Pod {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "shop");
        let list = ListParams::default().labels(&format!("olm.catalogSource={catalog}"));
        let read = async || pods.list(&list).await.unwrap().items;
        let wait = self.cluster.until(format!("the pod of {catalog}"), &[PROCESS]).within(LIMIT);
        let name = |pod: &Pod| pod.metadata.name.clone();
        wait.holds(async || {
            let pods = read().await;
            pods.len() == 1 && name(&pods[0]).as_deref() != but && pods[0].metadata.deletion_timestamp.is_none()
        })
        .await
        .unwrap();
        read().await.remove(0)
    }
}

/// The image only serves: a pod does, with all that belongs to it, and what somebody changes of it is brought back.
#[tokio::test(flavor = "multi_thread")]
async fn image_that_only_serves_gets_a_pod_with_all_that_belongs_to_it() {
    let world = World::up().await;
    let database = [("operators.operatorframework.io.index.database.v1", "/database/index.db")];
    let files: [(&str, &[u8]); 1] = [("database/index.db", b"SQLite format 3")];
    let digest = super::push(&world.cluster.registry(), "catalogs/old:v1", &files, &database).await;
    world.start();
    let image = world.image("catalogs/old:v1");
    let config = json!({"securityContextConfig": "restricted", "nodeSelector": {"disk": "fast"}, "memoryTarget": "100Mi",
        "tolerations": [{"key": "a", "operator": "Exists"}], "priorityClassName": "system-cluster-critical"});
    world.create("shop", "old", json!({"sourceType": "grpc", "image": image, "grpcPodConfig": config})).await;
    let pod = world.pod("old", None).await;
    let spec = serde_json::to_value(&pod.spec).unwrap();
    let container = &spec["containers"][0];
    assert_eq!(
        (&container["name"], &container["image"]),
        (&json!("registry-server"), &json!(format!("{image}@{digest}")))
    );
    assert_eq!(spec["nodeSelector"], json!({"disk": "fast"}));
    assert_eq!(spec["priorityClassName"], "system-cluster-critical");
    assert_eq!(spec["serviceAccountName"], "old");
    assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["resources"]["requests"]["memory"], "100Mi");
    assert!(spec["tolerations"].as_array().unwrap().iter().any(|it| it["key"] == "a"));
    let said = |source: &CatalogSource| source.status.clone().unwrap_or_default().message;
    let source = world.until("the pod to be told of", ("shop", "old"), |it| said(it).contains("pod old-")).await;
    assert!(source.says("ContentLoaded=False", &[]), "{source:?}");
    let next = assert_is_brought_back(&world, &pod.metadata.name.unwrap()).await;

    // A process that begins anew leaves it as it is.
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    world.start();
    let wait = world.cluster.until("the process to be ready", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.is_ready(PROCESS).await).await.unwrap();
    world.create("shop", "bad", json!({"sourceType": "grpc"})).await;
    let said = |source: &CatalogSource| source.status.clone().unwrap_or_default().reason;
    world.until("it to write", ("shop", "bad"), |it| said(it) == "SpecInvalidError").await;
    assert_eq!(world.pod("old", None).await.metadata.name.unwrap(), next);
    assert_namespace_is_followed(&world, &image).await;
    world.cluster.down().await.unwrap();
}

/// A pod of which nothing is said is as its namespace wants it, as soon as that changes.
async fn assert_namespace_is_followed(world: &World, image: &str) {
    world.create("shop", "plain", json!({"sourceType": "grpc", "image": image})).await;
    let profile = |pod: &Pod| {
        let spec = serde_json::to_value(&pod.spec).unwrap();
        spec.pointer("/securityContext/seccompProfile/type").and_then(Value::as_str).map(str::to_owned)
    };
    assert_eq!(profile(&world.pod("plain", None).await), None, "nothing is enforced");
    let label = ["label", "namespace", "shop", "pod-security.kubernetes.io/enforce=restricted"];
    world.cluster.kubectl(label).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "shop");
    let changes = e2e::until::changes(pods, kube::runtime::watcher::Config::default());
    let restricted = |pod: &Pod| {
        let of_plain = pod.metadata.name.as_ref().is_some_and(|name| name.starts_with("plain-"));
        (of_plain && profile(pod).as_deref() == Some("RuntimeDefault")).then_some(())
    };
    let wait = world.cluster.until("a pod that is allowed there", &[PROCESS]).within(LIMIT);
    wait.event(changes, restricted).await.unwrap();
}

/// What belongs to the pod is there, and so again whatever somebody does to it. Returns the name of the next pod.
async fn assert_is_brought_back(world: &World, pod: &str) -> String {
    let services: Api<Service> = Api::namespaced(world.client.clone(), "shop");
    let leads = |service: &Service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        selector.get("olm.catalogSource").map(String::as_str) == Some("old")
    };
    let wait = world.cluster.until("the Service", &[PROCESS]).within(LIMIT);
    wait.existing(services.clone(), "old", leads).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "shop");
    accounts.get("old").await.unwrap();
    let policies: Api<NetworkPolicy> = Api::namespaced(world.client.clone(), "shop");
    for name in ["old-grpc-server", "old-unpack-bundles"] {
        let wait = world.cluster.until(name, &[PROCESS]).within(LIMIT);
        wait.existing(policies.clone(), name, |_| true).await.unwrap();
        policies.delete(name, &Default::default()).await.unwrap();
        let wait = world.cluster.until(format!("{name} to be back"), &[PROCESS]).within(LIMIT);
        wait.existing(policies.clone(), name, |_| true).await.unwrap();
    }
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "shop");
    pods.delete(pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    let next = world.pod("old", Some(pod)).await.metadata.name.unwrap();
    let other = Patch::Merge(json!({"spec": {"selector": {"olm.catalogSource": "x"}}}));
    services.patch("old", &PatchParams::default(), &other).await.unwrap();
    let wait = world.cluster.until("the selector to be back", &[PROCESS]).within(LIMIT);
    wait.existing(services, "old", leads).await.unwrap();
    next
}
