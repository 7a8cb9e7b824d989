//! Performs the steps that were decided.

use super::annotations::{Pending, Seen, seen};
use super::plan::{Given, plan};
use super::{Agent, Made, StepError};
use crate::cluster::{ApiError, Kind};
use crate::machine_config::agent::{Action, Check, Plan, TriedAhead, Unread};
use crate::machine_config::api::machine_config::MachineConfig;
use crate::machine_config::host::machine::{MachineError, Planned, bounded};
use crate::machine_config::host::record;
use crate::machine_config::host::record::{Record, Repairs};
use crate::machine_config::node::Target;
use crate::machine_config::settings::Settings;
use crate::machine_config::work::pods;
use crate::object::read::Read;
use futures::StreamExt;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A node that is to be restarted and still runs after this long is not being restarted.
const REBOOT: Duration = Duration::from_mins(10);

fn machine_config_kind() -> Kind {
    Kind::known("machineconfiguration.openshift.io", "v1", "MachineConfig", "machineconfigs", false)
}

fn machine_configuration_kind() -> Kind {
    Kind::known("operator.openshift.io", "v1", "MachineConfiguration", "machineconfigurations", false)
}

/// Whether the node is still to be prepared for the target.
fn is_wanted(event: &Read<Value>, target: &Target) -> bool {
    match event {
        Read::Failed(_) => true,
        Read::Absent => false,
        Read::Value(node) => seen(node, &Pending::default())
            .is_ok_and(|seen| seen.node.desired == *target || seen.node.stage_ahead.as_ref() == Some(&target.config)),
    }
}

impl Agent {
    pub(super) async fn perform(
        &mut self,
        action: Action,
        seen: &Seen,
        stop: &CancellationToken,
    ) -> Result<(), StepError> {
        let record = self.disk.record.as_ref().map(|record| record.target.clone());
        match action {
            Action::Tell(state, reason) => {
                tracing::info!(?state, reason, "state");
                self.pending.tell(state, &reason, record.as_ref());
            }
            Action::Ask(request) => {
                tracing::info!(%request, "asking the controller");
                self.pending.ask(&request, uuid::Uuid::new_v4().to_string());
            }
            Action::TellDone => {
                tracing::info!(config = record.as_ref().map(|record| &record.config), "done");
                self.pending.tell_done(seen, &record.ok_or(MachineError::NoRecord)?);
            }
            Action::MakePlan => self.make_plan(seen).await?,
            Action::CountPods => {
                let version = self.node.as_ref().map(super::resource_version).unwrap_or_default().to_owned();
                let pods = pods::list(self.objects.client(), &self.name).await?;
                let number =
                    pods::survey(&self.objects, &pods, seen.drain_started, &mut Default::default()).await.number();
                self.counted = Some((number, version));
            }
            Action::Stage => {
                if !self.machine.system.stages_nothing() {
                    self.flush().await?;
                }
                let planned = self.planned()?;
                match stop.run_until_cancelled(self.machine.stage(&planned)).await {
                    None => self.machine.commands.stop_left().await,
                    Some(Ok(())) => self.staged = Some(planned.to.clone()),
                    Some(Err(error)) => self.give_up(&planned.to, &error.to_string())?,
                }
            }
            Action::StageAhead(target) => {
                self.flush().await?;
                self.stage_ahead(target, stop).await?;
            }
            action => {
                // What follows may take long, or end the process.
                self.flush().await?;
                self.change(action, stop).await?;
            }
        }
        Ok(())
    }

    /// What touches the disk. Each of these is finished even if the process is told to stop.
    pub(super) async fn change(&mut self, action: Action, stop: &CancellationToken) -> Result<(), StepError> {
        match action {
            Action::RecordFirst => self.record_first().await?,
            Action::Check => self.check().await,
            Action::DropStaged => {
                self.staged = None;
                let seen = self.seen()?;
                let stays = self.disk.record.as_ref().is_some_and(|record| record.target == seen.node.desired);
                self.machine.drop_staged().await.map_err(|error| match stays {
                    // The node is as it should be; what is left is in the way of the next update only, which will tell.
                    true => StepError::Node(format!("cannot drop what was prepared for later: {error}")),
                    false => error.into(),
                })?;
            }
            Action::Apply => {
                let planned = self.planned()?;
                tracing::info!(config = planned.to.config, reboots = planned.reboots, "applying");
                let applied = self.machine.apply(&planned, &self.boot).await;
                self.check = Check::Outdated;
                // Once the node is changed, what was staged is used up.
                self.staged = None;
                if let Err(error) = applied {
                    self.give_up(&planned.to, &error.to_string())?;
                }
            }
            Action::RunActions => match self.machine.run_actions(&self.disk).await {
                Ok(()) => self.check().await,
                Err(error) => self.give_up_journal(&error.to_string())?,
            },
            Action::Reboot => self.reboot(stop).await?,
            Action::GiveUp(cause) => self.give_up_journal(&cause)?,
            Action::RollBack => {
                tracing::info!("restoring what was there before the update");
                // Its contents would be in memory beside those that are put back.
                self.made = None;
                self.machine.roll_back(&self.disk, &self.boot).await?;
                self.check = Check::Outdated;
            }
            Action::Forget => {
                self.machine.forget()?;
                self.check = Check::Outdated;
            }
            Action::ForgetFailure => self.machine.forget_failure()?,
            Action::Commit => self.machine.commit(&self.disk)?,
            // Performed elsewhere, or nothing to perform.
            Action::MakePlan
            | Action::Tell(..)
            | Action::Stage
            | Action::StageAhead(_)
            | Action::Ask(_)
            | Action::CountPods
            | Action::TellDone
            | Action::Wait { .. }
            | Action::Rest => {}
        }
        Ok(())
    }

    async fn check(&mut self) {
        // What changes while it is checked is checked again.
        self.fingerprint = self.machine.fingerprint(&self.disk);
        let before = self.unread.take();
        self.check = match self.machine.check(&self.disk).await {
            Ok(check) => check,
            Err(cause) => {
                tracing::warn!(cause, "not known whether the node is as it should be");
                let unread = Unread::again(before.as_ref(), cause, Timestamp::now());
                self.unread = Some(unread.clone());
                Check::Unread(unread)
            }
        };
        if let Check::Failed(deviation) = &self.check {
            tracing::warn!(deviation, "the node is not as it should be");
        }
    }

    /// The present plan.
    fn planned(&self) -> Result<Arc<Planned>, StepError> {
        let planned = self.made.as_ref().and_then(|made| made.plan.as_ref().ok());
        planned.cloned().ok_or_else(|| StepError::Node("there is no plan for the update".to_owned()))
    }

    fn give_up(&mut self, to: &Target, cause: &str) -> Result<(), StepError> {
        tracing::warn!(config = to.config, cause, "giving up");
        Ok(self.machine.give_up(to, cause, &self.boot, Timestamp::now())?)
    }

    fn give_up_journal(&mut self, cause: &str) -> Result<(), StepError> {
        let update = self.disk.update.as_ref().ok_or(MachineError::NoJournal)?;
        let to = update.journal.to.clone();
        self.give_up(&to, cause)
    }

    async fn record_first(&mut self) -> Result<(), StepError> {
        let (config, image) = match record::seed(&self.machine.root)? {
            None => (record::unconfigured(), None),
            Some(seed) => match self.machine_config(&seed.config).await? {
                Ok(config) => (config, seed.image),
                Err(cause) => {
                    let cause = format!("the node was installed with another configuration: {cause}");
                    return Err(MachineError::Seed(cause).into());
                }
            },
        };
        tracing::info!(config = record::name(&config), "first record of the node");
        Ok(self.machine.record_first(&config, image.as_deref())?)
    }

    /// The MachineConfig, or why it cannot be had although the server answers.
    async fn machine_config(&self, name: &str) -> Result<Result<MachineConfig, String>, ApiError> {
        match self.objects.get(&machine_config_kind(), "", name).await {
            Ok(Some(object)) => {
                let read = MachineConfig::deserialize(&object);
                Ok(read.map_err(|error| format!("cannot read the MachineConfig {name}: {error}")))
            }
            Ok(None) => Ok(Err(format!("the MachineConfig {name} does not exist"))),
            Err(error) if error.is_rejected() => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// The MachineConfiguration that administrators set policies in, if there is one.
    async fn configuration(&self) -> Result<Result<Option<Value>, String>, ApiError> {
        match self.objects.get(&machine_configuration_kind(), "", "cluster").await {
            Ok(found) => Ok(Ok(found)),
            Err(error) if error.is_rejected() => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    async fn make_plan(&mut self, seen: &Seen) -> Result<(), StepError> {
        let record = self.disk.record.clone().ok_or(MachineError::NoRecord)?;
        let forced = record::is_forced(&self.machine.root);
        let to = seen.node.desired.clone();
        let plan = self.plan_to(&record, &to, forced).await?;
        match &plan {
            Ok(Planned { drains, reboots, .. }) => tracing::info!(config = to.config, drains, reboots, "planned"),
            Err(plan) => tracing::warn!(config = to.config, ?plan, "no way to the desired configuration"),
        }
        self.made = Some(Made { from: record.target, to, forced, plan: plan.map(Arc::new) });
        Ok(())
    }

    async fn plan_to(&self, record: &Record, to: &Target, forced: bool) -> Result<Result<Planned, Plan>, StepError> {
        let settings = match self.configuration().await? {
            Ok(found) => Settings::of(found.as_ref()).map_err(|error| error.to_string()),
            Err(cause) => Err(cause),
        };
        let read = match settings {
            // The disk has what the node is said to have, also where no MachineConfig is of it.
            Ok(settings) if record.target == *to => Ok((settings, record.config.clone())),
            Ok(settings) => self.machine_config(&to.config).await?.map(|next| (settings, next)),
            Err(cause) => Err(cause),
        };
        match read {
            Err(cause) => Ok(Err(Plan::Missing(bounded(&cause)))),
            Ok((settings, next)) => Ok(self.plan(record, next, to, settings, forced).await?),
        }
    }

    /// Prepares what the node is to take later, as long as that is wanted. What fails is tried again, and told when the node is to
    /// take it.
    async fn stage_ahead(&mut self, target: Target, stop: &CancellationToken) -> Result<(), StepError> {
        let record = self.disk.record.clone().ok_or(MachineError::NoRecord)?;
        let planned = match self.plan_to(&record, &target, false).await {
            Ok(Ok(planned)) => planned,
            Ok(Err(plan)) => {
                self.give_up_ahead(target, &format!("{plan:?}"));
                return Ok(());
            }
            Err(StepError::Api(error)) => return Err(error.into()),
            Err(error) => {
                self.give_up_ahead(target, &error.to_string());
                return Ok(());
            }
        };
        tracing::info!(config = target.config, "preparing what the node is to take later");
        let (machine, events) = (&self.machine, &mut self.events);
        let mut last = None;
        let outcome = {
            let mut staging = std::pin::pin!(machine.stage(&planned));
            loop {
                tokio::select! {
                    () = stop.cancelled() => break None,
                    outcome = &mut staging => break Some(outcome),
                    Some(event) = events.next() => {
                        let wanted = is_wanted(&event, &target);
                        last = Some(event).filter(|event| !matches!(event, Read::Failed(_))).or(last);
                        if !wanted {
                            break None;
                        }
                    }
                }
            }
        };
        if outcome.is_none() {
            machine.commands.stop_left().await;
        }
        last.into_iter().for_each(|event| self.take_in(event));
        match outcome {
            Some(Ok(())) => (self.staged, self.tried_ahead) = (Some(target), None),
            Some(Err(error)) => self.give_up_ahead(target, &error.to_string()),
            // What is half prepared is dropped with the next step, or replaced.
            None => self.staged = Some(Target::default()),
        }
        Ok(())
    }

    fn give_up_ahead(&mut self, target: Target, cause: &str) {
        tracing::warn!(
            config = target.config,
            cause,
            "what the node is to take later cannot be prepared; trying again"
        );
        self.tried_ahead = Some(TriedAhead::again(self.tried_ahead.as_ref(), target, Timestamp::now()));
    }

    /// By what the node is like.
    async fn plan(
        &self,
        record: &Record,
        next: MachineConfig,
        to: &Target,
        settings: Settings,
        forced: bool,
    ) -> Result<Result<Planned, Plan>, MachineError> {
        let repairs = match forced {
            true => self.machine.repairs(&next, to).await?,
            false => Repairs::default(),
        };
        let system = self.machine.system;
        let mut given = Given { settings, system, forced, repairs, lacking: BTreeSet::new() };
        let planned = match plan(record, next, to, &given) {
            Ok(planned) => planned,
            Err(plan) => return Ok(Err(plan)),
        };
        given.lacking = self.machine.lacking(&planned).await?;
        if given.lacking.is_empty() {
            return Ok(Ok(planned));
        }
        tracing::info!(lacking = ?given.lacking, "the built-in policies do not hold");
        Ok(plan(record, planned.next, to, &given))
    }

    /// The process ends with the node. It goes on only where the node is not restarted.
    async fn reboot(&mut self, stop: &CancellationToken) -> Result<(), StepError> {
        self.rebooting = true;
        self.pending.begin_reboot(Timestamp::now());
        self.flush().await?;
        let config = self.disk.update.as_ref().map(|update| update.journal.to.config.clone()).unwrap_or_default();
        tracing::info!(config, "restarting the node");
        let asked = self.machine.commands.reboot(&format!("the configuration {config} of the node")).await;
        asked.map_err(MachineError::from)?;
        if stop.run_until_cancelled(tokio::time::sleep(REBOOT)).await.is_none() {
            return Ok(());
        }
        Err(MachineError::StillRunning { minutes: REBOOT.as_secs() / 60 }.into())
    }
}
