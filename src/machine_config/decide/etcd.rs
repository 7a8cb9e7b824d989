//! What is known of etcd while nodes of the control plane are changed.

use super::Seen;
use crate::machine_config::rollout::PoolFacts;
use crate::machine_config::rollout::etcd::{Etcd, EtcdPod, etcd, is_needed};
use std::collections::BTreeMap;

/// Adds to each pool of the control plane what is known of etcd; returns whether its pods have to be followed. `restarted`: nodes
/// that are or were restarted, and the version that their pod had then.
pub(super) fn add(restarted: &mut BTreeMap<String, String>, seen: &Seen, pools: &mut [PoolFacts]) -> bool {
    if !pools.iter().any(is_needed) {
        restarted.clear();
        return false;
    }
    let pods: Vec<&EtcdPod> = seen.etcd.known.iter().flatten().map(AsRef::as_ref).collect();
    for pool in pools.iter_mut().filter(|pool| is_needed(pool)) {
        remember(restarted, &pods, pool);
        let annotations = seen.pools.get(&pool.name).map(|pool| pool.annotations());
        pool.etcd = match (&seen.etcd.known, annotations) {
            (Some(_), Some(annotations)) => etcd(&pods, annotations, pool, restarted),
            _ => Etcd { unknown: Some(seen.etcd.error.clone()), ..Etcd::default() },
        };
    }
    true
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
