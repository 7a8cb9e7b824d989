//! What a change of configuration means for the files of a node, and for which units are enabled. What was at a path before
//! it was first written is kept, and comes back when no configuration has the path any more.

use super::root::{HostError, Root, State};
use crate::machine_config::changes::{Changes, ChangesError, UnitChange};
use crate::machine_config::ignition::{Ignition, Owner, Unit};
use std::collections::BTreeMap;

/// Units and their drop-ins that a configuration brings.
const UNITS: &str = "/etc/systemd/system";
/// Where units of the operating system are.
const UNIT_FOLDERS: [&str; 4] = [UNITS, "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// What was at a path before it was first written.
const ORIGINAL: &str = "/etc/machine-config-daemon/orig";
/// An empty file here says that nothing was.
const NO_ORIGINAL: &str = "/etc/machine-config-daemon/noorig";
const SHADOW: &str = "/etc/shadow";
const CORE: &str = "core";
const SSH_FOLDERS: [&str; 2] = ["/home/core/.ssh", "/home/core/.ssh/authorized_keys.d"];
const SSH_KEYS: &str = "/home/core/.ssh/authorized_keys.d/ignition";
/// Certificates and credentials that are renewed while a configuration stays the same: it brings only the first ones.
const RENEWED: [&str; 3] = [
    "/etc/kubernetes/kubelet-ca.crt",
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
    "/etc/mco/internal-registry-pull-secret.json",
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Changes(#[from] ChangesError),
    #[error("{path}: the {what} {name:?} does not exist on the node; give a number, or add it by the operating system")]
    Owner { path: String, what: &'static str, name: String },
    #[error("{path}: the owner {id} is no number of a user or group")]
    OwnerNumber { path: String, id: i64 },
    #[error("{SHADOW} of the node has no user {CORE}, whose password is to be set")]
    NoUser,
    #[error(
        "the password hash of {CORE} contains a colon or a line break, which {SHADOW} cannot hold; hash the password again"
    )]
    Hash,
}

/// A folder that is not made like others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    pub path: &'static str,
    pub mode: u32,
    pub owner: (u32, u32),
}

/// All that an update writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    /// By path; what is so already is not written.
    pub states: BTreeMap<String, State>,
    /// The outer ones first.
    pub folders: Vec<Folder>,
}

/// What becomes of the enablement of units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Enablement {
    /// Before their files are gone.
    pub disable_first: Vec<String>,
    pub enable: Vec<String>,
    pub disable: Vec<String>,
    /// The operating system decides from now on.
    pub preset: Vec<String>,
}

/// Users and groups of the node by name.
struct Names<'a> {
    root: &'a Root,
    superuser: (u32, u32),
}

impl Names<'_> {
    /// The field of a line that begins with the name.
    fn field(&self, files: [&str; 2], name: &str, number: usize) -> Result<Option<u32>, HostError> {
        for file in files {
            if let State::File { content, .. } = self.root.state(file)? {
                let content = String::from_utf8_lossy(&content);
                let fields = content.lines().map(|line| Vec::from_iter(line.split(':')));
                let mut found = fields.filter(|fields| fields.first() == Some(&name));
                if let Some(id) = found.find_map(|fields| fields.get(number)?.parse().ok()) {
                    return Ok(Some(id));
                }
            }
        }
        Ok(None)
    }

    fn id(&self, path: &str, owner: &Owner, what: &'static str) -> Result<u32, FilesError> {
        let (superuser, files) = match what {
            "user" => (self.superuser.0, ["/etc/passwd", "/usr/lib/passwd"]),
            _ => (self.superuser.1, ["/etc/group", "/usr/lib/group"]),
        };
        match (owner.id, owner.name.as_deref()) {
            (Some(0), _) | (None, None | Some("" | "root")) => Ok(superuser),
            (Some(id), _) => u32::try_from(id).map_err(|_| FilesError::OwnerNumber { path: path.to_owned(), id }),
            (None, Some(name)) => self.field(files, name, 2)?.ok_or_else(|| FilesError::Owner {
                path: path.to_owned(),
                what,
                name: name.to_owned(),
            }),
        }
    }

    /// Number of the user, and of the group that it belongs to.
    fn user(&self, path: &str, name: &str) -> Result<(u32, u32), FilesError> {
        let files = ["/etc/passwd", "/usr/lib/passwd"];
        let ids = self.field(files, name, 2)?.zip(self.field(files, name, 3)?);
        ids.ok_or_else(|| FilesError::Owner { path: path.to_owned(), what: "user", name: name.to_owned() })
    }
}

/// Whether somebody else keeps the file up to date.
pub(super) fn is_renewed(path: &str) -> bool {
    RENEWED.contains(&path)
}

pub(super) fn unit_path(unit: &str) -> String {
    format!("{UNITS}/{unit}")
}

pub(super) fn drop_in_path(unit: &str, name: &str) -> String {
    format!("{UNITS}/{unit}.d/{name}")
}

/// Whether the node has a unit, or the template that it is made of.
pub(super) fn has_unit(root: &Root, unit: &str) -> bool {
    let template = unit.split_once('@').and_then(|(name, rest)| Some(format!("{name}@.{}", rest.rsplit_once('.')?.1)));
    let names = [Some(unit.to_owned()), template];
    let mut paths = names.iter().flatten().flat_map(|name| UNIT_FOLDERS.map(|folder| format!("{folder}/{name}")));
    paths.any(|path| root.exists(&path))
}

/// The paths that a check reads.
pub(crate) fn managed_paths(ignition: &Ignition) -> Vec<String> {
    let config = ignition.config();
    let files = config.storage.files.iter().map(|file| file.path.clone()).filter(|path| !is_renewed(path));
    let units = config.systemd.units.iter().flat_map(|unit| {
        let drop_ins = unit.dropins.iter().map(|drop_in| drop_in_path(&unit.name, &drop_in.name));
        drop_ins.chain([unit_path(&unit.name)])
    });
    files.chain(units).chain([format!("{UNITS}/multi-user.target.wants")]).collect()
}

/// What the changes write, now that the node is as it is.
pub(crate) fn writes(root: &Root, changes: &Changes, new: &Ignition) -> Result<Writes, FilesError> {
    let names = Names { root, superuser: root.owner()? };
    let mut writing = Writing { root, superuser: names.superuser, states: BTreeMap::new() };
    for change in &changes.files {
        let path = &change.path;
        match &change.new {
            _ if is_renewed(path) && root.state(path)? != State::Absent => {}
            None => writing.give_back(path)?,
            Some(new) => {
                let owner = (names.id(path, &new.user, "user")?, names.id(path, &new.group, "group")?);
                let state = State::File { content: new.contents.clone(), mode: new.mode, owner };
                writing.write(path, state, change.old.is_none())?;
            }
        }
    }
    for path in &changes.links_removed {
        writing.give_back(path)?;
    }
    for change in &changes.units {
        unit_writes(&mut writing, change)?;
    }
    let mut folders = Vec::new();
    if let Some(keys) = changes.ssh_keys.as_ref().map(|keys| &keys.new) {
        let owner = if keys.is_empty() { names.superuser } else { names.user(SSH_KEYS, CORE)? };
        let content = keys.iter().flat_map(|key| [key.as_str(), "\n"]).collect::<String>();
        let state = State::File { content: content.into_bytes().into(), mode: 0o600, owner };
        let state = if keys.is_empty() { State::Absent } else { state };
        writing.states.insert(SSH_KEYS.to_owned(), state);
        folders.extend((!keys.is_empty()).then(|| SSH_FOLDERS.map(|path| Folder { path, mode: 0o700, owner })));
    }
    if changes.password {
        let core = new.config().passwd.users.iter().find(|user| user.name == CORE);
        // No password can have this hash.
        let hash = core.and_then(|user| user.password_hash.as_deref()).unwrap_or("*");
        let State::File { content, mode, owner } = root.state(SHADOW)? else { return Err(FilesError::NoUser) };
        let content = with_password(&content, hash)?.into();
        writing.states.insert(SHADOW.to_owned(), State::File { content, mode, owner });
    }
    Ok(Writes { states: writing.states, folders: folders.into_iter().flatten().collect() })
}

struct Writing<'a> {
    root: &'a Root,
    superuser: (u32, u32),
    states: BTreeMap<String, State>,
}

impl Writing<'_> {
    fn small_file(&self, content: &str, mode: u32) -> State {
        State::File { content: content.as_bytes().into(), mode, owner: self.superuser }
    }

    /// `first`: no configuration has had the path before.
    fn write(&mut self, path: &str, state: State, first: bool) -> Result<(), HostError> {
        let (kept, none) = (kept_at(path), none_kept_at(path));
        if self.root.stamp(&kept).is_some() || self.root.stamp(&none).is_some() {
            // The same change may have given it back as something else.
            self.states.remove(&kept);
            self.states.remove(&none);
        } else if first {
            match self.root.state(path)? {
                State::Absent => self.states.insert(none, self.small_file("", 0o600)),
                found => self.states.insert(kept, found),
            };
        }
        self.states.insert(path.to_owned(), state);
        Ok(())
    }

    /// No configuration has the path any more. What one and the same change writes there stays.
    fn give_back(&mut self, path: &str) -> Result<(), HostError> {
        if is_renewed(path) || self.states.contains_key(path) {
            return Ok(());
        }
        let kept = kept_at(path);
        self.states.insert(path.to_owned(), self.root.state(&kept)?);
        self.states.insert(kept, State::Absent);
        self.states.insert(none_kept_at(path), State::Absent);
        Ok(())
    }
}

fn kept_at(path: &str) -> String {
    format!("{ORIGINAL}{path}.mcdorig")
}

fn none_kept_at(path: &str) -> String {
    format!("{NO_ORIGINAL}{path}.mcdnoorig")
}

/// What a configuration has at the unit's own path.
fn at_unit_path(writing: &Writing<'_>, unit: &Unit) -> Option<State> {
    if unit.mask == Some(true) {
        return Some(State::Link { to: b"/dev/null".to_vec() });
    }
    let contents = unit.contents.as_deref().filter(|contents| !contents.is_empty())?;
    Some(writing.small_file(contents, 0o644))
}

fn unit_writes(writing: &mut Writing<'_>, change: &UnitChange) -> Result<(), HostError> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    let path = unit_path(&change.name);
    let before = old.and_then(|unit| at_unit_path(writing, unit));
    match new.and_then(|unit| at_unit_path(writing, unit)) {
        Some(state) => writing.write(&path, state, before.is_none())?,
        None if before.is_some() => writing.give_back(&path)?,
        None => {}
    }
    let contents = |unit: Option<&Unit>, name: &str| -> Option<String> {
        let drop_in = unit?.dropins.iter().find(|drop_in| drop_in.name == name)?;
        drop_in.contents.clone().filter(|contents| !contents.is_empty())
    };
    let drop_ins = |unit: Option<&Unit>| -> Vec<String> {
        unit.iter().flat_map(|unit| &unit.dropins).map(|drop_in| drop_in.name.clone()).collect()
    };
    for name in drop_ins(new) {
        let path = drop_in_path(&change.name, &name);
        match contents(new, &name) {
            Some(text) => {
                let state = writing.small_file(&text, 0o644);
                writing.write(&path, state, contents(old, &name).is_none())?;
            }
            None => writing.give_back(&path)?,
        }
    }
    for name in drop_ins(old).iter().filter(|name| !drop_ins(new).contains(name)) {
        writing.give_back(&drop_in_path(&change.name, name))?;
    }
    Ok(())
}

/// What becomes of the enablement of units that change. A unit that the configuration does not bring and the node does not
/// have is left out.
pub(crate) fn enablement(root: &Root, units: &[UnitChange]) -> Enablement {
    let mut result = Enablement::default();
    for change in units {
        let name = || change.name.clone();
        let was = change.old.as_ref().and_then(|unit| unit.enabled);
        let new = change.new.as_ref().filter(|unit| unit.mask != Some(true));
        let brings = new.is_some_and(|unit| unit.contents.as_deref().is_some_and(|contents| !contents.is_empty()));
        match new {
            None => {
                result.disable_first.extend((was == Some(true)).then(name));
                // One of the operating system, of which no configuration says anything any more.
                let is_left = change.new.is_none() && was.is_some() && has_unit(root, &change.name);
                result.preset.extend(is_left.then(name));
            }
            Some(_) if !brings && !has_unit(root, &change.name) => {}
            Some(unit) => match unit.enabled {
                Some(true) => result.enable.push(name()),
                Some(false) => result.disable.push(name()),
                None if was.is_some() => result.preset.push(name()),
                None => {}
            },
        }
    }
    result
}

/// The units as they change on the way back.
pub(crate) fn reversed(units: &[UnitChange]) -> Vec<UnitChange> {
    let reverse =
        |unit: &UnitChange| UnitChange { name: unit.name.clone(), old: unit.new.clone(), new: unit.old.clone() };
    units.iter().map(reverse).collect()
}

/// What is at a path once the update is taken back. Of a file that others write as well only what the update has written
/// is: passwords that were changed since stay.
pub(crate) fn restored(path: &str, now: State, saved: State) -> State {
    match (now, saved) {
        (State::File { content, mode, owner }, State::File { content: before, .. }) if path == SHADOW => {
            let hash = hash_of(&before);
            let merged = hash.and_then(|hash| with_password(&content, &hash).ok());
            State::File { content: merged.map_or(content, Into::into), mode, owner }
        }
        (_, saved) => saved,
    }
}

/// The user's in the shadow file.
fn hash_of(shadow: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(shadow);
    let mut users = text.lines().filter_map(|line| line.split_once(':'));
    let (_, rest) = users.find(|(name, _)| *name == CORE)?;
    Some(rest.split(':').next().unwrap_or_default().to_owned())
}

/// The shadow file with another hash of the user's password.
fn with_password(shadow: &[u8], hash: &str) -> Result<Vec<u8>, FilesError> {
    if hash.contains([':', '\n', '\r', '\0']) {
        return Err(FilesError::Hash);
    }
    let mut found = false;
    let mut content = Vec::with_capacity(shadow.len() + hash.len());
    for line in shadow.split_inclusive(|byte| *byte == b'\n') {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        match (fields.next(), fields.next(), fields.next()) {
            (Some(name), Some(_), Some(rest)) if name == CORE.as_bytes() => {
                found = true;
                let parts = [name, b":", hash.as_bytes(), b":", rest];
                content.extend(parts.concat());
            }
            _ => content.extend(line),
        }
    }
    if found { Ok(content) } else { Err(FilesError::NoUser) }
}

#[cfg(test)]
mod tests;
