//! Small kinds: Namespace, ConfigMap, Secret, ServiceAccount, NetworkPolicy, PodDisruptionBudget, ClusterOperator, and
//! the generic shape of every kind without a rule of its own (payload-and-apply §5.6, §5.9).

use super::metadata::ROOT;
use super::rule::{AMOUNTS, Absent, BYTES, ENTRIES, Elements, Rule, Shape, both_ways, closed, default, field, open};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Every field that the manifest sets is enforced; what it leaves out is left alone.
pub(super) const GENERIC: &Shape = &Shape { base: ROOT, ..open(&[]) };

/// Labels, annotations and owners only.
pub(super) const METADATA_ONLY: &Shape = &Shape { base: ROOT, others: Rule::Never, ..open(&[]) };

pub(super) const CONFIG_MAP: &Shape = &Shape {
    base: ROOT,
    ..open(&[field("data", ENTRIES), field("binaryData", BYTES), field("immutable", Rule::Never)])
};

pub(super) const SECRET: &Shape =
    &Shape { base: ROOT, ..open(&[field("data", BYTES), field("stringData", Rule::Never)]) };

/// `stringData` can be written but not read: the server turns it into `data`, over what stands there.
pub(super) fn encode_text<'a>(_live: &Value, want: &'a Value) -> Cow<'a, Value> {
    let Some(texts) = want.get("stringData").and_then(Value::as_object).filter(|texts| !texts.is_empty()) else {
        return Cow::Borrowed(want);
    };
    let mut data = want.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, text) in texts {
        data.insert(key.clone(), Value::from(STANDARD.encode(text.as_str().unwrap_or_default())));
    }
    let mut encoded = want.clone();
    if let Some(object) = encoded.as_object_mut() {
        object.remove("stringData");
        object.insert("data".into(), Value::Object(data));
    }
    Cow::Owned(encoded)
}

pub(super) const SERVICE_ACCOUNT: &Shape = &Shape {
    base: ROOT,
    ..open(&[
        both_ways("automountServiceAccountToken", Rule::Deep),
        // Others append the secrets of tokens and pulls.
        field("secrets", Rule::Never),
        field("imagePullSecrets", Rule::Never),
    ])
};

/// Whole, since a rule or a peer that somebody adds opens the network.
pub(super) const NETWORK_POLICY: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&closed(&[
            default("podSelector", Absent::Empty, Rule::Exact),
            default("policyTypes", Absent::Infer(policy_types), Rule::List(&Elements::Unordered(Rule::Exact))),
            both_ways("ingress", TRAFFIC),
            both_ways("egress", TRAFFIC),
        ])),
    )])
};

const TRAFFIC: Rule = Rule::List(&Elements::Whole(Rule::Map(&closed(&[both_ways(
    "ports",
    Rule::List(&Elements::Whole(Rule::Map(&closed(&[
        default("protocol", Absent::Text("TCP"), Rule::Exact),
        both_ways("port", Rule::IntOrString),
    ])))),
)]))));

/// Ingress always, egress where there are rules for it.
fn policy_types(policy: &Map<String, Value>) -> Option<Value> {
    let egress = policy.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types: &[&str] = if egress { &["Ingress", "Egress"] } else { &["Ingress"] };
    Some(Value::from(types))
}

/// One of the two numbers excludes the other.
pub(super) const DISRUPTION_BUDGET: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[
            both_ways("minAvailable", Rule::IntOrString),
            both_ways("maxUnavailable", Rule::IntOrString),
            field("selector", Rule::Exact),
        ])),
    )])
};

pub(super) const RESOURCE_QUOTA: &Shape =
    &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(&open(&[field("hard", AMOUNTS)])))]) };

pub(super) const FLOW_SCHEMA: &Shape =
    &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(&open(&[field("rules", Rule::Exact)])))]) };
