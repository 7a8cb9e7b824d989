//! The one writer of ClusterVersion.status: a PUT over the status that it was computed from, one at a time, at once when
//! something turned, at most once a second when only counts and texts moved.

use crate::cluster::error::Cause;
use crate::cluster::lease::Note;
use crate::cluster::{ApiError, Kind, Objects};
use crate::cluster_version::api::ClusterVersion;
use crate::cluster_version::api::ClusterVersionStatus;
use crate::object::metadata;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const PERIOD: Duration = Duration::from_secs(1);
/// What the cluster's schema refused is left out for this long and then tried again, because the release may bring a schema
/// that accepts it. Each time that it is refused again the pause doubles, up to the cap.
const REFUSED_FOR: Duration = Duration::from_secs(30);
const REFUSED_CAP: Duration = Duration::from_secs(3600);
/// Of one PUT. Somebody who writes the rest of the object all the time must not keep the status from being written.
const ATTEMPTS: usize = 8;

/// The object as written, and what had to be left out.
type Written = (Value, Refused);

/// A write that failed.
#[derive(Debug)]
struct NotWritten {
    error: ApiError,
    /// The object as it is, if it is known that another status is in the way.
    newer: Option<Value>,
}

impl From<ApiError> for NotWritten {
    fn from(error: ApiError) -> NotWritten {
        NotWritten { error, newer: None }
    }
}

/// What the cluster's schema does not accept. The rest of the status must not be held up by it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Refused {
    /// Names of capabilities: the schema enumerates them.
    capabilities: BTreeSet<String>,
    /// The updates that an update service offers, whose contents are not ours.
    updates: bool,
    /// Fields that the schema lacks, so that the server drops them: names joined by dots, without positions in lists.
    fields: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct StatusWriter {
    objects: Objects,
    name: String,
    writing: Option<JoinHandle<Result<Written, NotWritten>>>,
    /// When the status that was offered may be written.
    due: Option<Instant>,
    last: Option<Instant>,
    failures: u32,
    refused: Option<(Instant, Refused)>,
    /// How often in a row something was refused.
    refusals: u32,
    /// Says why the status is old, where somebody can read it.
    note: Arc<Note>,
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
    pub(crate) fn new(objects: Objects, name: &str, note: Arc<Note>) -> Self {
        StatusWriter {
            objects,
            name: name.to_owned(),
            writing: None,
            due: None,
            last: None,
            failures: 0,
            refused: None,
            refusals: 0,
            note,
        }
    }

    /// The status without what the cluster's schema has refused of it lately.
    pub(crate) fn acceptable(&self, mut status: ClusterVersionStatus) -> ClusterVersionStatus {
        let pause = crate::pause::doubled(REFUSED_FOR, self.refusals, REFUSED_CAP);
        if let Some((_, refused)) = self.refused.as_ref().filter(|(at, _)| at.elapsed() < pause) {
            refused.leave_out(&mut status);
        }
        status
    }

    /// The next status is offered whole: the schema may be another one, or it is the last.
    pub(crate) fn forget_refused(&mut self) {
        (self.refused, self.refusals) = (None, 0);
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

    /// Waits for the write under way and returns the object as written, or as it is instead. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Option<Value> {
        let Some(writing) = &mut self.writing else { return std::future::pending().await };
        let ended = writing.await;
        self.writing = None;
        match ended {
            Ok(Ok((object, refused))) => {
                self.failures = 0;
                self.note.over();
                if refused != Refused::default() {
                    self.remember(refused);
                }
                return Some(object);
            }
            Ok(Err(NotWritten { error, newer })) if error.is_conflict() => {
                tracing::debug!(%error, "status not written; computing it anew");
                self.failures = self.failures.saturating_add(1);
                return newer;
            }
            Ok(Err(NotWritten { error, .. })) => {
                self.note.failed(&error.to_string());
                tracing::warn!(%error, "status not written; trying again");
            }
            Err(error) => tracing::error!(%error, "writing the status ended badly"),
        }
        self.failures = self.failures.saturating_add(1);
        None
    }

    /// What is still left out goes on being so.
    fn remember(&mut self, mut refused: Refused) {
        self.refusals = self.refusals.saturating_add(1);
        if let Some((_, before)) = self.refused.take() {
            refused.fields.extend(before.fields);
        }
        self.refused = Some((Instant::now(), refused));
    }

    /// Waits for the write under way, if there is one, and returns the object as written.
    pub(crate) async fn finish(&mut self) -> Option<Value> {
        self.writing.is_some().then_some(())?;
        self.ended().await
    }

    /// The last write before the process ends.
    pub(crate) async fn write_last(&self, live: Value, status: &ClusterVersionStatus) -> Result<(), ApiError> {
        write(&self.objects, &self.name, live, status).await.map(drop).map_err(|failed| failed.error)
    }

    /// The object as it is now.
    pub(crate) async fn read(&self) -> Result<Option<Value>, ApiError> {
        self.objects.get(&Kind::of::<ClusterVersion>(false), "", &self.name).await
    }
}

async fn write(
    objects: &Objects,
    name: &str,
    mut live: Value,
    status: &ClusterVersionStatus,
) -> Result<Written, NotWritten> {
    let refused = match put(objects, name, &mut live, status).await {
        Ok(object) => {
            let refused = Refused { fields: dropped(&live, &object), ..Refused::default() };
            if !refused.fields.is_empty() {
                tracing::warn!(fields = ?refused.fields, "the cluster's schema of ClusterVersion lacks fields of the status");
            }
            return Ok((object, refused));
        }
        Err(failed) => match Refused::of(&failed.error, status) {
            Some(refused) => refused,
            None => return Err(failed),
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

/// `live` is the object that the status was computed from, and then the one that it was written to.
async fn put(
    objects: &Objects,
    name: &str,
    live: &mut Value,
    status: &ClusterVersionStatus,
) -> Result<Value, NotWritten> {
    // A PUT, because merge patches cannot carry the nulls that the schema requires.
    let status = serde_json::to_value(status).unwrap_or_default();
    let before = set_status(live, status.clone());
    let kind = Kind::of::<ClusterVersion>(false);
    for _ in 1..ATTEMPTS {
        let conflict = match objects.replace_status(&kind, "", name, live).await {
            Err(error) if error.is_conflict() => error,
            answer => return Ok(answer?),
        };
        // Others may have changed anything but the status, which was computed from a spec that it names by its generation.
        match objects.get(&kind, "", name).await? {
            Some(mut newer) if metadata::uid(&newer) == metadata::uid(live) => {
                if newer.get("status") != before.as_ref() {
                    return Err(NotWritten { error: conflict, newer: Some(newer) });
                }
                set_status(&mut newer, status.clone());
                *live = newer;
            }
            _ => return Err(conflict.into()),
        }
    }
    Ok(objects.replace_status(&kind, "", name, live).await?)
}

/// Returns the one before.
fn set_status(object: &mut Value, status: Value) -> Option<Value> {
    object.as_object_mut()?.insert("status".into(), status)
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
            fields: BTreeSet::new(),
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
            status.conditional_update_risks.clear();
        }
        if !self.fields.is_empty()
            && let Ok(mut whole) = serde_json::to_value(&*status)
        {
            self.fields.iter().for_each(|field| remove(&mut whole, field));
            // Without a field that the type requires, it stays as it is.
            if let Ok(rest) = serde_json::from_value(whole) {
                *status = rest;
            }
        }
    }
}

/// The fields of the status that was sent which the answer lacks.
fn dropped(sent: &Value, answer: &Value) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    if let (Some(sent), Some(answer)) = (sent.get("status"), answer.get("status")) {
        collect_dropped(sent, answer, "", &mut fields);
    }
    fields
}

fn collect_dropped(sent: &Value, answer: &Value, path: &str, fields: &mut BTreeSet<String>) {
    match (sent, answer) {
        (Value::Object(sent), Value::Object(answer)) => {
            for (key, value) in sent {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match answer.get(key) {
                    Some(kept) => collect_dropped(value, kept, &path, fields),
                    None if value.is_null() => {}
                    None => drop(fields.insert(path)),
                }
            }
        }
        (Value::Array(sent), Value::Array(answer)) if sent.len() == answer.len() => {
            sent.iter().zip(answer).for_each(|(sent, answer)| collect_dropped(sent, answer, path, fields));
        }
        _ => {}
    }
}

/// Removes a field, of every entry of a list.
fn remove(value: &mut Value, field: &str) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|entry| remove(entry, field)),
        Value::Object(map) => match field.split_once('.') {
            Some((key, rest)) => map.get_mut(key).into_iter().for_each(|inner| remove(inner, rest)),
            None => drop(map.remove(field)),
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests;
