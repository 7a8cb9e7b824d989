//! Volumes of a pod, matched by name. Each is owned as a whole, apart from defaults of the API server.

use super::rule::{Absent, Elements, Extra, Field, Order, Rule, both_ways, closed, default, field};
use serde_json::{Map, Value, json};

pub(super) const VOLUMES: &Elements =
    &Elements::Keyed { key: "name", rule: Rule::Map(&closed(SOURCES)), extra: Extra::Remove, order: Order::Live };

const MODE: Absent = Absent::Int(0o644);
const ITEMS: Field = both_ways("items", Rule::Exact);

const SOURCES: &[Field] = &[
    default("emptyDir", Absent::Derive(no_source), Rule::Map(&closed(&[both_ways("sizeLimit", Rule::Quantity)]))),
    both_ways("hostPath", Rule::Map(&closed(&[default("type", Absent::Text(""), Rule::Exact)]))),
    both_ways("secret", Rule::Map(&closed(&[default("defaultMode", MODE, Rule::Exact), ITEMS]))),
    both_ways("configMap", Rule::Map(&closed(&[default("defaultMode", MODE, Rule::Exact), ITEMS]))),
    both_ways("downwardAPI", Rule::Map(&closed(&[default("defaultMode", MODE, Rule::Exact), DOWNWARD_ITEMS]))),
    both_ways(
        "projected",
        Rule::Map(&closed(&[
            default("defaultMode", MODE, Rule::Exact),
            both_ways("sources", Rule::List(&Elements::Whole(Rule::Map(&closed(PROJECTIONS))))),
        ])),
    ),
    both_ways("iscsi", Rule::Map(&closed(&[default("iscsiInterface", Absent::Text("default"), Rule::Exact)]))),
    both_ways(
        "rbd",
        Rule::Map(&closed(&[
            default("pool", Absent::Text("rbd"), Rule::Exact),
            default("user", Absent::Text("admin"), Rule::Exact),
            default("keyring", Absent::Text("/etc/ceph/keyring"), Rule::Exact),
        ])),
    ),
    both_ways(
        "azureDisk",
        Rule::Map(&closed(&[
            default("cachingMode", Absent::Text("ReadWrite"), Rule::Exact),
            default("kind", Absent::Text("Shared"), Rule::Exact),
            default("fsType", Absent::Text("ext4"), Rule::Exact),
            default("readOnly", Absent::Bool(false), Rule::Exact),
        ])),
    ),
    both_ways(
        "scaleIO",
        Rule::Map(&closed(&[
            default("storageMode", Absent::Text("ThinProvisioned"), Rule::Exact),
            default("fsType", Absent::Text("xfs"), Rule::Exact),
        ])),
    ),
    // The default depends on the tag of the image.
    both_ways("image", Rule::Map(&closed(&[field("pullPolicy", Rule::Exact)]))),
    // A claim has many defaults, some of which depend on the cluster.
    both_ways("ephemeral", Rule::Deep),
];

const PROJECTIONS: &[Field] = &[
    both_ways(
        "serviceAccountToken",
        Rule::Map(&closed(&[default("expirationSeconds", Absent::Int(3600), Rule::Exact)])),
    ),
    both_ways("downwardAPI", Rule::Map(&closed(&[DOWNWARD_ITEMS]))),
    // The API server chooses lifetimes and key types.
    both_ways("podCertificate", Rule::Deep),
];

const DOWNWARD_ITEMS: Field = both_ways(
    "items",
    Rule::List(&Elements::Whole(Rule::Map(&closed(&[
        both_ways("fieldRef", FIELD_REF),
        both_ways("resourceFieldRef", RESOURCE_REF),
    ])))),
);

pub(super) const FIELD_REF: Rule = Rule::Map(&closed(&[default("apiVersion", Absent::Text("v1"), Rule::Exact)]));
pub(super) const RESOURCE_REF: Rule = Rule::Map(&closed(&[default("divisor", Absent::Text("0"), Rule::Quantity)]));

/// A volume without a source is an emptyDir.
fn no_source(volume: &Map<String, Value>) -> Option<Value> {
    volume.iter().all(|(key, value)| key == "name" || value.is_null()).then(|| json!({}))
}
