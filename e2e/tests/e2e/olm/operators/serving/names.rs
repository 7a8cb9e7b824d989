//! Whoever provides an API names the roles of its users. What is there by such a name, and was not made for an operator, stays as it is.

use e2e::harness::audit;
use e2e::olm::{PROCESS, USER};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::super::LIMIT;
use super::super::{COLLECTED, SHOP, World};
use super::{answering, version};

/// A role of the cluster, whose rules all administrators of namespaces have.
const ROLE: &str = "system:aggregate-to-admin";
const NAME: &str = "server.v4.0.0";

/// It provides an API, and the role of its administrators would have the name of that role.
fn naming() -> Value {
    let mut csv = version("4.0.0", "");
    let spec = &mut csv["spec"];
    spec["webhookdefinitions"] = json!([]);
    spec["customresourcedefinitions"] = json!({});
    let api = spec.pointer_mut("/apiservicedefinitions/owned/0").unwrap();
    (api["name"], api["version"]) = (json!("system:aggregate"), json!("to"));
    csv
}

pub(super) async fn roles_of_the_cluster_stay(world: &World) {
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let before = roles.get(ROLE).await.unwrap();
    world.kubectl(["create", "rolebinding", "chief", "--clusterrole=admin", "--user=chief", "-n", SHOP]).await;
    world.apply(&naming()).await;
    let _backend = answering(world).await;
    world.until_succeeded(NAME).await;
    // Names that nobody else has are given.
    let wait = world.cluster.until("the roles of the API", &[PROCESS]).within(LIMIT);
    wait.existing(roles.clone(), "gear.gears.example.com-to-admin", |_| true).await.unwrap();
    // Before the second attempt the first one has ended.
    let wait = world.cluster.until("two attempts to write the role", &[PROCESS]).within(COLLECTED);
    let is_tried_twice = async || {
        let all = audit::requests(&world.cluster.audit_log(), USER).unwrap();
        let found = all.iter().filter(|it| it.resource == "clusterroles" && it.verb == "get" && it.name == ROLE);
        found.count() >= 2
    };
    wait.holds(is_tried_twice).await.unwrap();
    let after = roles.get(ROLE).await.unwrap();
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()));
    let wait = world.cluster.until("what administrators may do", &[]).within(LIMIT);
    let asked = ["auth", "can-i", "create", "configmaps", "-n", SHOP, "--as", "chief"];
    wait.holds(async || world.cluster.kubectl(asked).await.is_ok()).await.unwrap();
    world.kubectl(["delete", "csv", NAME, "-n", SHOP]).await;
}
