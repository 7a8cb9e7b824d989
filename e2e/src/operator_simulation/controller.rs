//! A process that keeps operators, with its watches, which tell of everything some time later, and its writes, which arrive some time
//! later or never.

use super::checks;
use super::store::{KINDS, Store, text};
use super::tally::Tally;
use super::world::World;
use anyhow::bail;
use cvo::testing::operator_process::{Api, CopyJob, Failure, OperatorProcess, Part, Told, Turn, Write};
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

pub(super) struct Controller {
    process: OperatorProcess,
    /// How much of what has happened each of its watches has told.
    told: Vec<usize>,
    begun: Vec<Write>,
    copying: Vec<CopyJob>,
    failed: Vec<CopyJob>,
    woken: bool,
    next: Option<Timestamp>,
    again: Option<Duration>,
}

/// The time since the beginning.
pub(super) type Clock = (Timestamp, Duration);

/// What the controller asks of the API server, some of which fails.
struct Requests<'a> {
    world: &'a mut World,
    wrote: usize,
    /// A write that would overwrite what its writer has not seen.
    blind: Option<String>,
}

impl Controller {
    /// It has read everything that exists.
    pub(super) fn start(number: u64, store: &Store) -> Controller {
        let mut process = OperatorProcess::new(number);
        for kind in KINDS {
            process.tell(kind, &Told::Begins);
            store.all(kind).for_each(|(_, _, object)| process.tell(kind, &Told::Exists(object)));
            process.tell(kind, &Told::All);
        }
        // There is no such kind, or no object of it.
        process.tell("Proxy", &Told::Begins);
        process.tell("Proxy", &Told::All);
        let told = (0..KINDS.len()).map(|kind| store.log(kind).len()).collect();
        Controller {
            process,
            told,
            begun: Vec::new(),
            copying: Vec::new(),
            failed: Vec::new(),
            woken: true,
            next: None,
            again: None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.begun.is_empty() && self.copying.is_empty() && self.failed.is_empty()
    }

    /// When there is something to do although nothing has changed.
    pub(super) fn deadline(&self, (now, elapsed): Clock) -> Option<Duration> {
        let next = self.next.map(|next| elapsed + Duration::try_from(next.duration_since(now)).unwrap_or_default());
        next.into_iter().chain(self.again).min()
    }

    /// Some of the watches tell what has happened, or all of them everything.
    pub(super) fn watch(&mut self, world: &World) -> bool {
        let mut any = false;
        for (kind, told) in self.told.iter_mut().enumerate() {
            let log = world.store.log(kind);
            let behind = log.len() - *told;
            let count = match world.calm {
                true => behind,
                false if world.random.chance(40) => world.random.below(behind + 1),
                false => 0,
            };
            for event in &log[*told..*told + count] {
                let told = if event.deleted { Told::Deleted(&event.object) } else { Told::Changed(&event.object) };
                self.process.tell(KINDS[kind], &told);
                any = true;
            }
            *told += count;
        }
        self.woken |= any;
        any
    }

    pub(super) fn is_due(&self, clock: Clock) -> bool {
        self.woken || self.deadline(clock).is_some_and(|deadline| deadline <= clock.1)
    }

    /// Decides anew.
    pub(super) fn decide(&mut self, world: &mut World, clock: Clock, tally: &mut Tally) -> anyhow::Result<()> {
        if !self.is_due(clock) {
            return Ok(());
        }
        tally.turns += 1;
        let Turn { writes, goes_on, next, again } = self.process.turn(clock.0, clock.1);
        // What was not known of Secrets is from now on.
        let was_known = self.process.read_secrets(&mut Requests::of(world)) == Ok(false);
        (self.woken, self.next, self.again) = (!was_known || goes_on, next, again);
        for write in &writes {
            checks::decided(&self.process, write, tally)?;
        }
        self.begun.extend(writes);
        while self.copying.len() < 24 {
            let Some(job) = self.process.copy_job() else { break };
            self.copying.push(job);
        }
        Ok(())
    }

    /// One of its writes arrives.
    pub(super) fn arrive(&mut self, world: &mut World, clock: Clock, tally: &mut Tally) -> anyhow::Result<()> {
        let count = self.begun.len() + self.copying.len();
        let at = world.random.below(count);
        let mut requests = Requests::of(world);
        let outcome = if at < self.begun.len() {
            let write = self.begun.swap_remove(at);
            self.process.perform(write, &mut requests, clock.1)
        } else if at < count {
            let job = self.copying.swap_remove(at - self.begun.len());
            let outcome = self.process.copy(&job, &mut requests);
            if outcome.is_err() {
                self.failed.push(job);
            }
            outcome
        } else {
            // Some of what has failed may be tried again.
            let Some(job) = self.failed.pop() else { return Ok(()) };
            self.process.copy_again(&job);
            Ok(())
        };
        self.woken = true;
        tally.writes += requests.wrote;
        if let Some(blind) = requests.blind {
            bail!("{blind} is written without the version that it was decided by");
        }
        tally.refused += usize::from(outcome == Err(Failure::Conflict));
        tally.failed += usize::from(matches!(outcome, Err(Failure::Rejected(_) | Failure::Away)));
        Ok(())
    }

    /// What is begun now, of writes only; what is read is none.
    pub(super) fn pending(&self) -> Vec<String> {
        let writes =
            self.begun.iter().map(|write| format!("{}: {:?} {:?}", write.key, write.fields(), write.content()));
        let copies =
            self.copying.iter().filter(|job| job.writes()).map(|job| format!("copy {}/{}", job.namespace, job.name));
        writes.chain(copies).collect()
    }
}

impl<'a> Requests<'a> {
    fn of(world: &'a mut World) -> Requests<'a> {
        Requests { world, wrote: 0, blind: None }
    }

    /// `version`: what tells which version of the object is written, or which object is deleted.
    fn write(&mut self, (kind, namespace, name): (&str, &str, &str), version: &str) {
        self.wrote += 1;
        if version.is_empty() {
            self.blind.get_or_insert_with(|| format!("{kind} {namespace}/{name}"));
        }
    }

    fn ask<T>(&mut self, kind: &str, ask: impl FnOnce(&mut World) -> Result<T, Failure>) -> Result<T, Failure> {
        let luck = if self.world.calm { 99 } else { self.world.random.below(100) };
        if luck < 2 {
            return Err(Failure::Away);
        }
        if self.world.refuses == Some(kind) {
            return Err(Failure::Rejected(format!("{kind} is not allowed")));
        }
        let answer = ask(self.world);
        // It was done, and nobody is told.
        if luck == 2 { Err(Failure::Away) } else { answer }
    }
}

impl Api for Requests<'_> {
    fn get(&mut self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
        let found = self.world.store.get(kind, namespace, name).map(|object| (**object).clone());
        if !self.world.calm && self.world.random.chance(2) { Err(Failure::Away) } else { Ok(found) }
    }

    fn create(&mut self, kind: &str, namespace: &str, object: &Value) -> Result<Value, Failure> {
        self.wrote += 1;
        self.ask(kind, |world| world.store.create(kind, namespace, object))
    }

    fn replace(&mut self, kind: &str, namespace: &str, object: &Value, part: Part) -> Result<Value, Failure> {
        self.write((kind, namespace, text(object, "/metadata/name")), text(object, "/metadata/resourceVersion"));
        self.ask(kind, |world| world.store.replace(kind, object, part))
    }

    fn patch(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        (patch, part): (&Value, Part),
    ) -> Result<Value, Failure> {
        // Others may change labels of namespaces at any time, of which only some are ours.
        let version = if kind == "Namespace" { "any" } else { text(patch, "/metadata/resourceVersion") };
        self.write((kind, namespace, name), version);
        self.ask(kind, |world| world.store.patch(kind, (namespace, name), patch, part))
    }

    fn delete(&mut self, kind: &str, namespace: &str, name: &str, uid: &str) -> Result<(), Failure> {
        self.write((kind, namespace, name), uid);
        self.ask(kind, |world| world.store.delete(kind, namespace, name, uid))
    }
}
