//! Whether the release that is asked for may be applied: gathers what the preconditions depend on, which are judged anew at
//! every turn.

use super::ClusterVersionController;
use super::loading::Load;
use crate::api::{ClusterVersionSpec, ClusterVersionStatus, OWN_DEPLOYMENT, Release};
use crate::graph::Mode;
use crate::payload::ObjectId;
use crate::payload::filter::makes_unmanaged;
use crate::read::Read;
use crate::status::Risk;
use crate::status::facts::Retrieval;
use crate::updates::preconditions::{self, Advice, Finding, Situation};
use crate::updates::upgradeable::{self, NotUpgradeable, Sources};
use crate::updates::{self, Target};

/// What speaks against this release. `own_deployment`: that of the daemon. `unplaced`: what it demands of a node and none meets. The newest answer of the update service counts, or
/// what the process before has published of one.
fn judge(
    release: &Release,
    spec: &ClusterVersionSpec,
    status: &ClusterVersionStatus,
    risks: Option<&[Risk]>,
    retrieval: Option<&Retrieval>,
    own_deployment: &ObjectId,
    unplaced: &Read<String>,
) -> Vec<Finding> {
    let advice = match retrieval.filter(|retrieval| retrieval.answered) {
        Some(answer) => {
            Advice { available: &answer.available, conditional: &answer.conditional, current: answer.outcome.is_ok() }
        }
        None => Advice {
            available: status.available_updates.as_deref().unwrap_or_default(),
            conditional: &status.conditional_updates,
            current: false,
        },
    };
    let (overrides, channel) = (spec.overrides.as_slice(), spec.channel.as_str());
    let own_unmanaged = makes_unmanaged(overrides, own_deployment);
    preconditions::check(&Situation {
        target: release,
        status,
        overrides,
        own_unmanaged,
        unplaced,
        channel,
        risks,
        advice,
    })
}

impl ClusterVersionController {
    /// That of the daemon itself.
    pub(super) fn own_deployment(&self) -> ObjectId {
        ObjectId::new("apps", "Deployment", &self.parts.namespace, OWN_DEPLOYMENT)
    }

    /// Judges the release that is loaded, if there is one.
    pub(super) fn judge_load(&mut self, spec: &ClusterVersionSpec, status: &ClusterVersionStatus) {
        let Some(release) = self.load.as_ref().and_then(|load| load.release().cloned()) else { return };
        let risks = self.risks(spec);
        let (retrieval, own) = (self.parts.advice.retrieval(), self.own_deployment());
        let unplaced = self.load.as_ref().map(Load::unplaced).unwrap_or_default();
        let findings = judge(&release, spec, status, risks.as_deref(), retrieval.as_ref(), &own, &unplaced);
        if let Some(load) = &mut self.load {
            load.judge(findings);
        }
    }

    /// Why the cluster should stay at its minor version; `None` while that is not known.
    pub(super) fn risks(&self, spec: &ClusterVersionSpec) -> Option<Vec<Risk>> {
        let mode = self.current.as_ref()?.rollout.view().mode();
        self.risks_in(mode, spec)
    }

    /// The same while the rollout is in this mode. It can complete at any moment: what is told together must be of one moment.
    pub(super) fn risks_in(&self, mode: Mode, spec: &ClusterVersionSpec) -> Option<Vec<Risk>> {
        let current = self.current.as_ref()?;
        let (gates, acks) = self.parts.config_maps.gates_and_acks()?;
        let operators = self.not_upgradeable()?;
        let deletions = current.rollout.pending_deletions(&current.rollout.view());
        Some(upgradeable::risks(&Sources {
            version: &self.accepted.payload.release.version,
            updating: mode != Mode::Reconcile,
            overrides: &spec.overrides,
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

    /// How the request was understood, if that needs to be said.
    pub(super) fn note_on(&self, spec: &ClusterVersionSpec, status: &ClusterVersionStatus) -> String {
        let Target { release, note, .. } = updates::choose(spec, status, &self.parts.own.release);
        let running = &self.accepted.payload.release;
        let install = self.current.as_ref().is_some_and(|c| c.rollout.view().mode() == Mode::Install);
        if install && release.image != running.image {
            return format!(
                "the request for {} waits until the install of {} has completed",
                release.version, running.version
            );
        }
        note
    }
}

#[cfg(test)]
mod tests;
