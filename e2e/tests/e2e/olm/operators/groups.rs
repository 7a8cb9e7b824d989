//! Without exactly one OperatorGroup that fits, nothing is installed, and nothing that runs is touched.

use cvo::testing::api::olm::cluster_service_version::Phase;
use cvo::testing::api::olm::operator_group::OperatorGroup;
use e2e::conditions::Conditions;
use e2e::olm::PROCESS;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::super::LIMIT;
use super::{SHOP, World, csv, group};

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_do_not_fit_are_told_and_end_with_what_they_say() {
    let world = World::up().await;
    world.start();
    world.account().await;
    world.apply(&csv("1.0.0", "")).await;
    let name = "server.v1.0.0";
    let without = world.until("to be told", name, |it| it.reason == "NoOperatorGroup").await.status.unwrap();
    assert_eq!((without.phase, without.message.as_str()), (Phase::Failed, "csv in namespace with no operatorgroups"));

    world.group("one").await;
    world.until_succeeded(name).await;
    let before = world.deployment().await;

    world.group("two").await;
    let several = world.until("to be told", name, |it| it.reason == "TooManyOperatorGroups").await.status.unwrap();
    assert_eq!(several.message, "csv created in namespace with multiple operatorgroups, can't pick one automatically");
    let groups: Api<OperatorGroup> = Api::namespaced(world.client.clone(), SHOP);
    for name in ["one", "two"] {
        let wait = world.cluster.until("the condition of the group", &[PROCESS]).within(LIMIT);
        wait.existing(groups.clone(), name, |it| it.has("MultipleOperatorGroup=True")).await.unwrap();
    }
    groups.delete("two", &Default::default()).await.unwrap();
    world.until_succeeded(name).await;
    let wait = world.cluster.until("the condition to end", &[PROCESS]).within(LIMIT);
    wait.existing(groups.clone(), "one", |it| !it.has("MultipleOperatorGroup")).await.unwrap();

    // A selector that selects nothing must never be taken for all namespaces.
    let selector = |value: &str| json!({"selector": {"matchLabels": {"shelf": value}}, "targetNamespaces": []});
    world.apply(&group("one", selector("none"))).await;
    world.until("to be told", name, |it| it.reason == "NoTargetNamespaces").await;
    let annotations = world.csvs().get(name).await.unwrap().annotations().clone();
    assert_eq!(annotations["olm.targetNamespaces"], SHOP, "it is as before");
    world.apply(&group("one", json!({"targetNamespaces": ["other"]}))).await;
    let unfit = world.until("to be told", name, |it| it.reason == "UnsupportedOperatorGroup").await.status.unwrap();
    assert_eq!(unfit.message, "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace");
    let after = world.deployment().await;
    assert_eq!((after.uid(), after.metadata.generation), (before.uid(), before.metadata.generation), "it runs on");

    // All namespaces: it needs its rights in each, which nobody has given it. Then the pods are told.
    world.apply(&group("one", json!({}))).await;
    world.until("to lack rights", name, |it| it.reason == "RequirementsNotMet").await;
    world.rights_everywhere().await;
    world.until_succeeded(name).await;
    let told = world.deployment().await.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
    assert_eq!(told["olm.targetNamespaces"], "");

    // The last group goes: the operator is nobody's, and runs on until there is one again.
    let before = world.deployment().await;
    groups.delete("one", &Default::default()).await.unwrap();
    let left = world.until("to be told", name, |it| it.reason == "NoOperatorGroup").await.status.unwrap();
    assert_eq!(left.phase, Phase::Failed);
    let after = world.deployment().await;
    assert_eq!((after.uid(), after.metadata.generation), (before.uid(), before.metadata.generation), "it runs on");
    world.apply(&group("one", json!({}))).await;
    world.until_succeeded(name).await;
    world.down().await;
}
