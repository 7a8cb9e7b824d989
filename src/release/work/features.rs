//! The current FeatureGate.

use crate::cluster::task;
use crate::cluster::{ApiError, Clients, Kind, Kinds, Objects, named};
use crate::object::read::Read;
use crate::release::Features;
use futures::StreamExt;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const NAME: &str = "cluster";

fn kind() -> Kind {
    Kind::known("config.openshift.io", "v1", "FeatureGate", "featuregates", false)
}

/// Reads the FeatureGate once, for commands. The default applies if there is none, or if its kind is not served.
pub(crate) async fn read(objects: &Objects) -> Result<Features, ApiError> {
    Ok(objects.get(&kind(), "", NAME).await?.as_ref().map(Features::of).unwrap_or_default())
}

/// Follows the FeatureGate; the value changes with it. The default applies if there is none at first; a later deletion
/// changes nothing: the last decision stays valid until there is another. `None` if stopped before the first read.
pub(crate) async fn follow(
    clients: &Clients,
    kinds: Arc<Kinds>,
    stop: &CancellationToken,
) -> Option<watch::Receiver<Arc<Features>>> {
    let mut states = named::follow(clients, kinds, kind(), "", NAME);
    let first = loop {
        match stop.run_until_cancelled(states.next()).await?? {
            Read::Value(object) => break Features::of(&object),
            Read::Absent => break Features::default(),
            Read::Failed(error) => tracing::warn!(%error, "the FeatureGate was not read; trying again"),
        }
    };
    let (sender, receiver) = watch::channel(Arc::new(first));
    task::spawn("feature gates", stop, async move {
        while let Some(state) = states.next().await {
            if let Read::Value(object) = state {
                on_change(&sender, Features::of(&object));
            }
        }
    });
    Some(receiver)
}

fn on_change(sender: &watch::Sender<Arc<Features>>, features: Features) {
    sender.send_if_modified(|last| {
        let changed = **last != features;
        if changed {
            tracing::info!(set = %features.set, versions = ?features.gates.keys(), "the FeatureGate changed");
            *last = Arc::new(features);
        }
        changed
    });
}
