//! A pool of nodes, two controllers that may both believe to hold the lease, an administrator and bad luck, in random order. The
//! controllers decide by the function that the real one decides by.
//!
//! At every moment no more nodes may be disturbed than the pool allows, no node may be changed or restarted with pods on it,
//! and none is given up that is as it should be; from every state an agent comes to a pause however much fails, a node comes
//! to be well once nothing is wrong with it, and what was mended is tried again (see [`super::prospects`]). What controllers decide
//! and write is looked at as well (see [`super::cluster`]). In the end, once luck is better, all nodes must have the last
//! configuration, and nobody writes anything any more.

use super::cluster::{self, Cluster};
use super::controller::Controller;
use super::machine::{Fault, Luck, Machine};
use super::prospects;
pub use super::tally::Tally;
use crate::random::SeededRandom;
use anyhow::ensure;
use cvo::testing::pools::agent::{self, Action};
use cvo::testing::pools::decide::{Overrides, Settings, decide};
use cvo::testing::pools::node::NodeFacts;
use cvo::testing::pools::reconcile::StorageOverride;
use cvo::testing::pools::rollout;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

struct Simulation {
    random: SeededRandom,
    now: Timestamp,
    cluster: Cluster,
    /// Which nodes are disturbed, and how many.
    disturbed: Vec<bool>,
    number: usize,
    /// Nodes that are disturbed because an administrator forces them, or were a moment ago.
    by_administrators: usize,
    controllers: [Controller; 2],
    /// How many configurations there were, the present one, and the one before it.
    configs: usize,
    wanted: usize,
    former: usize,
    limit: usize,
    tally: Tally,
    /// Nothing fails any more.
    calm: bool,
    /// Nobody but one controller and the agents does anything.
    quiet: bool,
}

const FAULTS: [Fault; 4] = [Fault::Stage, Fault::Apply, Fault::Actions, Fault::Restart];

/// A node is written at most so often for one update, by controller and agent together.
const MOST_WRITES: usize = 12;
/// Beyond so many nodes it would take hours until all are at rest.
const MOST_UNTIL_REST: usize = 200;

/// One pool of `nodes` nodes for `steps` random moves, and then, unless there are too many, until it is at rest.
pub fn run(nodes: usize, steps: usize, seed: u64) -> anyhow::Result<Tally> {
    let mut simulation = Simulation::new(nodes, seed)?;
    for step in 0..steps {
        simulation.step().map_err(|error| error.context(format!("step {step}")))?;
    }
    if nodes <= MOST_UNTIL_REST {
        simulation.calm_down()?;
    }
    Ok(simulation.tally)
}

impl Simulation {
    fn new(number: usize, seed: u64) -> anyhow::Result<Self> {
        let random = SeededRandom::new(seed, 1, 1);
        let zones = random.pick(&[0, 1, 3]);
        let max = random.pick(&[IntOrString::Int(1), IntOrString::Int(3), IntOrString::String("10%".into())]);
        let soak = SignedDuration::from_secs(random.pick(&[0, 0, 5]));
        let ceiling = random.pick(&[None, None, Some(2)]);
        let node = random.pick(&[None, Some("n3".to_owned())]);
        let limit = rollout::limit(cluster::POOL, Some(&max), number).unwrap_or(1);
        let settings = Settings { ceiling, node, ..Settings::default() };
        let mut simulation = Simulation {
            random,
            now: Timestamp::UNIX_EPOCH,
            cluster: Cluster::new(settings, max, soak),
            disturbed: vec![false; number],
            number: 0,
            by_administrators: 0,
            limit: limit.min(ceiling.unwrap_or(limit)),
            controllers: Default::default(),
            configs: 0,
            wanted: 0,
            former: 0,
            tally: Tally::default(),
            calm: false,
            quiet: true,
        };
        while !simulation.cluster.is_configured() {
            simulation.step()?;
        }
        for at in 0..number {
            let zone = (zones > 0 && !at.is_multiple_of(7)).then(|| format!("zone-{}", at % zones));
            let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(i64::try_from(at % 5).unwrap_or_default());
            simulation.cluster.add_node(created, zone);
        }
        simulation.quiet = false;
        Ok(simulation)
    }

    /// One move of somebody.
    fn step(&mut self) -> anyhow::Result<()> {
        self.now += SignedDuration::from_millis(200);
        match self.random.below(1000) {
            0..47 if self.quiet => {}
            0..4 => self.new_target(),
            4..6 => self.cluster.pause(!self.cluster.is_paused() && !self.calm),
            6..7 => self.exception(),
            7..17 => self.administrator(),
            17..27 => self.bad_news(),
            27..37 => self.trouble(),
            37..47 => {
                let at = self.a_node();
                self.look_ahead(at)?;
            }
            47..180 => self.control()?,
            180..300 => self.evict()?,
            _ => {
                let at = self.a_node();
                self.agent(at)?;
            }
        }
        Ok(())
    }

    /// Mostly one where something happens.
    fn a_node(&self) -> usize {
        let nodes = &self.cluster.nodes;
        let any = self.random.below(nodes.len());
        if self.number + self.by_administrators == 0 || self.random.chance(10) {
            return any;
        }
        let ahead = (0..nodes.len()).map(|step| (any + step) % nodes.len());
        let is_busy = |at: &usize| {
            let is_forced = || nodes.get(*at).is_some_and(|node| node.by_administrator);
            self.disturbed.get(*at) == Some(&true) || is_forced()
        };
        ahead.into_iter().find(is_busy).unwrap_or(any)
    }

    fn new_target(&mut self) {
        if !self.calm {
            self.configs += 1;
            // Sometimes back to one that nodes have, or to the one that it was before that.
            let number = if self.random.chance(25) { self.random.below(self.configs) } else { self.configs };
            self.configure(if self.random.chance(25) { self.former } else { number });
            let target = self.cluster.target();
            self.tally.again += usize::from(self.cluster.nodes.iter().any(|node| node.has_failed_at(&target)));
        }
    }

    fn configure(&mut self, number: usize) {
        self.former = std::mem::replace(&mut self.wanted, number);
        self.cluster.configure(number);
    }

    /// Administrators allow that disks change although running nodes keep theirs, or do no longer.
    fn exception(&mut self) {
        let allowed = !self.calm && self.random.chance(30);
        self.cluster.overrides = Overrides::Known(allowed.then_some(StorageOverride::Disks).into_iter().collect());
        self.cluster.revision += 1;
    }

    /// Somebody cordons a node, or uncordons all. One that is cordoned for an update may be made schedulable; pods come back.
    fn administrator(&mut self) {
        if self.calm || self.random.chance(60) {
            self.cluster.change_all(|node| node.facts().unschedulable, |node| node.set_unschedulable(false));
        } else {
            let at = self.random.below(self.cluster.nodes.len());
            self.cluster.change(at, |node| node.set_unschedulable(true));
        }
    }

    /// A node cannot run pods, or all can again.
    fn bad_news(&mut self) {
        let now = self.now;
        if self.calm || self.random.chance(60) {
            let is_bad = |node: &Machine| node.up && !node.facts().problems.is_empty();
            self.cluster.change_all(is_bad, |node| node.set_ready(true, now));
        } else {
            let at = self.random.below(self.cluster.nodes.len());
            if self.cluster.nodes.get(at).is_some_and(|node| node.up) {
                self.cluster.change(at, |node| node.set_ready(false, now));
            }
        }
    }

    /// Something goes wrong on a node, or is put right there.
    fn trouble(&mut self) {
        if self.calm {
            self.cluster.nodes.iter_mut().for_each(Machine::mend);
            return;
        }
        let target = self.cluster.target().config;
        let at = self.random.below(self.cluster.nodes.len());
        let (what, fault) = (self.random.below(8), self.random.pick(&FAULTS));
        let hours = SignedDuration::from_hours(self.random.pick(&[0, 1, 3]));
        let Some(node) = self.cluster.nodes.get_mut(at) else { return };
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
        let Some(node) = self.cluster.nodes.get(at) else { return Ok(()) };
        let given_up = prospects::judge(node, at, self.now).map_err(|error| error.context(format!("node {at}")))?;
        self.tally.prospects += 1;
        self.tally.given_up += usize::from(given_up);
        Ok(())
    }

    /// Some of what a controller has begun arrives, however long ago it was decided, or it decides again. The second one is one
    /// that has lost its lease and does not know.
    fn control(&mut self) -> anyhow::Result<()> {
        let which = self.a_controller();
        let Some(mut controller) = self.controllers.get_mut(which).map(std::mem::take) else { return Ok(()) };
        if controller.begun.is_empty() || self.random.chance(15) {
            self.decide(&mut controller)?;
        } else {
            self.arrive(&mut controller)?;
        }
        if !self.random.chance(1) || self.calm {
            // Otherwise it has been restarted, and knows nothing.
            if let Some(place) = self.controllers.get_mut(which) {
                *place = controller;
            }
        }
        Ok(())
    }

    fn a_controller(&self) -> usize {
        usize::from(!self.quiet && self.random.chance(20))
    }

    fn decide(&mut self, controller: &mut Controller) -> anyhow::Result<()> {
        if !controller.is_due(self.cluster.revision, self.now) {
            return Ok(());
        }
        controller.looks(self.cluster.revision);
        let seen = self.cluster.seen(controller, self.now);
        let decision = decide(&self.cluster.settings, &mut controller.remembered, &seen, self.now);
        self.tally.decisions += 1;
        self.tally.irreconcilable += usize::from(decision.overrides);
        Cluster::check(&seen, &decision)?;
        controller.begin(decision, &seen.nodes, &seen.overrides);
        // Once nothing goes wrong, nothing takes long.
        while self.calm && !controller.begun.is_empty() {
            self.arrive(controller)?;
        }
        Ok(())
    }

    /// Some of the writes that are under way arrive, in any order.
    fn arrive(&mut self, controller: &mut Controller) -> anyhow::Result<()> {
        for _ in 0..=self.random.below(8) {
            let at = self.random.below(controller.begun.len());
            if at >= controller.begun.len() {
                break;
            }
            let begun = controller.begun.swap_remove(at);
            if let Some(at) = self.cluster.land(controller, begun, &mut self.tally, self.now)? {
                self.look(at)?;
            }
        }
        Ok(())
    }

    /// A pod leaves a node that is drained, unless a PodDisruptionBudget forbids it for a while.
    fn evict(&mut self) -> anyhow::Result<()> {
        let slow = self.random.chance(50) && !self.calm;
        let which = self.a_controller();
        let Some(controller) = self.controllers.get_mut(which) else { return Ok(()) };
        let at = self.random.below(controller.drains.len());
        let Some((name, drain)) = controller.drains.iter_mut().nth(at).filter(|(_, drain)| drain.evicts) else {
            return Ok(());
        };
        let left = self.cluster.evict(name, usize::from(!slow))?;
        controller.woken |= drain.left != Some(left);
        drain.left = Some(left);
        Ok(())
    }

    fn agent(&mut self, at: usize) -> anyhow::Result<()> {
        let (calm, now) = (self.calm, self.now);
        let bad = |percent| !calm && self.random.chance(percent);
        let luck = Luck { fails: bad(20), killed: bad(5), comes_back_old: bad(10) };
        let stays_down = self.random.chance(70) && !calm;
        let Some(node) = self.cluster.nodes.get_mut(at) else { return Ok(()) };
        if !node.facts().unschedulable {
            node.pods = 3;
        }
        if !node.up {
            if !stays_down {
                self.cluster.change(at, |node| node.come_up(now));
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
        let forced = self.cluster.change(at, |node| {
            node.perform(&action, change, luck, now);
            node.by_administrator
        });
        self.by_administrators -= usize::from(by_administrator && forced == Some(false));
        self.look(at)
    }

    fn count(&mut self, at: usize) {
        let (Some(node), Some(before)) = (self.cluster.nodes.get(at), self.disturbed.get_mut(at)) else { return };
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
        self.cluster.nodes.iter().filter(|node| node.is_disturbed()).map(Machine::facts).collect()
    }

    /// Whatever happened, every node gets there once nothing fails any more.
    fn calm_down(&mut self) -> anyhow::Result<()> {
        let now = self.now;
        self.calm = true;
        self.cluster.pause(false);
        self.exception();
        self.trouble();
        self.cluster.change_all(
            |node| node.up,
            |node| {
                node.set_ready(true, now);
                node.set_unschedulable(node.facts().unschedulable && node.facts().cordoned_for_update);
            },
        );
        // What was decided while exceptions were allowed may still change which disks the pool has.
        let mut controllers = std::mem::take(&mut self.controllers);
        for controller in &mut controllers {
            while !controller.begun.is_empty() {
                self.arrive(controller)?;
            }
        }
        self.controllers = controllers;
        self.next_target()?;
        if !self.random.chance(20) {
            return Ok(());
        }
        // One more update, in which nobody does anything but what it takes.
        self.quiet = true;
        self.controllers = Default::default();
        let before: Vec<usize> = self.cluster.nodes.iter().map(Machine::written).collect();
        self.next_target()?;
        let written = self.cluster.nodes.iter().zip(before).map(|(node, before)| node.written() - before);
        self.tally.writes = written.max().unwrap_or_default();
        ensure!(self.tally.writes <= MOST_WRITES, "a node is written {} times for one update", self.tally.writes);
        Ok(())
    }

    /// One more configuration, which running nodes can be taken to, until all of them have it and nobody does anything more.
    fn next_target(&mut self) -> anyhow::Result<()> {
        let disks = self.cluster.has_disks();
        self.configs += 1;
        while cluster::has_disks(self.configs) != disks {
            self.configs += 1;
        }
        self.configure(self.configs);
        let target = self.cluster.target().config;
        let limit = 100 * self.cluster.nodes.len() + 2000;
        for _ in 0..limit {
            let settled = |node: &Machine| node.is_settled_at(&target);
            if self.cluster.nodes.iter().all(settled) && self.is_at_rest() {
                return self.cluster.leftovers();
            }
            for _ in 0..10 {
                self.step()?;
            }
        }
        let is_left = |node: &&Machine| !node.is_settled_at(&target) && (node.is_disturbed() || node.by_administrator);
        let left: Vec<&Machine> = self.cluster.nodes.iter().filter(is_left).take(3).collect();
        let begun: Vec<_> = self.controllers.iter().flat_map(|controller| &controller.begun).take(3).collect();
        anyhow::bail!("not at rest at {target}: {left:?}, {begun:?}")
    }

    /// The controllers have seen everything, and have nothing to do now or soon.
    fn is_at_rest(&self) -> bool {
        let (revision, soon) = (self.cluster.revision, self.now + SignedDuration::from_secs(2));
        let working = if self.quiet { 1 } else { self.controllers.len() };
        self.controllers.iter().take(working).all(|it| it.begun.is_empty() && !it.is_due(revision, soon))
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
        let decided = [tally.marked, tally.prepared, tally.irreconcilable, tally.exempted, tally.collected];
        assert!(decided.iter().all(|number| *number > 0), "{tally:?}");
        assert!(events.iter().all(|number| *number > 0), "{tally:?}");
        assert_eq!(tally.fullest, 100);
    }
}
