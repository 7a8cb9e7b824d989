//! What is known of the two releases: how many objects, which ConfigMaps, how many operators wait for each other.

use anyhow::Context;
use cvo::testing::api::{NAMESPACE, OWN_DEPLOYMENT};
use cvo::testing::graph::{self, Graph, Mode};
use cvo::testing::payload::{Manifest, ObjectId};
use e2e::simulator::releases::{Expectations, Release};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is read from the folders of the releases.
#[derive(Debug)]
pub(super) struct Facts {
    /// The included manifests of the first release, without those that delete.
    pub manifests: Vec<Arc<Manifest>>,
    /// Namespaces that are not in the release and exist on a real cluster.
    pub namespaces: BTreeSet<String>,
    /// How many operators of the second release are waited for one after the other.
    pub waits: usize,
}

impl Facts {
    pub(super) fn read(releases: &[Release; 2]) -> anyhow::Result<Facts> {
        let namespaces = Expectations::read(releases)?.namespaces;
        let [first, second] = releases;
        let (first, second) = (first.load()?, second.load()?);
        let (before, after) = (operators(&first.manifests)?, operators(&second.manifests)?);
        let own = ObjectId::new("apps", "Deployment", NAMESPACE, OWN_DEPLOYMENT);
        let graph = graph::build(&second.manifests, Mode::Update, Some(&own));
        let waits = |position: &usize| after.get(position).is_some_and(|it| !before.values().any(|old| old == it));
        let waits = longest(&graph, |node| node.iter().any(waits));
        let manifests = first.manifests.into_iter().filter(|m| m.delete() == Ok(false)).collect();
        Ok(Facts { manifests, namespaces, waits })
    }

    /// Namespace and name of the ConfigMaps that the daemon reconciles.
    pub(super) fn config_maps(&self) -> Vec<(String, String)> {
        let reconciled =
            |m: &&Arc<Manifest>| (m.id.group.as_str(), m.id.kind.as_str()) == ("", "ConfigMap") && !m.create_only();
        self.manifests.iter().filter(reconciled).map(|m| (m.id.namespace.clone(), m.id.name.clone())).collect()
    }
}

/// By position of the manifest: the name of the operator and the versions that it will report.
fn operators(manifests: &[Arc<Manifest>]) -> anyhow::Result<BTreeMap<usize, (String, Value)>> {
    let operators = manifests.iter().enumerate().filter(|(_, m)| m.id.kind == "ClusterOperator");
    let reports = operators.map(|(position, m)| {
        let object = m.object().with_context(|| m.id.to_string())?;
        let versions = object.pointer("/status/versions").cloned().unwrap_or_default();
        Ok((position, (m.id.name.clone(), versions)))
    });
    reports.collect()
}

/// The largest number of nodes on one path through the graph for whose manifests `counts` is true.
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
    use cvo::testing::payload::{Origin, manifests_of};

    /// One component, then two beside each other, then one.
    #[test]
    fn longest_path_counts_only_selected_nodes() {
        let object = br#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
        let manifest = |file| manifests_of(Origin::Release, file, object).unwrap().remove(0);
        let manifests = ["0000_10_a_a", "0000_20_b_a", "0000_20_c_a", "0000_30_d_a"].map(manifest);
        let graph = graph::build(&manifests, Mode::Update, None);
        assert_eq!(longest(&graph, |m| m != [1]), 3);
        assert_eq!(longest(&graph, |m| m == [1] || m == [2]), 1);
        assert_eq!(longest(&graph, |_| false), 0);
    }
}
