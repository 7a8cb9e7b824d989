//! The progress record in its ConfigMap: read once at start, written when it changes, at most once a second. A separate
//! task writes it, so that a slow server never blocks the controller.

use crate::api::progress::{CONFIG_MAP, KEY, Progress, SCHEMA};
use crate::cluster::{ApiError, Kind, Objects};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Minimum time between two writes.
const PERIOD: Duration = Duration::from_secs(1);
/// How often the last record is tried when stopping, and the pause between the tries.
const LAST_TRIES: u32 = 3;
const LAST_PAUSE: Duration = Duration::from_millis(200);

fn kind() -> Kind {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

/// The last record, or an empty one. An unreadable record is not an error, because it holds only clocks and estimates.
pub(crate) async fn read(objects: &Objects, namespace: &str) -> Result<Progress, ApiError> {
    let Some(live) = objects.get(&kind(), namespace, CONFIG_MAP).await? else { return Ok(Progress::default()) };
    let text = live.get("data").and_then(|d| d.get(KEY)).and_then(Value::as_str).unwrap_or_default();
    match serde_json::from_str::<Progress>(text) {
        Ok(progress) if progress.schema == SCHEMA => Ok(progress),
        Ok(progress) => {
            tracing::warn!(schema = progress.schema, "progress record has another schema; starting a new one");
            Ok(Progress::default())
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read the progress record; starting a new one");
            Ok(Progress::default())
        }
    }
}

/// Writes the records it receives until `stop`, and then the last one.
pub(crate) async fn keep(
    objects: Objects,
    namespace: String,
    mut records: watch::Receiver<Progress>,
    stop: CancellationToken,
) {
    let mut writer = Writer { objects, namespace, live: None };
    let (mut written, mut failures, mut stopping) = (Progress::default(), 0, false);
    loop {
        // After a failure the same record is retried, even if no other comes: it may be the last one for a long time.
        if failures == 0 {
            stopping |= !matches!(stop.run_until_cancelled(records.changed()).await, Some(Ok(())));
        }
        stopping |= stop.is_cancelled();
        let record = records.borrow_and_update().clone();
        if record == written || record.schema != SCHEMA {
            failures = 0;
        } else {
            match writer.write(&record).await {
                Ok(()) => (written, failures) = (record, 0),
                Err(error) => {
                    failures += 1;
                    tracing::debug!(%error, "cannot write the progress record; retrying");
                }
            }
        }
        if stopping && (failures == 0 || failures >= LAST_TRIES) {
            return;
        }
        if stopping {
            tokio::time::sleep(LAST_PAUSE).await;
        } else {
            // If stopped in this pause, the loop runs once more for the last record.
            let _stopped = stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await;
        }
    }
}

struct Writer {
    objects: Objects,
    namespace: String,
    /// The ConfigMap as last written, so that the next write needs no read.
    live: Option<Value>,
}

impl Writer {
    async fn write(&mut self, record: &Progress) -> Result<(), ApiError> {
        let data = json!({KEY: serde_json::to_string(record).unwrap_or_default()});
        let kind = kind();
        loop {
            let known = match self.live.take() {
                Some(live) => Some(live),
                None => self.objects.get(&kind, &self.namespace, CONFIG_MAP).await?,
            };
            let written = match known {
                None => {
                    let fresh = json!({"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": CONFIG_MAP, "namespace": self.namespace}, "data": data});
                    self.objects.create(&kind, &self.namespace, &fresh).await
                }
                Some(mut live) => {
                    if let Some(map) = live.as_object_mut() {
                        map.insert("data".into(), data.clone());
                    }
                    self.objects.replace(&kind, &self.namespace, CONFIG_MAP, &live).await
                }
            };
            match written {
                Ok(live) => {
                    self.live = Some(live);
                    return Ok(());
                }
                Err(e) if e.is_conflict() || e.is_already_exists() || e.is_not_found() => {
                    // Retrying does not help while the namespace is missing.
                    if e.is_not_found() && self.objects.get(&kind, &self.namespace, CONFIG_MAP).await?.is_none() {
                        return Err(e);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests;
