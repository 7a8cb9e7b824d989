//! Whether the release that is asked for may be applied: gathers what the preconditions depend on, which are judged anew at
//! every turn.

use super::ClusterVersionController;
use super::seen::Seen;
use crate::cluster_version::api::{ClusterVersionSpec, ClusterVersionStatus, OWN_DEPLOYMENT};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::status::Risk;
use crate::cluster_version::status::facts::Retrieval;
use crate::cluster_version::updates::Target;
use crate::cluster_version::updates::preconditions;
use crate::cluster_version::updates::preconditions::{Advice, Finding, Situation};
use crate::object::manifest::ObjectId;
use crate::object::read::Read;
use crate::release::api::Release;
use crate::release::filter::makes_unmanaged;

/// What speaks against this release. `own_deployment`: that of the daemon. `unplaced`: what it demands of a node and none
/// meets. The newest answer of the update service counts, or what the process before has published of one.
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
        ObjectId::new("apps", "Deployment", &self.parts.settings.namespace, OWN_DEPLOYMENT)
    }

    /// Judges the release that is loaded, if there is one.
    pub(super) fn judge_load(&mut self, seen: &Seen) {
        let own = self.own_deployment();
        let Some(load) = &mut self.load else { return };
        let Some(release) = load.release() else { return };
        let (risks, retrieval, unplaced) = (seen.risks.as_deref(), seen.retrieval.as_ref(), load.unplaced());
        let findings = judge(release, &seen.spec, &seen.live.status, risks, retrieval, &own, &unplaced);
        load.judge(findings);
    }

    /// How the request was understood, if that needs to be said.
    pub(super) fn note_on(&self, seen: &Seen) -> String {
        let Target { release, note, .. } = &seen.target;
        let running = &self.accepted.payload.release;
        if seen.mode() == Some(Mode::Install) && release.image != running.image {
            return format!(
                "the request for {} waits until the install of {} has completed",
                release.version, running.version
            );
        }
        note.clone()
    }
}

#[cfg(test)]
mod tests;
