//! What would stand in the way of draining nodes now.

use super::Cluster;
use crate::object::budgets::Counts;
use serde::Serialize;
use std::collections::BTreeMap;

/// A pod that leaves its node when that is drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodToMove {
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// What is lost with it.
    pub warning: Option<&'static str>,
}

/// The drain of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DrainPlan {
    pub node: String,
    /// How many pods leave it.
    pub pods: usize,
    /// What keeps pods there, by budgets.
    pub kept: Vec<Kept>,
    /// Pods with which something is lost, with what.
    pub lost: Vec<String>,
}

/// Pods that a PodDisruptionBudget does not let go now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Kept {
    pub namespace: String,
    pub budget: String,
    pub pods: Vec<String>,
    /// What it demands and has; `None` until its controller has looked at it.
    pub counts: Option<Counts>,
    /// The same in words, with the way out if it never lets any go.
    pub message: String,
}

/// In the order of the nodes; those without pods that leave are left out.
pub(super) fn drains(nodes: &[&str], cluster: &Cluster) -> Vec<DrainPlan> {
    let (Some(pods), Some(budgets)) = (&cluster.pods, &cluster.budgets) else { return Vec::new() };
    let drain = |node: &str, pods: &Vec<PodToMove>| {
        let covering = budgets.iter().filter(|budget| !budget.allows());
        let kept = covering.filter_map(|budget| {
            let covered = pods.iter().filter(|pod| budget.covers(&pod.namespace, &pod.labels));
            let pods: Vec<String> = covered.map(|pod| pod.name.clone()).collect();
            let (namespace, name) = budget.id();
            let message = budget.to_string();
            (!pods.is_empty()).then(|| Kept {
                namespace: namespace.to_owned(),
                budget: name.to_owned(),
                pods,
                counts: budget.counts(),
                message,
            })
        });
        let lost = |pod: &PodToMove| Some(format!("{}/{}: {}", pod.namespace, pod.name, pod.warning?));
        DrainPlan {
            node: node.to_owned(),
            pods: pods.len(),
            kept: kept.collect(),
            lost: pods.iter().filter_map(lost).collect(),
        }
    };
    nodes
        .iter()
        .filter_map(|node| pods.get(*node).filter(|pods| !pods.is_empty()).map(|pods| drain(node, pods)))
        .collect()
}
