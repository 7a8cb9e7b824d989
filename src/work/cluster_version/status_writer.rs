//! The one writer of ClusterVersion.status: a PUT with the resourceVersion the status was computed from, one at a time,
//! at once when something turned, at most once a second when only counts and texts moved.

use crate::api::ClusterVersionStatus;
use crate::cluster::error::Cause;
use crate::cluster::{ApiError, Kind, Objects};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const PERIOD: Duration = Duration::from_secs(1);
/// What the cluster's schema refused is left out for this long and then tried again, because the release may bring a schema
/// that accepts it.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// The object as written, and what had to be left out.
type Written = (Value, Refused);

/// What the cluster's schema does not accept. The rest of the status must not be held up by it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Refused {
    /// Names of capabilities: the schema enumerates them.
    capabilities: BTreeSet<String>,
    /// The updates that an update service offers, whose contents are not ours.
    updates: bool,
}

#[derive(Debug)]
pub(crate) struct StatusWriter {
    objects: Objects,
    name: String,
    writing: Option<JoinHandle<Result<Written, ApiError>>>,
    /// When the status that was offered may be written.
    due: Option<Instant>,
    last: Option<Instant>,
    failures: u32,
    refused: Option<(Instant, Refused)>,
}

/// Whether something changed that an administrator or another program waits for: generations, releases, history, updates,
/// and which conditions hold. Everything else is progress and explanation, and may wait a second.
fn turned(before: &ClusterVersionStatus, after: &ClusterVersionStatus) -> bool {
    let edges = |status: &ClusterVersionStatus| {
        let mut status = status.clone();
        for condition in &mut status.conditions {
            condition.message.clear();
            condition.reason.clear();
        }
        status
    };
    edges(before) != edges(after)
}

impl StatusWriter {
    pub(crate) fn new(objects: Objects, name: &str) -> Self {
        StatusWriter {
            objects,
            name: name.to_owned(),
            writing: None,
            due: None,
            last: None,
            failures: 0,
            refused: None,
        }
    }

    /// The status without what the cluster's schema has refused of it lately.
    pub(crate) fn acceptable(&self, mut status: ClusterVersionStatus) -> ClusterVersionStatus {
        if let Some((_, refused)) = self.refused.as_ref().filter(|(at, _)| at.elapsed() < REFUSED_FOR) {
            refused.leave_out(&mut status);
        }
        status
    }

    /// The last status is offered whole.
    pub(crate) fn forget_refused(&mut self) {
        self.refused = None;
    }

    /// Writes now, or says by [`StatusWriter::due`] when to offer again. `live` is what the status was computed from.
    pub(crate) fn offer(&mut self, live: Value, status: ClusterVersionStatus) {
        self.due = None;
        if self.writing.is_some() {
            return; // Its end wakes the controller, which offers again.
        }
        let before = live.get("status").cloned().and_then(|s| serde_json::from_value(s).ok()).unwrap_or_default();
        let pause = match self.failures {
            0 if turned(&before, &status) => Duration::ZERO,
            0 => PERIOD,
            n => crate::cluster::jittered(Duration::from_millis(200), n, Duration::from_secs(15)),
        };
        let now = Instant::now();
        if let Some(at) = self.last.map(|last| last + pause).filter(|at| *at > now) {
            self.due = Some(at);
            return;
        }
        self.last = Some(now);
        let (objects, name) = (self.objects.clone(), self.name.clone());
        self.writing = Some(tokio::spawn(async move { write(&objects, &name, live, &status).await }));
    }

    /// There is nothing to write.
    pub(crate) fn rest(&mut self) {
        self.due = None;
    }

    /// How long until a status is to be offered again.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.due.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Waits for the write under way and returns the object as written. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Option<Value> {
        let Some(writing) = &mut self.writing else { return std::future::pending().await };
        let ended = writing.await;
        self.writing = None;
        match ended {
            Ok(Ok((object, refused))) => {
                self.failures = 0;
                if refused != Refused::default() {
                    self.refused = Some((Instant::now(), refused));
                }
                return Some(object);
            }
            // A conflict heals with the event that the other write causes.
            Ok(Err(error)) if error.is_conflict() => tracing::debug!(%error, "status not written; computing it anew"),
            Ok(Err(error)) => tracing::warn!(%error, "status not written; trying again"),
            Err(error) => tracing::error!(%error, "writing the status ended badly"),
        }
        self.failures += 1;
        None
    }

    /// Waits for the write under way, if there is one, and returns the object as written.
    pub(crate) async fn finish(&mut self) -> Option<Value> {
        self.writing.is_some().then_some(())?;
        self.ended().await
    }

    /// The last write before the process ends.
    pub(crate) async fn write_last(&self, live: Value, status: &ClusterVersionStatus) -> Result<(), ApiError> {
        write(&self.objects, &self.name, live, status).await.map(drop)
    }

    /// The object as it is now.
    pub(crate) async fn read(&self) -> Result<Option<Value>, ApiError> {
        self.objects.get(&Kind::cluster_version(), "", &self.name).await
    }
}

async fn write(
    objects: &Objects,
    name: &str,
    mut live: Value,
    status: &ClusterVersionStatus,
) -> Result<Written, ApiError> {
    let refused = match put(objects, name, &mut live, status).await {
        Ok(object) => return Ok((object, Refused::default())),
        Err(error) => match Refused::of(&error, status) {
            Some(refused) => refused,
            None => return Err(error),
        },
    };
    tracing::warn!(
        ?refused,
        "the cluster's schema of ClusterVersion refuses a part of the status; it is written without that part"
    );
    let mut rest = status.clone();
    refused.leave_out(&mut rest);
    Ok((put(objects, name, &mut live, &rest).await?, refused))
}

async fn put(
    objects: &Objects,
    name: &str,
    live: &mut Value,
    status: &ClusterVersionStatus,
) -> Result<Value, ApiError> {
    // A PUT, because merge patches cannot carry the nulls that the schema requires.
    let status = serde_json::to_value(status).unwrap_or_default();
    if let Some(map) = live.as_object_mut() {
        map.insert("status".into(), status);
    }
    objects.replace_status(&Kind::cluster_version(), "", name, live).await
}

impl Refused {
    /// What of the status the server says it does not take; `None` where it is something else.
    fn of(error: &ApiError, status: &ClusterVersionStatus) -> Option<Refused> {
        let Cause::Server { code, message, .. } = &error.cause else { return None };
        let offers = status.available_updates.is_some() || !status.conditional_updates.is_empty();
        if (*code == 413 || message.contains("request is too large")) && offers {
            return Some(Refused { updates: true, ..Refused::default() });
        }
        if *code != 422 {
            return None;
        }
        let capabilities = &status.capabilities;
        let names = capabilities.enabled_capabilities.iter().chain(&capabilities.known_capabilities);
        let names = names.filter(|name| message.contains(&format!("Unsupported value: {name:?}")));
        let updates = ["status.availableUpdates", "status.conditionalUpdates"];
        let refused = Refused {
            capabilities: names.cloned().collect(),
            updates: updates.iter().any(|field| message.contains(field)),
        };
        (refused != Refused::default()).then_some(refused)
    }

    fn leave_out(&self, status: &mut ClusterVersionStatus) {
        let capabilities = &mut status.capabilities;
        capabilities.enabled_capabilities.retain(|name| !self.capabilities.contains(name));
        capabilities.known_capabilities.retain(|name| !self.capabilities.contains(name));
        if self.updates {
            // Less is safe: what is not offered is not recommended.
            status.available_updates = None;
            status.conditional_updates.clear();
        }
    }
}

#[cfg(test)]
mod tests;
