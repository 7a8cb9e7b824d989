//! Capabilities, the optional parts of the platform: which are known, enabled, and implicitly enabled.

use crate::object::manifest::{Manifest, ObjectId};
use crate::release::api::CapabilitiesSpec;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The baseline of a cluster that sets none.
pub(crate) const DEFAULT_BASELINE: &str = "vCurrent";

/// The baseline sets, oldest first. Each contains all sets before it and the names beside it, so the last one contains all
/// names that this program knows.
const BASELINES: [(&str, &[&str]); 10] = [
    ("None", &[]),
    ("v4.11", &["baremetal", "marketplace", "openshift-samples", "MachineAPI"]),
    ("v4.12", &["Console", "Insights", "Storage", "CSISnapshot"]),
    ("v4.13", &["NodeTuning"]),
    ("v4.14", &["Build", "DeploymentConfig", "ImageRegistry"]),
    ("v4.15", &["OperatorLifecycleManager", "CloudCredential"]),
    ("v4.16", &["Ingress", "CloudControllerManager"]),
    ("v4.17", &[]),
    ("v4.18", &["OperatorLifecycleManagerV1"]),
    (DEFAULT_BASELINE, &["CompatibilityRequirements", "ClusterAPI"]),
];

/// Capabilities that exist only if one of these feature gates is enabled.
const GATED: [(&str, &[&str]); 2] = [
    ("CompatibilityRequirements", &["CRDCompatibilityRequirementOperator", "ClusterAPIMachineManagement"]),
    ("ClusterAPI", &["ClusterAPIMachineManagement"]),
];

/// The capabilities of a cluster. The sets are ordered bytewise, like the lists in status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Names that this program knows, without those whose gate is off.
    pub known: BTreeSet<String>,
    /// May contain unknown names, which a newer release knows.
    pub enabled: BTreeSet<String>,
    /// Those that are enabled although the spec does not ask for them.
    pub implicit: BTreeSet<String>,
}

/// What the capabilities of a cluster are computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapabilityInputs<'a> {
    pub spec: &'a CapabilitiesSpec,
    /// Capabilities enabled so far, which are never disabled again.
    pub before: &'a BTreeSet<String>,
    /// `--always-enable-capabilities`.
    pub always: &'a BTreeSet<String>,
    /// Enabled feature gates.
    pub gates: &'a BTreeSet<String>,
}

/// All names that this program knows, gated or not.
pub(crate) fn names() -> BTreeSet<&'static str> {
    BASELINES.iter().flat_map(|(_, added)| *added).copied().collect()
}

/// Names of the baseline sets, oldest first.
pub(crate) fn baselines() -> impl Iterator<Item = &'static str> {
    BASELINES.iter().map(|(set, _)| *set)
}

/// Members of a baseline set. An unknown set has none, since a capability that was enabled by mistake cannot be disabled.
fn baseline(name: &str) -> impl Iterator<Item = &'static str> {
    let name = if name.is_empty() { DEFAULT_BASELINE } else { name };
    let count = BASELINES.iter().position(|(set, _)| *set == name).map_or(0, |position| position + 1);
    BASELINES.iter().take(count).flat_map(|(_, added)| *added).copied()
}

/// The gates of which one must be enabled for the capability to exist; `None` if it needs none.
fn needed_gates(name: &str) -> Option<&'static [&'static str]> {
    GATED.iter().find(|(capability, _)| *capability == name).map(|(_, any)| *any)
}

/// Whether the capability does not exist because its gate is off.
fn gated(name: &str, gates: &BTreeSet<String>) -> bool {
    needed_gates(name).is_some_and(|any| !any.iter().any(|gate| gates.contains(*gate)))
}

impl Capabilities {
    /// Enables what the spec asks for, what was enabled before and what is always enabled, without those whose gate is off.
    /// Whatever the spec does not ask for is implicit.
    pub(crate) fn of(inputs: &CapabilityInputs) -> Capabilities {
        let exists = |name: &String| !gated(name, inputs.gates);
        let additional = inputs.spec.additional_enabled_capabilities.iter().cloned();
        let explicit = baseline(&inputs.spec.baseline_capability_set).map(str::to_owned).chain(additional);
        let explicit: BTreeSet<String> = explicit.filter(exists).collect();
        let ensured = inputs.before.union(inputs.always).filter(|name| exists(name));
        let implicit: BTreeSet<String> = ensured.filter(|name| !explicit.contains(*name)).cloned().collect();
        Capabilities {
            known: names().into_iter().map(str::to_owned).filter(exists).collect(),
            enabled: explicit.union(&implicit).cloned().collect(),
            implicit,
        }
    }

    /// All names that this program knows are known and enabled, gated ones included.
    pub fn all() -> Capabilities {
        let known: BTreeSet<String> = names().into_iter().map(str::to_owned).collect();
        Capabilities { enabled: known.clone(), known, implicit: BTreeSet::new() }
    }

    /// Whether all capabilities that the manifest needs are known and enabled; the error is the reason why not.
    pub fn check(&self, manifest: &Manifest) -> Result<(), String> {
        let missing_in = |set: &BTreeSet<String>| {
            let needed = manifest.required_capabilities();
            needed.into_iter().filter(|name| !set.contains(*name)).collect::<Vec<_>>()
        };
        let unknown = missing_in(&self.known);
        if !unknown.is_empty() {
            // A name that has a gate is only unknown while the gate is off.
            let describe = |name: &str| match needed_gates(name) {
                Some(any) => format!("{name} (needs the feature gate {})", any.join(" or ")),
                None => name.to_owned(),
            };
            let names: Vec<String> = unknown.into_iter().map(describe).collect();
            return Err(format!("unrecognized capability names: {}", names.join(", ")));
        }
        let disabled = missing_in(&self.enabled);
        if disabled.is_empty() { Ok(()) } else { Err(format!("disabled capabilities: {}", disabled.join(", "))) }
    }

    /// Enables the capabilities without which a managed object would become unmanaged when `new` replaces `old`, because its
    /// manifest has moved into a disabled capability. Returns them. Both lists are the loadable manifests of a release.
    /// Unknown names are enabled as well, since the new release knows them.
    pub fn imply(
        &mut self,
        new: &[Arc<Manifest>],
        old: &[Arc<Manifest>],
        gates: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let enabled =
            |manifest: &Manifest| manifest.required_capabilities().into_iter().all(|name| self.enabled.contains(name));
        let mut managed: HashMap<&ObjectId, Vec<&Manifest>> = HashMap::new();
        for manifest in old.iter().filter(|m| enabled(m)) {
            managed.entry(&manifest.id).or_default().push(manifest);
        }
        let mut implied = BTreeSet::new();
        for manifest in new.iter().filter(|m| !enabled(m)) {
            for old in managed.get(&manifest.id).into_iter().flatten() {
                let before = old.required_capabilities();
                let added = manifest.required_capabilities().into_iter().filter(|name| !before.contains(name));
                let added = added.filter(|name| !self.enabled.contains(*name) && !gated(name, gates));
                implied.extend(added.map(str::to_owned));
            }
        }
        self.enabled.extend(implied.iter().cloned());
        self.implicit.extend(implied.iter().cloned());
        implied
    }
}

#[cfg(test)]
mod tests;
