//! Copies of ClusterServiceVersions: followed by their metadata alone, and written one after the other, a few at a time.

use super::live::csv_kind;
use crate::cluster::watcher::{Event, Selection, Selector, events};
use crate::cluster::{ApiError, Clients, Kind, Objects, jittered, task};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::{annotation, label};
use crate::olm::operator::copies::book::{self, Book, Job, Key, Live, Outstanding, Plan};
use crate::olm::operator::copies::{Content, compare, content};
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PartialObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// So many are written side by side: what users write comes in between.
const AT_ONCE: usize = 24;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

type Metadata = PartialObjectMeta<ClusterServiceVersion>;

/// What the controller of operators says and asks of them.
#[derive(Clone)]
pub(super) struct Copies(Arc<Shared>);

struct Shared {
    book: Mutex<Book>,
    /// There is something to do.
    woken: Notify,
    /// Wakes the controller of operators.
    changed: Arc<Notify>,
    told: Mutex<Option<Outstanding>>,
}

impl Copies {
    /// They are kept until `stop`, while the lease is held.
    pub(super) fn start(
        clients: &Clients,
        objects: Objects,
        leading: watch::Receiver<bool>,
        changed: Arc<Notify>,
        stop: &CancellationToken,
    ) -> Copies {
        let shared = Arc::new(Shared { book: Mutex::default(), woken: Notify::new(), changed, told: Mutex::new(None) });
        let labels = Selector::Labels(label::COPIED_FROM.to_owned());
        let selection = Selection::new(csv_kind(), "", labels).of_metadata();
        let client = clients.for_watch().unwrap_or_else(|_| clients.call.clone());
        let keeper = Keeper {
            shared: shared.clone(),
            written: objects.answered_by_metadata(),
            objects,
            leading,
            jobs: JoinSet::new(),
            failed: BTreeMap::new(),
        };
        let until = stop.clone();
        task::spawn("copies", stop, async move {
            let mut stream = events::<Metadata>(client, selection).boxed();
            keeper.run(&mut stream, &until).await;
        });
        Copies(shared)
    }

    pub(super) fn set(&self, plan: Plan) {
        if self.0.book().set(plan) {
            self.0.woken.notify_one();
        }
    }

    pub(super) fn of<'a>(&self, original: &Key, namespaces: impl Iterator<Item = &'a String>) -> book::Copies {
        self.0.book().of(original, namespaces)
    }

    pub(super) fn has(&self, original: &Key, protected: &BTreeSet<String>) -> Option<bool> {
        self.0.book().has_copies(original, protected)
    }

    /// As of the last time that something had changed. `None` before they are known.
    pub(super) fn outstanding(&self) -> Option<Outstanding> {
        *self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in the way is told when nothing is, and when something new is.
    fn tell(&self) {
        let outstanding = self.book().outstanding();
        let is_other = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let is_other = *told != outstanding;
            *told = outstanding;
            is_other
        };
        if is_other {
            self.changed.notify_one();
        }
    }
}

struct Keeper {
    shared: Arc<Shared>,
    objects: Objects,
    /// The same for writes.
    written: Objects,
    leading: watch::Receiver<bool>,
    jobs: JoinSet<(Key, bool, Result<Done, ApiError>)>,
    /// How often, and when it is tried again.
    failed: BTreeMap<Key, (u32, Instant)>,
}

/// What has come of it.
enum Done {
    Read(String, Content),
    Written(Live),
    /// It is being deleted, or another object has its name.
    Over,
}

impl Keeper {
    async fn run(
        mut self,
        stream: &mut (impl futures::Stream<Item = Result<Event<Metadata>, ApiError>> + Unpin),
        stop: &CancellationToken,
    ) {
        loop {
            if *self.leading.borrow_and_update() {
                self.begin();
                if self.jobs.is_empty() {
                    self.shared.tell();
                }
            }
            let next = self.failed.values().map(|(_, at)| *at).min();
            let pause = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                Some(event) = stream.next() => self.on_event(event),
                Some(ended) = self.jobs.join_next(), if !self.jobs.is_empty() => {
                    if let Ok((key, is_read, outcome)) = ended {
                        self.on_end(key, is_read, outcome);
                    }
                }
                () = self.shared.woken.notified() => self.shared.tell(),
                () = pause => self.again(),
                Ok(()) = self.leading.changed() => {}
            }
        }
        // What was begun ends.
        while self.jobs.join_next().await.is_some() {}
    }

    fn begin(&mut self) {
        while self.jobs.len() < AT_ONCE {
            let Some((key, job)) = self.shared.book().next() else { return };
            let objects = (self.objects.clone(), self.written.clone());
            self.jobs.spawn(async move {
                let is_read = matches!(job, Job::Read { .. });
                let outcome = perform((&objects.0, &objects.1), &key, job).await;
                (key, is_read, outcome)
            });
        }
    }

    fn on_event(&self, event: Result<Event<Metadata>, ApiError>) {
        let mut book = self.shared.book();
        match event {
            Ok(Event::Init) => book.begin(),
            Ok(Event::InitDone) => book.complete(),
            Ok(Event::InitApply(it) | Event::Apply(it)) => {
                if let Some((key, live)) = live(it.metadata)
                    && book.tell(key.clone(), live)
                    && book.is_awaited(&key)
                {
                    self.shared.changed.notify_one();
                }
            }
            Ok(Event::Delete(it)) => {
                let key = (it.metadata.namespace.unwrap_or_default(), it.metadata.name.unwrap_or_default());
                book.tell_deleted(key);
            }
            Err(error) => tracing::warn!(%error, "copies of operators are not followed; trying again"),
        }
    }

    fn on_end(&mut self, key: Key, is_read: bool, outcome: Result<Done, ApiError>) {
        let mut book = self.shared.book();
        match outcome {
            Ok(done) => {
                self.failed.remove(&key);
                match done {
                    Done::Read(version, content) => book.on_read(&key, version, content),
                    Done::Written(live) => {
                        if book.on_written(&key, live) && book.is_awaited(&key) {
                            self.shared.changed.notify_one();
                        }
                    }
                    Done::Over => book.on_end(&key),
                }
            }
            Err(error) => {
                let (namespace, name) = &key;
                // A namespace that goes is known to go soon.
                match error.is_conflict() || error.is_not_found() || error.is_namespace_terminating() {
                    true => {
                        tracing::debug!(namespace, name, %error, "a copy of an operator is not written yet; trying again")
                    }
                    false => {
                        tracing::warn!(namespace, name, %error, "cannot write a copy of an operator; trying again")
                    }
                }
                let count = self.failed.get(&key).map_or(0, |(count, _)| *count);
                let until = Instant::now() + jittered(FIRST_PAUSE, count, LONGEST_PAUSE);
                // Until then it is busy.
                book.on_failed(&key, is_read);
                self.failed.insert(key, (count.saturating_add(1), until));
            }
        }
    }

    /// What has failed is tried again.
    fn again(&mut self) {
        let now = Instant::now();
        let mut book = self.shared.book();
        for (key, _) in self.failed.iter().filter(|(_, (_, at))| *at <= now) {
            book.on_end(key);
        }
        // It counts from the beginning where it is not tried again soon.
        let far = now + LONGEST_PAUSE + LONGEST_PAUSE;
        for (_, at) in self.failed.values_mut().filter(|(_, at)| *at <= now) {
            *at = far;
        }
        self.failed.retain(|_, (_, at)| *at > now);
    }
}

/// `None` for one that has no name, which does not exist.
pub(crate) fn live(metadata: ObjectMeta) -> Option<(Key, Live)> {
    let text =
        |texts: &Option<BTreeMap<String, String>>, key: &str| texts.as_ref().and_then(|texts| texts.get(key).cloned());
    // One that was only begun has a content that it was to have.
    let has_status = metadata.managed_fields.iter().flatten().any(|it| it.subresource.as_deref() == Some("status"));
    let live = Live {
        uid: metadata.uid.unwrap_or_default(),
        version: metadata.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default(),
        from: text(&metadata.labels, label::COPIED_FROM).unwrap_or_default(),
        hash: text(&metadata.annotations, annotation::COPIED_CONTENT).filter(|_| has_status),
    };
    Some(((metadata.namespace?, metadata.name?), live))
}

/// `written`: what writes, where the whole answer is not needed.
async fn perform(
    (objects, written): (&Objects, &Objects),
    (namespace, name): &Key,
    job: Job,
) -> Result<Done, ApiError> {
    let kind = csv_kind();
    match job {
        Job::Read { .. } => Ok(match objects.get(&kind, namespace, name).await? {
            Some(original) => {
                let version = original.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
                Done::Read(version.to_owned(), content(&original))
            }
            None => Done::Over,
        }),
        Job::Delete { uid } => objects.delete(&kind, namespace, name, &uid).await.map(|_| Done::Over),
        Job::Write { content, before, live } => {
            let copy = Copy { objects, written, kind: &kind, namespace, name, content: &content };
            match live {
                None => copy.create().await,
                Some(live) => copy.change(&live, before.as_deref()).await,
            }
        }
    }
}

/// One that is written.
struct Copy<'a> {
    objects: &'a Objects,
    written: &'a Objects,
    kind: &'a Kind,
    namespace: &'a str,
    name: &'a str,
    content: &'a Content,
}

impl Copy<'_> {
    async fn create(&self) -> Result<Done, ApiError> {
        match self.written.create(self.kind, self.namespace, &self.content.object).await {
            // That there is an operator of this name, or a copy, is told soon.
            Err(error) if error.is_already_exists() => Ok(Done::Over),
            answer => self.put_status(&answer?).await,
        }
    }

    async fn change(&self, live: &Live, before: Option<&Content>) -> Result<Done, ApiError> {
        let version = live.version.to_string();
        let known = before.filter(|before| live.hash.as_ref() == Some(&before.hash));
        let (metadata, (has_object, has_status)) = match known {
            Some(before) => {
                let found = json!({"metadata": {"uid": live.uid, "resourceVersion": version}});
                (found, before.same(self.content))
            }
            None => {
                // Whoever has written it, it may be as it has to be.
                let Some(found) = self.objects.get(self.kind, self.namespace, self.name).await? else {
                    return Ok(Done::Over);
                };
                let same = compare(&found, self.content);
                (found, same)
            }
        };
        let mut latest = metadata;
        if !has_object {
            let text = |pointer: &str| latest.pointer(pointer).cloned().unwrap_or_default();
            let mut object = self.content.object.clone();
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.insert("namespace".to_owned(), self.namespace.into());
                metadata.insert("uid".to_owned(), text("/metadata/uid"));
                metadata.insert("resourceVersion".to_owned(), text("/metadata/resourceVersion"));
            }
            latest = self.written.replace(self.kind, self.namespace, self.name, &object).await?;
        }
        if has_status { Ok(Done::Written(self.written(&latest))) } else { self.put_status(&latest).await }
    }

    /// `latest`: the object as it was answered.
    async fn put_status(&self, latest: &Value) -> Result<Done, ApiError> {
        let text = |pointer: &str| latest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let metadata = json!({"namespace": self.namespace, "name": self.name, "uid": text("/metadata/uid"),
            "resourceVersion": text("/metadata/resourceVersion")});
        let object = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "metadata": metadata,
            "status": self.content.status});
        let answer = self.written.replace_status(self.kind, self.namespace, self.name, &object).await?;
        Ok(Done::Written(self.written(&answer)))
    }

    fn written(&self, answer: &Value) -> Live {
        let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let from =
            self.content.object.pointer("/metadata/labels").and_then(|labels| labels.get(label::COPIED_FROM)?.as_str());
        Live {
            uid: text("/metadata/uid").to_owned(),
            version: text("/metadata/resourceVersion").parse().unwrap_or_default(),
            from: from.unwrap_or_default().to_owned(),
            hash: Some(self.content.hash.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
