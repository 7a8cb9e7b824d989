//! Which objects the views are of that this controller keeps current.

use crate::cluster::followed::View;
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigPool};
use crate::machine_config::api::machine_config_node::MachineConfigNode;
use crate::machine_config::api::node_config::{ContainerRuntimeConfig, KubeletConfig};
use crate::machine_config::derived::Source;
use crate::machine_config::rollout::etcd::EtcdPod;
use crate::machine_config::views::{ConfigView, NodeObjectView, NodeView, OperatorView, PoolView};
use crate::object::budgets::Budget;
use crate::object::cluster_operator::ClusterOperator;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct KubeletView(pub Arc<Source>);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuntimeView(pub Arc<Source>);

impl View for NodeView {
    type Object = Node;

    fn of(object: Node) -> Self {
        NodeView::of(&object)
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl View for PoolView {
    type Object = MachineConfigPool;

    fn of(object: MachineConfigPool) -> Self {
        PoolView::of(object)
    }

    fn version(&self) -> &str {
        PoolView::version(self)
    }
}

impl View for ConfigView {
    type Object = MachineConfig;

    fn of(object: MachineConfig) -> Self {
        ConfigView::of(object)
    }

    fn version(&self) -> &str {
        ConfigView::version(self)
    }
}

impl View for NodeObjectView {
    type Object = MachineConfigNode;

    fn of(object: MachineConfigNode) -> Self {
        NodeObjectView::of(object)
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl View for OperatorView {
    type Object = ClusterOperator;

    fn of(object: ClusterOperator) -> Self {
        OperatorView::of(object)
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl View for Budget {
    type Object = PodDisruptionBudget;

    fn of(object: PodDisruptionBudget) -> Self {
        Budget::of(object)
    }

    fn version(&self) -> &str {
        Budget::version(self)
    }
}

impl View for EtcdPod {
    type Object = Pod;

    fn of(object: Pod) -> Self {
        EtcdPod::of(object)
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl View for KubeletView {
    type Object = KubeletConfig;

    fn of(object: KubeletConfig) -> Self {
        KubeletView(Arc::new(Source::of_kubelet(&object)))
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}

impl View for RuntimeView {
    type Object = ContainerRuntimeConfig;

    fn of(object: ContainerRuntimeConfig) -> Self {
        RuntimeView(Arc::new(Source::of_runtime(&object)))
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}
