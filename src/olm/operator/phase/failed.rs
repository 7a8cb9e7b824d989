//! What has failed: whether it has come to life again, and from where it is tried again.

use super::{
    Turn, api_failed, bring, check_failed, component_failed, conflict, failure, installed, look, refused, reinstall,
    replaced_by, taken, with_serving, with_strategy,
};
use crate::olm::api::cluster_service_version::{ClusterServiceVersionStatus, reason};
use crate::olm::operator::deployment::Health;
use crate::olm::operator::given::Given;
use crate::olm::operator::serving::{self, Serving};
use crate::olm::operator::{Facts, Group, State, chain, requirements};
use jiff::Timestamp;

/// Reasons of failures that end with what the OperatorGroup says; and what is said then.
const OF_GROUPS: [(&str, &str); 7] = [
    (reason::NO_TARGET_NAMESPACES, SUPPORTED),
    (reason::NO_OPERATOR_GROUP, SUPPORTED),
    (reason::TOO_MANY_OPERATOR_GROUPS, SUPPORTED),
    (reason::UNSUPPORTED_OPERATOR_GROUP, SUPPORTED),
    (reason::INVALID_INSTALL_MODES, SUPPORTED),
    (reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT, "OperatorGroup no longer intersecting with conflicting owner"),
    (
        reason::CANNOT_MODIFY_STATIC_OPERATOR_GROUP,
        "static OperatorGroup and intersecting groups now support providedAPIs",
    ),
];
const SUPPORTED: &str = "InstallModes now support target namespaces";

/// Whether a failure with this reason ends with what the OperatorGroup says.
pub(crate) fn is_of_group(reason: &str) -> bool {
    OF_GROUPS.iter().any(|(known, _)| *known == reason)
}

pub(super) fn turn(
    facts: &Facts<'_>,
    (group, given): (&Group<'_>, &Given),
    status: &ClusterServiceVersionStatus,
    now: Timestamp,
) -> Turn {
    if let Some(successor) = chain::successor(facts.csv, facts.siblings).filter(|_| group.fails_forward()) {
        return replaced_by(facts, successor, "Fail Forward is enabled, allowing Failed csv to be replaced by csv: ");
    }
    if let Some(turn) = taken(facts) {
        return turn;
    }
    // The OperatorGroup has been looked at before.
    if let Some((_, message)) = OF_GROUPS.iter().find(|(reason, _)| *reason == status.reason) {
        return Turn::to(State::pending(reason::REQUIREMENTS_UNKNOWN, *message));
    }
    with_strategy(facts, |strategy| {
        let verdict = requirements::check(facts.csv, strategy, facts.siblings, (facts.world, given));
        if !verdict.met {
            let state = State::pending(reason::REQUIREMENTS_NOT_MET, "requirements not met");
            return Turn::to(state).with(verdict.lines);
        }
        if let Some(state) = conflict(facts, strategy) {
            return Turn::to(state);
        }
        // What could not be written is tried again here, and not from the beginning: else the phase would change each time.
        let again = status.reason == reason::COMPONENT_FAILED;
        with_serving(
            facts,
            group,
            now,
            |serving| if again { retried(facts, serving, now) } else { healed(facts, serving, now) },
        )
    })
}

fn retried(facts: &Facts<'_>, serving: Serving<'_>, now: Timestamp) -> Turn {
    let before = serving.before(facts.csv, now);
    if !before.is_done() {
        return bring(facts, before);
    }
    let (worst, writes) = look(facts, &serving);
    if !writes.is_empty() {
        let error = failure(facts, &writes);
        return Turn { writes, state: error.map(|error| component_failed(&error)), ..Turn::default() };
    }
    if worst == Health::Ready && serving.unregistered().is_some() {
        let error = refused(facts, &serving.registrations, &serving.conversions);
        let state = error.map(|error| component_failed(&error));
        return Turn { components: serving.registrations, conversions: serving.conversions, state, ..Turn::default() };
    }
    after_failure(facts, worst, false, now)
}

fn healed(facts: &Facts<'_>, serving: Serving<'_>, now: Timestamp) -> Turn {
    let need = |of_api: bool, what: String| match of_api {
        true => State::pending(reason::API_SERVICE_RESOURCES_NEED_REINSTALL, what),
        false => State::pending(reason::NEEDS_CERT_ROTATION, what),
    };
    if let Some(fault) = serving.spoilt() {
        return Turn::to(need(fault.of_api, fault.what));
    }
    if let Some(what) = serving.due() {
        return Turn::to(need(false, what));
    }
    let (worst, writes) = look(facts, &serving);
    let unregistered = serving.unregistered().filter(|_| worst == Health::Ready && !serving.forgets());
    match serving.unsupported().or(unregistered) {
        Some(fault) if fault.of_api => Turn::to(need(true, fault.what)),
        Some(fault) => Turn::to(reinstall(&fault.what, reason::NEEDS_REINSTALL)),
        None => after_failure(facts, worst, !writes.is_empty(), now),
    }
}

/// `has_writes`: a Deployment is to be written.
fn after_failure(facts: &Facts<'_>, worst: Health, has_writes: bool, now: Timestamp) -> Turn {
    match worst {
        Health::Ready if has_writes => Turn::to(reinstall("a deployment is left over", reason::NEEDS_REINSTALL)),
        Health::Ready => Turn::to(match serving::unavailable(facts, now) {
            Some(unavailable) => api_failed(&unavailable.what),
            None => installed(),
        }),
        Health::Refused(error) => Turn::to(component_failed(&error)),
        Health::Drifted(what) => Turn::to(reinstall(&what, reason::NEEDS_REINSTALL)),
        Health::Failed(what) => Turn::to(check_failed(&format!("install failed: {what}"))),
        Health::Waiting(what) | Health::Missing(what) => {
            Turn::to(State::pending(reason::NEEDS_REINSTALL, format!("installing: {what}")))
        }
    }
}
