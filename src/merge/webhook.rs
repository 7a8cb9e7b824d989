//! Admission webhooks and APIService, with the CA bundles that other controllers inject into them.

use super::ca_bundle::{CLIENT_CONFIG, is_injected, set_bundle};
use super::metadata::ROOT;
use super::rule::{Absent, Elements, Extra, Field, Order, Rule, Shape, both_ways, closed, default, field, open};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

pub(super) const WEBHOOKS: &Shape = &Shape {
    base: ROOT,
    ..open(&[both_ways(
        "webhooks",
        Rule::List(&Elements::Keyed { key: "name", rule: WEBHOOK, extra: Extra::Remove, order: Order::Manifest }),
    )])
};

const WEBHOOK: Rule = Rule::Map(&closed(&[
    both_ways("clientConfig", Rule::Map(CLIENT_CONFIG)),
    default("failurePolicy", Absent::Text("Fail"), Rule::Exact),
    default("matchPolicy", Absent::Text("Equivalent"), Rule::Exact),
    default("namespaceSelector", Absent::Empty, Rule::Exact),
    default("objectSelector", Absent::Empty, Rule::Exact),
    default("timeoutSeconds", Absent::Int(10), Rule::Exact),
    // Only mutating webhooks have this field.
    default("reinvocationPolicy", Absent::Text("Never"), Rule::Exact),
    both_ways(
        "rules",
        Rule::List(&Elements::Whole(Rule::Map(&closed(&[default("scope", Absent::Text("*"), Rule::Exact)])))),
    ),
]));

pub(super) const API_SERVICE: &Shape =
    &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(&open(API_SERVICE_SPEC)))]) };

/// The API server refuses a CA bundle together with `insecureSkipTLSVerify`, so each of the two removes the other.
const API_SERVICE_SPEC: &[Field] = &[
    default("caBundle", Absent::Infer(|spec| skips_verification(spec).then(|| Value::from(""))), Rule::Base64),
    default("insecureSkipTLSVerify", Absent::Bool(false), Rule::Deep),
];

fn skips_verification(spec: &Map<String, Value>) -> bool {
    spec.get("insecureSkipTLSVerify").and_then(Value::as_bool) == Some(true)
}

/// If CA bundles are injected, each webhook keeps its live one. A new webhook gets the first live bundle, since the same
/// controller injects all of them. One that exists without a bundle is left to that controller.
pub(super) fn keep_bundles<'a>(live: &Value, desired: &'a Value) -> Cow<'a, Value> {
    let webhooks = || live.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let bundle = |webhook: &'_ Value| webhook.pointer("/clientConfig/caBundle").cloned();
    let Some(first) = webhooks().find_map(bundle).filter(|_| is_injected(live, desired)) else {
        return Cow::Borrowed(desired);
    };
    let mut adapted = desired.clone();
    for webhook in adapted.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        let known = webhooks().find(|live| live.get("name") == webhook.get("name"));
        let Some(kept) = known.map_or_else(|| Some(first.clone()), bundle) else { continue };
        if webhook.get("clientConfig").is_none()
            && let Some(webhook) = webhook.as_object_mut()
        {
            webhook.insert("clientConfig".into(), json!({}));
        }
        if let Some(client) = webhook.get_mut("clientConfig") {
            set_bundle(client, &kept);
        }
    }
    Cow::Owned(adapted)
}

/// If the CA bundle of an APIService is injected, it keeps the live one even if the manifest has its own.
pub(super) fn keep_service_bundle<'a>(live: &Value, desired: &'a Value) -> Cow<'a, Value> {
    match live.pointer("/spec/caBundle") {
        Some(bundle) if is_injected(live, desired) && desired.pointer("/spec/caBundle").is_some() => {
            let mut adapted = desired.clone();
            if let Some(spec) = adapted.get_mut("spec") {
                set_bundle(spec, bundle);
            }
            Cow::Owned(adapted)
        }
        _ => Cow::Borrowed(desired),
    }
}
