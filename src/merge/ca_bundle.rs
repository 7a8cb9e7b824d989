//! CA bundles of webhooks and APIServices, which other controllers may inject.

use super::rule::{Absent, Rule, Shape, both_ways, closed, default};
use serde_json::Value;

/// How the API server reaches a webhook.
pub(super) const CLIENT_CONFIG: &Shape = &closed(&[
    both_ways("caBundle", Rule::Base64),
    both_ways("service", Rule::Map(&closed(&[default("port", Absent::Int(443), Rule::Exact)]))),
]);

/// Annotations by which an object asks another controller to inject its CA bundle, and the value that they must have.
const INJECTORS: &[(&str, Option<&str>)] = &[
    ("service.beta.openshift.io/inject-cabundle", Some("true")),
    ("service.alpha.openshift.io/inject-cabundle", Some("true")),
    ("cert-manager.io/inject-ca-from", None),
    ("cert-manager.io/inject-ca-from-secret", None),
    ("cert-manager.io/inject-apiserver-ca", Some("true")),
];

/// Whether another controller injects the CA bundle, by the annotations of the live object or of the manifest. The latter
/// count because without its bundle the object would not work until the controller reacts to the new annotation.
pub(super) fn is_injected(live: &Value, desired: &Value) -> bool {
    let asks = |object: &Value, (key, required): &(&str, Option<&str>)| {
        let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(*key)?.as_str());
        annotation.is_some_and(|value| required.is_none_or(|required| required == value))
    };
    INJECTORS.iter().any(|injector| asks(live, injector) || asks(desired, injector))
}

pub(super) fn set_bundle(client: &mut Value, bundle: &Value) {
    if let Some(client) = client.as_object_mut() {
        client.insert("caBundle".into(), bundle.clone());
    }
}
