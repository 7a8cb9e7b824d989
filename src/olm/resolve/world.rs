//! What the resolution of a namespace starts from: its Subscriptions, what is installed, and the catalogs that it sees.

use super::constraint::{Constraint, Demand};
use super::operator::Operator;
use super::package::Package;
use super::rule::ClusterVersions;
use super::shared::Packages;
use crate::olm::catalog::index;
use crate::olm::catalog::served::Content;
use crate::olm::names::property::LABEL;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct World {
    pub namespace: String,
    /// Those that the namespace sees.
    pub catalogs: Vec<Catalog>,
    /// The operators of ClusterServiceVersions that are no copies.
    pub installed: Vec<Arc<Operator>>,
    pub subscriptions: Vec<Subscription>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub name: String,
    pub package: String,
    /// Empty: any, the default channel first.
    pub channel: String,
    /// Namespace and name.
    pub catalog: (String, String),
    /// Others that the namespace sees may stand in for it.
    pub other_catalogs: bool,
    /// Counts while nothing is installed for it. Empty if there is none.
    pub starting_csv: String,
    /// Empty if there is none.
    pub installed_csv: String,
    /// What is installed is not ready, so that nothing can follow it yet.
    pub waits: bool,
}

/// A catalog and its packages, each of which is read once.
pub(crate) struct Catalog {
    pub namespace: String,
    pub name: String,
    pub priority: i64,
    content: Arc<Content>,
    cluster: ClusterVersions,
    packages: RefCell<BTreeMap<String, Option<Arc<Package>>>>,
    /// Constraints that all packages were asked for, and those that meet them.
    asked: RefCell<Vec<(Constraint, Vec<Arc<Package>>)>>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("namespace", &self.namespace).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Catalog {
    pub(crate) fn new(
        (namespace, name): (&str, &str),
        priority: i64,
        content: Arc<Content>,
        cluster: &ClusterVersions,
    ) -> Self {
        let [namespace, name] = [namespace, name].map(ToOwned::to_owned);
        Catalog {
            namespace,
            name,
            priority,
            content,
            cluster: cluster.clone(),
            packages: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    /// With a package that a catalog would not be served with.
    #[cfg(test)]
    pub(crate) fn with(self, package: Package) -> Self {
        self.packages.borrow_mut().insert(package.name.clone(), Some(Arc::new(package)));
        self
    }

    /// A bundle as its catalog has it.
    pub(crate) fn bundle(&self, package: &str, name: &str) -> Option<index::Bundle<'_>> {
        self.content.index.package(package)?.bundle(name)
    }

    /// The package with a bundle of this name.
    pub(crate) fn package_of(&self, bundle: &str) -> Option<Arc<Package>> {
        let found = self.content.index.bundles().find(|it| it.name() == bundle)?;
        self.package(found.package()?.name())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.content.index.counts().bundles == 0
    }

    pub(crate) fn package(&self, name: &str) -> Option<Arc<Package>> {
        if let Some(known) = self.packages.borrow().get(name) {
            return known.clone();
        }
        let read = || self.content.index.package(name).map(|package| Arc::new(Package::of(package, &self.cluster)));
        let read = match self.content.beside::<Packages>() {
            Some(packages) => packages.get(name, &self.cluster, read),
            None => read(),
        };
        self.packages.borrow_mut().insert(name.to_owned(), read.clone());
        read
    }

    /// The packages with a bundle that meets a constraint, by name.
    pub(crate) fn that_meet(&self, constraint: &Constraint) -> Vec<Arc<Package>> {
        let index = &self.content.index;
        let meets =
            |package: &Arc<Package>| package.channels.values().flatten().any(|entry| entry.operator.meets(constraint));
        match narrowed(index, constraint) {
            Some(names) => names.iter().filter_map(|name| self.package(name)).filter(meets).collect(),
            None => {
                self.ask(&[constraint], &AtomicBool::new(false));
                let asked = self.asked.borrow();
                asked.iter().find(|(known, _)| known == constraint).map(|(_, found)| found.clone()).unwrap_or_default()
            }
        }
    }

    /// How many bundles have to be asked for this constraint, since any of them may meet it and nobody has asked yet.
    pub(crate) fn to_ask(&self, constraint: &Constraint) -> usize {
        let is_known = || self.asked.borrow().iter().any(|(known, _)| known == constraint);
        if is_narrow(constraint) || is_known() { 0 } else { self.content.index.counts().bundles }
    }

    /// Asks all packages for constraints that any of them may meet. Each package is read once for all of them, and is not kept if it
    /// meets none, which takes no memory for long. Once `cancelled` nobody wants the answer any more.
    pub(crate) fn ask(&self, constraints: &[&Constraint], cancelled: &AtomicBool) {
        let open = constraints.iter().filter(|it| self.to_ask(it) > 0);
        let mut asked: Vec<(Constraint, Vec<Arc<Package>>)> = open.map(|it| ((*it).clone(), Vec::new())).collect();
        if asked.is_empty() {
            return;
        }
        for package in self.content.index.packages() {
            if cancelled.load(Ordering::Relaxed) {
                break;
            }
            let known = self.packages.borrow().get(package.name()).cloned().flatten();
            let package = known.unwrap_or_else(|| Arc::new(Package::of(package, &self.cluster)));
            for (constraint, found) in &mut asked {
                if package.channels.values().flatten().any(|entry| entry.operator.meets(constraint)) {
                    self.packages.borrow_mut().insert(package.name.clone(), Some(package.clone()));
                    found.push(package.clone());
                }
            }
        }
        self.asked.borrow_mut().extend(asked);
    }
}

/// Whether the index says which packages may have a bundle that meets the constraint.
fn is_narrow(constraint: &Constraint) -> bool {
    match &constraint.demand {
        Demand::Api(_) | Demand::Package { .. } | Demand::Label(_) => true,
        Demand::All(all) => all.iter().any(is_narrow),
        Demand::Any(any) => any.iter().all(is_narrow),
        Demand::Cel(_) | Demand::Not(_) => false,
    }
}

/// Names of the packages that may have a bundle which meets the constraint. `None` if all may.
fn narrowed(index: &index::Index, constraint: &Constraint) -> Option<BTreeSet<String>> {
    let of = |bundle: index::Bundle<'_>| bundle.package().map(|package| package.name().to_owned());
    match &constraint.demand {
        Demand::Api(api) => {
            let api = index::Api { group: &api.group, version: &api.version, kind: &api.kind };
            Some(index.providing(api).filter_map(of).collect())
        }
        Demand::Package { name, .. } => Some([name.clone()].into()),
        Demand::Label(_) => {
            let has_labels = |it: &index::Bundle<'_>| it.properties().any(|property| property.kind() == LABEL);
            Some(index.bundles().filter(has_labels).filter_map(of).collect())
        }
        Demand::All(all) => all.iter().filter_map(|it| narrowed(index, it)).reduce(|a, b| &a & &b),
        Demand::Any(any) => {
            let each: Option<Vec<_>> = any.iter().map(|it| narrowed(index, it)).collect();
            Some(each?.into_iter().flatten().collect())
        }
        Demand::Cel(_) | Demand::Not(_) => None,
    }
}
