//! A node: what the API server has of it, its disk, and what runs there.

use super::objects::{Outcome, patch_node};
use cvo::testing::api::machine_config::{GROUP, annotation as key};
use cvo::testing::pools::agent::{Action, AgentFacts, Check, Failure, Journal, Phase, Plan, Unread};
use cvo::testing::pools::drain::Request;
use cvo::testing::pools::node::{NodeFacts, NodeState, Target};
use cvo::testing::pools::views::NodeView;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::Value;
use std::sync::Arc;

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
    /// The object at the API server, and what the controller keeps of it.
    object: Node,
    view: Arc<NodeView>,
    version: usize,
    /// How often controller and agent have written it.
    written: usize,
    /// How often the agent has asked the controller.
    requests: u64,
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
    counted: Option<(usize, usize)>,
}

impl Machine {
    /// One that has this configuration, and belongs to the pool with this label.
    pub fn new(name: &str, label: &str, config: &str, created: Timestamp, zone: Option<String>) -> Self {
        let target = Target::new(config);
        let zone = zone.map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone));
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            creation_timestamp: Some(Time(created)),
            labels: Some([(label.to_owned(), String::new())].into_iter().chain(zone).collect()),
            ..ObjectMeta::default()
        };
        let mut machine = Machine {
            view: Arc::default(),
            object: Node { metadata, ..Node::default() },
            version: 0,
            written: 0,
            requests: 0,
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
        };
        let done = [(key::STATE, "Done"), (key::CURRENT_CONFIG, config), (key::DESIRED_CONFIG, config)];
        machine.annotate(done);
        machine
    }

    pub fn view(&self) -> &Arc<NodeView> {
        &self.view
    }

    /// How often controller and agent have written the object.
    pub fn written(&self) -> usize {
        self.written
    }

    pub fn facts(&self) -> &NodeFacts {
        &self.view.facts
    }

    /// The object is written.
    fn write(&mut self, change: impl FnOnce(&mut Node)) {
        change(&mut self.object);
        self.version += 1;
        self.object.metadata.resource_version = Some(self.version.to_string());
        self.view = Arc::new(NodeView::of(&self.object));
    }

    /// The agent writes annotations. Once it writes after a restart, that is over.
    fn annotate<const N: usize>(&mut self, entries: [(&str, &str); N]) {
        let is_back = self.up && self.facts().restarting_since.is_some();
        self.write(|node| {
            let annotations = node.metadata.annotations.get_or_insert_default();
            if is_back {
                let ended = [key::POST_CONFIG_ACTION, key::REBOOT_STARTED].map(|key| format!("{GROUP}/{key}"));
                annotations.retain(|key, _| !ended.contains(key));
            }
            annotations.extend(entries.map(|(key, value)| (format!("{GROUP}/{key}"), value.to_owned())));
        });
        self.written += 1;
    }

    /// The controller writes to it.
    pub fn patch(&mut self, patch: &Value) -> anyhow::Result<Outcome> {
        let mut object = self.object.clone();
        let outcome = patch_node(&mut object, patch)?;
        if outcome == Outcome::Changed {
            self.write(|node| *node = object);
            self.written += 1;
        }
        Ok(outcome)
    }

    /// Somebody cordons it, or lets pods come again.
    pub fn set_unschedulable(&mut self, unschedulable: bool) {
        self.write(|node| {
            node.spec.get_or_insert_default().unschedulable = unschedulable.then_some(true);
        });
    }

    /// It can run pods, or cannot since then.
    pub fn set_ready(&mut self, ready: bool, now: Timestamp) {
        let condition = NodeCondition {
            type_: "Ready".to_owned(),
            status: if ready { "True" } else { "Unknown" }.to_owned(),
            last_transition_time: Some(Time(now)),
            ..NodeCondition::default()
        };
        self.write(|node| node.status.get_or_insert_default().conditions = Some(vec![condition]));
    }

    /// Somebody tells it what to take.
    pub fn want(&mut self, target: &Target) {
        self.annotate([(key::DESIRED_CONFIG, &target.config)]);
    }

    /// This program keeps pods away from it, or may do so at any moment.
    pub fn is_disturbed(&self) -> bool {
        let facts = self.facts();
        let disturbed = facts.cordoned_for_update
            || self.journal.is_some()
            || !self.up
            || facts.is_changing()
            || facts.is_failing();
        disturbed && !self.by_administrator
    }

    /// It has this configuration, serves, and nothing is left to do.
    pub fn is_settled_at(&self, config: &str) -> bool {
        let target = Target::new(config);
        let on_disk = self.is_as(&target) && self.record == target && self.journal.is_none() && self.staging.is_none();
        self.facts().is_at(&target) && on_disk && !self.facts().cordoned_for_update
    }

    /// What its own clock shows.
    pub fn clock(&self, now: Timestamp) -> Timestamp {
        now.checked_add(self.ahead).unwrap_or(now)
    }

    /// It was restarted in vain for what it still should be. Nothing is tried again then, unless somebody forces it.
    pub fn is_given_up(&self) -> bool {
        let failure = self.failure.as_ref().filter(|failure| failure.target == self.facts().desired);
        let given_up = failure.is_some_and(|failure| failure.after_reboot) && !self.forced;
        given_up && self.journal.is_none() && self.facts().is_degraded()
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
        let target = self.journal.as_ref().map_or(&self.facts().desired, |journal| &journal.to);
        self.broken.as_ref().is_some_and(|(config, broken)| *config == target.config && *broken == fault)
    }

    fn fails(&self, fault: Fault, luck: Luck) -> bool {
        luck.fails || self.is_broken(fault)
    }

    pub fn agent_facts(&self) -> AgentFacts {
        let (facts, drain) = (self.facts(), &self.view.drain);
        AgentFacts {
            desired: facts.desired.clone(),
            current: facts.current.clone(),
            state: facts.state,
            reason: facts.reason.clone(),
            asked: drain.asked.as_deref().and_then(|asked| Request::parse(asked).ok()),
            answered: drain.asked == drain.answered && drain.asked_id == drain.answered_id,
            unschedulable: facts.unschedulable,
            pods: self.counted.filter(|(_, version)| *version == self.version).map(|(pods, _)| pods),
            record: Some(self.record.clone()),
            journal: self.journal.clone(),
            boot: self.boot.to_string(),
            plan: match self.planned == (facts.desired.clone(), self.forced) {
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

    /// A new process knows what is on the disk and at the API server.
    pub fn restart_agent(&mut self) {
        (self.planned, self.check) = (Default::default(), Check::Outdated);
        (self.staged, self.counted, self.unread) = (None, None, None);
    }

    /// Kubelet is there again after a restart.
    pub fn come_up(&mut self, now: Timestamp) {
        self.up = true;
        self.set_ready(true, now);
        self.restart_agent();
    }

    /// The annotations that say what it has.
    fn tell(&mut self, state: NodeState, reason: &str) {
        let state = match state {
            NodeState::Done => "Done",
            NodeState::Working | NodeState::Unknown => "Working",
            NodeState::Degraded => "Degraded",
            NodeState::Unreconcilable => "Unreconcilable",
        };
        let current = self.record.config.clone();
        self.annotate([(key::STATE, state), (key::REASON, reason), (key::CURRENT_CONFIG, &current)]);
    }

    fn give_up(&mut self, cause: &str, now: Timestamp) {
        let boot = self.boot.to_string();
        let target = self.journal.as_ref().map_or(&self.facts().desired, |journal| &journal.to).clone();
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
                self.planned = (self.facts().desired.clone(), self.forced);
            }
            Action::Check => self.look(now),
            Action::Tell(state, reason) => self.tell(*state, reason),
            Action::CountPods => self.counted = Some((self.pods, self.version)),
            Action::Stage => {
                self.staging = Some(self.facts().desired.clone());
                if self.fails(Fault::Stage, luck) {
                    self.give_up("the image cannot be pulled", now);
                } else if !luck.killed {
                    self.staged.clone_from(&self.staging);
                }
            }
            Action::DropStaged => (self.staging, self.staged) = (None, None),
            Action::Ask(request) => {
                self.requests += 1;
                let (request, id) = (request.to_string(), self.requests.to_string());
                self.annotate([(key::DESIRED_DRAIN, &request), (key::DESIRED_DRAIN_ID, &id)]);
            }
            Action::TellDone => {
                self.staged = None;
                self.tell(NodeState::Done, "");
                self.by_administrator = false;
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
                let (to, boot) = (self.facts().desired.clone(), self.boot.to_string());
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
                let since = now.to_string();
                self.annotate([(key::POST_CONFIG_ACTION, "Rebooting"), (key::REBOOT_STARTED, &since)]);
                self.set_ready(false, now);
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
