//! Kinds that controllers follow, each as the views that it needs.

use crate::cluster::followed::{Followed, View};
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{Clients, Kind};
use crate::olm::api::keys::label;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What following needs besides the kind.
#[derive(Clone, Copy)]
pub(super) struct Follow<'a> {
    pub clients: &'a Clients,
    pub changed: &'a Arc<Notify>,
    pub stop: &'a CancellationToken,
}

impl Follow<'_> {
    /// For a kind that users write. `namespace`: empty for all.
    pub(super) fn start_each<V: View>(&self, kind: Kind, namespace: &str, selector: Selector) -> Arc<Followed<V>> {
        let selection = Selection::new(kind, namespace, selector);
        Followed::start_each(self.clients, selection, self.changed.clone(), self.stop)
    }

    /// For a kind of which only metadata is read.
    pub(super) fn start_metadata<V: View>(&self, kind: Kind, selector: Selector) -> Arc<Followed<V>> {
        let selection = Selection::new(kind, "", selector).of_metadata();
        Followed::start(self.clients, selection, self.changed.clone(), self.stop.clone())
    }

    pub(super) fn start<V: View>(&self, kind: Kind, namespace: &str, selector: Selector) -> Arc<Followed<V>> {
        // None of the kinds of the platform need be there, and who waits for them need not ask all the time.
        let platform = kind.group.ends_with(".openshift.io");
        let selection = Selection::new(kind, namespace, selector);
        let selection = if platform { selection.optional() } else { selection };
        Followed::start(self.clients, selection, self.changed.clone(), self.stop.clone())
    }
}

/// ClusterServiceVersions that do not have the label of copies. What is a copy without it, [`ClusterServiceVersion::is_copy`] tells: a
/// server cannot select by that.
///
/// [`ClusterServiceVersion::is_copy`]: crate::olm::api::cluster_service_version::ClusterServiceVersion::is_copy
pub(crate) fn originals() -> Selector {
    Selector::Labels(format!("!{}", label::COPIED_FROM))
}

/// Namespace and name of an object that is known as `namespace/name`, or by its name alone.
pub(super) fn id(name: &str) -> (String, String) {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    (namespace.to_owned(), name.to_owned())
}

/// All views by namespace and name, once everything that exists is known.
pub(super) fn by_id<V: View>(followed: &Followed<V>) -> Option<BTreeMap<(String, String), Arc<V>>> {
    Some(followed.all()?.iter().map(|(name, view)| (id(name), view.clone())).collect())
}

/// Something of each view by namespace, in the order of names, once everything that exists is known.
pub(super) fn by_namespace<V: View, T>(
    followed: &Followed<V>,
    of: impl Fn(&Arc<V>) -> T,
) -> Option<BTreeMap<String, Vec<T>>> {
    let mut all: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for (name, view) in &*followed.all()? {
        all.entry(id(name).0).or_default().push(of(view));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So they are in no phase and in no metric.
    #[test]
    fn copies_are_not_followed() {
        let Selector::Labels(labels) = originals() else { panic!("by labels") };
        assert_eq!(labels, "!olm.copiedFrom");
    }
}
