//! Serves metrics and health, with the TLS settings of the cluster where the cluster wants all of its servers to follow them.

use super::monitoring::Monitoring;
use crate::cluster::{Clients, Kind, Kinds, named};
use crate::merge::inject::Tls;
use crate::serve::{self, Pages, tls};
use crate::updates::upgradeable::Read;
use futures::StreamExt;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The configuration from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub listen: SocketAddr,
    /// The serving certificate; self-signed without.
    pub files: Option<tls::Files>,
    /// What the command line demands of TLS.
    pub flags: tls::Flags,
}

impl Serving {
    /// Starts the server. If it fails, for instance because the port is in use, it is tried again; the daemon goes on.
    pub(crate) fn start(self, monitoring: &Arc<Monitoring>, stop: CancellationToken) -> Demanded {
        let demanded = Demanded { sender: watch::channel(self.flags.alone.clone()).0, flags: self.flags };
        let (pages, demands) = (pages(monitoring), demanded.sender.subscribe());
        let (listen, files) = (self.listen, self.files);
        tokio::spawn(async move {
            let mut failures = 0;
            while !stop.is_cancelled() {
                let served = async {
                    let tls = Arc::new(tls::Current::new(files.clone(), demands.clone())?);
                    serve::run(listen, tls, pages.clone(), stop.clone()).await
                };
                if let Err(error) = served.await {
                    failures += 1;
                    tracing::warn!(%error, "cannot serve metrics; retrying");
                    let pause = crate::cluster::jittered(Duration::from_secs(1), failures, Duration::from_secs(60));
                    let _stopped = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                }
            }
        });
        demanded
    }
}

/// What is served.
fn pages(monitoring: &Arc<Monitoring>) -> Pages {
    let (metrics, health) = (monitoring.clone(), monitoring.clone());
    Pages {
        metrics: Arc::new(move || metrics.text()),
        health: Arc::new(move || {
            let health = health.clone();
            Box::pin(async move { health.heartbeat.check().await })
        }),
    }
}

/// What is demanded of TLS while the server runs.
#[derive(Debug)]
pub(crate) struct Demanded {
    sender: watch::Sender<tls::Demands>,
    flags: tls::Flags,
}

impl Demanded {
    /// Follows the APIServer `cluster` until `stop`.
    pub(crate) fn follow(self, clients: &Clients, kinds: Arc<Kinds>, stop: CancellationToken) {
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
        tokio::spawn(async move { stop.run_until_cancelled(following).await });
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
