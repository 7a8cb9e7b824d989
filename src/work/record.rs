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
/// Failures in a row after which the last record is given up, and the pause between tries when it must be quick.
const LAST_TRIES: u32 = 3;
const LAST_PAUSE: Duration = Duration::from_millis(200);

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
    let (mut written, mut failures, mut stopping) = (Progress::default(), 0, false);
    loop {
        // What could not be written is owed, even if nothing changes any more: it may be the last record for long.
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
                    tracing::debug!(%error, "progress record not written; trying again");
                }
            }
        }
        if stopping && (failures == 0 || failures >= LAST_TRIES) {
            return;
        }
        if stopping {
            tokio::time::sleep(LAST_PAUSE).await;
        } else {
            // When stopped in this pause the loop comes round once more for the last record.
            let _stopped = stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::progress::NodeProgress;
    use kube::Client;
    use kube::client::Body;
    use std::sync::{Arc, Mutex};

    /// Without another change: the last record of an update is the one that stays.
    #[tokio::test]
    async fn a_record_that_was_refused_is_written_later() {
        let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
        let methods = Arc::new(Mutex::new(Vec::new()));
        let seen = methods.clone();
        let (taken, mut done) = watch::channel(false);
        tokio::spawn(async move {
            while let Some((request, answer)) = requests.next_request().await {
                let writes = seen.lock().unwrap().iter().filter(|method| **method == http::Method::PUT).count();
                seen.lock().unwrap().push(request.method().clone());
                let write = request.method() == http::Method::PUT;
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}});
                let code = if write && writes == 0 { 500 } else { 200 };
                let body = Body::from(map.to_string().into_bytes());
                answer.send_response(http::Response::builder().status(code).body(body).unwrap());
                taken.send_replace(write && writes == 1);
            }
        });
        let objects = Objects::new(Client::new(service, "default"), Arc::new(|| true));
        let (records, received) = watch::channel(Progress::default());
        let stop = CancellationToken::new();
        let keeping = tokio::spawn(keep(objects, "ns".to_owned(), received, stop.clone()));
        records.send_replace(Progress { schema: SCHEMA, nodes: vec![NodeProgress::default()], ..Progress::default() });
        let written = done.wait_for(|taken| *taken);
        assert!(tokio::time::timeout(Duration::from_secs(60), written).await.is_ok(), "{:?}", methods.lock().unwrap());
        stop.cancel();
        keeping.await.unwrap();
    }
}
