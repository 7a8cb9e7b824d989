//! A simulated executor that performs commands in any order, with any outcome.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

const KINDS: [&str; 7] = ["config", "deployment", "operator", "definition", "namespace", "job", "widget"];

/// Commands that are under way, and what has been promised about them.
struct Executor {
    rollout: Rollout,
    running: Vec<Command>,
    now: i64,
    /// Positions whose last outcome was a failure or a closed gate.
    failing: HashSet<usize>,
    /// Positions that were applied at least once.
    written: HashSet<usize>,
}

fn node_of(command: &Command) -> Option<usize> {
    match command {
        Command::Precreate { node, .. } | Command::HandOverTimer { node, .. } => Some(*node),
        Command::Reconcile(Reconcile {
            purpose: Purpose::Apply { node } | Purpose::Ahead { node } | Purpose::Gate { node },
            ..
        }) => Some(*node),
        _ => None,
    }
}

impl Executor {
    fn start(plan: Plan) -> Executor {
        let (rollout, commands) = Rollout::start(plan, Clocks::default(), at(0));
        let (failing, written) = Default::default();
        let mut executor = Executor { rollout, running: Vec::new(), now: 0, failing, written };
        executor.begin(commands);
        executor
    }

    fn begin(&mut self, commands: Vec<Command>) {
        for command in commands {
            if let Some(node) = node_of(&command) {
                let before = self.rollout.plan.graph.predecessors(node);
                let open = before.iter().find(|p| self.rollout.nodes[**p].state != NodeState::Done);
                assert_eq!(open, None, "node {node} started before one that it depends on");
                assert_ne!(self.rollout.nodes[node].state, NodeState::Pending);
            }
            if let Command::Reconcile(request) = &command {
                self.assert_in_order(request);
            }
            self.running.push(command);
        }
        let nodes: Vec<usize> = self.running.iter().filter_map(node_of).collect();
        assert_eq!(nodes.len(), nodes.iter().collect::<HashSet<_>>().len(), "a node does one thing at a time");
        let prerequisite = |command: &Command| match command {
            Command::CreatePrerequisite(position) => Some(*position),
            _ => reconciled(command),
        };
        let positions: Vec<usize> = self.running.iter().filter_map(prerequisite).collect();
        assert_eq!(
            positions.len(),
            positions.iter().collect::<HashSet<_>>().len(),
            "one attempt at an object at a time"
        );
    }

    /// What is out of turn is never gated, and nothing has its turn before what is in front of it is applied.
    fn assert_in_order(&self, request: &Reconcile) {
        match request.purpose {
            Purpose::Apply { node } | Purpose::Gate { node } => {
                let in_front = self.rollout.plan.graph.nodes()[node].manifests.iter();
                let missing = in_front.take_while(|p| **p != request.position).find(|p| !self.written.contains(p));
                assert_eq!(missing, None, "{} has its turn before it", request.position);
            }
            Purpose::Ahead { .. } => {
                let manifest = &self.rollout.plan.manifests[request.position];
                assert!(request.gate.is_none() && manifest.id.kind != "ClusterOperator", "{}", manifest.id);
            }
            Purpose::Repair | Purpose::Configuration => {}
        }
    }

    fn on(&mut self, event: Event) -> Vec<Command> {
        self.now += 1;
        let before = self.rollout.is_completed();
        let contested = |command: &&Command| matches!(command, Command::Reconcile(Reconcile { contested: true, .. }));
        let attempts =
            self.running.iter().filter(|command| reconciled(command).is_some() && !contested(command)).count();
        let commands = self.rollout.on(event, at(self.now));
        if self.rollout.is_completed() && !before {
            assert_eq!((&self.failing, attempts), (&HashSet::new(), 0), "completed although not all is in place");
        }
        self.begin(commands.clone());
        commands
    }

    /// Performs one command; `choice` decides about the outcome.
    fn perform(&mut self, command: Command, choice: u8) {
        match command {
            Command::ServeKinds(_) => {}
            Command::CreatePrerequisite(position) => {
                drop(self.on(Event::PrerequisiteDone {
                    position,
                    applied: applied().applied.filter(|_| !choice.is_multiple_of(3)),
                }));
            }
            Command::Precreate { node, .. } => drop(self.on(Event::Precreated { node })),
            Command::HandOverTimer { node, .. } => drop(self.on(Event::HandOverExpired { node })),
            Command::Reconcile(request) => {
                let outcome = outcome(&request, choice);
                let (position, failed) = (request.position, outcome.failure.is_some());
                let node = node_of(&Command::Reconcile(request.clone()));
                if !failed {
                    self.written.insert(position);
                }
                match choice % 10 {
                    0..=3 | 6 => self.failing.remove(&position),
                    4 | 5 if request.gate.is_none() => self.failing.remove(&position),
                    _ => self.failing.insert(position),
                };
                let next = self.on(Event::Reconciled(request, Box::new(outcome)));
                let again = |command: &Command| {
                    reconciled(command) == Some(position) || node.is_some() && node_of(command) == node
                };
                assert!(!failed || next.iter().any(again), "a failure is tried again");
            }
        }
    }

    /// Wakes the nodes that are parked.
    fn wake(&mut self) {
        for position in 0..self.rollout.plan.manifests.len() {
            self.on(Event::Changed { position, content: false });
        }
    }
}

fn reconciled(command: &Command) -> Option<usize> {
    match command {
        Command::Reconcile(request) => Some(request.position),
        _ => None,
    }
}

/// From 0: success.
fn outcome(request: &Reconcile, choice: u8) -> Outcome {
    let with = |unready, as_desired| Outcome {
        applied: Some(if choice.is_multiple_of(2) { Applied::Unchanged } else { Applied::Created }),
        judged: request.gate.map(|_| Judged { unready, as_desired }),
        ..Outcome::default()
    };
    match choice % 10 {
        0..=3 => with(None, true),
        4 => with(waiting(), true),
        5 => with(None, false),
        6 => with(
            unready(UpdateError { effect: Effect::Report, ..UpdateError::new(Reason::Other("Odd".into()), "odd") }),
            true,
        ),
        7 => failed(Cause::KindNotServed),
        8 if choice.is_multiple_of(4) => failed(Cause::NamespaceMissing("ns".into())),
        8 if choice.is_multiple_of(3) => failed(Cause::NoAnswer),
        8 => failed(Cause::WebhookAway(Some("ns".into()))),
        _ => failed(Cause::Other),
    }
}

/// Level, component and kind of each manifest.
fn any_release() -> impl Strategy<Value = Vec<(u8, u8, usize)>> {
    prop::collection::vec((0..4u8, 0..3u8, 0..KINDS.len()), 1..16)
}

fn manifests(release: &[(u8, u8, usize)]) -> Vec<Arc<Manifest>> {
    let files: BTreeMap<String, &str> = release
        .iter()
        .enumerate()
        .map(|(i, (level, component, kind))| (format!("0000_{level}0_c{component}_{i:02}.json"), KINDS[*kind]))
        .collect();
    files.iter().map(|(file, kind)| object(file, kind, &file.replace(['_', '.'], "-"))).collect()
}

proptest! {
    // A failure prints its smallest input; nothing is left in the tree.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1000), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever fails and changes meanwhile: nothing starts before its edges, no object has two attempts at once, every
    /// failure is tried again (all checked by the executor); and once nothing fails any more, the rollout completes.
    #[test]
    fn rollout_completes_after_any_events(
        release in any_release(),
        mode in any_mode(),
        choices in prop::collection::vec((any::<u8>(), any::<u8>()), 0..150),
    ) {
        let mut executor = Executor::start(plan(manifests(&release), mode));
        let count = executor.rollout.plan.manifests.len();
        for (choice, outcome) in choices {
            if choice.is_multiple_of(5) || executor.running.is_empty() {
                let position = usize::from(outcome) % count;
                executor.on(Event::Changed { position, content: choice.is_multiple_of(2) });
            } else {
                let command = executor.running.swap_remove(usize::from(choice) % executor.running.len());
                executor.perform(command, outcome);
            }
        }
        let mut woken = false;
        for step in 0.. {
            prop_assert!(step < 20 * count + 20, "no end: {:?}", executor.rollout.nodes);
            match executor.running.pop() {
                Some(command) => executor.perform(command, 0),
                None if woken && executor.rollout.is_completed() => break,
                None => {
                    executor.wake();
                    woken = true;
                }
            }
        }
        prop_assert_eq!(executor.rollout.done(), count);
        prop_assert!(executor.rollout.nodes.iter().all(|n| n.state == NodeState::Done && n.done == n.total));
        prop_assert_eq!(executor.rollout.failure(), None);
    }

    /// Whatever is under way then: nothing more starts, and success is never reported.
    #[test]
    fn cancelled_rollout_starts_nothing_and_never_completes(
        release in any_release(),
        mode in any_mode(),
        steps in 0..8usize,
    ) {
        let mut executor = Executor::start(plan(manifests(&release), mode));
        for _ in 0..steps {
            let Some(command) = executor.running.pop() else { break };
            executor.perform(command, 0);
        }
        if executor.rollout.is_completed() {
            return Ok(());
        }
        executor.rollout.cancel();
        while let Some(command) = executor.running.pop() {
            let before = executor.running.len();
            let event = match command {
                Command::Reconcile(request) => Event::Reconciled(request, Box::new(applied())),
                Command::Precreate { node, .. } => Event::Precreated { node },
                Command::CreatePrerequisite(position) => Event::PrerequisiteDone { position, applied: None },
                Command::HandOverTimer { node, .. } => Event::HandOverExpired { node },
                Command::ServeKinds(_) => continue,
            };
            prop_assert_eq!(executor.on(event), vec![]);
            prop_assert_eq!(executor.running.len(), before);
        }
        prop_assert!(!executor.rollout.is_completed());
    }
}
