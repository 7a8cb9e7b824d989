//! What is done for a ClusterServiceVersion: one step from phase to phase, by what the cluster has at that moment. Whatever happens
//! in between, the next look begins with what there is then.

mod account;
pub(crate) mod apis;
pub(crate) mod chain;
pub(crate) mod compatibility;
pub(crate) mod component;
pub(crate) mod condition;
pub(crate) mod copies;
pub(crate) mod definition;
pub(crate) mod deployment;
pub(crate) mod differing;
pub(crate) mod given;
pub(crate) mod group;
mod identity;
pub(crate) mod labels;
mod mode;
pub(crate) mod object;
mod phase;
pub(crate) mod requirements;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod room;
pub(crate) mod serving;
pub(crate) mod settled;
mod state;
pub(crate) mod tenancy;
pub(crate) mod turn;
pub(crate) mod unlabelled;

use crate::olm::api::cluster_service_version::{ClusterServiceVersion, ClusterServiceVersionStatus, Phase, reason};
use crate::olm::api::keys::CLEANUP_FINALIZER;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::{OperatorGroup, UpgradeStrategy};
use deployment::Live;
use deployment::config::{Proxy, Subscriber};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use phase::Turn;
pub(crate) use phase::is_of_group;
use requirements::World;
use serde_json::{Value, json};
use serving::{certificate, conversion};
pub(crate) use state::State;
use std::collections::BTreeMap;

/// An OperatorGroup, and the namespaces that it selects.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    pub object: &'a OperatorGroup,
    pub targets: Vec<String>,
}

/// What its OperatorGroup means for a ClusterServiceVersion.
#[derive(Clone, Debug)]
pub(crate) struct Tenant<'a> {
    pub apis: tenancy::Verdict,
    /// Those that can be written into.
    pub namespaces: &'a group::Namespaces,
    pub copies: copies::book::Copies,
}

impl<'a> Group<'a> {
    /// Namespace and name.
    pub(crate) fn id(&self) -> (&'a str, &'a str) {
        let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        (text(&self.object.metadata.namespace), text(&self.object.metadata.name))
    }

    /// Whether it is for all namespaces.
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.targets.as_slice(), [only] if only == mode::ALL)
    }

    /// Whether a version that has failed may be replaced.
    fn fails_forward(&self) -> bool {
        self.object.spec.upgrade_strategy == UpgradeStrategy::TechPreviewUnsafeFailForward
    }
}

/// What a decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub csv: &'a ClusterServiceVersion,
    /// All of its namespace by name, itself among them; without copies.
    pub siblings: &'a BTreeMap<&'a str, &'a ClusterServiceVersion>,
    /// Those of its namespace.
    pub groups: &'a [Group<'a>],
    pub tenant: &'a Tenant<'a>,
    pub world: &'a World<'a>,
    /// Those of its namespace by name.
    pub deployments: &'a BTreeMap<&'a str, &'a Live>,
    /// Subscriptions of its namespace.
    pub subscribers: &'a [Subscriber],
    /// That of the cluster.
    pub proxy: &'a Proxy,
    /// Those of its namespace by name.
    pub conditions: &'a BTreeMap<&'a str, &'a OperatorCondition>,
    /// Why Deployments of its namespace cannot be written, by name.
    pub failing: &'a BTreeMap<String, String>,
    /// Those of the whole cluster.
    pub components: &'a component::Known,
    /// Why objects cannot be written, by kind and name.
    pub refused: &'a BTreeMap<String, String>,
    /// Secrets of its namespace by name, with which Deployments serve.
    pub certificates: &'a BTreeMap<String, certificate::Known>,
}

impl Facts<'_> {
    /// Why the first of these objects cannot be written that cannot.
    fn refused_of(&self, mut names: impl Iterator<Item = String>) -> Option<String> {
        names.find_map(|name| self.refused.get(&name)).cloned()
    }
}

/// What is done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// A merge patch of the object: what comes before all else, so that the rest is decided by what it has then.
    pub patch: Option<Value>,
    /// What it becomes, one after the other, and the status that says so.
    pub status: Option<(Vec<State>, Box<ClusterServiceVersionStatus>)>,
    pub deployments: Vec<deployment::Write>,
    /// Objects beside Deployments.
    pub components: Vec<component::Write>,
    pub certificates: Vec<certificate::Step>,
    pub conversions: Vec<conversion::Write>,
    /// The object itself is deleted.
    pub delete: bool,
    /// Another one takes its place from now on.
    pub is_replaced: bool,
    /// When to look again although nothing has changed.
    pub next: Option<Timestamp>,
}

impl Decision {
    /// Whether nothing is written.
    fn is_nothing(&self) -> bool {
        *self == Decision { next: self.next, ..Decision::default() }
    }
}

/// So many steps are told by one write at most.
const TOLD_TOGETHER: usize = 4;
/// What a new version lacks is told only once it has been waited for so long: most of it is on its way.
const LACKS: SignedDuration = SignedDuration::from_secs(2);
/// How long it is taken for being installed.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(10);

/// Decides for one ClusterServiceVersion. Steps between which nothing else is written are told by one write, and its status remembers
/// each of them.
pub(crate) fn decide(facts: &Facts<'_>, now: Timestamp) -> Decision {
    let mut decision = step(facts, now);
    for _ in 1..TOLD_TOGETHER {
        let Some((states, status)) = decision.status.as_mut().filter(|(states, _)| is_told_with_next(states)) else {
            break;
        };
        let csv = ClusterServiceVersion { status: Some((**status).clone()), ..facts.csv.clone() };
        let mut siblings = facts.siblings.clone();
        siblings.insert(csv.metadata.name.as_deref().unwrap_or_default(), &csv);
        let mut next = step(&Facts { csv: &csv, siblings: &siblings, ..*facts }, now);
        let Some((more, after)) = next.status.take().filter(|_| next.is_nothing()) else { break };
        states.extend(more);
        *status = after;
        decision.next = next.next;
    }
    held_back(facts.csv, decision, now)
}

/// Whether another step may follow before it is written that it has come to this.
fn is_told_with_next(states: &[State]) -> bool {
    states.last().is_some_and(|state| matches!(state.phase, Phase::Pending | Phase::InstallReady))
}

/// A version that has only been created is not said to lack what the plan that brings it writes after it.
fn held_back(csv: &ClusterServiceVersion, decision: Decision, now: Timestamp) -> Decision {
    let states = decision.status.iter().flat_map(|(states, _)| states);
    let lacks = states.last().is_some_and(|state| state.reason == reason::REQUIREMENTS_NOT_MET);
    let created = csv.metadata.creation_timestamp.as_ref().map(|time| time.0);
    match created.and_then(|created| on_its_way((created, LACKS), now)).filter(|_| is_new(csv) && lacks) {
        Some(until) => Decision { next: Some(until), ..Decision::default() },
        None => decision,
    }
}

/// The end of a time that has begun, unless it has passed.
fn on_its_way((since, long): (Timestamp, SignedDuration), now: Timestamp) -> Option<Timestamp> {
    let until = since.checked_add(long).ok()?;
    // Clocks may differ.
    (now < until && since.duration_since(now) <= long).then_some(until)
}

/// Decides for one ClusterServiceVersion, no more than one step.
fn step(facts: &Facts<'_>, now: Timestamp) -> Decision {
    let csv = facts.csv;
    let none = ClusterServiceVersionStatus::default();
    let known = csv.status.as_ref().unwrap_or(&none);
    let before = state::in_time(known.clone(), now);
    if csv.metadata.deletion_timestamp.is_some() {
        return end(facts);
    }
    if before.reason == reason::COMPONENT_FAILED_NO_RETRY {
        return revived(facts, &before, now);
    }
    if let Some(patch) = identity::patch(csv, facts.groups, facts.subscribers) {
        return Decision { patch: Some(patch), ..Decision::default() };
    }
    let (turn, of_groups) = match identity::check(csv, facts.groups) {
        Err(state) => (Turn::to(state), Vec::new()),
        Ok(group) => match &facts.tenant.apis {
            // Its group is written first.
            tenancy::Verdict::Waits => return Decision::default(),
            tenancy::Verdict::Refused(state) => (phase::expelled(facts, state.clone()), Vec::new()),
            tenancy::Verdict::Free => member(facts, group, &before, now),
        },
    };
    let Turn {
        state,
        requirements,
        writes,
        mut components,
        certificates,
        conversions,
        rotation,
        delete,
        is_replaced,
        next,
    } = turn;
    let state = state.filter(|state| !state.is(&before));
    let mut after = state.as_ref().map_or_else(|| before.clone(), |state| state.told(&before, now));
    if let Some(lines) = requirements {
        after.requirement_status = lines;
    }
    if let Some(at) = rotation.filter(|at| after.certs_rotate_at.as_ref().map(|known| known.0) != Some(*at)) {
        after.certs_rotate_at = Some(Time(at));
        after.certs_last_updated = Some(Time(now));
    }
    let status = (after != *known).then(|| (state.into_iter().collect(), Box::new(after)));
    // What it is has to be written before it is acted upon, so that a process that ends in between goes on at the same place.
    components.extend(of_groups);
    let patch = None;
    Decision { patch, status, deployments: writes, components, certificates, conversions, delete, is_replaced, next }
}

/// For a member of a group.
fn member(
    facts: &Facts<'_>,
    group: &Group<'_>,
    before: &ClusterServiceVersionStatus,
    now: Timestamp,
) -> (Turn, Vec<component::Write>) {
    let given = given::look(facts.csv, group, (facts.tenant, facts.components), facts.world.rights);
    let mut turn = phase::turn(facts, (group, &given), before, now);
    // What runs has its rights everywhere from the beginning.
    let is_ready = turn.state.as_ref().is_some_and(|state| state.phase == Phase::InstallReady);
    if before.phase == Phase::Pending && is_ready && !given.is_complete() {
        turn.state = given.hindrance().map(|why| State::pending(reason::REQUIREMENTS_NOT_MET, why));
    }
    match component::writes(given.wanted, given.surplus, facts.components) {
        Ok(writes) => (turn, writes),
        Err(error) => (phase::component_refused(&error), Vec::new()),
    }
}

/// Until when it counts as one that is being installed, unless that has passed or it is none. One that takes longer waits for something
/// that may never come.
pub(crate) fn is_under_way(csv: &ClusterServiceVersion, now: Timestamp) -> Option<Timestamp> {
    let status = csv.status.as_ref().filter(|it| matches!(it.phase, Phase::InstallReady | Phase::Installing))?;
    on_its_way((status.last_transition_time.as_ref()?.0, UNDER_WAY), now)
}

/// Whether it has only been created, so that nothing has been done for it.
pub(crate) fn is_new(csv: &ClusterServiceVersion) -> bool {
    csv.metadata.deletion_timestamp.is_none() && csv.status.as_ref().is_none_or(|status| status.phase == Phase::None)
}

/// Whether it belongs to a group that fits.
pub(crate) fn is_member(csv: &ClusterServiceVersion, groups: &[Group<'_>]) -> bool {
    identity::check(csv, groups).is_ok()
}

/// What failed for want of rights goes on once they are there, or nobody asks for them any more.
fn revived(facts: &Facts<'_>, before: &ClusterServiceVersionStatus, now: Timestamp) -> Decision {
    if account::hindrance(facts).is_some() {
        return Decision::default();
    }
    let state = State::pending(reason::DETECTED_CLUSTER_CHANGE, "Cluster resources changed state");
    let status = Box::new(state.told(before, now));
    Decision { status: Some((vec![state], status)), ..Decision::default() }
}

/// The object as if it had been marked as one that is looked after.
pub(crate) fn identified(csv: &ClusterServiceVersion, groups: &[Group<'_>]) -> ClusterServiceVersion {
    let Some(patch) = identity::patch(csv, groups, &[]) else { return csv.clone() };
    let mut csv = csv.clone();
    let texts = |key: &str| {
        let texts = patch.pointer(&format!("/metadata/{key}")).and_then(Value::as_object).into_iter().flatten();
        texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect::<Vec<_>>()
    };
    csv.metadata.annotations.get_or_insert_default().extend(texts("annotations"));
    csv.metadata.labels.get_or_insert_default().extend(texts("labels"));
    csv
}

/// Why it will not be installed, whatever there is that it requires.
pub(crate) fn obstacle(csv: &ClusterServiceVersion, groups: &[Group<'_>]) -> Option<String> {
    let of_group = identity::check(csv, groups).err().map(|state| state.message);
    of_group.or_else(|| serving::obstacle(csv))
}

/// Why the operator with this condition must not be replaced now.
pub(crate) fn hindrance(condition: &OperatorCondition) -> Option<String> {
    chain::hindrance(condition)
}

/// It is being deleted: what belongs to it and has no namespace goes first.
fn end(facts: &Facts<'_>) -> Decision {
    let metadata = &facts.csv.metadata;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|it| it == CLEANUP_FINALIZER) {
        return Decision::default();
    }
    let (left, conversions) = serving::ends(facts);
    if !left.is_empty() || !conversions.is_empty() {
        let components = left.into_iter().filter_map(|(id, live)| component::delete(id, live)).collect();
        return Decision { components, conversions, ..Decision::default() };
    }
    let others: Vec<&String> = finalizers.iter().filter(|it| *it != CLEANUP_FINALIZER).collect();
    let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "finalizers": others}});
    Decision { patch: Some(patch), ..Decision::default() }
}

#[cfg(test)]
mod tests;
