//! In which order nodes are told, what makes them wait, and how long all that takes.

use super::{DrainPlan, Members, Outcome, pool_name};
use crate::machine_config::api::machine_config::MachineConfigPool;
use crate::machine_config::approval;
use crate::machine_config::estimate::Learned;
use crate::machine_config::facts::pool_facts;
use crate::machine_config::holds::Answer;
use crate::machine_config::node::{NodeFacts, NodeState};
use crate::machine_config::rollout::{BlockedReason, Hold, PoolFacts, Round, limit, rounds};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rollout {
    /// The nodes in the order in which they are told.
    pub order: Vec<String>,
    /// How many may be unavailable at the same time.
    pub at_a_time: usize,
    /// How long all of it takes, if nodes take as long as half of the last ones did; `None` while nothing is known.
    pub seconds: Option<i64>,
    /// What makes nodes wait although they could be told.
    pub holds: Vec<Held>,
    /// Nodes that are not told at all as the cluster is.
    pub stuck: Option<Stuck>,
    /// Nodes whose agent has not said yet what they have.
    pub unknown: Vec<String>,
    pub drains: Vec<DrainPlan>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Held {
    pub reason: String,
    pub message: String,
    /// So many nodes begin before it counts.
    pub after: usize,
    /// When it ends by itself, as far as that is known.
    pub until: Option<Timestamp>,
    /// It lasts until somebody does something.
    #[serde(rename = "waitsForSomebody")]
    pub lasts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Stuck {
    pub nodes: Vec<String>,
    pub reason: String,
    pub message: String,
}

/// A rollout without the drains.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    pub order: Vec<String>,
    at_a_time: usize,
    remaining: Option<SignedDuration>,
    holds: Vec<Held>,
    stuck: Option<Stuck>,
    unknown: Vec<String>,
}

impl Rollout {
    pub(super) fn new(course: Course, drains: Vec<DrainPlan>) -> Rollout {
        let Course { order, at_a_time, remaining, holds, stuck, unknown } = course;
        Rollout { order, at_a_time, seconds: remaining.map(|it| it.as_secs()), holds, stuck, unknown, drains }
    }

    /// Something has to be done before all nodes have their configuration.
    pub(super) fn waits(&self) -> bool {
        let kept = self.drains.iter().any(|drain| !drain.kept.is_empty());
        kept || self.stuck.is_some() || self.holds.iter().any(|hold| hold.lasts)
    }
}

/// For each pool what is known of it with its new configuration, and its course if that is another one.
pub(super) fn courses(
    outcomes: &[Outcome<'_>],
    mut members: Members,
    cluster: &super::Cluster,
    now: Timestamp,
) -> Vec<(PoolFacts, Option<Course>)> {
    let last: Vec<String> = cluster.controller.node.iter().cloned().collect();
    let mut all: Vec<(PoolFacts, Option<Course>)> = Vec::new();
    for outcome in outcomes {
        let mut pool = outcome.pool.clone();
        if let Ok(rendered) = &outcome.result {
            pool.spec.configuration.name.clone_from(&rendered.name);
        }
        let nodes = members.remove(pool_name(&pool)).unwrap_or_default();
        let changes = pool.spec.configuration.name != outcome.pool.spec.configuration.name;
        let (answer, condition) = answer(&pool, now);
        let facts = pool_facts(&pool, nodes, &answer, &last, now);
        let course = changes.then(|| course(&pool, &facts, condition, now));
        all.push((facts, course));
    }
    let freed = all.iter().map(|(facts, _)| PoolFacts {
        paused: false,
        holds: Vec::new(),
        soak: SignedDuration::ZERO,
        ..facts.clone()
    });
    let told = tell_all(freed.collect(), cluster.controller.ceiling, now);
    for ((_, course), (order, stuck)) in all.iter_mut().zip(told) {
        if let Some(course) = course {
            (course.order, course.stuck) = (order, stuck);
        }
    }
    all
}

/// What the query would answer, and the condition that it is. What is asked only during a rollout counts as true here.
fn answer(pool: &MachineConfigPool, now: Timestamp) -> (Answer, Option<Held>) {
    let none = BTreeMap::new();
    let Some(query) = approval::query(pool.metadata.annotations.as_ref().unwrap_or(&none)) else {
        return (Answer::Unknown, None);
    };
    let condition = Held {
        reason: BlockedReason::AwaitingHealth.to_string(),
        message: format!("nodes begin only while the query {} is true", crate::error::shortened(query, 200)),
        after: 0,
        until: None,
        lasts: false,
    };
    (Answer::True { since: now }, Some(condition))
}

fn course(pool: &MachineConfigPool, facts: &PoolFacts, condition: Option<Held>, now: Timestamp) -> Course {
    let managed = facts.nodes.iter().filter(|node| node.is_managed()).count();
    let paused = facts.paused.then(|| Held {
        reason: BlockedReason::PausedPool.to_string(),
        message: "it is paused: set spec.paused to false to let it go on".to_owned(),
        after: 0,
        until: None,
        lasts: true,
    });
    let held = |hold: &Hold| Held {
        reason: hold.reason.to_string(),
        message: hold.message.clone(),
        after: hold.nodes,
        until: hold.until,
        // A query lets the rest go by itself.
        lasts: hold.until.is_none() && !(hold.reason == BlockedReason::AwaitingApproval && condition.is_some()),
    };
    let holds = facts.holds.iter().filter(|hold| hold.nodes < managed).map(held);
    let holds: Vec<Held> = paused.into_iter().chain(holds).chain(condition.clone()).collect();
    let unhindered = PoolFacts { paused: false, ..facts.clone() };
    let learned = Learned::of(pool.metadata.annotations.as_ref().unwrap_or(&BTreeMap::new()));
    let unknown = facts.nodes.iter().filter(|node| !node.is_managed());
    Course {
        order: Vec::new(),
        at_a_time: limit(&facts.name, facts.max_unavailable.as_ref(), facts.nodes.len()).unwrap_or_default(),
        remaining: learned.remaining(&unhindered, &Round::default(), now),
        holds,
        stuck: None,
        unknown: unknown.map(|node| node.name.clone()).collect(),
    }
}

/// Plays the rollouts of all pools, in which every node that is told succeeds at once: the order of each pool, and the nodes
/// that are never told.
fn tell_all(mut pools: Vec<PoolFacts>, ceiling: Option<usize>, now: Timestamp) -> Vec<(Vec<String>, Option<Stuck>)> {
    let mut orders: Vec<Vec<String>> = vec![Vec::new(); pools.len()];
    loop {
        let rounds = rounds(&pools, ceiling, now);
        let mut goes_on = false;
        for ((pool, round), order) in pools.iter_mut().zip(&rounds).zip(&mut orders) {
            let told: BTreeSet<&String> = round.begin.iter().chain(&round.claim).collect();
            order.extend(round.begin.iter().chain(&round.claim).cloned());
            for node in &mut pool.nodes {
                let is_lost = node.back_by().is_some_and(|by| by <= now);
                if told.contains(&node.name) {
                    pool.claimed.remove(&node.name);
                    node.desired = pool.target.clone();
                } else if is_lost || !node.is_managed() || !node.is_changing() || node.desired.config.is_empty() {
                    continue;
                }
                // That an update which is under way ends is expected, unless the node should be back and is not.
                if !is_lost {
                    finish(node);
                }
                goes_on = true;
            }
        }
        if !goes_on {
            let stuck = pools.iter().zip(rounds).map(|(pool, round)| stuck(pool, round));
            return orders.into_iter().zip(stuck).collect();
        }
    }
}

/// It gets what it was told.
fn finish(node: &mut NodeFacts) {
    node.current = node.desired.clone();
    node.restarting_since = None;
    node.state = NodeState::Done;
    node.reason.clear();
    node.problems.clear();
    node.drain_blocked = None;
    if std::mem::take(&mut node.cordoned_for_update) {
        node.unschedulable = false;
    }
}

fn stuck(pool: &PoolFacts, round: Round) -> Option<Stuck> {
    let behind = pool.nodes.iter().filter(|node| node.is_managed() && !node.is_at(&pool.target));
    let nodes: Vec<String> = behind.map(|node| node.name.clone()).collect();
    if nodes.is_empty() {
        return None;
    }
    let each: Vec<String> = round.unavailable.iter().map(ToString::to_string).collect();
    let unavailable = || (BlockedReason::UnavailableNodes, each.join("; "));
    let (reason, message) = round.blocked.unwrap_or_else(unavailable);
    Some(Stuck { nodes, reason: reason.to_string(), message })
}
