use super::*;

const START: Timestamp = Timestamp::UNIX_EPOCH;

/// A node with its disk, and everybody the agent waits for.
#[derive(Clone)]
struct Machine {
    facts: AgentFacts,
    /// What is on the node: the configuration that its files are of, or a mixture.
    tree: String,
    /// What it has to be restarted for before it counts.
    running: String,
    change: (bool, bool),
    /// Pods that are on the node whether it is drained or not.
    pods: usize,
    /// The number of an action that fails.
    fails: Option<usize>,
    /// It comes back from a restart with what it ran before.
    comes_back_old: bool,
    trail: Vec<Action>,
    now: Timestamp,
}

impl Machine {
    fn new(drains: bool, reboots: bool) -> Self {
        let facts = AgentFacts {
            desired: Target::new("b"),
            current: Target::new("a"),
            state: NodeState::Done,
            record: Some(Target::new("a")),
            boot: "1".into(),
            ..AgentFacts::default()
        };
        let (tree, running) = ("a".to_owned(), "a".to_owned());
        let change = (drains, reboots);
        Machine {
            facts,
            tree,
            running,
            change,
            pods: 0,
            fails: None,
            comes_back_old: false,
            trail: Vec::new(),
            now: START,
        }
    }

    /// What a new process finds: what is on disk and in the cluster.
    fn restart(&mut self) {
        self.facts.plan = Plan::Unknown;
        self.facts.check = Check::Outdated;
        self.facts.staged = None;
        self.facts.pods = None;
    }

    fn give_up(&mut self, cause: &str) {
        let Some(journal) = &mut self.facts.journal else { return };
        let count = self.facts.failure.as_ref().map_or(1, |failure| failure.count + 1);
        let after_reboot = journal.boot != self.facts.boot;
        self.facts.failure =
            Some(Failure { target: journal.to.clone(), cause: cause.into(), at: self.now, count, after_reboot });
        journal.phase = Phase::RollingBack;
    }

    /// Performs an action up to a point: `whole` is false where the process is killed in the middle.
    fn perform(&mut self, action: &Action, whole: bool) {
        let fails = self.fails.take_if(|number| *number == self.trail.len()).is_some();
        self.trail.push(action.clone());
        let boot = self.facts.boot.clone();
        match action {
            Action::RecordFirst => self.facts.record = Some(Target::new("first")),
            Action::MakePlan => self.facts.plan = Plan::Change { drains: self.change.0, reboots: self.change.1 },
            Action::Check => {
                let wanted =
                    self.facts.journal.as_ref().map(|journal| &journal.to).or(self.facts.record.as_ref()).unwrap();
                let same = self.tree == wanted.config && self.running == wanted.config;
                let deviation = format!("has {} and runs {} instead of {}", self.tree, self.running, wanted.config);
                self.facts.check = if same { Check::Passed } else { Check::Failed(deviation) };
            }
            Action::Tell(state, reason) => {
                (self.facts.state, self.facts.reason) = (*state, reason.clone());
                self.facts.current = self.facts.record.clone().unwrap();
            }
            Action::CountPods => self.facts.pods = Some(self.pods),
            Action::Stage => self.facts.staged = Some(self.facts.desired.clone()),
            Action::Ask(request) => (self.facts.asked, self.facts.answered) = (Some(request.clone()), false),
            Action::Apply => {
                let (drains, reboots) = self.change;
                let to = self.facts.desired.clone();
                self.facts.journal = Some(Journal { to, phase: Phase::Applying, drains, reboots, boot });
                self.tree = "mixture".into();
                if fails {
                    self.give_up("no room on the disk");
                } else if whole {
                    self.tree = self.facts.desired.config.clone();
                    self.facts.journal.as_mut().unwrap().phase = Phase::Applied;
                    self.facts.check = Check::Outdated;
                }
            }
            Action::TellDone => {
                let record = self.facts.record.clone().unwrap();
                self.facts.current = record.clone();
                (self.facts.state, self.facts.reason) = (NodeState::Done, String::new());
                if self.facts.desired.config.is_empty() {
                    self.facts.desired = record;
                }
            }
            _ => self.end(action, fails, whole),
        }
    }

    /// What comes after the files have been written.
    fn end(&mut self, action: &Action, fails: bool, whole: bool) {
        let boot = self.facts.boot.clone();
        match action {
            Action::RunActions if fails => self.give_up("crio.service does not reload"),
            Action::RunActions => {
                self.running.clone_from(&self.tree);
                self.facts.check = Check::Passed;
            }
            Action::Reboot => {
                self.facts.boot = format!("{boot}+");
                if !std::mem::take(&mut self.comes_back_old) {
                    self.running.clone_from(&self.tree);
                }
                self.restart();
            }
            Action::GiveUp(cause) => self.give_up(cause),
            Action::RollBack if whole => {
                self.tree = self.facts.record.clone().unwrap().config;
                self.facts.check = Check::Outdated;
                let journal = self.facts.journal.as_mut().unwrap();
                if journal.reboots && journal.boot != boot {
                    (journal.phase, journal.boot) = (Phase::RolledBack, boot);
                } else {
                    self.running.clone_from(&self.tree);
                    self.facts.journal = None;
                }
            }
            Action::RollBack => self.tree = "mixture".into(),
            Action::Forget => (self.facts.journal, self.facts.check) = (None, Check::Outdated),
            Action::Commit => {
                self.facts.record = Some(self.facts.journal.take().unwrap().to);
                (self.facts.failure, self.facts.forced) = (None, false);
            }
            _ => {}
        }
    }

    /// The drain controller.
    fn answer(&mut self) {
        if let Some(asked) = &self.facts.asked {
            self.facts.unschedulable = matches!(asked, Request::Drain(_));
            self.facts.answered = true;
            (self.pods, self.facts.pods) = (0, None);
        }
    }

    fn step(&mut self) -> Action {
        let action = decide(&self.facts, self.now);
        let drained =
            self.facts.asked == Some(Request::Drain("b".into())) && self.facts.answered && self.facts.unschedulable;
        let disturbs = matches!(action, Action::Apply | Action::Reboot | Action::RunActions);
        assert!(!disturbs || !self.change.0 || self.facts.single_node || drained, "{action:?} with pods on the node");
        self.perform(&action, true);
        action
    }

    /// Until nothing is left to do; the controller answers, and time goes on.
    fn run(&mut self) {
        for _ in 0..100 {
            match self.step() {
                Action::Rest => return,
                Action::Wait { until: Some(until), .. } => self.now = until,
                Action::Wait { .. } if self.facts.asked.is_some() && !self.facts.answered => self.answer(),
                Action::Wait { .. } => return,
                _ => {}
            }
        }
        panic!("never at rest: {:?}", self.trail);
    }

    fn is_at(&self, config: &str) -> bool {
        let facts = &self.facts;
        let told = facts.state == NodeState::Done && facts.current == Target::new(config);
        told && facts.record == Some(Target::new(config))
            && self.tree == config
            && self.running == config
            && facts.journal.is_none()
    }
}

fn ask(config: &str, drain: bool) -> Action {
    Action::Ask(if drain { Request::Drain(config.into()) } else { Request::Uncordon(config.into()) })
}

#[test]
fn update_is_staged_before_the_node_is_drained_and_nothing_is_written_before_that() {
    let mut machine = Machine::new(true, true);
    machine.run();
    assert!(machine.is_at("b"));
    let wait = |what: &str| Action::Wait { what: what.into(), until: None };
    let expected = [
        Action::MakePlan,
        Action::Check,
        Action::Tell(NodeState::Working, String::new()),
        Action::Stage,
        ask("b", true),
        wait("the node to be drained"),
        Action::CountPods,
        Action::Apply,
        Action::Reboot,
        Action::Check,
        Action::Commit,
        ask("b", false),
        wait("the node to be uncordoned"),
        Action::TellDone,
        Action::Rest,
    ];
    assert_eq!(machine.trail, expected);
}

#[test]
fn change_that_disturbs_nobody_is_made_without_a_drain() {
    let mut machine = Machine::new(false, false);
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail[4..], [Action::Apply, Action::RunActions, Action::Commit, Action::TellDone, Action::Rest]);
    let mut machine = Machine::new(true, true);
    machine.facts.single_node = true;
    machine.run();
    assert!(machine.is_at("b"));
    assert!(!machine.trail.contains(&ask("b", true)), "nobody could take the pods");
}

#[test]
fn agent_killed_at_any_action_ends_at_the_same_configuration() {
    for change in [(true, true), (true, false), (false, false)] {
        let whole = {
            let mut machine = Machine::new(change.0, change.1);
            machine.run();
            machine.trail
        };
        for killed in 0..whole.len() {
            for performed in [false, true] {
                let mut machine = Machine::new(change.0, change.1);
                for _ in 0..killed {
                    if let Action::Wait { .. } = machine.step() {
                        machine.answer();
                    }
                }
                let action = decide(&machine.facts, machine.now);
                machine.perform(&action, performed);
                machine.restart();
                machine.run();
                assert!(machine.is_at("b"), "killed in {action:?}: {:?}", machine.facts);
                let reboots = machine.trail.iter().filter(|action| **action == Action::Reboot).count();
                assert!(reboots <= 1, "{:?}", machine.trail);
            }
        }
    }
}

#[test]
fn failed_write_is_rolled_back_and_tried_again_without_another_drain() {
    let mut machine = Machine::new(true, true);
    machine.fails = Some(7);
    for _ in 0..9 {
        if let Action::Wait { .. } = machine.step() {
            machine.answer();
        }
    }
    assert_eq!(machine.trail[7..], [Action::Apply, Action::RollBack]);
    assert_eq!((machine.tree.as_str(), &machine.facts.journal), ("a", &None));
    assert_eq!(machine.step(), Action::Tell(NodeState::Degraded, "no room on the disk".into()));
    assert_eq!(
        machine.step(),
        Action::Wait { what: "the next attempt".into(), until: Some(START + SignedDuration::from_secs(1)) }
    );
    assert!(machine.facts.unschedulable, "it stays drained");
    machine.now += SignedDuration::from_secs(1);
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail.iter().filter(|action| **action == ask("b", true)).count(), 1);
    assert_eq!(machine.facts.failure, None);
}

#[test]
fn failed_reload_is_rolled_back() {
    let mut machine = Machine::new(false, false);
    machine.fails = Some(5);
    machine.run();
    assert!(machine.is_at("b"));
    let told = Action::Tell(NodeState::Degraded, "crio.service does not reload".into());
    assert_eq!(machine.trail[5..8], [Action::RunActions, Action::RollBack, told]);
}

/// Otherwise it would be restarted for ever.
#[test]
fn node_that_comes_back_as_it_was_goes_back_and_waits_for_another_target() {
    let mut machine = Machine::new(true, true);
    machine.comes_back_old = true;
    machine.run();
    let reason = "has b and runs a instead of b";
    assert_eq!((machine.facts.state, machine.facts.reason.as_str()), (NodeState::Degraded, reason));
    assert_eq!((machine.tree.as_str(), machine.running.as_str()), ("a", "a"));
    assert!(machine.facts.unschedulable, "nobody knows whether it is well");
    assert_eq!(machine.trail.iter().filter(|action| **action == Action::Reboot).count(), 2);
    machine.restart();
    machine.run();
    assert_eq!(machine.facts.state, NodeState::Degraded, "a new process knows it as well");
    machine.facts.desired = Target::new("a");
    machine.run();
    assert!(machine.is_at("a"));
    assert!(!machine.facts.unschedulable);
}

#[test]
fn target_that_changes_during_the_drain_or_the_restart_is_reached_without_serving_in_between() {
    for changed_at in [6, 9] {
        let mut machine = Machine::new(true, true);
        for _ in 0..changed_at {
            if let Action::Wait { .. } = machine.step() {
                machine.answer();
            }
        }
        machine.facts.desired = Target::new("c");
        machine.facts.plan = Plan::Unknown;
        machine.change = (false, true);
        machine.run();
        assert!(machine.is_at("c"));
        let uncordoned: Vec<&Action> =
            machine.trail.iter().filter(|action| matches!(action, Action::Ask(Request::Uncordon(_)))).collect();
        assert_eq!(uncordoned, [&ask("c", false)], "{:?}", machine.trail);
    }
}

#[test]
fn drain_that_is_not_wanted_any_more_is_taken_back() {
    let mut machine = Machine::new(true, true);
    for _ in 0..5 {
        machine.step();
    }
    assert_eq!(machine.facts.asked, Some(Request::Drain("b".into())));
    machine.facts.desired = Target::new("a");
    assert_eq!(machine.step(), ask("a", false));
    machine.run();
    assert!(machine.is_at("a"));
}

#[test]
fn node_that_became_schedulable_is_drained_again_before_it_is_restarted() {
    for uncordoned_at in [6, 8] {
        let mut machine = Machine::new(true, true);
        for _ in 0..uncordoned_at {
            if let Action::Wait { .. } = machine.step() {
                machine.answer();
            }
        }
        machine.facts.unschedulable = false;
        assert_eq!(machine.step(), ask("b", true), "{:?}", machine.trail);
        machine.run();
        assert!(machine.is_at("b"));
    }
}

/// Made schedulable and cordoned again, by whomever: what the controller said then is not so any more.
#[test]
fn pods_that_have_come_back_are_moved_away_before_the_node_is_changed() {
    let mut machine = Machine::new(true, true);
    for _ in 0..6 {
        if let Action::Wait { .. } = machine.step() {
            machine.answer();
        }
    }
    machine.pods = 2;
    assert_eq!([machine.step(), machine.step()], [Action::CountPods, ask("b", true)]);
    machine.run();
    assert!(machine.is_at("b"));
}

/// Back to the configuration that it is still said to have: what it has and what it should have must not look the same.
#[test]
fn node_that_fails_on_its_way_back_says_what_it_has() {
    let mut machine = Machine::new(true, true);
    while !machine.trail.contains(&Action::Commit) {
        if let Action::Wait { .. } = machine.step() {
            machine.answer();
        }
    }
    assert_eq!(machine.facts.current, Target::new("a"));
    machine.facts.desired = Target::new("a");
    machine.facts.plan = Plan::Missing("rendered-a does not exist".into());
    machine.run();
    assert_eq!((machine.facts.state, &machine.facts.current), (NodeState::Degraded, &Target::new("b")));
}

#[test]
fn disk_counts_before_the_annotation() {
    let mut machine = Machine::new(true, true);
    (machine.tree, machine.running) = ("b".into(), "b".into());
    machine.facts.record = Some(Target::new("b"));
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail, [Action::Check, Action::TellDone, Action::Rest]);
}

#[test]
fn deviation_is_reported_until_it_is_gone_and_nothing_is_changed_on_top_of_it() {
    let mut machine = Machine::new(false, false);
    machine.facts.desired = Target::new("a");
    machine.run();
    machine.tree = "edited".into();
    machine.facts.check = Check::Outdated;
    machine.run();
    assert_eq!(machine.facts.state, NodeState::Degraded);
    machine.facts.desired = Target::new("b");
    machine.run();
    assert_eq!(machine.facts.reason, "before the update: has edited and runs a instead of a");
    assert!(!machine.trail.contains(&Action::Apply));
    machine.tree = "a".into();
    machine.facts.check = Check::Outdated;
    machine.run();
    assert!(machine.is_at("b"));
}

#[test]
fn administrator_can_have_the_node_written_anew() {
    let mut machine = Machine::new(true, true);
    machine.facts.desired = Target::new("a");
    machine.tree = "edited".into();
    machine.facts.forced = true;
    // The drain is for the same configuration.
    for _ in 0..20 {
        if let Action::Wait { .. } = {
            let action = decide(&machine.facts, machine.now);
            machine.perform(&action, true);
            action
        } {
            machine.answer();
        }
    }
    assert!(machine.is_at("a"), "{:?}", machine.trail);
    assert!(machine.trail.contains(&Action::Reboot) && !machine.facts.forced);
}

#[test]
fn first_state_is_recorded_before_anything_is_changed() {
    let mut machine = Machine::new(true, true);
    machine.facts = AgentFacts { boot: "1".into(), ..AgentFacts::default() };
    (machine.tree, machine.running) = ("first".into(), "first".into());
    machine.run();
    assert!(machine.is_at("first"));
    assert_eq!(machine.facts.desired, Target::new("first"));
    assert_eq!(machine.trail, [Action::RecordFirst, Action::Check, Action::TellDone, Action::Rest]);
}

#[test]
fn target_that_cannot_be_reached_is_told_once_with_its_cause() {
    let mut machine = Machine::new(true, true);
    machine.facts.plan = Plan::Unreconcilable("storage.disks cannot be changed".into());
    assert_eq!(machine.step(), Action::Tell(NodeState::Unreconcilable, "storage.disks cannot be changed".into()));
    assert!(matches!(machine.step(), Action::Wait { .. }));
    machine.facts.plan = Plan::Missing("rendered-b does not exist".into());
    assert_eq!(machine.step(), Action::Tell(NodeState::Degraded, "rendered-b does not exist".into()));
    machine.facts.plan = Plan::Unknown;
    machine.run();
    assert!(machine.is_at("b"));
}

#[test]
fn attempts_come_later_and_later_up_to_a_minute() {
    let failure =
        |count| Failure { target: Target::new("b"), cause: String::new(), at: START, count, after_reboot: false };
    let seconds = |count| failure(count).again().unwrap().as_second();
    assert_eq!([1, 2, 3, 6, 7, 8, 1000].map(seconds), [1, 2, 4, 32, 60, 60, 60]);
    assert_eq!(Failure { after_reboot: true, ..failure(1) }.again(), None);
}
