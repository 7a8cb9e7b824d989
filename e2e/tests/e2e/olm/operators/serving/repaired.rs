//! Somebody takes away what leads the API server to an operator: it comes back at once, as nothing waits for a resync.

use e2e::conditions::Conditions;
use e2e::olm::PROCESS;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Api, ResourceExt};

use super::super::super::LIMIT;
use super::super::{SHOP, World};
use super::{API, DEFINITION, NAME, SECRET, created, widgets};

const OWNED: &str = "olm.owner.kind=ClusterServiceVersion";

pub(super) async fn what_leads_to_the_operator_comes_back(world: &World) {
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "apiservices"] {
        let uids = async || world.kubectl(["get", kind, "-l", OWNED, "-o", "jsonpath={.items[*].metadata.uid}"]).await;
        let before = uids().await;
        assert!(!before.is_empty(), "{kind}");
        world.kubectl(["delete", kind, "-l", OWNED]).await;
        let wait = world.cluster.until(format!("other {kind}"), &[PROCESS]).within(LIMIT);
        let is_back = async || {
            let now = uids().await;
            !now.is_empty() && now != before
        };
        wait.holds(is_back).await.unwrap();
        answers(world).await;
    }

    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let none = r#"{"spec": {"conversion": {"strategy": "None", "webhook": null}}}"#;
    world.kubectl(["patch", "crd", DEFINITION, "--type=merge", "-p", none]).await;
    let wait = world.cluster.until("the conversion to come back", &[PROCESS]).within(LIMIT);
    let is_back =
        |it: &CustomResourceDefinition| it.spec.conversion.as_ref().is_some_and(|it| it.strategy == "Webhook");
    wait.existing(definitions, DEFINITION, is_back).await.unwrap();
    answers(world).await;

    let before = world.secret().await;
    world.kubectl(["delete", "secret", SECRET, "-n", SHOP]).await;
    let after = world.until_rotated(&before).await;
    assert_ne!(after.uid(), before.uid());
    answers(world).await;
}

/// The operator has succeeded, and is asked.
async fn answers(world: &World) {
    world.until_succeeded(NAME).await;
    let widgets = widgets(world, "v2");
    let wait = world.cluster.until("a webhook to answer", &[PROCESS]).within(LIMIT);
    wait.holds(async || created(&widgets).await.is_ok_and(|is_marked| is_marked)).await.unwrap();
    let services: Api<APIService> = Api::all(world.client.clone());
    let wait = world.cluster.until("the API to answer", &[PROCESS]).within(LIMIT);
    wait.existing(services, API, |it| it.has("Available=True")).await.unwrap();
}
