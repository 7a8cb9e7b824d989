//! Admission webhooks and APIService, and the CA bundles that others inject into them (payload-and-apply §5.6, §9.3 C3).

use super::crd::CLIENT;
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
    both_ways("clientConfig", Rule::Map(CLIENT)),
    default("failurePolicy", Absent::Text("Fail"), Rule::Exact),
    default("matchPolicy", Absent::Text("Equivalent"), Rule::Exact),
    default("namespaceSelector", Absent::Empty, Rule::Exact),
    default("objectSelector", Absent::Empty, Rule::Exact),
    default("timeoutSeconds", Absent::Int(10), Rule::Exact),
    // Of mutating webhooks only.
    default("reinvocationPolicy", Absent::Text("Never"), Rule::Exact),
    both_ways(
        "rules",
        Rule::List(&Elements::Whole(Rule::Map(&closed(&[default("scope", Absent::Text("*"), Rule::Exact)])))),
    ),
]));

pub(super) const API_SERVICE: &Shape =
    &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(&open(API_SERVICE_SPEC)))]) };

/// A bundle says whom to trust, the switch that nobody is asked: the server refuses both together.
const API_SERVICE_SPEC: &[Field] = &[
    default("caBundle", Absent::Infer(|spec| trusts_anybody(spec).then(|| Value::from(""))), Rule::Base64),
    default("insecureSkipTLSVerify", Absent::Bool(false), Rule::Deep),
];

fn trusts_anybody(spec: &Map<String, Value>) -> bool {
    spec.get("insecureSkipTLSVerify").and_then(Value::as_bool) == Some(true)
}

/// Annotations by which an object asks another controller for its CA bundle; a value means that exactly it is needed.
const INJECTORS: &[(&str, Option<&str>)] = &[
    ("service.beta.openshift.io/inject-cabundle", Some("true")),
    ("service.alpha.openshift.io/inject-cabundle", Some("true")),
    ("cert-manager.io/inject-ca-from", None),
    ("cert-manager.io/inject-ca-from-secret", None),
    ("cert-manager.io/inject-apiserver-ca", Some("true")),
];

/// Is a CA bundle asked for? By the live object, or by the manifest that is about to make it ask: taking away what is
/// there would break it until the injector comes.
pub(super) fn asked_for(live: &Value, want: &Value) -> bool {
    let asks = |object: &Value, (key, needed): &(&str, Option<&str>)| {
        let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(*key)?.as_str());
        annotation.is_some_and(|value| needed.is_none_or(|needed| needed == value))
    };
    INJECTORS.iter().any(|injector| asks(live, injector) || asks(want, injector))
}

/// Makes the live bundle part of what is wanted.
pub(super) fn keep_bundle(client: &mut Value, bundle: &Value) {
    if let Some(client) = client.as_object_mut() {
        client.insert("caBundle".into(), bundle.clone());
    }
}

/// Each webhook keeps its live bundle; a new one gets the first that is there, since one injector serves them all.
pub(super) fn keep_bundles<'a>(live: &Value, want: &'a Value) -> Cow<'a, Value> {
    let webhooks = || live.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let bundle = |webhook: &'_ Value| webhook.pointer("/clientConfig/caBundle").cloned();
    let Some(first) = webhooks().find_map(bundle).filter(|_| asked_for(live, want)) else {
        return Cow::Borrowed(want);
    };
    let mut kept = want.clone();
    let wanted = kept.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in wanted.into_iter().flatten() {
        let own = webhooks().find(|live| live.get("name") == webhook.get("name")).and_then(bundle);
        if webhook.get("clientConfig").is_none()
            && let Some(webhook) = webhook.as_object_mut()
        {
            webhook.insert("clientConfig".into(), json!({}));
        }
        if let Some(client) = webhook.get_mut("clientConfig") {
            keep_bundle(client, own.as_ref().unwrap_or(&first));
        }
    }
    Cow::Owned(kept)
}

/// An APIService that asks for a bundle keeps the live one, even if the manifest brings its own.
pub(super) fn keep_service_bundle<'a>(live: &Value, want: &'a Value) -> Cow<'a, Value> {
    match live.pointer("/spec/caBundle") {
        Some(bundle) if asked_for(live, want) && want.pointer("/spec/caBundle").is_some() => {
            let mut kept = want.clone();
            if let Some(spec) = kept.get_mut("spec") {
                keep_bundle(spec, bundle);
            }
            Cow::Owned(kept)
        }
        _ => Cow::Borrowed(want),
    }
}
