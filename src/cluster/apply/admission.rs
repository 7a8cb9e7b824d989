//! Follows what decides which fields the API server accepts, as long as there are fields that it has not accepted: webhook
//! configurations, CustomResourceDefinitions and extension servers. Of these only metadata is watched.

use super::server_keeps::ServerKeeps;
use crate::cluster::{Clients, Index, Kind, Kinds, WatchBackoff};
use crate::object::definition::defined_group;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const DEFINITIONS: &str = "CustomResourceDefinition";

/// Group, kind, plural; all of version v1.
const WATCHED: [(&str, &str, &str); 4] = [
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("apiregistration.k8s.io", "APIService", "apiservices"),
    ("apiextensions.k8s.io", DEFINITIONS, "customresourcedefinitions"),
];

/// Each API server takes a change in after a moment of its own, of which nothing tells.
const TAKEN_IN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

/// Runs until stopped.
pub(super) async fn follow(
    clients: Arc<Clients>,
    kinds: Arc<Kinds>,
    keeps: Arc<ServerKeeps>,
    index: Arc<Index>,
    stop: CancellationToken,
) {
    let mut changes = keeps.changed().subscribe();
    let following = async {
        while changes.wait_for(|()| !keeps.is_empty()).await.is_ok() {
            let watching = watch(&clients, &kinds, &keeps, &index);
            let mut ends = changes.clone();
            tokio::select! {
                () = watching => {}
                _ = ends.wait_for(|()| keeps.is_empty()) => {}
            }
        }
    };
    stop.run_until_cancelled(following).await;
}

/// Asks again after each change.
async fn watch(clients: &Clients, kinds: &Kinds, keeps: &ServerKeeps, index: &Index) {
    let events = stream::select_all(WATCHED.iter().filter_map(|watched| events(clients, kinds, *watched)));
    let ask = |concerned: &[Option<String>]| {
        keeps.ask_again(index, |id| concerned.iter().any(|group| group.as_ref().is_none_or(|g| *g == id.group)));
    };
    ask_after_changes(events, ask).await;
}

/// Asks again after each change; `ask` gets the groups whose kinds may be accepted then, `None` for all.
async fn ask_after_changes(
    mut events: impl Stream<Item = (&'static str, watcher::Event<Metadata>)> + Unpin,
    ask: impl Fn(&[Option<String>]),
) {
    let mut known: BTreeMap<&str, Known> = BTreeMap::new();
    let mut concerned: Vec<Option<String>> = Vec::new();
    let mut turns = TAKEN_IN.iter();
    // Events that change nothing do not put it off.
    let mut due = None;
    loop {
        let next = async {
            match due {
                Some(due) => tokio::time::timeout_at(due, events.next()).await,
                None => Ok(events.next().await),
            }
        };
        match next.await {
            Ok(Some((kind, event))) => {
                let changed = known.entry(kind).or_default().on(event);
                let group =
                    |name: String| (kind == DEFINITIONS).then(|| defined_group(&name).unwrap_or_default().to_owned());
                if !changed.is_empty() {
                    turns = TAKEN_IN.iter();
                    due = after(turns.next());
                    concerned.extend(changed.into_iter().map(group));
                    concerned.sort();
                    concerned.dedup();
                }
            }
            Ok(None) => return std::future::pending().await,
            Err(_) => {
                ask(&concerned);
                due = after(turns.next());
                if due.is_none() {
                    concerned.clear();
                }
            }
        }
    }
}

fn after(pause: Option<&Duration>) -> Option<Instant> {
    pause.map(|pause| Instant::now() + *pause)
}

type Metadata = PartialObjectMeta<DynamicObject>;

fn events(
    clients: &Clients,
    kinds: &Kinds,
    (group, kind, plural): (&'static str, &'static str, &'static str),
) -> Option<BoxStream<'static, (&'static str, watcher::Event<Metadata>)>> {
    kinds.get(&Kind::known(group, "v1", kind, plural, false).api_version(), kind)?;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
    let client = clients.for_watch().inspect_err(|error| tracing::error!(kind, %error, "cannot watch")).ok()?;
    let api: Api<Metadata> = Api::all_with(client, &resource);
    // kube's watcher reads metadata alone: policies and webhooks with their certificates are large.
    let events = watcher(api, watcher::Config::default().timeout(1800)).backoff(WatchBackoff::default());
    Some(events.filter_map(move |event| async move { event.ok().map(|event| (kind, event)) }).boxed())
}

/// The objects of one kind.
#[derive(Debug, Default)]
struct Known {
    /// Everything has been listed once.
    listed: bool,
    versions: BTreeMap<String, String>,
    /// Of the list under way.
    listing: BTreeMap<String, String>,
}

impl Known {
    /// The names of those that have changed. What the first list contains has not.
    fn on(&mut self, event: watcher::Event<Metadata>) -> Vec<String> {
        match event {
            watcher::Event::Init => self.listing.clear(),
            watcher::Event::InitApply(object) => drop(self.listing.insert(name(&object), version(&object))),
            watcher::Event::InitDone => {
                let before = std::mem::replace(&mut self.versions, std::mem::take(&mut self.listing));
                if std::mem::replace(&mut self.listed, true) {
                    let (old, new) = (before.iter(), self.versions.iter());
                    let gone = old.filter(|(name, _)| !self.versions.contains_key(*name));
                    let changed = new.filter(|(name, version)| before.get(*name) != Some(version));
                    return gone.chain(changed).map(|(name, _)| name.clone()).collect();
                }
            }
            watcher::Event::Apply(object) => {
                let (name, version) = (name(&object), version(&object));
                if self.versions.insert(name.clone(), version.clone()) != Some(version) {
                    return vec![name];
                }
            }
            watcher::Event::Delete(object) => {
                let name = name(&object);
                self.versions.remove(&name);
                return vec![name];
            }
        }
        Vec::new()
    }
}

fn name(object: &Metadata) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// Differs if anything but the status does, as far as metadata tell.
fn version(object: &Metadata) -> String {
    let metadata = &object.metadata;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    match metadata.generation {
        Some(generation) => format!("{uid} {generation}"),
        None => format!("{uid} version {}", metadata.resource_version.as_deref().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
