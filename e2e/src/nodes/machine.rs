//! A node: what the API server has of it, its disk, and what runs there.

use cvo::testing::pools::agent::{Action, AgentFacts, Check, Failure, Journal, Phase, Plan, Unread};
use cvo::testing::pools::drain::{DrainFacts, Request};
use cvo::testing::pools::node::{NodeFacts, NodeState, Problem, Target};
use jiff::{SignedDuration, Timestamp};

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

/// Which step toward a configuration fails as long as nobody mends its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Stage,
    Apply,
    Actions,
    /// The node does not become what it was restarted for.
    Restart,
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
    staging: Option<Target>,
    boot: u64,
    /// The force file is there.
    pub forced: bool,
    /// The update under way was begun because of it.
    writes_anew: bool,
    /// An administrator has made the file, and the node has not been well since: what it disturbs is their doing.
    pub by_administrator: bool,
    /// A configuration that it cannot be brought to.
    pub broken: Option<(String, Fault)>,
    /// Commands that look at the node fail.
    pub unreadable: bool,
    /// By how much its clock is ahead.
    pub ahead: SignedDuration,
    // What the process knows and a new one does not.
    plan: Plan,
    /// What the plan is for, and whether it is forced.
    planned: (Target, bool),
    check: Check,
    unread: Option<Unread>,
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
            staging: None,
            boot: 1,
            forced: false,
            writes_anew: false,
            by_administrator: false,
            broken: None,
            unreadable: false,
            ahead: SignedDuration::ZERO,
            plan: Plan::Unknown,
            planned: Default::default(),
            check: Check::Outdated,
            unread: None,
            staged: None,
            counted: None,
        }
    }

    /// This program keeps pods away from it, or may do so at any moment.
    pub fn is_disturbed(&self) -> bool {
        let disturbed = self.facts.cordoned_for_update
            || self.journal.is_some()
            || !self.up
            || self.facts.is_changing()
            || self.facts.is_failing();
        disturbed && !self.by_administrator
    }

    /// It has this configuration, serves, and nothing is left to do.
    pub fn is_settled_at(&self, config: &str) -> bool {
        let target = Target::new(config);
        let on_disk = self.is_as(&target) && self.record == target && self.journal.is_none() && self.staging.is_none();
        self.facts.is_at(&target) && on_disk && !self.facts.cordoned_for_update
    }

    /// What its own clock shows.
    pub fn clock(&self, now: Timestamp) -> Timestamp {
        now.checked_add(self.ahead).unwrap_or(now)
    }

    /// It was restarted in vain for what it still should be. Nothing is tried again then, unless somebody forces it.
    pub fn is_given_up(&self) -> bool {
        let failure = self.failure.as_ref().filter(|failure| failure.target == self.facts.desired);
        let given_up = failure.is_some_and(|failure| failure.after_reboot) && !self.forced;
        given_up && self.journal.is_none() && self.facts.is_degraded()
    }

    /// An attempt to bring it to this target is known to have failed.
    pub fn has_failed_at(&self, target: &Target) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.target == *target)
    }

    /// What it has, according to its disk.
    pub fn recorded(&self) -> &Target {
        &self.record
    }

    /// What it is to be once the update under way is done.
    pub fn is_as_wanted(&self) -> bool {
        self.is_as(self.journal.as_ref().map_or(&self.record, |journal| &journal.to))
    }

    /// Nothing of what was wrong is.
    pub fn mend(&mut self) {
        (self.broken, self.unreadable) = (None, false);
    }

    /// Compares the node with what it is to be.
    fn look(&mut self, now: Timestamp) {
        let before = self.unread.take();
        self.check = match self.is_as_wanted() {
            _ if self.unreadable => {
                let unread = Unread::again(before.as_ref(), "nothing answers".into(), self.clock(now));
                self.unread = Some(unread.clone());
                Check::Unread(unread)
            }
            true => Check::Passed,
            false => Check::Failed("not as it should be".into()),
        };
    }

    fn is_broken(&self, fault: Fault) -> bool {
        let target = self.journal.as_ref().map_or(&self.facts.desired, |journal| &journal.to);
        self.broken.as_ref().is_some_and(|(config, broken)| *config == target.config && *broken == fault)
    }

    fn fails(&self, fault: Fault, luck: Luck) -> bool {
        luck.fails || self.is_broken(fault)
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
            plan: match self.planned == (self.facts.desired.clone(), self.forced) {
                true => self.plan.clone(),
                false => Plan::Unknown,
            },
            check: self.check.clone(),
            staged: self.staged.clone(),
            ahead: None,
            tried_ahead: None,
            staging: self.staging.clone(),
            failure: self.failure.clone(),
            single_node: false,
            forced: self.forced,
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
        (self.planned, self.check) = (Default::default(), Check::Outdated);
        (self.staged, self.counted, self.unread) = (None, None, None);
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
        let target = self.journal.as_ref().map_or(&self.facts.desired, |journal| &journal.to).clone();
        let before = self.failure.as_ref().filter(|failure| failure.target == target);
        let count = before.map_or(1, |failure| failure.count + 1);
        let begun_in = self.journal.as_ref().map(|journal| journal.boot.clone()).filter(|begun| *begun != boot);
        let after_reboot = begun_in.is_some();
        if let Some(journal) = &mut self.journal {
            journal.phase = Phase::RollingBack;
        }
        let at = self.clock(now);
        self.failure = Some(Failure { target, cause: cause.to_owned(), at, count, after_reboot, begun_in });
    }

    fn is_as(&self, target: &Target) -> bool {
        self.tree.as_ref() == Some(&target.config) && self.running == target.config
    }

    /// Performs what the agent has decided. `change`: whether it drains and whether it restarts the node.
    pub fn perform(&mut self, action: &Action, change: (bool, bool), luck: Luck, now: Timestamp) {
        match action {
            Action::MakePlan => {
                self.plan = Plan::Change { drains: change.0, reboots: change.1 };
                self.planned = (self.facts.desired.clone(), self.forced);
            }
            Action::Check => self.look(now),
            Action::Tell(state, reason) => {
                (self.facts.state, self.facts.reason) = (*state, reason.clone());
                self.facts.current = self.record.clone();
                self.version += 1;
            }
            Action::CountPods => self.counted = Some((self.pods, self.version)),
            Action::Stage => {
                self.staging = Some(self.facts.desired.clone());
                if self.fails(Fault::Stage, luck) {
                    self.give_up("the image cannot be pulled", now);
                } else if !luck.killed {
                    self.staged.clone_from(&self.staging);
                }
            }
            Action::DropStaged => (self.staging, self.staged) = (None, None),
            Action::Ask(request) => {
                self.asked = Some(request.clone());
                self.asked_id += 1;
                self.version += 1;
            }
            Action::TellDone => {
                self.staged = None;
                self.facts.current = self.record.clone();
                (self.facts.state, self.facts.reason) = (NodeState::Done, String::new());
                self.facts.done_since = Some(now);
                self.by_administrator = false;
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
                let fails = self.fails(Fault::Apply, luck);
                let whole = !fails && !luck.killed;
                let phase = if whole { Phase::Applied } else { Phase::Applying };
                self.tree = whole.then(|| to.config.clone());
                self.journal = Some(Journal { to, phase, drains, reboots, boot });
                (self.check, self.staging, self.staged) = (Check::Outdated, None, None);
                self.writes_anew = self.forced;
                if fails {
                    self.give_up("no room on the disk", now);
                }
            }
            Action::RunActions if self.fails(Fault::Actions, luck) => self.give_up("a service does not start", now),
            Action::RunActions => {
                self.running = self.tree.clone().unwrap_or_default();
                self.look(now);
            }
            Action::Reboot => {
                let comes_back_old = luck.comes_back_old || self.is_broken(Fault::Restart);
                self.boot += 1;
                (self.up, self.forced) = (false, false);
                self.version += 1;
                self.facts.problems = vec![Problem { what: "Ready=Unknown".into(), since: Some(now) }];
                if !comes_back_old {
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
            Action::ForgetFailure => self.failure = None,
            Action::Commit => {
                if let Some(journal) = self.journal.take() {
                    self.record = journal.to;
                }
                self.forced &= !self.writes_anew;
                self.failure = None;
            }
            _ => {}
        }
    }
}
