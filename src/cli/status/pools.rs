//! Pools and their nodes in the state of an update.

use super::next_step;
use crate::cli::layout::{Cell, Colour, Page, ago, clean, line, paragraph, table};
use crate::machine_config::api::machine_config::{MachineConfigPool, PoolCondition};
use crate::machine_config::membership::{Membership, without_pool};
use crate::machine_config::node::{NodeFacts, Target};
use crate::machine_config::phase::{NodePhase, Phase};
use crate::machine_config::quorum::AT_RISK;
use crate::object::condition::ConditionStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;
use std::collections::BTreeMap;

/// Nodes of a pool that are listed in text; JSON has all.
const SHOWN: usize = 10;

/// A MachineConfigPool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolState {
    pub name: String,
    pub state: State,
    /// Nodes that have the pool's configuration, and all of them, by the pool's status.
    pub updated: i32,
    pub total: i32,
    /// Since when it is in this state.
    pub since: Option<Timestamp>,
    /// What goes on, or what is wrong.
    pub message: String,
    /// Why no further node begins, and since when.
    pub blocked: Option<Blocked>,
    /// Why the pool's limit may take etcd's quorum away.
    pub quorum_risk: Option<String>,
    /// Nodes that are under way, in trouble or waiting.
    pub nodes: Vec<NodePhase>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// All nodes have the pool's configuration.
    Updated,
    Updating,
    Paused,
    Degraded,
    /// The controller has not said anything yet.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blocked {
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
    /// What a person can do about it.
    pub next_step: &'static str,
}

/// The pools in the order of their names.
pub(crate) fn pools(pools: &[MachineConfigPool], nodes: &[Node]) -> Vec<PoolState> {
    let mut members: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        if let Membership::Member { pool, .. } = Membership::of(&NodeFacts::labels(node), pools) {
            members.entry(pool).or_default().push(node);
        }
    }
    let mut all: Vec<PoolState> = pools
        .iter()
        .map(|pool| {
            let members = members.remove(pool.metadata.name.as_deref().unwrap_or_default());
            state(pool, &members.unwrap_or_default())
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// What is to be said of nodes that no pool selects.
pub(crate) fn left_alone(pools: &[MachineConfigPool], nodes: &[Node]) -> Vec<String> {
    let labels: Vec<_> =
        nodes.iter().map(|node| (node.metadata.name.clone().unwrap_or_default(), NodeFacts::labels(node))).collect();
    without_pool(labels.iter().map(|(name, labels)| (name.as_str(), labels)), pools)
}

fn state(pool: &MachineConfigPool, members: &[&Node]) -> PoolState {
    let target = Target::new(&pool.spec.configuration.name);
    let status = pool.status.clone().unwrap_or_default();
    let holds = |type_: &str| {
        let mut conditions = status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_ && condition.status == ConditionStatus::True)
    };
    let since = |condition: &PoolCondition| condition.last_transition_time.as_ref().map(|time| time.0);
    let (kind, condition) = match (holds("Degraded"), holds("Updated"), holds("Updating")) {
        (Some(degraded), ..) => (State::Degraded, Some(degraded)),
        (None, Some(updated), _) => (State::Updated, Some(updated)),
        (None, None, _) if pool.spec.paused => (State::Paused, None),
        (None, None, Some(updating)) => (State::Updating, Some(updating)),
        (None, None, None) => (State::Unknown, None),
    };
    let blocked = holds("RolloutBlocked").map(|condition| Blocked {
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: since(condition),
        next_step: next_step::of_pool(&condition.reason).unwrap_or_default(),
    });
    let quorum_risk = holds(AT_RISK).map(|condition| condition.message.clone());
    let mut nodes: Vec<NodePhase> = members.iter().filter_map(|node| NodePhase::of(node, &target)).collect();
    nodes.sort_by(|a, b| (rank(a.phase), &a.name).cmp(&(rank(b.phase), &b.name)));
    PoolState {
        name: pool.metadata.name.clone().unwrap_or_default(),
        state: kind,
        updated: status.updated_machine_count,
        total: status.machine_count,
        since: condition.and_then(since),
        message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
        blocked,
        quorum_risk,
        nodes,
    }
}

/// Trouble first, and those that wait last.
fn rank(phase: Phase) -> u8 {
    match phase {
        Phase::Degraded => 0,
        Phase::Unavailable => 1,
        Phase::Waiting => 3,
        _ => 2,
    }
}

/// What a headline that says that the release is applied leaves open: it does not wait for all pools.
pub(crate) fn rest(pools: &[PoolState]) -> Vec<String> {
    let behind = pools.iter().filter(|pool| pool.state != State::Updated && pool.updated < pool.total);
    let text = |pool: &PoolState| {
        let left = pool.total.saturating_sub(pool.updated);
        let nodes = if pool.total == 1 { "node" } else { "nodes" };
        format!(
            "The release is applied; {left} of {} {nodes} of pool {} still have to get their configuration",
            pool.total,
            clean(&pool.name)
        )
    };
    behind.map(text).collect()
}

pub(crate) fn write(pools: &[PoolState], page: &Page, out: &mut String) {
    if pools.is_empty() {
        return;
    }
    out.push('\n');
    let titles = ["POOL", "STATE", "NODES", "TIME", "WHY"];
    let mut rows = vec![titles.map(|title| (title.to_owned(), Colour::Faint)).to_vec()];
    rows.extend(pools.iter().map(|pool| row(pool, page.now)));
    table(page, out, &rows);
    for pool in pools {
        if let Some(blocked) = pool.blocked.as_ref().filter(|blocked| !blocked.next_step.is_empty()) {
            let text = format!("→ {}: {}", clean(&pool.name), blocked.next_step);
            paragraph(page, out, "  ", &text, Colour::Strong);
        }
        let mut listed = 0;
        for node in pool.nodes.iter().filter(|node| node.phase != Phase::Waiting) {
            listed += 1;
            if listed <= SHOWN {
                paragraph(page, out, "  ", &node_line(node, page.now), colour(node.phase));
            }
        }
        if listed > SHOWN {
            let text = format!("  and {} more nodes of {}", listed - SHOWN, clean(&pool.name));
            line(page, out, &text, Colour::Faint);
        }
    }
}

fn row(pool: &PoolState, now: Timestamp) -> Vec<Cell> {
    let (word, colour) = match (pool.state, &pool.blocked) {
        (State::Updated, _) => ("updated", Colour::Good),
        (State::Paused, _) => ("paused", Colour::Busy),
        (State::Degraded, _) => ("degraded", Colour::Bad),
        (State::Unknown, _) => ("not reported", Colour::Busy),
        (State::Updating, Some(_)) => ("waiting", Colour::Busy),
        (State::Updating, None) => ("updating", Colour::Plain),
    };
    let time = pool.since.filter(|_| pool.state != State::Updated).map(|since| ago(since, now));
    vec![
        (clean(&pool.name).into_owned(), Colour::Plain),
        (word.to_owned(), colour),
        (format!("{}/{}", pool.updated, pool.total), Colour::Plain),
        (time.unwrap_or_default(), Colour::Plain),
        (why(pool, now), colour),
    ]
}

fn why(pool: &PoolState, now: Timestamp) -> String {
    let message = match pool.state {
        State::Updated => "",
        State::Updating | State::Paused | State::Degraded | State::Unknown => pool.message.as_str(),
    };
    let blocked = pool.blocked.as_ref().map(|blocked| {
        let since = blocked.since.map(|since| format!(" (since {})", ago(since, now))).unwrap_or_default();
        format!("{}{since}", blocked.message)
    });
    let message = Some(message.to_owned()).filter(|text| !text.is_empty());
    let parts = [message, blocked, pool.quorum_risk.clone()].into_iter().flatten();
    clean(&parts.collect::<Vec<_>>().join("; ")).into_owned()
}

/// For example `node-3 draining for 2m 3s: pod a/b is kept by …`.
pub(crate) fn node_line(node: &NodePhase, now: Timestamp) -> String {
    let since = node.since.map(|since| format!(" for {}", ago(since, now))).unwrap_or_default();
    let message = if node.message.is_empty() { String::new() } else { format!(": {}", node.message) };
    clean(&format!("{} {}{since}{message}", node.name, word(node.phase))).into_owned()
}

/// The pool of each node, by the node's name.
pub(crate) fn homes(pools: &[MachineConfigPool], nodes: &[Node]) -> BTreeMap<String, Membership> {
    let home = |node: &Node| {
        let name = node.metadata.name.clone().unwrap_or_default();
        (name, Membership::of(&NodeFacts::labels(node), pools))
    };
    nodes.iter().map(home).collect()
}

/// What has changed in a pool, for lines: only what is more than a number. `homes`: the pools of the nodes now.
pub(crate) fn changes(
    before: Option<&PoolState>,
    after: &PoolState,
    homes: &BTreeMap<String, Membership>,
    now: Timestamp,
) -> Vec<String> {
    let name = clean(&after.name);
    let mut lines = Vec::new();
    if before.is_none_or(|before| before.state != after.state) && (before.is_some() || after.state != State::Updated) {
        let numbers = format!("{} of {} nodes are updated", after.updated, after.total);
        let message = if after.message.is_empty() { numbers } else { clean(&after.message).into_owned() };
        let state = format!("{:?}", after.state).to_lowercase();
        lines.push(format!("pool {name}: {state}: {message}"));
    }
    let reason = |pool: &PoolState| pool.blocked.as_ref().map(|blocked| blocked.reason.clone());
    if let Some(blocked) = after.blocked.as_ref().filter(|_| before.and_then(reason) != reason(after)) {
        lines.push(format!("pool {name} waits: {}", clean(&blocked.message)));
    }
    let old = |node: &NodePhase| before.and_then(|before| before.nodes.iter().find(|old| old.name == node.name));
    let told = after.nodes.iter().filter(|node| node.phase != Phase::Waiting);
    lines.extend(told.filter(|node| old(node).is_none_or(|old| old.phase != node.phase)).map(|n| node_line(n, now)));
    let gone = before.iter().flat_map(|before| &before.nodes);
    let gone = gone.filter(|old| after.nodes.iter().all(|node| node.name != old.name));
    lines.extend(gone.map(|node| {
        let what = match homes.get(&node.name) {
            None => "is gone from",
            Some(home) if home.pool() == Some(after.name.as_str()) => "has the configuration of",
            Some(_) => "has left",
        };
        format!("{} {what} pool {name}", clean(&node.name))
    }));
    lines
}

pub(crate) fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waits for its turn",
        Phase::Told => "has been told",
        Phase::Preparing => "prepares",
        Phase::Draining => "is being drained",
        Phase::Applying => "is being changed",
        Phase::Restarting => "is being restarted",
        Phase::Uncordoning => "is being uncordoned",
        Phase::Degraded => "failed",
        Phase::Unavailable => "is unavailable",
    }
}

fn colour(phase: Phase) -> Colour {
    match phase {
        Phase::Degraded => Colour::Bad,
        Phase::Unavailable => Colour::Busy,
        _ => Colour::Plain,
    }
}
