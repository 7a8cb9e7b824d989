//! What this cluster filters the manifests of a release by, kept up to date with the spec, the FeatureGate, and what was
//! decided before.

use crate::cluster_version::api::{ClusterVersionSpec, ClusterVersionStatus};
use crate::cluster_version::status::facts::CapabilityFacts;
use crate::release::api::CapabilitiesSpec;
use crate::release::api::ComponentOverride;
use crate::release::capability::CapabilityInputs;
use crate::release::{ApplyFilter, Capabilities, Features, Filter, Payload, Selection};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The filter, and what of it must be remembered. A process that starts finds all of it in the ClusterVersion and in the
/// FeatureGate; nothing is kept elsewhere.
///
/// A changed feature set or feature gate takes effect at once: the payload keeps what its filters excluded, so selecting
/// again gives the very manifests that a fresh load would.
#[derive(Debug)]
pub(crate) struct EffectiveFilter {
    /// Profile and excluded identifier: what a process is started with.
    base: Filter,
    /// `--always-enable-capabilities`.
    always: BTreeSet<String>,
    /// The gates of the last entry that decided. They hold for a release that nothing is decided for yet, so that what
    /// they bring neither goes nor comes until its entry is written.
    gates: Option<BTreeSet<String>>,
    /// `None` before the first look at the spec.
    capabilities: Option<Capabilities>,
    filter: ApplyFilter,
    inputs: Option<Inputs>,
}

/// What the filters were made from.
#[derive(Debug)]
struct Inputs {
    image: String,
    capabilities: Option<CapabilitiesSpec>,
    overrides: Vec<ComponentOverride>,
    features: Arc<Features>,
}

impl Inputs {
    fn are(&self, payload: &Payload, spec: &ClusterVersionSpec, features: &Arc<Features>) -> bool {
        Arc::ptr_eq(&self.features, features)
            && self.image == payload.release.image
            && self.capabilities == spec.capabilities
            && self.overrides == spec.overrides
    }
}

impl EffectiveFilter {
    pub(crate) fn new(base: Filter, always: &[String]) -> Self {
        let always = always.iter().cloned().collect();
        EffectiveFilter { base, always, gates: None, capabilities: None, filter: ApplyFilter::default(), inputs: None }
    }

    /// What `payload` is to be filtered by now.
    pub(crate) fn update(
        &mut self,
        payload: &Payload,
        spec: &ClusterVersionSpec,
        status: &ClusterVersionStatus,
        features: &Arc<Features>,
    ) {
        if self.inputs.as_ref().is_some_and(|inputs| inputs.are(payload, spec, features)) {
            return;
        }
        let history = status.history.iter().map(|entry| entry.version.as_str());
        let decided = self.gates_of(&payload.release.version, features).or_else(|| features.enabled(history));
        if let Some(decided) = decided.cloned() {
            self.gates = Some(decided);
        }
        let gates = self.gates.clone().unwrap_or_default();
        let before = match self.capabilities.take() {
            Some(capabilities) => capabilities.enabled,
            None => status.capabilities.enabled_capabilities.iter().cloned().collect(),
        };
        let wish = spec.capabilities.clone().unwrap_or_default();
        let wish = CapabilityInputs { spec: &wish, before: &before, always: &self.always, gates: &gates };
        let capabilities = Capabilities::of(&wish);
        // Gates that no manifest speaks of make no difference, and are no reason to begin again.
        let mentioned = payload.mentioned_gates();
        let feature_gates = gates.into_iter().filter(|gate| mentioned.contains(gate.as_str())).collect();
        self.filter = ApplyFilter {
            load: Filter {
                feature_set: Some(features.set.clone()),
                feature_gates: Some(feature_gates),
                major: Some(payload.major),
                ..self.base.clone()
            },
            capabilities: Some(capabilities.clone()),
            overrides: spec.overrides.clone(),
        };
        self.capabilities = Some(capabilities);
        self.inputs = Some(Inputs {
            image: payload.release.image.clone(),
            capabilities: spec.capabilities.clone(),
            overrides: spec.overrides.clone(),
            features: features.clone(),
        });
    }

    pub(crate) fn get(&self) -> &ApplyFilter {
        &self.filter
    }

    /// The load-time filter for a release that is about to be loaded.
    pub(crate) fn for_load(&self, version: &str, features: &Features) -> Filter {
        Filter {
            feature_set: Some(features.set.clone()),
            feature_gates: Some(self.gates_of(version, features).cloned().unwrap_or_default()),
            ..self.base.clone()
        }
    }

    fn gates_of<'a>(&'a self, version: &'a str, features: &'a Features) -> Option<&'a BTreeSet<String>> {
        features.enabled([version]).or(self.gates.as_ref())
    }

    /// Enables the capabilities that keep managed objects managed when `new` takes the place of `old`, and returns them.
    pub(crate) fn imply(&mut self, new: &Selection, old: &Selection) -> BTreeSet<String> {
        let Some(capabilities) = &mut self.capabilities else { return BTreeSet::new() };
        let none = BTreeSet::new();
        let implied = capabilities.imply(&new.loadable, &old.loadable, self.gates.as_ref().unwrap_or(&none));
        if !implied.is_empty() {
            self.filter.capabilities = Some(capabilities.clone());
        }
        implied
    }

    /// For status; empty before the first look at the spec.
    pub(crate) fn facts(&self) -> CapabilityFacts {
        let Some(Capabilities { known, enabled, implicit }) = &self.capabilities else {
            return CapabilityFacts::default();
        };
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect();
        CapabilityFacts { enabled: list(enabled), known: list(known), implicit: list(implicit) }
    }
}

#[cfg(test)]
mod tests;
