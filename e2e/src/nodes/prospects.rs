//! What becomes of a node from a given state, if nobody but its agent and the drain controller does anything more.

use super::machine::{Luck, Machine};
use anyhow::{Context, bail, ensure};
use cvo::testing::pools::agent::{self, Action, AgentFacts};
use cvo::testing::pools::decide::{self, Pods, Remembered, Seen, Settings};
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;

/// An update is about twenty actions, and the way back as many.
const ACTIONS: usize = 60;
/// A node that is as it should be is `Done` after at most this, and an update too: an attempt is put off by at most a minute.
const LIMIT: SignedDuration = SignedDuration::from_mins(3);
/// By how much a clock is set back.
const HOURS: SignedDuration = SignedDuration::from_hours(3);
/// A node is cordoned, drained and answered, each with one decision.
const GRANT: usize = 4;
/// The last actions that an error shows.
const SHOWN: usize = 8;

/// Whether the change drains and restarts the node. It follows from the two configurations, as that of a real plan does.
pub fn change(facts: &AgentFacts, at: usize) -> (bool, bool) {
    let sum: usize = format!("{}{}", facts.desired.config, at % 2).bytes().map(usize::from).sum();
    match sum % 3 {
        _ if facts.forced => (true, true),
        0 => (true, true),
        1 => (true, false),
        _ => (false, false),
    }
}

/// Fails unless, from this state, the agent comes to a pause although everything fails; and, once nothing is wrong and
/// whatever its clock shows, the node becomes what it should be, or was given up after a restart and is tried again when its
/// target is wanted again, or when somebody forces it. Returns whether it was given up.
pub fn judge(node: &Machine, at: usize, now: Timestamp) -> anyhow::Result<bool> {
    comes_to_a_pause(node.clone(), at, now)?;
    let mut mended = node.clone();
    mended.mend();
    let (mut set_back, mut later) = (mended.clone(), now);
    set_back.ahead -= HOURS;
    becomes_well(&mut set_back, at, &mut later).context("its clock was set back")?;
    let mut now = now;
    if becomes_well(&mut mended, at, &mut now)? {
        return Ok(false);
    }
    let (mut forced, mut later) = (mended.clone(), now);
    forced.forced = true;
    ensure!(becomes_well(&mut forced, at, &mut later)?, "what is forced is not tried again: {forced:?}");
    let target = mended.facts().desired.clone();
    let recorded = mended.recorded().clone();
    mended.want(&recorded);
    ensure!(becomes_well(&mut mended, at, &mut now)?, "not well where it was before: {mended:?}");
    mended.want(&target);
    ensure!(becomes_well(&mut mended, at, &mut now)?, "what was mended is not tried again: {mended:?}");
    Ok(true)
}

/// Whatever the agent tries fails, nobody answers, and no time passes.
fn comes_to_a_pause(mut node: Machine, at: usize, now: Timestamp) -> anyhow::Result<()> {
    let luck = Luck { fails: true, killed: false, comes_back_old: true };
    let mut last = VecDeque::new();
    for _ in 0..ACTIONS {
        let facts = node.agent_facts();
        let action = agent::decide(&facts, node.clock(now));
        if !node.up || matches!(action, Action::Wait { .. } | Action::Rest | Action::Reboot) {
            return Ok(());
        }
        node.perform(&action, change(&facts, at), luck, now);
        note(&mut last, action);
    }
    bail!("it is repeated without a pause: {last:?}")
}

/// Nothing fails, the drain controller does what it is asked for, and time passes. Whether the node has what it should have;
/// if not, it was given up.
fn becomes_well(node: &mut Machine, at: usize, now: &mut Timestamp) -> anyhow::Result<bool> {
    let until = now.checked_add(LIMIT)?;
    let mut last = VecDeque::new();
    for _ in 0..4 * ACTIONS {
        if !node.up {
            node.come_up(*now);
        }
        let facts = node.agent_facts();
        let clock = node.clock(*now);
        let action = agent::decide(&facts, clock);
        note(&mut last, action.clone());
        match action {
            Action::Rest => {
                ensure!(node.is_settled_at(&node.facts().desired.config), "at rest, and not well: {node:?}");
                return Ok(true);
            }
            Action::Wait { .. } if !facts.answered && facts.asked.is_some() => grant(node, *now)?,
            Action::Wait { until: Some(due), .. } => *now = now.checked_add(due.duration_since(clock))?,
            Action::Wait { .. } if node.is_given_up() => return Ok(false),
            Action::Wait { what, until: None } => bail!("it waits for {what}: {node:?}"),
            action => node.perform(&action, change(&facts, at), Luck::default(), *now),
        }
        ensure!(*now <= until, "not well after {LIMIT:#}: {last:?}, {node:?}");
    }
    bail!("never at rest: {last:?}")
}

/// What the controller does until the agent has an answer: of a cluster of this node without any pool.
fn grant(node: &mut Machine, now: Timestamp) -> anyhow::Result<()> {
    for _ in 0..GRANT {
        let name = node.facts().name.clone();
        let mut seen = Seen::default();
        seen.nodes.insert(name.clone(), node.view().clone());
        seen.pods.insert(name.clone(), node.pods);
        let decision = decide::decide(&Settings::default(), &mut Remembered::default(), &seen, now);
        if matches!(decision.pods.get(&name), Some(Pods::Evict(_))) {
            node.pods = 0;
        }
        for action in decision.actions {
            if let decide::Action::WriteNode { patch, .. } = action {
                node.patch(&patch)?;
            }
        }
        if node.agent_facts().answered {
            return Ok(());
        }
    }
    bail!("the controller does not answer: {node:?}")
}

fn note(last: &mut VecDeque<Action>, action: Action) {
    if last.len() == SHOWN {
        last.pop_front();
    }
    last.push_back(action);
}
