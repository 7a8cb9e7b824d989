//! What another implementation of operator lifecycle has left is kept: what runs is not made anew, and copies are written once.

use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion;
use e2e::harness::{audit, files};
use e2e::olm::{PROCESS, USER};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::LIMIT;
use super::tenants::version;
use super::{SHOP, World, group};

const NAME: &str = "server.v1.0.0";
/// The label of a Deployment that says which content was written.
const HASH: &str = "olm.deployment-spec-hash";

impl World {
    /// The object with this change, as if another program had written all of it.
    async fn by_others(&self, object: &str, namespace: &str, change: impl Fn(&mut Value)) {
        let text = self.kubectl(["get", object, "-n", namespace, "-o", "json", "--show-managed-fields"]).await;
        let mut found: Value = serde_json::from_str(&text).unwrap();
        change(&mut found);
        // So the server forgets who has written what, but for the status.
        let writers = found["metadata"]["managedFields"].as_array_mut().unwrap();
        writers.retain(|it| it["subresource"] == "status");
        if writers.is_empty() {
            writers.push(json!({}));
        }
        let file = self.cluster.dir().join("object.json");
        files::write_json(&file, &found).unwrap();
        self.kubectl(["replace", "--field-manager=olm", "-f", &file.display().to_string()]).await;
    }

    /// What may not be made anew: the content of the Deployment, and its pods.
    async fn running(&self) -> (Option<String>, Value, Vec<Option<String>>) {
        let deployment = self.deployment().await;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SHOP);
        let mut uids: Vec<_> = pods.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::uid).collect();
        uids.sort();
        (deployment.uid(), serde_json::to_value(&deployment.spec).unwrap(), uids)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_that_another_implementation_has_installed_goes_on_as_it_is() {
    let world = World::up().await;
    world.namespace("mall").await;
    world.start();
    world.apply(&group("one", json!({"targetNamespaces": [SHOP, "mall"]}))).await;
    world.carry_out_version(&version("1.0.0")).await;
    world.until_succeeded(NAME).await;
    let copies: Api<ClusterServiceVersion> = Api::namespaced(world.client.clone(), "mall");
    let wait = world.cluster.until("a copy", &[PROCESS]).within(LIMIT);
    wait.existing(copies.clone(), NAME, |it| it.status.as_ref().is_some_and(|it| it.reason == "Copied")).await.unwrap();
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());

    // What is different where another implementation has written it.
    world.by_others("deployment/server", SHOP, |it| it["metadata"]["labels"][HASH] = json!("3aFg7h")).await;
    let unmarked = |it: &mut Value| {
        let annotations = it["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("olm.operatorframework.io/copied-content").unwrap();
    };
    world.by_others(&format!("csv/{NAME}"), "mall", unmarked).await;
    world
        .by_others("role/server-role", SHOP, |it| {
            let labels = it["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove("olm.operatorframework.io/for-targets").unwrap();
        })
        .await;
    for (object, namespace) in
        [("role/server-role", "mall"), ("rolebinding/server-role", "mall"), ("operatorcondition/server.v1.0.0", SHOP)]
    {
        world.by_others(object, namespace, |_| {}).await;
    }
    let before = world.running().await;
    let version_of = async || world.csvs().get(NAME).await.unwrap().resource_version();
    let known = version_of().await;
    let requests = audit::requests(&world.cluster.audit_log(), USER).unwrap().len();

    // When the next operator has been installed, this one has been looked at.
    world.start();
    let mut second = version("7.0.0");
    second["spec"]["install"]["spec"] = json!({"deployments": []});
    second["spec"]["customresourcedefinitions"] = json!({});
    world.apply(&second).await;
    world.until_succeeded("server.v7.0.0").await;
    let wait = world.cluster.until("the copy to be followed", &[PROCESS]).within(LIMIT);
    wait.existing(copies, NAME, |it| it.annotations().contains_key("olm.operatorframework.io/copied-content"))
        .await
        .unwrap();
    assert_eq!(world.running().await, before);
    assert_eq!(version_of().await, known, "nothing of it has changed");
    let all = audit::requests(&world.cluster.audit_log(), USER).unwrap();
    let own = ["leases", "events", "clusteroperators", "operators", "olmconfigs"];
    let wrote = all.iter().skip(requests).filter(|it| it.wrote() && !own.contains(&it.resource.as_str()));
    let of_second = |it: &&audit::Request| it.name.starts_with("server.v7");
    let mut wrote: Vec<String> =
        wrote.filter(|it| !of_second(it)).map(|it| format!("{} {}", it.verb, it.object())).collect();
    wrote.sort();
    let expected = [
        "update apps/deployments/ shop/server",
        "update operators.coreos.com/clusterserviceversions/ mall/server.v1.0.0",
    ];
    assert_eq!(wrote, expected);
    world.cluster.down().await.unwrap();
}
