//! The phases of a ClusterServiceVersion: for each what is looked at, in order, and which phase follows.

use super::deployment::config::Config;
use super::deployment::{self, Health, Write};
use super::given::Given;
use super::{Facts, Group, State, chain, requirements};
use crate::olm::api::cluster_service_version::{
    ClusterServiceVersion, ClusterServiceVersionStatus, Phase, RequirementStatus, STRATEGY_DEPLOYMENT, StrategyDetails,
    reason,
};
use crate::olm::api::operator_group::UpgradeStrategy;
use jiff::{SignedDuration, Timestamp};

/// Installing that takes longer has failed.
const INSTALL: SignedDuration = SignedDuration::from_mins(5);
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

/// What one look comes to.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub state: Option<State>,
    pub requirements: Option<Vec<RequirementStatus>>,
    pub writes: Vec<Write>,
    pub delete: bool,
    pub is_replaced: bool,
    pub next: Option<Timestamp>,
}

impl Turn {
    pub(super) fn to(state: State) -> Turn {
        Turn { state: Some(state), ..Turn::default() }
    }

    fn with(self, requirements: Vec<RequirementStatus>) -> Turn {
        Turn { requirements: Some(requirements), ..self }
    }
}

/// One step from the phase that it is in.
pub(super) fn turn(
    facts: &Facts<'_>,
    (group, given): (&Group<'_>, &Given),
    status: &ClusterServiceVersionStatus,
    now: Timestamp,
) -> Turn {
    match &status.phase {
        Phase::None => Turn::to(State::pending(reason::REQUIREMENTS_UNKNOWN, "requirements not yet checked")),
        Phase::Pending => pending(facts, given),
        Phase::InstallReady => with_strategy(facts, |strategy| install(facts, strategy)),
        Phase::Installing => with_strategy(facts, |strategy| installing(facts, strategy, status, now)),
        Phase::Succeeded => succeeded(facts, given),
        Phase::Failed => failed(facts, (group, given), status),
        Phase::Replacing => replacing(facts, group),
        Phase::Deleting => Turn { delete: true, ..Turn::default() },
        // Nobody writes these.
        Phase::Unknown | Phase::Other(_) => {
            Turn::to(State::pending(reason::REQUIREMENTS_UNKNOWN, "requirements not yet checked"))
        }
    }
}

/// It must not run: its Deployments are deleted.
pub(super) fn refused(facts: &Facts<'_>, state: State) -> Turn {
    let writes = deployment::leftovers(facts.csv, &[], facts.deployments.iter());
    Turn { writes, ..Turn::to(state) }
}

/// An object beside its Deployments cannot be made what it has to be.
pub(super) fn component_refused(error: &str) -> Turn {
    Turn::to(component_failed(error))
}

/// What it consists of, or why that cannot be said.
fn strategy(csv: &ClusterServiceVersion) -> Result<&StrategyDetails, State> {
    let invalid = |what: &str| State::failed(reason::INVALID_STRATEGY, format!("install strategy invalid: {what}"));
    let install = &csv.spec.install;
    if install.strategy != STRATEGY_DEPLOYMENT {
        return Err(invalid(&format!(
            "spec.install.strategy is {:?}, and only {STRATEGY_DEPLOYMENT} is one",
            install.strategy
        )));
    }
    install.spec.as_ref().ok_or_else(|| invalid("spec.install.spec is missing"))
}

fn with_strategy(facts: &Facts<'_>, turn: impl FnOnce(&StrategyDetails) -> Turn) -> Turn {
    strategy(facts.csv).map_or_else(Turn::to, turn)
}

/// What it has that this version does not install.
pub(super) fn unsupported(csv: &ClusterServiceVersion) -> Option<State> {
    let spec = &csv.spec;
    if let Some(webhook) = spec.webhook_definitions.first() {
        let message = format!(
            "spec.webhookdefinitions ({}): this version does not install webhooks of operators; install a version of the operator \
             without",
            webhook.generate_name
        );
        return Some(State::failed(reason::INVALID_WEBHOOK_DESCRIPTION, message));
    }
    let api = spec.api_service_definitions.owned.first()?;
    let message = format!(
        "spec.apiservicedefinitions.owned ({}.{}): this version does not install APIServices of operators; install a version of \
         the operator without",
        api.version, api.group
    );
    Some(State::failed(reason::API_SERVICE_INSTALL_FAILED, message))
}

/// What keeps it from being installed although everything is there that it requires.
fn obstacle(facts: &Facts<'_>) -> Option<State> {
    if let Some(state) = unsupported(facts.csv) {
        return Some(state);
    }
    let (rival, definition) = chain::rival(facts.csv, facts.siblings)?;
    let message = format!(
        "conflicting CRD owner in namespace: {definition} is owned by ClusterServiceVersion {rival} too; delete one of the two"
    );
    Some(State::failed(reason::OWNER_CONFLICT, message))
}

fn pending(facts: &Facts<'_>, given: &Given) -> Turn {
    let predecessor = chain::predecessor(facts.csv, facts.siblings);
    let condition =
        predecessor.and_then(|before| before.metadata.name.as_deref()).and_then(|name| facts.conditions.get(name));
    if let Some(why) = condition.and_then(|condition| chain::hindrance(condition)) {
        let message = format!("operator is not upgradeable: {why}");
        return Turn::to(State::pending(reason::OPERATOR_CONDITION_NOT_UPGRADEABLE, message));
    }
    with_strategy(facts, |strategy| {
        let verdict = requirements::check(facts.csv, strategy, facts.siblings, (facts.world, given));
        if !verdict.met {
            let message = "one or more requirements couldn't be found";
            return Turn::to(State::pending(reason::REQUIREMENTS_NOT_MET, message)).with(verdict.lines);
        }
        if let Some(state) = obstacle(facts) {
            return Turn::to(state).with(verdict.lines);
        }
        if predecessor.is_some_and(|before| phase(before) != Phase::Replacing) {
            return Turn::default().with(verdict.lines);
        }
        let message = "all requirements found, attempting install";
        Turn::to(State::new(Phase::InstallReady, reason::REQUIREMENTS_MET, message)).with(verdict.lines)
    })
}

fn phase(csv: &ClusterServiceVersion) -> Phase {
    csv.status.as_ref().map(|status| status.phase.clone()).unwrap_or_default()
}

/// How its Deployments are, the worst that is to be said of them, and what has to be written.
fn look(facts: &Facts<'_>, strategy: &StrategyDetails) -> (Health, Vec<Write>) {
    let (mut worst, mut writes) = (Health::Ready, Vec::new());
    let name = facts.csv.metadata.name.as_deref().unwrap_or_default();
    let config = Config::of(name, facts.subscribers, facts.proxy);
    for entry in &strategy.deployments {
        let (health, write) = deployment::look(facts.csv, entry, facts.deployments.get(&entry.name), &config);
        writes.extend(write);
        if rank(&health) > rank(&worst) {
            worst = health;
        }
    }
    let all = facts.deployments.iter();
    writes.extend(deployment::leftovers(facts.csv, &strategy.deployments, all));
    (worst, writes)
}

/// What can be repaired is told first.
fn rank(health: &Health) -> u8 {
    match health {
        Health::Ready => 0,
        Health::Waiting(_) => 1,
        Health::Failed(_) => 2,
        Health::Missing(_) => 3,
        Health::Drifted(_) => 4,
        Health::Refused(_) => 5,
    }
}

/// Why a Deployment cannot be written.
fn failure(facts: &Facts<'_>, writes: &[Write]) -> Option<String> {
    writes.iter().find_map(|write| facts.failing.get(write.name())).cloned()
}

fn component_failed(error: &str) -> State {
    State::failed(reason::COMPONENT_FAILED, format!("install strategy failed: {error}"))
}

/// The Deployments are written; once they are, it is waited for them.
fn install(facts: &Facts<'_>, strategy: &StrategyDetails) -> Turn {
    let (worst, writes) = look(facts, strategy);
    if let Health::Refused(error) = worst {
        return Turn::to(component_failed(&error));
    }
    if let Some(error) = failure(facts, &writes) {
        return Turn { writes, ..Turn::to(component_failed(&error)) };
    }
    if !writes.is_empty() {
        return Turn { writes, ..Turn::default() };
    }
    let message = "waiting for install components to report healthy";
    Turn::to(State::new(Phase::Installing, reason::INSTALL_SUCCESSFUL, message))
}

fn installed() -> State {
    State::new(Phase::Succeeded, reason::INSTALL_SUCCESSFUL, "install strategy completed with no errors")
}

/// The Deployments are changed back.
fn reinstall(message: &str, reason: &'static str) -> State {
    State::new(Phase::InstallReady, reason, format!("installing: {message}"))
}

fn check_failed(message: &str) -> State {
    State::failed(reason::INSTALL_CHECK_FAILED, message)
}

fn installing(
    facts: &Facts<'_>,
    strategy: &StrategyDetails,
    status: &ClusterServiceVersionStatus,
    now: Timestamp,
) -> Turn {
    let since = status.last_transition_time.as_ref().map(|time| time.0);
    let until = since.unwrap_or(now).checked_add(INSTALL).unwrap_or(Timestamp::MAX);
    let (worst, writes) = look(facts, strategy);
    let what = match worst {
        // What it does not want any more is deleted there.
        Health::Ready if !writes.is_empty() => {
            return Turn::to(reinstall("a deployment is left over", reason::WAITING));
        }
        Health::Ready => return Turn::to(installed()),
        Health::Drifted(what) => return Turn::to(reinstall(&what, reason::WAITING)),
        Health::Failed(what) | Health::Refused(what) => {
            return Turn::to(check_failed(&format!("install failed: {what}")));
        }
        Health::Waiting(what) | Health::Missing(what) => what,
    };
    if now >= until {
        return Turn::to(check_failed("install timeout"));
    }
    let state = State::new(Phase::Installing, reason::WAITING, format!("installing: {what}"));
    Turn { next: Some(until), ..Turn::to(state) }
}

fn replaced_by(facts: &Facts<'_>, successor: &ClusterServiceVersion, message: &str) -> Turn {
    let name = successor.metadata.name.as_deref().unwrap_or_default();
    let circle = match chain::before(facts.csv, facts.siblings).contains(name) {
        true => {
            ", which it replaces itself: none of the two can go before the other; delete one of them, or correct its spec.replaces"
        }
        false => "",
    };
    let state = State::new(Phase::Replacing, reason::BEING_REPLACED, format!("{message}{name}{circle}"));
    Turn { is_replaced: true, ..Turn::to(state) }
}

fn succeeded(facts: &Facts<'_>, given: &Given) -> Turn {
    if let Some(successor) = chain::successor(facts.csv, facts.siblings) {
        return replaced_by(facts, successor, "being replaced by csv: ");
    }
    with_strategy(facts, |strategy| {
        let verdict = requirements::check(facts.csv, strategy, facts.siblings, (facts.world, given));
        if !verdict.met {
            let state = State::failed(reason::REQUIREMENTS_NOT_MET, "requirements no longer met");
            return Turn::to(state).with(verdict.lines);
        }
        // After an edit.
        if let Some(state) = obstacle(facts) {
            return Turn::to(state);
        }
        let (worst, writes) = look(facts, strategy);
        match worst {
            Health::Ready if writes.is_empty() => Turn::default(),
            Health::Ready => Turn::to(reinstall("a deployment is left over", reason::COMPONENT_UNHEALTHY)),
            Health::Drifted(what) => Turn::to(reinstall(&what, reason::WAITING)),
            Health::Failed(what) | Health::Refused(what) => Turn::to(check_failed(&format!("install failed: {what}"))),
            Health::Waiting(what) | Health::Missing(what) => {
                Turn::to(State::failed(reason::COMPONENT_UNHEALTHY, format!("installing: {what}")))
            }
        }
    })
}

fn failed(facts: &Facts<'_>, (group, given): (&Group<'_>, &Given), status: &ClusterServiceVersionStatus) -> Turn {
    let goes_on = group.object.spec.upgrade_strategy == UpgradeStrategy::TechPreviewUnsafeFailForward;
    if let Some(successor) = chain::successor(facts.csv, facts.siblings).filter(|_| goes_on) {
        return replaced_by(facts, successor, "Fail Forward is enabled, allowing Failed csv to be replaced by csv: ");
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
        if let Some(state) = obstacle(facts) {
            return Turn::to(state);
        }
        let (worst, writes) = look(facts, strategy);
        // A write that failed is tried again here, and not from the beginning: else the phase would change each time.
        if status.reason == reason::COMPONENT_FAILED && !writes.is_empty() {
            let error = failure(facts, &writes);
            return Turn { writes, state: error.map(|error| component_failed(&error)), ..Turn::default() };
        }
        match worst {
            Health::Ready if writes.is_empty() => Turn::to(installed()),
            Health::Ready => Turn::to(reinstall("a deployment is left over", reason::NEEDS_REINSTALL)),
            Health::Refused(error) => Turn::to(component_failed(&error)),
            Health::Drifted(what) => Turn::to(reinstall(&what, reason::NEEDS_REINSTALL)),
            Health::Failed(what) => Turn::to(check_failed(&format!("install failed: {what}"))),
            Health::Waiting(what) | Health::Missing(what) => {
                Turn::to(State::pending(reason::NEEDS_REINSTALL, format!("installing: {what}")))
            }
        }
    })
}

fn replacing(facts: &Facts<'_>, group: &Group<'_>) -> Turn {
    // Whoever is last in the chain goes first.
    if chain::predecessor(facts.csv, facts.siblings).is_some() {
        return Turn::default();
    }
    let goes_on = group.object.spec.upgrade_strategy == UpgradeStrategy::TechPreviewUnsafeFailForward;
    let find = if goes_on { chain::last } else { chain::successor };
    match find(facts.csv, facts.siblings) {
        // Somebody has deleted it. This one is needed again.
        None => Turn::to(State::pending(
            reason::NEEDS_REINSTALL,
            "marked as replacement, but no replacement CSV found in cluster: it is installed again",
        )),
        Some(successor) if phase(successor) == Phase::Succeeded => {
            let message = "has been replaced by a newer ClusterServiceVersion that has successfully installed.";
            Turn::to(State::new(Phase::Deleting, reason::REPLACED, message))
        }
        Some(_) => Turn::default(),
    }
}
