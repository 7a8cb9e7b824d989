//! A small cluster with operators, two processes that may both believe to hold the lease, users and bad luck, in random order and with a
//! virtual clock. The processes decide by what the daemon decides by; the cluster is changed by their requests alone, and by those who
//! have nothing to do with them.
//!
//! At every moment pods work for no more namespaces than groups select, Deployments go only where they must, and copies are no
//! operators (see [`checks`]). In the end, once nothing goes wrong, everybody comes to rest; then what can run does, no API is provided
//! twice in a namespace (see [`rest`]), and a process that knows nothing of what was before has nothing to write.

mod checks;
mod controller;
mod rest;
mod settle;
mod specs;
mod store;
mod tally;
mod users;
mod world;

use crate::random::SeededRandom;
use anyhow::{bail, ensure};
use controller::{Clock, Controller};
use jiff::{SignedDuration, Timestamp};
pub use settle::settle;
use std::time::Duration;
use store::Store;
pub use tally::Tally;
use world::World;

/// Rounds until everybody is at rest; in each, everything that is known is done.
const UNTIL_REST: usize = 400;
/// How often somebody does a single thing once everybody is at rest.
const NUDGES: usize = 12;
/// What begins later than that is not waited for: certificates end.
const SOON: Duration = Duration::from_secs(3600);

struct Simulation {
    world: World,
    controllers: Vec<Controller>,
    elapsed: Duration,
    processes: u64,
    tally: Tally,
}

/// `steps` random moves, and then until everybody is at rest.
pub fn run(steps: usize, seed: u64) -> anyhow::Result<Tally> {
    let mut simulation = Simulation::new(seed);
    for step in 0..steps {
        simulation.step().map_err(|error| error.context(format!("step {step}")))?;
    }
    simulation.calm_down()?;
    Ok(simulation.tally)
}

fn start() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000)
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let world = World::new(SeededRandom::new(seed, 1, 1), Store::new(start()));
        let controllers = vec![Controller::start(0, &world.store)];
        Simulation { world, controllers, elapsed: Duration::ZERO, processes: 1, tally: Tally::default() }
    }

    fn clock(&self) -> Clock {
        (self.world.store.now, self.elapsed)
    }

    fn advance(&mut self, by: Duration) {
        self.elapsed += by;
        self.world.store.now = start() + SignedDuration::try_from(self.elapsed).unwrap_or_default();
    }

    /// One move of somebody.
    fn step(&mut self) -> anyhow::Result<()> {
        let pause = match self.world.random.below(200) {
            0 => 400_000,
            1..6 => 20_000,
            _ => self.world.random.below(500),
        };
        self.advance(Duration::from_millis(pause as u64));
        match self.world.random.below(1000) {
            0..90 => self.world.user(),
            90..200 => self.world.kubernetes()?,
            200..203 => self.restart(),
            203..205 => self.lease(),
            205..600 => {
                let (at, clock) = (self.any(), self.clock());
                self.controllers[at].watch(&self.world);
                self.controllers[at].decide(&mut self.world, clock, &mut self.tally)?;
            }
            _ => {
                let (at, clock) = (self.any(), self.clock());
                for _ in 0..=self.world.random.below(4) {
                    self.controllers[at].arrive(&mut self.world, clock, &mut self.tally)?;
                }
            }
        }
        Ok(())
    }

    fn any(&self) -> usize {
        self.world.random.below(self.controllers.len())
    }

    fn process(&mut self) -> Controller {
        self.processes += 1;
        Controller::start(self.processes, &self.world.store)
    }

    /// A process ends, with all that it knows; some of its writes are on their way.
    fn restart(&mut self) {
        let at = self.any();
        self.controllers[at] = self.process();
        self.tally.restarts += 1;
    }

    /// Another process takes the lease, and the one before does not know yet; or it does by now.
    fn lease(&mut self) {
        if self.controllers.len() > 1 {
            self.controllers.remove(0);
        } else {
            let next = self.process();
            self.controllers.push(next);
            self.tally.doubled += 1;
        }
    }

    fn calm_down(&mut self) -> anyhow::Result<()> {
        self.world.mend_groups();
        self.world.calm_down();
        self.controllers.truncate(1);
        self.until_rest(UNTIL_REST)?;
        checks::at_rest(&self.world, &mut self.tally)?;
        self.look_again()?;
        // What happens alone has to be seen by itself: nothing else makes anybody look.
        for _ in 0..NUDGES {
            self.world.user();
            self.world.refuses = None;
            self.until_rest(UNTIL_REST)?;
            checks::at_rest(&self.world, &mut Tally::default())?;
        }
        self.look_again()
    }

    fn until_rest(&mut self, most: usize) -> anyhow::Result<()> {
        let mut last = Vec::new();
        for round in 0..most {
            if self.round(&mut last)? {
                self.tally.rounds = round;
                return Ok(());
            }
        }
        bail!("not at rest after {most} rounds: {last:#?}\n{}", self.world.told())
    }

    /// Everything that can be done at this moment. Whether there is nothing left.
    fn round(&mut self, last: &mut Vec<String>) -> anyhow::Result<bool> {
        self.advance(Duration::from_millis(10));
        let revision = self.world.store.revision;
        self.world.kubernetes()?;
        let clock = self.clock();
        let controller = &mut self.controllers[0];
        controller.watch(&self.world);
        controller.decide(&mut self.world, clock, &mut self.tally)?;
        let pending = controller.pending();
        if !pending.is_empty() {
            *last = pending;
        }
        while !controller.is_idle() {
            controller.arrive(&mut self.world, clock, &mut self.tally)?;
        }
        if self.world.store.revision != revision || controller.watch(&self.world) || controller.is_due(clock) {
            return Ok(false);
        }
        match controller.deadline(clock).filter(|deadline| *deadline < clock.1 + SOON) {
            Some(deadline) => {
                self.advance(deadline.saturating_sub(clock.1));
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// A process that knows nothing of what was before finds nothing to do. It reads what it has to copy.
    fn look_again(&mut self) -> anyhow::Result<()> {
        let (mut again, clock, writes) = (self.process(), self.clock(), self.tally.writes);
        for _ in 0..5 {
            again.decide(&mut self.world, clock, &mut self.tally)?;
            let pending = again.pending();
            while !again.is_idle() {
                again.arrive(&mut self.world, clock, &mut self.tally)?;
            }
            ensure!(self.tally.writes == writes, "at rest, and another process writes {pending:#?}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_run_where_they_may_and_nowhere_else_whatever_happens() {
        let first = SeededRandom::seed();
        let mut tally = Tally::default();
        // Some of it is rare: there are twenty runs without a Deployment that is left over.
        let happened = |it: &Tally| {
            let once = [it.turns, it.writes, it.refused, it.failed, it.restarts, it.doubled];
            let found = [it.left_over, it.expelled, it.everywhere, it.somewhere, it.copies, it.conflicts];
            once.iter().chain(&found).all(|number| *number > 0) && it.running > 10 && it.healthy > 10
        };
        for number in 0..200 {
            if number >= 20 && happened(&tally) {
                break;
            }
            let seed = first.wrapping_add(number);
            tally.add(&run(1000, seed).unwrap_or_else(|error| panic!("seed {seed}: {error:#}")));
        }
        println!("{tally:?}");
        assert!(happened(&tally), "{tally:?}");
    }
}
