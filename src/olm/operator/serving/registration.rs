//! What tells the API server to ask a Deployment: webhook configurations and APIServices.

use super::endpoint::{port, service};
use crate::olm::api::cluster_service_version::{
    ApiServiceDescription, ClusterServiceVersion, WebhookDescription, WebhookType,
};
use crate::olm::api::keys::label;
use crate::olm::names::label_value;
use crate::olm::operator::deployment::labels;
use crate::olm::operator::{Group, mode};
use crate::olm::permissions::hash;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
/// Characters at the end of a generated name.
const SUFFIX: usize = 5;
/// How an APIService ranks among those of other groups, and among the versions of its group.
const PRIORITIES: (i32, i32) = (2000, 15);

/// The kind of the configuration of a webhook; `None` for one that has none.
pub(super) fn kind(webhook: &WebhookDescription) -> Option<&'static str> {
    match webhook.type_ {
        WebhookType::Validating => Some("ValidatingWebhookConfiguration"),
        WebhookType::Mutating => Some("MutatingWebhookConfiguration"),
        WebhookType::Conversion | WebhookType::Other(_) => None,
    }
}

/// The name of a new configuration. It is the same each time, so that an attempt whose end nobody has seen leaves no second one.
pub(super) fn generated_name(csv: &ClusterServiceVersion, webhook: &WebhookDescription) -> String {
    let uid = csv.metadata.uid.as_deref().unwrap_or_default();
    let hash = hex::encode(Sha256::digest(format!("{uid} {}", webhook.generate_name)));
    format!("{}-{}", webhook.generate_name, hash.get(..SUFFIX).unwrap_or_default())
}

/// What the label of a configuration says that belongs to a description.
pub(super) fn description_label(webhook: &WebhookDescription) -> String {
    label_value(&webhook.generate_name)
}

/// The configuration of an admission webhook. `bundle`: PEM of the authorities.
pub(super) fn configuration(
    csv: &ClusterServiceVersion,
    group: &Group<'_>,
    webhook: &WebhookDescription,
    (kind, name): (&str, &str),
    bundle: &str,
) -> Value {
    let mut labels = labels(csv);
    labels.insert(label::WEBHOOK_GENERATE_NAME.to_owned(), description_label(webhook).into());
    labels.insert(label::WEBHOOK_HASH.to_owned(), hash(webhook, "").into());
    let mut service = json!({"name": service(&webhook.deployment_name), "namespace": csv.metadata.namespace,
        "port": port(webhook.container_port)});
    if let (Some(path), Some(service)) = (&webhook.webhook_path, service.as_object_mut()) {
        service.insert("path".to_owned(), path.as_str().into());
    }
    let mut object = json!({"name": webhook.generate_name, "clientConfig": {"service": service, "caBundle": STANDARD.encode(bundle)},
        "rules": webhook.rules, "sideEffects": webhook.side_effects,
        "admissionReviewVersions": webhook.admission_review_versions});
    let optional = [
        ("failurePolicy", json!(webhook.failure_policy)),
        ("matchPolicy", json!(webhook.match_policy)),
        ("objectSelector", json!(webhook.object_selector)),
        ("timeoutSeconds", json!(webhook.timeout_seconds)),
        ("namespaceSelector", namespaces(group)),
    ];
    let reinvocation = ("reinvocationPolicy", json!(webhook.reinvocation_policy));
    // Validating webhooks have no such field.
    let optional =
        optional.into_iter().chain([reinvocation].into_iter().filter(|_| webhook.type_ == WebhookType::Mutating));
    if let Some(object) = object.as_object_mut() {
        let named = optional.filter(|(_, value)| !value.is_null());
        object.extend(named.map(|(key, value)| (key.to_owned(), value)));
    }
    json!({"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name, "labels": labels}, "webhooks": [object]})
}

/// Which namespaces a webhook concerns: those that the group selects; null for all.
fn namespaces(group: &Group<'_>) -> Value {
    let (spec, metadata) = (&group.object.spec, &group.object.metadata);
    if group.targets.iter().any(|target| target == mode::ALL) {
        return Value::Null;
    }
    if spec.target_namespaces.is_empty() {
        return json!(spec.selector);
    }
    let key = format!("{}{}", label::OPERATOR_GROUP_UID, metadata.uid.as_deref().unwrap_or_default());
    json!({"matchLabels": {key: ""}})
}

/// Name of the APIService of a description.
pub(super) fn api_name(api: &ApiServiceDescription) -> String {
    format!("{}.{}", api.version, api.group)
}

pub(super) fn api_service(csv: &ClusterServiceVersion, api: &ApiServiceDescription, bundle: &str) -> Value {
    let service = json!({"name": service(&api.deployment_name), "namespace": csv.metadata.namespace,
        "port": port(api.container_port)});
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": api_name(api), "labels": labels(csv)},
        "spec": {"group": api.group, "version": api.version, "service": service, "caBundle": STANDARD.encode(bundle),
            "groupPriorityMinimum": PRIORITIES.0, "versionPriority": PRIORITIES.1}})
}
