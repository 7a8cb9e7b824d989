//! What is kept of nodes, pools and other objects: a thousand whole nodes with the images on them take far more memory.

use super::approval;
use super::drain::{self, Drain, DrainFacts};
use super::inputs;
use super::node::NodeFacts;
use crate::machine_config::api::machine_config::{
    GROUP, MachineConfig, MachineConfigPool, MachineConfigSpec, annotation as key,
};
use crate::machine_config::api::machine_config_node::{
    MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus,
};
use crate::object::cluster_operator::{ClusterOperator, ClusterOperatorStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// The resourceVersion.
    pub version: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub facts: NodeFacts,
    pub drain: DrainFacts,
    /// When the drain that is under way began, and failed last.
    pub draining: Option<Drain>,
    /// When it began, by the API server.
    pub begun: Option<Timestamp>,
    pub topology: String,
    pub taints: Vec<Taint>,
}

impl NodeView {
    pub fn of(node: &Node) -> Self {
        let topology = format!("{GROUP}/{}", key::CONTROL_PLANE_TOPOLOGY);
        let topology = node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(&topology));
        let facts = NodeFacts::of(node);
        NodeView {
            version: node.metadata.resource_version.clone().unwrap_or_default(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            labels: NodeFacts::labels(node),
            draining: Drain::of(node),
            begun: drain::begun(node),
            topology: topology.cloned().unwrap_or_default(),
            drain: DrainFacts::with(&facts, node),
            facts,
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
        }
    }

    /// It has been told what to take, and its agent has not asked for a drain for that yet.
    pub(crate) fn will_ask(&self) -> bool {
        let asked = self.drain.asked.as_deref().and_then(|asked| asked.split_once('-')).map(|(_, config)| config);
        self.facts.is_changing() && !self.facts.is_done() && asked != Some(self.facts.desired.config.as_str())
    }
}

#[derive(Clone, Debug)]
pub struct PoolView(pub Arc<MachineConfigPool>);

impl PartialEq for PoolView {
    fn eq(&self, other: &Self) -> bool {
        let version = |view: &Self| (view.0.metadata.uid.clone(), view.0.metadata.resource_version.clone());
        version(self) == version(other)
    }
}

impl PoolView {
    pub fn of(mut pool: MachineConfigPool) -> Self {
        pool.metadata.managed_fields = None;
        PoolView(Arc::new(pool))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// The resourceVersion.
    pub(crate) fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }

    pub(crate) fn annotations(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.0.metadata.annotations.as_ref().unwrap_or(&NONE)
    }

    /// The query that has to be true for the rollout to go on.
    pub(crate) fn query(&self) -> Option<&str> {
        approval::query(self.annotations())
    }
}

/// The content of those that were rendered is not kept.
#[derive(Clone, Debug)]
pub struct ConfigView(pub Arc<MachineConfig>);

impl PartialEq for ConfigView {
    fn eq(&self, other: &Self) -> bool {
        let version = |view: &Self| (view.0.metadata.uid.clone(), view.0.metadata.resource_version.clone());
        version(self) == version(other)
    }
}

impl ConfigView {
    pub fn of(mut config: MachineConfig) -> Self {
        config.metadata.managed_fields = None;
        if inputs::rendered_for(&config).is_some() {
            config.spec = MachineConfigSpec { config: serde_json::Value::Null, ..config.spec };
        }
        ConfigView(Arc::new(config))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// The resourceVersion.
    pub(crate) fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// The pool that it was rendered for, if it was.
    pub(crate) fn rendered_for(&self) -> Option<&str> {
        inputs::rendered_for(&self.0)
    }
}

/// A MachineConfigNode.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeObjectView {
    /// The resourceVersion.
    pub version: String,
    pub generation: i64,
    pub spec: MachineConfigNodeSpec,
    pub status: MachineConfigNodeStatus,
}

impl NodeObjectView {
    pub(crate) fn of(object: MachineConfigNode) -> Self {
        NodeObjectView {
            version: object.metadata.resource_version.unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            spec: object.spec,
            status: object.status.unwrap_or_default(),
        }
    }
}

/// The ClusterOperator `machine-config`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperatorView {
    pub uid: String,
    /// The resourceVersion.
    pub version: String,
    pub status: ClusterOperatorStatus,
}

impl OperatorView {
    pub(crate) fn of(object: ClusterOperator) -> Self {
        OperatorView {
            uid: object.metadata.uid.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
            status: object.status.unwrap_or_default(),
        }
    }
}
