//! Objects for which the server, or a webhook in front of it, keeps a field different from the desired one whatever is
//! written. Writing again would change nothing, so such an object counts as desired until it or its manifest changes, and
//! is reported. From time to time, and when something changes that may be the reason, it is written once more.

use crate::cluster::Index;
use crate::merge::{Desired, Step};
use crate::object::manifest::ObjectId;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The server's answer to our last write of each such object.
#[derive(Debug, Default)]
pub(super) struct ServerKeeps {
    answers: Mutex<HashMap<ObjectId, Answer>>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Answer {
    /// Fingerprint of the desired content that was written.
    desired: u64,
    /// Hash of the answer.
    content: u64,
    /// Those that differ.
    fields: Vec<String>,
    /// It is to be written once more.
    again: bool,
}

impl ServerKeeps {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a write still differs from the desired content in these fields. `true` if it is the same as the last
    /// time, so that the write has changed nothing.
    pub(crate) fn remember(&self, id: &ObjectId, desired: u64, answer: &Value, fields: &[String]) -> bool {
        let answer = Answer { desired, content: content(answer), fields: fields.to_vec(), again: false };
        let new = (answer.desired, answer.content);
        let before = self.lock().insert(id.clone(), answer);
        if before.is_some_and(|before| (before.desired, before.content) == new) {
            return true;
        }
        tracing::warn!(object = %id, ?fields, "the server keeps these fields as they are; not written again until something changes");
        self.changed.send_replace(());
        false
    }

    /// Whether the object is as the server answered when the same content was written: writing it again is of no use.
    pub(crate) fn is_known(&self, id: &ObjectId, desired: u64, live: &Value) -> bool {
        let answers = self.lock();
        let same = |answer: &Answer| answer.desired == desired && !answer.again && answer.content == content(live);
        answers.get(id).is_some_and(same)
    }

    /// The fingerprint of the desired content, if a live object has as much of that as the server accepts.
    pub(crate) fn as_desired(&self, id: &ObjectId, desired: &Desired, live: &Value) -> Option<u64> {
        if desired.manifest.delete() != Ok(false) {
            return None;
        }
        let fingerprint = desired.fingerprint();
        let same = match desired.step(Some(live)) {
            Ok(Step::Skip(_)) => {
                self.forget(id);
                true
            }
            Ok(Step::Change { .. }) => self.is_known(id, fingerprint, live),
            _ => false,
        };
        same.then_some(fingerprint)
    }

    /// The server has accepted the desired content.
    pub(crate) fn forget(&self, id: &ObjectId) {
        if self.lock().remove(id).is_some() {
            self.changed.send_replace(());
        }
    }

    /// Forgets all others.
    pub(crate) fn retain(&self, keep: impl Fn(&ObjectId) -> bool) {
        self.lock().retain(|id, _| keep(id));
        self.changed.send_replace(());
    }

    /// These are written once more: the server may accept them now.
    pub(crate) fn ask_again(&self, index: &Index, which: impl Fn(&ObjectId) -> bool) {
        let mut asked = Vec::new();
        for (id, answer) in self.lock().iter_mut().filter(|(id, _)| which(id)) {
            answer.again = true;
            asked.push(id.clone());
        }
        asked.iter().for_each(|id| index.mark_outdated(id));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Told at least whenever there is one more or one less.
    pub(crate) fn changed(&self) -> &watch::Sender<()> {
        &self.changed
    }

    /// All of them with their fields.
    pub(crate) fn kept(&self) -> Vec<(ObjectId, Vec<String>)> {
        self.lock().iter().map(|(id, answer)| (id.clone(), answer.fields.clone())).collect()
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
