//! Whether a running node can be taken from one rendered configuration to the next. Disks, directories and the like are set
//! up when a machine is first booted, and never again.

use super::ignition::{Ignition, IgnitionError, Passwd};
use super::render::{in_merge_order, name};
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// With this file an administrator asks the agent of one node to write everything anew, so no configuration may bring it.
const FORCE_FILE: &str = "/run/machine-config-daemon-force";
/// The user whose keys and password can change.
const CORE: &str = "core";

/// A change of storage that an administrator has allowed although running nodes do not follow it; only new nodes do. The
/// names are those of `spec.irreconcilableValidationOverrides.storage` of a MachineConfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageOverride {
    Disks,
    FileSystems,
    Raid,
}

/// A change that cannot be made on a running node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Such as `storage.disks[/dev/sdb]`.
    pub field: String,
    pub problem: Problem,
    /// What would exempt it.
    pub exempted_by: Option<StorageOverride>,
}

/// What would happen to the field, and why that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    #[error("is added, and running nodes keep {0} they were installed with; remove it, or add new nodes to a new pool")]
    Added(&'static str),
    #[error("is removed, and running nodes keep {0} they were installed with; bring it back")]
    Removed(&'static str),
    #[error("is changed, and running nodes keep {0} they were installed with; change it back")]
    Changed(&'static str),
    #[error("changes from {old} to {new}, and it is set when a node is installed; set it back to {old}")]
    Fips { old: bool, new: bool },
    #[error("is added or changed, and running nodes can only lose links; remove it, or create it by a unit")]
    Link,
    #[error(
        "appends to a file, and nothing tells afterwards what of the file was there before; write the whole contents"
    )]
    Append,
    #[error("asks a node to write everything anew, which is for an administrator on the node; remove it")]
    ForceFile,
    #[error("is another user than core, the only one that can be changed on running nodes; remove the entry")]
    OtherUser,
    #[error("has neither sshAuthorizedKeys nor passwordHash, so that nobody could log in; set one of them")]
    NoLogin,
    #[error("sets {0}, and only sshAuthorizedKeys and passwordHash can be changed on running nodes; remove it")]
    UserField(String),
}

/// A refusal, and the input that is guilty of it, unless the change comes from an input that is no longer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guilt {
    pub refusal: Refusal,
    pub input: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconcileError {
    #[error("cannot read the Ignition configuration of {of}: {source}")]
    Read { of: String, source: IgnitionError },
    #[error("running nodes cannot be taken from {old} to {new}: {}", sentences(.guilt))]
    Refused { old: String, new: String, guilt: Vec<Guilt> },
}

impl ReconcileError {
    /// Whether administrators could allow some of it.
    pub(crate) fn may_be_exempted(&self) -> bool {
        match self {
            ReconcileError::Read { .. } => false,
            ReconcileError::Refused { guilt, .. } => guilt.iter().any(|guilt| guilt.refusal.exempted_by.is_some()),
        }
    }

    /// What is left of it with these overrides.
    pub(crate) fn without(self, overrides: &BTreeSet<StorageOverride>) -> Option<ReconcileError> {
        match self {
            ReconcileError::Read { .. } => Some(self),
            ReconcileError::Refused { old, new, mut guilt } => {
                guilt.retain(|guilt| !guilt.refusal.is_exempted(overrides));
                (!guilt.is_empty()).then_some(ReconcileError::Refused { old, new, guilt })
            }
        }
    }
}

impl Refusal {
    fn is_exempted(&self, overrides: &BTreeSet<StorageOverride>) -> bool {
        self.exempted_by.is_some_and(|exempted_by| overrides.contains(&exempted_by))
    }
}

impl fmt::Display for StorageOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.problem)?;
        match self.exempted_by {
            Some(override_) => write!(
                f,
                ", or allow it with {override_} in irreconcilableValidationOverrides of the MachineConfiguration"
            ),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Guilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.input {
            Some(input) => write!(f, "MachineConfig {input}: {}", self.refusal),
            None => write!(f, "{} (no MachineConfig of the pool sets it any more)", self.refusal),
        }
    }
}

/// As many as an administrator can read at once.
fn sentences(guilt: &[Guilt]) -> String {
    const SHOWN: usize = 5;
    let mut text = Vec::from_iter(guilt.iter().take(SHOWN).map(Guilt::to_string)).join("; ");
    if guilt.len() > SHOWN {
        text += &format!("; and {} more", guilt.len() - SHOWN);
    }
    text
}

/// Fails with every change that running nodes of a pool cannot follow and that no override exempts. `old` and `new` are
/// rendered configurations by name, and the inputs those of which the new one was made.
pub fn check(
    old: (&str, &MachineConfigSpec),
    new: (&str, &MachineConfigSpec),
    inputs: &[MachineConfig],
    overrides: &BTreeSet<StorageOverride>,
) -> Result<(), ReconcileError> {
    let (before, after) = (read(old.0, old.1)?, read(new.0, new.1)?);
    let mut refusals = refusals((&before, old.1.fips), (&after, new.1.fips));
    refusals.retain(|refusal| !refusal.is_exempted(overrides));
    if refusals.is_empty() {
        return Ok(());
    }
    let mut guilt: Vec<Guilt> = refusals.into_iter().map(|refusal| Guilt { refusal, input: None }).collect();
    for input in in_merge_order(inputs) {
        let found = refused_by((&before, old.1.fips), input)?;
        for guilt in guilt.iter_mut().filter(|guilt| guilt.input.is_none() && found.contains(&guilt.refusal.field)) {
            guilt.input = Some(name(input).to_owned());
        }
    }
    Err(ReconcileError::Refused { old: old.0.to_owned(), new: new.0.to_owned(), guilt })
}

fn read(of: &str, spec: &MachineConfigSpec) -> Result<Ignition, ReconcileError> {
    match Ignition::read(&spec.config) {
        Ok(read) => Ok(read.ignition),
        Err(source) => Err(ReconcileError::Read { of: of.to_owned(), source }),
    }
}

/// The fields that would be refused if this input alone were merged into the old configuration: it is what brings them. Of
/// an input that repeats what nodes have nothing is refused.
fn refused_by(old: (&Ignition, bool), input: &MachineConfig) -> Result<BTreeSet<String>, ReconcileError> {
    let of = || format!("MachineConfig {}", name(input));
    let own = read(&of(), &input.spec)?;
    let fips = old.1 || input.spec.fips;
    let mut found = match old.0.merge(&own) {
        Ok(merged) => refusals(old, (&merged, fips)),
        // What contradicts the old configuration takes the place of something that the new one no longer has. By itself it
        // lacks all of the rest, which says nothing.
        Err(_) => {
            let mut found = refusals(old, (&own, fips));
            found.retain(|refusal| !matches!(refusal.problem, Problem::Removed(_)));
            found
        }
    };
    // Whether a file may be there at all does not depend on the old configuration.
    found.retain(|refusal| !matches!(refusal.problem, Problem::Append | Problem::ForceFile));
    found.extend(files(&own));
    Ok(found.into_iter().map(|refusal| refusal.field).collect())
}

/// What is set up once, when a machine is first booted: where it is in a configuration, by which field its entries differ,
/// what it is in words, and what exempts it.
const SET_UP_ONCE: [(&str, &str, &str, Option<StorageOverride>); 10] = [
    ("/storage/disks", "device", "the disks", Some(StorageOverride::Disks)),
    ("/storage/filesystems", "device", "the file systems", Some(StorageOverride::FileSystems)),
    ("/storage/raid", "name", "the RAID arrays", Some(StorageOverride::Raid)),
    ("/storage/luks", "name", "the encrypted volumes", None),
    ("/storage/directories", "path", "the directories", None),
    ("/passwd/groups", "name", "the groups", None),
    ("/kernelArguments", "", "the kernel arguments of Ignition (kernelArguments of a MachineConfig can change)", None),
    ("/ignition/proxy", "", "the proxy of Ignition", None),
    ("/ignition/security", "", "the certificate authorities of Ignition", None),
    ("/ignition/timeouts", "", "the timeouts of Ignition", None),
];

/// All of them, in a fixed order.
fn refusals(old: (&Ignition, bool), new: (&Ignition, bool)) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if old.1 != new.1 {
        refusals.push(refusal("fips".to_owned(), Problem::Fips { old: old.1, new: new.1 }));
    }
    for (pointer, key, words, exempted_by) in SET_UP_ONCE {
        let (before, after) = (section(old.0, pointer, key), section(new.0, pointer, key));
        for field in before.keys().chain(after.keys().filter(|field| !before.contains_key(*field))) {
            let problem = match (before.get(field), after.get(field)) {
                (Some(before), Some(after)) if before == after => continue,
                (Some(_), Some(_)) => Problem::Changed(words),
                (None, _) => Problem::Added(words),
                (_, None) => Problem::Removed(words),
            };
            refusals.push(Refusal { field: field.clone(), problem, exempted_by });
        }
    }
    let links = &old.0.config().storage.links;
    let new_links = new.0.config().storage.links.iter().filter(|link| !links.contains(link));
    refusals.extend(new_links.map(|link| refusal(format!("storage.links[{}]", link.path), Problem::Link)));
    refusals.extend(files(new.0));
    refusals.extend(users(&old.0.config().passwd, &new.0.config().passwd));
    refusals
}

fn refusal(field: String, problem: Problem) -> Refusal {
    Refusal { field, problem, exempted_by: None }
}

/// The entries of a section by their field, or the section itself where it has none.
fn section<'a>(ignition: &'a Ignition, pointer: &str, key: &str) -> BTreeMap<String, &'a Value> {
    let place = pointer.trim_start_matches('/').replace('/', ".");
    match ignition.value().pointer(pointer) {
        None => BTreeMap::new(),
        Some(Value::Array(entries)) => {
            let key = |entry: &Value| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            entries.iter().map(|entry| (format!("{place}[{}]", key(entry)), entry)).collect()
        }
        Some(value) => BTreeMap::from([(place, value)]),
    }
}

/// Files that no node can be given, whatever it has.
fn files(ignition: &Ignition) -> Vec<Refusal> {
    let problem = |file: &super::ignition::File| {
        let problem = match file.path.as_str() {
            FORCE_FILE => Problem::ForceFile,
            _ if !file.append.is_empty() => Problem::Append,
            _ => return None,
        };
        Some(refusal(format!("storage.files[{}]", file.path), problem))
    };
    ignition.config().storage.files.iter().filter_map(problem).collect()
}

/// Users may stay as they are, or all be removed; otherwise only keys and password of one user can be set.
fn users(old: &Passwd, new: &Passwd) -> Vec<Refusal> {
    if old.users == new.users {
        return Vec::new();
    }
    let problem = |user: &super::ignition::User| {
        if user.name != CORE {
            Some(Problem::OtherUser)
        } else if let Some(field) = user.other.keys().next() {
            Some(Problem::UserField(field.clone()))
        } else if user.ssh_authorized_keys.is_empty() && user.password_hash.is_none() {
            Some(Problem::NoLogin)
        } else {
            None
        }
    };
    let refused = new.users.iter().filter_map(|user| Some((user, problem(user)?)));
    refused.map(|(user, problem)| refusal(format!("passwd.users[{}]", user.name), problem)).collect()
}

#[cfg(test)]
mod tests;
