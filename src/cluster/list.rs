//! Reads some objects of one kind: by a list in pages, or one by one where the kind has far too many other objects or may
//! not be listed.

use super::error::ApiError;
use super::kinds::Kind;
use super::objects::Objects;
use super::partial_object::PartialObject;
use crate::merge;
use crate::object::manifest::ObjectId;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Each object that was asked for: `None` where it does not exist, or why it could not be read.
pub(crate) type ReadObjects = HashMap<ObjectId, Result<Option<Value>, ApiError>>;

/// Reads the objects with these ids, which have no namespace where the kind is cluster-scoped. `managedFields` is removed
/// from them where no merge needs it, because it is often half of an object.
pub(crate) async fn read(objects: &Objects, kind: &Kind, mut ids: HashSet<ObjectId>) -> ReadObjects {
    let mut found = ReadObjects::new();
    let listed = list(objects, kind, &mut ids, None, |id, object| {
        found.insert(id, Ok(Some(trimmed(kind, object))));
    });
    match listed.await {
        Ok(listed) if listed.complete => found.extend(ids.into_iter().map(|id| (id, Ok(None)))),
        // Ended early or not allowed: the rest is read by name.
        Ok(_) | Err(_) => {
            for id in ids {
                let object = objects.get(kind, &id.namespace, &id.name).await;
                found.insert(id, object.map(|object| object.map(|object| trimmed(kind, object))));
            }
        }
    }
    found
}

#[derive(Debug)]
pub(super) struct Listed {
    /// The resourceVersion to watch from.
    pub version: String,
    /// What is still missing does not exist. Otherwise the list was ended early.
    pub complete: bool,
}

/// Whether a kind has so many other objects that ours are better read by name.
pub(super) fn too_many(others: usize, ours: usize) -> bool {
    const FOR_EACH: usize = 20;
    const AT_LEAST: usize = 1000;
    others > ours.saturating_mul(FOR_EACH).max(AT_LEAST)
}

/// Sees every object of a list.
pub(super) type Every<'a> = dyn Fn(&Value) + Send + Sync + 'a;

/// Lists a kind in pages: removes each object that it finds from `missing` and passes it to `found`. With `every` the list
/// does not end early.
pub(super) async fn list(
    objects: &Objects,
    kind: &Kind,
    missing: &mut HashSet<ObjectId>,
    every: Option<&Every<'_>>,
    mut found: impl FnMut(ObjectId, Value) + Send,
) -> Result<Listed, ApiError> {
    let ours = missing.len();
    let (mut version, mut token) = (String::new(), None);
    loop {
        let page = objects.page(kind, token).await?;
        token = page.next();
        if version.is_empty() {
            version = page.metadata.resource_version;
        }
        for mut object in page.items {
            if let Some(every) = every {
                every(&object);
            }
            let id = PartialObject::of(&object).id(kind);
            if !missing.remove(&id) {
                continue;
            }
            // The items of a list have neither.
            if let Some(map) = object.as_object_mut() {
                map.entry("apiVersion").or_insert_with(|| kind.api_version().into());
                map.entry("kind").or_insert_with(|| kind.kind.clone().into());
            }
            found(id, object);
        }
        if token.is_none() || missing.is_empty() && every.is_none() {
            return Ok(Listed { version, complete: true });
        }
        if every.is_none()
            && too_many(usize::try_from(page.metadata.remaining_item_count.unwrap_or(0)).unwrap_or(0), ours)
        {
            return Ok(Listed { version, complete: false });
        }
    }
}

fn trimmed(kind: &Kind, mut object: Value) -> Value {
    if !merge::is_applied(&kind.group, &kind.kind)
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("managedFields");
    }
    object
}
