//! `Failing` and `Progressing`: what a failure means now, given how long operators normally take.

use super::{FAILING, INVALID_CLUSTER_VERSION, NewCondition, PROGRESSING};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::status::failure::{Effect, Reason, UpdateError, aggregate};
use crate::cluster_version::status::{Facts, release, summary};
use crate::object::condition::ConditionStatus;
use jiff::{SignedDuration, Timestamp};

/// A degraded operator is given this long to recover.
const DEGRADED_LIMIT: SignedDuration = SignedDuration::from_mins(40);
/// An operator that updates for longer is slow. The one that reboots every node is given more time.
const UPDATING_LIMIT: SignedDuration = SignedDuration::from_mins(30);
const NODES_LIMIT: SignedDuration = SignedDuration::from_mins(90);
const NODES_OPERATOR: &str = "machine-config";
/// A definition usually is established within a second, and purged within a few.
const DEFINITION_LIMIT: SignedDuration = SignedDuration::from_mins(1);
const SLOW: &str = "SlowClusterOperator";
/// The same of anything else that is waited for.
const SLOW_RESOURCE: &str = "SlowResource";

/// What the failure of the rollout amounts to.
#[derive(Debug)]
enum Verdict {
    Fine,
    /// Not a failure yet: within the time that is granted.
    Waiting {
        reason: Reason,
        effect: Effect,
        text: String,
    },
    /// Nothing is broken, but it takes too long: `Failing` cannot be known.
    Slow {
        reason: Reason,
        /// What is slow: the reason of `Failing`.
        slow: &'static str,
        late: String,
        text: String,
    },
    Failing {
        error: UpdateError,
        summary: String,
    },
}

/// The two conditions. `history_empty`: no release is known that could be given time, so every failure counts at once.
pub(super) fn conditions(facts: &Facts, history_empty: bool, now: Timestamp) -> [NewCondition; 2] {
    let verdict = judge(facts, history_empty, now);
    [failing(&verdict), progressing(&verdict, facts)]
}

fn judge(facts: &Facts, history_empty: bool, now: Timestamp) -> Verdict {
    let at_once = facts.mode() == Mode::Reconcile || history_empty;
    // Nodes that are updated are no failure, whatever the time.
    let one = |error: &UpdateError| match error.reason {
        Reason::NodesUpdating => judge_one(error, facts, now),
        _ if at_once => fails(error),
        _ => judge_one(error, facts, now),
    };
    let failure =
        facts.failure().and_then(|error| if at_once { past_grace(error, facts, now) } else { Some(error.clone()) });
    match &failure {
        None => Verdict::Fine,
        Some(error) if at_once && !has(error, &Reason::NodesUpdating) => fails(error),
        Some(error) if error.reason == Reason::MultipleErrors && !error.nested.is_empty() => {
            judge_several(error.nested.iter().map(one).collect())
        }
        Some(error) => one(error),
    }
}

/// What is left of an error without the definitions that are given time.
fn past_grace(error: &UpdateError, facts: &Facts, now: Timestamp) -> Option<UpdateError> {
    let left = || {
        let left: Vec<UpdateError> = error.nested.iter().filter_map(|child| past_grace(child, facts, now)).collect();
        if left.len() == error.nested.len() { Some(error.clone()) } else { aggregate(left) }
    };
    match error.reason {
        Reason::DefinitionNotEstablished if error.effect == Effect::Wait => {
            let late = |name: &String| waits_longer_than(DEFINITION_LIMIT, name, facts, now);
            error.names.iter().any(late).then(|| error.clone())
        }
        Reason::DefinitionsNotEstablished | Reason::MultipleErrors if !error.nested.is_empty() => left(),
        _ => Some(error.clone()),
    }
}

/// A wait whose start is unknown is not late: else Failing would be True for a moment after a restart.
fn waits_longer_than(limit: SignedDuration, name: &str, facts: &Facts, now: Timestamp) -> bool {
    let since = facts.rollout.as_ref().and_then(|rollout| rollout.waiting_since.get(name));
    since.is_some_and(|since| now.duration_since(*since) > limit)
}

/// Whether the error, or one of those that it sums up, has this reason.
fn has(error: &UpdateError, reason: &Reason) -> bool {
    error.reason == *reason || error.nested.iter().any(|child| child.reason == *reason)
}

fn fails(error: &UpdateError) -> Verdict {
    Verdict::Failing { summary: summary::of(error), error: error.clone() }
}

fn judge_one(error: &UpdateError, facts: &Facts, now: Timestamp) -> Verdict {
    let late = |limit: SignedDuration, counts: fn(&str) -> bool| {
        let names = error.names.iter().filter(|name| counts(name));
        let over = |name: &&String| waits_longer_than(limit, name, facts, now);
        names.filter(over).map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let waiting = |effect, text| Verdict::Waiting { reason: error.reason.clone(), effect, text };
    match error.effect {
        Effect::Fail => fails(error),
        Effect::Report => Verdict::Failing { error: error.clone(), summary: error.message.clone() },
        Effect::FailAfterInterval => match late(DEGRADED_LIMIT, |_| true).as_str() {
            "" => waiting(Effect::FailAfterInterval, format!("waiting up to 40 minutes on {}", who(error))),
            names => {
                Verdict::Failing { error: error.clone(), summary: format!("waited more than 40 minutes on {names}") }
            }
        },
        Effect::Wait => {
            if !is_of_operators(&error.reason) {
                return judge_resources(error, facts, now);
            }
            let late_operators = late(UPDATING_LIMIT, |name| name != NODES_OPERATOR);
            let late_nodes = late(NODES_LIMIT, |name| name == NODES_OPERATOR);
            let late = match (late_operators.as_str(), late_nodes.as_str()) {
                ("", "") => return waiting(Effect::Wait, format!("waiting on {}", who(error))),
                (names, "") => format!("waiting on {names} over 30 minutes"),
                ("", nodes) => format!("waiting on {nodes} over 90 minutes"),
                (names, nodes) => format!("waiting on {names} over 30 minutes and {nodes} over 90 minutes"),
            };
            Verdict::Slow { reason: error.reason.clone(), slow: SLOW, text: late.clone(), late }
        }
    }
}

fn is_of_operators(reason: &Reason) -> bool {
    !matches!(
        reason,
        Reason::WorkloadUpdating
            | Reason::WorkloadsUpdating
            | Reason::DefinitionNotEstablished
            | Reason::DefinitionsNotEstablished
    )
}

/// Workloads and definitions that are waited for. Of those that take too long it is said what they lack.
fn judge_resources(error: &UpdateError, facts: &Facts, now: Timestamp) -> Verdict {
    let each = if error.nested.is_empty() { std::slice::from_ref(error) } else { error.nested.as_slice() };
    let is_late = |one: &&UpdateError| one.names.iter().any(|name| waits_longer_than(UPDATING_LIMIT, name, facts, now));
    let late: Vec<&str> = each.iter().filter(is_late).map(|one| one.message.as_str()).collect();
    let reason = error.reason.clone();
    if late.is_empty() {
        return Verdict::Waiting { reason, effect: Effect::Wait, text: format!("waiting on {}", who(error)) };
    }
    let late = format!("waiting over 30 minutes: {}", late.join("; "));
    Verdict::Slow { reason, slow: SLOW_RESOURCE, text: late.clone(), late }
}

/// What the update waits for; the message of an error without names.
fn who(error: &UpdateError) -> String {
    if error.names.is_empty() { error.message.clone() } else { error.names.join(", ") }
}

/// Each child is judged by its own time: a failure outweighs a slow operator, and that outweighs one that is still within
/// its time.
fn judge_several(children: Vec<Verdict>) -> Verdict {
    let (mut failed, mut late, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut slow_reason, mut strongest) = (None::<(Reason, &str)>, None::<(Effect, Reason)>);
    for child in children {
        match child {
            Verdict::Fine => {}
            Verdict::Failing { error, summary } => failed.push((error, summary)),
            Verdict::Slow { reason, slow, late: text, .. } => {
                // An operator is named before anything else.
                if slow_reason.as_ref().is_none_or(|(_, held)| *held != SLOW && slow == SLOW) {
                    slow_reason = Some((reason, slow));
                }
                texts.push(text.clone());
                late.push(text);
            }
            Verdict::Waiting { reason, effect, text } => {
                texts.push(text);
                if strongest.as_ref().is_none_or(|(held, _)| effect > *held) {
                    strongest = Some((effect, reason));
                }
            }
        }
    }
    if failed.len() > 1 {
        let summary = summary::join(failed.iter().map(|(_, summary)| summary.clone()));
        let error = UpdateError::multiple(failed.into_iter().map(|(error, _)| error).collect());
        return Verdict::Failing { error, summary };
    }
    let text = texts.join(", ");
    match (failed.pop(), slow_reason, strongest) {
        (Some((error, summary)), ..) => Verdict::Failing { error, summary },
        (None, Some((reason, slow)), _) => Verdict::Slow { reason, slow, late: late.join(", "), text },
        (None, None, Some((effect, reason))) => Verdict::Waiting { reason, effect, text },
        (None, None, None) => Verdict::Fine,
    }
}

fn failing(verdict: &Verdict) -> NewCondition {
    match verdict {
        Verdict::Fine | Verdict::Waiting { .. } => NewCondition::new(FAILING, ConditionStatus::False, "", ""),
        Verdict::Slow { slow, late, .. } => NewCondition::new(FAILING, ConditionStatus::Unknown, slow, late),
        Verdict::Failing { error, .. } => {
            NewCondition::new(FAILING, ConditionStatus::True, error.reason.as_str(), error.whole())
        }
    }
}

fn progressing(verdict: &Verdict, facts: &Facts) -> NewCondition {
    use ConditionStatus::{False, True};
    let release = release::actual(facts);
    let v = release::label(&release);
    let reconciling = facts.mode() == Mode::Reconcile;
    let status = if reconciling { False } else { True };
    let (reason, message) = match verdict {
        Verdict::Failing { error, summary } if reconciling => {
            (error.reason.as_str(), format!("Error while reconciling {v}: {summary}"))
        }
        Verdict::Failing { error, summary } => (error.reason.as_str(), format!("Unable to apply {v}: {summary}")),
        _ if !facts.invalid.is_empty() => {
            let lead = if reconciling { "Stopped at" } else { "Reconciling" };
            (INVALID_CLUSTER_VERSION, format!("{lead} {v}: the cluster version is invalid"))
        }
        Verdict::Waiting { reason, text, .. } if reconciling => {
            (reason.as_str(), format!("Cluster version is {v}: {text}"))
        }
        _ if reconciling => ("", format!("Cluster version is {v}")),
        Verdict::Fine => ("", working_towards(v, facts, None)),
        Verdict::Waiting { reason, text, .. } | Verdict::Slow { reason, text, .. } => {
            (reason.as_str(), working_towards(v, facts, Some(text)))
        }
    };
    NewCondition::new(PROGRESSING, status, reason, message)
}

fn working_towards(v: &str, facts: &Facts, waiting: Option<&str>) -> String {
    let mut parts = Vec::new();
    let (done, total) = facts.rollout.as_ref().map_or((0, 0), |rollout| (rollout.done, rollout.total));
    if done > 0 {
        let total = total.max(done);
        let percent = done.saturating_mul(100) / total.max(1);
        parts.push(format!("{done} of {total} done ({percent}% complete)"));
    }
    parts.extend(waiting.map(str::to_owned));
    if parts.is_empty() { format!("Working towards {v}") } else { format!("Working towards {v}: {}", parts.join(", ")) }
}
