//! Who takes part (payload-and-apply §2).

use super::capability::Capabilities;
use super::manifest::Manifest;
use crate::api::ComponentOverride;
use std::collections::BTreeSet;

/// The profile of a cluster nobody chose one for (§2.6).
pub const DEFAULT_PROFILE: &str = "self-managed-high-availability";
/// What an empty feature set means.
pub const DEFAULT_FEATURE_SET: &str = "Default";
/// Every feature set there is.
pub const FEATURE_SETS: [&str; 5] =
    [DEFAULT_FEATURE_SET, "TechPreviewNoUpgrade", "DevPreviewNoUpgrade", "CustomNoUpgrade", "OKD"];

const INCLUDE: &str = "include.release.openshift.io/";
const EXCLUDE: &str = "exclude.release.openshift.io/";
const FEATURE_SET: &str = "release.openshift.io/feature-set";
const FEATURE_GATE: &str = "release.openshift.io/feature-gate";
const MAJOR_VERSION: &str = "release.openshift.io/major-version";
const CAPABILITY: &str = "capability.openshift.io/name";

/// Load-time filters (§2.2). Capabilities and overrides are not filtered on load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// `EXCLUDE_MANIFESTS`.
    pub exclude_identifier: Option<String>,
    /// Empty means `Default`; `None` switches the filter off.
    pub feature_set: Option<String>,
    /// Enabled gates; `None` switches the filter off.
    pub feature_gates: Option<BTreeSet<String>>,
    /// Major version of the payload being loaded; filled in by `load`. `None` switches the filter off.
    pub major: Option<u64>,
    /// Cluster profile; filled in by `load`. An empty one excludes everything (§2.6), `None` switches the filter off.
    pub profile: Option<String>,
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            exclude_identifier: None,
            feature_set: None,
            feature_gates: None,
            major: None,
            profile: Some(DEFAULT_PROFILE.to_owned()),
        }
    }
}

impl Filter {
    /// Whether the manifest takes part; if not, why. The first hit in the order of §2.2 decides.
    pub fn check(&self, manifest: &Manifest) -> Result<(), String> {
        if manifest.annotations.is_empty() {
            return Err("it has no annotations".to_owned());
        }
        if let Some(identifier) = self.exclude_identifier.as_deref().filter(|i| !i.is_empty()) {
            let key = format!("{EXCLUDE}{identifier}");
            if manifest.annotation(&key) == Some("true") {
                return Err(format!("{key}=true"));
            }
        }
        let set = self.feature_set.as_deref().zip(manifest.annotation(FEATURE_SET));
        let gates = self.feature_gates.as_ref().zip(manifest.annotation(FEATURE_GATE));
        if set.is_some() && gates.is_some() {
            return Err(format!("{FEATURE_SET} and {FEATURE_GATE} cannot be combined"));
        }
        if let Some((active, listed)) = set {
            feature_set(active, listed)?;
        }
        if let Some((enabled, listed)) = gates {
            feature_gates(enabled, listed)?;
        }
        if let Some((major, listed)) = self.major.zip(manifest.annotation(MAJOR_VERSION)) {
            major_version(manifest, major, listed)?;
        }
        if let Some(profile) = &self.profile {
            let key = format!("{INCLUDE}{profile}");
            if manifest.annotation(&key) != Some("true") {
                return Err(format!("{key} is not \"true\""));
            }
        }
        Ok(())
    }

    /// Whether the major version decides about the manifest, and is not known.
    pub fn depends_on_major(&self, manifest: &Manifest) -> bool {
        self.major.is_none() && manifest.annotation(MAJOR_VERSION).is_some()
    }
}

/// No trimming: ` OKD` is a set nobody knows, and one such excludes (§2.1).
fn feature_set(active: &str, listed: &str) -> Result<(), String> {
    let active = if active.is_empty() { DEFAULT_FEATURE_SET } else { active };
    if let Some(unknown) = listed.split(',').find(|set| !FEATURE_SETS.contains(set)) {
        return Err(format!("{FEATURE_SET}={listed} names the unknown feature set {unknown:?}"));
    }
    if listed.split(',').any(|set| set == active) {
        Ok(())
    } else {
        Err(format!("{FEATURE_SET}={listed} does not list the cluster's feature set {active}"))
    }
}

fn feature_gates(enabled: &BTreeSet<String>, listed: &str) -> Result<(), String> {
    for token in listed.split(',').map(str::trim).filter(|t| !t.is_empty()) {
        let (gate, wanted) = token.strip_prefix('-').map_or((token, true), |gate| (gate, false));
        if enabled.contains(gate) != wanted {
            let is = if wanted { "is not enabled" } else { "is enabled" };
            return Err(format!("{FEATURE_GATE}={listed}: {gate} {is}"));
        }
    }
    Ok(())
}

/// §2.5. A number both listed and negated excludes whatever the payload's is.
fn major_version(manifest: &Manifest, major: u64, listed: &str) -> Result<(), String> {
    let allowed = [("config.openshift.io", "FeatureGate"), ("apiextensions.k8s.io", "CustomResourceDefinition")];
    if !allowed.contains(&(manifest.id.group.as_str(), manifest.id.kind.as_str())) {
        return Err(format!("{MAJOR_VERSION} is not allowed on {}", manifest.id.kind));
    }
    let (mut wanted, mut unwanted) = (BTreeSet::new(), BTreeSet::new());
    for token in listed.split(',').map(str::trim) {
        let (number, side) = token.strip_prefix('-').map_or((token, &mut wanted), |number| (number, &mut unwanted));
        // Rust takes a plus sign, Go's unsigned numbers have none.
        let number = number.parse::<u64>().ok().filter(|_| !number.starts_with('+'));
        side.insert(number.ok_or_else(|| format!("{MAJOR_VERSION}={listed}: {token:?} is not a major version"))?);
    }
    if let Some(both) = wanted.intersection(&unwanted).next() {
        return Err(format!("{MAJOR_VERSION}={listed} both lists and negates {both}"));
    }
    if unwanted.contains(&major) || !(wanted.is_empty() || wanted.contains(&major)) {
        return Err(format!("{MAJOR_VERSION}={listed} leaves out major version {major}"));
    }
    Ok(())
}

/// Names of the gates that decide about the manifest, wanted or not.
pub(super) fn mentioned_gates(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let tokens = manifest.annotation(FEATURE_GATE).unwrap_or_default().split(',').map(str::trim);
    tokens.filter(|t| !t.is_empty()).map(|t| t.strip_prefix('-').unwrap_or(t))
}

/// Names of the capabilities a manifest needs (§2.1); none for a manifest without the annotation, or with an empty one.
pub fn required_capabilities(manifest: &Manifest) -> BTreeSet<&str> {
    manifest.annotation(CAPABILITY).filter(|v| !v.is_empty()).map(|v| v.split('+').collect()).unwrap_or_default()
}

/// What a cluster filters by: all that decides whether a manifest is applied (§2.2).
#[derive(Clone, Debug, Default)]
pub struct ApplyFilter {
    /// Profile, excluded identifier, feature set, gates, major version.
    pub load: Filter,
    /// `None` switches the filter off.
    pub capabilities: Option<Capabilities>,
    /// `spec.overrides`.
    pub overrides: Vec<ComponentOverride>,
}

impl ApplyFilter {
    /// Whether both make the same choice. Of capabilities the enabled ones decide (§2.7).
    pub fn agrees_with(&self, other: &ApplyFilter) -> bool {
        let enabled = |filter: &ApplyFilter| filter.capabilities.as_ref().map(|c| c.enabled.clone());
        self.load == other.load && self.overrides == other.overrides && enabled(self) == enabled(other)
    }
}

/// Whether the manifest is applied in a cluster that filters by this; if not, why. The one place where it is decided
/// who takes part: the engine, plans and listings ask it. The first hit in the order of §2.2 counts.
pub fn takes_part(manifest: &Manifest, filter: &ApplyFilter) -> Result<(), String> {
    filter.load.check(manifest)?;
    if let Some(capabilities) = &filter.capabilities {
        capabilities.check(manifest)?;
    }
    if overridden(manifest, &filter.overrides) {
        return Err("an override in spec.overrides says that it is unmanaged".to_owned());
    }
    Ok(())
}

/// Whether an override takes the object out of our hands (§2.8). Checked when applying.
pub fn overridden(manifest: &Manifest, overrides: &[ComponentOverride]) -> bool {
    let id = &manifest.id;
    overrides.iter().any(|o| {
        o.unmanaged
            && o.group == id.group
            && o.kind == id.kind
            && o.name == id.name
            && (id.namespace.is_empty() || o.namespace == id.namespace)
    })
}

#[cfg(test)]
mod tests;
