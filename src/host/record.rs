//! What the node's disk says: the configuration that the node has, the update that is under way, the last failure.

use super::root::{HostError, Root, State};
use crate::api::machine_config::{GROUP, MachineConfig, MachineConfigSpec, annotation};
use crate::pools::agent::{Failure, Journal};
use crate::pools::disruption::Action;
use crate::pools::node::Target;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
const FAILURE: &str = "/etc/machine-config-daemon/failure.json";
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
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub record: Option<Record>,
    pub update: Option<Update>,
    /// What the update leads to.
    pub next: Option<MachineConfig>,
    pub failure: Option<Failure>,
}

pub(crate) fn name(config: &MachineConfig) -> &str {
    config.metadata.name.as_deref().unwrap_or_default()
}

fn content(root: &Root, path: &'static str) -> Result<Option<Vec<u8>>, RecordError> {
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
    Ok(State::File { content, mode: 0o600, owner: root.owner()? })
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
        let update = json::<Update>(root, JOURNAL)?;
        // Without a journal it is left over.
        let next = if update.is_some() { json::<MachineConfig>(root, NEXT)? } else { None };
        if let Some(Update { journal, .. }) = &update
            && next.as_ref().map(name) != Some(journal.to.config.as_str())
        {
            return Err(RecordError::Next { name: journal.to.config.clone() });
        }
        Ok(Disk { record, update, next, failure: json(root, FAILURE)? })
    }
}

/// Begins an update. What it leads to comes first, so that no journal is without it.
pub(crate) fn begin(root: &Root, update: &Update, next: &MachineConfig) -> Result<(), RecordError> {
    put_json(root, NEXT, next)?;
    put_update(root, update)
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
        Some(failure) => put_json(root, FAILURE, failure),
        None => Ok(root.put(FAILURE, &State::Absent)?),
    }
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
