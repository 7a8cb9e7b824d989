//! Which nodes of a pool are told to take its configuration now, and why the others wait.
//!
//! A node is unavailable, and counts once, as long as anything keeps pods away from it or an update is not over. What this
//! controller begins never makes more nodes unavailable than the pool allows. A node that is unavailable because of an
//! update already may be given another configuration at any time: that is how a mistake is corrected.
//!
//! A node is claimed before it is told: the claim is written to the pool, over the version of the pool that was read. So a
//! controller that has lost its lease without knowing cannot begin a node beside those of its successor: either its claim is
//! refused, or the successor has read it and counts the node. Who tells a node writes the claim to it, over the version of
//! the node that was read, even if it has nothing else to say: only then may nobody act on the claim any more.

pub(crate) mod etcd;

use super::membership::{ARBITER, MASTER};
use super::node::{NodeFacts, Problem, Target};
use crate::error::together;
use etcd::Etcd;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;
use std::fmt;

/// A pool, the nodes that belong to it, and what limits its rollout.
#[derive(Clone, Debug, Default)]
pub struct PoolFacts {
    pub name: String,
    /// Empty until the pool's configuration has been rendered.
    pub target: Target,
    pub paused: bool,
    pub max_unavailable: Option<IntOrString>,
    /// How many nodes of one zone may be unavailable.
    pub max_unavailable_per_zone: Option<IntOrString>,
    /// How long a node counts as unavailable after it has been uncordoned.
    pub soak: SignedDuration,
    pub holds: Vec<Hold>,
    /// Nodes that are not begun while others are left, because the pod that does the work runs there: by name.
    pub last: Vec<String>,
    /// Names of the nodes that have been claimed, each with the resourceVersion that the pool had before, by which claims of
    /// one node differ. Some nodes may have been told since.
    pub claimed: BTreeMap<String, String>,
    /// Of the control plane's pools only.
    pub etcd: Etcd,
    pub nodes: Vec<NodeFacts>,
}

/// Something that lets no more than a number of nodes begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub reason: BlockedReason,
    pub message: String,
    /// So many nodes may have begun or reached the target.
    pub nodes: usize,
    /// When it ends by itself, as far as that is known.
    pub until: Option<Timestamp>,
}

crate::error::causes! {
    /// The reason of the pool's condition `RolloutBlocked`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum BlockedReason {
        /// The pool is paused.
        PausedPool => "Set spec.paused of the pool to false when its nodes may change",
        /// The pool's configuration cannot be rendered.
        RenderBlocked => "Correct the MachineConfig that the message names",
        /// The image of the pool's operating system is being built.
        BuildPending => "Wait for the image of the operating system, and look at its build if it fails",
        /// A field of the pool cannot be read.
        InvalidPool => "Correct the field or annotation of the pool that the message names",
        /// Nodes have not come back from their restart.
        RestartOverdue => "Look at the console of the node: it was restarted and is not back",
        /// Nodes failed to take their configuration.
        FailedNodes => "Correct the MachineConfig, or what is wrong on the node; the annotation reason of the node says what happened",
        /// Nodes are unavailable for other reasons than an update.
        UnavailableNodes => "Bring the nodes back that the message names, or remove them from the cluster; others wait until then",
        /// Pods cannot be evicted.
        DrainBlocked => "Look at the PodDisruptionBudgets that the message names: the pods need another healthy replica, or the budget has to allow one to go",
        /// Nodes have to be well for a time, or something else in the cluster has to.
        AwaitingHealth => "Wait, and look at what the message names if it does not become well",
        /// An administrator has to say that it goes on.
        AwaitingApproval => "Look at the nodes that are done, and annotate the pool with machineconfiguration.openshift.io/approved as the message says",
        /// No maintenance window is open.
        OutsideMaintenanceWindow => "Wait for the maintenance window, or change the annotation maintenance-windows of the pool",
        /// Another pool has to come first, or has used up what the cluster can do without.
        AwaitingOtherPool => "Wait for the other pool, and look there for what keeps it",
    }
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a node counts as unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has been told to take another configuration, or is about to.
    Updating,
    /// It was to be restarted for an update, and is not back although it should be.
    NotBack {
        since: Timestamp,
    },
    /// It could not take its configuration, or deviates from it.
    Failed(String),
    Problems(Vec<Problem>),
    /// By somebody else.
    Cordoned,
    Soaking {
        until: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    pub node: String,
    pub cause: Cause,
}

/// What is to be done in a pool now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Nodes that are told to take the target: they have been claimed, or are unavailable because of an update already.
    pub begin: Vec<String>,
    /// Nodes that are to be claimed, in order, so that they are told next.
    pub claim: Vec<String>,
    /// Names of nodes that have been told what they were claimed for, or have gone: their claims may be removed.
    pub settled: Vec<String>,
    pub unavailable: Vec<Unavailable>,
    /// How many nodes have not been told yet, besides [`Round::begin`] and [`Round::claim`].
    pub waiting: usize,
    /// Nodes that wait and come next, as many as may be unavailable: they may prepare for the target while they serve.
    pub next: Vec<String>,
    /// Nodes that could be begun if nothing ran there that has to come last.
    pub deferred: Vec<String>,
    /// Why nothing goes on although nodes wait, or are to be drained.
    pub blocked: Option<(BlockedReason, String)>,
    /// When to look again although nothing has changed.
    pub again: Option<Timestamp>,
}

/// The most nodes of `total` that may be unavailable: a number, or a percentage of them, rounded down; at least one.
/// Those that only vote in etcd go one by one.
pub fn limit(pool: &str, value: Option<&IntOrString>, total: usize) -> Result<usize, String> {
    if pool == ARBITER {
        return Ok(1);
    }
    let invalid = |text: &str| {
        format!(
            "maxUnavailable {text:?} is neither a number nor a percentage: give a number of nodes such as 2, or \"10%\""
        )
    };
    let found = match value {
        None => 1,
        Some(IntOrString::Int(number)) => usize::try_from(*number).map_err(|_| invalid(&number.to_string()))?,
        Some(IntOrString::String(text)) => {
            let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let percentage = digits.and_then(|digits| digits.parse::<u32>().ok()).ok_or_else(|| invalid(text))?;
            total.saturating_mul(usize::try_from(percentage).unwrap_or(usize::MAX)) / 100
        }
    };
    Ok(found.max(1))
}

/// Why the node is unavailable at `now`, if it is.
fn cause(pool: &PoolFacts, node: &NodeFacts, now: Timestamp) -> Option<Cause> {
    // Of a node that was not drained it is written after this, but not in a paused pool.
    let since = node.done_since.or_else(|| (!pool.paused && !pool.soak.is_zero()).then_some(now));
    let soaked = since.filter(|_| node.is_at(&pool.target));
    let soaked = soaked.and_then(|since| since.checked_add(pool.soak).ok());
    match () {
        () if node.is_degraded() => Some(Cause::Failed(node.reason.clone())),
        () if node.back_by().is_some_and(|by| by <= now) => node.restarting_since.map(|since| Cause::NotBack { since }),
        () if node.is_changing() => Some(Cause::Updating),
        () if !node.problems.is_empty() => Some(Cause::Problems(node.problems.clone())),
        () if node.unschedulable => Some(Cause::Cordoned),
        () if is_claimed(pool, node) => Some(Cause::Updating),
        () => soaked.filter(|until| *until > now).map(|until| Cause::Soaking { until }),
    }
}

/// Some controller may tell it at any moment.
fn is_claimed(pool: &PoolFacts, node: &NodeFacts) -> bool {
    pool.claimed.get(&node.name).is_some_and(|claim| node.told_for.as_ref() != Some(claim))
}

/// The node may be told without making another one unavailable: an update of it is under way, and it can be reached.
fn may_be_told(pool: &PoolFacts, node: &NodeFacts, cause: &Cause) -> bool {
    let ours = match cause {
        Cause::Updating | Cause::NotBack { .. } => true,
        Cause::Failed(_) => node.is_failing(),
        Cause::Problems(_) | Cause::Cordoned | Cause::Soaking { .. } => false,
    };
    let cordoned_by_others = node.unschedulable && !node.cordoned_for_update;
    let news = node.desired != pool.target || is_claimed(pool, node);
    ours && news && node.problems.is_empty() && !cordoned_by_others
}

/// What is to be done in each of the pools, which are all that the cluster has. `ceiling`: how many nodes of all pools
/// together may be unavailable, if that is limited; the control plane comes first, the others by name.
pub fn rounds(pools: &[PoolFacts], ceiling: Option<usize>, now: Timestamp) -> Vec<Round> {
    let mut order: Vec<(usize, &PoolFacts)> = pools.iter().enumerate().collect();
    order.sort_by_key(|(_, pool)| (pool.name != MASTER, pool.name != ARBITER, &pool.name));
    let count = |pool: &PoolFacts| unavailable(pool, now).count();
    let mut left = ceiling.map(|ceiling| ceiling.saturating_sub(pools.iter().map(count).sum()));
    let mut rounds = vec![Round::default(); pools.len()];
    for (at, pool) in order {
        let round = round(pool, &others_first(pool, pools, now), left, now);
        left = left.map(|left| left.saturating_sub(round.claim.len()));
        if let Some(place) = rounds.get_mut(at) {
            *place = round;
        }
    }
    rounds
}

/// etcd has a member on each node of these two pools: the nodes that only vote are begun when those of the control plane are
/// done, and none of the control plane while one that votes is away.
fn others_first(pool: &PoolFacts, pools: &[PoolFacts], now: Timestamp) -> Vec<Hold> {
    let find = |name: &str| pools.iter().find(|pool| pool.name == name);
    let (master, arbiter) = (find(MASTER), find(ARBITER));
    let away = |pool: &PoolFacts| unavailable(pool, now).next().map(|it| it.to_string());
    let cause = match pool.name.as_str() {
        MASTER => arbiter.and_then(away).map(|node| format!("the pool {ARBITER} comes first: {node}")),
        ARBITER => master.and_then(|master| {
            let waits =
                !master.paused && master.nodes.iter().any(|node| node.is_managed() && node.desired != master.target);
            let waits = waits.then(|| format!("the pool {MASTER} comes first: nodes of it wait"));
            away(master).map(|node| format!("the pool {MASTER} comes first: {node}")).or(waits)
        }),
        _ => None,
    };
    let hold = |message| Hold { reason: BlockedReason::AwaitingOtherPool, message, nodes: 0, until: None };
    cause.map(hold).into_iter().collect()
}

fn unavailable(pool: &PoolFacts, now: Timestamp) -> impl Iterator<Item = Unavailable> {
    let managed = pool.nodes.iter().filter(|node| node.is_managed());
    managed.filter_map(move |node| {
        let cause = cause(pool, node, now)?;
        Some(Unavailable { node: node.name.clone(), cause })
    })
}

/// What is to be done in one pool. `left`: how many nodes more the whole cluster can do without, if that is limited.
fn round(pool: &PoolFacts, others: &[Hold], left: Option<usize>, now: Timestamp) -> Round {
    let mut round = Round::default();
    let (mut begun, mut candidates) = (Vec::new(), Vec::new());
    let mut zones = Zones::default();
    for node in pool.nodes.iter().filter(|node| node.is_managed()) {
        let cause = cause(pool, node, now);
        zones.add(node, cause.is_some());
        let behind = node.desired != pool.target;
        match cause {
            Some(cause) => {
                match may_be_told(pool, node, &cause) {
                    true => begun.push(node),
                    false => round.waiting += usize::from(behind),
                }
                round.unavailable.push(Unavailable { node: node.name.clone(), cause });
            }
            None if behind => candidates.push(node),
            None => {}
        }
    }
    round.again = earliest(pool, &round.unavailable, now);
    let open = |name: &String| pool.nodes.iter().any(|node| node.name == *name && is_claimed(pool, node));
    round.settled = pool.claimed.keys().filter(|name| !open(name)).cloned().collect();
    let (most, zones) = match limits(pool, zones) {
        Ok(limits) => limits,
        Err(stopped) => {
            round.waiting += candidates.len() + begun.len();
            round.blocked = (round.waiting > 0).then_some(stopped);
            return round;
        }
    };
    let has_begun = |node: &&NodeFacts| node.is_managed() && (node.desired == pool.target || is_claimed(pool, node));
    let has_begun = pool.nodes.iter().filter(has_begun).count();
    let hold = pool.holds.iter().chain(others).min_by_key(|hold| (hold.nodes, hold.reason));
    let held = hold.map_or(usize::MAX, |hold| hold.nodes.saturating_sub(has_begun));
    let capacity = most.saturating_sub(round.unavailable.len());
    in_order(&mut candidates);
    let (number, queue) = (candidates.len(), candidates.clone());
    candidates.retain(|node| pool.etcd.lets_begin(&node.name));
    let by_etcd = pool.etcd.hindrance().filter(|_| candidates.is_empty() && number > 0);
    let is_last = |node: &&&NodeFacts| pool.last.contains(&node.name);
    if candidates.iter().any(|node| !is_last(&node)) {
        round.deferred = candidates.iter().filter(is_last).map(|node| node.name.clone()).collect();
        candidates.retain(|node| !pool.last.contains(&node.name));
    }
    let chosen = choose(&candidates, capacity.min(held).min(left.unwrap_or(usize::MAX)), zones);
    round.waiting += number - chosen.len();
    let waiting = queue.iter().filter(|node| !chosen.contains(&node.name));
    round.next = waiting.take(most).map(|node| node.name.clone()).collect();
    // Those that have begun make nobody else unavailable, whatever holds the others.
    round.begin = begun.iter().map(|node| node.name.clone()).collect();
    round.claim = chosen;
    let by_etcd = by_etcd.map(|message| (BlockedReason::AwaitingHealth, message));
    let held = hold.filter(|_| held == 0 && number > 0).map(|hold| (hold.reason, hold.message.clone()));
    round.blocked = blocked(&round, pool, held.or(by_etcd), left == Some(0));
    round
}

/// How many nodes of each zone there are and may be unavailable. A node without a zone is not limited.
#[derive(Debug, Default)]
struct Zones<'a> {
    /// Nodes, and how many of them are unavailable.
    counts: BTreeMap<&'a str, (usize, usize)>,
    limits: BTreeMap<&'a str, usize>,
}

impl<'a> Zones<'a> {
    fn add(&mut self, node: &'a NodeFacts, unavailable: bool) {
        if let Some(zone) = &node.zone {
            let (nodes, away) = self.counts.entry(zone).or_default();
            *nodes += 1;
            *away += usize::from(unavailable);
        }
    }

    /// Whether one more node may become unavailable, which it then is.
    fn take(&mut self, node: &'a NodeFacts) -> bool {
        let Some(zone) = node.zone.as_deref() else { return true };
        let (_, away) = self.counts.entry(zone).or_default();
        let free = self.limits.get(zone).is_none_or(|limit| *away < *limit);
        *away += usize::from(free);
        free
    }
}

/// How many nodes may be unavailable, together and in each zone; or what keeps the whole pool from being touched.
fn limits<'a>(pool: &PoolFacts, mut zones: Zones<'a>) -> Result<(usize, Zones<'a>), (BlockedReason, String)> {
    if pool.target.config.is_empty() {
        let message = "its configuration has not been rendered yet: see its condition RenderDegraded";
        return Err((BlockedReason::RenderBlocked, message.to_owned()));
    }
    if pool.paused {
        let message = "it is paused: set spec.paused to false to let it go on";
        return Err((BlockedReason::PausedPool, message.to_owned()));
    }
    let invalid = |message| (BlockedReason::InvalidPool, message);
    if let Some(value) = &pool.max_unavailable_per_zone {
        for (zone, (nodes, _)) in &zones.counts {
            zones.limits.insert(zone, limit(&pool.name, Some(value), *nodes).map_err(invalid)?);
        }
    }
    Ok((limit(&pool.name, pool.max_unavailable.as_ref(), pool.nodes.len()).map_err(invalid)?, zones))
}

fn earliest(pool: &PoolFacts, unavailable: &[Unavailable], now: Timestamp) -> Option<Timestamp> {
    let soaked = unavailable.iter().filter_map(|it| match it.cause {
        Cause::Soaking { until } => Some(until),
        _ => None,
    });
    let holds = pool.holds.iter().filter_map(|hold| hold.until);
    let back = pool.nodes.iter().filter_map(NodeFacts::back_by);
    soaked.chain(holds).chain(back).filter(|time| *time > now).min()
}

/// Zone by zone by name, in a zone the oldest first; nodes without a zone at the end.
fn in_order(candidates: &mut [&NodeFacts]) {
    candidates.sort_by_key(|node| (node.zone.is_none(), node.zone.clone(), node.created, node.name.clone()));
}

fn choose<'a>(candidates: &[&'a NodeFacts], capacity: usize, mut zones: Zones<'a>) -> Vec<String> {
    let mut chosen = Vec::new();
    for node in candidates {
        if chosen.len() < capacity && zones.take(node) {
            chosen.push(node.name.clone());
        }
    }
    chosen
}

/// Why nodes wait, if no update is under way that they wait for.
fn blocked(
    round: &Round,
    pool: &PoolFacts,
    held: Option<(BlockedReason, String)>,
    used_up: bool,
) -> Option<(BlockedReason, String)> {
    let drains = || {
        pool.nodes
            .iter()
            .filter(|node| node.is_changing())
            .filter_map(|node| Some((node, node.drain_blocked.as_ref()?)))
    };
    let updating = round.unavailable.iter().filter(|it| it.cause == Cause::Updating).count();
    let goes_on = !round.begin.is_empty() || !round.claim.is_empty();
    let (drains_blocked, nobody_waits) = (drains().count(), round.waiting == 0);
    let all_back = !round.unavailable.iter().any(|it| matches!(it.cause, Cause::NotBack { .. }));
    if nobody_waits && drains_blocked == 0 && all_back || goes_on || updating > drains_blocked {
        return None;
    }
    if held.is_some() {
        return held;
    }
    let named = |reason: BlockedReason, wanted: &dyn Fn(&Cause) -> bool| {
        let causes = round.unavailable.iter().filter(|it| wanted(&it.cause));
        let texts: Vec<String> = causes.map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| (reason, together(&texts, "; ")))
    };
    let drains: Vec<String> = drains().map(|(node, why)| format!("node {}: {why}", node.name)).collect();
    let drains = (!drains.is_empty()).then(|| (BlockedReason::DrainBlocked, together(&drains, "; ")));
    let used_up = used_up.then(|| {
        (BlockedReason::AwaitingOtherPool, "other pools have used up what the cluster can do without".to_owned())
    });
    named(BlockedReason::RestartOverdue, &|cause| matches!(cause, Cause::NotBack { .. }))
        .or_else(|| named(BlockedReason::FailedNodes, &|cause| matches!(cause, Cause::Failed(_))))
        .or(drains)
        .or_else(|| named(BlockedReason::UnavailableNodes, &|it| matches!(it, Cause::Problems(_) | Cause::Cordoned)))
        .or_else(|| named(BlockedReason::AwaitingHealth, &|cause| matches!(cause, Cause::Soaking { .. })))
        .or(used_up)
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}: ", self.node)?;
        match &self.cause {
            Cause::Updating => write!(f, "is being updated"),
            Cause::NotBack { since } => write!(
                f,
                "was to be restarted at {since} and is not back: look at its console, and restart its machine; if the machine \
                 is lost, delete the Node"
            ),
            Cause::Failed(reason) if reason.is_empty() => write!(f, "is degraded"),
            Cause::Failed(reason) => write!(f, "is degraded: {reason}"),
            Cause::Problems(problems) => {
                for (number, problem) in problems.iter().enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", problem.what)?;
                    if let Some(since) = problem.since {
                        write!(f, " since {since}")?;
                    }
                }
                Ok(())
            }
            Cause::Cordoned => write!(f, "was cordoned by somebody else: uncordon it to let the pool go on"),
            Cause::Soaking { until } => write!(f, "has to be well until {until}"),
        }
    }
}

#[cfg(test)]
mod tests;
