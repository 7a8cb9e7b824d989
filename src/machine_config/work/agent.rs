//! The agent of one node: brings the node to the rendered MachineConfig that the annotations of its Node ask for, and says
//! there how far it is. It waits for a change of the Node, a deadline, or the next look at the files, takes in what
//! happened, decides by [`crate::machine_config::agent::decide`], and performs one step. It writes nothing but annotations of its
//! own Node; the controller cordons, drains and uncordons.

mod annotations;
mod perform;
mod plan;
mod settings;

use crate::cluster::{ApiError, ClientError, Clients, Kind, Kinds, Objects, WatchBackoff, named, scattered};
use crate::machine_config::agent::{Action, AgentFacts, Check, Plan, TriedAhead, Unread, decide};
use crate::machine_config::api::machine_config::AGENT_MANAGER;
use crate::machine_config::host::commands::{Commands, Processes};
use crate::machine_config::host::kubelet::KubeletProcess;
use crate::machine_config::host::machine::{Machine, MachineError, Planned};
use crate::machine_config::host::record;
use crate::machine_config::host::record::Disk;
use crate::machine_config::host::root::{HostError, Root};
use crate::machine_config::host::system::{System, runs_units};
use crate::machine_config::node::{NodeState, Target};
use crate::object::read::Read;
use annotations::{Pending, Seen, seen};
use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use jiff::Timestamp;
use serde_json::Value;
pub(crate) use settings::Settings;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the files of the node are looked at, without reading them, and what could not be planned is planned again.
const LOOK: Duration = Duration::from_secs(30);
/// The longest pause between attempts of a step that fails.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeAgentError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot use the root of the node: {0}; mount it, and give its folder with --root")]
    Root(HostError),
    #[error("cannot read the id of this boot from {path}: {error}")]
    Boot { path: String, error: String },
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("{0}")]
    Node(String),
}

impl<E: Into<record::RecordError>> From<E> for StepError {
    fn from(error: E) -> Self {
        StepError::Machine(MachineError::from(error.into()))
    }
}

/// Runs until it is told to stop.
pub(crate) async fn run(settings: Settings, stop: CancellationToken) -> Result<(), NodeAgentError> {
    let root = Root::open(&settings.root).map_err(NodeAgentError::Root)?;
    let boot = std::fs::read_to_string(&settings.boot_id_file).map_err(|error| NodeAgentError::Boot {
        path: settings.boot_id_file.display().to_string(),
        error: error.to_string(),
    })?;
    let clients = Clients::connect(settings.kubeconfig.as_deref()).await?;
    let objects = Objects::new(clients.call.clone(), AGENT_MANAGER, Arc::new(|| true));
    // Without what the server serves: a Node is served everywhere.
    let (kinds, own) = (Arc::new(Kinds::default()), ("", settings.node_name.as_str()));
    let events = named::follow_with(&clients, kinds, node_kind(), own, WatchBackoff::of_nodes());
    let system = settings.system().unwrap_or_else(|| System::detect(&root));
    let kubelet = KubeletProcess::new(settings.root.join("proc"));
    let mut commands = Commands {
        run: Arc::new(Processes { root: settings.root }),
        service_command: settings.service_command,
        reboot_command: settings.reboot_command,
        as_units: false,
    };
    commands.as_units = runs_units(&root, &commands);
    if !commands.as_units && !system.stages_nothing() {
        tracing::warn!("the node has no systemd-run: images are pulled within the memory limit of the agent");
    }
    tracing::info!(node = settings.node_name, ?system, "node agent started");
    let machine = Machine { root, commands, system };
    Agent::new(settings.node_name, boot.trim().to_owned(), machine, objects, (events, kubelet)).run(&stop).await;
    tracing::info!("stopped");
    Ok(())
}

fn node_kind() -> Kind {
    Kind::known("", "v1", "Node", "nodes", false)
}

/// A plan, and what it was made for.
#[derive(Debug)]
struct Made {
    from: Target,
    to: Target,
    forced: bool,
    plan: Result<Arc<Planned>, Plan>,
}

struct Agent {
    name: String,
    boot: String,
    machine: Machine,
    objects: Objects,
    events: BoxStream<'static, Read<Value>>,
    /// The Node as it was last seen, if it exists.
    node: Option<Value>,
    pending: Pending,
    disk: Disk,
    made: Option<Made>,
    check: Check,
    /// What the last checks in a row could not read.
    unread: Option<Unread>,
    /// Of the files when they were checked.
    fingerprint: Option<u64>,
    staged: Option<Target>,
    /// What could not be prepared before the node was told to take it.
    tried_ahead: Option<TriedAhead>,
    kubelet: KubeletProcess,
    /// Pods, and the resourceVersion of the Node when they were counted.
    counted: Option<(usize, String)>,
    /// A restart of the node has been asked for.
    rebooting: bool,
    failures: u32,
}

fn resource_version(object: &Value) -> &str {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
}

/// Whether an event is of an earlier state of the same object.
fn is_outdated(event: &Value, known: &Value) -> bool {
    let uid = |object: &Value| object.pointer("/metadata/uid").cloned();
    let number = |object: &Value| resource_version(object).parse::<u64>().ok();
    uid(event) == uid(known) && number(event).zip(number(known)).is_some_and(|(event, known)| event < known)
}

impl Agent {
    fn new(
        name: String,
        boot: String,
        machine: Machine,
        objects: Objects,
        (events, kubelet): (BoxStream<'static, Read<Value>>, KubeletProcess),
    ) -> Agent {
        Agent {
            name,
            boot,
            machine,
            objects,
            events,
            node: None,
            pending: Pending::default(),
            disk: Disk::default(),
            made: None,
            check: Check::Outdated,
            unread: None,
            fingerprint: None,
            staged: None,
            tried_ahead: None,
            kubelet,
            counted: None,
            rebooting: false,
            failures: 0,
        }
    }

    async fn run(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            while let Some(Some(event)) = self.events.next().now_or_never() {
                self.take_in(event);
            }
            if self.node.is_none() {
                self.wait(None, stop).await;
                continue;
            }
            match self.step(stop).await {
                Ok(()) => self.failures = 0,
                Err(error) => {
                    self.failures = self.failures.saturating_add(1);
                    self.explain(&error).await;
                    let pause = scattered(Duration::from_secs(1), self.failures, LONGEST_PAUSE);
                    stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                }
            }
        }
    }

    /// Decides, and performs one step.
    async fn step(&mut self, stop: &CancellationToken) -> Result<(), StepError> {
        self.disk = Disk::read(&self.machine.root)?;
        let seen = self.seen()?;
        let facts = self.facts(&seen);
        let action = decide(&facts, Timestamp::now());
        tracing::debug!(?action, "decided");
        match action {
            Action::Wait { what, until } => {
                self.flush().await?;
                tracing::debug!(what, "waiting");
                self.wait(until, stop).await;
            }
            Action::Rest => {
                self.flush().await?;
                self.wait(None, stop).await;
            }
            action => self.perform(action, &seen, stop).await?,
        }
        Ok(())
    }

    fn seen(&self) -> Result<Seen, StepError> {
        let object = self.node.as_ref().unwrap_or(&Value::Null);
        seen(object, &self.pending)
            .map_err(|error| StepError::Node(format!("cannot read the Node {}: {error}", self.name)))
    }

    fn facts(&self, seen: &Seen) -> AgentFacts {
        let forced = record::is_forced(&self.machine.root);
        let record = self.disk.record.as_ref().map(|record| record.target.clone());
        let made = self.made.as_ref().filter(|made| {
            Some(&made.from) == record.as_ref() && made.to == seen.node.desired && made.forced == forced
        });
        let plan = match made.map(|made| &made.plan) {
            None => Plan::Unknown,
            Some(Err(plan)) => plan.clone(),
            Some(Ok(planned)) => Plan::Change { drains: planned.drains, reboots: planned.reboots },
        };
        let version = self.node.as_ref().map(resource_version).unwrap_or_default();
        AgentFacts {
            desired: seen.node.desired.clone(),
            current: seen.node.current.clone(),
            state: seen.node.state,
            reason: seen.node.reason.clone(),
            asked: seen.asked.clone(),
            answered: seen.answered,
            unschedulable: seen.node.unschedulable,
            pods: self.counted.as_ref().filter(|(_, at)| at == version).map(|(pods, _)| *pods),
            record,
            journal: self.disk.update.as_ref().map(|update| update.journal.clone()),
            boot: self.boot.clone(),
            plan,
            check: self.check.clone(),
            staged: self.staged.clone(),
            ahead: self.ahead(seen),
            tried_ahead: self.tried_ahead.clone(),
            staging: self.disk.staging.clone(),
            failure: self.disk.failure.clone(),
            single_node: seen.single_node,
            forced,
        }
    }

    /// What is to be prepared before the node is told to take it, unless nothing can be prepared.
    fn ahead(&self, seen: &Seen) -> Option<Target> {
        let ahead = seen.node.stage_ahead.as_deref().filter(|_| !self.machine.system.stages_nothing())?;
        Some(Target::new(ahead))
    }

    /// Tells what the kubelet reads, with the next write, if that is not known.
    fn look_at_kubelet(&mut self) {
        let Some(folder) = self.kubelet.config_dir() else { return };
        if self.seen().is_ok_and(|seen| seen.node.kubelet_config_dir.as_ref() != Some(&folder)) {
            tracing::info!(folder, "the folder that the kubelet reads");
            self.pending.tell_kubelet(&folder);
        }
    }

    fn take_in(&mut self, event: Read<Value>) {
        match event {
            Read::Value(node) => {
                if self.node.as_ref().is_some_and(|known| is_outdated(&node, known)) {
                    return;
                }
                let desired = |object: Option<&Value>| -> Option<Target> {
                    seen(object?, &Pending::default()).ok().map(|seen| seen.node.desired)
                };
                if desired(self.node.as_ref()) != desired(Some(&node)) {
                    self.check = Check::Outdated;
                }
                let known = self.node.replace(node).is_some();
                if !known {
                    self.look_at_kubelet();
                }
            }
            Read::Absent => {
                tracing::warn!(node = self.name, "the Node does not exist; waiting for kubelet to register it");
                self.node = None;
                self.pending.clear();
            }
            Read::Failed(error) => tracing::warn!(error, "cannot follow the Node; trying again"),
        }
    }

    /// Until the Node changes, the time comes, or the files have to be looked at again.
    async fn wait(&mut self, until: Option<Timestamp>, stop: &CancellationToken) {
        let due = async {
            match until {
                Some(until) => {
                    let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
                    tokio::time::sleep(left).await;
                }
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = self.events.next() => event,
            () = due => return,
            () = tokio::time::sleep(LOOK) => None,
        };
        match event {
            Some(event) => self.take_in(event),
            None => self.look(),
        }
    }

    /// Whether something has changed that no event tells.
    fn look(&mut self) {
        self.look_at_kubelet();
        if self.made.as_ref().is_some_and(|made| made.plan.is_err()) {
            self.made = None;
        }
        // That a unit was enabled again changes no file that is known.
        let failed = matches!(self.check, Check::Failed(_));
        if failed || self.machine.fingerprint(&self.disk) != self.fingerprint {
            self.check = Check::Outdated;
        }
    }

    /// Writes what is still to be written.
    async fn flush(&mut self) -> Result<(), StepError> {
        let Some(node) = self.node.clone() else { return Ok(()) };
        if self.pending == Pending::default() {
            return Ok(());
        }
        if !self.rebooting {
            let seen = self.seen()?;
            self.pending.end_reboot(&seen);
        }
        if let Some(patch) = self.pending.patch(&node) {
            let written = self.objects.merge_patch(&node_kind(), "", &self.name, &patch).await?;
            if !self.node.as_ref().is_some_and(|known| is_outdated(&written, known)) {
                self.node = Some(written);
            }
        }
        self.pending.clear();
        Ok(())
    }

    /// Says why a step failed. What the API server does not answer cannot be told to it.
    async fn explain(&mut self, error: &StepError) {
        tracing::warn!(%error, "a step of the node failed; trying again");
        let StepError::Machine(_) = error else { return };
        let record = self.disk.record.as_ref().map(|record| &record.target);
        self.pending.tell(
            NodeState::Degraded,
            &crate::machine_config::host::machine::bounded(&error.to_string()),
            record,
        );
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "cannot tell why");
        }
    }
}

#[cfg(test)]
mod tests;
