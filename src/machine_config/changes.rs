//! What differs between two rendered configurations, as a node would see it: files by their decoded contents, kernel
//! arguments one by one. Two ways of writing the same are no change.

use super::ignition::{ContentsError, File, Ignition, IgnitionError, Owner, Unit};
use crate::machine_config::api::machine_config::MachineConfigSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The difference of two rendered configurations; empty if a node need not do anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// By path.
    pub files: Vec<FileChange>,
    /// Paths of links that the new configuration does not have. Others cannot change on a running node.
    pub links_removed: Vec<String>,
    /// By name.
    pub units: Vec<UnitChange>,
    pub ssh_keys: Option<Change<Vec<String>>>,
    /// Whether the hash of a password changes. It is not shown.
    pub password: bool,
    pub os_image: Option<Change<String>>,
    /// Packages come from it, so that without any it is no change.
    pub extensions_image: Option<Change<String>>,
    pub kernel_arguments: Option<ListChange>,
    pub kernel_type: Option<Change<String>>,
    pub extensions: Option<ListChange>,
    pub fips: Option<Change<bool>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<T> {
    pub old: T,
    pub new: T,
}

/// What is in only one of two lists, in the order of that list. Both are empty if only the order differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListChange {
    pub removed: Vec<String>,
    pub added: Vec<String>,
}

/// A file that is written if there is a new state, and removed if not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    pub old: Option<FileState>,
    pub new: Option<FileState>,
}

/// What a node's file is to be like.
#[derive(Clone, PartialEq, Eq)]
pub struct FileState {
    /// Shared, because all files of a configuration together may take up a good part of an agent's memory.
    pub contents: Arc<[u8]>,
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
}

/// A unit that is added, changed or removed, drop-ins included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitChange {
    pub name: String,
    pub old: Option<Unit>,
    pub new: Option<Unit>,
}

/// Why two configurations cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangesError {
    #[error("cannot read the {side} rendered configuration: {source}")]
    Read { side: &'static str, source: IgnitionError },
    #[error("cannot decode storage.files[{path}] of the {side} rendered configuration: it {source}")]
    Contents { side: &'static str, path: String, source: ContentsError },
}

impl std::fmt::Debug for FileState {
    /// Contents may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, mode {:o}, user {:?}, group {:?}", self.contents.len(), self.mode, self.user, self.group)
    }
}

impl UnitChange {
    /// Whether the unit is enabled, disabled or left to the presets now and was not so before.
    pub fn enablement_changes(&self) -> bool {
        let enabled = |unit: &Option<Unit>| unit.as_ref().and_then(|unit| unit.enabled);
        enabled(&self.old) != enabled(&self.new)
    }
}

impl Changes {
    /// Whatever reads files or units at its start may find others.
    pub(crate) fn touch_files(&self) -> bool {
        !(self.files.is_empty() && self.links_removed.is_empty() && self.units.is_empty())
    }

    /// Of all files, for whoever needs to know no more than which of them change.
    pub(crate) fn drop_contents(&mut self) {
        let states = self.files.iter_mut().flat_map(|file| [&mut file.old, &mut file.new]);
        states.flatten().for_each(|state| state.contents = Arc::default());
    }

    /// A node with the old configuration is as the new one says.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

/// Whether something large has to be downloaded on the way: an operating system, or packages for it.
pub(crate) fn downloads(old: &MachineConfigSpec, new: &MachineConfigSpec) -> bool {
    let packages = !new.extensions.is_empty() || !matches!(new.kernel_type.as_str(), "" | "default");
    let others = old.extensions != new.extensions
        || old.kernel_type != new.kernel_type
        || old.base_os_extensions_container_image != new.base_os_extensions_container_image;
    (!new.os_image_url.is_empty() && old.os_image_url != new.os_image_url) || (packages && others)
}

/// What a node with the old rendered configuration has to do to get to the new one.
pub fn changes(old: &MachineConfigSpec, new: &MachineConfigSpec) -> Result<Changes, ChangesError> {
    compared(old, new, Keep::Different)
}

/// The same with every file and unit of the new configuration among them, whether it differs from the old one or not, and
/// with its keys.
pub(crate) fn everything(old: &MachineConfigSpec, new: &MachineConfigSpec) -> Result<Changes, ChangesError> {
    compared(old, new, Keep::All)
}

/// The units of [`changes`], without decoding any file.
pub(crate) fn changed_units(old: &MachineConfigSpec, new: &MachineConfigSpec) -> Result<Vec<UnitChange>, ChangesError> {
    let (old, new) = (read("old", old)?, read("new", new)?);
    let units = Both::of(&old.config().systemd.units, &new.config().systemd.units, |unit| &unit.name);
    Ok(unit_changes(units, Keep::Different))
}

/// Which entries of the new configuration count as changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Different,
    All,
}

impl Keep {
    fn keeps<T: PartialEq>(self, old: &Option<T>, new: &Option<T>) -> bool {
        old != new || self == Keep::All && new.is_some()
    }
}

fn compared(old: &MachineConfigSpec, new: &MachineConfigSpec, keep: Keep) -> Result<Changes, ChangesError> {
    let (old_ignition, new_ignition) = (read("old", old)?, read("new", new)?);
    let (before, after) = (old_ignition.config(), new_ignition.config());
    let files = Both::of(&before.storage.files, &after.storage.files, |file| &file.path);
    let links = Both::of(&before.storage.links, &after.storage.links, |link| &link.path);
    let units = Both::of(&before.systemd.units, &after.systemd.units, |unit| &unit.name);
    let keys = |ignition: &Ignition| -> Vec<String> {
        ignition.config().passwd.users.iter().flat_map(|user| &user.ssh_authorized_keys).cloned().collect()
    };
    let hashes = |ignition: &Ignition| -> Vec<(String, Option<String>)> {
        let users = &ignition.config().passwd.users;
        users.iter().map(|user| (user.name.clone(), user.password_hash.clone())).filter(|(_, h)| h.is_some()).collect()
    };
    let uses_packages = !new.extensions.is_empty() || kernel(new) != DEFAULT_KERNEL;
    let (old_keys, new_keys) = (keys(&old_ignition), keys(&new_ignition));
    let keys_anyway = keep == Keep::All && !new_keys.is_empty();
    let extensions_image = change(&old.base_os_extensions_container_image, &new.base_os_extensions_container_image);
    Ok(Changes {
        files: file_changes(files, keep)?,
        links_removed: links.filter(|(_, _, new)| new.is_none()).map(|(path, ..)| path.to_owned()).collect(),
        units: unit_changes(units, keep),
        ssh_keys: (old_keys != new_keys || keys_anyway).then_some(Change { old: old_keys, new: new_keys }),
        password: hashes(&old_ignition) != hashes(&new_ignition),
        os_image: change(&old.os_image_url, &new.os_image_url),
        extensions_image: extensions_image.filter(|_| uses_packages),
        kernel_arguments: list_change(
            &kernel_arguments(&old.kernel_arguments),
            &kernel_arguments(&new.kernel_arguments),
        ),
        kernel_type: change(&kernel(old).to_owned(), &kernel(new).to_owned()),
        extensions: list_change(&sorted(&old.extensions), &sorted(&new.extensions)),
        fips: change(&old.fips, &new.fips),
    })
}

const DEFAULT_KERNEL: &str = "default";

/// Empty and `default` mean the same.
fn kernel(spec: &MachineConfigSpec) -> &str {
    if spec.kernel_type.is_empty() { DEFAULT_KERNEL } else { &spec.kernel_type }
}

/// Extensions are a set.
fn sorted(extensions: &[String]) -> Vec<String> {
    BTreeSet::from_iter(extensions.iter().cloned()).into_iter().collect()
}

fn read(side: &'static str, spec: &MachineConfigSpec) -> Result<Ignition, ChangesError> {
    match Ignition::read(&spec.config) {
        Ok(read) => Ok(read.ignition),
        Err(source) => Err(ChangesError::Read { side, source }),
    }
}

/// Entries of two lists that have the same key, in the order of keys.
struct Both<'a, T>(std::collections::btree_map::IntoIter<&'a str, (Option<&'a T>, Option<&'a T>)>);

impl<'a, T> Both<'a, T> {
    fn of(old: &'a [T], new: &'a [T], key: fn(&T) -> &String) -> Self {
        let mut both: BTreeMap<&str, (Option<&T>, Option<&T>)> = BTreeMap::new();
        for entry in old {
            both.entry(key(entry)).or_default().0 = Some(entry);
        }
        for entry in new {
            both.entry(key(entry)).or_default().1 = Some(entry);
        }
        Both(both.into_iter())
    }
}

impl<'a, T> Iterator for Both<'a, T> {
    type Item = (&'a str, Option<&'a T>, Option<&'a T>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, (old, new))| (key, old, new))
    }
}

fn file_changes(files: Both<'_, File>, keep: Keep) -> Result<Vec<FileChange>, ChangesError> {
    let mut changed = Vec::new();
    // Most files are written in the same way in both, so that they need not be decoded.
    for (path, old, new) in files.filter(|(_, old, new)| keep.keeps(old, new)) {
        let state = |side, file: Option<&File>| match file.map(FileState::of) {
            None => Ok(None),
            Some(Ok(state)) => Ok(Some(state)),
            Some(Err(source)) => Err(ChangesError::Contents { side, path: path.to_owned(), source }),
        };
        let is_same = old == new;
        let old = state("old", old)?;
        let new = if is_same { old.clone() } else { state("new", new)? };
        if keep.keeps(&old, &new) {
            changed.push(FileChange { path: path.to_owned(), old, new });
        }
    }
    Ok(changed)
}

impl FileState {
    /// What a file of a rendered configuration means on a node.
    pub fn of(file: &File) -> Result<Self, ContentsError> {
        let mut contents = file.contents.decode()?;
        for resource in &file.append {
            contents.extend(resource.decode()?);
        }
        let (user, group) = (or_root(&file.user), or_root(&file.group));
        Ok(FileState { contents: contents.into(), mode: file.permissions(), user, group })
    }
}

/// By number, where nothing or the name of root says so.
fn or_root(owner: &Owner) -> Owner {
    match (owner.id, owner.name.as_deref()) {
        (None, None | Some("" | "root")) => Owner { id: Some(0), name: None },
        (Some(id), _) => Owner { id: Some(id), name: None },
        _ => owner.clone(),
    }
}

fn unit_changes(units: Both<'_, Unit>, keep: Keep) -> Vec<UnitChange> {
    // Not masked is what a unit is without being told so, and the order of drop-ins comes from their names.
    let normal = |unit: &Unit| {
        let mut unit = unit.clone();
        unit.mask = unit.mask.filter(|mask| *mask);
        unit.dropins.sort_by(|a, b| a.name.cmp(&b.name));
        unit
    };
    let change = |(name, old, new): (&str, Option<&Unit>, Option<&Unit>)| UnitChange {
        name: name.to_owned(),
        old: old.map(normal),
        new: new.map(normal),
    };
    units.map(change).filter(|change| keep.keeps(&change.old, &change.new)).collect()
}

fn change<T: Clone + PartialEq>(old: &T, new: &T) -> Option<Change<T>> {
    (old != new).then(|| Change { old: old.clone(), new: new.clone() })
}

fn list_change(old: &[String], new: &[String]) -> Option<ListChange> {
    (old != new).then(|| ListChange { removed: without(old, new), added: without(new, old) })
}

/// What is in the first list and not in the second, counting how often.
fn without(list: &[String], other: &[String]) -> Vec<String> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for item in other {
        *left.entry(item).or_default() += 1;
    }
    let mut rest = Vec::new();
    for item in list {
        match left.get_mut(item.as_str()) {
            Some(count) if *count > 0 => *count -= 1,
            _ => rest.push(item.clone()),
        }
    }
    rest
}

/// One argument each: an entry may hold several, with spaces between them, and quotes keep spaces inside of one.
pub fn kernel_arguments(entries: &[String]) -> Vec<String> {
    let mut arguments = Vec::new();
    for entry in entries {
        let (mut argument, mut in_quotes) = (String::new(), false);
        for c in entry.chars() {
            in_quotes ^= c == '"';
            if c.is_whitespace() && !in_quotes {
                arguments.extend((!argument.is_empty()).then(|| std::mem::take(&mut argument)));
            } else {
                argument.push(c);
            }
        }
        arguments.extend((!argument.is_empty()).then_some(argument));
    }
    arguments
}

#[cfg(test)]
mod tests;
