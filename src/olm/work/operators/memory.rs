//! What the process remembers of what it has written and seen.

use super::derived::{Derived, Last};
use super::made::Made;
use super::roles::Roles;
use super::seen::Seen;
use crate::olm::operator::component;
use crate::olm::operator::deployment::{self, written_hash};
use crate::olm::operator::rights::Rights;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Id = (String, String);

/// So many changes of a Deployment to the same content may follow each other at once, within this time.
const PATIENCE: u32 = 3;
const WINDOW: Duration = Duration::from_secs(600);
/// What is older than that is forgotten this often.
const FORGOTTEN_EVERY: Duration = Duration::from_secs(60);

/// What the process remembers of its writes. Without it, some would be done once more.
#[derive(Default)]
pub(crate) struct Memory {
    remembered: Mutex<Remembered>,
    derived: Mutex<Last>,
}

#[derive(Default)]
struct Remembered {
    /// By Deployment: the hash of what was written, and which fields the API server has made different.
    kept: BTreeMap<Id, (String, Vec<String>)>,
    /// How often that has changed.
    kept_version: u64,
    /// How an object was changed lately, by kind and name.
    changes: BTreeMap<String, Vec<Written>>,
    forgotten: Option<Instant>,
    /// Of these roles.
    rights: Option<(Roles, Arc<Rights>)>,
    components: Option<(Made, Arc<component::Known>)>,
}

struct Written {
    at: Instant,
    /// The hash of what it was changed to.
    to: String,
    /// Those that differed.
    fields: Vec<String>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What follows from the views of each kind: the same as the last time where the kind has not changed.
    pub(super) fn derived(&self, seen: &Seen) -> Derived {
        let version = self.lock().kept_version;
        let kept = |id: &Id, object: &Value| self.kept(id, object);
        self.derived.lock().unwrap_or_else(PoisonError::into_inner).of(seen, (&kept, version))
    }

    pub(super) fn kept(&self, id: &Id, object: &Value) -> Vec<String> {
        let remembered = self.lock();
        let kept = remembered.kept.get(id).filter(|(of, _)| written_hash(object) == Some(of.as_str()));
        kept.map(|(_, fields)| fields.clone()).unwrap_or_default()
    }

    /// The same as the last time as long as no role has changed.
    pub(super) fn rights(&self, roles: &Roles) -> Arc<Rights> {
        let mut remembered = self.lock();
        if let Some((of, rights)) = &remembered.rights
            && of.is_same(roles)
        {
            return rights.clone();
        }
        let rights = Arc::new(roles.rights());
        remembered.rights = Some((roles.clone(), rights.clone()));
        rights
    }

    /// The same as the last time as long as none of the objects has changed.
    pub(super) fn components(&self, made: &Made) -> Arc<component::Known> {
        let mut remembered = self.lock();
        if let Some((of, components)) = &remembered.components
            && of.is_same(made)
        {
            return components.clone();
        }
        let components = Arc::new(made.known());
        remembered.components = Some((made.clone(), components.clone()));
        components
    }

    /// A Deployment was written.
    pub(crate) fn on_deployment(&self, id: &Id, (written, answer): (&Value, &Value)) {
        let kept = deployment::kept(written, answer);
        let mut remembered = self.lock();
        match written_hash(written).filter(|_| !kept.is_empty()) {
            Some(hash) => {
                let (namespace, name) = id;
                tracing::info!(namespace, name, ?kept, "the API server keeps fields of a Deployment different");
                remembered.kept.insert(id.clone(), (hash.to_owned(), kept));
                remembered.kept_version += 1;
            }
            None if remembered.kept.remove(id).is_some() => remembered.kept_version += 1,
            None => {}
        }
    }

    /// `to`: a hash of what the object was changed to. `fields`: those that differed. Returns those of them that have been changed back
    /// so often lately that somebody else must be told.
    pub(crate) fn on_written(&self, key: &str, to: &str, fields: Vec<String>, at: Instant) -> Vec<String> {
        let mut remembered = self.lock();
        remembered.forget(at);
        let changes = remembered.changes.entry(key.to_owned()).or_default();
        changes.retain(|change| is_lately(change.at, at));
        changes.push(Written { at, to: to.to_owned(), fields: fields.clone() });
        let count = |field: &String| changes.iter().filter(|it| it.to == to && it.fields.contains(field)).count();
        fields.into_iter().filter(|field| count(field) >= PATIENCE as usize).collect()
    }

    /// How long it rests after the change to this that is begun now.
    pub(crate) fn rest(&self, key: &str, to: &str, at: Instant) -> Duration {
        rest(self.changes(key, to, at).saturating_add(1))
    }

    /// How often it was changed to the same lately. Versions that follow each other change it to something else each time.
    fn changes(&self, key: &str, to: &str, at: Instant) -> u32 {
        let remembered = self.lock();
        let changes = remembered.changes.get(key).into_iter().flatten();
        let lately = changes.filter(|change| is_lately(change.at, at) && change.to == to).count();
        u32::try_from(lately).unwrap_or(u32::MAX)
    }
}

impl Remembered {
    fn forget(&mut self, at: Instant) {
        if self.forgotten.is_some_and(|last| at.saturating_duration_since(last) < FORGOTTEN_EVERY) {
            return;
        }
        self.forgotten = Some(at);
        self.changes.retain(|_, changes| {
            changes.retain(|change| is_lately(change.at, at));
            !changes.is_empty()
        });
    }
}

fn is_lately(change: Instant, now: Instant) -> bool {
    now.saturating_duration_since(change) < WINDOW
}

/// How long a Deployment rests after it was changed back so often within [`WINDOW`]: whoever else changes it must not
/// keep both busy.
fn rest(repairs: u32) -> Duration {
    let doubled = repairs.checked_sub(PATIENCE).map(|more| 1_u64 << more.min(8));
    doubled.map_or(Duration::ZERO, |seconds| Duration::from_secs(seconds.min(300)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::api::keys::label;
    use serde_json::json;

    #[test]
    fn fields_that_the_server_makes_different_are_remembered_for_what_was_written_alone() {
        let object = |hash: &str, replicas: i64| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "a", "namespace": "n", "labels": {label::DEPLOYMENT_SPEC_HASH: hash}},
                "spec": {"replicas": replicas}})
        };
        let (memory, id) = (Memory::default(), ("n".to_owned(), "a".to_owned()));
        memory.on_deployment(&id, (&object("x", 2), &object("x", 1)));
        assert_eq!(memory.kept(&id, &object("x", 1)), ["spec.replicas"]);
        assert!(memory.kept(&id, &object("y", 1)).is_empty());
        memory.on_deployment(&id, (&object("x", 2), &object("x", 2)));
        assert!(memory.kept(&id, &object("x", 2)).is_empty());
    }

    #[test]
    fn versions_that_follow_each_other_do_not_rest_and_those_that_fight_do() {
        let (memory, at) = (Memory::default(), Instant::now());
        for version in ["1", "2", "3", "4", "5", "6"] {
            assert_eq!(memory.rest("a", version, at), Duration::ZERO, "{version}");
            memory.on_written("a", version, Vec::new(), at);
        }
        for _ in 0..2 {
            for version in ["5", "6"] {
                memory.on_written("a", version, Vec::new(), at);
            }
        }
        assert!(memory.rest("a", "6", at) > Duration::ZERO);
        assert_eq!(memory.rest("b", "6", at), Duration::ZERO);
        assert_eq!(memory.changes("a", "6", at), 3);
        assert_eq!(memory.changes("a", "6", at + WINDOW), 0);
        memory.on_written("b", "1", Vec::new(), at + WINDOW);
        assert!(!memory.lock().changes.contains_key("a"), "what is old is forgotten");
    }

    #[test]
    fn field_that_is_changed_back_for_the_third_time_is_told_and_no_other() {
        let (memory, at) = (Memory::default(), Instant::now());
        let write = |to: &str, fields: &[&str], at: Instant| {
            let fields = fields.iter().map(|it| (*it).to_owned()).collect();
            memory.on_written("a", to, fields, at)
        };
        assert!(write("1", &["image", "args"], at).is_empty());
        assert!(write("1", &["image"], at).is_empty());
        // What another version makes different is no repair of this one.
        assert!(write("2", &["image"], at).is_empty());
        assert_eq!(write("1", &["args", "image"], at), ["image"]);
        assert_eq!(write("1", &["args", "image"], at), ["args", "image"]);
        assert!(write("1", &["image"], at + WINDOW).is_empty());
    }

    #[test]
    fn what_is_changed_back_again_and_again_rests_longer_and_longer() {
        let rests = [0, 2, 3, 4, 5, 9, 20, u32::MAX].map(|repairs| rest(repairs).as_secs());
        assert_eq!(rests, [0, 0, 1, 2, 4, 64, 256, 256]);
    }
}
