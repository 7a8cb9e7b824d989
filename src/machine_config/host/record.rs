//! What the node's disk says: the configuration that the node has, the update that is under way, the last failure.

use super::root::{HostError, Root, State};
use crate::machine_config::agent::{Failure, Journal, Phase};
use crate::machine_config::api::machine_config::{GROUP, MachineConfig, MachineConfigSpec, annotation};
use crate::machine_config::changes::{Change, Changes, ListChange};
use crate::machine_config::disruption::Action;
use crate::machine_config::node::Target;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the configuration of a node that no MachineConfig was ever applied to.
pub(crate) const UNCONFIGURED: &str = "unconfigured";
/// An administrator makes this file so that the node is written anew.
pub(crate) const FORCE: &str = "/run/machine-config-daemon-force";
/// What was there before the update that is under way.
pub(crate) const SAVED: &str = "/etc/machine-config-daemon/saved";
const CONFIG: &str = "/etc/machine-config-daemon/currentconfig";
const IMAGE: &str = "/etc/machine-config-daemon/currentimage";
const NEXT: &str = "/etc/machine-config-daemon/nextconfig";
const JOURNAL: &str = "/etc/machine-config-daemon/journal.json";
/// Where /etc belongs to the operating system that is booted, this is the same for all of them.
pub(crate) const FAILURE: &str = "/var/lib/machine-config-daemon/failure.json";
const STAGING: &str = "/var/lib/machine-config-daemon/staging.json";
/// Where earlier versions had it.
const FORMER_FAILURE: &str = "/etc/machine-config-daemon/failure.json";
/// Annotations that whoever installed the node wants it to begin with.
const SEED: &str = "/etc/machine-config-daemon/node-annotations.json";
const SEED_READ: &str = "/etc/machine-config-daemon/node-annotation.json.bak";

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot read {path} of the node: {error}; restore the file, or remove it to have the node configured anew")]
    Unreadable { path: &'static str, error: String },
    #[error(
        "the journal of the node names {name}, and {NEXT} does not contain it; remove {JOURNAL} and {SAVED} once the node is as {CONFIG} says"
    )]
    Next { name: String },
    #[error("cannot write {path} of the node: {error}")]
    Encode { path: &'static str, error: serde_json::Error },
}

/// The configuration that the node has.
#[derive(Clone, Debug)]
pub struct Record {
    pub target: Target,
    pub config: MachineConfig,
}

/// An update that has begun to change the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    #[serde(flatten)]
    pub journal: Journal,
    /// What follows once all is written, unless the node is restarted.
    pub actions: Vec<Action>,
    /// Every file is written, also those that should not have changed.
    #[serde(default)]
    pub forced: bool,
    #[serde(default)]
    pub repairs: Repairs,
}

/// What of the operating system is put right by force, although the configuration does not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Repairs {
    /// What is booted instead of the image.
    pub image: Option<String>,
    /// What the kernel was booted without.
    pub kernel_arguments: Vec<String>,
    /// Packages of the kernel are missing.
    pub kernel: bool,
    /// Packages of these are missing.
    pub extensions: Vec<String>,
}

impl Repairs {
    /// Makes them part of what changes.
    pub(crate) fn add_to(&self, changes: &mut Changes, new: &MachineConfigSpec) {
        if let (Some(found), None) = (&self.image, &changes.os_image) {
            changes.os_image = Some(Change { old: found.clone(), new: new.os_image_url.clone() });
        }
        if self.kernel && changes.kernel_type.is_none() {
            changes.kernel_type = Some(Change { old: "default".to_owned(), new: new.kernel_type.clone() });
        }
        let lists =
            [(&mut changes.kernel_arguments, &self.kernel_arguments), (&mut changes.extensions, &self.extensions)];
        for (change, missing) in lists.into_iter().filter(|(_, missing)| !missing.is_empty()) {
            let change = change.get_or_insert_with(|| ListChange { removed: Vec::new(), added: Vec::new() });
            let more = missing.iter().filter(|it| !change.added.contains(it)).cloned().collect::<Vec<_>>();
            change.added.extend(more);
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub record: Option<Record>,
    pub update: Option<Update>,
    /// What the update leads to.
    pub next: Option<MachineConfig>,
    pub failure: Option<Failure>,
    /// What something may be staged for.
    pub staging: Option<Target>,
}

pub(crate) fn name(config: &MachineConfig) -> &str {
    config.metadata.name.as_deref().unwrap_or_default()
}

fn content(root: &Root, path: &'static str) -> Result<Option<Arc<[u8]>>, RecordError> {
    match root.state(path)? {
        State::File { content, .. } => Ok(Some(content)),
        State::Absent => Ok(None),
        State::Link { .. } => Err(RecordError::Unreadable { path, error: "it is a symbolic link".to_owned() }),
    }
}

fn json<T: DeserializeOwned>(root: &Root, path: &'static str) -> Result<Option<T>, RecordError> {
    let Some(content) = content(root, path)? else { return Ok(None) };
    let read = serde_json::from_slice(&content);
    read.map(Some).map_err(|error| RecordError::Unreadable { path, error: error.to_string() })
}

/// Contents may be secret, so that only the superuser reads them.
fn file(root: &Root, content: Vec<u8>) -> Result<State, RecordError> {
    Ok(State::File { content: content.into(), mode: 0o600, owner: root.owner()? })
}

fn put_json(root: &Root, path: &'static str, value: &impl Serialize) -> Result<(), RecordError> {
    let content = serde_json::to_vec(value).map_err(|error| RecordError::Encode { path, error })?;
    Ok(root.put(path, &file(root, content)?)?)
}

impl Disk {
    pub fn read(root: &Root) -> Result<Disk, RecordError> {
        let image = content(root, IMAGE)?.map(|content| String::from_utf8_lossy(&content).trim().to_owned());
        let image = image.filter(|image| !image.is_empty());
        let record = match json::<MachineConfig>(root, CONFIG)? {
            Some(config) if name(&config).is_empty() => {
                return Err(RecordError::Unreadable { path: CONFIG, error: "it has no metadata.name".to_owned() });
            }
            Some(config) => Some(Record { target: Target { config: name(&config).to_owned(), image }, config }),
            None => None,
        };
        let failure = match json::<Failure>(root, FAILURE)? {
            None => json(root, FORMER_FAILURE)?,
            found => found,
        };
        let mut update = json::<Update>(root, JOURNAL)?;
        if let Some(Update { journal, .. }) = &mut update
            && failure.as_ref().is_some_and(|failure| failure.is_of(journal))
        {
            // The journal is that of the operating system of before, which had no part in it.
            journal.phase = journal.phase.max(Phase::RollingBack);
        }
        // Without a journal it is left over.
        let next = if update.is_some() { json::<MachineConfig>(root, NEXT)? } else { None };
        if let Some(Update { journal, .. }) = &update
            && next.as_ref().map(name) != Some(journal.to.config.as_str())
        {
            return Err(RecordError::Next { name: journal.to.config.clone() });
        }
        Ok(Disk { record, update, next, failure, staging: json(root, STAGING)? })
    }
}

/// Begins an update. What it leads to comes first, so that no journal is without it.
pub(crate) fn begin(root: &Root, update: &Update, next: &MachineConfig) -> Result<(), RecordError> {
    put_json(root, NEXT, next)?;
    put_update(root, update)?;
    // From now on the journal says it.
    put_staging(root, None)
}

/// Before anything is staged, or once it is not any more.
pub(crate) fn put_staging(root: &Root, target: Option<&Target>) -> Result<(), RecordError> {
    match target {
        Some(target) => put_json(root, STAGING, target),
        None => Ok(root.put(STAGING, &State::Absent)?),
    }
}

pub(crate) fn put_update(root: &Root, update: &Update) -> Result<(), RecordError> {
    put_json(root, JOURNAL, update)
}

/// Ends an update, however it went.
pub(crate) fn end(root: &Root) -> Result<(), RecordError> {
    root.put(JOURNAL, &State::Absent)?;
    Ok(root.put(NEXT, &State::Absent)?)
}

pub(crate) fn put_record(root: &Root, config: &MachineConfig, image: Option<&str>) -> Result<(), RecordError> {
    put_json(root, CONFIG, config)?;
    let image = match image {
        Some(image) => file(root, image.as_bytes().to_vec())?,
        None => State::Absent,
    };
    Ok(root.put(IMAGE, &image)?)
}

pub(crate) fn put_failure(root: &Root, failure: Option<&Failure>) -> Result<(), RecordError> {
    match failure {
        Some(failure) => put_json(root, FAILURE, failure)?,
        None => root.put(FAILURE, &State::Absent)?,
    }
    Ok(root.put(FORMER_FAILURE, &State::Absent)?)
}

pub(crate) fn is_forced(root: &Root) -> bool {
    root.stamp(FORCE).is_some()
}

/// The configuration that the node was installed with, by whoever did; `None` if nobody says so.
pub fn seed(root: &Root) -> Result<Option<Target>, RecordError> {
    let Some(annotations) = json::<BTreeMap<String, String>>(root, SEED)? else { return Ok(None) };
    let annotation = |key: &str| annotations.get(&format!("{GROUP}/{key}")).filter(|text| !text.is_empty()).cloned();
    let missing = || RecordError::Unreadable { path: SEED, error: format!("it has no {GROUP}/currentConfig") };
    let config = annotation(annotation::CURRENT_CONFIG).ok_or_else(missing)?;
    Ok(Some(Target { config, image: annotation(annotation::CURRENT_IMAGE) }))
}

/// It has been read, and would be wrong later.
pub(crate) fn put_seed_aside(root: &Root) -> Result<(), RecordError> {
    let seed = root.state(SEED)?;
    if seed != State::Absent {
        root.put(SEED_READ, &seed)?;
        root.put(SEED, &State::Absent)?;
    }
    Ok(())
}

/// A configuration that says nothing.
pub(crate) fn unconfigured() -> MachineConfig {
    MachineConfig::new(UNCONFIGURED, MachineConfigSpec::default())
}

#[cfg(test)]
mod tests;
