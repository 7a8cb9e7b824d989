//! The update graph of a channel: which entry is its head, and whether every installed version finds a way to it.

use super::fault::{Reason, names, short};
use crate::olm::version_range::VersionRange;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// One entry of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry<'a> {
    pub name: Cow<'a, str>,
    /// Empty if it replaces nothing.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub replaces: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Cow<'a, str>>,
    /// Empty if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub skip_range: Cow<'a, str>,
}

/// The number of the head among the entries, which is the one that no other replaces or skips; and what is wrong with them. A
/// replaced entry may be missing, because older versions end at some time.
pub(super) fn check(entries: &[Entry<'_>]) -> (usize, Vec<Reason>) {
    let mut reasons = entry_faults(entries);
    if entries.is_empty() {
        reasons.push(Reason::NoEntries);
        return (0, reasons);
    }
    let skipped: HashSet<&str> = entries.iter().flat_map(|entry| &entry.skips).map(AsRef::as_ref).collect();
    let replaced: HashSet<&str> = entries.iter().map(|entry| entry.replaces.as_ref()).collect();
    let is_head = |name: &str| !skipped.contains(name) && !replaced.contains(name);
    let mut heads = entries.iter().enumerate().filter(|(_, entry)| is_head(&entry.name));
    let Some((at, head)) = heads.next() else {
        reasons.push(Reason::NoHead);
        return (0, reasons);
    };
    let others: Vec<&str> = heads.map(|(_, entry)| entry.name.as_ref()).collect();
    if !others.is_empty() {
        let names = names(std::iter::once(head.name.as_ref()).chain(others.iter().copied()));
        reasons.push(Reason::Heads { count: others.len() + 1, names });
        return (at, reasons);
    }
    reasons.extend(chain_fault(entries, head, &skipped));
    (at, reasons)
}

/// What is wrong with single entries, and with entries of one name.
fn entry_faults(entries: &[Entry<'_>]) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut known = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let name = || short(&entry.name);
        if entry.name.is_empty() {
            reasons.push(Reason::EntryWithoutName { index });
        } else if !known.insert(entry.name.as_ref()) {
            reasons.push(Reason::TwoEntries { entry: name() });
        }
        if let Some(index) = entry.skips.iter().position(|skip| skip.is_empty()) {
            reasons.push(Reason::EmptySkip { entry: name(), index });
        }
        if !entry.skip_range.is_empty()
            && let Err(cause) = VersionRange::parse(&entry.skip_range)
        {
            let (range, cause) = (short(&entry.skip_range), short(&cause.to_string()));
            reasons.push(Reason::SkipRange { entry: name(), range, cause });
        }
    }
    reasons
}

/// Walks from the head down what each entry replaces. Whatever is not on the way must be skipped by somebody.
fn chain_fault(entries: &[Entry<'_>], head: &Entry<'_>, skipped: &HashSet<&str>) -> Option<Reason> {
    let by_name: HashMap<&str, &Entry<'_>> = entries.iter().map(|entry| (entry.name.as_ref(), entry)).collect();
    let (mut way, mut passed, mut at) = (Vec::new(), HashSet::new(), head.name.as_ref());
    while let Some(entry) = by_name.get(at) {
        way.push(at);
        if !passed.insert(at) {
            let circle = way.iter().skip_while(|name| **name != at).copied();
            return Some(Reason::Cycle { names: names(circle) });
        }
        // What is skipped is never installed on the way.
        if skipped.contains(entry.replaces.as_ref()) {
            break;
        }
        at = entry.replaces.as_ref();
    }
    let is_stranded = |name: &&str| !passed.contains(name) && !skipped.contains(name);
    let mut stranded = entries.iter().map(|entry| entry.name.as_ref()).filter(is_stranded).peekable();
    stranded.peek()?;
    Some(Reason::Stranded { head: short(&head.name), names: names(stranded) })
}

#[cfg(test)]
mod tests;
