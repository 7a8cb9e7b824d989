//! What the agent does next on its node. The disk is the truth: the record says which configuration the node has, and the
//! journal how far an update has come, so that an agent that is killed at any moment goes on, or back, where it was.

use super::drain::Request;
use super::node::{NodeState, Target, said};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// What the agent knows when it decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFacts {
    /// The annotations of the node.
    pub desired: Target,
    pub current: Target,
    pub state: NodeState,
    pub reason: String,
    /// The last request for a drain or its end, and whether the controller has fulfilled it.
    pub asked: Option<Request>,
    pub answered: bool,
    pub unschedulable: bool,
    /// How many pods are on the node that a drain moves away, if nothing has happened to the node since they were counted.
    pub pods: Option<usize>,
    /// The configuration that the node has, as recorded on disk; `None` before the first one was.
    pub record: Option<Target>,
    pub journal: Option<Journal>,
    /// Identifies the present boot of the kernel.
    pub boot: String,
    /// What it takes to get from the record to the desired configuration.
    pub plan: Plan,
    /// Whether the node is as the record, or after an update the journal, says.
    pub check: Check,
    /// For this target everything has been prepared that can be without disturbing the node.
    pub staged: Option<Target>,
    /// The target that the controller wants to be prepared before it tells the node to take it.
    pub ahead: Option<Target>,
    /// What could not be prepared so.
    pub tried_ahead: Option<TriedAhead>,
    /// What something may be staged for: on disk from the beginning of it until it is used or dropped.
    pub staging: Option<Target>,
    /// The last attempt that failed.
    pub failure: Option<Failure>,
    /// The control plane is a single node: nobody could take its pods.
    pub single_node: bool,
    /// An administrator wants the node to be written anew, whatever it looks like.
    pub forced: bool,
}

/// On disk from the first write of an update until the record names its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    pub to: Target,
    pub phase: Phase,
    /// Pods must not be on the node while it is changed and restarted.
    pub drains: bool,
    pub reboots: bool,
    /// The boot in which the phase began.
    pub boot: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Files are being written; what they replace is kept.
    Applying,
    /// All is written. What has to be restarted is being restarted, the node itself included.
    Applied,
    /// Something failed, which is on disk as well; the former state is being restored.
    RollingBack,
    /// It is restored, but the node still runs what it was restarted into.
    RolledBack,
}

/// What it takes to get to the desired configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// It has not been worked out.
    #[default]
    Unknown,
    /// It cannot be: the MachineConfig does not exist or cannot be read, for this reason.
    Missing(String),
    /// It cannot be reached from the present one.
    Unreconcilable(String),
    Change {
        drains: bool,
        reboots: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Something may have changed since the last one.
    #[default]
    Outdated,
    Passed,
    /// The first deviation.
    Failed(String),
    /// Nothing that could be read deviates, and something could not be read.
    Unread(Unread),
}

/// What could not be read of the node, such as by a command that fails while the system still starts. It says nothing of
/// the node, so that nothing is given up for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub cause: String,
    /// When it could not be read for the first time in a row, and for the last time.
    pub since: Timestamp,
    pub at: Timestamp,
    /// How often in a row.
    pub count: u32,
}

/// A system may take so long to start before anybody is told that something cannot be read.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

impl Unread {
    /// Once more in vain. `before`: what could not be read until now, if the last look was in vain as well.
    pub fn again(before: Option<&Unread>, cause: String, now: Timestamp) -> Self {
        let since = before.map_or(now, |before| before.since.min(now));
        Unread { cause, since, at: now, count: before.map_or(1, |before| before.count.saturating_add(1)) }
    }

    /// When it is looked at again.
    fn next(&self, now: Timestamp) -> Timestamp {
        next_attempt(self.at, self.count, now)
    }

    fn is_long(&self) -> bool {
        self.at.duration_since(self.since) >= PATIENCE
    }
}

/// After this many attempts in vain, the last of them at this time: later and later, up to a minute. A time that is still
/// to come is one of a clock that was set back since, and does not put it off.
fn next_attempt(last: Timestamp, count: u32, now: Timestamp) -> Timestamp {
    let seconds = 1_i64 << count.saturating_sub(1).min(6);
    let pause = SignedDuration::from_secs(seconds.min(60));
    if last > now { now } else { last.checked_add(pause).unwrap_or(now) }
}

/// What could not be prepared before the node was told to take it, and when that was tried last. It is no failure of the node, and not
/// kept on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedAhead {
    pub target: Target,
    pub at: Timestamp,
    /// How often in a row.
    pub count: u32,
}

impl TriedAhead {
    /// Once more in vain. `before`: what could not be prepared until now.
    pub fn again(before: Option<&TriedAhead>, target: Target, now: Timestamp) -> Self {
        let before = before.filter(|before| before.target == target);
        TriedAhead { target, at: now, count: before.map_or(1, |before| before.count.saturating_add(1)) }
    }
}

/// The last attempt, kept on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was to be reached.
    pub target: Target,
    pub cause: String,
    pub at: Timestamp,
    /// How often in a row.
    pub count: u32,
    /// The node was restarted and did not become what it should. Trying that again would restart it for ever.
    pub after_reboot: bool,
    /// The boot in which the update began that was given up after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_in: Option<String>,
}

impl Failure {
    /// Whether it was this update that was given up after a restart. Each boot is another one, so that a later attempt is
    /// not mistaken for it.
    pub fn is_of(&self, journal: &Journal) -> bool {
        self.target == journal.to && self.begun_in.as_ref() == Some(&journal.boot)
    }

    /// When it may be tried again; `None`: not before something else was desired, or an administrator forces it.
    pub fn again(&self, forced: bool, now: Timestamp) -> Option<Timestamp> {
        (forced || !self.after_reboot).then(|| next_attempt(self.at, self.count, now))
    }
}

/// One step. Each is performed whole or can be performed again, and changes the facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the record for the first time: the node as it is found, before anything is changed.
    RecordFirst,
    /// Work out [`AgentFacts::plan`].
    MakePlan,
    /// Compare the node with its record, or with the journal's target.
    Check,
    /// Write state and reason, and that the current configuration is the record's: a node that fails on its way back to the
    /// one that it was said to have would otherwise look as if it had it.
    Tell(NodeState, String),
    /// Prepare everything for the target that does not disturb the node.
    Stage,
    /// The same for a target that the node is not told to take yet. That it fails is no failure of the node.
    StageAhead(Target),
    /// Drop what is staged for a target that is not wanted any more.
    DropStaged,
    /// Ask the controller.
    Ask(Request),
    /// Look at the pods of the node.
    CountPods,
    /// Write the journal (`Applying`), then the files, then the journal (`Applied`). On an error as [`Action::GiveUp`].
    Apply,
    /// Reload and restart what the change needs, then look at the node. On an error as [`Action::GiveUp`].
    RunActions,
    Reboot,
    /// Record the failure and go over to `RollingBack`.
    GiveUp(String),
    /// Restore what was there before the update. The journal is removed, or goes over to `RolledBack` where the node was
    /// restarted in between.
    RollBack,
    /// Remove the journal.
    Forget,
    /// The node is well, or another target is desired: whatever failed is tried again if it is desired again.
    ForgetFailure,
    /// The record names the journal's target, the failure is forgotten and the journal removed.
    Commit,
    /// Nothing is left to do: the state is `Done`, and the current configuration is the record's. So is the desired one of a
    /// node that nobody has told any.
    TellDone,
    /// For whom or what, and until when at the latest.
    Wait {
        what: String,
        until: Option<Timestamp>,
    },
    Rest,
}

pub fn decide(facts: &AgentFacts, now: Timestamp) -> Action {
    let is_desired = |record: &Target| *record == facts.desired || facts.desired.config.is_empty();
    match (&facts.journal, &facts.record) {
        (Some(journal), _) => under_way(facts, journal, now),
        (None, None) => Action::RecordFirst,
        (None, Some(record)) if is_desired(record) && !is_forced(facts) => settled(facts, record, now),
        (None, Some(_)) => toward(facts, now),
    }
}

/// A node that was not told any configuration has none that could be written anew.
fn is_forced(facts: &AgentFacts) -> bool {
    facts.forced && !facts.desired.config.is_empty()
}

/// An update has begun to change the node.
fn under_way(facts: &AgentFacts, journal: &Journal, now: Timestamp) -> Action {
    let restarted = journal.boot != facts.boot;
    match (journal.phase, &facts.check) {
        // Killed in between. What is half written is not built upon.
        (Phase::Applying | Phase::RollingBack, _) => Action::RollBack,
        (Phase::RolledBack, _) if !restarted => match cause_to_tell(facts, &journal.to) {
            // Nobody knows what the node can tell after it.
            Some(cause) => Action::Tell(NodeState::Degraded, cause),
            None => reboot(facts, journal),
        },
        (Phase::RolledBack, _) => Action::Forget,
        (Phase::Applied, _) if journal.reboots && !restarted => reboot(facts, journal),
        (Phase::Applied, Check::Outdated) if journal.reboots => Action::Check,
        (Phase::Applied, Check::Outdated) => Action::RunActions,
        (Phase::Applied, Check::Passed) => Action::Commit,
        (Phase::Applied, Check::Failed(deviation)) => Action::GiveUp(deviation.clone()),
        (Phase::Applied, Check::Unread(unread)) => look_again(facts, "after the update", unread, now),
    }
}

/// Why the target was not reached, unless that was told.
fn cause_to_tell(facts: &AgentFacts, target: &Target) -> Option<String> {
    let failure = facts.failure.as_ref().filter(|failure| failure.target == *target)?;
    (!is_told(facts, NodeState::Degraded, &failure.cause)).then(|| failure.cause.clone())
}

/// Somebody may have made the node schedulable since it was drained.
fn reboot(facts: &AgentFacts, journal: &Journal) -> Action {
    let drains = journal.drains && !facts.single_node;
    let still_to_do = drains.then(|| drained(facts, &journal.to)).flatten();
    still_to_do.unwrap_or(Action::Reboot)
}

/// What is to be done until no pod is on the node that would suffer; `None` when it is so.
fn drained(facts: &AgentFacts, target: &Target) -> Option<Action> {
    let drain = Request::Drain(target.config.clone());
    match &facts.asked {
        Some(asked) if *asked != drain => Some(Action::Ask(drain)),
        None => Some(Action::Ask(drain)),
        Some(_) if !facts.answered => Some(waits("the node to be drained", None)),
        // The answer is of the past. Somebody may have let pods come back since, and have cordoned the node again.
        Some(_) if !facts.unschedulable => Some(Action::Ask(drain)),
        Some(_) => match facts.pods {
            None => Some(Action::CountPods),
            Some(0) => None,
            Some(_) => Some(Action::Ask(drain)),
        },
    }
}

/// The node has the configuration that it should have.
fn settled(facts: &AgentFacts, record: &Target, now: Timestamp) -> Action {
    match &facts.check {
        Check::Outdated => return Action::Check,
        Check::Failed(deviation) => return told(facts, NodeState::Degraded, deviation),
        Check::Unread(unread) => return look_again(facts, "now", unread, now),
        Check::Passed => {}
    }
    if facts.failure.is_some() {
        return Action::ForgetFailure;
    }
    // Whatever it was drained for is over or not wanted any more.
    let uncordon = Request::Uncordon(record.config.clone());
    match &facts.asked {
        Some(Request::Drain(_)) => return Action::Ask(uncordon),
        Some(Request::Uncordon(_)) if !facts.answered => return waits("the node to be uncordoned", None),
        Some(Request::Uncordon(_)) | None => {}
    }
    let again = ahead_again(facts, now);
    // Nothing half prepared stays between attempts.
    let ahead = facts.ahead.as_ref().filter(|_| again.is_none());
    let staging = facts.staging.as_ref();
    if staging.is_some() && (staging != ahead || staging == Some(record)) {
        return Action::DropStaged;
    }
    let told = facts.state == NodeState::Done && facts.current == *record && facts.reason.is_empty();
    match (ahead, &facts.staged) {
        _ if !told => Action::TellDone,
        (Some(ahead), staged) if staged.as_ref() != Some(ahead) && ahead != record => Action::StageAhead(ahead.clone()),
        (None, Some(_)) => Action::DropStaged,
        _ if again.is_some() => waits("the next attempt to prepare what it takes later", again),
        _ => Action::Rest,
    }
}

/// When something is prepared again that could not be; `None`: now, or nothing has failed.
fn ahead_again(facts: &AgentFacts, now: Timestamp) -> Option<Timestamp> {
    let tried = facts.tried_ahead.as_ref().filter(|tried| facts.ahead.as_ref() == Some(&tried.target))?;
    Some(next_attempt(tried.at, tried.count, now)).filter(|again| *again > now)
}

/// The node has another configuration than it should have.
fn toward(facts: &AgentFacts, now: Timestamp) -> Action {
    if facts.failure.as_ref().is_some_and(|failure| failure.target != facts.desired) {
        return Action::ForgetFailure;
    }
    let drains = match &facts.plan {
        Plan::Unknown => return Action::MakePlan,
        Plan::Missing(cause) => return told(facts, NodeState::Degraded, cause),
        Plan::Unreconcilable(cause) => return told(facts, NodeState::Unreconcilable, cause),
        Plan::Change { drains, .. } => *drains && !facts.single_node,
    };
    if let Some(failure) = &facts.failure {
        let again = failure.again(facts.forced, now);
        if again.is_none_or(|again| again > now) {
            let told = cause_to_tell(facts, &facts.desired).map(|cause| Action::Tell(NodeState::Degraded, cause));
            return told.unwrap_or_else(|| waits("the next attempt", again));
        }
    }
    // Once it is time for the next attempt, what keeps it from being made is told, and no longer what failed.
    match &facts.check {
        _ if facts.forced => {}
        Check::Outdated => return Action::Check,
        // Nobody knows what a change on top of a deviation would make.
        Check::Failed(deviation) => {
            let cause = format!("before the update: {deviation}");
            return told(facts, NodeState::Degraded, &cause);
        }
        Check::Unread(unread) => return look_again(facts, "before the update", unread, now),
        Check::Passed => {}
    }
    if let Some(cause) = cause_to_tell(facts, &facts.desired) {
        return Action::Tell(NodeState::Degraded, cause);
    }
    // A node that has failed goes on showing why while it tries again.
    if matches!(facts.state, NodeState::Done | NodeState::Unknown) {
        return Action::Tell(NodeState::Working, String::new());
    }
    if facts.staging.as_ref().is_some_and(|target| *target != facts.desired) {
        return Action::DropStaged;
    }
    if facts.staged.as_ref() != Some(&facts.desired) {
        return Action::Stage;
    }
    let still_to_do = drains.then(|| drained(facts, &facts.desired)).flatten();
    still_to_do.unwrap_or(Action::Apply)
}

fn waits(what: &str, until: Option<Timestamp>) -> Action {
    Action::Wait { what: what.to_owned(), until }
}

fn is_told(facts: &AgentFacts, state: NodeState, cause: &str) -> bool {
    facts.state == state && facts.reason == said(cause) && facts.record.as_ref() == Some(&facts.current)
}

/// What cannot be read is looked at later and later. `when`, in words: what is to be known. Whoever cannot read it for
/// long tells so.
fn look_again(facts: &AgentFacts, when: &str, unread: &Unread, now: Timestamp) -> Action {
    let cause = format!("what the node is like {when} could not be read: {}", unread.cause);
    if unread.is_long() && !is_told(facts, NodeState::Degraded, &cause) {
        return Action::Tell(NodeState::Degraded, cause);
    }
    let next = unread.next(now);
    if next > now { waits("the node to be readable", Some(next)) } else { Action::Check }
}

/// Tells it once.
fn told(facts: &AgentFacts, state: NodeState, cause: &str) -> Action {
    match is_told(facts, state, cause) {
        true => waits("the node or its configuration to be changed", None),
        false => Action::Tell(state, cause.to_owned()),
    }
}

#[cfg(test)]
mod tests;
