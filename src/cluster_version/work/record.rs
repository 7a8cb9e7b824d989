//! The progress record in its ConfigMap: read once at start, written when it changes, at most once a second, and at once when
//! an update has ended. A separate task writes it, so that a slow server never blocks the controller.

use crate::cluster::{ApiError, Kind, Objects, jittered};
use crate::cluster_version::progress::{CONFIG_MAP, KEY, NodeState, Progress, SCHEMA};
use crate::error::{CAUSE, shortened};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Minimum time between two writes.
const PERIOD: Duration = Duration::from_secs(1);
/// A write that failed is tried again after longer and longer pauses. What the server rejects will hardly be accepted soon.
const FAILED_CAP: Duration = Duration::from_secs(10);
const REJECTED_CAP: Duration = Duration::from_secs(60);
/// Most bytes of a record. The API server takes 1 MiB for a ConfigMap, and every change writes all of it.
const LIMIT: usize = 256 << 10;
/// How often the last record is tried when stopping, and the pause between the tries.
const LAST_TRIES: u32 = 3;
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// What was there at the start.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub progress: Progress,
    /// The ConfigMap, so that the first write needs no read.
    pub live: Option<Value>,
}

/// The last record, or an empty one. An unreadable record is not an error, because it holds only clocks and estimates.
pub(crate) async fn read(objects: &Objects, namespace: &str) -> Result<Recorded, ApiError> {
    let live = objects.get(&Kind::config_map(), namespace, CONFIG_MAP).await?;
    Ok(Recorded { progress: live.as_ref().map(progress).unwrap_or_default(), live })
}

fn progress(live: &Value) -> Progress {
    let text = live.get("data").and_then(|d| d.get(KEY)).and_then(Value::as_str).unwrap_or_default();
    match serde_json::from_str::<Progress>(text) {
        Ok(progress) if progress.schema == SCHEMA => progress,
        Ok(progress) => {
            tracing::warn!(schema = progress.schema, "progress record has another schema; starting a new one");
            Progress::default()
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read the progress record; starting a new one");
            Progress::default()
        }
    }
}

/// Writes the records it receives until `stop`, and then the last one.
pub(crate) async fn keep(
    objects: Objects,
    namespace: String,
    live: Option<Value>,
    mut records: watch::Receiver<Progress>,
    stop: CancellationToken,
) {
    let mut writer = Writer { objects, namespace, live };
    let (mut written, mut failures, mut stopping) = (Progress::default(), 0, false);
    loop {
        // After a failure the same record is retried, even if no other comes: it may be the last one for a long time.
        if failures == 0 {
            stopping |= !matches!(stop.run_until_cancelled(records.changed()).await, Some(Ok(())));
        }
        stopping |= stop.is_cancelled();
        let record = records.borrow_and_update().clone();
        let mut pause = PERIOD;
        if record == written || record.schema != SCHEMA {
            failures = 0;
        } else {
            match writer.write(&record).await {
                Ok(()) => (written, failures) = (record, 0),
                Err(error) => {
                    failures += 1;
                    pause = jittered(PERIOD, failures, if error.is_rejected() { REJECTED_CAP } else { FAILED_CAP });
                    if failures == 1 {
                        tracing::warn!(%error, "cannot write the progress record; trying again");
                    }
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
            let rest = async {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = end_of_update(records.clone(), &written), if failures == 0 => {}
                }
            };
            let _stopped = stop.run_until_cancelled(rest).await;
        }
    }
}

/// Until an update has ended of which that is not written: everybody looks then, and the history says already that it is over.
async fn end_of_update(mut records: watch::Receiver<Progress>, written: &Progress) {
    let ended = |record: &Progress| record.updates.iter().filter_map(|update| update.finished).max();
    let known = ended(written);
    if records.wait_for(|record| ended(record) > known).await.is_err() {
        std::future::pending().await
    }
}

struct Writer {
    objects: Objects,
    namespace: String,
    /// The ConfigMap as read or written last, so that the next write needs no read.
    live: Option<Value>,
}

impl Writer {
    async fn write(&mut self, record: &Progress) -> Result<(), ApiError> {
        let data = json!({KEY: bounded(record)});
        let kind = Kind::config_map();
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

/// The record as text of at most [`LIMIT`] bytes. What an administrator needs least goes first: long texts, then nodes that
/// are done or have yet to begin, then whatever comes last.
fn bounded(record: &Progress) -> String {
    let text = |record: &Progress| serde_json::to_string(record).unwrap_or_default();
    let mut rest = record.clone();
    let mut limit = CAUSE;
    while limit > 60 {
        shorten_texts(&mut rest, limit);
        let text = text(&rest);
        if text.len() <= LIMIT {
            return text;
        }
        limit /= 2;
    }
    rest.nodes.retain(|node| !matches!(node.state, NodeState::Done | NodeState::Pending));
    loop {
        rest.nodes_left_out = record.nodes_left_out + record.nodes.len() - rest.nodes.len();
        let text = text(&rest);
        let maps = rest.clocks.len() + rest.durations.len() + rest.payloads.len();
        let verdicts = rest.advice.as_ref().map_or(0, |advice| advice.verdicts.len());
        let lists = rest.nodes.len() + rest.history.len() + rest.dropped.len() + rest.updates.len() + maps + verdicts;
        if text.len() <= LIMIT {
            return text;
        }
        if lists == 0 {
            break;
        }
        rest.updates.truncate(rest.updates.len() / 2);
        rest.nodes.truncate(rest.nodes.len() / 2);
        rest.history.truncate(rest.history.len() / 2);
        rest.dropped.truncate(rest.dropped.len() / 2);
        halve(&mut rest.clocks);
        halve(&mut rest.durations);
        halve(&mut rest.payloads);
        if let Some(advice) = &mut rest.advice {
            halve(&mut advice.verdicts);
        }
    }
    text(&Progress { schema: record.schema, nodes_left_out: record.nodes.len(), ..Progress::default() })
}

fn halve<V>(map: &mut BTreeMap<String, V>) {
    for _ in 0..map.len().div_ceil(2) {
        map.pop_last();
    }
}

fn shorten_texts(record: &mut Progress, limit: usize) {
    for node in &mut record.nodes {
        let of_waits = node.waiting.iter_mut().flat_map(|waiting| [&mut waiting.reason, &mut waiting.message]);
        for text in of_waits.chain([&mut node.error]).filter(|text| text.len() > limit) {
            *text = shortened(text, limit).into_owned();
        }
    }
    for entry in &mut record.history {
        entry.accepted_risks = shortened(&entry.accepted_risks, limit).into_owned();
    }
}

#[cfg(test)]
mod tests;
