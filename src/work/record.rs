//! The progress record in its ConfigMap: read once at start, written when it changes, at most once a second
//! (architecture §4). A task of its own writes, so that a slow server never holds up the loop.

use crate::api::progress::{CONFIG_MAP, KEY, Progress, SCHEMA};
use crate::cluster::{ApiError, Kind, Objects};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The promised bound on writes.
const PERIOD: Duration = Duration::from_secs(1);

fn kind() -> Kind {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

/// The last record, or an empty one; what cannot be read counts as lost, not as an error: it only holds clocks and
/// estimates.
pub async fn read(objects: &Objects, namespace: &str) -> Result<Progress, ApiError> {
    let Some(live) = objects.get(&kind(), namespace, CONFIG_MAP).await? else { return Ok(Progress::default()) };
    let text = live.get("data").and_then(|d| d.get(KEY)).and_then(Value::as_str).unwrap_or_default();
    match serde_json::from_str::<Progress>(text) {
        Ok(progress) if progress.schema == SCHEMA => Ok(progress),
        Ok(progress) => {
            tracing::warn!(schema = progress.schema, "progress record of another schema; starting a new one");
            Ok(Progress::default())
        }
        Err(error) => {
            tracing::warn!(%error, "progress record cannot be read; starting a new one");
            Ok(Progress::default())
        }
    }
}

/// Writes what comes through `records` until `stop`, then the last one once more.
pub async fn keep(
    objects: Objects,
    namespace: String,
    mut records: watch::Receiver<Progress>,
    stop: CancellationToken,
) {
    let mut writer = Writer { objects, namespace, live: None };
    let mut written = Progress::default();
    loop {
        let changed = stop.run_until_cancelled(records.changed()).await;
        let stopping = !matches!(changed, Some(Ok(())));
        let record = records.borrow_and_update().clone();
        if record != written && record.schema == SCHEMA {
            match writer.write(&record).await {
                Ok(()) => written = record,
                Err(error) => tracing::debug!(%error, "progress record not written; the next one will be"),
            }
        }
        if stopping {
            return;
        }
        // When stopped in this pause the loop comes round once more for the last record.
        let _stopped = stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await;
    }
}

struct Writer {
    objects: Objects,
    namespace: String,
    /// As last written, so that the next write needs no read.
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
                    // A missing namespace would come round for ever.
                    if e.is_not_found() && self.objects.get(&kind, &self.namespace, CONFIG_MAP).await?.is_none() {
                        return Err(e);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }
}
