//! The one writer of ClusterVersion.status: a PUT with the resourceVersion the status was computed from, one at a time,
//! at once when something turned, at most once a second when only counts and texts moved.

use crate::api::ClusterVersionStatus;
use crate::cluster::{ApiError, Kind, Objects};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct StatusWriter {
    objects: Objects,
    name: String,
    writing: Option<JoinHandle<Result<Value, ApiError>>>,
    /// Offered and not yet written: when it may be.
    due: Option<Instant>,
    last: Option<Instant>,
    failures: u32,
}

/// What an administrator or another program waits for: generations, releases, history, updates, and which conditions hold.
/// Everything else is how far things are and why.
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
    pub fn new(objects: Objects, name: &str) -> Self {
        StatusWriter { objects, name: name.to_owned(), writing: None, due: None, last: None, failures: 0 }
    }

    /// Writes now, or says by [`StatusWriter::due`] when to offer again. `live` is what the status was computed from.
    pub fn offer(&mut self, live: Value, status: ClusterVersionStatus) {
        self.due = None;
        if self.writing.is_some() {
            return; // Its end wakes the loop, which offers again.
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

    /// How long until a status is to be offered again.
    pub fn due(&self) -> Option<Duration> {
        self.due.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Waits for the write under way and returns the object as written. Cancel safe.
    pub async fn ended(&mut self) -> Option<Value> {
        let Some(writing) = &mut self.writing else { return std::future::pending().await };
        let ended = writing.await;
        self.writing = None;
        match ended {
            Ok(Ok(object)) => {
                self.failures = 0;
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

    /// The last write before the process ends.
    pub async fn flush(&mut self, live: Value, status: ClusterVersionStatus) {
        let mut live = live;
        if let Some(writing) = self.writing.take()
            && let Ok(Ok(object)) = writing.await
        {
            live = object;
        }
        if let Err(error) = write(&self.objects, &self.name, live, &status).await {
            tracing::warn!(%error, "last status not written");
        }
    }
}

async fn write(
    objects: &Objects,
    name: &str,
    mut live: Value,
    status: &ClusterVersionStatus,
) -> Result<Value, ApiError> {
    let kind = Kind::known("config.openshift.io", "v1", "ClusterVersion", "clusterversions", false);
    // A PUT, because merge patches cannot carry the nulls that the schema requires (apis §1.8).
    let status = serde_json::to_value(status).unwrap_or_default();
    if let Some(map) = live.as_object_mut() {
        map.insert("status".into(), status);
    }
    objects.replace_status(&kind, "", name, &live).await
}
