//! Manifests of Kubernetes' own kinds must fit their types, or the API server would refuse them in the middle of an
//! update (payload-and-apply §1.8, §9.3 C1).
//!
//! Kinds of OpenShift have no types here and are left to the server, as is everything that a definition describes. What
//! the server takes is never refused: in doubt a field is not looked at.

use super::manifest::Manifest;
use k8s_openapi::api::{admissionregistration::v1 as admission, apps::v1 as apps, batch::v1 as batch};
use k8s_openapi::api::{core::v1 as core, rbac::v1 as rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes the bytes of one kind; an error has the path and the cause.
type Decode = fn(&[u8]) -> Result<(), String>;

/// The kinds that are merged by rules of their own and have types (§5.1).
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

/// Whether the manifest can be applied as far as can be told without a cluster. An error names the field and the cause.
pub fn check(manifest: &Manifest) -> Result<(), String> {
    manifest.delete()?;
    let fits = KINDS.iter().find(|(version, kind, _)| (*version, *kind) == (&manifest.api_version, &manifest.id.kind));
    let Some((_, _, decode)) = fits else { return Ok(()) };
    // Most fit as they are. Go's decoders take more than these do; what is left after making up for that is wrong.
    if decode(&manifest.raw.bytes()).is_ok() {
        return Ok(());
    }
    let mut object = manifest.object().map_err(|e| format!("{}: {e}", manifest.id))?;
    if let Some(map) = object.as_object_mut() {
        // It is not applied.
        map.remove("status");
    }
    tolerate(&mut object, ["apps", "batch"].contains(&manifest.id.group.as_str()));
    let bytes = serde_json::to_vec(&object).map_err(|e| format!("{}: {e}", manifest.id))?;
    decode(&bytes).map_err(|cause| format!("{}: {cause}; correct the manifest", manifest.id))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Ok(_) => Ok(()),
        Err(error) => {
            let path = error.path().to_string();
            let cause = error.into_inner().to_string();
            // The place in the compact form says nothing to anybody.
            Err(format!("{path}: {}", cause.split(" at line ").next().unwrap_or(&cause)))
        }
    }
}

/// Maps of resource quantities in a pod, by their key.
const QUANTITIES: [&str; 3] = ["limits", "requests", "overhead"];
/// Fields of a pod that are one quantity.
const QUANTITY: [&str; 2] = ["sizeLimit", "divisor"];
/// Bytes in base64, which Go reads more leniently than the types here.
const BYTES: [&str; 2] = ["caBundle", "binaryData"];

/// Makes up for what Go's decoders take beyond the types here: `null` for anything, numbers for the quantities of a
/// `pod`, and base64 with newlines in it.
fn tolerate(value: &mut Value, pod: bool) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !value.is_null() && !BYTES.contains(&key.as_str()));
            for (key, value) in map.iter_mut() {
                match value {
                    Value::Object(amounts) if pod && QUANTITIES.contains(&key.as_str()) => {
                        amounts.retain(|_, amount| !amount.is_null());
                        amounts.values_mut().for_each(spell);
                    }
                    value if pod && QUANTITY.contains(&key.as_str()) => spell(value),
                    value => tolerate(value, pod),
                }
            }
        }
        Value::Array(list) => {
            list.retain(|value| !value.is_null());
            list.iter_mut().for_each(|value| tolerate(value, pod));
        }
        _ => {}
    }
}

/// A number as the text of a quantity.
fn spell(amount: &mut Value) {
    if let Value::Number(number) = amount {
        *amount = Value::from(number.to_string());
    }
}

#[cfg(test)]
mod tests;
