//! The ClusterVersion as the loop sees it: the latest of what the watch and our own writes returned.

use crate::api::{ClusterVersionSpec, ClusterVersionStatus};
use crate::cluster::{Clients, Kind, WatchBackoff};
use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A ClusterVersion, decoded.
#[derive(Clone, Debug)]
pub struct Live {
    pub raw: Value,
    pub spec: ClusterVersionSpec,
    pub status: ClusterVersionStatus,
    pub generation: i64,
    pub uid: String,
}

/// Keeps the newest version of the one object that counts, and the names of others that do not.
#[derive(Debug)]
pub struct Latest {
    name: String,
    live: Option<Live>,
    unreadable: Option<String>,
    strangers: BTreeSet<String>,
}

/// What the watch says.
#[derive(Debug)]
pub enum Seen {
    Object(Box<Value>),
    Gone(String),
}

impl Latest {
    pub fn new(name: &str) -> Self {
        Latest { name: name.to_owned(), live: None, unreadable: None, strangers: BTreeSet::new() }
    }

    pub fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    /// What is wrong with the set of ClusterVersions and with this one's shape, for the `Invalid` condition.
    pub fn troubles(&self) -> Vec<String> {
        let stranger = |other: &String| {
            let name = &self.name;
            format!("metadata.name: Forbidden: ClusterVersion {other:?} is ignored, only {name:?} counts: delete it")
        };
        self.strangers.iter().map(stranger).chain(self.unreadable.clone()).collect()
    }

    pub fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Gone(name) if name == self.name => {
                if self.live.take().is_some() {
                    tracing::warn!(
                        "the ClusterVersion was deleted; everything is left as it is until there is one again"
                    );
                }
            }
            Seen::Gone(name) => {
                self.strangers.remove(&name);
            }
            Seen::Object(object) => self.take_object(*object),
        }
    }

    /// What a write of ours returned counts like an event.
    pub fn wrote(&mut self, object: Option<Value>) {
        // Written before the object was deleted, but told after.
        if let (Some(object), true) = (object, self.live.is_some()) {
            self.take_object(object);
        }
    }

    fn take_object(&mut self, raw: Value) {
        let text = |p: &str| raw.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("/metadata/name");
        if name != self.name {
            if self.strangers.insert(name.clone()) {
                tracing::warn!(%name, "a second ClusterVersion is ignored");
            }
            return;
        }
        // Somebody wants it gone, and the garbage collector is at work on what it owns: from here on we have no task.
        if raw.pointer("/metadata/deletionTimestamp").is_some() {
            if self.live.take().is_some() {
                tracing::warn!("the ClusterVersion is being deleted; everything is left as it is");
            }
            return;
        }
        // An event older than what we have written ourselves.
        if self.live.as_ref().is_some_and(|live| version(&raw) < version(&live.raw)) {
            return;
        }
        let part = |key: &str| raw.get(key).cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let status = match serde_json::from_value::<ClusterVersionStatus>(part("status")) {
            Ok(status) => status,
            // Without its history nothing may be decided.
            Err(error) => {
                tracing::error!(%error, "status of the ClusterVersion cannot be read; waiting until it can");
                return;
            }
        };
        let spec = serde_json::from_value::<ClusterVersionSpec>(part("spec"));
        self.unreadable = spec.as_ref().err().map(|e| format!("spec: Invalid: cannot be read: {e}"));
        let spec = match (spec, &self.live) {
            (Ok(spec), _) => spec,
            // What was asked for before still counts.
            (Err(_), Some(live)) => live.spec.clone(),
            (Err(_), None) => ClusterVersionSpec::default(),
        };
        let generation = raw.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        self.live = Some(Live { spec, status, generation, uid: text("/metadata/uid"), raw });
    }
}

/// 0 where resource versions are not numbers, so that no event counts as old.
fn version(raw: &Value) -> u128 {
    let version = raw.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Watches all ClusterVersions: there should be one.
pub fn watch(clients: &Clients, stop: CancellationToken) -> mpsc::Receiver<Seen> {
    let (sender, receiver) = mpsc::channel(16);
    let Kind { group, version, kind, plural, .. } = Kind::cluster_version();
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind { group, version, kind }, &plural);
    match clients.for_watch() {
        Ok(client) => {
            let api: Api<DynamicObject> = Api::all_with(client, &resource);
            tokio::spawn(async move { stop.run_until_cancelled(forward(api, sender)).await });
        }
        Err(error) => tracing::error!(%error, "cannot watch the ClusterVersion"),
    }
    receiver
}

async fn forward(api: Api<DynamicObject>, sender: mpsc::Sender<Seen>) {
    let mut events = watcher(api, watcher::Config::default().timeout(1800)).backoff(WatchBackoff::default()).boxed();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut listed: BTreeSet<String> = BTreeSet::new();
    while let Some(event) = events.next().await {
        let mut out = Vec::new();
        match event {
            Err(error) => tracing::debug!(%error, "watch of the ClusterVersion failed; trying again"),
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                listed.extend(object.metadata.name.clone());
                out.extend(seen(object));
            }
            // Deletions during a broken watch show as absence.
            Ok(watcher::Event::InitDone) => {
                out.extend(known.difference(&listed).cloned().map(Seen::Gone));
                known.clone_from(&listed);
            }
            Ok(watcher::Event::Apply(object)) => {
                known.extend(object.metadata.name.clone());
                out.extend(seen(object));
            }
            Ok(watcher::Event::Delete(object)) => {
                let name = object.metadata.name.unwrap_or_default();
                known.remove(&name);
                out.push(Seen::Gone(name));
            }
        }
        for seen in out {
            if sender.send(seen).await.is_err() {
                return;
            }
        }
    }
}

fn seen(object: DynamicObject) -> Option<Seen> {
    serde_json::to_value(object).ok().map(|v| Seen::Object(Box::new(v)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, rv: u64, spec: Value) -> Seen {
        Seen::Object(Box::new(json!({"metadata": {"name": name, "resourceVersion": rv.to_string(), "generation": rv,
            "uid": "u"}, "spec": spec})))
    }

    #[test]
    fn a_second_cluster_version_is_named_until_it_is_gone() {
        let mut latest = Latest::new("version");
        latest.take(object("version", 1, json!({"clusterID": "a"})));
        latest.take(object("other", 2, json!({})));
        assert!(latest.troubles().first().unwrap().contains("\"other\""));
        assert_eq!(latest.live().unwrap().spec.cluster_id, "a");
        latest.take(Seen::Gone("other".into()));
        assert!(latest.troubles().is_empty());
    }

    #[test]
    fn one_that_is_being_deleted_counts_as_gone() {
        let mut latest = Latest::new("version");
        latest.take(object("version", 1, json!({"clusterID": "a"})));
        let going = json!({"metadata": {"name": "version", "resourceVersion": "2", "uid": "u",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]}, "spec": {}});
        latest.take(Seen::Object(Box::new(going)));
        assert!(latest.live().is_none());
        // A new one may have any resource version.
        latest.take(object("version", 1, json!({"clusterID": "b"})));
        assert_eq!(latest.live().unwrap().spec.cluster_id, "b");
    }

    #[test]
    fn an_older_event_and_an_unreadable_spec_change_nothing() {
        let mut latest = Latest::new("version");
        latest.take(object("version", 5, json!({"channel": "new"})));
        latest.take(object("version", 4, json!({"channel": "old"})));
        assert_eq!(latest.live().unwrap().spec.channel, "new");
        latest.take(object("version", 6, json!({"channel": 7})));
        assert_eq!(latest.live().unwrap().spec.channel, "new");
        assert!(latest.troubles().first().unwrap().contains("cannot be read"));
        latest.take(object("version", 7, json!({"channel": "x"})));
        assert!(latest.troubles().is_empty());
    }
}
