//! Whether a node can take the pods of a Deployment, as far as that depends on what only an administrator changes: names, labels and
//! taints of nodes. What is free on them, and whether they are ready, changes by itself.

use crate::object::read::Read;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Taints of these domains say how a node is, and go when it is well.
const OF_STATES: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];
/// Most labels that a text names.
const NAMED: usize = 4;

/// What pods demand of the node on which they run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    selector: BTreeMap<String, String>,
    /// One of them has to hold; `None` if any node will do.
    terms: Option<Vec<NodeSelectorTerm>>,
    tolerations: Vec<Toleration>,
}

impl Demand {
    /// That of the pods of a Deployment. `None` if it has no pods that can be read.
    pub(crate) fn of(deployment: &Value) -> Option<Demand> {
        let pod = PodSpec::deserialize(deployment.pointer("/spec/template/spec")?).ok()?;
        let affinity = pod.affinity.and_then(|affinity| affinity.node_affinity);
        let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution);
        Some(Demand {
            selector: pod.node_selector.unwrap_or_default(),
            terms: required.map(|required| required.node_selector_terms),
            tolerations: pod.tolerations.unwrap_or_default(),
        })
    }

    pub(crate) fn is_met_by(&self, node: &Node) -> bool {
        let none = BTreeMap::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| holds(term, name, labels)))
            && taints.filter(|taint| keeps_away(taint)).all(|taint| self.tolerates(taint))
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| {
            let of = |given: Option<&str>, value: &str| given.is_none_or(|given| given.is_empty() || given == value);
            of(toleration.effect.as_deref(), &taint.effect)
                && match toleration.operator.as_deref().unwrap_or_default() {
                    "Exists" => of(toleration.key.as_deref(), &taint.key),
                    "" | "Equal" => {
                        toleration.key.as_deref() == Some(taint.key.as_str())
                            && toleration.value.as_deref().unwrap_or_default()
                                == taint.value.as_deref().unwrap_or_default()
                    }
                    _ => false,
                }
        })
    }

    /// What is demanded, if none of the nodes meets it; of each of them is said whether it does. A cluster without nodes runs its pods
    /// somewhere else.
    pub(crate) fn unmet_by(&self, mut met: impl ExactSizeIterator<Item = bool>) -> Read<String> {
        let nodes = met.len();
        if nodes == 0 || met.any(|met| met) { Read::Absent } else { Read::Value(self.unmet(nodes)) }
    }

    /// What is demanded, where none of so many nodes can take the pods, and the way out.
    pub(crate) fn unmet(&self, nodes: usize) -> String {
        let mut labels: Vec<String> = self.selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let terms = self.terms.iter().flatten().map(|term| {
            let all: Vec<String> = term.match_expressions.iter().flatten().map(told).collect();
            all.join(" and ")
        });
        let terms: Vec<String> = terms.filter(|term| !term.is_empty()).take(NAMED).collect();
        if !terms.is_empty() {
            labels.push(terms.join(" or "));
        }
        let nodes =
            if nodes == 1 { "the only node cannot".to_owned() } else { format!("none of the {nodes} nodes can") };
        match labels.as_slice() {
            [] => format!(
                "{nodes} run its pod, because of taints that it does not tolerate; remove them from the node that is to run it (kubectl \
                 taint node NAME KEY-)"
            ),
            labels => format!(
                "{nodes} run its pod, which demands a node with {}, and no taints but those that it tolerates; label the node that is \
                 to run it (kubectl label node NAME KEY=VALUE)",
                labels.join(" and ")
            ),
        }
    }
}

/// What the pods of the Deployment demand, if none of the nodes meets it.
pub(crate) fn unplaced(deployment: &Value, nodes: &[Node]) -> Read<String> {
    let unmet = |demand: Demand| demand.unmet_by(nodes.iter().map(|node| demand.is_met_by(node)));
    Demand::of(deployment).map(unmet).unwrap_or_default()
}

fn told(it: &NodeSelectorRequirement) -> String {
    let (key, values) = (&it.key, it.values.as_deref().unwrap_or_default().join(", "));
    match it.operator.as_str() {
        "Exists" => key.clone(),
        "DoesNotExist" => format!("no {key}"),
        operator => format!("{key} {operator} {values}"),
    }
}

/// A taint that stays until somebody removes it.
fn keeps_away(taint: &Taint) -> bool {
    ["NoSchedule", "NoExecute"].contains(&taint.effect.as_str())
        && !OF_STATES.iter().any(|it| taint.key.starts_with(it))
}

/// A term without requirements holds for no node.
fn holds(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let (labelled, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
    let (labelled, fields) = (labelled.unwrap_or_default(), fields.unwrap_or_default());
    let label = |it: &NodeSelectorRequirement| meets(it, labels.get(&it.key).map(String::as_str));
    // The only field that there is.
    let field = |it: &NodeSelectorRequirement| it.key == "metadata.name" && meets(it, Some(name));
    (!labelled.is_empty() || !fields.is_empty()) && labelled.iter().all(label) && fields.iter().all(field)
}

fn meets(it: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = it.values.as_deref().unwrap_or_default();
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let numbers = number(value).zip(number(values.first().map(String::as_str)));
    match it.operator.as_str() {
        "In" => value.is_some_and(|value| values.iter().any(|it| it == value)),
        "NotIn" => value.is_none_or(|value| values.iter().all(|it| it != value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers.is_some_and(|(value, limit)| value > limit),
        "Lt" => numbers.is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
