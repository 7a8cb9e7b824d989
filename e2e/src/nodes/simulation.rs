//! A pool of nodes, two controllers that may both believe to hold the lease, an administrator and bad luck, in random order.
//! At every moment no more nodes may be disturbed than the pool allows, no node may be changed or restarted with pods on it,
//! and none is given up that is as it should be; from every state an agent comes to a pause however much fails, a node comes
//! to be well once nothing is wrong with it, and what was mended is tried again (see [`super::prospects`]); in the end, once
//! luck is better, all nodes must have the last configuration.

use super::machine::{Fault, Luck, Machine};
use super::prospects;
use crate::random::SeededRandom;
use anyhow::ensure;
use cvo::testing::pools::agent::{self, Action};
use cvo::testing::pools::drain::{self, Step};
use cvo::testing::pools::node::{NodeFacts, Problem, Target};
use cvo::testing::pools::rollout::{self, PoolFacts, Round};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// What a run did, so that one that did nothing does not pass for a proof.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub told: usize,
    pub finished: usize,
    pub rolled_back: usize,
    pub killed: usize,
    /// Force files, clocks set back, and targets that were withdrawn and wanted again.
    pub forced: usize,
    pub set_back: usize,
    pub again: usize,
    /// Looks at a node that did not answer.
    pub unread: usize,
    /// States from which it was tried what becomes of a node, and how many of them ended after a restart in vain.
    pub prospects: usize,
    pub given_up: usize,
    /// Writes of a controller that read before somebody else wrote.
    pub refused: usize,
    /// The most nodes that were disturbed at the same time, in percent of what was allowed.
    pub fullest: usize,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.told += other.told;
        self.finished += other.finished;
        self.rolled_back += other.rolled_back;
        self.killed += other.killed;
        self.forced += other.forced;
        self.set_back += other.set_back;
        self.again += other.again;
        self.unread += other.unread;
        self.prospects += other.prospects;
        self.given_up += other.given_up;
        self.refused += other.refused;
        self.fullest = self.fullest.max(other.fullest);
    }
}

/// The pool at the API server.
#[derive(Clone, Debug)]
struct Pool {
    facts: PoolFacts,
    version: u64,
}

/// A controller: what it has read, and what it is about to do because of that.
#[derive(Clone, Debug, Default)]
struct Controller {
    pool: u64,
    target: Target,
    /// With the resourceVersion that was read, and the claim.
    tell: Vec<(usize, u64, Option<String>)>,
    claimed: Option<BTreeMap<String, String>>,
}

struct Simulation {
    random: SeededRandom,
    now: Timestamp,
    pool: Pool,
    nodes: Vec<Machine>,
    number_of_nodes: usize,
    /// Which nodes are disturbed, and how many.
    disturbed: Vec<bool>,
    number: usize,
    /// Nodes that are disturbed because an administrator forces them, or were a moment ago.
    by_administrators: usize,
    limit: usize,
    controllers: [Controller; 2],
    configs: usize,
    /// The target before the present one.
    former: Target,
    tally: Tally,
    /// Nothing fails any more.
    calm: bool,
}

const FAULTS: [Fault; 4] = [Fault::Stage, Fault::Apply, Fault::Actions, Fault::Restart];

/// Beyond so many nodes it would take hours until all are at rest.
const MOST_UNTIL_REST: usize = 200;

/// One pool of `nodes` nodes for `steps` random moves, and then, unless there are too many, until it is at rest.
pub fn run(nodes: usize, steps: usize, seed: u64) -> anyhow::Result<Tally> {
    let mut simulation = Simulation::new(nodes, seed);
    for step in 0..steps {
        simulation.step().map_err(|error| error.context(format!("step {step}")))?;
    }
    if nodes <= MOST_UNTIL_REST {
        simulation.calm_down()?;
    }
    Ok(simulation.tally)
}

impl Simulation {
    fn new(number: usize, seed: u64) -> Self {
        let random = SeededRandom::new(seed, 1, 1);
        let now = Timestamp::UNIX_EPOCH;
        let zones = random.pick(&[0, 1, 3]);
        let machine = |at: usize| {
            let zone = (zones > 0 && !at.is_multiple_of(7)).then(|| format!("zone-{}", at % zones));
            let created = now + SignedDuration::from_secs(i64::try_from(at % 5).unwrap_or_default());
            Machine::new(format!("n{at}"), "v0", created, zone)
        };
        let max = random.pick(&[IntOrString::Int(1), IntOrString::Int(3), IntOrString::String("10%".into())]);
        let limit = rollout::limit("worker", Some(&max), number).unwrap_or(1);
        let soak = SignedDuration::from_secs(random.pick(&[0, 0, 5]));
        let facts = PoolFacts {
            name: "worker".into(),
            target: Target::new("v0"),
            max_unavailable: Some(max),
            soak,
            ..PoolFacts::default()
        };
        Simulation {
            random,
            now,
            pool: Pool { facts, version: 1 },
            nodes: (0..number).map(machine).collect(),
            number_of_nodes: number,
            disturbed: vec![false; number],
            number: 0,
            by_administrators: 0,
            limit,
            controllers: [Controller::default(), Controller::default()],
            configs: 0,
            former: Target::new("v0"),
            tally: Tally::default(),
            calm: false,
        }
    }

    /// One move of somebody.
    fn step(&mut self) -> anyhow::Result<()> {
        self.now += SignedDuration::from_millis(200);
        match self.random.below(1000) {
            0..4 => self.new_target(),
            4..6 => self.pool.facts.paused = !self.pool.facts.paused && !self.calm,
            6..16 => self.administrator(),
            16..26 => self.bad_news(),
            26..36 => self.trouble(),
            36..46 => {
                let at = self.a_node();
                self.look_ahead(at)?;
            }
            46..226 => self.control()?,
            226..600 => {
                let at = self.a_node();
                self.drain(at)?;
            }
            _ => {
                let at = self.a_node();
                self.agent(at)?;
            }
        }
        Ok(())
    }

    /// Mostly one where something happens.
    fn a_node(&self) -> usize {
        let any = self.random.below(self.nodes.len());
        if self.number + self.by_administrators == 0 || self.random.chance(10) {
            return any;
        }
        let ahead = (0..self.nodes.len()).map(|step| (any + step) % self.nodes.len());
        let is_busy = |at: &usize| {
            let is_forced = || self.nodes.get(*at).is_some_and(|node| node.by_administrator);
            self.disturbed.get(*at) == Some(&true) || is_forced()
        };
        ahead.into_iter().find(is_busy).unwrap_or(any)
    }

    fn new_target(&mut self) {
        if !self.calm {
            self.configs += 1;
            // Sometimes back to one that nodes have, or to the one that it was before that.
            let number = if self.random.chance(25) { self.random.below(self.configs) } else { self.configs };
            let next = if self.random.chance(25) { self.former.clone() } else { Target::new(&format!("v{number}")) };
            self.former = std::mem::replace(&mut self.pool.facts.target, next);
            self.tally.again += usize::from(self.nodes.iter().any(|node| node.has_failed_at(&self.pool.facts.target)));
            self.pool.version += 1;
        }
    }

    /// Somebody cordons a node, or uncordons all. One that is cordoned for an update may be made schedulable; pods come back.
    fn administrator(&mut self) {
        if self.calm || self.random.chance(60) {
            for node in self.nodes.iter_mut().filter(|node| node.facts.unschedulable) {
                node.facts.unschedulable = false;
                node.version += 1;
            }
        } else if let Some(node) = self.nodes.get_mut(self.random.below(self.number_of_nodes)) {
            node.facts.unschedulable = true;
            node.version += 1;
        }
    }

    /// A node cannot run pods, or all can again.
    fn bad_news(&mut self) {
        let now = self.now;
        if self.calm || self.random.chance(60) {
            for node in self.nodes.iter_mut().filter(|node| node.up && !node.facts.problems.is_empty()) {
                node.facts.problems.clear();
                node.version += 1;
            }
        } else if let Some(node) = self.nodes.get_mut(self.random.below(self.number_of_nodes)).filter(|node| node.up) {
            node.facts.problems = vec![Problem { what: "Ready=False".into(), since: Some(now) }];
            node.version += 1;
        }
    }

    /// Something goes wrong on a node, or is put right there.
    fn trouble(&mut self) {
        if self.calm {
            self.nodes.iter_mut().for_each(Machine::mend);
            return;
        }
        let target = self.pool.facts.target.config.clone();
        let at = self.random.below(self.number_of_nodes);
        let (what, fault) = (self.random.below(8), self.random.pick(&FAULTS));
        let hours = SignedDuration::from_hours(self.random.pick(&[0, 1, 3]));
        let Some(node) = self.nodes.get_mut(at) else { return };
        match what {
            0 => {
                self.by_administrators += usize::from(!node.by_administrator);
                (node.forced, node.by_administrator) = (true, true);
                self.tally.forced += 1;
                self.count(at);
            }
            1 | 2 => node.broken = Some((target, fault)),
            3 => node.unreadable = true,
            4 | 5 => {
                self.tally.set_back += usize::from(hours < node.ahead);
                node.ahead = hours;
            }
            6 => node.restart_agent(),
            _ => node.mend(),
        }
    }

    /// What would become of the node from now on.
    fn look_ahead(&mut self, at: usize) -> anyhow::Result<()> {
        let Some(node) = self.nodes.get(at) else { return Ok(()) };
        let given_up = prospects::judge(node, at, self.now).map_err(|error| error.context(format!("node {at}")))?;
        self.tally.prospects += 1;
        self.tally.given_up += usize::from(given_up);
        Ok(())
    }

    /// A controller reads, or does the next of what it has decided, however long ago it has read. The second one is one that
    /// has lost its lease and does not know.
    fn control(&mut self) -> anyhow::Result<()> {
        let which = usize::from(self.random.chance(20));
        let Some(mut controller) = self.controllers.get_mut(which).map(std::mem::take) else { return Ok(()) };
        if let Some(claimed) = controller.claimed.take() {
            if controller.pool == self.pool.version {
                self.pool.facts.claimed = claimed;
                self.pool.version += 1;
            } else {
                self.tally.refused += 1;
            }
        } else if let Some((at, version, claim)) = controller.tell.pop() {
            self.tell(at, version, claim, &controller.target)?;
        } else {
            controller = self.read();
        }
        if !self.random.chance(1) || self.calm {
            // Otherwise it has been restarted, and knows nothing.
            if let Some(place) = self.controllers.get_mut(which) {
                *place = controller;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Controller {
        let facts =
            PoolFacts { nodes: self.nodes.iter().map(|node| node.facts.clone()).collect(), ..self.pool.facts.clone() };
        let Some(round) = rollout::rounds(std::slice::from_ref(&facts), None, self.now).pop() else {
            return Controller::default();
        };
        let Round { begin, claim, settled, .. } = round;
        let at = |name: &String| name.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
        let told = |name: &String| {
            let at = at(name)?;
            let node = self.nodes.get(at)?;
            Some((at, node.version, facts.claimed.get(name).cloned().or_else(|| node.facts.told_for.clone())))
        };
        let tell = begin.iter().filter_map(told).collect();
        let kept = facts.claimed.iter().filter(|(name, _)| !settled.contains(name));
        let kept = kept.map(|(name, claim)| (name.clone(), claim.clone()));
        let added = claim.iter().map(|name| (name.clone(), self.pool.version.to_string()));
        let claimed = (!claim.is_empty() || !settled.is_empty()).then(|| kept.chain(added).collect());
        Controller { pool: self.pool.version, target: facts.target, tell, claimed }
    }

    fn tell(&mut self, at: usize, version: u64, claim: Option<String>, target: &Target) -> anyhow::Result<()> {
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        if node.version != version {
            self.tally.refused += 1;
            return Ok(());
        }
        (node.facts.desired, node.facts.told_for) = (target.clone(), claim);
        node.version += 1;
        self.tally.told += 1;
        self.look(at)
    }

    fn drain(&mut self, at: usize) -> anyhow::Result<()> {
        let slow = self.random.chance(50) && !self.calm;
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        match drain::step(&node.drain_facts()) {
            Step::Cordon => {
                (node.facts.unschedulable, node.facts.cordoned_for_update) = (true, true);
                node.version += 1;
            }
            Step::ForgetCordon => {
                node.facts.cordoned_for_update = false;
                node.version += 1;
            }
            // A PodDisruptionBudget may forbid it for a while.
            Step::Evict if !slow => node.pods = node.pods.saturating_sub(1),
            Step::Answer { uncordon } => node.answer(uncordon),
            Step::Evict | Step::Nothing => {}
            Step::Refuse(cause) => anyhow::bail!("{cause}"),
        }
        self.look(at)
    }

    fn agent(&mut self, at: usize) -> anyhow::Result<()> {
        let (calm, now) = (self.calm, self.now);
        let bad = |percent| !calm && self.random.chance(percent);
        let luck = Luck { fails: bad(20), killed: bad(5), comes_back_old: bad(10) };
        let stays_down = self.random.chance(70) && !calm;
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        if !node.facts.unschedulable {
            node.pods = 3;
        }
        if !node.up {
            if !stays_down {
                node.come_up();
            }
            return self.look(at);
        }
        let facts = node.agent_facts();
        let action = agent::decide(&facts, node.clock(now));
        let change = prospects::change(&facts, at);
        ensure!(
            !matches!(action, Action::GiveUp(_)) || !node.is_as_wanted(),
            "node {at} is given up although it is as it should be: {action:?}"
        );
        self.tally.unread += usize::from(action == Action::Check && node.unreadable);
        let disturbs = match &facts.journal {
            Some(journal) => journal.drains && action == Action::Reboot,
            None => change.0 && action == Action::Apply,
        };
        ensure!(!disturbs || node.pods == 0, "node {at}: {action:?} with {} pods", node.pods);
        self.tally.rolled_back += usize::from(action == Action::RollBack);
        self.tally.finished += usize::from(action == Action::TellDone);
        self.tally.killed += usize::from(luck.killed);
        let by_administrator = node.by_administrator;
        node.perform(&action, change, luck, now);
        self.by_administrators -= usize::from(by_administrator && !node.by_administrator);
        self.look(at)
    }

    fn count(&mut self, at: usize) {
        let (Some(node), Some(before)) = (self.nodes.get(at), self.disturbed.get_mut(at)) else { return };
        let disturbed = node.is_disturbed();
        self.number = self.number + usize::from(disturbed) - usize::from(*before);
        *before = disturbed;
    }

    /// No more nodes may be disturbed than the pool allows.
    fn look(&mut self, at: usize) -> anyhow::Result<()> {
        self.count(at);
        self.tally.fullest = self.tally.fullest.max(self.number * 100 / self.limit);
        ensure!(
            self.number <= self.limit,
            "{} nodes are disturbed, {} are allowed: {:?}",
            self.number,
            self.limit,
            self.culprits()
        );
        Ok(())
    }

    fn culprits(&self) -> Vec<&NodeFacts> {
        self.nodes.iter().filter(|node| node.is_disturbed()).map(|node| &node.facts).collect()
    }

    /// Whatever happened, every node gets there once nothing fails any more.
    fn calm_down(&mut self) -> anyhow::Result<()> {
        self.calm = true;
        self.pool.facts.paused = false;
        self.configs += 1;
        self.pool.facts.target = Target::new(&format!("v{}", self.configs));
        self.pool.version += 1;
        let target = self.pool.facts.target.config.clone();
        self.trouble();
        for at in 0..self.nodes.len() {
            if let Some(node) = self.nodes.get_mut(at).filter(|node| node.up) {
                node.facts.problems.clear();
                node.facts.unschedulable &= node.facts.cordoned_for_update;
                node.version += 1;
            }
        }
        for _ in 0..100 * self.nodes.len() + 2000 {
            if self.nodes.iter().all(|node| node.is_settled_at(&target)) {
                return Ok(());
            }
            for _ in 0..10 {
                self.step()?;
            }
        }
        let facts =
            PoolFacts { nodes: self.nodes.iter().map(|node| node.facts.clone()).collect(), ..self.pool.facts.clone() };
        let round = rollout::rounds(std::slice::from_ref(&facts), None, self.now).pop();
        let is_left = |node: &&Machine| !node.is_settled_at(&target) && (node.is_disturbed() || node.by_administrator);
        let left: Vec<&Machine> = self.nodes.iter().filter(is_left).take(3).collect();
        anyhow::bail!("not at rest at {target}: {round:?}, {left:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_nodes_are_disturbed_than_the_pool_allows_whatever_happens() {
        let first = SeededRandom::seed();
        let mut tally = Tally::default();
        for number in 0..20 {
            let seed = first.wrapping_add(number);
            tally.add(run(50, 10_000, seed).unwrap_or_else(|error| panic!("seed {seed}: {error:#}")));
        }
        println!("{tally:?}");
        assert!(tally.told > 100 && tally.finished > 100 && tally.rolled_back > 10 && tally.refused > 10, "{tally:?}");
        let events = [tally.forced, tally.set_back, tally.again, tally.unread, tally.prospects, tally.given_up];
        assert!(events.iter().all(|number| *number > 10), "{tally:?}");
        assert_eq!(tally.fullest, 100);
    }
}
