//! ClusterServiceVersions as namespaces see them: their own ones, and copies of those whose operators work for them, whether somebody has
//! written these or not.

use super::book::Key;
use super::{Course, Rules, Source, annotations, labels};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What there is in the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    originals: BTreeMap<Key, Arc<ClusterServiceVersion>>,
    /// Those that are copied by their names, in the order of their namespaces.
    copied: BTreeMap<String, Vec<Source>>,
    /// All names that are taken in a namespace, also by originals that cannot be read.
    taken: BTreeSet<Key>,
    /// Those that could be written into.
    namespaces: BTreeSet<String>,
    rules: Rules,
}

/// One of them in a namespace.
#[derive(Clone, Debug)]
pub(crate) struct ShownCsv {
    pub namespace: String,
    /// It is that itself if that is in the namespace.
    pub original: Arc<ClusterServiceVersion>,
}

impl Shown {
    /// `unread`: originals that cannot be read. `rules` say where copies are not seen either; that they are not written is nothing to that.
    pub(crate) fn new(
        originals: BTreeMap<Key, Arc<ClusterServiceVersion>>,
        unread: impl IntoIterator<Item = Key>,
        namespaces: BTreeSet<String>,
        rules: Rules,
        now: Timestamp,
    ) -> Shown {
        let mut copied: BTreeMap<String, Vec<Source>> = BTreeMap::new();
        // What passes in a moment is seen too: nothing is written for it.
        let sources = originals.values().filter_map(|csv| Source::of(csv, now));
        for source in sources.filter(|source| source.course == Course::Copied) {
            copied.entry(source.name.clone()).or_default().push(source);
        }
        let taken = originals.keys().cloned().chain(unread).collect();
        Shown { originals, copied, taken, namespaces, rules: Rules { is_virtual: false, ..rules } }
    }

    /// The one of this name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<ShownCsv> {
        let key = (namespace.to_owned(), name.to_owned());
        let seen = |original: &Arc<ClusterServiceVersion>| ShownCsv {
            namespace: namespace.to_owned(),
            original: original.clone(),
        };
        if self.taken.contains(&key) {
            return self.originals.get(&key).map(seen);
        }
        if !self.namespaces.contains(namespace) {
            return None;
        }
        let is_seen = |source: &&Source| source.course_in(namespace, &self.rules) == Course::Copied;
        let source = self.copied.get(name)?.iter().find(is_seen)?;
        self.originals.get(&(source.namespace.clone(), source.name.clone())).map(seen)
    }

    /// All that a namespace sees, in the order of their names.
    pub(crate) fn within(&self, namespace: &str) -> Vec<ShownCsv> {
        let from = (namespace.to_owned(), String::new());
        let own = self.originals.range(from..).take_while(|((of, _), _)| of == namespace);
        let names: BTreeSet<&String> = own.map(|((_, name), _)| name).chain(self.copied.keys()).collect();
        names.into_iter().filter_map(|name| self.get(namespace, name)).collect()
    }

    /// Namespaces that may see some, in the order of their names, beginning with this one.
    pub(crate) fn namespaces(&self, from: &str) -> BTreeSet<&str> {
        let of_originals = self.originals.keys().map(|(namespace, _)| namespace);
        let all = self.namespaces.iter().chain(of_originals).map(String::as_str);
        all.filter(|namespace| *namespace >= from).collect()
    }
}

impl ShownCsv {
    pub(crate) fn name(&self) -> &str {
        self.original.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_copy(&self) -> bool {
        self.home() != self.namespace
    }

    /// The namespace of the original.
    fn home(&self) -> &str {
        self.original.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let own = self.original.metadata.labels.clone().unwrap_or_default();
        if self.is_copy() { labels(own, self.home()) } else { own }
    }

    /// A copy that nobody has written has neither a uid nor a resourceVersion, and is as old as its original.
    pub(crate) fn metadata(&self) -> ObjectMeta {
        let original = &self.original.metadata;
        if !self.is_copy() {
            return ObjectMeta { managed_fields: None, ..original.clone() };
        }
        ObjectMeta {
            name: original.name.clone(),
            namespace: Some(self.namespace.clone()),
            creation_timestamp: original.creation_timestamp.clone(),
            labels: Some(self.labels()),
            annotations: Some(annotations(original.annotations.clone().unwrap_or_default())),
            ..ObjectMeta::default()
        }
    }
}
