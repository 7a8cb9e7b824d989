//! Plans of a group that names an account.

use std::collections::BTreeSet;

use cvo::testing::api::olm::install_plan::InstallPlanPhase;
use e2e::harness::audit;
use e2e::olm::USER;
use e2e::workspace;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::super::{LIMIT, PROCESS, World};
use super::{any_size, csv, message, operator, phase};

const ROBOT: &str = "system:serviceaccount:shop:robot";
const GUARD: &str = "manifests/olm/0000_50_olm_05_install-guard.yaml";

impl World {
    /// The account may do everything with these in all namespaces.
    async fn allow(&self, name: &str, resource: &str) {
        let role = ["create", "clusterrole", name, "--verb=*", "--resource", resource];
        self.cluster.kubectl(role).await.unwrap();
        let account = "--serviceaccount=shop:robot";
        let binding = ["create", "clusterrolebinding", name, "--clusterrole", name, account];
        self.cluster.kubectl(binding).await.unwrap();
    }
}

/// An event says that the definition went with other rights than those of the account.
async fn assert_definition_is_told(world: &World) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), "shop");
    let told = async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter(|it| it.reason.as_deref() == Some("DefinitionOfCluster")).collect::<Vec<_>>()
    };
    let wait = world.cluster.until("that the definition needed other rights", &[PROCESS]).within(LIMIT);
    wait.holds(async || !told().await.is_empty()).await.unwrap();
    let [event] = &told().await[..] else { panic!("it is told once") };
    let message = event.message.as_deref().unwrap();
    assert!(
        message.starts_with("CustomResourceDefinition widgets.example.com was written with the rights of"),
        "{message}"
    );
}

/// All rights that the account lacks are told at once and nothing is written; once it has them, all but the definition is written with
/// its rights and no others.
#[tokio::test(flavor = "multi_thread")]
async fn plan_of_a_group_with_an_account_writes_what_the_account_may() {
    let world = World::up().await;
    world.cluster.kubectl(["create", "serviceaccount", "robot", "-n", "shop"]).await.unwrap();
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "one", "namespace": "shop"},
        "spec": {"targetNamespaces": ["shop"], "serviceAccountName": "robot"}});
    world.apply(&group).await;
    world.start_with_the_rights_of_the_release().await;
    world.plan("install-a", 1, true, &operator("v1", "", &any_size())).await;
    let refused = |text: &str| text.starts_with("retrying execution due to error: 8 steps cannot be carried out: ");
    let told = world.until_plan("that rights are missing", "install-a", |it| refused(&message(it))).await;
    for kind in
        ["ClusterServiceVersion", "ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Service"]
    {
        let lacks = format!("{kind} widgets");
        assert!(message(&told).contains(&lacks), "{lacks}: {}", message(&told));
    }
    assert!(message(&told).contains(&format!("User \"{ROBOT}\" cannot create resource")), "{}", message(&told));
    assert_eq!(phase(&told), InstallPlanPhase::Installing);
    let by = told.status.unwrap().attenuated_service_account_ref.unwrap();
    assert_eq!((by.namespace.as_deref(), by.name.as_deref()), (Some("shop"), Some("robot")));
    assert!(world.found("crd", false, "widgets.example.com").await.is_none());
    assert!(world.found("csv", true, "widgets.v1").await.is_none());

    // What the process has got for the account is lost with it.
    world.cluster.kill(PROCESS).unwrap();
    let bind = ["create", "clusterrolebinding", "robot", "--clusterrole=cluster-admin", "--serviceaccount=shop:robot"];
    world.cluster.kubectl(bind).await.unwrap();
    world.start_limited();
    world.complete("install-a").await;
    let written = |user: &str| -> BTreeSet<String> {
        let all = audit::requests(&world.cluster.audit_log(), user).unwrap();
        let done = all.into_iter().filter(|it| it.wrote() && it.code < 300 && !it.uri.contains("dryRun"));
        done.filter(|it| it.subresource.is_empty()).map(|it| it.resource).collect()
    };
    let by_account = written(ROBOT);
    let expected = [
        "clusterrolebindings",
        "clusterroles",
        "clusterserviceversions",
        "configmaps",
        "rolebindings",
        "roles",
        "serviceaccounts",
        "services",
    ];
    assert_eq!(by_account.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let by_process = written(USER);
    assert!(by_process.contains("customresourcedefinitions"), "{by_process:?}");
    for resource in ["clusterroles", "configmaps", "roles", "serviceaccounts"] {
        assert!(!by_process.contains(resource), "{resource} was written with the rights of the process");
    }
    assert_definition_is_told(&world).await;
    world.cluster.down().await.unwrap();
}

/// What webhooks need is written with the rights of the process. So the account that writes the version must be allowed to register them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn account_that_may_register_no_webhook_installs_none() {
    let world = World::up().await;
    let guard = workspace::root().join(GUARD).display().to_string();
    world.cluster.kubectl(["apply", "--server-side", "-f", &guard]).await.unwrap();
    world.cluster.kubectl(["create", "serviceaccount", "robot", "-n", "shop"]).await.unwrap();
    world.allow("versions", "clusterserviceversions.operators.coreos.com").await;
    world.allow("deployments", "deployments.apps").await;
    let mut version = csv("v1", "");
    version["spec"]["customresourcedefinitions"] = json!({});
    version["spec"]["webhookdefinitions"] = json!([{"generateName": "check.example.com",
        "type": "ValidatingAdmissionWebhook", "deploymentName": "widgets", "admissionReviewVersions": ["v1"],
        "sideEffects": "None"}]);
    let refused = "a validating webhook in spec.webhookdefinitions is written by those who may create";
    // The policy is in force once it refuses: nothing tells of that.
    let file = world.cluster.dir().join("tried.json");
    std::fs::write(&file, version.to_string()).unwrap();
    let file = file.display().to_string();
    let tried = ["create", "--dry-run=server", "-n", "shop", "-f", &file, "--as", ROBOT];
    let wait = world.cluster.until("the guard", &[]).within(LIMIT);
    let is_refused = async || world.cluster.kubectl(tried).await.is_err_and(|it| format!("{it:?}").contains(refused));
    wait.holds(is_refused).await.unwrap();

    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "one", "namespace": "shop"},
        "spec": {"targetNamespaces": ["shop"], "serviceAccountName": "robot"}});
    world.apply(&group).await;
    world.start_with_the_rights_of_the_release().await;
    world.plan("install-a", 1, true, &[version]).await;
    world.until_plan("the webhook to be refused", "install-a", |it| message(it).contains(refused)).await;
    assert!(world.found("csv", true, "widgets.v1").await.is_none());
    world.allow("webhooks", "validatingwebhookconfigurations.admissionregistration.k8s.io").await;
    world.complete("install-a").await;
    assert!(world.found("csv", true, "widgets.v1").await.is_some());
    world.cluster.down().await.unwrap();
}
