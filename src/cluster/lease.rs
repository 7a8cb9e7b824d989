//! Leader election by one Lease. A lease expires its duration after this process saw it change, measured by the monotonic
//! clock of this process: wall clocks are never compared. A holder that cannot renew stops writing before another process
//! can take the lease.
//!
//! The lease also shows that the cluster has been restored from a backup: only then does its resourceVersion decrease.
//! Watches that continue from a later version get no events then, and what they reported before may not exist any more; so
//! the leader ends, and the process that starts next reads everything again.

use super::backoff::jittered;
use super::error::ApiError;
use super::objects::{call, post};
use crate::diagnosis::lease::{NOT_WRITTEN, RENEWED_EVERY};
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{GetParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// A request about the lease that takes longer has failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// A lease says that something cannot be written once that has lasted so long.
const NOTED: SignedDuration = SignedDuration::from_secs(10);
/// How long a leader that ends tries to release the lease.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// How long the lease is valid, how long a holder tries to renew it, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub duration: Duration,
    pub renew_deadline: Duration,
    pub retry: Duration,
}

/// Times that contradict each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TimesError {
    #[error(
        "the lease duration ({:?}) must be longer than the renew deadline ({:?}), and that longer than the retry period \
         ({:?}); change --lease-duration, --lease-renew-deadline or --lease-retry", .0.duration, .0.renew_deadline, .0.retry
    )]
    Order(Times),
    #[error(
        "the lease duration ({:?}) must be at least {CALL_TIMEOUT:?} longer than the renew deadline ({:?}), because a write \
         that begins just before that deadline has to end before another process can take the lease; change \
         --lease-duration or --lease-renew-deadline", .0.duration, .0.renew_deadline
    )]
    Gap(Times),
}

impl Times {
    /// For clusters whose control plane survives the loss of a node.
    const HIGHLY_AVAILABLE: Times = Times::seconds(137, 107, 26);
    /// For a control plane of a single node: it is away while that node restarts, and no other process waits for the lease.
    const SINGLE_NODE: Times = Times::seconds(270, 240, 60);

    /// From values in seconds, unchecked.
    pub(crate) const fn seconds(duration: u64, renew_deadline: u64, retry: u64) -> Times {
        let of = Duration::from_secs;
        Times { duration: of(duration), renew_deadline: of(renew_deadline), retry: of(retry) }
    }

    /// The times that suit this `Infrastructure.status.controlPlaneTopology`.
    pub(crate) fn of_topology(topology: Option<&str>) -> Times {
        if topology == Some("SingleReplica") { Times::SINGLE_NODE } else { Times::HIGHLY_AVAILABLE }
    }

    /// Refuses times with which two processes could write at the same time.
    pub(crate) fn check(self) -> Result<Self, TimesError> {
        if self.duration <= self.renew_deadline || self.renew_deadline <= self.retry || self.retry.is_zero() {
            return Err(TimesError::Order(self));
        }
        if self.duration - self.renew_deadline < CALL_TIMEOUT {
            return Err(TimesError::Gap(self));
        }
        Ok(self)
    }

    /// The longest that a write may take, with all that is tried again in it: it begins before the renew deadline and has to
    /// end before the lease can be taken.
    pub(crate) fn longest_write(self) -> Duration {
        self.duration.saturating_sub(self.renew_deadline)
    }
}

/// Whether this process holds the lease; cheap to ask.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    valid_until: Mutex<Option<Instant>>,
}

impl Claim {
    /// Whether a write may begin now.
    pub(crate) fn holds(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    fn until(&self) -> Option<Instant> {
        *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, until: Option<Instant>) {
        *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// A time in which the lease could not be renewed: whatever refused that often refuses every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub since: Timestamp,
    pub until: Timestamp,
    /// In the words of the API server, at the last attempt.
    pub why: String,
}

/// What keeps the leader from writing what it does, although it can renew its lease: whoever reads the lease sees it.
#[derive(Debug, Default)]
pub(crate) struct Note {
    since: Mutex<Option<(Timestamp, String)>>,
    /// It stands in the lease.
    stands: AtomicBool,
    over: Notify,
}

impl Note {
    /// Something could not be written.
    pub(crate) fn failed(&self, why: &str) {
        let mut note = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let since = note.as_ref().map_or_else(Timestamp::now, |(since, _)| *since);
        *note = Some((since, why.to_owned()));
    }

    /// It was written.
    pub(crate) fn over(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.stands.load(Ordering::Relaxed) {
            self.over.notify_one();
        }
    }

    /// For the lease. What lasts a moment only is not worth it.
    fn text(&self, now: Timestamp) -> Option<String> {
        let note = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let lasting = note.as_ref().filter(|(since, _)| now.duration_since(*since) >= NOTED);
        let text = lasting.map(|(since, why)| format!("{} {why}", since.strftime("%Y-%m-%dT%H:%M:%SZ")));
        self.stands.store(text.is_some(), Ordering::Relaxed);
        text
    }
}

/// This process as a candidate and as the leader.
pub(crate) struct Election {
    client: Client,
    /// The field manager.
    manager: &'static str,
    result: LeaderResult,
    path: String,
    namespace: String,
    name: String,
    pub identity: String,
    times: Times,
    pub claim: Arc<Claim>,
    pub note: Arc<Note>,
    outages: watch::Sender<Option<Outage>>,
    /// The newest version of the lease in any answer; 0 where versions are not numbers.
    newest: AtomicU64,
    went_back: AtomicBool,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election").field("name", &self.name).field("identity", &self.identity).finish_non_exhaustive()
    }
}

struct Seen {
    /// Holder and renew time, which change as long as the holder is alive.
    record: (String, String),
    since: Instant,
    duration: Duration,
}

impl Seen {
    /// As long as the holder may believe that it leads.
    fn held(&self) -> Option<Attempt> {
        let free_in = self.duration.saturating_sub(self.since.elapsed());
        (!free_in.is_zero()).then(|| Attempt::Held { by: self.record.0.clone(), free_in })
    }
}

/// Events of the lease, while they are followed.
type Events = Option<BoxStream<'static, Result<WatchEvent<Value>, kube::Error>>>;

/// A list that whoever leads fills, in an object of config.openshift.io/v1.
#[derive(Clone, Debug)]
pub(crate) struct LeaderResult {
    pub plural: &'static str,
    pub name: String,
    /// JSON pointer.
    pub list: &'static str,
}

enum Attempt {
    Won,
    /// Held by another process; it may be taken after this long if it does not change.
    Held {
        by: String,
        free_in: Duration,
    },
}

impl Election {
    /// `manager`: the field manager of the writes. `result`: what those who led before have left, if any did.
    pub(crate) fn new(
        client: Client,
        manager: &'static str,
        (namespace, name): (&str, &str),
        result: LeaderResult,
        identity: &str,
        times: Times,
    ) -> Self {
        Election {
            client,
            manager,
            result,
            path: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            times,
            claim: Arc::new(Claim::default()),
            note: Arc::default(),
            outages: watch::Sender::new(None),
            newest: AtomicU64::new(0),
            went_back: AtomicBool::new(false),
        }
    }

    /// The last time that the lease could not be renewed for a while, and why: told when it could be again.
    pub(crate) fn outages(&self) -> watch::Receiver<Option<Outage>> {
        self.outages.subscribe()
    }

    /// Whether the lease has shown that the cluster was restored from a backup.
    pub(crate) fn is_restored(&self) -> bool {
        self.went_back.load(Ordering::Relaxed)
    }

    /// Returns `true` once this process leads, `false` when it is stopped before.
    pub(crate) async fn acquire(&self, stop: &CancellationToken) -> bool {
        let mut seen: Option<Seen> = None;
        let mut told = String::new();
        let mut failures = 0;
        loop {
            let wait = match self.attempt(&mut seen).await {
                Ok(Attempt::Won) => return true,
                Ok(Attempt::Held { by, free_in }) => {
                    failures = 0;
                    if told != by {
                        tracing::info!(holder = %by, lease = %self.name, "another process leads; waiting");
                        told = by;
                    }
                    free_in
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "cannot take the lease; trying again");
                    jittered(Duration::from_millis(250), failures, self.times.retry)
                }
            };
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(wait) => {}
                () = self.change(), if failures == 0 => {}
            }
        }
    }

    /// The state of the lease, and then its changes. `None` if it cannot be watched.
    async fn watch(&self) -> Events {
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={}", self.name)),
            timeout: Some(280),
            ..WatchParams::default()
        };
        let request = kube::core::Request::new(self.path.clone()).watch(&params, "").ok()?;
        Some(self.client.request_events::<Value>(request).await.ok()?.boxed())
    }

    /// Waits until the lease was deleted or is held by another process. Continues to read `events`, so that it may be
    /// dropped and called again. Where the lease cannot be watched, that is noticed when it is renewed.
    async fn lost(&self, events: &mut Events) {
        loop {
            if events.is_none() {
                *events = self.watch().await;
            }
            let event = match events {
                Some(events) => events.next().await.and_then(Result::ok),
                None => None,
            };
            match event {
                Some(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) if self.is_ours(&lease) => {}
                Some(WatchEvent::Bookmark(_)) => {}
                Some(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)) => return,
                Some(WatchEvent::Error(_)) | None => {
                    *events = None;
                    tokio::time::sleep(self.times.retry).await;
                }
            }
        }
    }

    fn is_ours(&self, lease: &Value) -> bool {
        lease.pointer("/spec/holderIdentity").and_then(Value::as_str) == Some(self.identity.as_str())
    }

    /// Waits until the lease has changed since it was read; if it cannot be watched, for the retry period.
    async fn change(&self) {
        let watch = async {
            let mut events = self.watch().await?;
            let mut first = true;
            loop {
                match events.next().await?.ok()? {
                    // One follows the first state at once.
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => return None,
                    // It may have changed between the read and the watch.
                    event if std::mem::take(&mut first) && self.is_as_read(&event) => {}
                    _ => return Some(()),
                }
            }
        };
        if watch.await.is_none() {
            tokio::time::sleep(self.times.retry).await;
        }
    }

    fn is_as_read(&self, event: &WatchEvent<Value>) -> bool {
        let (WatchEvent::Added(lease) | WatchEvent::Modified(lease)) = event else { return false };
        version(lease).is_none_or(|version| version == self.newest.load(Ordering::Relaxed))
    }

    async fn attempt(&self, seen: &mut Option<Seen>) -> Result<Attempt, ApiError> {
        let asked = Instant::now();
        let Some(lease) = self.read().await? else {
            if seen.is_none() && self.was_led().await? {
                let record = ("the process whose lease was deleted".to_owned(), String::new());
                *seen = Some(Seen { record, since: asked, duration: self.times.duration });
            }
            // Whoever deletes the lease does not stop its holder, which creates it again.
            if let Some(held) = seen.as_ref().and_then(Seen::held) {
                return Ok(held);
            }
            self.create().await?;
            return Ok(self.won(asked));
        };
        let text = |p: &str| lease.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
        let holder = text("/spec/holderIdentity");
        if !holder.is_empty() && holder != self.identity {
            let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
            let duration = seconds.map_or(self.times.duration, Duration::from_secs);
            let record = (holder, text("/spec/renewTime"));
            let since = seen.as_ref().filter(|known| known.record == record).map_or(asked, |known| known.since);
            if let Some(held) = seen.insert(Seen { record, since, duration }).held() {
                return Ok(held);
            }
        } else {
            *seen = None;
        }
        self.put(lease).await?;
        Ok(self.won(asked))
    }

    fn won(&self, asked: Instant) -> Attempt {
        self.claim.set(Some(asked + self.times.renew_deadline));
        tracing::info!(identity = %self.identity, lease = %self.name, "leading");
        Attempt::Won
    }

    /// Renews until the lease is lost or `stop`. Returns why it ended.
    pub(crate) async fn keep(&self, stop: &CancellationToken) -> String {
        let mut events = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return "stopped".to_owned(),
                () = tokio::time::sleep(self.times.retry) => {}
                // The lease must not say any longer what is over.
                () = self.note.over.notified() => {}
                // A lease that is missing could be taken by a process that starts now.
                () = self.lost(&mut events) => {}
            }
            let mut failures = 0;
            let mut outage: Option<Outage> = None;
            loop {
                let asked = Instant::now();
                let renewed = self.renew().await;
                if self.went_back.load(Ordering::Relaxed) {
                    self.claim.set(None);
                    return "the cluster is older than it was: its data were restored from a backup".to_owned();
                }
                match renewed {
                    Ok(true) => {
                        self.claim.set(Some(asked + self.times.renew_deadline));
                        self.tell(outage.take());
                        break;
                    }
                    Ok(false) => {
                        self.claim.set(None);
                        return "the lease was taken by another process".to_owned();
                    }
                    Err(error) if !self.claim.holds() => {
                        return format!("the lease could not be renewed in time: {error}");
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(%error, "lease not renewed; trying again");
                        let since = outage.map_or_else(Timestamp::now, |outage| outage.since);
                        outage = Some(Outage { since, until: since, why: error.to_string() });
                        let pause = jittered(Duration::from_millis(200), failures, self.times.retry);
                        let left = self.claim.until().map_or(Duration::ZERO, |u| u.duration_since(asked));
                        tokio::time::sleep(pause.min(left)).await;
                    }
                }
            }
        }
    }

    /// What kept this process from writing can be written only now.
    fn tell(&self, outage: Option<Outage>) {
        let Some(outage) = outage else { return };
        let outage = Outage { until: Timestamp::now(), ..outage };
        tracing::warn!(since = %outage.since, why = %outage.why, "the lease is renewed again");
        self.outages.send_replace(Some(outage));
    }

    async fn renew(&self) -> Result<bool, ApiError> {
        // Somebody has deleted it; no other process can take it while the claim holds.
        let Some(lease) = self.read().await? else { return self.create().await.map(|()| true) };
        if !self.is_ours(&lease) {
            return Ok(false);
        }
        self.put(lease).await.map(|()| true)
    }

    /// Releases the lease, so that a successor need not wait until it expires. Retries for a while, because a single failed
    /// request would cost the successor the whole duration.
    pub(crate) async fn release(&self) {
        self.claim.set(None);
        let begun = Instant::now();
        let mut failures = 0;
        while let Err(error) = self.try_release().await {
            failures += 1;
            if begun.elapsed() > RELEASE_WITHIN {
                tracing::warn!(%error, "lease not released; a successor waits until it expires");
                return;
            }
            tokio::time::sleep(jittered(Duration::from_millis(100), failures, Duration::from_secs(1))).await;
        }
    }

    async fn try_release(&self) -> Result<(), ApiError> {
        let Some(mut lease) = self.read().await? else { return Ok(()) };
        if !self.is_ours(&lease) {
            return Ok(());
        }
        if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("holderIdentity".into(), "".into());
            spec.insert("leaseDurationSeconds".into(), 1.into());
        }
        self.replace(&lease).await
    }

    fn spec(&self, transitions: u64, acquired: Option<&Value>) -> Value {
        // The API accepts a MicroTime only with exactly six digits.
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        json!({"holderIdentity": self.identity, "leaseDurationSeconds": self.times.duration.as_secs().max(1),
            "acquireTime": acquired.cloned().unwrap_or_else(|| now.clone().into()), "renewTime": now,
            "leaseTransitions": transitions})
    }

    async fn put(&self, mut lease: Value) -> Result<(), ApiError> {
        let before = lease.get("spec").cloned().unwrap_or_default();
        let transitions = before.get("leaseTransitions").and_then(Value::as_u64).unwrap_or(0);
        let spec = if self.is_ours(&lease) {
            self.spec(transitions, before.get("acquireTime"))
        } else {
            self.spec(transitions.saturating_add(1), None)
        };
        annotate(&mut lease, RENEWED_EVERY, Some(self.renewed_every()));
        annotate(&mut lease, NOT_WRITTEN, self.note.text(Timestamp::now()));
        if let Some(object) = lease.as_object_mut() {
            object.insert("spec".into(), spec);
        }
        self.replace(&lease).await
    }

    async fn read(&self) -> Result<Option<Value>, ApiError> {
        let attempt = format!("read lease \"{}/{}\"", self.namespace, self.name);
        let request = kube::core::Request::new(self.path.clone()).get(&self.name, &GetParams::default());
        match call::<Value>(&self.client, CALL_TIMEOUT, &attempt, request).await {
            Ok(lease) => Ok(Some(self.answered(lease))),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether a process has led in this cluster before: then one whose lease was deleted may still believe that it does.
    async fn was_led(&self) -> Result<bool, ApiError> {
        let LeaderResult { plural, name, list } = &self.result;
        let attempt = format!("read {plural} \"{name}\"");
        let objects = kube::core::Request::new(format!("/apis/config.openshift.io/v1/{plural}"));
        let request = objects.get(name, &GetParams::default());
        match call::<Value>(&self.client, CALL_TIMEOUT, &attempt, request).await {
            Ok(object) => {
                let entries = object.pointer(list).and_then(Value::as_array);
                Ok(entries.is_some_and(|entries| !entries.is_empty()))
            }
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// In seconds: whoever shows the cluster has to know when a renewal is late.
    fn renewed_every(&self) -> String {
        self.times.retry.as_secs().max(1).to_string()
    }

    async fn create(&self) -> Result<(), ApiError> {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace,
                "annotations": {RENEWED_EVERY: self.renewed_every()}}, "spec": self.spec(0, None)});
        let request =
            kube::core::Request::new(self.path.clone()).create(&post(self.manager), lease.to_string().into_bytes());
        call(&self.client, CALL_TIMEOUT, &self.writing(), request).await.map(|lease| drop(self.answered(lease)))
    }

    async fn replace(&self, lease: &Value) -> Result<(), ApiError> {
        let body = lease.to_string().into_bytes();
        let request = kube::core::Request::new(self.path.clone()).replace(&self.name, &post(self.manager), body);
        call(&self.client, CALL_TIMEOUT, &self.writing(), request).await.map(|lease| drop(self.answered(lease)))
    }

    /// Remembers the version of an answer. Requests about the lease are made one after the other and answered with what is
    /// stored, so a version that is older than an earlier one means that the data were restored from a backup.
    fn answered(&self, lease: Value) -> Value {
        if let Some(version) = version(&lease)
            && self.newest.fetch_max(version, Ordering::Relaxed) > version
        {
            self.went_back.store(true, Ordering::Relaxed);
        }
        lease
    }

    fn writing(&self) -> String {
        format!("write lease \"{}/{}\"", self.namespace, self.name)
    }
}

/// Without a value the annotation is removed.
fn annotate(lease: &mut Value, key: &str, value: Option<String>) {
    let Some(metadata) = lease.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        match value {
            Some(value) => annotations.insert(key.to_owned(), value.into()),
            None => annotations.remove(key),
        };
    }
}

fn version(lease: &Value) -> Option<u64> {
    lease.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
