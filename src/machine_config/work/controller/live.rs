//! What is kept current of the cluster all the time.

use super::views::{KubeletView, RuntimeView};
use crate::cluster::followed::{Followed, View};
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{Clients, Kind};
use crate::machine_config::decide::Sources;
use crate::machine_config::derived::{Source, SourceKind};
use crate::machine_config::operator::NAME;
use crate::machine_config::views::{ConfigView, NodeObjectView, NodeView, OperatorView, PoolView};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(super) struct Live {
    pub nodes: Arc<Followed<NodeView>>,
    pub pools: Arc<Followed<PoolView>>,
    pub configs: Arc<Followed<ConfigView>>,
    pub kubelet: Arc<Followed<KubeletView>>,
    pub runtime: Arc<Followed<RuntimeView>>,
    pub operator: Arc<Followed<OperatorView>>,
    /// `None` if they are not wanted.
    pub node_objects: Option<Arc<Followed<NodeObjectView>>>,
}

pub(super) fn node_kind() -> Kind {
    Kind::known("", "v1", "Node", "nodes", false)
}

pub(super) fn operator_kind() -> Kind {
    Kind::known("config.openshift.io", "v1", "ClusterOperator", "clusteroperators", false)
}

pub(super) fn config_kind() -> Kind {
    own("MachineConfig", "machineconfigs")
}

pub(super) fn pool_kind() -> Kind {
    own("MachineConfigPool", "machineconfigpools")
}

pub(super) fn node_object_kind() -> Kind {
    own("MachineConfigNode", "machineconfignodes")
}

pub(super) fn source_kind(source: SourceKind) -> Kind {
    own(source.kind(), source.plural())
}

fn own(kind: &'static str, plural: &'static str) -> Kind {
    Kind::known("machineconfiguration.openshift.io", "v1", kind, plural, false)
}

impl Live {
    pub(super) fn start(
        clients: &Clients,
        node_objects: bool,
        changed: &Arc<Notify>,
        stop: &CancellationToken,
    ) -> Live {
        Live {
            nodes: all(node_kind(), clients, changed, stop),
            pools: all(pool_kind(), clients, changed, stop),
            configs: all(config_kind(), clients, changed, stop),
            kubelet: all(source_kind(SourceKind::Kubelet), clients, changed, stop),
            runtime: all(source_kind(SourceKind::ContainerRuntime), clients, changed, stop),
            operator: {
                let selection = Selection::new(operator_kind(), "", Selector::Name(NAME.to_owned()));
                Followed::start(clients, selection, changed.clone(), stop.clone())
            },
            node_objects: node_objects.then(|| all(node_object_kind(), clients, changed, stop)),
        }
    }
}

fn all<V: View>(kind: Kind, clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> Arc<Followed<V>> {
    Followed::start(clients, Selection::new(kind, "", Selector::All), changed.clone(), stop.clone())
}

/// All views of a kind, once they are known.
pub(super) fn whole<V: View>(followed: &Followed<V>) -> Option<BTreeMap<String, Arc<V>>> {
    followed.all().map(Arc::unwrap_or_clone)
}

/// What is known of the objects of a kind that MachineConfigs are made of.
pub(super) fn sources<V: View>(followed: &Followed<V>, source: impl Fn(&V) -> Arc<Source>) -> Sources {
    match followed.all() {
        Some(views) => Sources::Known(views.values().map(|view| source(view)).collect()),
        None if followed.is_absent() => Sources::NotServed,
        None => Sources::Unknown(followed.error()),
    }
}
