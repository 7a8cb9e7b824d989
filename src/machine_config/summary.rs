//! What the update of a cluster knows of node configuration: it uses nothing else of it.

use super::membership::{MASTER, Membership};
use super::node::NodeFacts;
use super::quorum::{AT_RISK, at_risk};
use crate::machine_config::api::machine_config;
use crate::machine_config::api::machine_config::MachineConfigPool;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

/// The domain of annotations by which the controller of node configuration and its agents keep what they know.
pub(crate) const DOMAIN: &str = machine_config::GROUP;

/// A node: whether pods can run on it, and whether its configuration is being updated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeSummary {
    pub name: String,
    /// Conditions that say that it cannot run pods, such as `Ready=False (KubeletNotReady)`.
    pub problems: Vec<String>,
    pub unschedulable: bool,
    /// It was cordoned for an update of its configuration.
    pub cordoned_for_update: bool,
    /// Its pool has told it to take another configuration, and it is on its way there.
    pub updating: bool,
    /// When it was uncordoned with the configuration that it has. `None` if it has failed to take another one.
    pub updated: Option<Timestamp>,
}

impl NodeSummary {
    pub(crate) fn of(node: &Node) -> Self {
        let facts = NodeFacts::of(node);
        let told = facts.is_managed() && !facts.desired.config.is_empty();
        NodeSummary {
            updating: told && facts.is_changing(),
            updated: facts.done_since.filter(|_| told && !facts.is_degraded()),
            name: facts.name,
            problems: facts.problems.into_iter().map(|problem| problem.what).collect(),
            unschedulable: facts.unschedulable,
            cordoned_for_update: facts.cordoned_for_update,
        }
    }
}

/// Nodes of the control plane that are updated together and take etcd's quorum with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuorumAtRisk {
    /// The pool that allows it.
    pub object: String,
    pub reason: &'static str,
    pub message: String,
}

/// Whether the pool of the control plane allows that.
pub(crate) fn quorum(pools: &[MachineConfigPool], nodes: &[Node]) -> Option<QuorumAtRisk> {
    let master = pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(MASTER))?;
    let members = |name: &str| {
        let of_pool = |node: &&Node| matches!(Membership::of(&NodeFacts::labels(node), pools), Membership::Member { pool, .. } if pool == name);
        nodes.iter().filter(of_pool).count()
    };
    let message = at_risk(master.spec.max_unavailable.as_ref(), members)?;
    let object = format!("machineconfigpool.machineconfiguration.openshift.io \"{MASTER}\"");
    Some(QuorumAtRisk { object, reason: AT_RISK, message })
}
