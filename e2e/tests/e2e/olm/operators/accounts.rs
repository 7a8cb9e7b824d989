//! An OperatorGroup that names an account: Deployments of its operators are written with the rights of that account and no others.

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersionStatus, Phase};
use cvo::testing::api::olm::operator_group::OperatorGroup;
use e2e::conditions::Conditions;
use e2e::harness::audit;
use e2e::olm::{PROCESS, USER};
use k8s_openapi::api::authentication::v1::TokenReview;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::LIMIT;
use super::tenants::{definition, rival, version};
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

    /// Somebody changes the Deployment.
    async fn change_image(&self) {
        let container = json!({"name": "server", "image": "registry.example.com/other"});
        let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        self.deployments().patch("server", &PatchParams::default(), &Patch::Strategic(change)).await.unwrap();
    }

    async fn until_changed_back(&self) {
        let back = self.cluster.until("the image to be back", &[PROCESS]).within(LIMIT);
        back.existing(self.deployments(), "server", |it| image(it).ends_with("server:1.0.0")).await.unwrap();
        self.until_succeeded(NAME).await;
    }

    /// Whether the API server takes a token.
    async fn is_taken(&self, token: &str) -> bool {
        let review = serde_json::from_value(json!({"metadata": {}, "spec": {"token": token}})).unwrap();
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = reviews.create(&Default::default(), &review).await.unwrap();
        review.status.unwrap().authenticated.unwrap_or_default()
    }

    async fn may_install(&self) {
        let (role, account) = ("--role=installer", "--serviceaccount=shop:installer");
        self.kubectl(["create", "rolebinding", "installer", "-n", SHOP, role, account]).await;
    }
}

fn refused(status: &ClusterServiceVersionStatus) -> bool {
    (&status.phase, status.reason.as_str()) == (&Phase::Failed, "InstallComponentFailedNoRetry")
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_are_written_with_the_rights_of_the_account_that_the_group_names() {
    let world = World::up().await;
    world.start();
    world.apply(&group("one", json!({"targetNamespaces": [SHOP], "serviceAccountName": "installer"}))).await;
    world.account().await;
    world.apply(&csv("1.0.0", "")).await;
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
    world.change_image().await;
    let told = world.until("to lack the rights", NAME, refused).await.status.unwrap().message;
    assert!(told.contains("may not do all that an installation needs"), "{told}");
    assert_eq!(image(&world.deployment().await), "registry.example.com/other");
    world.may_install().await;
    world.until_changed_back().await;
    account_comes_back(&world).await;
    next_version_and_a_conflict(&world).await;
    assert_eq!(world.deployments_by(USER), [""; 0], "nothing was written with the rights of the process");
    world.down().await;
}

/// The account goes while the operator runs, which concerns nobody until something is to be written. The next one of this name has
/// another token.
async fn account_comes_back(world: &World) {
    let groups: Api<OperatorGroup> = Api::namespaced(world.client.clone(), SHOP);
    let token = world.kubectl(["create", "token", "installer", "-n", SHOP]).await;
    let token = token.trim();
    assert!(world.is_taken(token).await);
    world.kubectl(["delete", "serviceaccount", "installer", "-n", SHOP]).await;
    let wait = world.cluster.until("the group to lack its account", &[PROCESS]).within(LIMIT);
    let lacks = |it: &OperatorGroup| it.says("OperatorGroupServiceAccount=True", &["installer not found"]);
    wait.existing(groups.clone(), "one", lacks).await.unwrap();
    // The API server remembers for a while whose a token is: that of the process was seen before this one.
    let wait = world.cluster.until("tokens of the account to be void", &[PROCESS]).within(LIMIT);
    wait.holds(async || !world.is_taken(token).await).await.unwrap();
    assert_eq!(world.csvs().get(NAME).await.unwrap().status.unwrap().phase, Phase::Succeeded);
    world.change_image().await;
    let told = world.until("to lack the account", NAME, refused).await.status.unwrap().message;
    assert!(told.contains("does not exist"), "{told}");
    assert_eq!(image(&world.deployment().await), "registry.example.com/other");
    world.kubectl(["create", "serviceaccount", "installer", "-n", SHOP]).await;
    world.until_changed_back().await;
    let wait = world.cluster.until("the group to have its account", &[PROCESS]).within(LIMIT);
    wait.existing(groups, "one", |it| !it.has("OperatorGroupServiceAccount")).await.unwrap();
}

/// The next version changes the Deployment, which goes as long as another group protects what the operator provides.
async fn next_version_and_a_conflict(world: &World) {
    let next = "server.v2.0.0";
    let mut csv = version("2.0.0");
    csv["spec"]["replaces"] = json!(NAME);
    world.apply(&definition()).await;
    world.apply(&csv).await;
    world.until_succeeded(next).await;
    world.until_gone(NAME).await;
    assert!(image(&world.deployment().await).ends_with("server:2.0.0"));
    world.namespace("rival").await;
    world.apply(&rival(SHOP)).await;
    world.until("to be refused", next, |it| it.reason == "InterOperatorGroupOwnerConflict").await;
    let wait = world.cluster.until("the Deployment to be gone", &[PROCESS]).within(LIMIT);
    wait.object(world.deployments(), "server", |it| it.is_none()).await.unwrap();
    world.kubectl(["delete", "operatorgroup", "-n", "rival", "two"]).await;
    world.until_succeeded(next).await;
    let wrote = world.deployments_by(INSTALLER);
    for (write, times) in [("create 201", 2), ("delete 200", 1)] {
        assert_eq!(wrote.iter().filter(|it| *it == write).count(), times, "{write}: {wrote:?}");
    }
    assert!(wrote.contains(&"update 200".to_owned()), "{wrote:?}");
}
