//! What is known of the objects of a cluster, and what would be of them.

use super::{Change, Verb};
use crate::object::read::Read;
use crate::olm::bundle::CSV;
use crate::olm::plan::step::{Csv, Item};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object, whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Key {
    pub group: String,
    pub kind: String,
    /// Empty for an object without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub(crate) fn new((group, kind): (&str, &str), namespace: &str, name: &str) -> Key {
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(ToOwned::to_owned);
        Key { group, kind, namespace, name }
    }

    /// Of an object.
    pub(crate) fn of(object: &Value) -> Key {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        Key::new((group, text("/kind")), text("/metadata/namespace"), text("/metadata/name"))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Key { kind, namespace, name, .. } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind} {name}"),
            _ => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// Objects that were looked for, and kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    objects: BTreeMap<Key, Read<Arc<Value>>>,
    /// Whether objects of a kind have a namespace, by apiVersion and kind; `None` if the kind is not served.
    kinds: BTreeMap<(String, String), Option<bool>>,
    /// What cannot be known, because something could not be read.
    pub unread: Vec<String>,
}

impl Known {
    pub(crate) fn add_kind(&mut self, api_version: &str, kind: &str, namespaced: Option<bool>) {
        self.kinds.insert((api_version.to_owned(), kind.to_owned()), namespaced);
    }

    /// Whether it has been asked whether the kind is served.
    pub(crate) fn knows_kind(&self, api_version: &str, kind: &str) -> bool {
        self.kinds.contains_key(&(api_version.to_owned(), kind.to_owned()))
    }

    /// Group, version and kind of what is served.
    pub(super) fn served(&self) -> BTreeSet<(String, String, String)> {
        let served = self.kinds.iter().filter(|(_, scope)| scope.is_some());
        let parts = served.map(|((api_version, kind), _)| {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            (group.to_owned(), version.to_owned(), kind.clone())
        });
        parts.collect()
    }

    /// Whether the object of a step has a namespace; `None` for a kind that is not served.
    pub(crate) fn scope(&self, item: &Item) -> Option<bool> {
        self.kinds.get(&(item.api_version.clone(), item.kind.clone())).copied().flatten()
    }

    pub(crate) fn add(&mut self, key: Key, object: Read<Value>) {
        let object = match object {
            Read::Value(object) => Read::Value(Arc::new(object)),
            Read::Absent => Read::Absent,
            Read::Failed(cause) => Read::Failed(cause),
        };
        self.objects.insert(key, object);
    }

    /// Whether it has been looked for.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    /// What nobody has looked for is absent.
    pub(crate) fn get(&self, key: &Key) -> Read<Arc<Value>> {
        self.objects.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn object(&self, key: &Key) -> Option<Arc<Value>> {
        match self.get(key) {
            Read::Value(object) => Some(object),
            Read::Absent | Read::Failed(_) => None,
        }
    }

    /// All that exist of a group and kind.
    pub(crate) fn all<'a>(&'a self, (group, kind): (&'a str, &'a str)) -> impl Iterator<Item = (&'a Key, &'a Value)> {
        let of_kind = self.objects.iter().filter(move |(key, _)| key.group == group && key.kind == kind);
        of_kind.filter_map(|(key, read)| match read {
            Read::Value(object) => Some((key, &**object)),
            Read::Absent | Read::Failed(_) => None,
        })
    }

    pub(super) fn csvs(&self) -> Vec<Arc<Csv>> {
        self.all(CSV).map(|(_, object)| Arc::new(Csv::read(object))).collect()
    }

    /// What goes with objects that are deleted, each with the name of its first owner: one of its owners is among them, and none is left.
    /// `left`: uids of the ClusterServiceVersions that stay; all others are gone already.
    pub(super) fn owned_by(&self, deleted: &BTreeSet<String>, left: &BTreeSet<String>) -> Vec<(Key, String)> {
        let mut owned = Vec::new();
        for (key, read) in &self.objects {
            let Read::Value(object) = read else { continue };
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let owners = owners.map(Vec::as_slice).unwrap_or_default();
            let text =
                |owner: &Value, field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_deleted = |owner: &Value| deleted.contains(&text(owner, "uid"));
            let is_gone = |owner: &Value| text(owner, "kind") == CSV.1 && !left.contains(&text(owner, "uid"));
            if owners.iter().any(is_deleted) && owners.iter().all(|owner| is_deleted(owner) || is_gone(owner)) {
                owned.push((key.clone(), owners.first().map(|owner| text(owner, "name")).unwrap_or_default()));
            }
        }
        owned
    }

    /// As if the change were written. What is created gets the uid that no other object has.
    pub(super) fn write(&mut self, change: &Change, mut object: Value) {
        let key = change.key.clone();
        if change.verb == Verb::Delete {
            self.objects.insert(key, Read::Absent);
            return;
        }
        if matches!(change.verb, Verb::Create | Verb::Replace)
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("uid".to_owned(), json!(format!("of the new {key}")));
        }
        self.objects.insert(key, Read::Value(Arc::new(object)));
    }
}
