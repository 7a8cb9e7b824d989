//! Checks manifests of built-in kinds against their types when a release is loaded. Otherwise the API server would refuse
//! them in the middle of an update.
//!
//! Kinds of OpenShift and custom resources have no types here; the API server checks them. What the server accepts must
//! never be refused here, so a field is not checked if in doubt.

use crate::error::of_json;
use crate::object::manifest::Manifest;
use k8s_openapi::api::{admissionregistration::v1 as admission, apps::v1 as apps, batch::v1 as batch};
use k8s_openapi::api::{core::v1 as core, rbac::v1 as rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes the bytes of one kind. An error names the path and the cause.
type Decode = fn(&[u8]) -> Result<(), String>;

/// The kinds with merge rules that have types in k8s-openapi.
const KINDS: [(&str, &str, Decode); 15] = [
    ("v1", "ConfigMap", decode::<core::ConfigMap>),
    ("v1", "Namespace", decode::<core::Namespace>),
    ("v1", "Service", decode::<core::Service>),
    ("v1", "ServiceAccount", decode::<core::ServiceAccount>),
    ("apps/v1", "Deployment", decode::<apps::Deployment>),
    ("apps/v1", "DaemonSet", decode::<apps::DaemonSet>),
    ("batch/v1", "Job", decode::<batch::Job>),
    ("batch/v1", "CronJob", decode::<batch::CronJob>),
    ("rbac.authorization.k8s.io/v1", "Role", decode::<rbac::Role>),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", decode::<rbac::ClusterRole>),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", decode::<rbac::RoleBinding>),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", decode::<rbac::ClusterRoleBinding>),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", decode::<extensions::CustomResourceDefinition>),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        decode::<admission::ValidatingWebhookConfiguration>,
    ),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        decode::<admission::MutatingWebhookConfiguration>,
    ),
];

/// Whether the manifest can be applied, as far as that is known without a cluster. An error names the field and the cause.
pub(crate) fn check(manifest: &Manifest) -> Result<(), String> {
    manifest.delete()?;
    let known = KINDS.iter().find(|(version, kind, _)| (*version, *kind) == (&manifest.api_version, &manifest.id.kind));
    let Some((_, _, decode)) = known else { return Ok(()) };
    // Most manifests decode at once. Go's decoders accept more than these types, so a failure only counts if it remains
    // after the object was normalised.
    if decode(&manifest.raw.bytes()).is_ok() {
        return Ok(());
    }
    let mut object = manifest.object().map_err(|e| format!("{}: {e}", manifest.id))?;
    if let Some(map) = object.as_object_mut() {
        // Status is not applied.
        map.remove("status");
    }
    normalise(&mut object, ["apps", "batch"].contains(&manifest.id.group.as_str()));
    let bytes = serde_json::to_vec(&object).map_err(|e| format!("{}: {e}", manifest.id))?;
    decode(&bytes).map_err(|cause| format!("{}: {cause}; correct the manifest", manifest.id))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Ok(_) => Ok(()),
        Err(error) => {
            let path = error.path().to_string();
            Err(format!("{path}: {}", of_json(&error.into_inner())))
        }
    }
}

/// Fields of a pod that are maps of resource quantities.
const QUANTITIES: [&str; 3] = ["limits", "requests", "overhead"];
/// Fields of a pod that are a single quantity.
const QUANTITY: [&str; 2] = ["sizeLimit", "divisor"];
/// Base64 fields.
const BYTES: [&str; 2] = ["caBundle", "binaryData"];

/// Removes or rewrites what Go's decoders accept and the types here do not: `null` in any place, numbers as quantities of a
/// `pod`, and base64 with newlines.
fn normalise(value: &mut Value, pod: bool) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !value.is_null() && !BYTES.contains(&key.as_str()));
            for (key, value) in map.iter_mut() {
                match value {
                    Value::Object(amounts) if pod && QUANTITIES.contains(&key.as_str()) => {
                        amounts.retain(|_, amount| !amount.is_null());
                        amounts.values_mut().for_each(number_to_text);
                    }
                    value if pod && QUANTITY.contains(&key.as_str()) => number_to_text(value),
                    value => normalise(value, pod),
                }
            }
        }
        Value::Array(list) => {
            list.retain(|value| !value.is_null());
            list.iter_mut().for_each(|value| normalise(value, pod));
        }
        _ => {}
    }
}

fn number_to_text(quantity: &mut Value) {
    if let Value::Number(number) = quantity {
        *quantity = Value::from(number.to_string());
    }
}

#[cfg(test)]
mod tests;
