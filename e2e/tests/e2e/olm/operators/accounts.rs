//! An OperatorGroup that names an account: Deployments of its operators are written with the rights of that account and no others.

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersionStatus, Phase};
use e2e::harness::audit;
use e2e::olm::{PROCESS, USER};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::LIMIT;
use super::{SHOP, World, csv, group, history, image};

const NAME: &str = "server.v1.0.0";
const INSTALLER: &str = "system:serviceaccount:shop:installer";

impl World {
    /// What this user has written of Deployments, and what he was refused.
    fn deployments_by(&self, user: &str) -> Vec<String> {
        let all = audit::requests(&self.cluster.audit_log(), user).unwrap();
        let of = all.iter().filter(|it| it.resource == "deployments" && it.is_write());
        of.map(|it| format!("{} {}", it.verb, it.code)).collect()
    }

    async fn may_install(&self) {
        let (role, account) = ("--role=installer", "--serviceaccount=shop:installer");
        self.kubectl(["create", "rolebinding", "installer", "-n", SHOP, role, account]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_are_written_with_the_rights_of_the_account_that_the_group_names() {
    let world = World::up().await;
    world.start();
    world.apply(&group("one", json!({"targetNamespaces": [SHOP], "serviceAccountName": "installer"}))).await;
    world.account().await;
    world.apply(&csv("1.0.0", "")).await;
    let refused = |it: &ClusterServiceVersionStatus| {
        (&it.phase, it.reason.as_str()) == (&Phase::Failed, "InstallComponentFailedNoRetry")
    };
    let told = world.until("to lack the account", NAME, refused).await.status.unwrap().message;
    assert!(told.contains("names ServiceAccount installer") && told.contains("does not exist"), "{told}");

    // The account alone is not enough, and nothing is tried.
    world.kubectl(["create", "serviceaccount", "installer", "-n", SHOP]).await;
    let verbs = "--verb=create,update,delete";
    world.kubectl(["create", "role", "installer", "-n", SHOP, verbs, "--resource=deployments.apps"]).await;
    world.may_install().await;
    let installed = world.until_succeeded(NAME).await;
    let all = history(&installed);
    let failed = all.iter().position(|it| it == "Failed/InstallComponentFailedNoRetry").unwrap();
    assert_eq!(all[failed + 1], "Pending/DetectedClusterChange", "{all:?}");
    assert_eq!(world.deployments_by(INSTALLER), ["create 201"]);

    // It loses its rights: what somebody changes stays so until it has them again.
    world.kubectl(["delete", "rolebinding", "installer", "-n", SHOP]).await;
    let container = json!({"name": "server", "image": "registry.example.com/other"});
    let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    world.deployments().patch("server", &PatchParams::default(), &Patch::Strategic(change)).await.unwrap();
    let told = world.until("to lack the rights", NAME, refused).await.status.unwrap().message;
    assert!(told.contains("may not do all that an installation needs"), "{told}");
    assert_eq!(image(&world.deployment().await), "registry.example.com/other");
    world.may_install().await;
    let back = world.cluster.until("the image to be back", &[PROCESS]).within(LIMIT);
    back.existing(world.deployments(), "server", |it| image(it).ends_with("server:1.0.0")).await.unwrap();
    world.until_succeeded(NAME).await;
    assert_eq!(world.deployments_by(USER), [""; 0], "nothing was written with the rights of the process");
    world.down().await;
}
