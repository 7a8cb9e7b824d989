//! Follows the pods of etcd while nodes of the control plane are changed, and only then.

use super::followed::{Followed, View};
use super::views::PoolView;
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{Clients, Kind};
use crate::machine_config::rollout::PoolFacts;
use crate::machine_config::rollout::etcd::{Etcd, EtcdPod, LABELS, NAMESPACE, etcd, is_needed};
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

impl View for EtcdPod {
    type Object = Pod;

    fn of(pod: Pod) -> Self {
        EtcdPod::of(pod)
    }

    fn version(&self) -> &str {
        &self.version
    }
}

pub(super) struct EtcdMembers {
    clients: Arc<Clients>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    following: Option<(Arc<Followed<EtcdPod>>, DropGuard)>,
    /// Nodes that are or were restarted, and the version that their pod had then.
    restarted: BTreeMap<String, String>,
}

impl EtcdMembers {
    pub(super) fn new(clients: Arc<Clients>, changed: Arc<Notify>, stop: CancellationToken) -> Self {
        EtcdMembers { clients, changed, stop, following: None, restarted: BTreeMap::new() }
    }

    /// Adds to each pool of the control plane what is known of etcd.
    pub(super) fn add(&mut self, pools: &BTreeMap<String, Arc<PoolView>>, facts: &mut [PoolFacts]) {
        if !facts.iter().any(is_needed) {
            (self.following, self.restarted) = (None, BTreeMap::new());
            return;
        }
        let (followed, _) = self.following.get_or_insert_with(|| {
            let selection = Selection::new(Kind::pod(), NAMESPACE, Selector::Labels(LABELS.to_owned()));
            let (until, changed) = (CancellationToken::new(), self.changed.clone());
            let followed = Followed::start_until(&self.clients, selection, changed, &self.stop, until.clone());
            (followed, until.drop_guard())
        });
        let known = followed.all();
        let error = followed.error();
        let pods: Vec<&EtcdPod> = known.iter().flat_map(BTreeMap::values).map(Arc::as_ref).collect();
        for facts in facts.iter_mut().filter(|facts| is_needed(facts)) {
            remember(&mut self.restarted, &pods, facts);
            let annotations = pools.get(&facts.name).map(|pool| pool.annotations());
            facts.etcd = match (&known, annotations) {
                (Some(_), Some(annotations)) => etcd(&pods, annotations, facts, &self.restarted),
                _ => Etcd { unknown: Some(error.clone()), ..Etcd::default() },
            };
        }
    }
}

/// Which nodes are being restarted; those whose pod has been told of anew since are forgotten.
fn remember(restarted: &mut BTreeMap<String, String>, pods: &[&EtcdPod], pool: &PoolFacts) {
    for node in &pool.nodes {
        let Some(pod) = pods.iter().find(|pod| pod.node == node.name) else { continue };
        if node.restarting_since.is_some() {
            restarted.entry(node.name.clone()).or_insert_with(|| pod.version.clone());
        } else if restarted.get(&node.name).is_some_and(|version| *version != pod.version) {
            restarted.remove(&node.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_config::node::NodeFacts;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn the_version_of_a_pod_is_remembered_from_the_restart_of_its_node_until_it_changes() {
        let pod = |version: &str| {
            let metadata = json!({"name": "etcd-a", "resourceVersion": version});
            let spec = json!({"nodeName": "a", "containers": []});
            EtcdPod::of(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
        };
        let pool = |restarting: bool| {
            let since = restarting.then_some(Timestamp::UNIX_EPOCH);
            let node = NodeFacts { name: "a".to_owned(), restarting_since: since, ..NodeFacts::default() };
            PoolFacts { nodes: vec![node], ..PoolFacts::default() }
        };
        let mut restarted = BTreeMap::new();
        for (version, restarting, expected) in [
            ("1", false, None),
            ("2", true, Some("2")),
            ("3", true, Some("2")),
            ("2", false, Some("2")),
            ("3", false, None),
        ] {
            remember(&mut restarted, &[&pod(version)], &pool(restarting));
            assert_eq!(restarted.get("a").map(String::as_str), expected, "version {version}");
        }
    }
}
