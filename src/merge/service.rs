//! Service: ports by name, type and selector; what the server allocates stays (payload-and-apply §5.6).

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
            // Without affinity the server takes none of its settings.
            default("sessionAffinityConfig", Absent::Derive(settings_of_affinity), Rule::Deep),
            // Allocated once, or fixed when the Service is created.
            field("clusterIP", Rule::Never),
            field("clusterIPs", Rule::Never),
            field("ipFamilies", Rule::Never),
            field("healthCheckNodePort", Rule::Never),
            field("loadBalancerClass", Rule::Never),
        ])),
    )])
};

/// They go where the manifest says that there is no affinity; else they stay.
fn settings_of_affinity(service: &Map<String, Value>) -> Option<Value> {
    let none = service.get("sessionAffinity").and_then(Value::as_str) == Some("None");
    (!none).then(|| json!({}))
}

const PORT: Rule = Rule::Map(&closed(&[
    default("protocol", Absent::Text("TCP"), Rule::Exact),
    default("targetPort", Absent::Derive(|port| port.get("port").cloned()), Rule::IntOrString),
    field("nodePort", Rule::Deep),
]));
