//! Which webhook converts the objects of a CustomResourceDefinition between its versions.

use super::endpoint::{port, service};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, WebhookDescription, WebhookType};
use crate::olm::operator::requirements::Definition;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PATH: &str = "/";
const CLIENT: &str = "/webhook/clientConfig";

/// A merge patch of a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub name: String,
    pub patch: Value,
}

/// The webhooks that convert, each with the name of a definition whose objects it converts.
pub(super) fn described(csv: &ClusterServiceVersion) -> impl Iterator<Item = (&WebhookDescription, &String)> {
    let all = csv.spec.webhook_definitions.iter().filter(|it| it.type_ == WebhookType::Conversion);
    all.flat_map(|webhook| webhook.conversion_crds.iter().map(move |name| (webhook, name)))
}

/// What `spec.conversion` is to be. `bundle`: PEM of the authorities.
pub(super) fn wanted(csv: &ClusterServiceVersion, webhook: &WebhookDescription, bundle: &str) -> Value {
    let path = webhook.webhook_path.as_deref().filter(|path| !path.is_empty()).unwrap_or(PATH);
    let service = json!({"name": service(&webhook.deployment_name), "namespace": csv.metadata.namespace, "path": path,
        "port": port(webhook.container_port)});
    json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"service": service, "caBundle": STANDARD.encode(bundle)},
        "conversionReviewVersions": webhook.admission_review_versions}})
}

/// The write after which the definition is converted so; `None` if it is.
pub(super) fn write(name: &str, definition: &Definition, wanted: &Value) -> Option<Write> {
    if same(&definition.conversion, wanted) {
        return None;
    }
    let mut conversion = wanted.clone();
    // Of both together the API server takes none.
    if let Some(client) = conversion.pointer_mut(CLIENT).and_then(Value::as_object_mut) {
        client.insert("url".to_owned(), Value::Null);
    }
    let metadata = json!({"resourceVersion": definition.version});
    Some(Write { name: name.to_owned(), patch: json!({"metadata": metadata, "spec": {"conversion": conversion}}) })
}

/// Whether the API server would take the one for the other.
fn same(live: &Value, wanted: &Value) -> bool {
    let mut live = live.clone();
    if let Some(service) = live.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| port(None).into());
    }
    live == *wanted
}

/// The bundle that the definition has now, where one of these Services converts: base64.
pub(super) fn live_bundle<'a>(definition: &'a Definition, (namespace, name): (&str, &str)) -> Option<&'a str> {
    let client = definition.conversion.pointer(CLIENT)?;
    let text = |pointer: &str| client.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_ours = text("/service/namespace") == namespace && text("/service/name") == name;
    is_ours.then(|| client.get("caBundle").and_then(Value::as_str).unwrap_or_default())
}

/// The same with another bundle, in base64.
pub(super) fn with_bundle(name: &str, definition: &Definition, bundle: &str) -> Write {
    let metadata = json!({"resourceVersion": definition.version});
    let conversion = json!({"webhook": {"clientConfig": {"caBundle": bundle}}});
    Write { name: name.to_owned(), patch: json!({"metadata": metadata, "spec": {"conversion": conversion}}) }
}

/// Definitions of the version whose objects a Service of it converts although no description says so.
pub(super) fn surplus(csv: &ClusterServiceVersion, definitions: &BTreeMap<String, Definition>) -> Vec<Write> {
    let deployments = csv.spec.install.spec.iter().flat_map(|strategy| &strategy.deployments);
    let services: Vec<String> = deployments.map(|entry| service(&entry.name)).collect();
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let owned = csv.spec.custom_resource_definitions.owned.iter().map(|it| &it.name);
    let unwanted = owned.filter(|name| described(csv).all(|(_, of)| of != *name));
    let writes = unwanted.filter_map(|name| {
        let definition = definitions.get(name)?;
        services.iter().find(|service| live_bundle(definition, (namespace, service)).is_some())?;
        Some(none(name, definition))
    });
    writes.collect()
}

/// What is done once the version is gone: whatever `others` convert stays as it is.
pub(super) fn ended<'a>(
    csv: &ClusterServiceVersion,
    others: impl Iterator<Item = &'a ClusterServiceVersion>,
    definitions: &BTreeMap<String, Definition>,
) -> Vec<Write> {
    let kept: Vec<&String> = others.flat_map(described).map(|(_, name)| name).collect();
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let writes = described(csv).filter(|(_, name)| !kept.contains(name)).filter_map(|(webhook, name)| {
        let definition = definitions.get(name)?;
        live_bundle(definition, (namespace, &service(&webhook.deployment_name)))?;
        Some(none(name, definition))
    });
    writes.collect()
}

/// Objects are converted by no webhook.
fn none(name: &str, definition: &Definition) -> Write {
    let conversion = json!({"strategy": "None", "webhook": null});
    let metadata = json!({"resourceVersion": definition.version});
    Write { name: name.to_owned(), patch: json!({"metadata": metadata, "spec": {"conversion": conversion}}) }
}

/// Whether a write changes the bundle and nothing else.
pub(super) fn is_of_bundle(write: &Write, definitions: &BTreeMap<String, Definition>) -> bool {
    let without = |conversion: &Value| {
        let mut conversion = conversion.clone();
        if let Some(client) = conversion.pointer_mut(CLIENT).and_then(Value::as_object_mut) {
            client.remove("caBundle");
            client.remove("url");
        }
        conversion
    };
    let (wanted, live) = (write.patch.pointer("/spec/conversion"), definitions.get(&write.name));
    wanted.zip(live).is_some_and(|(wanted, live)| same(&without(&live.conversion), &without(wanted)))
}
