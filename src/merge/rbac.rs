//! Roles and bindings.

use super::metadata::ROOT;
use super::rule::{Absent, Elements, Rule, Shape, WHOLE_EXACT, both_ways, closed, default, field, open};
use serde_json::{Map, Value};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const ROLE: &Shape = &Shape { base: ROOT, ..open(&[both_ways("rules", Rule::List(WHOLE_EXACT))]) };

pub(super) const CLUSTER_ROLE: &Shape = &Shape {
    base: ROOT,
    ..open(&[
        both_ways("aggregationRule", Rule::Exact),
        default("rules", Absent::Derive(|_| Some(Value::Array(Vec::new()))), Rule::Choose(rules)),
    ])
};

/// The control plane sets the rules of an aggregated role.
fn rules(role: &Map<String, Value>) -> Rule {
    let aggregates = role.get("aggregationRule").is_some_and(|rule| !rule.is_null());
    if aggregates { Rule::Never } else { Rule::List(WHOLE_EXACT) }
}

pub(super) const BINDING: &Shape = &Shape {
    base: ROOT,
    // Manifests may have fields of an older API (`userNames`), which the API server drops.
    others: Rule::Never,
    ..open(&[
        both_ways(
            "subjects",
            Rule::List(&Elements::Whole(Rule::Map(&closed(&[default(
                "apiGroup",
                Absent::Derive(subject_group),
                Rule::Exact,
            )])))),
        ),
        field("roleRef", Rule::Map(&closed(&[default("apiGroup", Absent::Text(GROUP), Rule::Exact)]))),
    ])
};

/// Users and groups belong to the RBAC group, service accounts to the core group.
fn subject_group(subject: &Map<String, Value>) -> Option<Value> {
    let kind = subject.get("kind").and_then(Value::as_str);
    (kind != Some("ServiceAccount")).then(|| Value::from(GROUP))
}
