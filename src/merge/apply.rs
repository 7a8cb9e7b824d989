//! Server-side apply, by which objects of kinds without rules are written. The API server keeps the fields of the manifest
//! in an entry of our field manager, without the defaults that it has filled in, and the next apply removes those that the
//! next manifest lacks, unless another field manager owns them too. So a restarted process knows what was set before.
//!
//! An object that was written by plain updates has an entry of the operation Update instead, with defaults in it. It is
//! taken over once: the entry becomes one of the operation Apply, the next apply removes what the manifest lacks, and the
//! API server fills in the defaults again.

use super::is_typed;
use super::metadata::{fit_owners, group};
use super::ownership::{METADATA, Manager, keep_lists_of_others, text};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Metadata of a manifest that is applied. The rest belongs to the API server.
const APPLIED_METADATA: [&str; 6] = ["name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"];

/// The configuration to apply for a desired object. Null means the same as no value. The resourceVersion, and for an
/// existing object the uid, make the server refuse it if `live` is not the present state: no object has resourceVersion 1.
pub(crate) fn configuration(live: Option<&Value>, desired: Value, manager: Manager) -> Value {
    let mut object = match live {
        Some(live) => fit_owners(live, Cow::Owned(desired)).into_owned(),
        None => desired,
    };
    remove_nulls(&mut object);
    if let Some(live) = live {
        let typed = is_typed(group(text(&object, "apiVersion")));
        keep_lists_of_others(live, &mut object, manager, typed);
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| APPLIED_METADATA.contains(&key.as_str()));
        let known = |key: &str| live.and_then(|live| live.pointer(&format!("/metadata/{key}")).cloned());
        metadata.insert("resourceVersion".into(), known("resourceVersion").unwrap_or_else(|| "1".into()));
        metadata.extend(known("uid").map(|uid| ("uid".to_owned(), uid)));
    }
    object
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// The live object with what our manager owns by updates owned by apply instead; `None` if there is no such entry. What
/// another process has written under our name stays as it is.
pub(crate) fn taken_over(live: &Value, manager: Manager) -> Option<Value> {
    let mut object = live.clone();
    let entries = object.pointer_mut("/metadata/managedFields")?.as_array_mut()?;
    let places = |set: &Map<String, Value>| -> Vec<Vec<String>> {
        let places = manager.places_of_others(live, set).into_iter();
        places.map(|path| path.into_iter().map(str::to_owned).collect()).collect()
    };
    let is_ours = |entry: &Value, operation: &str| manager.owns(entry) && text(entry, "operation") == operation;
    let (apart, own) = split(std::mem::take(entries), |entry| is_ours(entry, "Update"), places);
    *entries = own;
    let position = |operation: &str| entries.iter().position(|entry| is_ours(entry, operation));
    let mut applied = entries.remove(position("Apply").or_else(|| position("Update"))?);
    let version = text(&applied, "apiVersion").to_owned();
    // Field sets of different versions cannot be united.
    let (updated, mut kept): (Vec<Value>, Vec<Value>) = std::mem::take(entries)
        .into_iter()
        .partition(|entry| is_ours(entry, "Update") && text(entry, "apiVersion") == version);
    if updated.is_empty() && is_ours(&applied, "Apply") {
        return None;
    }
    for mut entry in updated {
        unite(applied.get_mut("fieldsV1")?, entry.get_mut("fieldsV1")?.take());
    }
    if let Some(set) = applied.get_mut("fieldsV1").and_then(Value::as_object_mut) {
        set.remove("f:status");
        if let Some(metadata) = set.get_mut("f:metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| METADATA.contains(&key.as_str()));
        }
    }
    applied.as_object_mut()?.insert("operation".into(), "Apply".into());
    kept.push(applied);
    kept.extend(apart);
    *entries = kept;
    Some(object)
}

/// The entries of updates under our name with nothing but what another process has written, and all entries without that.
fn split(
    entries: Vec<Value>,
    is_update: impl Fn(&Value) -> bool,
    places: impl Fn(&Map<String, Value>) -> Vec<Vec<String>>,
) -> (Vec<Value>, Vec<Value>) {
    let (mut apart, mut own) = (Vec::new(), Vec::new());
    for mut entry in entries {
        let updated = is_update(&entry);
        let set = entry.get_mut("fieldsV1").and_then(Value::as_object_mut).filter(|_| updated);
        let theirs = set.map(|set| {
            let mut theirs = Value::Object(Map::new());
            let taken = places(set).into_iter().filter_map(|path| take(set, &path));
            taken.for_each(|field| unite(&mut theirs, field));
            (theirs, set.is_empty())
        });
        let Some((theirs, is_all)) = theirs.filter(|(theirs, _)| *theirs != json!({})) else {
            own.push(entry);
            continue;
        };
        let mut part = entry.clone();
        if let Some(set) = part.get_mut("fieldsV1") {
            *set = theirs;
        }
        apart.push(part);
        if !is_all {
            own.push(entry);
        }
    }
    (apart, own)
}

/// Removes a field from a field set, with the places that have led to it alone. Returns a field set with nothing else.
fn take(set: &mut Map<String, Value>, path: &[String]) -> Option<Value> {
    let (key, rest) = path.split_first()?;
    let taken = match rest {
        [] => set.remove(key)?,
        _ => {
            let below = set.get_mut(key)?.as_object_mut()?;
            let taken = take(below, rest)?;
            if below.keys().all(|key| key == ".") {
                set.remove(key);
            }
            taken
        }
    };
    Some(json!({ (key.as_str()): taken }))
}

fn unite(into: &mut Value, set: Value) {
    if let (Value::Object(into), Value::Object(set)) = (into, set) {
        for (key, value) in set {
            unite(into.entry(key).or_insert_with(|| Value::Object(Map::new())), value);
        }
    }
}

#[cfg(test)]
mod tests;
