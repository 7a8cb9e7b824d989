//! Which changes of storage administrators allow although running nodes do not follow them. Nobody has to know before a pool is
//! refused something that they could allow: only as long as that is so are they followed.

use crate::cluster::task;
use crate::cluster::{Clients, Kind, Kinds, named};
use crate::machine_config::decide::Overrides;
use crate::machine_config::settings::overrides;
use crate::object::read::Read;
use futures::StreamExt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(super) struct FollowedOverrides {
    clients: Arc<Clients>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    following: Option<Following>,
}

/// They are followed until this is dropped.
struct Following {
    known: Arc<Mutex<Overrides>>,
    _task: AbortOnDropHandle<()>,
}

impl FollowedOverrides {
    pub(super) fn new(clients: Arc<Clients>, changed: Arc<Notify>, stop: CancellationToken) -> Self {
        FollowedOverrides { clients, changed, stop, following: None }
    }

    /// What is known of them.
    pub(super) fn known(&self) -> Overrides {
        let known = |following: &Following| following.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.following.as_ref().map(known).unwrap_or_default()
    }

    /// From now on they are followed, or no longer.
    pub(super) fn follow(&mut self, wanted: bool) {
        if !wanted {
            self.following = None;
        } else if self.following.is_none() {
            self.following = Some(follow(&self.clients, &self.changed, &self.stop));
        }
    }
}

fn follow(clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> Following {
    let kind = Kind::known("operator.openshift.io", "v1", "MachineConfiguration", "machineconfigurations", false);
    let mut states = named::follow(clients, Arc::new(Kinds::default()), kind, "", "cluster");
    let known = Arc::new(Mutex::new(Overrides::Unknown(None)));
    let (told, changed) = (known.clone(), changed.clone());
    let following = async move {
        while let Some(state) = states.next().await {
            let now = match state {
                Read::Value(object) => Overrides::Known(overrides(Some(&object))),
                Read::Absent => Overrides::Known(overrides(None)),
                Read::Failed(cause) => Overrides::Unknown(Some(cause)),
            };
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if *told != now {
                *told = now;
                changed.notify_one();
            }
        }
    };
    let task = tokio::spawn(task::guarded("exceptions for storage", stop, following));
    Following { known, _task: AbortOnDropHandle::new(task) }
}
