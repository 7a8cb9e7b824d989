//! Whether a change of `registries.conf` can be made under running pods.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The parts of version 2 of the format that decide. All others have to stay as they are.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Configuration {
    unqualified_search_registries: Vec<String>,
    registry: Vec<Registry>,
    #[serde(flatten)]
    other: Table,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Registry {
    prefix: String,
    location: String,
    blocked: bool,
    insecure: bool,
    mirror_by_digest_only: bool,
    mirror: Vec<Mirror>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Mirror {
    location: String,
    insecure: bool,
    pull_from_mirror: String,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

/// For which images a mirror is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pulls {
    All,
    /// Those that are named by their digest: wherever one comes from, it is the same image.
    DigestOnly,
    TagOnly,
}

/// After a safe change every image that pods of the node run can still be pulled from where it came from, and no name means
/// another image: registries for short names are only added behind the others, no registry and no mirror is removed, and
/// what is added serves images by digest only. A configuration that cannot be read is not safe.
pub fn is_safe(old: &[u8], new: &[u8]) -> bool {
    let read = |bytes: &[u8]| toml::from_str::<Configuration>(std::str::from_utf8(bytes).ok()?).ok();
    let (Some(old), Some(new)) = (read(old), read(new)) else { return false };
    let (Some(before), Some(after)) = (by_prefix(&old), by_prefix(&new)) else { return false };
    old.other == new.other
        && new.unqualified_search_registries.starts_with(&old.unqualified_search_registries)
        && before.keys().all(|prefix| after.contains_key(prefix))
        && after.iter().all(|(prefix, registry)| match before.get(prefix) {
            Some(before) => is_safe_change(before, registry),
            None => is_safe_addition(registry),
        })
}

/// Registries by the images they are for; `None` if two are for the same ones.
fn by_prefix(configuration: &Configuration) -> Option<BTreeMap<&str, &Registry>> {
    let mut registries = BTreeMap::new();
    for registry in &configuration.registry {
        let prefix = if registry.prefix.is_empty() { &registry.location } else { &registry.prefix };
        if registries.insert(prefix.as_str(), registry).is_some() {
            return None;
        }
    }
    Some(registries)
}

fn is_safe_change(old: &Registry, new: &Registry) -> bool {
    let unchanged = |r: &Registry| (r.prefix.clone(), r.location.clone(), r.blocked, r.insecure, r.other.clone());
    let find = |registry: &Registry, wanted: &Mirror| -> Option<Pulls> {
        let is_same = |mirror: &&Mirror| {
            (&mirror.location, mirror.insecure, &mirror.other) == (&wanted.location, wanted.insecure, &wanted.other)
        };
        registry.mirror.iter().find(is_same).map(|mirror| registry.pulls(mirror))
    };
    unchanged(old) == unchanged(new)
        && old.mirror.iter().all(|mirror| find(new, mirror).is_some())
        && new.mirror.iter().all(|mirror| match (find(old, mirror), new.pulls(mirror)) {
            (Some(old), new) => old == new || new == Pulls::DigestOnly,
            (None, new) => new == Pulls::DigestOnly,
        })
}

/// One that is blocked, or that leads elsewhere, changes what names of images mean that had no registry of their own.
fn is_safe_addition(registry: &Registry) -> bool {
    let (prefix, location) = (&registry.prefix, &registry.location);
    let leads_elsewhere = !prefix.is_empty() && !location.is_empty() && prefix != location;
    !registry.blocked
        && !leads_elsewhere
        && registry.mirror.iter().all(|mirror| registry.pulls(mirror) == Pulls::DigestOnly)
}

impl Registry {
    fn pulls(&self, mirror: &Mirror) -> Pulls {
        match mirror.pull_from_mirror.as_str() {
            "digest-only" => Pulls::DigestOnly,
            "tag-only" => Pulls::TagOnly,
            _ if self.mirror_by_digest_only => Pulls::DigestOnly,
            _ => Pulls::All,
        }
    }
}

#[cfg(test)]
mod tests;
