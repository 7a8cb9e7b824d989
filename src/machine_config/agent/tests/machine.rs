//! A simulated node, whose agent is killed and whose actions fail when a test says so.

use super::*;

/// A node with its disk, and everybody the agent waits for.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) facts: AgentFacts,
    /// What is on the node: the configuration that its files are of, or a mixture.
    pub(super) tree: String,
    /// What it has to be restarted for before it counts.
    pub(super) running: String,
    pub(super) change: (bool, bool),
    /// Pods that are on the node whether it is drained or not.
    pub(super) pods: usize,
    /// The number of an action that fails.
    pub(super) fails: Option<usize>,
    /// It comes back from a restart with what it ran before.
    pub(super) comes_back_old: bool,
    /// A command that looks at the node fails.
    pub(super) unreadable: bool,
    pub(super) trail: Vec<Action>,
    pub(super) now: Timestamp,
}

impl Machine {
    pub(super) fn new(drains: bool, reboots: bool) -> Self {
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
            unreadable: false,
            trail: Vec::new(),
            now: START,
        }
    }

    /// What a new process finds: what is on disk and in the cluster.
    pub(super) fn restart(&mut self) {
        self.facts.plan = Plan::Unknown;
        self.facts.check = Check::Outdated;
        self.facts.staged = None;
        self.facts.pods = None;
    }

    pub(super) fn give_up(&mut self, cause: &str) {
        let Some(journal) = &mut self.facts.journal else { return };
        let count = self.facts.failure.as_ref().map_or(1, |failure| failure.count + 1);
        let after_reboot = journal.boot != self.facts.boot;
        self.facts.failure = Some(Failure {
            target: journal.to.clone(),
            cause: cause.into(),
            at: self.now,
            count,
            after_reboot,
            begun_in: None,
        });
        journal.phase = Phase::RollingBack;
    }

    /// Performs an action up to a point: `whole` is false where the process is killed in the middle.
    pub(super) fn perform(&mut self, action: &Action, whole: bool) {
        let fails = self.fails.take_if(|number| *number == self.trail.len()).is_some();
        self.trail.push(action.clone());
        let boot = self.facts.boot.clone();
        match action {
            Action::RecordFirst => self.facts.record = Some(Target::new("first")),
            Action::MakePlan => self.facts.plan = Plan::Change { drains: self.change.0, reboots: self.change.1 },
            Action::Check if self.unreadable => {
                let before = if let Check::Unread(unread) = &self.facts.check { Some(unread) } else { None };
                self.facts.check = Check::Unread(Unread::again(before, "rpm-ostree does not answer".into(), self.now));
            }
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
            Action::Stage => {
                self.facts.staging = Some(self.facts.desired.clone());
                self.facts.staged.clone_from(&self.facts.staging);
            }
            Action::DropStaged => (self.facts.staging, self.facts.staged) = (None, None),
            Action::Ask(request) => (self.facts.asked, self.facts.answered) = (Some(request.clone()), false),
            Action::Apply => {
                let (drains, reboots) = self.change;
                let to = self.facts.desired.clone();
                self.facts.journal = Some(Journal { to, phase: Phase::Applying, drains, reboots, boot });
                self.facts.staging = None;
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
                self.facts.staged = None;
                if self.facts.desired.config.is_empty() {
                    self.facts.desired = record;
                }
            }
            _ => self.end(action, fails, whole),
        }
    }

    /// What comes after the files have been written.
    pub(super) fn end(&mut self, action: &Action, fails: bool, whole: bool) {
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
            Action::ForgetFailure => self.facts.failure = None,
            Action::Commit => {
                self.facts.record = Some(self.facts.journal.take().unwrap().to);
                (self.facts.failure, self.facts.forced) = (None, false);
            }
            _ => {}
        }
    }

    /// The drain controller.
    pub(super) fn answer(&mut self) {
        if let Some(asked) = &self.facts.asked {
            self.facts.unschedulable = matches!(asked, Request::Drain(_));
            self.facts.answered = true;
            (self.pods, self.facts.pods) = (0, None);
        }
    }

    pub(super) fn step(&mut self) -> Action {
        let action = decide(&self.facts, self.now);
        let drained =
            self.facts.asked == Some(Request::Drain("b".into())) && self.facts.answered && self.facts.unschedulable;
        let disturbs = matches!(action, Action::Apply | Action::Reboot | Action::RunActions);
        assert!(!disturbs || !self.change.0 || self.facts.single_node || drained, "{action:?} with pods on the node");
        self.perform(&action, true);
        action
    }

    /// Until nothing is left to do; the controller answers, and time goes on.
    pub(super) fn run(&mut self) {
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

    pub(super) fn is_at(&self, config: &str) -> bool {
        let facts = &self.facts;
        let told = facts.state == NodeState::Done && facts.current == Target::new(config);
        told && facts.record == Some(Target::new(config))
            && self.tree == config
            && self.running == config
            && facts.journal.is_none()
    }
}
