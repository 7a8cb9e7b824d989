//! What is known of all copies, and what is to be done about them: one by one, and only where something has changed.

use super::{Content, Course, Rules, Source, Targets};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// A copy that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub uid: String,
    pub version: u64,
    /// The namespace of its original.
    pub from: String,
    /// The hash of its content, as far as that is known without reading it.
    pub hash: Option<String>,
}

/// What copies depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub sources: BTreeMap<Key, Source>,
    /// All that are no copies. There is no copy of the same name beside one of them.
    pub originals: BTreeSet<Key>,
    /// Those that can be written into.
    pub namespaces: BTreeSet<String>,
    pub rules: Rules,
}

/// What is done for one copy, or for an original.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Job {
    /// The original is read.
    Read {
        version: String,
    },
    Write {
        content: Arc<Content>,
        before: Option<Arc<Content>>,
        live: Option<Live>,
    },
    Delete {
        uid: String,
    },
}

/// What is in the way of what OLMConfig says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub missing: bool,
    pub unexpected: bool,
}

/// Copies of one original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    /// uids by namespace.
    pub uids: BTreeMap<String, String>,
    /// Namespaces in which there can be none: there is another ClusterServiceVersion of the name.
    pub taken: BTreeSet<String>,
}

#[derive(Default)]
pub(crate) struct Book {
    live: BTreeMap<Key, Live>,
    /// Those that were told of since everything is read anew.
    seen: Option<BTreeSet<Key>>,
    /// All that exist are known.
    is_whole: bool,
    plan: Option<Plan>,
    /// Namespaces of originals by their names.
    named: BTreeMap<String, BTreeSet<String>>,
    contents: BTreeMap<Key, Contents>,
    /// Originals that have to be read.
    unread: BTreeSet<Key>,
    due: BTreeSet<Key>,
    busy: BTreeSet<Key>,
}

/// Of an original: what it is, and was before.
#[derive(Clone, Debug)]
struct Contents {
    version: String,
    now: Arc<Content>,
    before: Option<Arc<Content>>,
}

impl Book {
    /// Everything is told anew.
    pub(crate) fn begin(&mut self) {
        self.seen = Some(BTreeSet::new());
    }

    pub(crate) fn complete(&mut self) {
        let seen = self.seen.take().unwrap_or_default();
        let gone: Vec<Key> = self.live.keys().filter(|key| !seen.contains(*key)).cloned().collect();
        gone.iter().for_each(|key| drop(self.live.remove(key)));
        self.due.extend(gone);
        self.due.extend(self.live.keys().cloned());
        self.is_whole = true;
    }

    /// It exists, or has changed. What was written here is known already. Returns whether it is new.
    pub(crate) fn tell(&mut self, key: Key, live: Live) -> bool {
        let is_first = self.seen.as_mut().is_some_and(|seen| seen.insert(key.clone()));
        let known = self.live.get(&key);
        if known.is_some_and(|known| known.uid == live.uid && known.version >= live.version) {
            return false;
        }
        let is_new = known.is_none_or(|known| known.uid != live.uid);
        // Its annotation is that of who has written it, who has changed something else since then.
        let hash = live.hash.clone().filter(|_| is_new || is_first);
        self.due.insert(key.clone());
        self.live.insert(key, Live { hash, ..live });
        is_new
    }

    pub(crate) fn tell_deleted(&mut self, key: Key) {
        self.live.remove(&key);
        self.due.insert(key);
    }

    /// What it all depends on. Whether that has changed.
    pub(crate) fn set(&mut self, mut plan: Plan) -> bool {
        let before = self.plan.take().unwrap_or_default();
        for (key, source) in &mut plan.sources {
            let known = before.sources.get(key);
            // What passes is not copied; what was before it is.
            if source.is_passing && source.course == Course::Copied {
                match known.filter(|known| known.uid == source.uid && known.course == Course::Copied) {
                    Some(known) => *source = Source { targets: source.targets.clone(), ..known.clone() },
                    None => source.course = Course::Kept,
                }
            }
        }
        if plan == before {
            self.plan = Some(plan);
            return false;
        }
        let (added, removed) =
            (plan.namespaces.difference(&before.namespaces), before.namespaces.difference(&plan.namespaces));
        let changed: Vec<&String> = added.chain(removed).collect();
        for key in plan.sources.keys() {
            self.due.extend(changed.iter().map(|namespace| ((*namespace).clone(), key.1.clone())));
        }
        self.due.extend(plan.originals.symmetric_difference(&before.originals).cloned());
        let all = plan.sources.keys().chain(before.sources.keys());
        let others: BTreeSet<&Key> = all
            .filter(|key| plan.rules != before.rules || plan.sources.get(*key) != before.sources.get(*key))
            .collect();
        for key in &others {
            let (now, known) = (plan.sources.get(*key), before.sources.get(*key));
            let version = now.filter(|it| it.course == Course::Copied).map(|it| &it.version);
            if let Some(version) = version
                && self.contents.get(*key).is_none_or(|contents| contents.version != *version)
            {
                self.unread.insert((*key).clone());
            }
            // What is read anew is compared once it is.
            let is_same =
                |now: &Source, known: &Source| *now == Source { version: now.version.clone(), ..known.clone() };
            let only_version = matches!((now, known), (Some(now), Some(known)) if is_same(now, known));
            if !only_version || plan.rules != before.rules {
                self.due.extend(plan.namespaces.iter().map(|namespace| (namespace.clone(), key.1.clone())));
                self.due.extend(self.live.keys().filter(|(_, name)| *name == key.1).cloned());
            }
        }
        self.named = BTreeMap::new();
        for (namespace, name) in plan.sources.keys() {
            self.named.entry(name.clone()).or_default().insert(namespace.clone());
        }
        self.contents.retain(|key, _| plan.sources.contains_key(key));
        self.unread.retain(|key| plan.sources.contains_key(key));
        self.plan = Some(plan);
        true
    }

    /// The original was read.
    pub(crate) fn on_read(&mut self, key: &Key, version: String, content: Content) {
        self.busy.remove(key);
        let before = self.contents.remove(key);
        let is_same = before.as_ref().is_some_and(|before| before.now.hash == content.hash);
        let contents = match before {
            Some(before) if is_same => Contents { version, ..before },
            before => Contents { version, now: Arc::new(content), before: before.map(|before| before.now) },
        };
        self.contents.insert(key.clone(), contents);
        let Some(plan) = &self.plan else { return };
        if plan
            .sources
            .get(key)
            .is_some_and(|source| self.contents.get(key).is_some_and(|it| it.version == source.version))
        {
            self.unread.remove(key);
        }
        if !is_same {
            self.due.extend(plan.namespaces.iter().map(|namespace| (namespace.clone(), key.1.clone())));
        }
    }

    /// Whether it is new.
    pub(crate) fn on_written(&mut self, key: &Key, live: Live) -> bool {
        self.busy.remove(key);
        // What was wanted may have changed meanwhile.
        self.due.insert(key.clone());
        let known = self.live.get(key).filter(|known| known.uid == live.uid);
        let is_new = known.is_none();
        if known.is_none_or(|known| known.version <= live.version) {
            self.live.insert(key.clone(), live);
        }
        is_new
    }

    /// There is nothing more to do for it, or it may be tried again.
    pub(crate) fn on_end(&mut self, key: &Key) {
        self.busy.remove(key);
    }

    /// It is tried again after [`Book::on_end`].
    pub(crate) fn on_failed(&mut self, key: &Key, is_read: bool) {
        if is_read {
            self.unread.insert(key.clone());
        } else {
            self.due.insert(key.clone());
        }
    }

    /// What is begun next, if there is anything.
    pub(crate) fn next(&mut self) -> Option<(Key, Job)> {
        if !self.is_whole {
            return None;
        }
        let plan = self.plan.as_ref()?;
        if let Some(key) = self.unread.iter().find(|key| !self.busy.contains(*key)).cloned() {
            let version = plan.sources.get(&key).map(|source| source.version.clone()).unwrap_or_default();
            self.unread.remove(&key);
            self.busy.insert(key.clone());
            return Some((key, Job::Read { version }));
        }
        loop {
            let key = self.due.iter().find(|key| !self.busy.contains(*key)).cloned()?;
            self.due.remove(&key);
            if let Some(job) = self.job(&key) {
                self.busy.insert(key.clone());
                return Some((key, job));
            }
        }
    }

    fn job(&self, key: &Key) -> Option<Job> {
        let live = self.live.get(key);
        match (self.wanted(key), live) {
            (Course::Removed, Some(live)) => Some(Job::Delete { uid: live.uid.clone() }),
            (Course::Removed | Course::Kept, _) => None,
            (Course::Copied, live) => {
                let source = self.source(key)?;
                let contents = self.contents.get(&(source.namespace.clone(), source.name.clone()))?;
                let (content, before) = (contents.now.clone(), contents.before.clone());
                let is_there =
                    live.is_some_and(|live| live.hash.as_ref() == Some(&content.hash) && live.from == source.namespace);
                (!is_there).then(|| Job::Write { content, before, live: live.cloned() })
            }
        }
    }

    fn wanted(&self, key: &Key) -> Course {
        let Some(plan) = &self.plan else { return Course::Kept };
        if self.source(key).is_some() {
            return Course::Copied;
        }
        let own = self.live.get(key).and_then(|live| plan.sources.get(&(live.from.clone(), key.1.clone())));
        match own.map(|source| source.course_in(&key.0, &plan.rules)) {
            Some(Course::Kept) => Course::Kept,
            _ => Course::Removed,
        }
    }

    /// Whose copy there is to be: that whose copy there is, if it is one of several.
    fn source(&self, (namespace, name): &Key) -> Option<&Source> {
        let plan = self.plan.as_ref().filter(|plan| plan.namespaces.contains(namespace))?;
        // There is an operator of that name.
        if plan.originals.contains(&(namespace.clone(), name.clone())) {
            return None;
        }
        let of = |from: &String| plan.sources.get(&(from.clone(), name.clone()));
        let is_copied = |source: &&Source| source.course_in(namespace, &plan.rules) == Course::Copied;
        let own = self.live.get(&(namespace.clone(), name.clone())).and_then(|live| of(&live.from)).filter(is_copied);
        own.or_else(|| self.named.get(name)?.iter().filter_map(of).find(is_copied))
    }

    /// The copies of an original, in these namespaces.
    pub(crate) fn of<'a>(&self, original: &Key, namespaces: impl Iterator<Item = &'a String>) -> Copies {
        let mut copies = Copies::default();
        for namespace in namespaces {
            let key = (namespace.clone(), original.1.clone());
            if let Some(live) = self.live.get(&key).filter(|live| live.from == original.0) {
                copies.uids.insert(namespace.clone(), live.uid.clone());
            } else if self.is_taken(&key, original) {
                copies.taken.insert(namespace.clone());
            }
        }
        copies
    }

    /// Whether another operator of the name is there, or a copy of another one, which stays.
    fn is_taken(&self, key: &Key, original: &Key) -> bool {
        let is_original = self.plan.as_ref().is_some_and(|plan| key != original && plan.originals.contains(key));
        is_original || self.source(key).is_some_and(|source| source.namespace != original.0)
    }

    /// Whether an operator may wait for this copy, by which it owns what it is given there: one that works for some namespaces does. Those
    /// for all namespaces have many copies, and need none of them.
    pub(crate) fn is_awaited(&self, key: &Key) -> bool {
        let source = self.live.get(key).zip(self.plan.as_ref());
        let source = source.and_then(|(live, plan)| plan.sources.get(&(live.from.clone(), key.1.clone())));
        source.is_none_or(|source| source.targets != Targets::All)
    }

    /// Whether it has copies in other namespaces than these. `None` before all of them are known.
    pub(crate) fn has_copies(&self, original: &Key, protected: &BTreeSet<String>) -> Option<bool> {
        let mut of_others = self.live.iter().filter(|((namespace, _), _)| !protected.contains(namespace));
        let found = || of_others.any(|((_, name), live)| *name == original.1 && live.from == original.0);
        self.is_whole.then(found)
    }

    /// `None` before all of them are known, and as long as it is not known what they have to be.
    pub(crate) fn outstanding(&self) -> Option<Outstanding> {
        let plan = self.plan.as_ref().filter(|_| self.is_whole && self.unread.is_empty())?;
        let mut found = Outstanding::default();
        for key in self.due.iter().chain(&self.busy).filter(|key| !plan.originals.contains(*key)) {
            match (self.wanted(key), self.live.contains_key(key)) {
                (Course::Copied, false) => found.missing = true,
                (Course::Removed, true) => found.unexpected = true,
                _ => {}
            }
            if found.missing && found.unexpected {
                break;
            }
        }
        Some(found)
    }
}
