//! What is there of some names of one kind, read once: a paged list, or one by one where foreign objects far outnumber ours
//! or lists are not allowed.

use super::kinds::Kind;
use super::objects::{ApiError, Objects};
use crate::payload::ObjectId;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// A list is given up after a page when this many foreign objects for each of ours follow.
const FOREIGN_PER_OWN: i64 = 20;

/// Each name with its object, `None` where there is none, or what kept it from being read.
pub type Survey = HashMap<ObjectId, Result<Option<Value>, ApiError>>;

/// Reads these. Names are as the cluster knows them: without a namespace for kinds of the cluster scope. Who wrote which
/// field (`managedFields`) is left away, often half of an object.
pub async fn survey(objects: &Objects, kind: &Kind, mut wanted: HashSet<ObjectId>) -> Survey {
    let mut found = Survey::new();
    match list(objects, kind, &mut wanted, &mut found).await {
        // Whoever is not in a whole list is not there.
        Ok(true) => found.extend(wanted.into_iter().map(|id| (id, Ok(None)))),
        // Not to the end, or not allowed: what is left is asked for by name.
        Ok(false) | Err(_) => {
            for id in wanted {
                let read = objects.get(kind, &id.namespace, &id.name).await;
                found.insert(id, read.map(|object| object.map(slim)));
            }
        }
    }
    found
}

/// Whether the list was read to its end.
async fn list(
    objects: &Objects,
    kind: &Kind,
    wanted: &mut HashSet<ObjectId>,
    found: &mut Survey,
) -> Result<bool, ApiError> {
    let owned = i64::try_from(wanted.len()).unwrap_or(i64::MAX);
    let mut token = None;
    loop {
        let page = objects.page(kind, token).await?;
        for object in page.items {
            take(kind, object, wanted, found);
        }
        token = page.metadata.continue_token.filter(|token| !token.is_empty());
        if token.is_none() || wanted.is_empty() {
            return Ok(true);
        }
        let remaining = page.metadata.remaining_item_count.unwrap_or(0);
        if remaining > owned.saturating_mul(FOREIGN_PER_OWN).max(1000) {
            return Ok(false);
        }
    }
}

fn take(kind: &Kind, mut object: Value, wanted: &mut HashSet<ObjectId>, found: &mut Survey) {
    let text = |name: &str| object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str).unwrap_or_default();
    let id = ObjectId::new(&kind.group, &kind.kind, text("namespace"), text("name"));
    if !wanted.remove(&id) {
        return;
    }
    // Lists leave these out of their items.
    if let Some(map) = object.as_object_mut() {
        map.entry("apiVersion").or_insert_with(|| kind.api_version().into());
        map.entry("kind").or_insert_with(|| kind.kind.clone().into());
    }
    found.insert(id, Ok(Some(slim(object))));
}

fn slim(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}
