//! Merges two configurations by the schema: values that the child sets replace those of the parent, entries of lists are
//! merged by their keys at the place they have in the parent, and new ones are appended.

use super::schema::{CONFIG, Key, Merging, OF_SOURCE, Object, Shape};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Both are as `normalize` writes them, and so is the result.
pub(super) fn merge(parent: &Value, child: &Value) -> Value {
    objects(&CONFIG, parent, child)
}

fn objects(object: &Object, parent: &Value, child: &Value) -> Value {
    let renewed = object.merging == Merging::Resource && child.get("source").is_some();
    let mut fields = Map::new();
    for field in object.fields {
        let (mut of_parent, of_child) = (parent.get(field.name), child.get(field.name));
        if renewed && OF_SOURCE.contains(&field.name) {
            of_parent = None;
        }
        let merged = match (&field.shape, of_parent, of_child) {
            (Shape::List(key, shape), Some(Value::Array(of_parent)), of_child) => {
                let replaced = replaced(object, field.name, child);
                let of_child = of_child.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let merged = lists(*key, shape, of_parent, of_child, &replaced);
                (!merged.is_empty()).then_some(Value::Array(merged))
            }
            (Shape::Object(object), Some(of_parent), Some(of_child)) => Some(objects(object, of_parent, of_child)),
            (_, of_parent, of_child) => of_child.or(of_parent).cloned(),
        };
        fields.extend(merged.map(|merged| (field.name.to_owned(), merged)));
    }
    Value::Object(fields)
}

fn lists(key: Key, shape: &Shape, parent: &[Value], child: &[Value], replaced: &BTreeSet<String>) -> Vec<Value> {
    let by_key: BTreeMap<String, &Value> =
        child.iter().filter_map(|entry| key.of(entry).map(|key| (key, entry))).collect();
    let (mut merged, mut used) = (Vec::with_capacity(parent.len() + child.len()), BTreeSet::new());
    for entry in parent {
        match key.of(entry) {
            Some(own) if replaced.contains(&own) => {}
            Some(own) => match (by_key.get(&own), shape) {
                (Some(newer), Shape::Object(object)) => {
                    used.insert(own);
                    merged.push(objects(object, entry, newer));
                }
                _ => {
                    used.insert(own);
                    merged.push(entry.clone());
                }
            },
            None => merged.push(entry.clone()),
        }
    }
    let is_new = |entry: &&Value| key.of(entry).is_none_or(|own| !used.contains(&own));
    merged.extend(child.iter().filter(is_new).cloned());
    merged
}

/// The keys of entries that the child has in another list that shares its keys with this one.
fn replaced(object: &Object, list: &str, child: &Value) -> BTreeSet<String> {
    let Merging::SharedKeys(lists) = object.merging else { return BTreeSet::new() };
    if !lists.contains(&list) {
        return BTreeSet::new();
    }
    let others = object.fields.iter().filter(|field| field.name != list && lists.contains(&field.name));
    let keys = others.filter_map(|field| match (&field.shape, child.get(field.name)) {
        (Shape::List(key, _), Some(Value::Array(entries))) => Some(entries.iter().filter_map(|entry| key.of(entry))),
        _ => None,
    });
    keys.flatten().collect()
}
