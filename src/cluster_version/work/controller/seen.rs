//! What the controller sees at one moment. Each turn looks once, and all that it decides, writes, records and tells derives from
//! that: two looks at a rollout may be of two modes.

use super::ClusterVersionController;
use super::live::Live;
use super::retry;
use crate::cluster_version::api::ClusterVersionSpec;
use crate::cluster_version::graph::Mode;
use crate::cluster_version::progress;
use crate::cluster_version::rollout::{View, owner};
use crate::cluster_version::status::Risk;
use crate::cluster_version::status::facts::{KeptFields, Retrieval, Unwatched};
use crate::cluster_version::updates;
use crate::cluster_version::updates::advice::{Offered, Request};
use crate::cluster_version::updates::upgradeable;
use crate::cluster_version::updates::upgradeable::{NotUpgradeable, Sources};
use crate::cluster_version::updates::{FeatureGates, Target};
use crate::object::read::Read;
use crate::release::Features;
use crate::release::api::ComponentOverride;
use jiff::Timestamp;
use std::sync::Arc;

/// What the cluster, the rollout, the update service and the clock say at one moment. What the controller itself has decided before
/// is no part of it.
pub(super) struct Seen {
    pub at: Timestamp,
    pub live: Arc<Live>,
    /// Its spec without the fields that are not valid.
    pub spec: ClusterVersionSpec,
    /// What is wrong with those fields.
    pub invalid: Vec<String>,
    pub features: Arc<Features>,
    /// Those of the running release.
    pub gates: FeatureGates,
    /// The release that is asked for.
    pub target: Target,
    /// `None` before one begins.
    pub rollout: Option<Arc<View>>,
    pub unwatched: Vec<Unwatched>,
    pub kept_fields: Vec<KeptFields>,
    /// Another client has scaled the own Deployment to zero while nothing is being updated.
    pub scaled_to_zero: bool,
    /// Why the cluster should stay at its minor version; `None` while that is not known.
    pub risks: Option<Vec<Risk>>,
    /// What the update service is to be asked.
    pub request: Request,
    /// What came of that.
    pub retrieval: Option<Retrieval>,
    /// For the progress record.
    pub advice: Option<progress::Advice>,
}

impl Seen {
    /// `None` before a rollout begins.
    pub(super) fn mode(&self) -> Option<Mode> {
        self.rollout.as_ref().map(|rollout| rollout.mode())
    }
}

impl ClusterVersionController {
    /// `None` without a ClusterVersion.
    pub(super) fn look(&self, at: Timestamp) -> Option<Seen> {
        let live = self.live.live()?.clone();
        let (own, applier) = (&self.parts.own.release, &self.parts.applier);
        let features = self.parts.features.borrow().clone();
        let gates = FeatureGates::of(features.enabled([own.version.as_str()]));
        let errors = updates::validate(&self.parts.settings.name, gates, &live.spec, &live.status);
        let spec = updates::clear(&live.spec, &errors);
        let current = self.current.as_ref().map(|current| &current.rollout);
        let rollout = current.map(|rollout| rollout.view());
        let (unwatched, kept_fields) = current.map(|rollout| rollout.hindrances()).unwrap_or_default();
        let is_stopped =
            |view: &Arc<View>| view.mode() == Mode::Reconcile && applier.is_scaled_to_zero(&view.plan.own_deployment);
        let risks = rollout.as_ref().and_then(|view| self.risks(view, &spec.overrides));
        let request = request(&live.spec, &spec, gates, risks.as_deref());
        Some(Seen {
            at,
            invalid: errors.iter().map(ToString::to_string).chain(self.live.problems()).collect(),
            target: updates::choose(&spec, &live.status, own),
            scaled_to_zero: rollout.as_ref().is_some_and(is_stopped),
            retrieval: self.parts.advice.retrieval(&request),
            advice: self.parts.advice.record(),
            live,
            spec,
            features,
            gates,
            rollout,
            unwatched,
            kept_fields,
            risks,
            request,
        })
    }

    /// Brings up to date what depends on it.
    pub(super) fn take_in(&mut self, seen: &Seen) {
        let live = &seen.live;
        if let Some(refused) = &mut self.refused {
            refused.consider(retry::Terms { generation: live.generation, gates: seen.gates }, seen.at);
        }
        self.parts.applier.set_owner(owner(&self.parts.settings.name, &live.uid));
        self.filter.update(&self.accepted.payload, &seen.spec, &live.status, &seen.features);
        self.parts.advice.request(seen.request.clone(), || Offered::of(&live.status, &self.parts.own.release));
        self.follow_drained(seen);
        self.judge_load(seen);
    }

    fn risks(&self, view: &View, overrides: &[ComponentOverride]) -> Option<Vec<Risk>> {
        let current = self.current.as_ref()?;
        let (gates, acks) = self.parts.config_maps.gates_and_acks()?;
        let operators = self.not_upgradeable()?;
        let deletions = current.rollout.pending_deletions(view);
        Some(upgradeable::risks(&Sources {
            version: &self.accepted.payload.release.version,
            updating: view.mode() != Mode::Reconcile,
            overrides,
            deletions: &deletions,
            operators: &operators,
            gates: &gates,
            acks: &acks,
        }))
    }

    /// The cluster operators that speak against an update to another minor version; `None` before all have been read.
    fn not_upgradeable(&self) -> Option<Read<Vec<NotUpgradeable>>> {
        let operators = self.parts.applier.operators();
        operators.are_known().then(|| {
            let reports = operators.current();
            let conditions = reports.iter().map(|(name, report)| (name.as_str(), report.conditions.as_slice()));
            Read::Value(upgradeable::refusals(conditions))
        })
    }
}

/// What the update service is to be asked. `given` is the spec as it was given, and `valid` without its errors.
fn request(
    given: &ClusterVersionSpec,
    valid: &ClusterVersionSpec,
    gates: FeatureGates,
    risks: Option<&[Risk]>,
) -> Request {
    // A request for a version that is only offered once a risk is accepted is invalid until then: the risks count.
    let accepted = given.desired_update.iter().flat_map(|update| &update.accept_risks);
    let accepted = accepted.map(|risk| risk.name.clone()).collect();
    Request {
        // The URL as it was given, valid or not: without it the default service would be queried.
        upstream: given.upstream.clone(),
        channel: given.channel.clone(),
        cluster_id: given.cluster_id.clone(),
        architecture: valid.desired_update.as_ref().map(|update| update.architecture.clone()).unwrap_or_default(),
        accepted_risks: gates.accept_risks.then_some(accepted),
        own_risks: gates.accept_risks.then_some(risks).flatten().map(<[Risk]>::to_vec),
    }
}

#[cfg(test)]
mod tests;
