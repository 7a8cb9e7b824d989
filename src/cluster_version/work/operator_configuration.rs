//! Follows the ClusterVersionOperator `cluster`, which says how much the daemon logs. It counts only while its feature gate is
//! on; without it the log level is that of the command line.

use crate::cluster::{ApiError, Clients, Kind, Kinds, Objects, jittered, named};
use crate::object::read::Read;
use crate::release::Features;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const NAME: &str = "cluster";
const GATE: &str = "ClusterVersionOperatorConfiguration";
/// A write that failed is tried again after longer and longer pauses.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_CAP: Duration = Duration::from_secs(60);

/// How much is logged, from errors and decisions to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    Normal,
    Debug,
    Trace,
    TraceAll,
}

impl LogLevel {
    /// What is unknown or missing is `Normal`.
    fn of(object: &Value) -> LogLevel {
        match object.pointer("/spec/operatorLogLevel").and_then(Value::as_str) {
            Some("Debug") => LogLevel::Debug,
            Some("Trace") => LogLevel::Trace,
            Some("TraceAll") => LogLevel::TraceAll,
            _ => LogLevel::Normal,
        }
    }
}

/// Sets the level of the whole process; `None` is that of the command line.
#[derive(Clone)]
pub(crate) struct SetLogLevel(pub Arc<dyn Fn(Option<LogLevel>) + Send + Sync>);

impl fmt::Debug for SetLogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetLogLevel")
    }
}

fn kind() -> Kind {
    Kind::known("operator.openshift.io", "v1alpha1", "ClusterVersionOperator", "clusterversionoperators", false)
}

/// What is followed, and by whom.
pub(crate) struct Follower {
    pub clients: Arc<Clients>,
    pub objects: Objects,
    pub kinds: Arc<Kinds>,
    pub features: watch::Receiver<Arc<Features>>,
    /// Version of the running release, whose gates count.
    pub version: String,
    pub set: SetLogLevel,
}

impl Follower {
    /// Runs until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let following = async {
            while self.features.clone().wait_for(|features| self.is_on(features)).await.is_ok() {
                let mut features = self.features.clone();
                tokio::select! {
                    () = self.follow() => {}
                    ended = features.wait_for(|features| !self.is_on(features)) => if ended.is_err() { return },
                }
                (self.set.0)(None);
                self.features.mark_unchanged();
            }
        };
        stop.run_until_cancelled(following).await;
    }

    fn is_on(&self, features: &Features) -> bool {
        features.enabled([self.version.as_str()]).is_some_and(|gates| gates.contains(GATE))
    }

    async fn follow(&self) {
        self.follow_states(named::follow(&self.clients, self.kinds.clone(), kind(), "", NAME)).await;
    }

    async fn follow_states(&self, mut states: BoxStream<'static, Read<Value>>) {
        // What has not been told yet, how often that has failed, and when it is tried again.
        let (mut untold, mut failures, mut again) = (None, 0, Instant::now());
        loop {
            let pause = async {
                match &untold {
                    Some(_) => tokio::time::sleep_until(again).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                state = states.next() => match state {
                    None => return,
                    Some(Read::Value(object)) => {
                        (self.set.0)(Some(LogLevel::of(&object)));
                        (untold, failures) = (Some(object), 0);
                    }
                    Some(Read::Absent) => {
                        (self.set.0)(None);
                        untold = None;
                    }
                    Some(Read::Failed(_)) => continue,
                },
                () = pause => {}
            }
            let Some(object) = &untold else { continue };
            match self.tell_observed(object.clone()).await {
                Ok(()) => untold = None,
                // An object that was changed meanwhile comes as an event; nothing tells that a failure is over.
                Err(error) => {
                    failures += 1;
                    tracing::debug!(%error, "observed generation not written; trying again");
                    again = Instant::now() + jittered(PAUSE, failures, PAUSE_CAP);
                }
            }
        }
    }

    async fn tell_observed(&self, mut object: Value) -> Result<(), ApiError> {
        let generation = object.pointer("/metadata/generation").cloned().unwrap_or_default();
        if object.pointer("/status/observedGeneration") == Some(&generation) {
            return Ok(());
        }
        if let Some(map) = object.as_object_mut() {
            map.insert("status".to_owned(), json!({"observedGeneration": generation}));
        }
        self.objects.replace_status(&kind(), "", NAME, &object).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
