//! Packages that were read for one answer and serve the next ones: namespaces ask for much the same, and reading is most of the work.

use super::package::Package;
use super::rule::ClusterVersions;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packages of more bundles together are not kept.
const BUNDLES: usize = 1_000;

/// Those of a catalog.
#[derive(Default)]
pub(super) struct Packages(Mutex<Read>);

#[derive(Default)]
struct Read {
    /// What rules see of the cluster is in them.
    cluster: ClusterVersions,
    packages: BTreeMap<String, Arc<Package>>,
    bundles: usize,
}

impl Packages {
    fn lock(&self) -> MutexGuard<'_, Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `read`: reads the package, if there is one. Others read meanwhile.
    pub(super) fn get(
        &self,
        name: &str,
        cluster: &ClusterVersions,
        read: impl FnOnce() -> Option<Arc<Package>>,
    ) -> Option<Arc<Package>> {
        {
            let mut known = self.lock();
            if known.cluster != *cluster {
                *known = Read { cluster: cluster.clone(), ..Read::default() };
            }
            if let Some(package) = known.packages.get(name) {
                return Some(package.clone());
            }
        }
        let package = read()?;
        self.keep(&package, cluster);
        Some(package)
    }

    /// Where there is no room all others go: what is asked for comes back.
    fn keep(&self, package: &Arc<Package>, cluster: &ClusterVersions) {
        let bundles = package.channels.values().map(Vec::len).sum::<usize>();
        let mut known = self.lock();
        if bundles > BUNDLES || known.cluster != *cluster {
            return;
        }
        if known.bundles + bundles > BUNDLES {
            *known = Read { cluster: cluster.clone(), ..Read::default() };
        }
        if known.packages.insert(package.name.clone(), package.clone()).is_none() {
            known.bundles += bundles;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With so many entries in its channel.
    fn package(name: &str, bundles: usize) -> Arc<Package> {
        let entries = vec!["v1"; bundles];
        Arc::new(Package { name: name.to_owned(), ..super::super::package::tests::package(&entries) })
    }

    fn cluster(release: &str) -> ClusterVersions {
        ClusterVersions { release: release.to_owned(), ..ClusterVersions::default() }
    }

    #[test]
    fn package_is_read_once_for_all_answers_and_anew_for_another_version_of_the_cluster() {
        let all = Packages::default();
        let first = package("a", 2);
        let unread = || -> Option<Arc<Package>> { panic!("it is read again") };
        assert!(all.get("none", &cluster("1"), || None).is_none());
        let found = all.get("a", &cluster("1"), || Some(first.clone())).unwrap();
        let again = all.get("a", &cluster("1"), unread).unwrap();
        assert!(Arc::ptr_eq(&found, &first) && Arc::ptr_eq(&again, &first));
        let other = all.get("a", &cluster("2"), || Some(package("a", 2))).unwrap();
        assert!(!Arc::ptr_eq(&other, &first));
    }

    #[test]
    fn no_more_bundles_are_kept_than_there_is_room_for() {
        let (all, one) = (Packages::default(), cluster("1"));
        let read = |name: &str, bundles: usize| {
            let mut was_read = false;
            all.get(name, &one, || {
                was_read = true;
                Some(package(name, bundles))
            });
            was_read
        };
        assert_eq!([read("a", 600), read("a", 600), read("b", 400), read("a", 600)], [true, false, true, false]);
        assert_eq!([read("c", 1), read("b", 400)], [true, true], "those before have gone");
        assert_eq!([read("huge", 1_001), read("huge", 1_001), read("b", 400)], [true, true, false]);
    }
}
