//! What the API server says of those who ask it and of itself, in the ConfigMap `extension-apiserver-authentication`.

use crate::cluster::task;
use crate::cluster::{Clients, Kind, Kinds, named};
use crate::object::read::Read;
use futures::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// What `parse` makes of the ConfigMap, followed until `stop`; an error says why there is nothing. `lacking`: what does not work
/// then.
pub(crate) fn follow<T: Send + Sync + 'static>(
    clients: &Clients,
    kinds: Arc<Kinds>,
    stop: &CancellationToken,
    lacking: &'static str,
    parse: fn(&Value) -> Result<T, String>,
) -> watch::Receiver<Result<T, String>> {
    let (told, found) = watch::channel(Err(format!("ConfigMap {NAMESPACE}/{NAME} has not been read yet")));
    let mut states = named::follow(clients, kinds, Kind::config_map(), NAMESPACE, NAME);
    let following = async move {
        while let Some(state) = states.next().await {
            let parsed = match state {
                Read::Value(object) => parse(&object).map_err(|cause| format!("ConfigMap {NAMESPACE}/{NAME}: {cause}")),
                Read::Absent => Err(format!("ConfigMap {NAMESPACE}/{NAME} does not exist")),
                // The last ones count, if there are any.
                Read::Failed(_) if told.borrow().is_ok() => continue,
                Read::Failed(cause) => Err(format!("ConfigMap {NAMESPACE}/{NAME} cannot be read: {cause}")),
            };
            if let Err(cause) = &parsed {
                tracing::warn!(error = cause, "{lacking}");
            }
            let _last = told.send_replace(parsed);
        }
    };
    task::spawn("client certificates", stop, following);
    found
}
