//! A node: what the API server has of it, its disk, and what runs there.

use cvo::testing::pools::agent::{Action, AgentFacts, Check, Failure, Journal, Phase, Plan};
use cvo::testing::pools::drain::{DrainFacts, Request};
use cvo::testing::pools::node::{NodeFacts, NodeState, Problem, Target};
use jiff::Timestamp;

/// What of a change fails, or interrupts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Luck {
    /// The action reports an error.
    pub fails: bool,
    /// The process is killed in the middle of the action.
    pub killed: bool,
    /// The node does not become what it was restarted for.
    pub comes_back_old: bool,
}

#[derive(Clone, Debug)]
pub struct Machine {
    /// The object at the API server.
    pub facts: NodeFacts,
    /// Its resourceVersion.
    pub version: u64,
    pub asked: Option<Request>,
    asked_id: u64,
    pub answered: Option<Request>,
    answered_id: u64,
    /// Pods that a drain moves away.
    pub pods: usize,
    pub up: bool,
    /// What is on the disk: files of this configuration, or a mixture.
    tree: Option<String>,
    running: String,
    record: Target,
    journal: Option<Journal>,
    failure: Option<Failure>,
    boot: u64,
    // What the process knows and a new one does not.
    plan: Plan,
    /// What the plan is for.
    planned: Target,
    check: Check,
    staged: Option<Target>,
    /// Pods, and the resourceVersion of the node when they were counted.
    counted: Option<(usize, u64)>,
}

impl Machine {
    pub fn new(name: String, config: &str, created: Timestamp, zone: Option<String>) -> Self {
        let target = Target::new(config);
        let facts = NodeFacts {
            name,
            zone,
            created: Some(created),
            current: target.clone(),
            desired: target.clone(),
            state: NodeState::Done,
            ..NodeFacts::default()
        };
        Machine {
            facts,
            version: 1,
            asked: None,
            asked_id: 0,
            answered: None,
            answered_id: 0,
            pods: 3,
            up: true,
            tree: Some(config.to_owned()),
            running: config.to_owned(),
            record: target,
            journal: None,
            failure: None,
            boot: 1,
            plan: Plan::Unknown,
            planned: Target::default(),
            check: Check::Outdated,
            staged: None,
            counted: None,
        }
    }

    /// This program keeps pods away from it, or may do so at any moment.
    pub fn is_disturbed(&self) -> bool {
        self.facts.cordoned_for_update
            || self.journal.is_some()
            || !self.up
            || self.facts.is_changing()
            || self.facts.is_failing()
    }

    /// It has this configuration, serves, and nothing is left to do.
    pub fn is_settled_at(&self, config: &str) -> bool {
        let on_disk = self.tree.as_deref() == Some(config) && self.running == config && self.record.config == config;
        self.facts.is_at(&Target::new(config)) && on_disk && self.journal.is_none() && !self.facts.cordoned_for_update
    }

    pub fn agent_facts(&self) -> AgentFacts {
        AgentFacts {
            desired: self.facts.desired.clone(),
            current: self.facts.current.clone(),
            state: self.facts.state,
            reason: self.facts.reason.clone(),
            asked: self.asked.clone(),
            answered: self.answered == self.asked && self.answered_id == self.asked_id,
            unschedulable: self.facts.unschedulable,
            pods: self.counted.filter(|(_, version)| *version == self.version).map(|(pods, _)| pods),
            record: Some(self.record.clone()),
            journal: self.journal.clone(),
            boot: self.boot.to_string(),
            plan: if self.planned == self.facts.desired { self.plan.clone() } else { Plan::Unknown },
            check: self.check.clone(),
            staged: self.staged.clone(),
            failure: self.failure.clone(),
            single_node: false,
            forced: false,
        }
    }

    pub fn drain_facts(&self) -> DrainFacts {
        DrainFacts {
            asked: self.asked.as_ref().map(ToString::to_string),
            asked_id: Some(self.asked_id.to_string()),
            answered: self.answered.as_ref().map(ToString::to_string),
            answered_id: Some(self.answered_id.to_string()),
            unschedulable: self.facts.unschedulable,
            cordoned_for_update: self.facts.cordoned_for_update,
            pods: Some(self.pods),
        }
    }

    /// The drain controller says that the request is fulfilled.
    pub fn answer(&mut self, uncordon: bool) {
        if uncordon {
            (self.facts.unschedulable, self.facts.cordoned_for_update) = (false, false);
        }
        (self.answered, self.answered_id) = (self.asked.clone(), self.asked_id);
        self.version += 1;
    }

    /// A new process knows what is on the disk and at the API server.
    pub fn restart_agent(&mut self) {
        (self.planned, self.check) = (Target::default(), Check::Outdated);
        (self.staged, self.counted) = (None, None);
    }

    /// Kubelet is there again after a restart.
    pub fn come_up(&mut self) {
        self.up = true;
        self.facts.problems.clear();
        self.version += 1;
        self.restart_agent();
    }

    fn give_up(&mut self, cause: &str, now: Timestamp) {
        let boot = self.boot.to_string();
        let Some(journal) = &mut self.journal else { return };
        let before = self.failure.as_ref().filter(|failure| failure.target == journal.to);
        let count = before.map_or(1, |failure| failure.count + 1);
        let after_reboot = journal.boot != boot;
        self.failure =
            Some(Failure { target: journal.to.clone(), cause: cause.to_owned(), at: now, count, after_reboot });
        journal.phase = Phase::RollingBack;
    }

    fn is_as(&self, target: &Target) -> bool {
        self.tree.as_ref() == Some(&target.config) && self.running == target.config
    }

    /// Performs what the agent has decided. `change`: whether it drains and whether it restarts the node.
    pub fn perform(&mut self, action: &Action, change: (bool, bool), luck: Luck, now: Timestamp) {
        match action {
            Action::MakePlan => {
                self.plan = Plan::Change { drains: change.0, reboots: change.1 };
                self.planned = self.facts.desired.clone();
            }
            Action::Check => {
                let wanted = self.journal.as_ref().map_or(&self.record, |journal| &journal.to);
                self.check =
                    if self.is_as(wanted) { Check::Passed } else { Check::Failed("not as it should be".into()) };
            }
            Action::Tell(state, reason) => {
                (self.facts.state, self.facts.reason) = (*state, reason.clone());
                self.facts.current = self.record.clone();
                self.version += 1;
            }
            Action::CountPods => self.counted = Some((self.pods, self.version)),
            Action::Stage => self.staged = Some(self.facts.desired.clone()),
            Action::Ask(request) => {
                self.asked = Some(request.clone());
                self.asked_id += 1;
                self.version += 1;
            }
            Action::TellDone => {
                self.facts.current = self.record.clone();
                (self.facts.state, self.facts.reason) = (NodeState::Done, String::new());
                self.facts.done_since = Some(now);
                self.version += 1;
            }
            _ => self.change(action, change, luck, now),
        }
        if luck.killed {
            self.restart_agent();
        }
    }

    /// What touches the disk.
    fn change(&mut self, action: &Action, (drains, reboots): (bool, bool), luck: Luck, now: Timestamp) {
        match action {
            Action::Apply => {
                let (to, boot) = (self.facts.desired.clone(), self.boot.to_string());
                let whole = !luck.fails && !luck.killed;
                let phase = if whole { Phase::Applied } else { Phase::Applying };
                self.tree = whole.then(|| to.config.clone());
                self.journal = Some(Journal { to, phase, drains, reboots, boot });
                self.check = Check::Outdated;
                if luck.fails {
                    self.give_up("no room on the disk", now);
                }
            }
            Action::RunActions if luck.fails => self.give_up("a service does not start", now),
            Action::RunActions => {
                self.running = self.tree.clone().unwrap_or_default();
                self.check = Check::Passed;
            }
            Action::Reboot => {
                self.boot += 1;
                self.up = false;
                self.version += 1;
                self.facts.problems = vec![Problem { what: "Ready=Unknown".into(), since: Some(now) }];
                if !luck.comes_back_old {
                    self.running = self.tree.clone().unwrap_or_default();
                }
            }
            Action::GiveUp(cause) => self.give_up(cause, now),
            Action::RollBack if luck.killed => self.tree = None,
            Action::RollBack => {
                self.tree = Some(self.record.config.clone());
                self.check = Check::Outdated;
                let boot = self.boot.to_string();
                match &mut self.journal {
                    Some(journal) if journal.reboots && journal.boot != boot => {
                        (journal.phase, journal.boot) = (Phase::RolledBack, boot);
                    }
                    _ => {
                        self.running = self.record.config.clone();
                        self.journal = None;
                    }
                }
            }
            Action::Forget => (self.journal, self.check) = (None, Check::Outdated),
            Action::Commit => {
                if let Some(journal) = self.journal.take() {
                    self.record = journal.to;
                }
                self.failure = None;
            }
            _ => {}
        }
    }
}
