//! What in the cluster would hinder any update: read when a release is loaded, and by `cvo doctor` and `cvo plan`.

use crate::cluster::dated;
use crate::cluster_version::health::troubles;
use crate::diagnosis::Trouble;
use crate::diagnosis::lease::Renewal;
use crate::diagnosis::parts::{Parts, PodFacts};
use crate::object::budgets::Budget;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::client::Body;
use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

/// An update does not wait longer for what is only recorded.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a daemon that begins an update has to know of. What it cannot read it leaves out.
pub(crate) async fn hindrances(client: Client) -> Vec<Trouble> {
    let mut unknown = Vec::new();
    let Ok(parts) = tokio::time::timeout(PATIENCE, read(&client, &mut unknown)).await else {
        tracing::warn!("the state of nodes, pods and webhooks was not read in time; the update goes on without it");
        return Vec::new();
    };
    if !unknown.is_empty() {
        tracing::info!(?unknown, "not looked at before the update");
    }
    troubles(&parts)
}

/// How many objects of a list are held whole at a time; of the rest only what is looked at is kept.
const PAGE: u32 = 500;
/// Definitions are large.
const PAGE_OF_DEFINITIONS: u32 = 20;

/// Nodes with their leases, pods, budgets, webhooks with what answers behind them, aggregated and defined kinds, and the clocks. What
/// cannot be read is told.
pub(crate) async fn read(client: &Client, unknown: &mut Vec<String>) -> Parts {
    let budgets = Api::<PodDisruptionBudget>::all(client.clone());
    let (nodes, pods, leases, budgets, services, definitions, webhooks, clocks) = tokio::join!(
        pages(Api::<Node>::all(client.clone()), PAGE, |node| Some(without_images(node))),
        pages(Api::<Pod>::all(client.clone()), PAGE, |pod| Some(PodFacts::of(&pod))),
        pages(Api::<Lease>::namespaced(client.clone(), "kube-node-lease"), PAGE, renewed),
        pages(budgets, PAGE, |budget| Some(Budget::of(budget))),
        all(client, "apiregistration.k8s.io", "APIService", "apiservices"),
        definitions(client),
        webhooks(client),
        clocks(client),
    );
    let mut known = Known(unknown);
    let webhooks = known.or_default("webhooks", webhooks);
    let answering = answering(client, &webhooks).await;
    Parts {
        nodes: known.or_default("nodes", nodes),
        pods: known.or_default("pods", pods),
        renewed: known.or_default("leases of nodes", leases),
        budgets: known.or_default("PodDisruptionBudgets", budgets),
        api_services: known.or_default("APIServices", services),
        definitions: known.or_default("CustomResourceDefinitions", definitions),
        answering: known.or_default("EndpointSlices", answering.map(Some)),
        clocks: known.or_default("the clock of the API server", clocks.map(Some)),
        webhooks,
        ..Parts::default()
    }
}

/// All objects of a kind, some at a time, and of each what `keep` makes of it.
pub(super) async fn pages<K, T>(api: Api<K>, size: u32, keep: impl Fn(K) -> Option<T>) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let (mut params, mut kept) = (ListParams::default().limit(size), Vec::new());
    loop {
        let page = api.list(&params).await?;
        kept.extend(page.items.into_iter().filter_map(&keep));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(kept),
        }
    }
}

fn without_images(mut node: Node) -> Node {
    node.metadata.managed_fields = None;
    if let Some(status) = &mut node.status {
        status.images = None;
    }
    node
}

/// When the kubelet of a node renewed its lease last.
fn renewed(lease: Lease) -> Option<(String, Renewal)> {
    let renewal = Renewal::of(&lease);
    Some((lease.metadata.name?, renewal))
}

/// The definitions without their schemas.
async fn definitions(client: &Client) -> kube::Result<Vec<Value>> {
    let resource = resource("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
    let short = |object: DynamicObject| {
        let part = |pointer| object.data.pointer(pointer).cloned().unwrap_or_default();
        Some(json!({
            "kind": "CustomResourceDefinition",
            "metadata": {"name": object.metadata.name},
            "spec": {"conversion": part("/spec/conversion")},
            "status": {"conditions": part("/status/conditions")},
        }))
    };
    pages(Api::all_with(client.clone(), &resource), PAGE_OF_DEFINITIONS, short).await
}

/// Validating and mutating ones.
pub(crate) async fn webhooks(client: &Client) -> kube::Result<Vec<Value>> {
    let group = "admissionregistration.k8s.io";
    let (validating, mutating) = tokio::try_join!(
        all(client, group, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        all(client, group, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    )?;
    Ok(validating.into_iter().chain(mutating).collect())
}

/// That of the API server, and that of this machine.
async fn clocks(client: &Client) -> kube::Result<(Timestamp, Timestamp)> {
    let request = http::Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
    let (_, server) = dated::<Value>(client, request).await?;
    let now = Timestamp::now();
    // A server that does not say it has no clock that could be compared.
    Ok((server.unwrap_or(now), now))
}

/// Collects what could not be read.
struct Known<'a>(&'a mut Vec<String>);

impl Known<'_> {
    fn or_default<T: Default>(&mut self, what: &str, read: kube::Result<T>) -> T {
        read.map_err(|error| self.0.push(format!("{what} cannot be read: {error}"))).unwrap_or_default()
    }
}

/// All objects of a kind of version v1, with their kinds.
async fn all(client: &Client, group: &str, kind: &str, plural: &str) -> kube::Result<Vec<Value>> {
    let object = |object: DynamicObject| {
        let mut value = json!(object);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("kind".to_owned(), json!(kind));
        }
        Some(value)
    };
    pages(Api::all_with(client.clone(), &resource(group, kind, plural)), PAGE, object).await
}

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, api_version) = (group.to_owned(), format!("{group}/v1"));
    ApiResource { group, version: "v1".to_owned(), api_version, kind: kind.to_owned(), plural: plural.to_owned() }
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
        let ready = endpoints.any(|it| it.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
        if ready || is_external(client, &namespace, &name).await? {
            answering.insert((namespace, name));
        }
    }
    Ok(answering)
}

/// Whether the Service leads to a name outside of the cluster, which has no endpoints in it.
async fn is_external(client: &Client, namespace: &str, name: &str) -> kube::Result<bool> {
    let service = Api::<Service>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(service.and_then(|service| service.spec?.type_).is_some_and(|type_| type_ == "ExternalName"))
}

#[cfg(test)]
mod tests;
