//! A version is installed, and the next one takes over what it has.

use cvo::testing::api::olm::cluster_service_version::{Phase, Requirement};
use cvo::testing::api::olm::operator_condition::OperatorCondition;
use cvo::testing::api::olm::operator_group::OperatorGroup;
use e2e::olm::PROCESS;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::LIMIT;
use super::{COLLECTED, SHOP, World, csv, history, in_shop};

#[tokio::test(flavor = "multi_thread")]
async fn operator_is_installed_and_the_next_version_takes_over_its_deployment() {
    let world = World::up().await;
    let first = world.install(&csv("1.0.0", "")).await;
    let steps = [
        "Pending/RequirementsUnknown",
        "InstallReady/AllRequirementsMet",
        "Installing/InstallSucceeded",
        "Succeeded/InstallSucceeded",
    ];
    // Whether it takes so long that it is told depends on the machine.
    let told = history(&first).into_iter().filter(|it| it != "Installing/InstallWaiting");
    assert_eq!(told.collect::<Vec<_>>(), steps);
    let lines = &first.status.as_ref().unwrap().requirement_status;
    assert_eq!(lines.iter().map(|line| &line.status).collect::<Vec<_>>(), [&Requirement::Present]);
    assert_is_marked(&world, "1.0.0").await;
    assert_are_told(&world, &steps).await;
    let groups: Api<OperatorGroup> = Api::namespaced(world.client.clone(), SHOP);
    let group = groups.get("one").await.unwrap();
    assert_eq!(group.status.unwrap().namespaces, [SHOP]);

    // As long as the operator says that it must not be replaced, it is not. Both are typed in as older tools write them.
    let said = |status: &str| {
        json!([{"type": "Upgradeable", "status": status, "reason": "Busy", "message": "it migrates data",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}])
    };
    let condition =
        |spec: Value| in_shop("operators.coreos.com/v1", "OperatorCondition", "server.v1.0.0", json!({"spec": spec}));
    world.apply(&condition(json!({"conditions": said("False")}))).await;
    let conditions: Api<OperatorCondition> = Api::namespaced(world.client.clone(), SHOP);
    let wait = world.cluster.until("the status of the OperatorCondition", &[PROCESS]).within(LIMIT);
    let taken = |it: &OperatorCondition| {
        let status = it.status.as_ref().and_then(|status| status.conditions.first());
        status.is_some_and(|status| status.observed_generation == it.metadata.generation)
    };
    wait.existing(conditions.clone(), "server.v1.0.0", taken).await.unwrap();
    let before = world.deployment().await;
    world.apply(&csv("2.0.0", "1.0.0")).await;
    let held = world.until("to be held", "server.v2.0.0", |it| it.reason == "OperatorConditionNotUpgradeable").await;
    let message = held.status.unwrap().message;
    assert_eq!(message, "operator is not upgradeable: the operator is not upgradeable: it migrates data");
    assert_eq!(world.csvs().get("server.v1.0.0").await.unwrap().status.unwrap().phase, Phase::Replacing);

    // What the administrator says counts, whatever the operator says.
    world.apply(&condition(json!({"conditions": said("False"), "overrides": said("True")}))).await;
    world.until_succeeded("server.v2.0.0").await;
    world.until_gone("server.v1.0.0").await;
    // The collector has been there once the OperatorCondition is gone.
    let wait = world.cluster.until("the OperatorCondition to be collected", &[PROCESS]).within(COLLECTED);
    wait.object(conditions, "server.v1.0.0", |it| it.is_none()).await.unwrap();
    let after = world.deployment().await;
    assert_eq!(after.uid(), before.uid(), "it is the same Deployment");
    assert_is_marked(&world, "2.0.0").await;
    world.down().await;
}

/// The Deployment belongs to this version alone, and has all that its pods need to know.
async fn assert_is_marked(world: &World, version: &str) {
    let name = format!("server.v{version}");
    let csv = world.csvs().get(&name).await.unwrap();
    let deployment = serde_json::to_value(world.deployment().await).unwrap();
    let at = |pointer: &str| deployment.pointer(pointer).cloned().unwrap_or_default();
    let labels = at("/metadata/labels");
    for (key, value) in [("olm.managed", "true"), ("olm.owner", &name), ("olm.owner.namespace", SHOP), ("tier", "one")]
    {
        assert_eq!(labels[key], value, "{labels}");
    }
    assert!(labels["olm.deployment-spec-hash"].is_string());
    let owners = at("/metadata/ownerReferences");
    let uids: Vec<&Value> = owners.as_array().unwrap().iter().map(|owner| &owner["uid"]).collect();
    assert_eq!(uids, [&json!(csv.uid())], "{owners}");
    let annotations = at("/spec/template/metadata/annotations");
    let told = [
        ("own", "kept"),
        ("example.com/told", "to pods"),
        ("olm.operatorGroup", "one"),
        ("olm.operatorNamespace", SHOP),
        ("olm.targetNamespaces", SHOP),
    ];
    for (key, value) in told {
        assert_eq!(annotations[key], value, "{annotations}");
    }
    assert_eq!(at("/spec/revisionHistoryLimit"), 1);
    assert_eq!(at("/spec/template/spec/containers/0/env"), json!([{"name": "OPERATOR_CONDITION_NAME", "value": name}]));
    let conditions: Api<OperatorCondition> = Api::namespaced(world.client.clone(), SHOP);
    let wait = world.cluster.until("the OperatorCondition", &[PROCESS]).within(LIMIT);
    let condition = wait.existing(conditions, &name, |_| true).await.unwrap();
    assert_eq!(
        (condition.spec.service_accounts, condition.spec.deployments),
        (vec!["server".into()], vec!["server".into()])
    );
    let roles: Api<Role> = Api::namespaced(world.client.clone(), SHOP);
    let wait = world.cluster.until("its Role", &[PROCESS]).within(LIMIT);
    let role = wait.existing(roles, &name, |_| true).await.unwrap().rules.unwrap();
    assert_eq!(role[0].resource_names.as_deref(), Some(&[name.clone()][..]));
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), SHOP);
    let wait = world.cluster.until("its RoleBinding", &[PROCESS]).within(LIMIT);
    let binding = wait.existing(bindings, &name, |_| true).await.unwrap();
    assert_eq!(binding.subjects.unwrap()[0].name, "server");
}

/// Each step is an event.
async fn assert_are_told(world: &World, steps: &[&str]) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), SHOP);
    let told = async || {
        let all = events.list(&Default::default()).await.unwrap();
        let of = all.items.into_iter().filter(|it| it.involved_object.kind.as_deref() == Some("ClusterServiceVersion"));
        of.map(|it| it.reason.unwrap_or_default()).collect::<Vec<_>>()
    };
    let wait = world.cluster.until("an event for each step", &[PROCESS]).within(LIMIT);
    wait.holds(async || {
        let told = told().await;
        steps.iter().all(|step| told.iter().any(|reason| step.ends_with(reason.as_str())))
    })
    .await
    .unwrap();
}

/// What has no namespace goes first; the rest is collected.
#[tokio::test(flavor = "multi_thread")]
async fn operator_that_is_deleted_takes_along_what_belongs_to_it() {
    let world = World::up().await;
    world.install(&csv("1.0.0", "")).await;
    let labels = json!({"olm.owner": "server.v1.0.0", "olm.owner.namespace": SHOP,
        "olm.owner.kind": "ClusterServiceVersion"});
    let role = |name: &str, labels: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels}, "rules": []})
    };
    world.apply(&role("of-server", labels)).await;
    world.apply(&role("of-others", json!({"olm.owner": "server.v1.0.0", "olm.owner.namespace": "other"}))).await;
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "of-server"});
    let mut binding = role(
        "of-server",
        json!({"olm.owner": "server.v1.0.0", "olm.owner.namespace": SHOP,
        "olm.owner.kind": "ClusterServiceVersion"}),
    );
    binding["kind"] = json!("ClusterRoleBinding");
    binding.as_object_mut().unwrap().remove("rules");
    binding["roleRef"] = reference;
    world.apply(&binding).await;
    // A copy is no operator; one without an original goes.
    let mut copy = csv("5.0.0", "");
    copy["metadata"]["labels"] = json!({"olm.copiedFrom": "elsewhere"});
    world.apply(&copy).await;
    world.until_gone("server.v5.0.0").await;

    world.csvs().delete("server.v1.0.0", &Default::default()).await.unwrap();
    world.until_gone("server.v1.0.0").await;
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    assert!(roles.get_opt("of-server").await.unwrap().is_none());
    assert!(roles.get_opt("of-others").await.unwrap().is_some());
    let wait = world.cluster.until("the Deployment to be collected", &[PROCESS]).within(COLLECTED);
    wait.object(world.deployments(), "server", |it| it.is_none()).await.unwrap();
    world.down().await;
}

/// What the next version does not have goes with the one before, once that one has taken its place.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn deployment_that_only_the_version_before_names_goes_with_it() {
    let world = World::up().await;
    let mut first = csv("1.0.0", "");
    let deployments = first.pointer_mut("/spec/install/spec/deployments").unwrap().as_array_mut().unwrap();
    let mut helper = deployments[0].clone();
    helper["name"] = json!("helper");
    for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *helper.pointer_mut(labels).unwrap() = json!({"app": "helper"});
    }
    deployments.push(helper);
    world.install(&first).await;
    // The next one cannot become ready yet.
    world.kubectl(["cordon", "fake-0"]).await;
    world.apply(&csv("2.0.0", "1.0.0")).await;
    world.until("to be waited for", "server.v2.0.0", |it| it.phase == Phase::Installing).await;
    assert!(world.deployments().get("helper").await.unwrap().metadata.deletion_timestamp.is_none());
    world.kubectl(["uncordon", "fake-0"]).await;
    world.until_succeeded("server.v2.0.0").await;
    world.until_gone("server.v1.0.0").await;
    let wait = world.cluster.until("the other Deployment to be collected", &[PROCESS]).within(COLLECTED);
    wait.object(world.deployments(), "helper", |it| it.is_none()).await.unwrap();
    world.until_succeeded("server.v2.0.0").await;
    world.down().await;
}
