//! Which webhooks are asked about a write.

use crate::object::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use std::collections::BTreeMap;

/// Label of each namespace: its name.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

/// A write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub group: &'a str,
    pub version: &'a str,
    /// With the subresource, if any: `clusterversions/status`.
    pub resource: &'a str,
    pub operation: &'a str,
    /// Empty for what is in no namespace.
    pub namespace: &'a str,
}

/// Whether a webhook is asked about a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    No,
    Yes,
    /// Its rules name it, but this field decides.
    Undecided(&'static str),
}

/// The configuration that has a webhook of this name, such as `validatingwebhookconfiguration NAME`; or the webhook itself.
pub(crate) fn configuration_of(configurations: &[Value], hook: &str) -> String {
    let has = |configuration: &&Value| hooks(configuration).any(|it| text(it, "/name") == hook);
    match configurations.iter().find(has) {
        Some(configuration) => named(configuration),
        None => format!("webhook {hook}"),
    }
}

/// `kind name` of a configuration.
pub(crate) fn named(configuration: &Value) -> String {
    format!("{} {}", text(configuration, "/kind").to_lowercase(), text(configuration, "/metadata/name"))
}

pub(crate) fn hooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten()
}

/// Without it a write that it is asked about fails.
pub(crate) fn is_needed(hook: &Value) -> bool {
    text(hook, "/failurePolicy") != "Ignore"
}

/// The address of what answers: `Service namespace/name`, or a URL.
pub(crate) fn place(hook: &Value) -> String {
    match hook.pointer("/clientConfig/service") {
        Some(service) => format!("Service {}/{}", text(service, "/namespace"), text(service, "/name")),
        None => text(hook, "/clientConfig/url").to_owned(),
    }
}

pub(crate) fn asked(hook: &Value, write: &Write<'_>) -> Asked {
    if !rules_name(hook, write) {
        return Asked::No;
    }
    let given = |key: &str| -> LabelSelector {
        hook.get(key).and_then(|it| serde_json::from_value(it.clone()).ok()).unwrap_or_default()
    };
    let of_namespace = given("namespaceSelector");
    if !write.namespace.is_empty() && !selector::is_empty(&of_namespace) {
        let own: BTreeMap<String, String> = [(NAME_OF_NAMESPACE.to_owned(), write.namespace.to_owned())].into();
        let keys = of_namespace.match_labels.iter().flatten().map(|(key, _)| key);
        let mut keys = keys.chain(of_namespace.match_expressions.iter().flatten().map(|it| &it.key));
        // Others of its labels are not known.
        if keys.any(|key| key != NAME_OF_NAMESPACE) {
            return Asked::Undecided("namespaceSelector");
        }
        if !selector::matches(&of_namespace, &own) {
            return Asked::No;
        }
    }
    if !selector::is_empty(&given("objectSelector")) {
        return Asked::Undecided("objectSelector");
    }
    if hook.get("matchConditions").and_then(Value::as_array).is_some_and(|conditions| !conditions.is_empty()) {
        return Asked::Undecided("matchConditions");
    }
    Asked::Yes
}

/// Whether its rules name the write. Its selectors and conditions may still leave it out.
pub(crate) fn rules_name(hook: &Value, write: &Write<'_>) -> bool {
    hook.get("rules").and_then(Value::as_array).into_iter().flatten().any(|rule| names(rule, write))
}

fn names(rule: &Value, write: &Write<'_>) -> bool {
    let has = |key: &str, value: &str| {
        let mut given = rule.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        given.any(|given| given == "*" || given == value)
    };
    let scope = text(rule, "/scope");
    let in_scope = match scope {
        "Cluster" => write.namespace.is_empty(),
        "Namespaced" => !write.namespace.is_empty(),
        _ => true,
    };
    let mut resources = rule.get("resources").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let (resource, subresource) = write.resource.split_once('/').unwrap_or((write.resource, ""));
    let in_resources = resources.any(|given| match given.split_once('/') {
        Some((of, sub)) => (of == "*" || of == resource) && (sub == "*" || sub == subresource),
        // A resource without a slash never means its subresources.
        None => subresource.is_empty() && (given == "*" || given == resource),
    });
    in_scope
        && in_resources
        && has("apiGroups", write.group)
        && has("apiVersions", write.version)
        && has("operations", write.operation)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
