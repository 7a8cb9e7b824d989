//! `Failing` and `Progressing`: what a failure means now, given how long operators normally take.

use super::{FAILING, INVALID_CLUSTER_VERSION, NewCondition, PROGRESSING};
use crate::api::condition::ConditionStatus;
use crate::graph::Mode;
use crate::status::failure::{Effect, Reason, UpdateError};
use crate::status::{Facts, release, summary};
use jiff::{SignedDuration, Timestamp};

/// A degraded operator is given this long to recover.
const DEGRADED_LIMIT: SignedDuration = SignedDuration::from_mins(40);
/// An operator that updates for longer is slow. The one that reboots every node is given more time.
const UPDATING_LIMIT: SignedDuration = SignedDuration::from_mins(30);
const NODES_LIMIT: SignedDuration = SignedDuration::from_mins(90);
const NODES_OPERATOR: &str = "machine-config";
const SLOW: &str = "SlowClusterOperator";

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
    match &facts.failure {
        None => Verdict::Fine,
        Some(error) if facts.mode == Mode::Reconcile || history_empty => fails(error),
        Some(error) if error.reason == Reason::MultipleErrors && !error.nested.is_empty() => {
            judge_several(error.nested.iter().map(|child| judge_one(child, facts, now)).collect())
        }
        Some(error) => judge_one(error, facts, now),
    }
}

fn fails(error: &UpdateError) -> Verdict {
    Verdict::Failing { summary: summary::of(error), error: error.clone() }
}

fn judge_one(error: &UpdateError, facts: &Facts, now: Timestamp) -> Verdict {
    let late = |limit: SignedDuration, counts: fn(&str) -> bool| {
        let names = error.names.iter().filter(|name| counts(name));
        // A wait whose start is unknown is not late: else Failing would be True for a moment after a restart.
        let over =
            |name: &&String| facts.waiting_since.get(*name).is_some_and(|since| now.duration_since(*since) > limit);
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
            let late_operators = late(UPDATING_LIMIT, |name| name != NODES_OPERATOR);
            let late_nodes = late(NODES_LIMIT, |name| name == NODES_OPERATOR);
            let late = match (late_operators.as_str(), late_nodes.as_str()) {
                ("", "") => return waiting(Effect::Wait, format!("waiting on {}", who(error))),
                (names, "") => format!("waiting on {names} over 30 minutes"),
                ("", nodes) => format!("waiting on {nodes} over 90 minutes"),
                (names, nodes) => format!("waiting on {names} over 30 minutes and {nodes} over 90 minutes"),
            };
            Verdict::Slow { reason: error.reason.clone(), text: late.clone(), late }
        }
    }
}

/// What the update waits for; the message of an error without names.
fn who(error: &UpdateError) -> String {
    if error.names.is_empty() { error.message.clone() } else { error.names.join(", ") }
}

/// Each child is judged by its own time: a failure outweighs a slow operator, and that outweighs one that is still within
/// its time.
fn judge_several(children: Vec<Verdict>) -> Verdict {
    let (mut failed, mut late, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut slow_reason, mut strongest) = (None, None::<(Effect, Reason)>);
    for child in children {
        match child {
            Verdict::Fine => {}
            Verdict::Failing { error, summary } => failed.push((error, summary)),
            Verdict::Slow { reason, late: text, .. } => {
                slow_reason.get_or_insert(reason);
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
        (None, Some(reason), _) => Verdict::Slow { reason, late: late.join(", "), text },
        (None, None, Some((effect, reason))) => Verdict::Waiting { reason, effect, text },
        (None, None, None) => Verdict::Fine,
    }
}

fn failing(verdict: &Verdict) -> NewCondition {
    match verdict {
        Verdict::Fine | Verdict::Waiting { .. } => NewCondition::new(FAILING, ConditionStatus::False, "", ""),
        Verdict::Slow { late, .. } => NewCondition::new(FAILING, ConditionStatus::Unknown, SLOW, late),
        Verdict::Failing { error, .. } => {
            NewCondition::new(FAILING, ConditionStatus::True, error.reason.as_str(), error.whole())
        }
    }
}

fn progressing(verdict: &Verdict, facts: &Facts) -> NewCondition {
    use ConditionStatus::{False, True};
    let release = release::actual(facts);
    let v = release::label(&release);
    let reconciling = facts.mode == Mode::Reconcile;
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
    if facts.done > 0 {
        let total = facts.total.max(facts.done);
        let percent = facts.done.saturating_mul(100) / total.max(1);
        parts.push(format!("{} of {total} done ({percent}% complete)", facts.done));
    }
    parts.extend(waiting.map(str::to_owned));
    if parts.is_empty() { format!("Working towards {v}") } else { format!("Working towards {v}: {}", parts.join(", ")) }
}
