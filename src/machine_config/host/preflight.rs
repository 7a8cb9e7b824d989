//! What would make an update fail on this node, found before pods have to leave for it: no room on the disk, a file
//! system that cannot be written, a program that is not there.

use super::commands::{CommandError, Commands};
use super::files::Writes;
use super::record;
use super::root::{HostError, Room, Root, State};
use super::system::has_program;
use crate::machine_config::api::machine_config::MachineConfig;
use crate::machine_config::changes::Changes;
use crate::machine_config::disruption::Action;
use crate::machine_config::ignition::Ignition;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes that have to be left on each file system that is written, because others write there as well.
const MARGIN: u64 = 16 << 20;
/// Files that have to be left.
const MARGIN_FILES: u64 = 64;
/// What a file takes up besides its content, at most.
const BLOCK: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PreflightError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(
        "the file system of {path} is mounted read-only; mount it for writing, or remove from the MachineConfig what is \
         to be written there"
    )]
    ReadOnly { path: String },
    #[error(
        "the file system of {path} has {free} bytes left, and {needed} are needed, of which {MARGIN} are a margin; \
         remove what is not used, or make it larger"
    )]
    Full { path: String, needed: u64, free: u64 },
    #[error(
        "the file system of {path} has room for {free} more files, and {needed} are needed, of which {MARGIN_FILES} are \
         a margin; remove what is not used, or make it larger"
    )]
    Files { path: String, needed: u64, free: u64 },
    #[error("the node has no program {name}, which the change needs; install it, or change the flag that names it")]
    Program { name: String },
    #[error(
        "the node has no unit {name}, or it is masked, and it is to be reloaded or restarted after the change; correct \
         spec.nodeDisruptionPolicy of the MachineConfiguration, or add the unit"
    )]
    Unit { name: String },
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// What is written to one file system.
#[derive(Debug)]
struct Load<'a> {
    path: &'a str,
    room: Room,
    bytes: u64,
    files: u64,
}

/// Whether everything that an update writes finds room: new files, copies of the old ones, and what the agent notes.
pub(crate) fn room(root: &Root, writes: &Writes, next: &MachineConfig) -> Result<(), PreflightError> {
    let mut loads: BTreeMap<u64, Load<'_>> = BTreeMap::new();
    let mut add = |path, bytes: u64, files| -> Result<(), HostError> {
        let room = root.room(path)?;
        let load = loads.entry(room.device).or_insert(Load { path, room, bytes: 0, files: 0 });
        // Of two mounts of one file system the stricter one counts.
        if room.read_only {
            (load.path, load.room) = (path, room);
        }
        (load.bytes, load.files) = (load.bytes.saturating_add(bytes), load.files + files);
        Ok(())
    };
    let size = |state: &State| match state {
        State::File { content, .. } => content.len() as u64 + BLOCK,
        State::Link { .. } => BLOCK,
        State::Absent => 0,
    };
    let mut largest = 0;
    for (path, state) in &writes.states {
        let before = root.state(path)?;
        if before != *state {
            largest = largest.max(size(&before));
            add(path, size(state), u64::from(before == State::Absent))?;
            add(record::SAVED, size(&before), 1)?;
        }
    }
    for folder in &writes.folders {
        add(folder.path, BLOCK, 1)?;
    }
    // The next configuration and the record of it, the journal, and what is reserved for the way back.
    let noted = serde_json::to_vec(next).map_or(0, |text| text.len() as u64);
    add(record::SAVED, 2 * noted + largest + 16 * BLOCK, 8)?;
    add(record::FAILURE, 2 * BLOCK, 2)?;
    loads.values().try_for_each(fits)
}

fn fits(load: &Load<'_>) -> Result<(), PreflightError> {
    let path = load.path.to_owned();
    if load.room.read_only {
        return Err(PreflightError::ReadOnly { path });
    }
    let needed = load.bytes.saturating_add(MARGIN);
    if load.room.free < needed {
        return Err(PreflightError::Full { path, needed, free: load.room.free });
    }
    let needed = load.files.saturating_add(MARGIN_FILES);
    match load.room.files {
        Some(free) if free < needed => Err(PreflightError::Files { path, needed, free }),
        _ => Ok(()),
    }
}

/// Programs that the steps of an update run.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    services: bool,
    reboots: bool,
    others: Vec<&'static str>,
}

pub(crate) fn programs(changes: &Changes, actions: &[Action], reboots: bool, others: Vec<&'static str>) -> Programs {
    let acts = |action: &Action| matches!(action, Action::DaemonReload | Action::Reload(_) | Action::Restart(_));
    Programs { services: !changes.units.is_empty() || actions.iter().any(acts), reboots, others }
}

pub(crate) fn has_programs(root: &Root, commands: &Commands, programs: &Programs) -> Result<(), PreflightError> {
    let mut missing = programs.others.iter().copied().filter(|name| !has_program(root, name));
    let mut missing = missing.next();
    let mut own = |wanted: bool, own: &Option<String>, names: &[&'static str]| -> Option<String> {
        match own {
            _ if !wanted => None,
            // By its name alone it is found wherever the agent's PATH leads.
            Some(own) => (own.contains('/') && !Path::new(own).exists()).then(|| own.clone()),
            None => {
                missing = missing.or_else(|| names.iter().copied().find(|name| !has_program(root, name)));
                None
            }
        }
    };
    let services = own(programs.services, &commands.service_command, &["systemctl"]);
    let reboots = own(programs.reboots, &commands.reboot_command, &["systemctl", "systemd-run"]);
    match services.or(reboots).or_else(|| missing.map(ToOwned::to_owned)) {
        Some(name) => Err(PreflightError::Program { name }),
        None => Ok(()),
    }
}

/// Those of these units that the node does not have and the configuration does not bring.
pub(crate) async fn lacking<'a>(
    commands: &Commands,
    units: impl IntoIterator<Item = &'a str>,
    next: &Ignition,
) -> Result<Vec<&'a str>, CommandError> {
    let brought = &next.config().systemd.units;
    let brings = |name: &str| {
        let contents = brought.iter().find(|unit| unit.name == name).and_then(|unit| unit.contents.as_deref());
        contents.is_some_and(|contents| !contents.is_empty())
    };
    let mut lacking = Vec::new();
    for name in units {
        if !brings(name) && !commands.has_unit(name).await? {
            lacking.push(name);
        }
    }
    Ok(lacking)
}

/// Whether the node has what is to be reloaded and restarted.
pub(crate) async fn has_units(commands: &Commands, actions: &[Action], next: &Ignition) -> Result<(), PreflightError> {
    let services = actions.iter().filter_map(Action::service);
    match lacking(commands, services, next).await?.first() {
        Some(name) => Err(PreflightError::Unit { name: (*name).to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
