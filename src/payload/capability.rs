//! Which optional parts of the platform are wanted: known, enabled and implicitly enabled capabilities
//! (payload-and-apply §2.7, §2.9; cluster-version §9).

use super::filter::required_capabilities;
use super::manifest::{Manifest, ObjectId};
use crate::api::cluster_version::CapabilitiesSpec;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The baseline of a cluster that names none.
pub const DEFAULT_BASELINE: &str = "vCurrent";

/// The baseline sets, oldest first: each brings what those before it do, and the names beside it (cluster-version §9.1).
/// Together they are all names this program knows.
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

/// Capabilities that do not exist unless one of these gates is enabled.
const GATED: [(&str, &[&str]); 2] = [
    ("CompatibilityRequirements", &["CRDCompatibilityRequirementOperator", "ClusterAPIMachineManagement"]),
    ("ClusterAPI", &["ClusterAPIMachineManagement"]),
];

/// The capabilities of a cluster. Sets are ordered bytewise, as status lists are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Names this program knows, without those whose gate is off.
    pub known: BTreeSet<String>,
    /// May hold names that are not known: a release made later has them.
    pub enabled: BTreeSet<String>,
    /// Those enabled without the spec asking for them.
    pub implicit: BTreeSet<String>,
}

/// What decides about capabilities.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub spec: &'a CapabilitiesSpec,
    /// Enabled until now: never disabled again.
    pub before: &'a BTreeSet<String>,
    /// `--always-enable-capabilities`.
    pub always: &'a BTreeSet<String>,
    /// Enabled feature gates.
    pub gates: &'a BTreeSet<String>,
}

/// All names this program knows, gated or not.
pub fn names() -> BTreeSet<&'static str> {
    BASELINES.iter().flat_map(|(_, added)| *added).copied().collect()
}

/// Names of the baseline sets, oldest first.
pub fn baselines() -> impl Iterator<Item = &'static str> {
    BASELINES.iter().map(|(set, _)| *set)
}

/// Members of a baseline set. One that nobody knows has none: what is enabled once cannot be disabled any more.
fn baseline(name: &str) -> impl Iterator<Item = &'static str> {
    let name = if name.is_empty() { DEFAULT_BASELINE } else { name };
    let upto = BASELINES.iter().position(|(set, _)| *set == name).map_or(0, |position| position + 1);
    BASELINES.iter().take(upto).flat_map(|(_, added)| *added).copied()
}

/// The gates of which the capability needs one to exist; `None` if it needs none.
fn needed_gates(name: &str) -> Option<&'static [&'static str]> {
    GATED.iter().find(|(capability, _)| *capability == name).map(|(_, any)| *any)
}

/// Whether the capability exists only with a gate that is off.
fn gated(name: &str, gates: &BTreeSet<String>) -> bool {
    needed_gates(name).is_some_and(|any| !any.iter().any(|gate| gates.contains(*gate)))
}

impl Capabilities {
    /// Nothing is enabled that nobody asked for, and nothing disabled that was enabled, except for what is gated (§2.7).
    pub fn of(wish: &Wish) -> Capabilities {
        let exists = |name: &String| !gated(name, wish.gates);
        let additional = wish.spec.additional_enabled_capabilities.iter().cloned();
        let explicit = baseline(&wish.spec.baseline_capability_set).map(str::to_owned).chain(additional);
        let explicit: BTreeSet<String> = explicit.filter(exists).collect();
        let ensured = wish.before.union(wish.always).filter(|name| exists(name));
        let implicit: BTreeSet<String> = ensured.filter(|name| !explicit.contains(*name)).cloned().collect();
        Capabilities {
            known: names().into_iter().map(str::to_owned).filter(exists).collect(),
            enabled: explicit.union(&implicit).cloned().collect(),
            implicit,
        }
    }

    /// Every name this program knows is known and enabled, gated ones too.
    pub fn all() -> Capabilities {
        let known: BTreeSet<String> = names().into_iter().map(str::to_owned).collect();
        Capabilities { enabled: known.clone(), known, implicit: BTreeSet::new() }
    }

    /// Whether every capability the manifest needs is known and enabled; if not, why (§2.7).
    pub fn check(&self, manifest: &Manifest) -> Result<(), String> {
        let outside = |set: &BTreeSet<String>| {
            let needed = required_capabilities(manifest);
            needed.into_iter().filter(|name| !set.contains(*name)).collect::<Vec<_>>()
        };
        let unknown = outside(&self.known);
        if !unknown.is_empty() {
            // A name that has a gate is only unknown while that is off.
            let told = |name: &str| match needed_gates(name) {
                Some(any) => format!("{name} (needs the feature gate {})", any.join(" or ")),
                None => name.to_owned(),
            };
            let told: Vec<String> = unknown.into_iter().map(told).collect();
            return Err(format!("unrecognized capability names: {}", told.join(", ")));
        }
        let disabled = outside(&self.enabled);
        if disabled.is_empty() { Ok(()) } else { Err(format!("disabled capabilities: {}", disabled.join(", "))) }
    }

    /// Enables what must be so that nothing managed becomes unmanaged when `new` takes the place of `old`, and returns
    /// it (§2.9). Both are what passes the load-time filters. Unknown names count too: the release that brings them
    /// knows them.
    pub fn imply(
        &mut self,
        new: &[Arc<Manifest>],
        old: &[Arc<Manifest>],
        gates: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let enabled =
            |manifest: &Manifest| required_capabilities(manifest).into_iter().all(|name| self.enabled.contains(name));
        let mut managed: HashMap<&ObjectId, Vec<&Manifest>> = HashMap::new();
        for manifest in old.iter().filter(|m| enabled(m)) {
            managed.entry(&manifest.id).or_default().push(manifest);
        }
        let mut implied = BTreeSet::new();
        for manifest in new.iter().filter(|m| !enabled(m)) {
            for held in managed.get(&manifest.id).into_iter().flatten() {
                let had = required_capabilities(held);
                let moved = required_capabilities(manifest).into_iter().filter(|name| !had.contains(name));
                let moved = moved.filter(|name| !self.enabled.contains(*name) && !gated(name, gates));
                implied.extend(moved.map(str::to_owned));
            }
        }
        self.enabled.extend(implied.iter().cloned());
        self.implicit.extend(implied.iter().cloned());
        implied
    }
}

#[cfg(test)]
mod tests;
