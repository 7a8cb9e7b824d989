//! Which manifests are included, by the annotations that they carry.

use super::capability::Capabilities;
use crate::object::manifest::{Manifest, ObjectId};
use crate::release::api::ComponentOverride;
use std::collections::BTreeSet;

/// The profile of a cluster that sets none.
pub(crate) const DEFAULT_PROFILE: &str = "self-managed-high-availability";
/// The meaning of an empty feature set.
pub(crate) const DEFAULT_FEATURE_SET: &str = "Default";
/// All feature sets.
pub(crate) const FEATURE_SETS: [&str; 5] =
    [DEFAULT_FEATURE_SET, "TechPreviewNoUpgrade", "DevPreviewNoUpgrade", "CustomNoUpgrade", "OKD"];

const INCLUDE: &str = "include.release.openshift.io/";
const EXCLUDE: &str = "exclude.release.openshift.io/";
/// The value with which an exclude annotation leaves out the affinity of a workload to nodes instead of the whole manifest.
const NODE_AFFINITY: &str = "node-affinity";
/// The identifier with which the daemon and the machine-config controller run on any node.
pub(crate) const ANY_NODE: &str = "any-node";
const FEATURE_SET: &str = "release.openshift.io/feature-set";
const FEATURE_GATE: &str = "release.openshift.io/feature-gate";
const MAJOR_VERSION: &str = "release.openshift.io/major-version";

/// The filters that apply when a payload is loaded. Capabilities are not among them, since a newer release may have ones
/// that only its own orchestrator knows; overrides belong to the cluster and may change at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// `EXCLUDE_MANIFESTS`: identifiers, separated by commas.
    pub exclude_identifier: Option<String>,
    /// Empty means `Default`; `None` switches the filter off.
    pub feature_set: Option<String>,
    /// Enabled gates; `None` switches the filter off.
    pub feature_gates: Option<BTreeSet<String>>,
    /// Major version of the payload, set by `load`. `None` switches the filter off.
    pub major: Option<u64>,
    /// Cluster profile, set by `load`. An empty one matches no manifest; `None` switches the filter off.
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
    /// Whether the manifest is included; the error is the reason why it is not. If several filters exclude it, the first one
    /// checked here gives the reason, and a manifest without any annotation is always excluded.
    pub fn check(&self, manifest: &Manifest) -> Result<(), String> {
        if manifest.annotations.is_empty() {
            return Err("it has no annotations".to_owned());
        }
        if let Some(key) = self.excluding(manifest, "true") {
            return Err(format!("{key}=true"));
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

    /// Whether the affinity of the manifest's pods to nodes is left out here, so that they run on any node.
    pub(crate) fn runs_anywhere(&self, manifest: &Manifest) -> bool {
        self.excluding(manifest, NODE_AFFINITY).is_some()
    }

    /// The annotation of one of the identifiers that has this value.
    fn excluding(&self, manifest: &Manifest, value: &str) -> Option<String> {
        let identifiers = self.exclude_identifier.iter().flat_map(|given| given.split(',')).map(str::trim);
        let mut keys = identifiers.filter(|identifier| !identifier.is_empty()).map(|one| format!("{EXCLUDE}{one}"));
        keys.find(|key| manifest.annotation(key) == Some(value))
    }

    /// Whether inclusion depends on the major version and that is unknown.
    pub fn depends_on_major(&self, manifest: &Manifest) -> bool {
        self.major.is_none() && manifest.annotation(MAJOR_VERSION).is_some()
    }
}

/// Names are not trimmed, so ` OKD` is unknown. One unknown name excludes the manifest.
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
        let (gate, required) = token.strip_prefix('-').map_or((token, true), |gate| (gate, false));
        if enabled.contains(gate) != required {
            let is = if required { "is not enabled" } else { "is enabled" };
            return Err(format!("{FEATURE_GATE}={listed}: {gate} {is}"));
        }
    }
    Ok(())
}

/// Included if the version is listed, or if none is listed and it is not negated. A number that is both listed and negated
/// excludes the manifest from every version. Only FeatureGates and CustomResourceDefinitions may use the annotation.
fn major_version(manifest: &Manifest, major: u64, listed: &str) -> Result<(), String> {
    let allowed = [("config.openshift.io", "FeatureGate"), ("apiextensions.k8s.io", "CustomResourceDefinition")];
    if !allowed.contains(&(manifest.id.group.as_str(), manifest.id.kind.as_str())) {
        return Err(format!("{MAJOR_VERSION} is not allowed on {}", manifest.id.kind));
    }
    let (mut positive, mut negated) = (BTreeSet::new(), BTreeSet::new());
    for token in listed.split(',').map(str::trim) {
        let (number, side) = token.strip_prefix('-').map_or((token, &mut positive), |number| (number, &mut negated));
        // Rust accepts a plus sign, Go does not for unsigned numbers.
        let number = number.parse::<u64>().ok().filter(|_| !number.starts_with('+'));
        side.insert(number.ok_or_else(|| format!("{MAJOR_VERSION}={listed}: {token:?} is not a major version"))?);
    }
    if let Some(both) = positive.intersection(&negated).next() {
        return Err(format!("{MAJOR_VERSION}={listed} both lists and negates {both}"));
    }
    if negated.contains(&major) || !(positive.is_empty() || positive.contains(&major)) {
        return Err(format!("{MAJOR_VERSION}={listed} excludes major version {major}"));
    }
    Ok(())
}

/// Names of the gates that the manifest's annotation names, negated or not.
pub(super) fn mentioned_gates(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let tokens = manifest.annotation(FEATURE_GATE).unwrap_or_default().split(',').map(str::trim);
    tokens.filter(|t| !t.is_empty()).map(|t| t.strip_prefix('-').unwrap_or(t))
}

/// All filters of a cluster: together they decide whether a manifest is applied.
#[derive(Clone, Debug, Default)]
pub struct ApplyFilter {
    pub load: Filter,
    /// `None` switches the filter off.
    pub capabilities: Option<Capabilities>,
    /// `spec.overrides`.
    pub overrides: Vec<ComponentOverride>,
}

impl ApplyFilter {
    /// Whether both include the same manifests of a release. Of capabilities only the enabled ones are compared: a change of
    /// the known or implicit ones alone is no reason to apply anything again.
    pub fn agrees_with(&self, other: &ApplyFilter) -> bool {
        let enabled = |filter: &ApplyFilter| filter.capabilities.as_ref().map(|c| c.enabled.clone());
        self.load == other.load && self.overrides == other.overrides && enabled(self) == enabled(other)
    }
}

/// Whether the manifest is applied in a cluster with these filters; the error is the reason why it is not. Rollouts, plans
/// and listings all ask this function. The load-time filters come first, then capabilities, then overrides.
pub fn check_inclusion(manifest: &Manifest, filter: &ApplyFilter) -> Result<(), String> {
    filter.load.check(manifest)?;
    if let Some(capabilities) = &filter.capabilities {
        capabilities.check(manifest)?;
    }
    if overridden(manifest, &filter.overrides) {
        return Err("an entry of spec.overrides marks it as unmanaged".to_owned());
    }
    Ok(())
}

/// Whether an override marks the object of the manifest as unmanaged.
pub(crate) fn overridden(manifest: &Manifest, overrides: &[ComponentOverride]) -> bool {
    makes_unmanaged(overrides, &manifest.id)
}

/// Whether an override marks this object as unmanaged. The namespace of the override is ignored for an object without one.
pub(crate) fn makes_unmanaged(overrides: &[ComponentOverride], id: &ObjectId) -> bool {
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
