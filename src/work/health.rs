//! What in the cluster would hinder any update: read when a release is loaded, and by `cvo doctor` and `cvo plan`.

use crate::plan::{Parts, Trouble, troubles};
use crate::pools::budgets::Budget;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// An update does not wait longer for what is only recorded.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a daemon that begins an update has to know of. What it cannot read it leaves out.
pub(crate) async fn hindrances(client: Client) -> Vec<Trouble> {
    let mut unknown = Vec::new();
    let Ok(parts) = tokio::time::timeout(PATIENCE, read(&client, &mut unknown)).await else {
        tracing::warn!("the state of nodes, budgets and webhooks was not read in time; the update goes on without it");
        return Vec::new();
    };
    if !unknown.is_empty() {
        tracing::info!(?unknown, "not looked at before the update");
    }
    troubles(&parts)
}

/// Nodes, budgets, webhooks with what answers behind them, and aggregated kinds. What cannot be read is told.
pub(crate) async fn read(client: &Client, unknown: &mut Vec<String>) -> Parts {
    let (nodes, budgets) = (Api::<Node>::all(client.clone()), Api::<PodDisruptionBudget>::all(client.clone()));
    let everything = ListParams::default();
    let group = "admissionregistration.k8s.io";
    let (nodes, budgets, services, validating, mutating) = tokio::join!(
        nodes.list(&everything),
        budgets.list(&everything),
        all(client, "apiregistration.k8s.io", "APIService", "apiservices"),
        all(client, group, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        all(client, group, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    );
    let mut known = Known(unknown);
    let mut webhooks = known.or_default("ValidatingWebhookConfigurations", validating);
    webhooks.extend(known.or_default("MutatingWebhookConfigurations", mutating));
    let answering = answering(client, &webhooks).await;
    Parts {
        nodes: known.or_default("nodes", nodes.map(|list| list.items)),
        budgets: known
            .or_default("PodDisruptionBudgets", budgets.map(|list| list.items.into_iter().map(Budget::of).collect())),
        api_services: known.or_default("APIServices", services),
        answering: known.or_default("EndpointSlices", answering.map(Some)),
        webhooks,
        ..Parts::default()
    }
}

/// Collects what could not be read.
pub(crate) struct Known<'a>(pub &'a mut Vec<String>);

impl Known<'_> {
    pub(crate) fn or_default<T: Default>(&mut self, what: &str, read: kube::Result<T>) -> T {
        read.map_err(|error| self.0.push(format!("{what} cannot be read: {error}"))).unwrap_or_default()
    }
}

/// All objects of a kind of version v1, with their kinds.
pub(crate) async fn all(client: &Client, group: &str, kind: &str, plural: &str) -> kube::Result<Vec<Value>> {
    let (group, api_version) = (group.to_owned(), format!("{group}/v1"));
    let resource =
        ApiResource { group, version: "v1".to_owned(), api_version, kind: kind.to_owned(), plural: plural.to_owned() };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let object = |object: DynamicObject| {
        let mut value = json!(object);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("kind".to_owned(), json!(kind));
        }
        value
    };
    Ok(api.list(&ListParams::default()).await?.items.into_iter().map(object).collect())
}

/// Of the Services of webhooks, those that have an endpoint that is ready, by namespace and name. Only their slices are read: a large
/// cluster has thousands.
async fn answering(client: &Client, webhooks: &[Value]) -> kube::Result<BTreeSet<(String, String)>> {
    let hooks = webhooks.iter().filter_map(|configuration| configuration.get("webhooks")?.as_array()).flatten();
    let services = hooks.filter_map(|hook| {
        let service = hook.pointer("/clientConfig/service")?;
        Some((service.get("namespace")?.as_str()?.to_owned(), service.get("name")?.as_str()?.to_owned()))
    });
    let mut answering = BTreeSet::new();
    for (namespace, name) in services.collect::<BTreeSet<_>>() {
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
        let selector = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
        let found = slices.list(&selector).await?;
        // Absent means ready.
        let mut endpoints = found.items.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        if endpoints.any(|it| it.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)) {
            answering.insert((namespace, name));
        }
    }
    Ok(answering)
}
