//! Objects in memory as an API server keeps them: versions, generations, finalizers, owners, and what watches tell of them.

use cvo::testing::operator_process::{Failure, Part};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Kinds that processes follow, the first ones with namespaces.
pub(super) const KINDS: [&str; 18] = [
    "ClusterServiceVersion",
    "OperatorGroup",
    "OperatorCondition",
    "Deployment",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Subscription",
    "Service",
    "Secret",
    "OLMConfig",
    "Namespace",
    "CustomResourceDefinition",
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
const NAMESPACED: usize = 10;
/// Whose status is written apart.
const WITH_STATUS: [&str; 8] = [
    "ClusterServiceVersion",
    "OperatorGroup",
    "OperatorCondition",
    "Deployment",
    "OLMConfig",
    "CustomResourceDefinition",
    "APIService",
    "Subscription",
];

/// Kind, namespace and name.
pub(super) type Key = (usize, String, String);

/// Something that has happened to an object: what it is from then on, or was last.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub deleted: bool,
    pub object: Arc<Value>,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    pub revision: u64,
    /// By kind.
    logs: Vec<Vec<Event>>,
    uids: u64,
    pub now: Timestamp,
}

pub(super) fn kind(name: &str) -> usize {
    KINDS.iter().position(|kind| *kind == name).unwrap()
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

pub(super) fn is_going(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// uids of its owners.
pub(super) fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners.filter_map(|owner| owner.get("uid")?.as_str())
}

/// A merge patch.
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return object.clone_from(patch) };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(object) = object.as_object_mut() else { return };
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.remove(key)),
            value => merge(object.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

impl Store {
    pub(super) fn new(now: Timestamp) -> Store {
        Store { logs: vec![Vec::new(); KINDS.len()], now, ..Store::default() }
    }

    pub(super) fn key(kind: &str, namespace: &str, name: &str) -> Key {
        let number = self::kind(kind);
        let namespace = if number < NAMESPACED { namespace } else { "" };
        (number, namespace.to_owned(), name.to_owned())
    }

    pub(super) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&Store::key(kind, namespace, name))
    }

    /// All objects of a kind, by namespace and name.
    pub(super) fn all(&self, kind: &str) -> impl Iterator<Item = (&str, &str, &Arc<Value>)> {
        let number = self::kind(kind);
        let of = self.objects.range((number, String::new(), String::new())..);
        let of = of.take_while(move |((kind, ..), _)| *kind == number);
        of.map(|((_, namespace, name), object)| (namespace.as_str(), name.as_str(), object))
    }

    pub(super) fn of_namespace(&self, kind: &str, namespace: &str) -> Vec<&Arc<Value>> {
        self.all(kind).filter(|(of, ..)| *of == namespace).map(|(_, _, object)| object).collect()
    }

    pub(super) fn log(&self, kind: usize) -> &[Event] {
        self.logs.get(kind).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn is_active(&self, namespace: &str) -> bool {
        self.get("Namespace", "", namespace).is_some_and(|it| !is_going(it))
    }

    fn put(&mut self, key: Key, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let is_over = is_going(&object) && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        let event = Event { deleted: is_over, object: Arc::new(object.clone()) };
        match is_over {
            true => drop(self.objects.remove(&key)),
            false => drop(self.objects.insert(key.clone(), event.object.clone())),
        }
        self.logs[key.0].push(event);
        object
    }

    pub(super) fn create(&mut self, kind: &str, namespace: &str, object: &Value) -> Result<Value, Failure> {
        let key = Store::key(kind, namespace, text(object, "/metadata/name"));
        if self.objects.contains_key(&key) {
            return Err(Failure::Exists);
        }
        if !key.1.is_empty() && !self.is_active(&key.1) {
            return Err(Failure::Rejected(format!("namespace {} is not there, or is going", key.1)));
        }
        let mut object = object.clone();
        if WITH_STATUS.contains(&kind)
            && let Some(object) = object.as_object_mut()
        {
            object.remove("status");
        }
        self.uids += 1;
        let metadata = &mut object["metadata"];
        metadata["uid"] = format!("uid-{}", self.uids).into();
        metadata["generation"] = 1.into();
        metadata["creationTimestamp"] = json!(self.now);
        match key.1.is_empty() {
            true => metadata.as_object_mut().into_iter().for_each(|it| drop(it.remove("namespace"))),
            false => metadata["namespace"] = key.1.as_str().into(),
        }
        object["kind"] = kind.into();
        Ok(self.put(key, object))
    }

    pub(super) fn replace(&mut self, kind: &str, object: &Value, part: Part) -> Result<Value, Failure> {
        let key = Store::key(kind, text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let live = self.objects.get(&key).ok_or(Failure::NotFound)?.clone();
        let same = |pointer: &str| text(object, pointer).is_empty() || text(object, pointer) == text(&live, pointer);
        if !same("/metadata/uid") || !same("/metadata/resourceVersion") {
            return Err(Failure::Conflict);
        }
        let mut new = (*live).clone();
        match part {
            Part::Status => new["status"] = object["status"].clone(),
            Part::Object => {
                new = object.clone();
                let Some(new) = new.as_object_mut() else { return Err(Failure::Rejected("no object".to_owned())) };
                if WITH_STATUS.contains(&kind) {
                    new.remove("status");
                    new.extend(live.get("status").map(|status| ("status".to_owned(), status.clone())));
                }
                let metadata = new.entry("metadata").or_insert_with(|| json!({}));
                for part in ["uid", "creationTimestamp", "generation", "deletionTimestamp", "managedFields"] {
                    match live["metadata"].get(part) {
                        Some(value) => metadata[part] = value.clone(),
                        None => drop(metadata.as_object_mut().map(|it| it.remove(part))),
                    }
                }
            }
        }
        Ok(self.update(key, &live, new, part))
    }

    /// What changes nothing is no write.
    fn update(&mut self, key: Key, live: &Value, mut new: Value, part: Part) -> Value {
        new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        if part == Part::Status && key.0 == kind("ClusterServiceVersion") {
            new["metadata"]["managedFields"] =
                json!([{"manager": "m", "operation": "Update", "subresource": "status"}]);
        }
        if new == *live {
            return new;
        }
        if new.get("spec") != live.get("spec") {
            new["metadata"]["generation"] = json!(live["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        self.put(key, new)
    }

    pub(super) fn patch(
        &mut self,
        kind: &str,
        (namespace, name): (&str, &str),
        patch: &Value,
        part: Part,
    ) -> Result<Value, Failure> {
        let key = Store::key(kind, namespace, name);
        let live = self.objects.get(&key).ok_or(Failure::NotFound)?.clone();
        let version = text(patch, "/metadata/resourceVersion");
        if !version.is_empty() && version != text(&live, "/metadata/resourceVersion") {
            return Err(Failure::Conflict);
        }
        let mut new = (*live).clone();
        match part {
            Part::Status => merge(&mut new["status"], &patch["status"]),
            Part::Object => {
                let mut patch: Map<String, Value> = patch.as_object().cloned().unwrap_or_default();
                if WITH_STATUS.contains(&kind) {
                    patch.remove("status");
                }
                merge(&mut new, &Value::Object(patch));
            }
        }
        if new.get("status").is_some_and(Value::is_null) {
            new.as_object_mut().into_iter().for_each(|new| drop(new.remove("status")));
        }
        Ok(self.update(key, &live, new, part))
    }

    /// Changes an object in any way.
    pub(super) fn change(&mut self, kind: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = Store::key(kind, namespace, name);
        let Some(live) = self.objects.get(&key).cloned() else { return };
        let mut new = (*live).clone();
        change(&mut new);
        self.update(key, &live, new, Part::Object);
    }

    /// An empty uid is any.
    pub(super) fn delete(&mut self, kind: &str, namespace: &str, name: &str, uid: &str) -> Result<(), Failure> {
        let key = Store::key(kind, namespace, name);
        let Some(live) = self.objects.get(&key).cloned() else { return Ok(()) };
        if !uid.is_empty() && uid != text(&live, "/metadata/uid") {
            return Err(Failure::Conflict);
        }
        if is_going(&live) {
            return Ok(());
        }
        let mut new = (*live).clone();
        new["metadata"]["deletionTimestamp"] = json!(self.now);
        self.put(key, new);
        Ok(())
    }

    /// Objects of which no owner is there any more, in their own namespace or without one.
    pub(super) fn orphans(&self) -> Vec<Key> {
        let uids: BTreeSet<(&str, &str)> = self
            .objects
            .iter()
            .map(|((_, namespace, _), it)| (namespace.as_str(), text(it, "/metadata/uid")))
            .collect();
        let is_orphan = |(key, object): &(&Key, &Arc<Value>)| {
            let mut all = owners(object).peekable();
            let has_owner = |uid| uids.contains(&(key.1.as_str(), uid)) || uids.contains(&("", uid));
            all.peek().is_some() && !all.any(has_owner) && !is_going(object)
        };
        self.objects.iter().filter(is_orphan).map(|(key, _)| key.clone()).collect()
    }

    /// What is left in namespaces that are going, and these once they are empty.
    pub(super) fn empty_namespaces(&mut self) -> bool {
        let going: Vec<String> =
            self.all("Namespace").filter(|(_, _, it)| is_going(it)).map(|(_, name, _)| name.to_owned()).collect();
        for name in &going {
            let left: Vec<Key> = self.objects.keys().filter(|(_, namespace, _)| namespace == name).cloned().collect();
            if left.is_empty() {
                self.change("Namespace", "", name, |it| it["metadata"]["finalizers"] = json!([]));
            }
            for (kind, namespace, name) in left {
                let _done = self.delete(KINDS[kind], &namespace, &name, "");
            }
        }
        !going.is_empty()
    }
}
