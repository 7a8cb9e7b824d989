//! Follows the pods of etcd while nodes of the control plane are changed, and only then.

use crate::cluster::followed::Followed;
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{Clients, Kind};
use crate::machine_config::decide::EtcdPods;
use crate::machine_config::rollout::etcd::{EtcdPod, LABELS, NAMESPACE};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) struct EtcdMembers {
    clients: Arc<Clients>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    following: Option<(Arc<Followed<EtcdPod>>, DropGuard)>,
}

impl EtcdMembers {
    pub(super) fn new(clients: Arc<Clients>, changed: Arc<Notify>, stop: CancellationToken) -> Self {
        EtcdMembers { clients, changed, stop, following: None }
    }

    /// From now on they are followed, or no longer.
    pub(super) fn follow(&mut self, wanted: bool) {
        if !wanted {
            self.following = None;
        } else if self.following.is_none() {
            let selection = Selection::new(Kind::pod(), NAMESPACE, Selector::Labels(LABELS.to_owned()));
            let (until, changed) = (CancellationToken::new(), self.changed.clone());
            let followed = Followed::start_until(&self.clients, selection, changed, &self.stop, until.clone());
            self.following = Some((followed, until.drop_guard()));
        }
    }

    pub(super) fn pods(&self) -> EtcdPods {
        let Some((followed, _)) = &self.following else { return EtcdPods::default() };
        EtcdPods { known: followed.all().map(|pods| pods.values().cloned().collect()), error: followed.error() }
    }
}
