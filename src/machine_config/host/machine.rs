//! The steps of an update on the node itself. Each is whole, or can be done again after the process was killed in it.

use super::check;
use super::commands::{CommandError, Commands};
use super::files::{self, Enablement, FilesError, Writes};
use super::preflight::{self, PreflightError};
use super::record::{self, Disk, RecordError, Repairs, Update};
use super::root::{HostError, Root, State};
use super::system::{System, SystemError};
use super::undo;
use crate::machine_config::agent::{Check, Failure, Journal, Phase};
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigSpec};
use crate::machine_config::changes;
use crate::machine_config::changes::{Changes, ChangesError};
use crate::machine_config::disruption::Action;
use crate::machine_config::ignition::{Ignition, IgnitionError};
use crate::machine_config::node::Target;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Bytes of a cause. With what is put before it, it has to fit into the annotation of 2000 characters that shows it.
const CAUSE: usize = 1900;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    System(#[from] SystemError),
    #[error("before anything is changed: {0}")]
    Preflight(#[from] PreflightError),
    #[error(transparent)]
    Changes(#[from] ChangesError),
    #[error("cannot read the Ignition configuration of the MachineConfig {name}: {error}")]
    Ignition { name: String, error: IgnitionError },
    #[error("there is no journal of an update to go on with")]
    NoJournal,
    #[error("{0}; create it, or correct node-annotations.json of the node")]
    Seed(String),
    #[error("the node was not restarted within {minutes} minutes; restart it")]
    StillRunning { minutes: u64 },
    #[error("there is no record of the configuration that the node has")]
    NoRecord,
}

/// An update that has been worked out.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub to: Target,
    pub next: MachineConfig,
    pub changes: Changes,
    pub drains: bool,
    pub reboots: bool,
    pub actions: Vec<Action>,
    pub forced: bool,
    /// Those of [`Planned::changes`] that the configuration does not make.
    pub repairs: Repairs,
    /// See [`crate::machine_config::disruption::Disruption::assumed`].
    pub assumed: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub root: Root,
    pub commands: Commands,
    pub system: System,
}

/// A cause that annotations and the disk can hold.
pub(crate) fn bounded(cause: &str) -> String {
    crate::error::shortened(cause, CAUSE).into_owned()
}

/// The specification with the image that the node is to boot: that of a pool whose image is built comes before the release's.
pub(crate) fn effective(config: &MachineConfig, image: Option<&str>) -> MachineConfigSpec {
    let mut spec = config.spec.clone();
    if let Some(image) = image {
        spec.os_image_url = image.to_owned();
        // Whoever builds an image for a pool builds its kernel and packages into it.
        spec.kernel_type = String::new();
        spec.extensions = Vec::new();
    }
    spec
}

/// What an update changes; if it is forced, everything.
pub(crate) fn all_changes(
    old: &MachineConfigSpec,
    new: &MachineConfigSpec,
    forced: bool,
) -> Result<Changes, ChangesError> {
    if forced { changes::everything(old, new) } else { changes::changes(old, new) }
}

fn ignition(config: &MachineConfig) -> Result<Ignition, MachineError> {
    match Ignition::read(&config.spec.config) {
        Ok(read) => Ok(read.ignition),
        Err(error) => Err(MachineError::Ignition { name: record::name(config).to_owned(), error }),
    }
}

fn names(units: &[String]) -> Vec<&str> {
    units.iter().map(String::as_str).collect()
}

/// On the way back everything is tried: what cannot be done is found by the next check.
fn warned(result: Result<(), CommandError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "going on");
    }
}

impl Machine {
    /// The configuration that the node is to have: that of the update under way, or the recorded one.
    fn wanted(disk: &Disk) -> Option<(&MachineConfig, Option<&str>)> {
        match (&disk.update, &disk.next, &disk.record) {
            (Some(update), Some(next), _) => Some((next, update.journal.to.image.as_deref())),
            (_, _, Some(record)) => Some((&record.config, record.target.image.as_deref())),
            _ => None,
        }
    }

    /// Changes whenever a file that the check reads does.
    pub(crate) fn fingerprint(&self, disk: &Disk) -> Option<u64> {
        let (config, _) = Self::wanted(disk)?;
        Some(check::fingerprint(&self.root, &ignition(config).ok()?))
    }

    /// `Err`: nothing that could be read deviates, and something could not be read for this reason.
    pub(crate) async fn check(&self, disk: &Disk) -> Result<Check, String> {
        let Some((config, image)) = Self::wanted(disk) else { return Ok(Check::Passed) };
        let ignition = match ignition(config) {
            Ok(ignition) => ignition,
            Err(error) => return Ok(Check::Failed(bounded(&error.to_string()))),
        };
        let deviation = match self.deviation(&ignition, &effective(config, image)).await {
            Ok(None) => self.run_deviation(disk).await,
            found => found,
        };
        Ok(match deviation.map_err(|unread| bounded(&unread))? {
            None => Check::Passed,
            Some(deviation) => {
                Check::Failed(bounded(&format!("the node is not as {}: {deviation}", record::name(config))))
            }
        })
    }

    /// Which unit does not run that the update under way has changed.
    async fn run_deviation(&self, disk: &Disk) -> Result<Option<String>, String> {
        let (Some(_), Some(next), Some(record)) = (&disk.update, &disk.next, &disk.record) else { return Ok(None) };
        let units = changes::changed_units(&record.config.spec, &next.spec).map_err(|error| error.to_string())?;
        check::of_run(&self.root, &self.commands, &units).await.map_err(|error| error.to_string())
    }

    /// The first deviation. What the operating system does not answer does not hide a file that deviates.
    async fn deviation(&self, ignition: &Ignition, spec: &MachineConfigSpec) -> Result<Option<String>, String> {
        let system = self.system.deviation(&self.commands, spec).await.map_err(|error| error.to_string());
        if let Ok(Some(_)) = system {
            return system;
        }
        let files = check::of_files(&self.root, ignition).map_err(|error| error.to_string());
        match files {
            Ok(Some(_)) => return files,
            _ if system.is_err() => return system,
            Err(_) => return files,
            Ok(None) => {}
        }
        check::of_units(&self.root, &self.commands, ignition).await.map_err(|error| error.to_string())
    }

    pub(crate) fn record_first(&self, config: &MachineConfig, image: Option<&str>) -> Result<(), MachineError> {
        record::put_record(&self.root, config, image)?;
        Ok(record::put_seed_aside(&self.root)?)
    }

    /// Looks for what would make the update fail once pods have left, and prepares what can be before.
    pub(crate) async fn stage(&self, planned: &Planned) -> Result<(), MachineError> {
        let spec = effective(&planned.next, planned.to.image.as_deref());
        let next = ignition(&planned.next)?;
        let writes = files::writes(&self.root, &planned.changes, &next)?;
        preflight::room(&self.root, &writes, &planned.next)?;
        let others = self.system.programs(&planned.changes, &spec);
        let programs = preflight::programs(&planned.changes, &planned.actions, planned.reboots, others);
        preflight::has_programs(&self.root, &self.commands, &programs)?;
        preflight::has_units(&self.commands, &planned.actions, &next).await?;
        if self.system.stages(&planned.changes) {
            record::put_staging(&self.root, Some(&planned.to))?;
        }
        Ok(self.system.stage(&self.root, &self.commands, &planned.changes, &spec).await?)
    }

    /// What force has to put right besides files and units.
    pub(crate) async fn repairs(&self, next: &MachineConfig, to: &Target) -> Result<Repairs, MachineError> {
        Ok(self.system.repairs(&self.commands, &effective(next, to.image.as_deref())).await?)
    }

    /// Services that the built-in policies of a plan assume, and the node will not have.
    pub(crate) async fn lacking(&self, planned: &Planned) -> Result<BTreeSet<String>, MachineError> {
        if planned.assumed.is_empty() {
            return Ok(BTreeSet::new());
        }
        let assumed = planned.assumed.iter().map(String::as_str);
        let lacking = preflight::lacking(&self.commands, assumed, &ignition(&planned.next)?).await?;
        Ok(lacking.into_iter().map(ToOwned::to_owned).collect())
    }

    /// What was staged is not wanted any more.
    pub(crate) async fn drop_staged(&self) -> Result<(), MachineError> {
        self.system.drop_staged(&self.commands).await?;
        Ok(record::put_staging(&self.root, None)?)
    }

    /// Writes everything. After an error [`Machine::give_up`] has to follow.
    pub(crate) async fn apply(&self, planned: &Planned, boot: &str) -> Result<(), MachineError> {
        let writes = files::writes(&self.root, &planned.changes, &ignition(&planned.next)?)?;
        let paths = writes.states.keys().cloned().collect::<Vec<_>>();
        undo::save(&self.root, record::SAVED, &paths)?;
        let journal = Journal {
            to: planned.to.clone(),
            phase: Phase::Applying,
            drains: planned.drains,
            reboots: planned.reboots,
            boot: boot.to_owned(),
        };
        let (actions, repairs) = (planned.actions.clone(), planned.repairs.clone());
        let mut update = Update { journal, actions, forced: planned.forced, repairs };
        record::begin(&self.root, &update, &planned.next)?;
        let first = files::enablement(&self.root, &planned.changes.units).disable_first;
        if !first.is_empty() {
            self.commands.service("disable", &names(&first)).await?;
        }
        self.write(&writes)?;
        let enablement = files::enablement(&self.root, &planned.changes.units);
        for (verb, units) in [("enable", &enablement.enable), ("disable", &enablement.disable)] {
            if !units.is_empty() {
                self.commands.service(verb, &names(units)).await?;
            }
        }
        self.preset(&enablement).await;
        let spec = effective(&planned.next, planned.to.image.as_deref());
        self.system.activate(&self.commands, &planned.changes, &spec).await?;
        update.journal.phase = Phase::Applied;
        Ok(record::put_update(&self.root, &update)?)
    }

    fn write(&self, writes: &Writes) -> Result<(), HostError> {
        for folder in &writes.folders {
            self.root.make_folder(folder.path, folder.mode, folder.owner)?;
        }
        // What is removed comes first: it may be in the way of a folder.
        let (removed, written): (Vec<_>, Vec<_>) =
            writes.states.iter().partition(|(_, state)| matches!(state, State::Absent));
        removed.into_iter().chain(written).try_for_each(|(path, state)| self.root.put(path, state))
    }

    /// Operating systems without a preset for a unit are usual.
    async fn preset(&self, enablement: &Enablement) {
        if !enablement.preset.is_empty() {
            warned(self.commands.service("preset", &names(&enablement.preset)).await);
        }
    }

    async fn run(&self, action: &Action) -> Result<(), CommandError> {
        match action {
            Action::DaemonReload => self.commands.service("daemon-reload", &[]).await,
            Action::Reload(service) => self.commands.service("reload", &[service]).await,
            Action::Restart(service) => self.commands.service("restart", &[service]).await,
            Action::None | Action::Drain | Action::Reboot | Action::Special => Ok(()),
        }
    }

    /// Lets services take over what was written.
    pub(crate) async fn run_actions(&self, disk: &Disk) -> Result<(), MachineError> {
        for action in disk.update.iter().flat_map(|update| &update.actions) {
            self.run(action).await?;
        }
        Ok(())
    }

    /// Remembers why the way to the target failed, and turns back where something has been written.
    pub(crate) fn give_up(&self, to: &Target, cause: &str, boot: &str, now: Timestamp) -> Result<(), MachineError> {
        let disk = Disk::read(&self.root)?;
        let before = disk.failure.filter(|failure| failure.target == *to);
        let count = before.map_or(1, |failure| failure.count.saturating_add(1));
        let after_reboot = disk.update.as_ref().is_some_and(|update| update.journal.boot != boot);
        let begun_in = disk.update.as_ref().filter(|_| after_reboot).map(|update| update.journal.boot.clone());
        let failure = Failure { target: to.clone(), cause: bounded(cause), at: now, count, after_reboot, begun_in };
        // The disk may be full, and what is written now has to find room.
        undo::release(&self.root, record::SAVED)?;
        record::put_failure(&self.root, Some(&failure))?;
        if after_reboot && disk.update.as_ref().is_some_and(|update| update.forced) {
            // It asked for this attempt, and would ask for another restart.
            self.root.put(record::FORCE, &State::Absent)?;
        }
        if let Some(mut update) = disk.update {
            update.journal.phase = Phase::RollingBack;
            record::put_update(&self.root, &update)?;
        }
        Ok(())
    }

    /// Restores what was there before the update.
    pub(crate) async fn roll_back(&self, disk: &Disk, boot: &str) -> Result<(), MachineError> {
        let (Some(update), Some(next)) = (&disk.update, &disk.next) else { return Err(MachineError::NoJournal) };
        let record = disk.record.as_ref().ok_or(MachineError::NoRecord)?;
        let old = effective(&record.config, record.target.image.as_deref());
        let new = effective(next, update.journal.to.image.as_deref());
        let mut changes = all_changes(&old, &new, update.forced)?;
        update.repairs.add_to(&mut changes, &new);
        // What is written is what was saved.
        changes.drop_contents();
        let units = files::reversed(&changes.units);
        let first = files::enablement(&self.root, &units).disable_first;
        if !first.is_empty() {
            warned(self.commands.service("disable", &names(&first)).await);
        }
        undo::restore_by(&self.root, record::SAVED, files::restored)?;
        let enablement = files::enablement(&self.root, &units);
        for (verb, units) in [("enable", &enablement.enable), ("disable", &enablement.disable)] {
            if !units.is_empty() {
                warned(self.commands.service(verb, &names(units)).await);
            }
        }
        self.preset(&enablement).await;
        let restarted = update.journal.reboots && update.journal.boot != boot;
        let is_booted = self.system.give_back(&self.commands, &changes, &new, restarted).await?;
        if restarted && (is_booted || changes.touch_files()) {
            // The node runs what it was restarted into, until it is restarted again.
            let journal = Journal { phase: Phase::RolledBack, boot: boot.to_owned(), ..update.journal.clone() };
            record::put_update(&self.root, &Update { journal, ..update.clone() })?;
        } else {
            // There are none where the node was restarted.
            for action in &update.actions {
                warned(self.run(action).await);
            }
            record::end(&self.root)?;
        }
        Ok(undo::discard(&self.root, record::SAVED)?)
    }

    pub(crate) fn forget(&self) -> Result<(), MachineError> {
        Ok(record::end(&self.root)?)
    }

    /// Nothing that has failed is desired any more.
    pub(crate) fn forget_failure(&self) -> Result<(), MachineError> {
        Ok(record::put_failure(&self.root, None)?)
    }

    /// The update has reached its target.
    pub(crate) fn commit(&self, disk: &Disk) -> Result<(), MachineError> {
        let (Some(update), Some(next)) = (&disk.update, &disk.next) else { return Err(MachineError::NoJournal) };
        record::put_record(&self.root, next, update.journal.to.image.as_deref())?;
        record::put_failure(&self.root, None)?;
        if update.forced {
            self.root.put(record::FORCE, &State::Absent)?;
        }
        record::end(&self.root)?;
        Ok(undo::discard(&self.root, record::SAVED)?)
    }
}

#[cfg(test)]
mod tests;
