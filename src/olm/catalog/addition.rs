//! A version that is added to a channel: the new graph, made of the old one. Whatever is installed of the old graph must find exactly
//! one version in the new one that follows it.

use super::channel::{self, Entry};
use super::fault::{Reason, names};
use crate::olm::version_range::VersionRange;
use semver::Version;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

/// What is added, and how it is to follow the entries that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addition {
    pub name: String,
    pub version: Version,
    /// Without it the head, or what comes before it if the head is skipped.
    pub replaces: Option<String>,
    /// What the first entry of a channel replaces, which is not there: the versions that were published elsewhere. May be empty.
    pub before_all: String,
    /// Entries that nobody is to be updated to any more.
    pub skips: Vec<String>,
    /// All earlier entries of the same minor version are skipped.
    pub z_stream: bool,
    /// Empty if there is none.
    pub skip_range: String,
}

/// Why a version cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdditionError {
    #[error("the channel has {0} already: give the new version another name, or remove the entry")]
    Exists(String),
    #[error("the channel as it is: {0}; correct it first, cvo catalog validate tells where")]
    OldGraph(Reason),
    #[error("{flag} {name}: the channel has no such entry. It has {known}")]
    Unknown { flag: &'static str, name: String, known: String },
    #[error(
        "the channel has {later}, which is of the same minor version and later than {version}: a z-stream grows at its end, so give \
         a later version"
    )]
    Later { later: String, version: Version },
    #[error(
        "{name} would not be the end of the channel: {reason}. It has to replace or skip the head, which is {head}; for an older minor \
         version make a channel of its own"
    )]
    NotHead { name: String, head: String, reason: Reason },
    #[error("with {name} the channel would not be right: {reason}")]
    NewGraph { name: String, reason: Reason },
    #[error("nothing would follow {0}: let the new version replace or skip it")]
    NoSuccessor(String),
    #[error(
        "{entry} would be followed by {successors}, and which of them is installed would depend on who decides: let one of them \
         replace or skip it, and skip the others"
    )]
    Successors { entry: String, successors: String },
}

/// The entry with which the version is added. `versions`: those of the entries, as far as they have bundles.
///
/// A version follows another one if it replaces or skips it and is not skipped itself. Where there is none, one follows whose
/// `skipRange` contains it.
pub(crate) fn entry(
    old: &[Entry<'_>],
    versions: &BTreeMap<&str, Version>,
    addition: &Addition,
) -> Result<Entry<'static>, AdditionError> {
    if old.iter().any(|entry| entry.name == addition.name) {
        return Err(AdditionError::Exists(addition.name.clone()));
    }
    let (head, mut reasons) = if old.is_empty() { (0, Vec::new()) } else { channel::check(old) };
    if let Some(reason) = reasons.pop() {
        return Err(AdditionError::OldGraph(reason));
    }
    let head = old.get(head).map_or("", |entry| entry.name.as_ref());
    let skips = skipped(old, versions, addition)?;
    let replaces = match &addition.replaces {
        Some(name) => known(old, "--replaces", name)?.to_owned(),
        None if old.is_empty() => addition.before_all.clone(),
        None => before(old, head, &skips).to_owned(),
    };
    let added = Entry {
        name: Cow::Owned(addition.name.clone()),
        replaces: Cow::Owned(replaces),
        skips: skips.into_iter().map(Cow::Owned).collect(),
        skip_range: Cow::Owned(addition.skip_range.clone()),
    };
    let new: Vec<Entry<'_>> = old.iter().cloned().chain([added.clone()]).collect();
    match channel::check(&new).1.pop() {
        None => {}
        Some(reason @ (Reason::Heads { .. } | Reason::NoHead)) => {
            return Err(AdditionError::NotHead { name: addition.name.clone(), head: head.to_owned(), reason });
        }
        Some(reason) => return Err(AdditionError::NewGraph { name: addition.name.clone(), reason }),
    }
    one_successor(old, &new, versions)?;
    Ok(added)
}

/// The names that the new entry skips, those that were asked for first.
fn skipped(
    old: &[Entry<'_>],
    versions: &BTreeMap<&str, Version>,
    addition: &Addition,
) -> Result<Vec<String>, AdditionError> {
    let mut skips: Vec<String> = Vec::new();
    for name in &addition.skips {
        let name = known(old, "--skip", name)?;
        if !skips.iter().any(|skip| skip == name) {
            skips.push(name.to_owned());
        }
    }
    if !addition.z_stream {
        return Ok(skips);
    }
    let new = &addition.version;
    let minor = |version: &Version| (version.major, version.minor) == (new.major, new.minor);
    let mut stream: Vec<(&Version, &str)> = Vec::new();
    for entry in old {
        let Some(version) = versions.get(entry.name.as_ref()).filter(|version| minor(version)) else { continue };
        if version.cmp_precedence(new).is_ge() {
            return Err(AdditionError::Later { later: entry.name.to_string(), version: new.clone() });
        }
        stream.push((version, &entry.name));
    }
    stream.sort_by(|one, other| one.0.cmp_precedence(other.0));
    for (_, name) in stream {
        if !skips.iter().any(|skip| skip == name) {
            skips.push(name.to_owned());
        }
    }
    Ok(skips)
}

fn known<'a>(old: &[Entry<'_>], flag: &'static str, name: &'a str) -> Result<&'a str, AdditionError> {
    if old.iter().any(|entry| entry.name == name) {
        return Ok(name);
    }
    let known = match old {
        [] => "none yet".to_owned(),
        old => names(old.iter().map(|entry| entry.name.as_ref())),
    };
    Err(AdditionError::Unknown { flag, name: name.to_owned(), known })
}

/// The first entry from the head down that is not skipped. It may be absent, as what the oldest replaces. Empty if there is none.
fn before<'a>(old: &'a [Entry<'_>], head: &'a str, skips: &[String]) -> &'a str {
    let by_name: BTreeMap<&str, &Entry<'_>> = old.iter().map(|entry| (entry.name.as_ref(), entry)).collect();
    let mut at = head;
    // The old graph has no circles.
    while skips.iter().any(|skip| skip == at) {
        at = by_name.get(at).map_or("", |entry| entry.replaces.as_ref());
    }
    at
}

fn one_successor(
    old: &[Entry<'_>],
    new: &[Entry<'_>],
    versions: &BTreeMap<&str, Version>,
) -> Result<(), AdditionError> {
    let skipped: HashSet<&str> = new.iter().flat_map(|entry| &entry.skips).map(AsRef::as_ref).collect();
    let offered: Vec<&Entry<'_>> = new.iter().filter(|entry| !skipped.contains(entry.name.as_ref())).collect();
    for entry in old {
        let name = entry.name.as_ref();
        let follows =
            |it: &&&Entry<'_>| it.name != name && (it.replaces == name || it.skips.iter().any(|skip| skip == name));
        let followers: Vec<&str> = offered.iter().filter(follows).map(|it| it.name.as_ref()).collect();
        match followers.as_slice() {
            [_] => {}
            [] if offered.iter().any(|it| it.name != name && in_range(it, versions.get(name))) => {}
            [] => return Err(AdditionError::NoSuccessor(name.to_owned())),
            several => {
                let successors = names(several.iter().copied());
                return Err(AdditionError::Successors { entry: name.to_owned(), successors });
            }
        }
    }
    Ok(())
}

fn in_range(entry: &Entry<'_>, version: Option<&Version>) -> bool {
    let range = VersionRange::parse(&entry.skip_range).ok();
    range.zip(version).is_some_and(|(range, version)| range.contains(version))
}

#[cfg(test)]
mod tests;
