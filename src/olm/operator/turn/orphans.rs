//! APIServices of versions that do not exist: their finalizers have been taken away by hand, or their namespace by force. As long as one
//! of them is registered nobody knows all kinds of the cluster, so that no namespace can be deleted.

use super::{Act, Action, Around, Namespace};
use crate::olm::api::package_manifest;
use crate::olm::operator::component::{self, Id, Kind, Owner};
use std::collections::BTreeSet;

/// The kind of owner that counts.
const OWNER: &str = "ClusterServiceVersion";

/// Those of versions that are nowhere go, where all versions are known.
pub(super) fn end(namespaces: &[Namespace<'_>], around: Around<'_>, act: &mut Act<'_>) {
    let known = around.components;
    let mut orphans = known.of_kind(OWNER).filter(|id| id.kind == Kind::ApiService && !is_of_packages(id)).peekable();
    // Most clusters have none.
    if !around.has_all_csvs || orphans.peek().is_none() {
        return;
    }
    let owners: BTreeSet<Owner> =
        namespaces.iter().flat_map(|it| it.csvs.values()).map(|csv| Owner::csv(csv)).collect();
    let orphans = orphans.filter(|id| known.owner(id).is_some_and(|owner| !owners.contains(&owner)));
    let writes = orphans.filter_map(|id| component::delete(id, known.get(id)?));
    writes.for_each(|write| act(Action::Component(write)));
}

/// This program answers for that one. Where it has taken the place of another implementation, whose version has been deleted, the labels
/// still name that.
fn is_of_packages(id: &Id) -> bool {
    id.name == format!("v1.{}", package_manifest::GROUP)
}
