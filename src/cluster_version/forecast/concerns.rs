//! What will probably stop the update, and which webhooks may change what is written.

use super::{Action, Forecast, Step};
use crate::cluster_version::api::{ClusterVersion, HistoryState};
use crate::cluster_version::rollout::verdict::Unready;
use crate::cluster_version::updates::preconditions;
use crate::cluster_version::updates::preconditions::{Advice, Finding, Situation};
use crate::cluster_version::updates::upgradeable;
use crate::cluster_version::updates::upgradeable::{NotUpgradeable, Sources};
use crate::diagnosis::Trouble;
use crate::diagnosis::admission;
use crate::diagnosis::admission::Write;
use crate::machine_config::summary::QuorumAtRisk;
use crate::object::condition::ConditionStatus;
use crate::object::condition::find;
use crate::object::manifest::ObjectId;
use crate::object::read::Read;
use crate::release::api::Release;
use crate::release::filter::makes_unmanaged;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Something that may stop the update.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blocker {
    pub cause: Cause,
    pub severity: Severity,
    /// What it is about: `clusteroperator.config.openshift.io "network"`.
    pub object: String,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Cause {
    /// A precondition of the daemon, which judges it again before it begins.
    Precondition,
    /// The release is not signed as the running one demands.
    Signature,
    /// An operator or workload is unhealthy, so that its gate will not open.
    Unhealthy,
    /// The release defines something that cannot be done.
    Refused,
    /// A kind that the API server does not serve.
    NotServed,
    /// The API server is too old for what the release defines.
    ServerVersion,
    /// A missing permission.
    Permission,
    /// Another update is in progress.
    Order,
    /// Something in the cluster that would hinder any update.
    Cluster,
    /// An image that something in the cluster will have is not there.
    Image,
    /// An operator that was installed from a catalog.
    Operator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// The update will not be accepted, or will stop there until the cause is removed.
    Blocks,
    /// Worth checking before the update.
    Warns,
}

impl Blocker {
    pub(crate) fn new(cause: Cause, object: impl ToString, reason: &str, message: String) -> Blocker {
        Blocker { cause, severity: Severity::Blocks, object: object.to_string(), reason: reason.to_owned(), message }
    }

    pub(crate) fn warns(self) -> Blocker {
        Blocker { severity: Severity::Warns, ..self }
    }
}

/// The update is not stopped, but nothing is written in the cluster while the nodes are away.
pub(crate) fn quorum(QuorumAtRisk { object, reason, message }: QuorumAtRisk) -> Blocker {
    Blocker::new(Cause::Unhealthy, object, reason, message).warns()
}

/// What `cvo doctor` finds, whatever the release: worth checking before the update.
pub(crate) fn findings(troubles: Vec<Trouble>) -> impl Iterator<Item = Blocker> {
    troubles.into_iter().map(|trouble| {
        let message = format!("{}. {}", trouble.message, trouble.next_step);
        Blocker::new(Cause::Cluster, trouble.object, "", message).warns()
    })
}

/// What the present verdict of a gate means for the update. An operator that is not at the new version yet does not block,
/// nor does a workload that rolls out now and will be changed anyway.
pub(super) fn from_unready(id: &ObjectId, action: &Action, unready: &Unready) -> Option<Blocker> {
    let operator = id.kind == "ClusterOperator";
    if unready.is_wait() {
        let blocker = || Blocker::new(Cause::Unhealthy, id, &unready.reason, unready.message.clone()).warns();
        return (!operator && !action.writes()).then(blocker);
    }
    let blocker = Blocker::new(Cause::Unhealthy, id, unready.error.reason.as_str(), unready.error.whole());
    // The change may repair it.
    let changes = action.writes() && !operator;
    Some(if changes { blocker.warns() } else { blocker })
}

/// What the preconditions depend on beside the ClusterVersion, as read from the cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterState {
    pub operators: Read<Vec<NotUpgradeable>>,
    /// Data of the ConfigMaps with the gates and what was acknowledged of them.
    pub gates: Read<BTreeMap<String, String>>,
    pub acks: Read<BTreeMap<String, String>>,
    /// Objects that the running release deletes and that exist.
    pub deletions: Vec<String>,
    /// What the Deployment of the release's daemon demands of a node, if none meets it.
    pub unplaced: Read<String>,
}

/// What the daemon will say of an update to `target`: the preconditions, judged by its own functions.
pub(crate) fn preconditions(
    cluster: &ClusterVersion,
    state: &ClusterState,
    target: &Release,
    own_deployment: &ObjectId,
) -> Vec<Blocker> {
    let status = cluster.status.clone().unwrap_or_default();
    let is_true = |type_| find(&status.conditions, type_).is_some_and(|c| c.status == ConditionStatus::True);
    let risks = upgradeable::risks(&Sources {
        version: &status.desired.version,
        updating: is_true("Progressing"),
        overrides: &cluster.spec.overrides,
        deletions: &state.deletions,
        operators: &state.operators,
        gates: &state.gates,
        acks: &state.acks,
    });
    let findings = preconditions::check(&Situation {
        target,
        status: &status,
        overrides: &cluster.spec.overrides,
        own_unmanaged: makes_unmanaged(&cluster.spec.overrides, own_deployment),
        unplaced: &state.unplaced,
        channel: &cluster.spec.channel,
        risks: Some(&risks),
        advice: Advice {
            available: status.available_updates.as_deref().unwrap_or_default(),
            conditional: &status.conditional_updates,
            current: is_true("RetrievedUpdates"),
        },
    });
    let own = named(cluster);
    let blocker = |finding: Finding| {
        let blocker = Blocker::new(Cause::Precondition, &own, &finding.reason, finding.message);
        if finding.blocks { blocker } else { blocker.warns() }
    };
    findings.into_iter().map(blocker).collect()
}

/// What the ClusterVersion says of itself that is worth knowing before an update.
pub(crate) fn conditions(cluster: &ClusterVersion) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    let status = cluster.status.clone().unwrap_or_default();
    let own = named(cluster);
    if let Some(failing) = find(&status.conditions, "Failing").filter(|c| c.status == ConditionStatus::True) {
        let message = format!("the daemon reports Failing: {}", failing.message);
        blockers.push(Blocker::new(Cause::Unhealthy, &own, &failing.reason, message).warns());
    }
    if let Some(newest) = status.history.first().filter(|entry| entry.state != HistoryState::Completed) {
        let installed = status.history.iter().any(|entry| entry.state == HistoryState::Completed);
        let message = if installed {
            format!("{} is still being applied; requesting another release replaces it", newest.version)
        } else {
            format!(
                "the install of {} has not completed; a request for another release waits until it has",
                newest.version
            )
        };
        blockers.push(Blocker::new(Cause::Order, &own, "UpdateInProgress", message).warns());
    }
    blockers
}

fn named(cluster: &ClusterVersion) -> String {
    format!("clusterversion.config.openshift.io {:?}", cluster.metadata.name.as_deref().unwrap_or_default())
}

/// A webhook that is called for some of the planned writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Webhook {
    /// Name of the configuration.
    pub name: String,
    /// How many of the planned writes its rules match.
    pub writes: usize,
}

/// The admission webhook configurations whose rules match some planned write. `resource` gives the plural of a kind, by
/// `apiVersion` and kind. Selectors are not evaluated: a webhook that is named may still not be called.
pub(crate) fn webhooks(
    configurations: &[Value],
    forecast: &Forecast,
    resource: impl Fn(&str, &str) -> Option<String>,
) -> Vec<Webhook> {
    let mut found = Vec::new();
    for configuration in configurations {
        let matches = |step: &&Step| {
            let operations: &[&str] = match step.action {
                Action::Create => &["CREATE"],
                Action::Change { .. } => &["UPDATE"],
                Action::Replace { .. } => &["DELETE", "CREATE"],
                Action::Delete => &["DELETE"],
                Action::Leave { .. } | Action::Refused { .. } | Action::Unknown { .. } => return false,
            };
            let Some(plural) = resource(&step.api_version, &step.object.kind) else { return false };
            let version = step.api_version.rsplit('/').next().unwrap_or_default();
            operations.iter().any(|operation| {
                let write = Write {
                    group: &step.object.group,
                    version,
                    resource: &plural,
                    operation,
                    namespace: &step.object.namespace,
                };
                admission::hooks(configuration).any(|hook| admission::rules_name(hook, &write))
            })
        };
        let writes = forecast.steps().filter(matches).count();
        if writes > 0 {
            let name = configuration.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            found.push(Webhook { name: name.to_owned(), writes });
        }
    }
    found
}
