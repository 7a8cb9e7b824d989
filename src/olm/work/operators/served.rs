//! Which kinds the API server serves, of the groups and versions that operators ask for. Nothing tells of that, but a definition or an
//! APIService changes when it does: then it is asked again, and a few times more, because it does not serve a kind at once.

use crate::cluster::{Clients, task};
use kube::Client;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Group, version and kind.
pub(crate) type Kinds = BTreeSet<(String, String, String)>;
/// Group and version.
pub(crate) type Natives = BTreeSet<(String, String)>;

/// Before each time that it is asked, in milliseconds.
const PAUSES: [u64; 6] = [0, 500, 1000, 2000, 4000, 8000];

pub(super) struct Served {
    client: Client,
    changed: Arc<Notify>,
    stop: CancellationToken,
    known: Arc<Mutex<Kinds>>,
    asked: Option<(Natives, u64)>,
    asking: Option<AbortOnDropHandle<()>>,
}

impl Served {
    pub(super) fn new(clients: &Clients, changed: Arc<Notify>, stop: CancellationToken) -> Served {
        Served { client: clients.call.clone(), changed, stop, known: Arc::default(), asked: None, asking: None }
    }

    /// `version` differs where other kinds may be served.
    pub(super) fn want(&mut self, natives: Natives, version: u64) {
        if natives.is_empty() || self.asked.as_ref().is_some_and(|asked| *asked == (natives.clone(), version)) {
            return;
        }
        self.asked = Some((natives.clone(), version));
        let (client, known, changed) = (self.client.clone(), self.known.clone(), self.changed.clone());
        let asking = async move {
            for pause in PAUSES {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let mut kinds = Kinds::new();
                for (group, version) in &natives {
                    kinds.extend(ask(&client, group, version).await);
                }
                let is_other = {
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_other = *known != kinds;
                    *known = kinds;
                    is_other
                };
                if is_other {
                    changed.notify_one();
                }
            }
        };
        self.asking = Some(AbortOnDropHandle::new(tokio::spawn(task::guarded("kinds", &self.stop, asking))));
    }

    pub(super) fn known(&self) -> Kinds {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// None where it cannot be said.
async fn ask(client: &Client, group: &str, version: &str) -> Kinds {
    let answer = match group {
        "" => client.list_core_api_resources(version).await,
        _ => client.list_api_group_resources(&format!("{group}/{version}")).await,
    };
    match answer {
        Ok(list) => list.resources.into_iter().map(|it| (group.to_owned(), version.to_owned(), it.kind)).collect(),
        Err(error) => {
            tracing::debug!(group, version, %error, "the kinds of a group are not known");
            Kinds::new()
        }
    }
}
