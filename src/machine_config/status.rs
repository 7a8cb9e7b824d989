//! What a pool's status says, from the status before, the facts and what is done now.

use super::estimate::left;
use super::node::NodeFacts;
use super::quorum::AT_RISK;
use super::rollout::{Cause, PoolFacts, Round};
use crate::error::together;
use crate::machine_config::api::machine_config::{MachineConfigPoolStatus, PoolCondition, PoolConfiguration};
use crate::object::condition::ConditionStatus;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What the status is about besides the nodes.
#[derive(Clone, Debug, Default)]
pub struct Subject<'a> {
    pub generation: i64,
    /// That of the pool's spec.
    pub configuration: PoolConfiguration,
    /// Why the configuration cannot be rendered.
    pub render_error: Option<&'a str>,
    /// How long the rest of the rollout takes, by what was learned.
    pub remaining: Option<SignedDuration>,
    /// Why etcd could lose its quorum.
    pub quorum: Option<String>,
}

/// How many nodes of a pool are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: i32,
    /// They have the pool's configuration.
    pub updated: i32,
    /// They have it, and pods can run on them.
    pub ready: i32,
    /// Pods cannot run on them, or an update of them is not over and has not failed.
    pub unavailable: i32,
    pub degraded: i32,
}

impl Counts {
    pub fn of(pool: &PoolFacts) -> Counts {
        let count = |wanted: &dyn Fn(&NodeFacts) -> bool| {
            i32::try_from(pool.nodes.iter().filter(|node| wanted(node)).count()).unwrap_or(i32::MAX)
        };
        Counts {
            total: count(&|_| true),
            updated: count(&|node| node.is_at(&pool.target)),
            ready: count(&|node| node.is_at(&pool.target) && node.is_ready()),
            unavailable: count(&|node| !node.is_ready() || !node.is_done() && !node.is_failing()),
            degraded: count(&NodeFacts::is_degraded),
        }
    }
}

/// All nodes have the pool's configuration and none is in trouble. One that somebody cordoned afterwards is not: whoever
/// waits for the pool would wait for that person. A pool without nodes is updated.
pub fn is_updated(pool: &PoolFacts) -> bool {
    !pool.target.config.is_empty()
        && pool
            .nodes
            .iter()
            .all(|node| node.is_at(&pool.target) && node.problems.is_empty() && !node.cordoned_for_update)
}

pub fn status(
    before: &MachineConfigPoolStatus,
    subject: &Subject<'_>,
    pool: &PoolFacts,
    round: &Round,
    now: Timestamp,
) -> MachineConfigPoolStatus {
    let counts = Counts::of(pool);
    let updated = is_updated(pool);
    let mut conditions = before.conditions.clone();
    for (type_, found) in conditions_of(subject, pool, round, counts, updated) {
        set(&mut conditions, type_, found, now);
    }
    match &subject.quorum {
        Some(risk) => set(&mut conditions, AT_RISK, Found(true, "MaxUnavailable".into(), risk.clone()), now),
        None => conditions.retain(|condition| condition.type_ != AT_RISK),
    }
    MachineConfigPoolStatus {
        observed_generation: subject.generation,
        configuration: if updated { subject.configuration.clone() } else { before.configuration.clone() },
        machine_count: counts.total,
        updated_machine_count: counts.updated,
        ready_machine_count: counts.ready,
        unavailable_machine_count: counts.unavailable,
        degraded_machine_count: counts.degraded,
        conditions,
    }
}

/// Whether it holds, its reason and its message.
struct Found(bool, String, String);

fn conditions_of(
    subject: &Subject<'_>,
    pool: &PoolFacts,
    round: &Round,
    counts: Counts,
    updated: bool,
) -> [(&'static str, Found); 6] {
    let target = target(pool);
    let plain = |holds: bool, message: String| Found(holds, String::new(), message);
    let updating = match () {
        () if updated => plain(false, String::new()),
        () if pool.paused => plain(false, format!("Paused: no node begins to take {target}")),
        () => {
            let left = subject.remaining.map(|remaining| format!(", {}", left(remaining))).unwrap_or_default();
            let late = round.unavailable.iter().filter(|it| matches!(it.cause, Cause::NotBack { .. }));
            let reached = format!("{} of {} nodes have {target}{left}", counts.updated, counts.total);
            let texts = [reached].into_iter().chain(late.map(ToString::to_string)).collect::<Vec<_>>();
            plain(true, together(&texts, "; "))
        }
    };
    let degraded: Vec<String> = pool.nodes.iter().filter(|node| node.is_degraded()).map(said).collect();
    let nodes = (!degraded.is_empty()).then(|| ("NodesDegraded", together(&degraded, ", ")));
    let render = subject.render_error.map(|error| ("RenderFailed", error.to_owned()));
    let found = |cause: Option<&(&str, String)>| match cause {
        Some((reason, message)) => Found(true, (*reason).to_owned(), message.clone()),
        None => plain(false, String::new()),
    };
    let all: Vec<&(&str, String)> = nodes.iter().chain(&render).collect();
    let all_causes = match all.as_slice() {
        [] | [_] => found(all.first().copied()),
        several => {
            let texts: Vec<&str> = several.iter().map(|(_, message)| message.as_str()).collect();
            Found(true, "SeveralCauses".into(), texts.join("; "))
        }
    };
    let blocked = round.blocked.as_ref().map_or_else(
        || plain(false, String::new()),
        |(reason, message)| {
            let waiting = match round.waiting {
                0 => message.clone(),
                1 => format!("1 node waits: {message}"),
                waiting => format!("{waiting} nodes wait: {message}"),
            };
            Found(true, reason.to_string(), waiting)
        },
    );
    let at_target = if updated { format!("All nodes have {target}") } else { String::new() };
    [
        ("Updated", plain(updated, at_target)),
        ("Updating", updating),
        ("NodeDegraded", found(nodes.as_ref())),
        ("RenderDegraded", found(render.as_ref())),
        ("Degraded", all_causes),
        ("RolloutBlocked", blocked),
    ]
}

fn target(pool: &PoolFacts) -> String {
    let image = pool.target.image.as_ref().map(|image| format!(" / Image {image}")).unwrap_or_default();
    format!("MachineConfig {}{image}", pool.target.config)
}

fn said(node: &NodeFacts) -> String {
    format!("Node {} is reporting: {:?}", node.name, node.reason)
}

/// The list keeps its order and the conditions of others. One type stands in it once.
fn set(conditions: &mut Vec<PoolCondition>, type_: &str, found: Found, now: Timestamp) {
    let Found(holds, reason, message) = found;
    let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
    // Whole seconds, as the API server keeps them: otherwise each comparison would find a difference.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let before = conditions.iter().position(|condition| condition.type_ == type_);
    let since = before.and_then(|at| conditions.get(at)).filter(|condition| condition.status == status);
    let since = since.and_then(|condition| condition.last_transition_time.clone()).unwrap_or(Time(now));
    let condition =
        PoolCondition { type_: type_.to_owned(), status, last_transition_time: Some(since), reason, message };
    match before.and_then(|at| conditions.get_mut(at)) {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
    let mut seen = false;
    conditions.retain(|condition| condition.type_ != type_ || !std::mem::replace(&mut seen, true));
}

#[cfg(test)]
mod tests;
