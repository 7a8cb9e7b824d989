//! Objects for which the server, or a webhook in front of it, keeps a field different from the desired one whatever is
//! written. Writing again would change nothing, so such an object counts as desired until it or its manifest changes, and
//! is reported. From time to time, and when something changes that may be the reason, it is written once more.

use crate::cluster::Index;
use crate::payload::ObjectId;
use crate::status::facts::KeptFields;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The server's answer to our last write of each such object.
#[derive(Debug)]
pub(super) struct ServerKeeps {
    answers: Mutex<HashMap<ObjectId, Answer>>,
    /// Told of every change.
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
    pub(crate) fn new(changed: watch::Sender<()>) -> ServerKeeps {
        ServerKeeps { answers: Mutex::default(), changed }
    }

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

    /// Changes at least whenever there is one more or one less.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// All of them, by name.
    pub(crate) fn kept(&self) -> Vec<KeptFields> {
        let kept =
            |(id, answer): (&ObjectId, &Answer)| KeptFields { object: id.to_string(), fields: answer.fields.clone() };
        let mut all: Vec<KeptFields> = self.lock().iter().map(kept).collect();
        all.sort_by(|a, b| a.object.cmp(&b.object));
        all
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
