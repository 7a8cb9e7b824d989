//! The objects of a kind, kept current by a watch, each reduced to what a controller needs of it.

use crate::cluster::each::{Each, Odd, Undecodable, split};
use crate::cluster::task;
use crate::cluster::watcher::{Event, Selection, events};
use crate::cluster::{ApiError, Clients};
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// What is kept of an object.
pub(crate) trait View: Clone + PartialEq + Send + Sync + 'static {
    type Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static;

    fn of(object: Self::Object) -> Self;
    /// The resourceVersion.
    fn version(&self) -> &str;
}

/// Views by the names of their objects: `namespace/name`, or the name alone where there is no namespace. Whoever has them shares them
/// with what is followed until something changes.
pub(crate) type Views<V> = Arc<BTreeMap<String, Arc<V>>>;

/// The views of all objects of a kind.
pub(crate) struct Followed<V> {
    state: Mutex<State<V>>,
    changed: Arc<Notify>,
    /// For those who wait beside the one that `changed` wakes.
    subscribers: watch::Sender<()>,
}

struct State<V> {
    views: Views<V>,
    /// Names that have been told of since everything is read anew.
    seen: Option<Vec<String>>,
    /// Names of objects that were written since then: the server may tell what they were before.
    written: BTreeSet<String>,
    /// The highest resourceVersion that the watch has told of: it tells in the order of these, and so has told of all that is older.
    told: u64,
    /// Everything that exists is known.
    ready: bool,
    /// How often everything was read anew: when following began, and after each watch that has ended.
    rounds: u64,
    error: Option<String>,
    /// The server may never have the kind.
    optional: bool,
    /// The server does not know the kind.
    absent: bool,
    /// Objects that do not fit their type, and why.
    undecodable: BTreeMap<String, String>,
    /// Those of them that have not been told of since everything is read anew.
    unseen: BTreeSet<String>,
}

impl<V: View> Followed<V> {
    /// Follows the kind until `stop`, and notifies `changed` of every change.
    pub(crate) fn start(
        clients: &Clients,
        selection: Selection,
        changed: Arc<Notify>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Self::start_until(clients, selection, changed, &stop, stop.clone())
    }

    /// The same until `until` as well, which is nothing to the process.
    pub(crate) fn start_until(
        clients: &Clients,
        selection: Selection,
        changed: Arc<Notify>,
        stop: &CancellationToken,
        until: CancellationToken,
    ) -> Arc<Self> {
        let followed = Arc::new(Self::new(changed));
        followed.lock().optional = selection.optional;
        let client = clients.for_watch().unwrap_or_else(|_| clients.call.clone());
        let (told, mut stream) = (followed.clone(), events::<V::Object>(client, selection).boxed());
        task::spawn("followed objects", stop, async move {
            while let Some(Some(event)) = until.run_until_cancelled(stream.next()).await {
                told.on_event(event);
            }
        });
        followed
    }

    /// The same for a kind that users write: an object that does not fit its type is left out, and named in [`Followed::undecodable`].
    pub(crate) fn start_each(
        clients: &Clients,
        selection: Selection,
        changed: Arc<Notify>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let followed = Arc::new(Self::new(changed));
        let client = clients.for_watch().unwrap_or_else(|_| clients.call.clone());
        let kind = selection.kind.kind.clone();
        let (told, mut stream) = (followed.clone(), events::<Each<V::Object>>(client, selection).boxed());
        task::spawn("followed objects", stop, async move {
            while let Some(event) = stream.next().await {
                told.on_each(&kind, event);
            }
        });
        followed
    }

    fn new(changed: Arc<Notify>) -> Self {
        let state = State {
            views: Views::default(),
            seen: None,
            written: BTreeSet::new(),
            told: 0,
            ready: false,
            rounds: 0,
            error: None,
            optional: false,
            absent: false,
            undecodable: BTreeMap::new(),
            unseen: BTreeSet::new(),
        };
        Followed { state: Mutex::new(state), changed, subscribers: watch::Sender::new(()) }
    }

    /// Nothing is followed: who has made it tells of objects.
    pub(crate) fn detached() -> Arc<Self> {
        Arc::new(Self::new(Arc::default()))
    }

    #[cfg(test)]
    pub(crate) fn with(objects: impl IntoIterator<Item = V::Object>) -> Arc<Self> {
        let followed = Self::new(Arc::default());
        let initial = objects.into_iter().map(Event::InitApply);
        [Event::Init]
            .into_iter()
            .chain(initial)
            .chain([Event::InitDone])
            .for_each(|event| followed.on_event(Ok(event)));
        Arc::new(followed)
    }

    /// Of a kind that the server does not serve.
    #[cfg(test)]
    pub(crate) fn absent() -> Arc<Self> {
        let followed = Self::new(Arc::default());
        let cause = crate::cluster::Cause::Server { code: 404, reason: String::new(), message: String::new() };
        followed.on_event(Err(ApiError { attempt: "watch".to_owned(), cause }));
        Arc::new(followed)
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What does not fit is told once, and not again as long as it is so.
    fn on_each(&self, kind: &str, event: Result<Event<Each<V::Object>>, ApiError>) {
        let event = match event.map(split) {
            Ok(Ok(event)) => Ok(event),
            Err(error) => Err(error),
            Ok(Err(odd)) => {
                if self.lock().on_odd(kind, odd) {
                    self.tell();
                }
                return;
            }
        };
        {
            let mut state = self.lock();
            match &event {
                Ok(Event::Init) => state.unseen = state.undecodable.keys().cloned().collect(),
                Ok(Event::InitDone) => {
                    let gone = std::mem::take(&mut state.unseen);
                    state.undecodable.retain(|name, _| !gone.contains(name));
                }
                Ok(Event::InitApply(object) | Event::Apply(object) | Event::Delete(object)) => {
                    let name = name(object.meta());
                    if state.undecodable.remove(&name).is_some() {
                        tracing::info!(kind, name, "the object can be read again");
                    }
                }
                Err(_) => {}
            }
        }
        self.on_event(event);
    }

    pub(crate) fn on_event(&self, event: Result<Event<V::Object>, ApiError>) {
        let changed = {
            let mut state = self.lock();
            match event {
                Ok(Event::Init) => {
                    (state.seen, state.told) = (Some(Vec::new()), 0);
                    state.written.clear();
                    false
                }
                Ok(Event::InitApply(object)) => {
                    let name = name(object.meta());
                    state.seen.iter_mut().for_each(|seen| seen.push(name.clone()));
                    state.on_told(object.meta());
                    let anew = !state.written.contains(&name);
                    state.put(name, V::of(object), anew)
                }
                Ok(Event::InitDone) => state.complete(),
                Ok(Event::Apply(object)) => {
                    state.on_told(object.meta());
                    state.put(name(object.meta()), V::of(object), false)
                }
                Ok(Event::Delete(object)) => {
                    state.on_told(object.meta());
                    state.remove(&name(object.meta()))
                }
                Err(error) => {
                    let text = error.to_string();
                    match state.error.as_ref() == Some(&text) {
                        true => {}
                        // Whoever can do without says so.
                        false if error.is_not_found() && state.optional => {
                            tracing::debug!(%error, "there is no such kind; looking again later");
                        }
                        false => tracing::warn!(%error, "objects not followed; trying again"),
                    }
                    let known = (state.error.as_ref() == Some(&text), state.absent) == (true, error.is_not_found());
                    state.error = Some(text);
                    state.absent = error.is_not_found();
                    !known && !state.ready
                }
            }
        };
        if changed {
            self.tell();
        }
    }

    fn tell(&self) {
        self.changed.notify_one();
        self.subscribers.send_replace(());
    }

    /// Sees every change from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.subscribers.subscribe()
    }

    /// What a write has returned is known before the watch tells of it. What the watch has told of already and is not there any
    /// more has been deleted since.
    pub(crate) fn on_written(&self, object: V::Object) {
        let mut state = self.lock();
        let name = name(object.meta());
        if version(object.meta()).is_some_and(|version| version <= state.told) && !state.views.contains_key(&name) {
            return;
        }
        if state.seen.is_some() {
            state.written.insert(name.clone());
        }
        let changed = state.put(name, V::of(object), false);
        drop(state);
        if changed {
            self.tell();
        }
    }

    /// The same with the answer of a write; one that does not fit the type is left to the watch.
    pub(crate) fn on_answer(&self, answer: Value) {
        serde_json::from_value(answer).into_iter().for_each(|object| self.on_written(object));
    }

    /// The object of this version has been deleted and is gone, before the watch tells of it. Where another version is known by now,
    /// the watch has told of more than that.
    pub(crate) fn on_deleted(&self, name: &str, version: &str) {
        let mut state = self.lock();
        let is_known = state.views.get(name).is_some_and(|view| view.version() == version);
        if is_known {
            state.remove(name);
        }
        drop(state);
        if is_known {
            self.tell();
        }
    }

    /// The view of one object, once everything that exists is known.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<V>> {
        let state = self.lock();
        state.views.get(name).filter(|_| state.ready).cloned()
    }

    /// All views, once everything that exists is known.
    pub(crate) fn all(&self) -> Option<Views<V>> {
        let state = self.lock();
        state.ready.then(|| state.views.clone())
    }
}

impl<V: View> Followed<V> {
    /// Whether the server has said that it does not serve the kind.
    pub(crate) fn is_absent(&self) -> bool {
        self.lock().absent
    }

    /// How often everything was read anew. It grows when a watch has ended, for instance because the server was replaced.
    pub(crate) fn rounds(&self) -> u64 {
        self.lock().rounds
    }

    /// Objects that are left out because they do not fit their type, and why: `namespace/name`, or the name alone.
    pub(crate) fn undecodable(&self) -> BTreeMap<String, String> {
        self.lock().undecodable.clone()
    }

    /// Whether everything that exists is known.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().ready
    }

    /// Why the objects cannot be read at present.
    pub(crate) fn error(&self) -> Option<String> {
        self.lock().error.clone()
    }
}

impl<V: View> State<V> {
    fn on_told(&mut self, metadata: &ObjectMeta) {
        self.told = self.told.max(version(metadata).unwrap_or_default());
    }

    /// `anew`: the server tells what exists, which may be older than what was known before a backup was restored.
    fn put(&mut self, name: String, view: V, anew: bool) -> bool {
        let number = |view: &V| view.version().parse::<u64>().ok();
        let older = |known: &V| matches!((number(known), number(&view)), (Some(known), Some(new)) if new < known);
        let known = self.views.get(&name);
        if !anew && known.is_some_and(|known| older(known)) {
            return false;
        }
        // The watch tells of what was written here, which is known by its answer: whoever compares finds the same view.
        if known.is_some_and(|known| **known == view) {
            return false;
        }
        Arc::make_mut(&mut self.views).insert(name, Arc::new(view));
        self.ready
    }

    /// Whether it was known.
    fn remove(&mut self, name: &str) -> bool {
        self.views.contains_key(name) && Arc::make_mut(&mut self.views).remove(name).is_some()
    }

    /// Whether that changes what is known. What it was before is not true any more.
    fn on_odd(&mut self, kind: &str, odd: Odd) -> bool {
        let (Odd::Is(object) | Odd::Gone(object)) = &odd;
        let Undecodable { metadata, cause } = &**object;
        let name = name(metadata);
        self.on_told(metadata);
        self.unseen.remove(&name);
        if matches!(odd, Odd::Gone(_)) {
            self.undecodable.remove(&name);
        } else if self.undecodable.get(&name) != Some(cause) {
            tracing::warn!(
                kind,
                name,
                cause,
                "an object is left out: it does not have the form of its kind; correct the field"
            );
            self.undecodable.insert(name.clone(), cause.clone());
        }
        self.remove(&name) && self.ready
    }

    fn complete(&mut self) -> bool {
        let seen: BTreeSet<String> = self.seen.take().unwrap_or_default().into_iter().collect();
        self.written.clear();
        if self.views.keys().any(|name| !seen.contains(name)) {
            Arc::make_mut(&mut self.views).retain(|name, _| seen.contains(name));
        }
        self.error = None;
        self.absent = false;
        self.ready = true;
        self.rounds += 1;
        true
    }
}

fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_deref()?.parse().ok()
}

fn name(metadata: &ObjectMeta) -> String {
    let name = metadata.name.clone().unwrap_or_default();
    match metadata.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    #[derive(Clone, Debug, PartialEq)]
    struct NodeView {
        version: String,
    }

    impl View for NodeView {
        type Object = Node;

        fn of(node: Node) -> NodeView {
            NodeView { version: node.metadata.resource_version.unwrap_or_default() }
        }

        fn version(&self) -> &str {
            &self.version
        }
    }

    fn node(name: &str, version: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version}})).unwrap()
    }

    fn versions(followed: &Followed<NodeView>) -> Vec<(String, String)> {
        let all = followed.all().unwrap();
        all.iter().map(|(name, view)| (name.clone(), view.version.clone())).collect()
    }

    #[test]
    fn the_answer_to_a_write_does_not_bring_back_what_was_deleted_after_it() {
        let followed: Arc<Followed<NodeView>> = Followed::with([node("a", "5"), node("b", "6")]);
        followed.on_event(Ok(Event::Apply(node("a", "7"))));
        followed.on_event(Ok(Event::Delete(node("a", "8"))));
        followed.on_written(node("a", "7"));
        assert_eq!(versions(&followed), [("b".to_owned(), "6".to_owned())]);
        // One that was created since is known before the watch tells of it.
        followed.on_written(node("a", "9"));
        followed.on_written(node("b", "10"));
        let expected = [("a", "9"), ("b", "10")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(versions(&followed), expected);
    }

    #[test]
    fn a_backup_that_is_restored_is_followed_although_its_versions_are_older() {
        let followed: Arc<Followed<NodeView>> = Followed::with([node("a", "50")]);
        for event in [Event::Init, Event::InitApply(node("b", "20")), Event::InitDone] {
            followed.on_event(Ok(event));
        }
        assert_eq!(followed.rounds(), 2);
        followed.on_written(node("c", "21"));
        let expected = [("b", "20"), ("c", "21")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(versions(&followed), expected);
    }

    /// Many objects are told for a while, and all that is told then was so when that began.
    #[test]
    fn what_was_written_while_everything_is_read_anew_is_not_set_back() {
        let followed: Arc<Followed<NodeView>> = Followed::with([node("a", "50"), node("b", "51")]);
        followed.on_written(node("b", "52"));
        followed.on_event(Ok(Event::Init));
        followed.on_written(node("a", "60"));
        followed.on_event(Ok(Event::InitApply(node("a", "50"))));
        followed.on_event(Ok(Event::InitApply(node("b", "20"))));
        let expected = [("a", "60"), ("b", "20")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(versions(&followed), expected, "b was written before, and may have been restored since");
        followed.on_event(Ok(Event::InitDone));
        assert_eq!(versions(&followed), expected);
        // The next time it may have been restored, too.
        for event in [Event::Init, Event::InitApply(node("a", "20")), Event::InitDone] {
            followed.on_event(Ok(event));
        }
        assert_eq!(versions(&followed), [("a".to_owned(), "20".to_owned())]);
    }

    #[test]
    fn what_was_deleted_is_gone_before_the_watch_tells_of_it() {
        let followed: Arc<Followed<NodeView>> = Followed::with([node("a", "5"), node("b", "6")]);
        followed.on_deleted("a", "5");
        // Another one has its name by now, or it was changed first.
        followed.on_deleted("b", "5");
        followed.on_deleted("c", "5");
        assert_eq!(versions(&followed), [("b".to_owned(), "6".to_owned())]);
        followed.on_event(Ok(Event::Delete(node("a", "7"))));
        followed.on_event(Ok(Event::Apply(node("a", "8"))));
        let expected = [("a", "8"), ("b", "6")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(versions(&followed), expected);
    }

    #[test]
    fn view_that_is_told_again_is_the_same_one() {
        let followed: Arc<Followed<NodeView>> = Followed::with([node("a", "5")]);
        followed.on_written(node("a", "6"));
        let known = followed.get("a").unwrap();
        followed.on_event(Ok(Event::Apply(node("a", "6"))));
        assert!(Arc::ptr_eq(&known, &followed.get("a").unwrap()));
        for event in [Event::Init, Event::InitApply(node("a", "6")), Event::InitDone] {
            followed.on_event(Ok(event));
        }
        assert!(Arc::ptr_eq(&known, &followed.get("a").unwrap()));
        followed.on_event(Ok(Event::Apply(node("a", "7"))));
        assert!(!Arc::ptr_eq(&known, &followed.get("a").unwrap()));
    }

    fn each(object: serde_json::Value) -> Each<Node> {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn object_that_does_not_fit_is_left_out_until_it_is_repaired() {
        let followed: Followed<NodeView> = Followed::new(Arc::default());
        let fine = |name: &str, version: &str| each(json!({"metadata": {"name": name, "resourceVersion": version}}));
        let odd = |name: &str, version: &str| {
            each(json!({"metadata": {"name": name, "resourceVersion": version}, "spec": {"unschedulable": "no"}}))
        };
        let tell =
            |events: Vec<Event<Each<Node>>>| events.into_iter().for_each(|event| followed.on_each("Node", Ok(event)));
        let names = || followed.all().unwrap().keys().cloned().collect::<Vec<_>>();
        let odds = || followed.undecodable().into_keys().collect::<Vec<_>>();
        let begin = |objects: Vec<Each<Node>>| {
            let objects = objects.into_iter().map(Event::InitApply);
            [Event::Init].into_iter().chain(objects).chain([Event::InitDone]).collect::<Vec<_>>()
        };
        tell(begin(vec![fine("a", "1"), odd("b", "2"), fine("c", "3")]));
        assert_eq!((names(), odds()), (vec!["a".to_owned(), "c".to_owned()], vec!["b".to_owned()]));
        assert!(followed.undecodable()["b"].contains("spec.unschedulable"), "{:?}", followed.undecodable());
        tell(vec![Event::Apply(fine("b", "4")), Event::Apply(odd("c", "5"))]);
        assert_eq!((names(), odds()), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]));
        // The answer to a write that is older does not bring it back.
        followed.on_written(node("c", "3"));
        assert_eq!(names(), ["a", "b"]);
        tell(begin(vec![fine("a", "1"), odd("b", "6")]));
        assert_eq!((names(), odds()), (vec!["a".to_owned()], vec!["b".to_owned()]), "c was deleted meanwhile");
        tell(vec![Event::Delete(odd("b", "7"))]);
        assert!(odds().is_empty());
    }
}
