//! What is demanded of TLS: by the command line, and by the cluster where it wants all of its servers to follow its settings.

use crate::cluster::task;
use crate::cluster::{Clients, Kind, Kinds, named};
use crate::merge::inject::Tls;
use crate::object::read::Read;
use crate::serve::tls;
use futures::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What is demanded of TLS while the server runs.
#[derive(Debug)]
pub(super) struct Demanded {
    sender: watch::Sender<tls::Demands>,
    flags: tls::Flags,
}

impl Demanded {
    /// What the command line demands, until the APIServer is known.
    pub(super) fn new(flags: tls::Flags) -> Demanded {
        Demanded { sender: watch::channel(flags.alone.clone()).0, flags }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<tls::Demands> {
        self.sender.subscribe()
    }

    /// Follows the APIServer `cluster` until `stop`.
    pub(super) fn follow(self, clients: &Clients, kinds: Arc<Kinds>, stop: CancellationToken) {
        let kind = Kind::known("config.openshift.io", "v1", "APIServer", "apiservers", false);
        let mut states = named::follow(clients, kinds, kind, "", "cluster");
        let following = async move {
            while let Some(state) = states.next().await {
                match state {
                    Read::Value(object) => self.update(Some(&object)),
                    Read::Absent => self.update(None),
                    // The last settings stay.
                    Read::Failed(_) => {}
                }
            }
        };
        task::spawn("demands on TLS", &stop, following);
    }

    /// Takes over what the APIServer says; what cannot be served leaves the last settings in place.
    fn update(&self, object: Option<&Value>) {
        match demands(object, &self.flags) {
            Ok(demands) => {
                self.sender.send_if_modified(|last| {
                    let changed = *last != demands;
                    *last = demands;
                    changed
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the TLS settings of the APIServer cannot be served; the last ones stay")
            }
        }
    }
}

/// The profile of the APIServer counts for servers like this one only if the cluster says so in `tlsAdherence`. A value that
/// is not known does: whoever sets one wants more than the default.
fn demands(object: Option<&Value>, flags: &tls::Flags) -> Result<tls::Demands, String> {
    let adherence = object.and_then(|object| object.pointer("/spec/tlsAdherence")).and_then(Value::as_str);
    match adherence {
        None | Some("" | "LegacyAdheringComponentsOnly") => Ok(flags.alone.clone()),
        Some(_) => tls::Demands::of_cluster(&Tls::of(object), flags),
    }
}

#[cfg(test)]
mod tests;
