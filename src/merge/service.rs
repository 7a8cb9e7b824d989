//! Service: ports by name, type and selector; what the server allocates stays (payload-and-apply §5.6).

use super::metadata::ROOT;
use super::rule::{
    Absent, ENTRIES_WHOLE, Elements, Extra, Order, Rule, Shape, both_ways, closed, default, field, open,
};

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
            // Allocated once, or fixed when the Service is created.
            field("clusterIP", Rule::Never),
            field("clusterIPs", Rule::Never),
            field("ipFamilies", Rule::Never),
            field("healthCheckNodePort", Rule::Never),
            field("loadBalancerClass", Rule::Never),
        ])),
    )])
};

const PORT: Rule = Rule::Map(&closed(&[
    default("protocol", Absent::Text("TCP"), Rule::Exact),
    default("targetPort", Absent::Derive(|port| port.get("port").cloned()), Rule::IntOrString),
    field("nodePort", Rule::Deep),
]));
