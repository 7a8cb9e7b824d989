//! The phases of a ClusterServiceVersion: for each what is looked at, in order, and which phase follows.

mod failed;

pub(crate) use failed::is_of_group;

use super::deployment::config::Config;
use super::deployment::{self, Health, Write};
use super::given::Given;
use super::serving::{self, Serving, certificate, conversion};
use super::state::phase;
use super::{Facts, Group, State, account, chain, component, on_its_way, requirements};
use crate::olm::api::cluster_service_version::{
    ClusterServiceVersion, ClusterServiceVersionStatus, Phase, RequirementStatus, STRATEGY_DEPLOYMENT, StrategyDetails,
    reason,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Installing that takes longer has failed.
const INSTALL: SignedDuration = SignedDuration::from_mins(5);

/// Deployments that are not ready are told of only once they were waited for so long: most become ready before.
const WAITS: SignedDuration = SignedDuration::from_secs(30);

/// So many bytes of annotations may an object have.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// What one look comes to.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub state: Option<State>,
    pub requirements: Option<Vec<RequirementStatus>>,
    pub writes: Vec<Write>,
    pub components: Vec<component::Write>,
    pub certificates: Vec<certificate::Step>,
    pub conversions: Vec<conversion::Write>,
    /// When certificates are made anew.
    pub rotation: Option<Timestamp>,
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
    let is_to_come = matches!(status.phase, Phase::Pending | Phase::InstallReady | Phase::Installing);
    if is_to_come && let Some(turn) = taken(facts) {
        return turn;
    }
    match &status.phase {
        Phase::None => Turn::to(State::pending(reason::REQUIREMENTS_UNKNOWN, "requirements not yet checked")),
        Phase::Pending => pending(facts, given),
        Phase::InstallReady => with_serving(facts, group, now, |serving| install(facts, serving, now)),
        Phase::Installing => with_serving(facts, group, now, |serving| installing(facts, serving, status, now)),
        Phase::Succeeded => succeeded(facts, (group, given), now),
        Phase::Failed => failed::turn(facts, (group, given), status, now),
        Phase::Replacing => replacing(facts, group),
        Phase::Deleting => Turn { delete: true, ..Turn::default() },
        // Nobody writes these.
        Phase::Unknown | Phase::Other(_) => {
            Turn::to(State::pending(reason::REQUIREMENTS_UNKNOWN, "requirements not yet checked"))
        }
    }
}

/// It must not run: its Deployments are deleted.
pub(super) fn expelled(facts: &Facts<'_>, state: State) -> Turn {
    let writes = deployment::leftovers(facts.csv, std::iter::empty(), facts.deployments);
    // Without pods that answer, its webhooks would refuse what others write.
    let owner = component::Owner::csv(facts.csv);
    let is_webhook = |id: &component::Id| {
        matches!(
            id.kind,
            component::Kind::MutatingWebhookConfiguration | component::Kind::ValidatingWebhookConfiguration
        )
    };
    let webhooks = facts.components.of_owner(&owner).filter(|(id, _)| is_webhook(id));
    let components = webhooks.filter_map(|(id, live)| component::delete(id, live)).collect();
    Turn { writes, components, ..Turn::to(state) }
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

fn with_strategy<'a>(facts: &Facts<'a>, turn: impl FnOnce(&'a StrategyDetails) -> Turn) -> Turn {
    strategy(facts.csv).map_or_else(Turn::to, turn)
}

/// The same with what its Deployments serve.
fn with_serving<'a>(
    facts: &Facts<'a>,
    group: &Group<'_>,
    now: Timestamp,
    turn: impl FnOnce(Serving<'a>) -> Turn,
) -> Turn {
    with_strategy(facts, |strategy| match serving::look(facts, group, strategy, now) {
        // It is asked for.
        Ok(serving) if serving.is_unknown() => Turn::default(),
        Ok(serving) => turn(serving),
        Err(error) => Turn::to(component_failed(&error)),
    })
}

/// What keeps it from being installed although everything is there that it requires.
fn obstacle(facts: &Facts<'_>, strategy: &StrategyDetails) -> Option<State> {
    if let Some(refusal) = serving::refusal(facts.csv, strategy, facts.world.definitions) {
        return Some(State::failed(reason::INVALID_WEBHOOK_DESCRIPTION, refusal));
    }
    let (rival, definition) = chain::rival(facts.csv, facts.siblings)?;
    let message = format!(
        "conflicting CRD owner in namespace: {definition} is owned by ClusterServiceVersion {rival} too; delete one of the two"
    );
    Some(State::failed(reason::OWNER_CONFLICT, message))
}

/// The same for one that is not installed, whose APIs may belong to others.
fn conflict(facts: &Facts<'_>, strategy: &StrategyDetails) -> Option<State> {
    let foreign = || serving::foreign_api(facts).map(|message| State::failed(reason::OWNER_CONFLICT, message));
    obstacle(facts, strategy).or_else(foreign)
}

/// What became Pending or Failed while another version took its place does not come back, and of two that begin again at once one goes
/// on.
fn taken(facts: &Facts<'_>) -> Option<Turn> {
    let successor = chain::taken_by(facts.csv, facts.siblings)?;
    Some(replaced_by(facts, successor, "its Deployments are those of a version that replaces it: "))
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
        if let Some(state) = conflict(facts, strategy) {
            return Turn::to(state).with(verdict.lines);
        }
        if predecessor.is_some_and(|before| phase(before) != Phase::Replacing) {
            return Turn::default().with(verdict.lines);
        }
        let message = "all requirements found, attempting install";
        Turn::to(State::new(Phase::InstallReady, reason::REQUIREMENTS_MET, message)).with(verdict.lines)
    })
}

/// How its Deployments are, the worst that is to be said of them, and what has to be written.
fn look(facts: &Facts<'_>, serving: &Serving<'_>) -> (Health, Vec<Write>) {
    let (mut worst, mut writes) = (Health::Ready, Vec::new());
    let name = facts.csv.metadata.name.as_deref().unwrap_or_default();
    let config = Config::of(name, facts.subscribers, facts.proxy);
    for entry in &serving.entries {
        let live = facts.deployments.get(entry.name.as_str()).copied();
        let (health, write) = deployment::look(facts.csv, entry, live, &config);
        writes.extend(write);
        if rank(&health) > rank(&worst) {
            worst = health;
        }
    }
    let wanted = facts.csv.spec.install.spec.iter().flat_map(|strategy| &strategy.deployments);
    writes.extend(deployment::leftovers(facts.csv, wanted, facts.deployments));
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
    let (write, error) = writes.iter().find_map(|write| Some((write, facts.failing.get(write.name())?)))?;
    let annotations = write.object().and_then(|it| it.pointer("/spec/template/metadata/annotations")?.as_object());
    let of = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    // The error does not say where they come from.
    match annotations.into_iter().flatten().map(of).sum::<usize>() > MOST_ANNOTATIONS {
        false => Some(error.clone()),
        true => Some(format!(
            "{error}; all annotations of the ClusterServiceVersion go to its pods: remove some, or make them shorter"
        )),
    }
}

fn component_failed(error: &str) -> State {
    State::failed(reason::COMPONENT_FAILED, format!("install strategy failed: {error}"))
}

/// What its Deployments need is written, and then they are; once they are, it is waited for them.
fn install(facts: &Facts<'_>, serving: Serving<'_>, now: Timestamp) -> Turn {
    if let Some(hindrance) = account::hindrance(facts) {
        let message = format!("install strategy failed: {hindrance}");
        return Turn::to(State::failed(reason::COMPONENT_FAILED_NO_RETRY, message));
    }
    let before = serving.before(facts.csv, now);
    if !before.is_done() {
        return bring(facts, before);
    }
    let (worst, writes) = look(facts, &serving);
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
    let state = State::new(Phase::Installing, reason::INSTALL_SUCCESSFUL, message);
    Turn { rotation: serving.rotation(), ..Turn::to(state) }
}

/// What comes before the Deployments. A failure is told, and tried again.
fn bring(facts: &Facts<'_>, before: serving::Before) -> Turn {
    let serving::Before { steps, components, conversions, next, .. } = before;
    let namespace = facts.csv.metadata.namespace.as_deref().unwrap_or_default();
    let secrets = steps.iter().map(|step| format!("Secret {namespace}/{}", step.secret()));
    let error = facts.refused_of(secrets).or_else(|| refused(facts, &components, &conversions));
    let error = error.map(|error| component_failed(&error));
    Turn { certificates: steps, components, conversions, next, state: error, ..Turn::default() }
}

/// Why the API server does not take an object beside Deployments.
fn refused(facts: &Facts<'_>, components: &[component::Write], conversions: &[conversion::Write]) -> Option<String> {
    let definitions = conversions.iter().map(|it| format!("CustomResourceDefinition {}", it.name));
    facts.refused_of(components.iter().map(|write| write.id().to_string()).chain(definitions))
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

fn installing(facts: &Facts<'_>, serving: Serving<'_>, status: &ClusterServiceVersionStatus, now: Timestamp) -> Turn {
    // Made anew before the Deployments are looked at, which need it.
    if let Some(fault) = serving.spoilt().or_else(|| serving.unsupported()) {
        return Turn::to(reinstall(&fault.what, reason::WAITING));
    }
    let (worst, writes) = look(facts, &serving);
    let (what, missing) = match worst {
        // What it does not want any more is deleted there.
        Health::Ready if !writes.is_empty() => {
            return Turn::to(reinstall("a deployment is left over", reason::WAITING));
        }
        Health::Ready => match (serving.unregistered(), serving::unavailable(facts, now)) {
            (None, None) => return Turn { rotation: serving.rotation(), ..Turn::to(installed()) },
            (Some(fault), unavailable) => (fault.what, unavailable.map(|it| it.what)),
            (None, Some(unavailable)) => (unavailable.what.clone(), Some(unavailable.what)),
        },
        // It was written before: somebody has changed or deleted it.
        Health::Drifted(what) | Health::Missing(what) => {
            return Turn { writes, ..Turn::to(reinstall(&what, reason::WAITING)) };
        }
        Health::Failed(what) | Health::Refused(what) => {
            return Turn::to(check_failed(&format!("install failed: {what}")));
        }
        Health::Waiting(what) => return wait(&what, None, status, now),
    };
    let waits = wait(&what, missing, status, now);
    let error = refused(facts, &serving.registrations, &serving.conversions);
    let state = error.map(|error| component_failed(&error)).or(waits.state);
    Turn {
        components: serving.registrations,
        conversions: serving.conversions,
        state,
        next: waits.next,
        ..Turn::default()
    }
}

/// Until its time is over. `missing`: an API that has not come.
fn wait(what: &str, missing: Option<String>, status: &ClusterServiceVersionStatus, now: Timestamp) -> Turn {
    let since = status.last_transition_time.as_ref().map_or(now, |time| time.0);
    let until = since.checked_add(INSTALL).unwrap_or(Timestamp::MAX);
    if now >= until {
        return Turn::to(match missing {
            Some(missing) => api_failed(&missing),
            None => check_failed("install timeout"),
        });
    }
    // It has only begun, and says that it waits.
    if let Some(next) = on_its_way((since, WAITS), now).filter(|_| status.reason == reason::INSTALL_SUCCESSFUL) {
        return Turn { next: Some(next), ..Turn::default() };
    }
    let state = State::new(Phase::Installing, reason::WAITING, format!("installing: {what}"));
    Turn { next: Some(until), ..Turn::to(state) }
}

fn api_failed(message: &str) -> State {
    State::failed(reason::API_SERVICE_INSTALL_FAILED, message)
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

fn succeeded(facts: &Facts<'_>, (group, given): (&Group<'_>, &Given), now: Timestamp) -> Turn {
    if let Some(successor) = chain::successor(facts.csv, facts.siblings) {
        return replaced_by(facts, successor, "being replaced by csv: ");
    }
    with_strategy(facts, |strategy| {
        let verdict = requirements::check(facts.csv, strategy, facts.siblings, (facts.world, given));
        // After an edit.
        if let Some(state) = obstacle(facts, strategy).filter(|_| verdict.met) {
            return Turn::to(state);
        }
        with_serving(facts, group, now, |serving| {
            if let Some(state) = rotated(&serving) {
                return Turn::to(state);
            }
            if !verdict.met {
                let state = State::failed(reason::REQUIREMENTS_NOT_MET, "requirements no longer met");
                return Turn::to(state).with(verdict.lines);
            }
            running(facts, serving, now)
        })
    })
}

/// What is wrong with certificates and other objects of what is installed.
fn rotated(serving: &Serving<'_>) -> Option<State> {
    let fault = serving.unsupported().or_else(|| serving.unregistered().filter(|_| !serving.forgets()));
    match (serving.spoilt(), fault, serving.due()) {
        (Some(fault), _, _) | (None, Some(fault), _) if fault.of_api => {
            Some(State::failed(reason::API_SERVICE_RESOURCE_ISSUE, fault.what))
        }
        (Some(serving::Fault { what, .. }), _, _) | (_, _, Some(what)) => {
            Some(State::pending(reason::NEEDS_CERT_ROTATION, what))
        }
        (None, Some(fault), None) => Some(reinstall(&fault.what, reason::WAITING)),
        (None, None, None) => None,
    }
}

/// It is installed, and nothing is missing.
fn running(facts: &Facts<'_>, serving: Serving<'_>, now: Timestamp) -> Turn {
    let (worst, writes) = look(facts, &serving);
    let unavailable = serving::unavailable(facts, now);
    let passes = unavailable.as_ref().map(|it| it.until).filter(|until| now < *until);
    match worst {
        Health::Ready if !writes.is_empty() => {
            Turn::to(reinstall("a deployment is left over", reason::COMPONENT_UNHEALTHY))
        }
        // Nothing else has to be there first, as what it needs is there: it is changed back at once.
        Health::Drifted(what) => Turn { writes, ..Turn::to(reinstall(&what, reason::WAITING)) },
        Health::Failed(what) | Health::Refused(what) => Turn::to(check_failed(&format!("install failed: {what}"))),
        // Its pods are on their way to another node.
        Health::Ready | Health::Waiting(_) if passes.is_some() => Turn { next: passes, ..Turn::default() },
        Health::Waiting(what) | Health::Missing(what) => {
            Turn { writes, ..Turn::to(State::failed(reason::COMPONENT_UNHEALTHY, format!("installing: {what}"))) }
        }
        Health::Ready => match unavailable {
            Some(unavailable) => Turn::to(api_failed(&unavailable.what)),
            None => {
                let (rotation, mut certificates) = (serving.rotation(), serving.forgotten());
                let (mut components, conversions) = (serving.registrations, serving.conversions);
                let (left_over, steps) = serving::left_over(facts);
                components.extend(left_over);
                certificates.extend(steps);
                Turn { components, conversions, certificates, rotation, next: rotation, ..Turn::default() }
            }
        },
    }
}

fn replacing(facts: &Facts<'_>, group: &Group<'_>) -> Turn {
    // Whoever is last in the chain goes first.
    if chain::predecessor(facts.csv, facts.siblings).is_some() {
        return Turn::default();
    }
    let find = if group.fails_forward() { chain::last } else { chain::heir };
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
