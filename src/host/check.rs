//! Compares the node with a configuration. Contents are never shown.

use super::commands::Commands;
use super::files::{drop_in_path, has_unit, is_renewed, managed_paths, unit_path};
use super::root::{Root, State};
use crate::pools::ignition::{File, Ignition, Unit};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What `systemctl is-enabled` says of units that start, or need not be enabled in order to.
const ENABLED: [&str; 7] = ["enabled", "enabled-runtime", "static", "alias", "indirect", "generated", "linked"];

/// The first deviation, in words; `None` if the node is as the configuration says.
pub(crate) async fn deviation(root: &Root, commands: &Commands, ignition: &Ignition) -> Option<String> {
    let config = ignition.config();
    let files = config.storage.files.iter().filter(|file| !is_renewed(&file.path));
    if let Some(found) = files.filter_map(|file| of_file(root, file)).next() {
        return Some(found);
    }
    for unit in &config.systemd.units {
        let enabled = match of_unit(root, unit) {
            None => of_enablement(root, commands, unit).await,
            found => found,
        };
        if enabled.is_some() {
            return enabled;
        }
    }
    None
}

/// Changes whenever a file that [`deviation`] reads does.
pub(crate) fn fingerprint(root: &Root, ignition: &Ignition) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in managed_paths(ignition) {
        root.stamp(&path).hash(&mut hasher);
    }
    hasher.finish()
}

fn of_file(root: &Root, file: &File) -> Option<String> {
    let path = &file.path;
    let mut wanted = match file.contents.decode() {
        Ok(wanted) => wanted,
        Err(error) => return Some(format!("the configuration's contents of {path} {error}")),
    };
    for resource in &file.append {
        match resource.decode() {
            Ok(more) => wanted.extend(more),
            Err(error) => return Some(format!("what the configuration appends to {path} {error}")),
        }
    }
    of_content(root, path, &wanted, file.permissions())
}

fn of_content(root: &Root, path: &str, wanted: &[u8], wanted_mode: u32) -> Option<String> {
    match root.state(path) {
        Err(error) => Some(error.to_string()),
        Ok(State::Absent) => Some(format!("{path} is missing")),
        Ok(State::Link { .. }) => Some(format!("{path} is a symbolic link and should be a file")),
        Ok(State::File { mode, .. }) if mode != wanted_mode => {
            Some(format!("{path} has the mode {mode:04o} and should have {wanted_mode:04o}"))
        }
        Ok(State::File { content, .. }) if content != wanted => {
            Some(format!("the content of {path} differs from the configuration"))
        }
        Ok(State::File { .. }) => None,
    }
}

fn of_unit(root: &Root, unit: &Unit) -> Option<String> {
    let path = unit_path(&unit.name);
    let contents = unit.contents.as_deref().filter(|contents| !contents.is_empty());
    let own = if unit.mask == Some(true) {
        match root.state(&path) {
            Err(error) => Some(error.to_string()),
            Ok(State::Link { to }) if to == b"/dev/null" => None,
            Ok(_) => Some(format!("the unit {} is not masked and should be", unit.name)),
        }
    } else if let Ok(State::Link { to }) = root.state(&path)
        && to == b"/dev/null"
    {
        Some(format!("the unit {} is masked and should not be", unit.name))
    } else {
        contents.and_then(|contents| of_content(root, &path, contents.as_bytes(), 0o644))
    };
    let drop_ins = || {
        unit.dropins.iter().find_map(|drop_in| {
            let path = drop_in_path(&unit.name, &drop_in.name);
            let contents = drop_in.contents.as_deref().unwrap_or_default();
            // An empty one need not be there.
            match contents.is_empty() && matches!(root.state(&path), Ok(State::Absent)) {
                true => None,
                false => of_content(root, &path, contents.as_bytes(), 0o644),
            }
        })
    };
    own.or_else(drop_ins)
}

/// A unit that the node does not have cannot be enabled, and one that is masked need not be looked at.
async fn of_enablement(root: &Root, commands: &Commands, unit: &Unit) -> Option<String> {
    let wanted = unit.enabled.filter(|_| unit.mask != Some(true) && has_unit(root, &unit.name))?;
    match commands.is_enabled(&unit.name).await {
        Err(error) => Some(error.to_string()),
        Ok(found) if wanted && !ENABLED.contains(&found.as_str()) => {
            Some(format!("the unit {} is {found} and should be enabled", unit.name))
        }
        Ok(found) if !wanted && matches!(found.as_str(), "enabled" | "enabled-runtime") => {
            Some(format!("the unit {} is {found} and should not be", unit.name))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests;
