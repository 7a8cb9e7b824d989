//! Service: ports are matched by name, and what the API server allocates stays.

use super::metadata::ROOT;
use super::rule::{
    Absent, ENTRIES_WHOLE, Elements, Extra, Order, Rule, Shape, both_ways, closed, default, field, open,
};
use serde_json::{Map, Value, json};

pub(super) const SERVICE: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[
            both_ways(
                "ports",
                Rule::List(&Elements::Keyed { key: "name", rule: PORT, extra: Extra::Remove, order: Order::Live }),
            ),
            default("type", Absent::Text("ClusterIP"), Rule::Deep),
            both_ways("selector", ENTRIES_WHOLE),
            default("sessionAffinityConfig", Absent::Derive(affinity_config), Rule::Deep),
            // Allocated by the API server, or immutable.
            field("clusterIP", Rule::Never),
            field("clusterIPs", Rule::Never),
            field("ipFamilies", Rule::Never),
            field("healthCheckNodePort", Rule::Never),
            field("loadBalancerClass", Rule::Never),
        ])),
    )])
};

/// The API server refuses the settings without affinity, so they are removed if the manifest sets it to `None`.
fn affinity_config(service: &Map<String, Value>) -> Option<Value> {
    let none = service.get("sessionAffinity").and_then(Value::as_str) == Some("None");
    (!none).then(|| json!({}))
}

const PORT: Rule = Rule::Map(&closed(&[
    default("protocol", Absent::Text("TCP"), Rule::Exact),
    default("targetPort", Absent::Derive(|port| port.get("port").cloned()), Rule::IntOrString),
    field("nodePort", Rule::Deep),
]));
