//! Whether etcd can do without the next node of the control plane, where its members are static pods in kube-system, as kubeadm makes
//! them. What is looked at is whether these pods are there and Ready, which is all that a cluster shows without credentials for etcd.
//! Where etcd runs otherwise, as on OpenShift, which guards its members by a PodDisruptionBudget, nothing follows from this.

use super::PoolFacts;
use crate::machine_config::api::machine_config::GROUP;
use crate::machine_config::membership::{ARBITER, MASTER};
use crate::machine_config::node::NodeFacts;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Where the pods are, and the labels that kubeadm gives them.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const LABELS: &str = "component=etcd,tier=control-plane";
/// Annotation of the control plane's pool: which nodes had a pod of etcd when their rollout began.
pub(crate) const RECORD: &str = "etcd-members";

/// A pod that runs a member of etcd.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EtcdPod {
    pub name: String,
    pub version: String,
    pub node: String,
    /// The kubelet of the node runs it from a file: others are no concern of the rollout.
    fixed: bool,
    ready: bool,
    /// Since when it is Ready, or not.
    since: Option<Timestamp>,
}

impl EtcdPod {
    pub(crate) fn of(pod: Pod) -> EtcdPod {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let annotations = pod.metadata.annotations.as_ref();
        EtcdPod {
            name: pod.metadata.name.clone().unwrap_or_default(),
            version: pod.metadata.resource_version.clone().unwrap_or_default(),
            fixed: annotations.is_some_and(|annotations| annotations.contains_key("kubernetes.io/config.mirror")),
            ready: ready.is_some_and(|ready| ready.status == "True") && pod.metadata.deletion_timestamp.is_none(),
            since: ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0),
            node: pod.spec.and_then(|spec| spec.node_name).unwrap_or_default(),
        }
    }
}

/// What the rollout of the control plane has to know of etcd. The default says that nothing hinders it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    /// What is wrong with the member of a node, by the name of the node.
    pub troubles: BTreeMap<String, String>,
    /// The pods have not been read; the reason, if there is one.
    pub unknown: Option<Option<String>>,
    /// What is to be kept at the pool as long as its rollout lasts.
    pub record: Option<String>,
}

impl Etcd {
    /// Whether the node may be begun. One whose member is not well makes etcd no worse, and may need just that.
    pub(crate) fn lets_begin(&self, node: &str) -> bool {
        self.unknown.is_none() && (self.troubles.is_empty() || self.troubles.contains_key(node))
    }

    /// Why no other node may be begun, as far as that is worth telling.
    pub(crate) fn hindrance(&self) -> Option<String> {
        if let Some(cause) = &self.unknown {
            let cause = cause.as_ref()?;
            return Some(format!("whether the pods of etcd in {NAMESPACE} are Ready cannot be read: {cause}"));
        }
        let troubles: Vec<&str> = self.troubles.values().map(String::as_str).collect();
        (!troubles.is_empty()).then(|| {
            format!(
                "etcd must not lose another member: {}; the other nodes go on when it is Ready",
                troubles.join("; ")
            )
        })
    }
}

/// Whether etcd has to be looked at for this pool: nodes with members of it are changed, or are about to be.
pub(crate) fn is_needed(pool: &PoolFacts) -> bool {
    let changes = |node: &NodeFacts| node.is_managed() && !node.is_at(&pool.target);
    [MASTER, ARBITER].contains(&pool.name.as_str())
        && !pool.paused
        && !pool.target.config.is_empty()
        && pool.nodes.iter().any(changes)
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// The rollout that it is of.
    config: String,
    nodes: BTreeSet<String>,
}

/// The names of nodes that had a pod of etcd when the rollout of this target began.
fn recorded(annotations: &BTreeMap<String, String>, target: &str) -> BTreeSet<String> {
    let text = annotations.get(&format!("{GROUP}/{RECORD}"));
    let record: Option<Record> = text.and_then(|text| serde_json::from_str(text).ok());
    record.filter(|record| record.config == target).map(|record| record.nodes).unwrap_or_default()
}

/// What is known of etcd. `restarted`: nodes that have been restarted, and the version that
/// their pod had then: until the kubelet has told of it anew, that it is Ready is of the time before.
pub(crate) fn etcd(
    pods: &[&EtcdPod],
    annotations: &BTreeMap<String, String>,
    pool: &PoolFacts,
    restarted: &BTreeMap<String, String>,
) -> Etcd {
    let pods: Vec<&EtcdPod> = pods.iter().copied().filter(|pod| pod.fixed).collect();
    let present: BTreeSet<String> = pods.iter().map(|pod| pod.node.clone()).collect();
    let mut nodes = recorded(annotations, &pool.target.config);
    nodes.retain(|name| pool.nodes.iter().any(|node| node.name == *name));
    let gone = nodes.iter().filter(|node| !present.contains(*node));
    let gone = gone.map(|node| (node.clone(), format!("node {node} had a pod of etcd in {NAMESPACE} and has none")));
    let ill = pods.iter().filter_map(|pod| {
        let name = format!("pod {NAMESPACE}/{} of node {}", pod.name, pod.node);
        let since = pod.since.map(|since| format!(" since {since}")).unwrap_or_default();
        let trouble = match () {
            () if !pod.ready => format!("{name} is not Ready{since}"),
            () if restarted.get(&pod.node) == Some(&pod.version) => {
                format!("{name} has not been reported since the node was restarted")
            }
            () => return None,
        };
        Some((pod.node.clone(), trouble))
    });
    let troubles = gone.chain(ill).collect();
    let members = pool.nodes.iter().filter(|node| present.contains(&node.name)).map(|node| node.name.clone());
    nodes.extend(members);
    let record = Record { config: pool.target.config.clone(), nodes };
    let record = (!record.nodes.is_empty()).then(|| serde_json::json!(record).to_string());
    Etcd { troubles, unknown: None, record }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_config::node::{NodeState, Target};
    use serde_json::json;

    fn pod(node: &str, version: &str, ready: &str) -> EtcdPod {
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        EtcdPod::of(
            serde_json::from_value(json!({
                "metadata": {
                    "name": format!("etcd-{node}"), "resourceVersion": version,
                    "annotations": {"kubernetes.io/config.mirror": "1"},
                },
                "spec": {"nodeName": node, "containers": []}, "status": {"conditions": [condition]},
            }))
            .unwrap(),
        )
    }

    fn pool() -> PoolFacts {
        let node = |name: &str, config: &str| NodeFacts {
            name: name.to_owned(),
            current: Target::new(config),
            desired: Target::new(config),
            state: NodeState::Done,
            ..NodeFacts::default()
        };
        let nodes = vec![node("a", "v1"), node("b", "v0"), node("c", "v0")];
        PoolFacts { name: MASTER.to_owned(), target: Target::new("v1"), nodes, ..PoolFacts::default() }
    }

    fn none() -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    #[test]
    fn a_pod_that_is_not_ready_holds_the_nodes_of_the_others() {
        let all = ["a", "b", "c"].map(|node| pod(node, "1", "True"));
        let well = etcd(&all.each_ref(), &none(), &pool(), &none());
        assert_eq!((well.hindrance(), well.lets_begin("b")), (None, true));
        let [_, b, c] = all;
        let ill = etcd(&[&pod("a", "2", "False"), &b, &c], &none(), &pool(), &none());
        let expected = "etcd must not lose another member: pod kube-system/etcd-a of node a is not Ready since \
                        2026-01-01T00:00:00Z; the other nodes go on when it is Ready";
        assert_eq!(ill.hindrance().as_deref(), Some(expected));
        assert_eq!((ill.lets_begin("a"), ill.lets_begin("b")), (true, false), "a correction has to reach it");
    }

    #[test]
    fn a_pod_that_was_there_when_the_rollout_began_is_missed() {
        let pods = ["a", "b"].map(|node| pod(node, "1", "True"));
        let before = etcd(&pods.each_ref(), &none(), &pool(), &none());
        let annotations = [(format!("{GROUP}/{RECORD}"), before.record.unwrap())].into();
        let [_, b] = &pods;
        let gone = etcd(&[b], &annotations, &pool(), &none());
        assert_eq!(gone.troubles.keys().collect::<Vec<_>>(), ["a"], "c never had one");
        assert!(gone.hindrance().unwrap().contains("node a had a pod of etcd in kube-system and has none"));
        // It is remembered by the next claim, too, but not for another rollout.
        assert!(gone.record.unwrap().contains("\"a\""));
        let next = PoolFacts { target: Target::new("v2"), ..pool() };
        assert_eq!(etcd(&[b], &annotations, &next, &none()).troubles, none());
        let removed = PoolFacts { nodes: pool().nodes.split_off(1), ..pool() };
        assert_eq!(etcd(&[b], &annotations, &removed, &none()).troubles, none(), "the node has gone, too");
    }

    #[test]
    fn what_was_ready_before_a_restart_is_not_known_to_be_ready_after_it() {
        let restarted = [("a".to_owned(), "7".to_owned())].into();
        let [old, new] = ["7", "8"].map(|version| etcd(&[&pod("a", version, "True")], &none(), &pool(), &restarted));
        assert!(old.hindrance().unwrap().contains("has not been reported since the node was restarted"));
        assert_eq!(new.hindrance(), None);
    }

    #[test]
    fn a_cluster_without_such_pods_is_not_held() {
        let none_there = etcd(&[], &none(), &pool(), &none());
        assert_eq!(none_there, Etcd::default());
        let other = EtcdPod { fixed: false, ..pod("a", "1", "False") };
        assert_eq!(etcd(&[&other], &none(), &pool(), &none()), Etcd::default(), "no static pod");
        assert!(is_needed(&pool()));
        assert!(!is_needed(&PoolFacts { name: "worker".into(), ..pool() }));
        assert!(!is_needed(&PoolFacts { paused: true, ..pool() }));
        assert!(!is_needed(&PoolFacts { nodes: pool().nodes.drain(..1).collect(), ..pool() }), "all are done");
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_well() {
        let unread = Etcd { unknown: Some(None), ..Etcd::default() };
        assert_eq!((unread.lets_begin("a"), unread.hindrance()), (false, None), "it comes in a moment");
        let failed = Etcd { unknown: Some(Some("forbidden".into())), ..Etcd::default() };
        assert!(!failed.lets_begin("a") && failed.hindrance().unwrap().ends_with("cannot be read: forbidden"));
    }
}
