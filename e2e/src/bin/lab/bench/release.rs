//! What must be known of the two releases: their objects, namespaces and how many operators are waited for in a row.

use anyhow::Context;
use cvo::graph::{self, Graph, Mode};
use cvo::payload::{Manifest, ObjectId};
use e2e::real_payload::Release;
use e2e::stage_hand::script::{OWN_DEPLOYMENT, Script, payload};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What is read from the folders of the releases.
#[derive(Debug)]
pub struct Facts {
    /// Of the first release: the manifests that are included and do not delete an object.
    pub manifests: Vec<Arc<Manifest>>,
    /// Namespaces that are not part of the release.
    pub namespaces: BTreeSet<String>,
    /// How many operators of the second release must be waited for one after the other.
    pub waits: usize,
}

impl Facts {
    pub fn read(store: &Path, releases: &[Release; 2]) -> anyhow::Result<Facts> {
        let images: Vec<String> = releases.iter().map(|release| release.image.clone()).collect();
        let namespaces = Script::read(store, &images)?.namespaces;
        let [first, second] = releases;
        let (first, second) = (payload(store, &first.image)?, payload(store, &second.image)?);
        let (before, after) = (operators(&first.manifests)?, operators(&second.manifests)?);
        let (namespace, name) = OWN_DEPLOYMENT;
        let own = ObjectId::new("apps", "Deployment", namespace, name);
        let graph = graph::build(&second.manifests, Mode::Update, Some(&own));
        let waits = |position: &usize| after.get(position).is_some_and(|it| !before.values().any(|old| old == it));
        let waits = longest(&graph, |node| node.iter().any(waits));
        let manifests = first.manifests.into_iter().filter(|m| m.delete() == Ok(false)).collect();
        Ok(Facts { manifests, namespaces, waits })
    }

    /// Namespace and name of the ConfigMaps that the daemon keeps reconciling.
    pub fn config_maps(&self) -> Vec<(String, String)> {
        let reconciled =
            |m: &&Arc<Manifest>| (m.id.group.as_str(), m.id.kind.as_str()) == ("", "ConfigMap") && !m.create_only();
        self.manifests.iter().filter(reconciled).map(|m| (m.id.namespace.clone(), m.id.name.clone())).collect()
    }
}

/// By position: the operators' names and the versions they will report.
fn operators(manifests: &[Arc<Manifest>]) -> anyhow::Result<BTreeMap<usize, (String, Value)>> {
    let operators = manifests.iter().enumerate().filter(|(_, m)| m.id.kind == "ClusterOperator");
    let reports = operators.map(|(position, m)| {
        let object = m.object().with_context(|| m.id.to_string())?;
        let versions = object.pointer("/status/versions").cloned().unwrap_or_default();
        Ok((position, (m.id.name.clone(), versions)))
    });
    reports.collect()
}

/// The largest number of nodes on a path through the graph for whose manifests `counts` returns true.
fn longest(graph: &Graph, counts: impl Fn(&[usize]) -> bool) -> usize {
    let mut paths: Vec<usize> = Vec::new();
    // Edges lead from earlier nodes to later ones.
    for (index, node) in graph.nodes().iter().enumerate() {
        let before = graph.predecessors(index).into_iter().filter_map(|p| paths.get(p)).max().copied().unwrap_or(0);
        paths.push(before + usize::from(counts(&node.manifests)));
    }
    paths.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvo::graph::Node;

    #[test]
    fn longest_path_counts_only_selected_nodes() {
        let node = |i: usize| Node { id: format!("1/10/{i}"), stage: 1, manifests: vec![i] };
        let graph = Graph::from_edges((0..5).map(node).collect(), &[(0, 1), (1, 2), (0, 3), (3, 4)]).unwrap();
        assert_eq!(longest(&graph, |m| m != [1]), 3);
        assert_eq!(longest(&graph, |m| m == [1] || m == [3]), 1);
        assert_eq!(longest(&graph, |_| false), 0);
    }
}
