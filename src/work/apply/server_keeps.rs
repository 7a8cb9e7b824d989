//! Objects for which the server, or a webhook in front of it, keeps a field different from the desired one whatever is
//! written. Writing again would change nothing, so such an object counts as desired until it or its manifest changes.

use crate::payload::ObjectId;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The server's answer to our last write of each such object.
#[derive(Debug, Default)]
pub(super) struct ServerKeeps {
    answers: Mutex<HashMap<ObjectId, Answer>>,
}

#[derive(Debug)]
struct Answer {
    /// Fingerprint of the desired content that was written.
    desired: u64,
    /// Hash of the answer.
    content: u64,
}

impl ServerKeeps {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a write still differs from the desired content in these fields.
    pub(crate) fn remember(&self, id: &ObjectId, desired: u64, answer: &Value, fields: &[String]) {
        tracing::warn!(object = %id, ?fields, "the server keeps these fields as they are; not written again until something changes");
        self.lock().insert(id.clone(), Answer { desired, content: content(answer) });
    }

    /// Whether the object is as the server answered when the same content was written: writing it again is of no use.
    pub(crate) fn is_known(&self, id: &ObjectId, desired: u64, live: &Value) -> bool {
        self.lock().get(id).is_some_and(|answer| answer.desired == desired && answer.content == content(live))
    }

    /// The server has accepted the desired content.
    pub(crate) fn forget(&self, id: &ObjectId) {
        self.lock().remove(id);
    }
}

/// Hash of everything but what changes with every write and what others report.
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
mod tests;
