//! Fights with the server itself: an object whose server (or a webhook in front of it) keeps a field otherwise than the
//! release wants, whatever is written. Writing it again would change nothing, so it counts as wanted until the object or
//! the manifest changes.

use crate::payload::ObjectId;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the server answered to our last write of each such object.
#[derive(Debug, Default)]
pub struct Kept {
    by_id: Mutex<HashMap<ObjectId, Answer>>,
    answers: AtomicU64,
}

#[derive(Debug)]
struct Answer {
    /// Fingerprint of what was wanted.
    wanted: u64,
    content: u64,
    fields: Vec<String>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Answer>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a write still differs from what was wanted in these fields.
    pub fn remember(&self, id: &ObjectId, wanted: u64, answer: &Value, fields: Vec<String>) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        let content = content(answer);
        tracing::warn!(object = %id, ?fields, "the server keeps these fields as they are; not written again until something changes");
        self.lock().insert(id.clone(), Answer { wanted, content, fields });
    }

    /// The object is as the server answered when the same was wanted: writing it again is of no use.
    pub fn is_known(&self, id: &ObjectId, wanted: u64, live: &Value) -> bool {
        self.lock().get(id).is_some_and(|answer| answer.wanted == wanted && answer.content == content(live))
    }

    /// The server takes what is wanted, after all.
    pub fn forget(&self, id: &ObjectId) {
        self.lock().remove(id);
    }

    /// Writes so far that the server answered otherwise, for a metric.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// The objects, with the fields in which they differ.
    pub fn list(&self) -> Vec<(ObjectId, Vec<String>)> {
        let mut list: Vec<_> = self.lock().iter().map(|(id, answer)| (id.clone(), answer.fields.clone())).collect();
        list.sort();
        list
    }
}

/// Over everything but what the server counts and what others report.
fn content(object: &Value) -> u64 {
    const COUNTED: [&str; 3] = ["resourceVersion", "managedFields", "generation"];
    let mut hasher = DefaultHasher::new();
    for (key, value) in object.as_object().into_iter().flatten().filter(|(key, _)| *key != "status") {
        key.hash(&mut hasher);
        match value.as_object().filter(|_| key == "metadata") {
            Some(metadata) => {
                metadata.iter().filter(|(key, _)| !COUNTED.contains(&key.as_str())).for_each(|e| e.hash(&mut hasher));
            }
            None => value.hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_counts_until_the_object_or_what_is_wanted_changes() {
        let (kept, id) = (Kept::default(), ObjectId::new("", "ConfigMap", "ns", "a"));
        let object = |version: &str, label: &str, phase: &str| {
            json!({"metadata": {"resourceVersion": version, "labels": {"l": label}, "managedFields": [version]},
                "data": {"a": "as the server likes it"}, "status": {"phase": phase}})
        };
        assert!(!kept.is_known(&id, 1, &object("1", "x", "new")));
        kept.remember(&id, 1, &object("1", "x", "new"), vec!["data.a".into()]);
        assert!(kept.is_known(&id, 1, &object("2", "x", "old")), "only what the server counts has moved");
        assert!(!kept.is_known(&id, 2, &object("1", "x", "new")), "something else is wanted");
        assert!(!kept.is_known(&id, 1, &object("1", "y", "new")), "somebody else changed the object");
        assert_eq!((kept.answers(), kept.list()), (1, vec![(id.clone(), vec!["data.a".to_owned()])]));
        kept.forget(&id);
        assert!(!kept.is_known(&id, 1, &object("1", "x", "new")));
    }
}
