//! What is kept of nodes, pools and MachineConfigs: a thousand whole nodes with the images on them take far more memory.

use super::followed::View;
use crate::machine_config::api::machine_config::{GROUP, MachineConfig, MachineConfigPool, annotation as key};
use crate::machine_config::approval;
use crate::machine_config::drain;
use crate::machine_config::drain::{Drain, DrainFacts};
use crate::machine_config::inputs;
use crate::machine_config::node::NodeFacts;
use crate::object::budgets::Budget;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeView {
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
    /// It has been told what to take, and its agent has not asked for a drain for that yet.
    pub(crate) fn will_ask(&self) -> bool {
        let asked = self.drain.asked.as_deref().and_then(|asked| asked.split_once('-')).map(|(_, config)| config);
        self.facts.is_changing() && !self.facts.is_done() && asked != Some(self.facts.desired.config.as_str())
    }
}

impl View for NodeView {
    type Object = Node;

    fn of(node: Node) -> Self {
        let topology = format!("{GROUP}/{}", key::CONTROL_PLANE_TOPOLOGY);
        let topology = node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(&topology));
        NodeView {
            version: node.metadata.resource_version.clone().unwrap_or_default(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            labels: NodeFacts::labels(&node),
            draining: Drain::of(&node),
            begun: drain::begun(&node),
            topology: topology.cloned().unwrap_or_default(),
            facts: NodeFacts::of(&node),
            drain: DrainFacts::of(&node),
            taints: node.spec.and_then(|spec| spec.taints).unwrap_or_default(),
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PoolView(pub Arc<MachineConfigPool>);

impl PartialEq for PoolView {
    fn eq(&self, other: &Self) -> bool {
        let version = |view: &Self| (view.0.metadata.uid.clone(), view.0.metadata.resource_version.clone());
        version(self) == version(other)
    }
}

impl View for PoolView {
    type Object = MachineConfigPool;

    fn of(mut pool: MachineConfigPool) -> Self {
        pool.metadata.managed_fields = None;
        PoolView(Arc::new(pool))
    }

    fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

impl PoolView {
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
pub(crate) struct ConfigView(pub Arc<MachineConfig>);

impl PartialEq for ConfigView {
    fn eq(&self, other: &Self) -> bool {
        let version = |view: &Self| (view.0.metadata.uid.clone(), view.0.metadata.resource_version.clone());
        version(self) == version(other)
    }
}

impl View for ConfigView {
    type Object = MachineConfig;

    fn of(mut config: MachineConfig) -> Self {
        config.metadata.managed_fields = None;
        let view = ConfigView(Arc::new(config));
        match view.rendered_for() {
            None => view,
            Some(_) => ConfigView(Arc::new(MachineConfig {
                metadata: view.0.metadata.clone(),
                spec: crate::machine_config::api::machine_config::MachineConfigSpec {
                    config: serde_json::Value::Null,
                    ..view.0.spec.clone()
                },
            })),
        }
    }

    fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

impl ConfigView {
    pub(crate) fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// The pool that it was rendered for, if it was.
    pub(crate) fn rendered_for(&self) -> Option<&str> {
        inputs::rendered_for(&self.0)
    }
}

impl View for Budget {
    type Object = PodDisruptionBudget;

    fn of(budget: PodDisruptionBudget) -> Self {
        Budget::of(budget)
    }

    fn version(&self) -> &str {
        Budget::version(self)
    }
}
