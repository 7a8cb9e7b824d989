//! Compares the node with a configuration. Contents are never shown. What cannot be read is no deviation.

use super::commands::{CommandError, Commands};
use super::files::{drop_in_path, has_unit, is_renewed, managed_paths, unit_path};
use super::root::{HostError, Root, State};
use crate::machine_config::changes::UnitChange;
use crate::machine_config::ignition::{File, Ignition, Unit};
use rustix::io::Errno;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What `systemctl is-enabled` says of units that start, or need not be enabled in order to.
const ENABLED: [&str; 7] = ["enabled", "enabled-runtime", "static", "alias", "indirect", "generated", "linked"];

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnreadError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("{0}, while the node is still starting")]
    Starting(String),
}

/// The first deviation, in words; `None` if there is none.
type Deviation = Result<Option<String>, UnreadError>;

/// How files and the files of units deviate. One that cannot be read does not hide another one that deviates.
pub(crate) fn of_files(root: &Root, ignition: &Ignition) -> Deviation {
    let config = ignition.config();
    let files = config.storage.files.iter().filter(|file| !is_renewed(&file.path)).map(|file| of_file(root, file));
    let units = config.systemd.units.iter().map(|unit| of_unit(root, unit));
    let mut unread = None;
    for found in files.chain(units) {
        match found {
            Ok(None) => {}
            Ok(deviation) => return Ok(deviation),
            Err(error) => _ = unread.get_or_insert(error),
        }
    }
    unread.map_or(Ok(None), Err)
}

/// How the enablement of units deviates.
pub(crate) async fn of_units(root: &Root, commands: &Commands, ignition: &Ignition) -> Deviation {
    for unit in &ignition.config().systemd.units {
        if let Some(deviation) = of_enablement(root, commands, unit).await? {
            return once_started(commands, deviation.clone(), Some(deviation)).await;
        }
    }
    Ok(None)
}

/// Which of the units that an update has changed has failed. Others may have failed long before.
pub(crate) async fn of_run(root: &Root, commands: &Commands, units: &[UnitChange]) -> Deviation {
    let runs = |unit: &&Unit| unit.enabled == Some(true) && unit.mask != Some(true) && has_unit(root, &unit.name);
    let units = units.iter().filter_map(|change| change.new.as_ref()).filter(runs).map(|unit| unit.name.as_str());
    let units = units.collect::<Vec<_>>();
    let states = commands.states(&units).await?;
    let first = |wanted: &str| units.iter().zip(&states).find(|(_, state)| *state == wanted).map(|(unit, _)| unit);
    if let Some(unit) = first("failed") {
        let deviation = format!("the unit {unit} has failed; `systemctl status {unit}` on the node says why");
        return once_started(commands, deviation.clone(), Some(deviation)).await;
    }
    match first("activating") {
        Some(unit) => once_started(commands, format!("the unit {unit} is being started"), None).await,
        None => Ok(None),
    }
}

/// The deviation, if it is one, unless units are still being started: then it may be over by itself.
async fn once_started(commands: &Commands, found: String, deviation: Option<String>) -> Deviation {
    match commands.is_starting().await? {
        true => Err(UnreadError::Starting(found)),
        false => Ok(deviation),
    }
}

/// Changes whenever a file that [`of_files`] reads does.
pub(crate) fn fingerprint(root: &Root, ignition: &Ignition) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in managed_paths(ignition) {
        root.stamp(&path).hash(&mut hasher);
    }
    hasher.finish()
}

fn of_file(root: &Root, file: &File) -> Deviation {
    let path = &file.path;
    let mut wanted = match file.contents.decode() {
        Ok(wanted) => wanted,
        Err(error) => return Ok(Some(format!("the configuration's contents of {path} {error}"))),
    };
    for resource in &file.append {
        match resource.decode() {
            Ok(more) => wanted.extend(more),
            Err(error) => return Ok(Some(format!("what the configuration appends to {path} {error}"))),
        }
    }
    of_content(root, path, &wanted, file.permissions())
}

/// What is at the path; or, in words, that something else is there than a file or a link.
fn state(root: &Root, path: &str) -> Result<Result<State, String>, UnreadError> {
    match root.state(path) {
        Ok(state) => Ok(Ok(state)),
        // Such a file cannot be there.
        Err(
            error @ (HostError::Kind(_)
            | HostError::Large(_)
            | HostError::LinkInHome(_)
            | HostError::Failed { error: Errno::NOTDIR | Errno::LOOP, .. }),
        ) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

fn of_content(root: &Root, path: &str, wanted: &[u8], wanted_mode: u32) -> Deviation {
    Ok(match state(root, path)? {
        Err(other) => Some(other),
        Ok(State::Absent) => Some(format!("{path} is missing")),
        Ok(State::Link { .. }) => Some(format!("{path} is a symbolic link and should be a file")),
        Ok(State::File { mode, .. }) if mode != wanted_mode => {
            Some(format!("{path} has the mode {mode:04o} and should have {wanted_mode:04o}"))
        }
        Ok(State::File { content, .. }) if *content != *wanted => {
            Some(format!("the content of {path} differs from the configuration"))
        }
        Ok(State::File { .. }) => None,
    })
}

fn of_unit(root: &Root, unit: &Unit) -> Deviation {
    let path = unit_path(&unit.name);
    let contents = unit.contents.as_deref().filter(|contents| !contents.is_empty());
    let is_masked = matches!(state(root, &path)?, Ok(State::Link { to }) if to == b"/dev/null");
    let own = match (unit.mask == Some(true), is_masked) {
        (true, true) => None,
        (true, false) => Some(format!("the unit {} is not masked and should be", unit.name)),
        (false, true) => Some(format!("the unit {} is masked and should not be", unit.name)),
        (false, false) => match contents {
            Some(contents) => of_content(root, &path, contents.as_bytes(), 0o644)?,
            None => None,
        },
    };
    if own.is_some() {
        return Ok(own);
    }
    for drop_in in &unit.dropins {
        let path = drop_in_path(&unit.name, &drop_in.name);
        let contents = drop_in.contents.as_deref().unwrap_or_default();
        // An empty one need not be there.
        if contents.is_empty() && state(root, &path)? == Ok(State::Absent) {
            continue;
        }
        let deviation = of_content(root, &path, contents.as_bytes(), 0o644)?;
        if deviation.is_some() {
            return Ok(deviation);
        }
    }
    Ok(None)
}

/// A unit that the node does not have cannot be enabled, and one that is masked need not be looked at.
async fn of_enablement(root: &Root, commands: &Commands, unit: &Unit) -> Deviation {
    let wanted = unit.enabled.filter(|_| unit.mask != Some(true) && has_unit(root, &unit.name));
    let Some(wanted) = wanted else { return Ok(None) };
    let found = commands.is_enabled(&unit.name).await?;
    Ok(match found.as_str() {
        found if wanted && !ENABLED.contains(&found) => {
            Some(format!("the unit {} is {found} and should be enabled", unit.name))
        }
        found @ ("enabled" | "enabled-runtime") if !wanted => {
            Some(format!("the unit {} is {found} and should not be", unit.name))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
