//! What is there of some names of one kind, read once: a paged list, or one by one where foreign objects far outnumber ours
//! or lists are not allowed.

use super::glance::Name;
use super::kinds::Kind;
use super::objects::{ApiError, Objects};
use crate::payload::ObjectId;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Each name with its object, `None` where there is none, or what kept it from being read.
pub type Survey = HashMap<ObjectId, Result<Option<Value>, ApiError>>;

/// Reads these. Names are as the cluster knows them: without a namespace for kinds of the cluster scope. Who wrote which
/// field (`managedFields`) is left away, often half of an object.
pub async fn survey(objects: &Objects, kind: &Kind, mut wanted: HashSet<ObjectId>) -> Survey {
    let mut found = Survey::new();
    let listed = list(objects, kind, &mut wanted, |id, object| {
        found.insert(id, Ok(Some(slim(object))));
    });
    match listed.await {
        // Whoever is not in a whole list is not there.
        Ok(listed) if listed.whole => found.extend(wanted.into_iter().map(|id| (id, Ok(None)))),
        // Not to the end, or not allowed: what is left is asked for by name.
        Ok(_) | Err(_) => {
            for id in wanted {
                let read = objects.get(kind, &id.namespace, &id.name).await;
                found.insert(id, read.map(|object| object.map(slim)));
            }
        }
    }
    found
}

/// What came of a list.
#[derive(Debug)]
pub(super) struct Listed {
    /// The resourceVersion to watch from.
    pub version: String,
    /// All that was wanted was seen, or the list ended: what is still wanted then is not there. Otherwise it was given up.
    pub whole: bool,
}

/// Whether so many foreign objects, for so many of ours, are too many to read past: ours are read by name then.
pub(super) fn too_many(foreign: usize, own: usize) -> bool {
    const FOR_EACH: usize = 20;
    const ANYWAY: usize = 1000;
    foreign > own.saturating_mul(FOR_EACH).max(ANYWAY)
}

/// Lists a kind by pages: each object that is wanted is struck out there and handed to `found`.
pub(super) async fn list(
    objects: &Objects,
    kind: &Kind,
    wanted: &mut HashSet<ObjectId>,
    mut found: impl FnMut(ObjectId, Value) + Send,
) -> Result<Listed, ApiError> {
    let own = wanted.len();
    let (mut version, mut token) = (String::new(), None);
    loop {
        let page = objects.page(kind, token).await?;
        if version.is_empty() {
            version = page.metadata.resource_version;
        }
        for mut object in page.items {
            let id = Name::of(&object).id(kind);
            if !wanted.remove(&id) {
                continue;
            }
            // Lists leave these out of their items.
            if let Some(map) = object.as_object_mut() {
                map.entry("apiVersion").or_insert_with(|| kind.api_version().into());
                map.entry("kind").or_insert_with(|| kind.kind.clone().into());
            }
            found(id, object);
        }
        token = page.metadata.continue_token.filter(|token| !token.is_empty());
        if token.is_none() || wanted.is_empty() {
            return Ok(Listed { version, whole: true });
        }
        if too_many(usize::try_from(page.metadata.remaining_item_count.unwrap_or(0)).unwrap_or(0), own) {
            return Ok(Listed { version, whole: false });
        }
    }
}

fn slim(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}
