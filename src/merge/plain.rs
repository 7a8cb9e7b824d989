//! Kinds with few rules, and the shape of every kind without an entry in the table.

use super::metadata::ROOT;
use super::rule::{
    Absent, BYTES, ENTRIES, ENTRIES_WHOLE, Elements, QUANTITIES, QUANTITIES_WHOLE, Rule, Shape, both_ways, closed,
    default, field, if_set, open,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Every field that the manifest sets is enforced; all others stay.
pub(super) const GENERIC: &Shape = &Shape { base: ROOT, ..open(&[]) };

/// Labels, annotations and owners only.
pub(super) const METADATA_ONLY: &Shape = &Shape { base: ROOT, others: Rule::Never, ..open(&[]) };

/// With `true` the manifest owns all `data` of its ConfigMap: keys that it does not have are removed.
const WHOLE_DATA: &str = "release.openshift.io/whole-data";

pub(super) const CONFIG_MAP: &Shape = &Shape {
    base: ROOT,
    ..open(&[
        default("data", Absent::Empty, Rule::Choose(data)),
        field("binaryData", BYTES),
        field("immutable", Rule::Never),
    ])
};

fn data(config_map: &Map<String, Value>) -> Rule {
    let annotations = config_map.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let whole = annotations.and_then(|annotations| annotations.get(WHOLE_DATA));
    if whole.and_then(Value::as_str) == Some("true") { ENTRIES_WHOLE } else { ENTRIES }
}

pub(super) const SECRET: &Shape =
    &Shape { base: ROOT, ..open(&[field("data", BYTES), field("stringData", Rule::Never), if_set("type")]) };

/// `stringData` can be written but not read: the API server moves it to `data`, where it overwrites equal keys.
pub(super) fn encode_text<'a>(_live: &Value, desired: &'a Value) -> Cow<'a, Value> {
    let Some(texts) = desired.get("stringData").and_then(Value::as_object).filter(|texts| !texts.is_empty()) else {
        return Cow::Borrowed(desired);
    };
    let mut data = desired.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, text) in texts {
        data.insert(key.clone(), Value::from(STANDARD.encode(text.as_str().unwrap_or_default())));
    }
    let mut encoded = desired.clone();
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
        // Controllers add the names of token and pull secrets.
        field("secrets", Rule::Never),
        field("imagePullSecrets", Rule::Never),
    ])
};

/// Owned as a whole, since every rule or peer that another client adds would allow more traffic.
pub(super) const NETWORK_POLICY: &Shape = &Shape {
    base: ROOT,
    ..open(&[default(
        "spec",
        Absent::Empty,
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

/// The API server's default: always Ingress, and Egress if there are egress rules.
fn policy_types(policy: &Map<String, Value>) -> Option<Value> {
    let egress = policy.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types: &[&str] = if egress { &["Ingress", "Egress"] } else { &["Ingress"] };
    Some(Value::from(types))
}

/// The API server refuses both numbers together, so the one that the manifest omits is removed.
pub(super) const DISRUPTION_BUDGET: &Shape = &Shape {
    base: ROOT,
    ..open(&[default(
        "spec",
        Absent::Empty,
        Rule::Map(&open(&[
            both_ways("minAvailable", Rule::IntOrString),
            both_ways("maxUnavailable", Rule::IntOrString),
            field("selector", Rule::Selector),
        ])),
    )])
};

pub(super) const RESOURCE_QUOTA: &Shape =
    &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(&open(&[field("hard", QUANTITIES)])))]) };

pub(super) const FLOW_SCHEMA: &Shape =
    &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(&open(&[field("rules", Rule::Exact)])))]) };

pub(super) const LIMIT_RANGE: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[field(
            "limits",
            Rule::List(&Elements::Whole(Rule::Map(&open(&[
                field("max", QUANTITIES_WHOLE),
                field("min", QUANTITIES_WHOLE),
                // The API server adds what is missing in these, from the maximum and the minimum.
                field("default", QUANTITIES),
                field("defaultRequest", QUANTITIES),
                field("maxLimitRequestRatio", QUANTITIES_WHOLE),
            ])))),
        )])),
    )])
};

pub(super) const RUNTIME_CLASS: &Shape =
    &Shape { base: ROOT, ..open(&[field("overhead", Rule::Map(&open(&[field("podFixed", QUANTITIES_WHOLE)])))]) };

pub(super) const AUTOSCALER: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[field(
            "metrics",
            Rule::List(&Elements::Whole(Rule::Map(&open(&[
                field("resource", METRIC),
                field("containerResource", METRIC),
                field("pods", METRIC),
                field("object", METRIC),
                field("external", METRIC),
            ])))),
        )])),
    )])
};

const METRIC: Rule = Rule::Map(&open(&[field(
    "target",
    Rule::Map(&open(&[field("averageValue", Rule::Quantity), field("value", Rule::Quantity)])),
)]));

/// The API server refuses the settings of another type, so they are removed.
pub(super) const PRIORITY_LEVEL: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[
            both_ways("limited", Rule::Map(LIMITED)),
            default(
                "exempt",
                Absent::Derive(|spec| {
                    (spec.get("type") == Some(&Value::from("Exempt"))).then(|| Value::Object(Map::new()))
                }),
                Rule::Map(&closed(&[
                    default("nominalConcurrencyShares", Absent::Int(0), Rule::Exact),
                    default("lendablePercent", Absent::Int(0), Rule::Exact),
                ])),
            ),
        ])),
    )])
};

const LIMITED: &Shape = &closed(&[
    default("nominalConcurrencyShares", Absent::Int(30), Rule::Exact),
    default("lendablePercent", Absent::Int(0), Rule::Exact),
    both_ways("borrowingLimitPercent", Rule::Exact),
    both_ways(
        "limitResponse",
        Rule::Map(&closed(&[both_ways(
            "queuing",
            Rule::Map(&closed(&[
                default("queues", Absent::Int(64), Rule::Exact),
                default("handSize", Absent::Int(8), Rule::Exact),
                default("queueLengthLimit", Absent::Int(50), Rule::Exact),
            ])),
        )])),
    ),
]);

/// The API server refuses a name and a selector together, so the one that the manifest omits is removed.
pub(super) const POLICY_BINDING: &Shape =
    &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(&open(&[both_ways("paramRef", PARAMETER)])))]) };

const PARAMETER: Rule = Rule::Map(&closed(&[both_ways("selector", Rule::Selector)]));

/// Cluster-scoped parameters have no namespace, so it is removed with the scope.
pub(super) const INGRESS_CLASS: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[both_ways(
            "parameters",
            Rule::Map(&closed(&[default("scope", Absent::Text("Cluster"), Rule::Exact)])),
        )])),
    )])
};
