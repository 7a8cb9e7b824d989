//! `cluster_version` and the other metrics about the ClusterVersion.

use super::{SeenClusterVersion, Snapshot};
use crate::cluster_version::api::{ClusterVersionStatus, HistoryEntry, HistoryState, Update};
use crate::cluster_version::status::conditions::{FAILING, RETRIEVED_UPDATES};
use crate::metrics::encoder::{Samples, Text, count, seconds, size};
use crate::object::condition::{ConditionStatus, find};
use crate::release::api::Release;
use jiff::Timestamp;

/// Stands for the update service that is queried if none is configured.
const DEFAULT_UPSTREAM: &str = "<default>";

pub(super) fn write(text: &mut Text, snapshot: &Snapshot) {
    let seen = snapshot.observation.as_ref().and_then(|observation| observation.cluster_version.as_deref());
    let help = "Versions of the cluster by their role, with a time in seconds since the epoch.";
    text.gauge("cluster_version", help, |samples| versions(samples, snapshot, seen));
    if let Some(seen) = seen {
        updates(text, snapshot, seen);
        capabilities(text, &seen.status);
        risks(text, &seen.status);
    }
    let help = "When updates were last retrieved, or were to be retrieved from elsewhere.";
    text.gauge("cluster_version_operator_update_retrieval_timestamp_seconds", help, |samples| {
        if let Some(at) = snapshot.retrieval.retrieved {
            samples.add(&[("name", "")], seconds(at));
        }
    });
    let Some(rollout) = snapshot.observation.as_ref().and_then(|observation| observation.rollout.as_ref()) else {
        return;
    };
    let version = ("version", rollout.version.as_str());
    let help = "Manifests of the release that are in place (applied) and that are not yet (pending).";
    text.gauge("cluster_version_payload", help, |samples| {
        samples.add(&[version, ("type", "pending")], size(rollout.total.saturating_sub(rollout.done)));
        samples.add(&[version, ("type", "applied")], size(rollout.done));
    });
    let help = "Failed attempts to apply a manifest of the release.";
    text.gauge("cluster_operator_payload_errors", help, |samples| {
        samples.add(&[version], count(rollout.errors));
    });
}

/// The release that is asked for, if one is.
pub(super) fn requested(seen: &SeenClusterVersion) -> Option<&Update> {
    seen.spec.desired_update.as_ref().filter(|update| !update.image.is_empty() || !update.version.is_empty())
}

/// An image counts more than a version: two images can carry one version.
fn differs(update: &Update, own: &Release) -> bool {
    if update.image.is_empty() { update.version != own.version } else { update.image != own.image }
}

/// The newest Completed entry.
pub(super) fn completed(status: &ClusterVersionStatus) -> Option<&HistoryEntry> {
    status.history.iter().find(|entry| entry.state == HistoryState::Completed)
}

fn versions(samples: &mut Samples, snapshot: &Snapshot, seen: Option<&SeenClusterVersion>) {
    let own = &snapshot.own;
    let last = seen.and_then(|seen| completed(&seen.status));
    let last_version = last.map_or("", |entry| entry.version.as_str());
    let mut add = |type_: &str, (version, image): (&str, &str), from: &str, at: Option<Timestamp>| {
        let labels = [("type", type_), ("version", version), ("image", image), ("from_version", from)];
        samples.add(&labels, at.map_or(0.0, seconds));
    };
    let running = (own.version.as_str(), own.image.as_str());
    add("current", running, last_version, snapshot.built);
    let Some(seen) = seen else { return };
    let history = &seen.status.history;
    if let Some(entry) = last {
        let before = history.iter().filter(|entry| entry.state == HistoryState::Completed).nth(1);
        let at = entry.completion_time.as_ref().map(|time| time.0);
        add("completed", (&entry.version, &entry.image), before.map_or("", |entry| &entry.version), at);
    }
    let initial = history.last();
    if let Some(entry) = initial {
        add("initial", (&entry.version, &entry.image), "", seen.created);
    }
    let installed = initial.filter(|_| last.is_some()).map_or("", |entry| entry.version.as_str());
    add("cluster", running, installed, seen.created);
    let target = requested(seen);
    if let Some(update) = target.filter(|update| differs(update, own)) {
        add("desired", (&update.version, &update.image), last_version, newest_time(seen));
    }
    let failing = find(&seen.status.conditions, FAILING).filter(|c| c.status == ConditionStatus::True);
    if let Some(failing) = failing {
        let subject = target.map_or(running, |update| (&update.version, &update.image));
        add("failure", subject, last_version, Some(failing.last_transition_time.0));
    }
    if let Some(entry) = history.first().filter(|entry| entry.state == HistoryState::Partial) {
        add("updating", (&entry.version, &entry.image), last_version, Some(entry.started_time.0));
    }
}

/// When the ClusterVersion last said something new.
fn newest_time(seen: &SeenClusterVersion) -> Option<Timestamp> {
    let entries = seen.status.history.iter();
    let of_history = entries.flat_map(|e| e.completion_time.iter().chain([&e.started_time]).map(|time| time.0));
    let of_conditions = seen.status.conditions.iter().map(|c| c.last_transition_time.0);
    of_history.chain(of_conditions).chain(seen.created).max()
}

fn updates(text: &mut Text, snapshot: &Snapshot, seen: &SeenClusterVersion) {
    let available = seen.status.available_updates.as_deref().unwrap_or_default();
    let retrieved = find(&seen.status.conditions, RETRIEVED_UPDATES).is_some_and(|c| c.status == ConditionStatus::True);
    let given = [snapshot.update_service.as_deref().unwrap_or_default(), &seen.spec.upstream];
    let upstream = given.into_iter().find(|url| !url.is_empty()).unwrap_or(DEFAULT_UPSTREAM);
    let help = "Updates that are available in the channel.";
    text.gauge("cluster_version_available_updates", help, |samples| {
        if retrieved || !available.is_empty() || !seen.spec.upstream.is_empty() {
            samples.add(&[("upstream", upstream), ("channel", &seen.spec.channel)], size(available.len()));
        }
    });
    let help = "When it was last found whether a conditional update is recommended.";
    text.gauge("cluster_version_conditional_update_condition_seconds", help, |samples| {
        for update in &seen.status.conditional_updates {
            for condition in update.conditions.iter().filter(|condition| condition.type_ == "Recommended") {
                let labels = [
                    ("version", update.release.version.as_str()),
                    ("condition", &condition.type_),
                    ("status", &condition.status),
                    ("reason", &condition.reason),
                ];
                samples.add(&labels, seconds(condition.last_transition_time.0));
            }
        }
    });
}

fn capabilities(text: &mut Text, status: &ClusterVersionStatus) {
    let capabilities = &status.capabilities;
    text.gauge("cluster_version_capability", "Known capabilities: 1 is enabled, 0 is not.", |samples| {
        capabilities.enabled_capabilities.iter().for_each(|name| samples.add(&[("name", name)], 1.0));
        capabilities.known_capabilities.iter().for_each(|name| samples.add(&[("name", name)], 0.0));
    });
}

fn risks(text: &mut Text, status: &ClusterVersionStatus) {
    let help = "Whether a risk of updates applies to this cluster: 1 it does, 0 it does not, -1 unknown.";
    text.gauge("cluster_version_risk_conditions", help, |samples| {
        for risk in &status.conditional_update_risks {
            for condition in risk.conditions.iter().filter(|condition| condition.type_ == "Applies") {
                let value = match condition.status.as_str() {
                    "True" => 1.0,
                    "False" => 0.0,
                    _ => -1.0,
                };
                let labels =
                    [("condition", condition.type_.as_str()), ("risk", &risk.name), ("reason", &condition.reason)];
                samples.add(&labels, value);
            }
        }
    });
}
