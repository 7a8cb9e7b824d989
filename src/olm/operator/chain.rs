//! Which ClusterServiceVersions of a namespace replace each other, and whether one may be replaced now.

use crate::object::condition::ConditionStatus;
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase, reason};
use crate::olm::api::operator_condition::{OperatorCondition, UPGRADEABLE};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

type Siblings<'a> = BTreeMap<&'a str, &'a ClusterServiceVersion>;

fn name(csv: &ClusterServiceVersion) -> &str {
    csv.metadata.name.as_deref().unwrap_or_default()
}

/// The one that it replaces, if there is one. That it names itself has no meaning.
pub(crate) fn predecessor<'a>(
    csv: &ClusterServiceVersion,
    siblings: &Siblings<'a>,
) -> Option<&'a ClusterServiceVersion> {
    let replaced = csv.spec.replaces.as_str();
    siblings.get(replaced).copied().filter(|_| replaced != name(csv))
}

/// The one that replaces it: the first by name, if there are several.
pub(super) fn successor<'a>(csv: &ClusterServiceVersion, siblings: &Siblings<'a>) -> Option<&'a ClusterServiceVersion> {
    let own = name(csv);
    siblings.values().copied().find(|it| it.spec.replaces == own && name(it) != own)
}

/// Those that replace it, one after the other. Where they come round to it, it is the last one.
fn successors<'a>(
    csv: &ClusterServiceVersion,
    siblings: &Siblings<'a>,
) -> impl Iterator<Item = &'a ClusterServiceVersion> {
    let own = name(csv);
    let next = move |at: &&'a ClusterServiceVersion| successor(at, siblings).filter(|_| name(at) != own);
    std::iter::successors(successor(csv, siblings), next)
}

/// One that replaces it, directly or not, and runs; or else the one that replaces it.
pub(super) fn heir<'a>(csv: &ClusterServiceVersion, siblings: &Siblings<'a>) -> Option<&'a ClusterServiceVersion> {
    let runs = |it: &&ClusterServiceVersion| it.status.as_ref().is_some_and(|it| it.phase == Phase::Succeeded);
    successors(csv, siblings).find(runs).or_else(|| successor(csv, siblings))
}

/// The last one that replaces it, directly or not.
pub(super) fn last<'a>(csv: &ClusterServiceVersion, siblings: &Siblings<'a>) -> Option<&'a ClusterServiceVersion> {
    successors(csv, siblings).last()
}

/// One that replaces it, directly or not, and has begun to install the Deployments of the operator: both would change them back for
/// ever. What it replaces itself does not count.
pub(super) fn taken_by<'a>(csv: &ClusterServiceVersion, siblings: &Siblings<'a>) -> Option<&'a ClusterServiceVersion> {
    let earlier = before(csv, siblings);
    successors(csv, siblings).find(|it| !earlier.contains(name(it)) && is_installing(it))
}

/// Whether it writes its Deployments, or would do so if somebody changed them.
fn is_installing(csv: &ClusterServiceVersion) -> bool {
    let Some(status) = csv.status.as_ref().filter(|_| csv.metadata.deletion_timestamp.is_none()) else { return false };
    let of_install = [
        reason::INSTALL_CHECK_FAILED,
        reason::COMPONENT_FAILED,
        reason::COMPONENT_UNHEALTHY,
        reason::API_SERVICE_INSTALL_FAILED,
        reason::API_SERVICE_RESOURCE_ISSUE,
    ];
    match status.phase {
        Phase::InstallReady | Phase::Installing | Phase::Succeeded | Phase::Replacing => true,
        Phase::Failed => of_install.contains(&status.reason.as_str()),
        _ => false,
    }
}

/// Those that it replaces, directly or not, that exist.
pub(crate) fn before<'a>(csv: &ClusterServiceVersion, siblings: &Siblings<'a>) -> BTreeSet<&'a str> {
    let (mut all, mut at) = (BTreeSet::new(), predecessor(csv, siblings));
    while let Some(earlier) = at {
        if !all.insert(name(earlier)) {
            break;
        }
        at = predecessor(earlier, siblings);
    }
    all.remove(name(csv));
    all
}

/// Whether it makes room for another one, or goes.
pub(super) fn is_going(csv: &ClusterServiceVersion) -> bool {
    let phase = csv.status.as_ref().map(|status| &status.phase);
    csv.metadata.deletion_timestamp.is_some() || matches!(phase, Some(Phase::Replacing | Phase::Deleting))
}

/// The one that owns a definition that this one owns too and comes before it, and is neither replaced by it nor replaces it. One that
/// has run comes first, then the older one: of two, one goes on. What replaces another one comes in its place.
pub(super) fn rival<'a>(csv: &ClusterServiceVersion, siblings: &Siblings<'a>) -> Option<(&'a str, String)> {
    let own: BTreeSet<&str> = owned(csv).collect();
    let earlier = before(csv, siblings);
    siblings.iter().find_map(|(other, it)| {
        let is_in_chain = *other == name(csv) || earlier.contains(other) || before(it, siblings).contains(name(csv));
        let shared = owned(it).find(|name| own.contains(name)).filter(|_| !is_in_chain)?;
        (rank(it, siblings) < rank(csv, siblings)).then(|| (*other, shared.to_owned()))
    })
}

type Rank<'a> = (bool, Option<Timestamp>, &'a str);

/// The least one of it and all that it replaces.
fn rank<'a>(csv: &'a ClusterServiceVersion, siblings: &Siblings<'a>) -> Rank<'a> {
    let before = before(csv, siblings).into_iter().filter_map(|name| siblings.get(name)).map(|it| own_rank(it));
    before.fold(own_rank(csv), std::cmp::min)
}

fn own_rank(csv: &ClusterServiceVersion) -> Rank<'_> {
    let created = csv.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (!has_run(csv), created, name(csv))
}

fn has_run(csv: &ClusterServiceVersion) -> bool {
    let status = csv.status.as_ref();
    let phases = status.into_iter().flat_map(|it| it.conditions.iter().map(|it| &it.phase).chain([&it.phase]));
    phases.into_iter().any(|phase| matches!(phase, Phase::Succeeded | Phase::Replacing))
}

fn owned(csv: &ClusterServiceVersion) -> impl Iterator<Item = &str> {
    csv.spec.custom_resource_definitions.owned.iter().map(|it| it.name.as_str())
}

/// Why the operator with this condition must not be replaced now. What the administrator says comes first.
pub(crate) fn hindrance(condition: &OperatorCondition) -> Option<String> {
    let spec = &condition.spec;
    if let Some(said) = spec.overrides.iter().find(|it| it.type_ == UPGRADEABLE) {
        let stops = said.status != ConditionStatus::True;
        return stops.then(|| format!("the operator is not upgradeable: {}", said.message));
    }
    let conditions = condition.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let said = conditions.iter().find(|it| it.type_ == UPGRADEABLE)?;
    if said.observed_generation != condition.metadata.generation {
        return Some(format!("the operatorcondition status {:?}={:?} is outdated", said.type_, said.status));
    }
    (said.status == "False").then(|| format!("the operator is not upgradeable: {}", said.message))
}
