//! Whether an update to a release may begin, once its payload is loaded: the same answer for the daemon, which waits or begins,
//! and for a plan of the update, which says what the daemon will do.

use super::risks::{RECOMMENDED as RECOMMENDED_CONDITION, RISKS_ACCEPTED, to_accept};
use crate::cluster_version::api::ClusterVersionStatus;
use crate::cluster_version::api::{HistoryEntry, HistoryState};
use crate::cluster_version::status::Risk;
use crate::cluster_version::status::release::same_digest;
use crate::cluster_version::status::upgradeable::reason;
use crate::diagnosis::Trouble;
use crate::error::{CAUSE, listed, shortened};
use crate::object::read::Read;
use crate::release::api::ComponentOverride;
use crate::release::api::{ConditionalUpdate, Release};
use crate::version;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as MetaCondition;
use semver::Version;
use std::cmp::Ordering;

/// Most bytes of all findings in one text.
const SUMMARY: usize = 3000;

/// Something that speaks against the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The name of the precondition, such as `ClusterVersionRollback`.
    pub precondition: &'static str,
    pub reason: String,
    /// The cause and the way out.
    pub message: String,
    /// The update does not begin unless it is forced. Otherwise it is only recorded.
    pub blocks: bool,
    /// Nor does it begin if it is forced.
    pub impossible: bool,
}

impl Finding {
    pub(crate) fn text(&self) -> String {
        format!("Precondition {} ({}): {}", self.precondition, self.reason, self.message)
    }
}

/// All that the answer depends on.
#[derive(Clone, Debug)]
pub(crate) struct Situation<'a> {
    /// The release that is asked for.
    pub target: &'a Release,
    pub status: &'a ClusterVersionStatus,
    pub overrides: &'a [ComponentOverride],
    /// The overrides make the daemon's own Deployment unmanaged.
    pub own_unmanaged: bool,
    /// What the Deployment of the release's daemon demands of a node, if none meets it.
    pub unplaced: &'a Read<String>,
    pub channel: &'a str,
    /// Why the cluster should stay at its minor version; `None` while not everything has been read.
    pub risks: Option<&'a [Risk]>,
    pub advice: Advice<'a>,
}

/// The newest answer of the update service, judged for this cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advice<'a> {
    pub available: &'a [Release],
    pub conditional: &'a [ConditionalUpdate],
    /// The last request succeeded.
    pub current: bool,
}

const ROLLBACK: &str = "ClusterVersionRollback";
const GIANT_HOP: &str = "ClusterVersionGiantHop";
const UPGRADEABLE: &str = "ClusterVersionUpgradeable";
const RECOMMENDED: &str = "ClusterVersionRecommendedUpdate";
const SUCCESSOR: &str = "ClusterVersionSuccessor";

const HEALTH: &str = "ClusterHealth";
/// Most of them that are recorded: the first ones say what to look at.
const HINDRANCES: usize = 10;

/// What in the cluster would hinder any update. It is recorded, and stops nothing: an update may be what repairs it.
pub(crate) fn of_hindrances(hindrances: &[Trouble]) -> Vec<Finding> {
    let finding = |Trouble { object, message, next_step }: &Trouble| {
        warns(HEALTH, "Hindrance", format!("{object}: {message}. {next_step}"))
    };
    hindrances.iter().take(HINDRANCES).map(finding).collect()
}

/// Everything that speaks against the update, in a fixed order. `force` changes nothing here: it decides what becomes of it.
pub(crate) fn check(situation: &Situation<'_>) -> Vec<Finding> {
    let (current, target) = (&situation.status.desired.version, &situation.target.version);
    let mut findings = Vec::new();
    match (version::parse(current), version::parse(target)) {
        (_, Err(error)) => findings.push(blocks(
            ROLLBACK,
            "InvalidDesiredVersion",
            format!("the version of the release cannot be compared: {error}"),
        )),
        (Err(error), Ok(_)) => findings.push(warns(
            ROLLBACK,
            "InvalidCurrentVersion",
            format!("the version of the cluster cannot be compared: {error}"),
        )),
        (Ok(current), Ok(target)) => {
            findings.extend(rollback(situation.status, &current, &target));
            findings.extend(giant_hop(&current, &target));
            findings.extend(upgradeable(situation, &current, &target));
        }
    }
    findings.extend(recommended(situation));
    findings.extend(successor(situation));
    findings.extend(placed(situation));
    findings
}

/// Whether the update may not begin, if it is forced or if it is not.
pub(crate) fn is_blocked(findings: &[Finding], forced: bool) -> bool {
    findings.iter().any(|finding| if forced { finding.impossible } else { finding.blocks })
}

/// All findings in one text; empty without any. If it is forced, the text says so of those that block.
pub(crate) fn summary(findings: &[Finding], forced: bool) -> String {
    let texts: Vec<String> = findings.iter().map(|finding| shortened(&finding.text(), CAUSE).into_owned()).collect();
    let lead = if forced && is_blocked(findings, false) && !is_blocked(findings, true) {
        "Forced in spite of what blocks the update: "
    } else {
        ""
    };
    match texts.as_slice() {
        [] => String::new(),
        [one] => format!("{lead}{one}"),
        several => format!("{lead}\n* {}", listed(several, "\n* ", SUMMARY, |n| format!("and {n} more"))),
    }
}

fn blocks(precondition: &'static str, reason: &str, message: String) -> Finding {
    Finding { precondition, reason: reason.to_owned(), message, blocks: true, impossible: false }
}

fn warns(precondition: &'static str, reason: &str, message: String) -> Finding {
    Finding { blocks: false, ..blocks(precondition, reason, message) }
}

fn minor(version: &Version) -> (u64, u64) {
    (version.major, version.minor)
}

/// The only way back is to the release before, or to the last one that completed, within the same minor version: others
/// were never tested.
fn rollback(status: &ClusterVersionStatus, current: &Version, target: &Version) -> Option<Finding> {
    if version::precedence(target, current) != Ordering::Less {
        return None;
    }
    let is_target = |entry: &&HistoryEntry| {
        version::parse(&entry.version).is_ok_and(|v| version::precedence(&v, target) == Ordering::Equal)
    };
    let (before, completed) = previous(status);
    let known = before.into_iter().chain(completed).find(is_target);
    if known.is_some() && minor(current) == minor(target) {
        return None;
    }
    let way = match before {
        Some(entry) if known.is_some() => {
            format!("{} was the release before, but of another minor version", entry.version)
        }
        Some(entry) => format!("the release before was {} ({})", entry.version, entry.image),
        None => "there was no release before".to_owned(),
    };
    let message = format!(
        "{target} is older than {current}, and the only way back is to the release before within one minor version: {way}"
    );
    Some(blocks(ROLLBACK, "LowDesiredVersion", message))
}

/// The newest entries of the history that are about another release than the present one: any, and one that completed.
fn previous(status: &ClusterVersionStatus) -> (Option<&HistoryEntry>, Option<&HistoryEntry>) {
    let desired = &status.desired;
    let differs = |entry: &&HistoryEntry| entry.version != desired.version || entry.image != desired.image;
    let mut others = status.history.iter().filter(differs);
    let before = others.next();
    let completed = before.into_iter().chain(others).find(|entry| entry.state == HistoryState::Completed);
    (before, completed)
}

/// Releases are only tested from the minor version before. From 4 the way leads to 5.0 from any minor version.
fn giant_hop(current: &Version, target: &Version) -> Option<Finding> {
    let refuse = |reason, what: String| {
        Some(blocks(GIANT_HOP, reason, format!("{what}: update to a release of the next minor version first")))
    };
    let to_five = (current.major, target.major, target.minor) == (4, 5, 0);
    if target.major > current.major && !to_five {
        return refuse("MajorVersionUpdate", format!("{target} has another major version than {current}"));
    }
    if target.major == current.major && target.minor > current.minor.saturating_add(1) {
        return refuse(
            "MultipleMinorVersionsUpdate",
            format!("{target} is more than one minor version ahead of {current}"),
        );
    }
    None
}

/// What keeps the cluster at its minor version blocks only updates to a later one.
fn upgradeable(situation: &Situation<'_>, current: &Version, target: &Version) -> Option<Finding> {
    let later = minor(target) > minor(current);
    let Some(risks) = situation.risks else {
        let message = "cluster operators and acknowledgements have not been read yet".to_owned();
        return later.then(|| blocks(UPGRADEABLE, "UnknownError", message));
    };
    if later {
        let reason = reason(risks)?;
        let texts: Vec<&str> = risks.iter().map(|risk| risk.message.as_str()).collect();
        return Some(blocks(UPGRADEABLE, &reason, listed(&texts, "; ", SUMMARY, |n| format!("and {n} more"))));
    }
    if situation.overrides.iter().any(|component| component.unmanaged) {
        let message = "spec.overrides makes objects unmanaged, which this update does not change either".to_owned();
        return Some(warns(UPGRADEABLE, "ClusterVersionOverridesSet", message));
    }
    let history = &situation.status.history;
    let from = history.iter().find(|entry| entry.state == HistoryState::Completed).or(history.last())?;
    let begun = version::parse(&from.version).ok().filter(|from| minor(from) < minor(current))?;
    let updating = history.first().is_some_and(|newest| newest.state == HistoryState::Partial);
    let reason = if begun.major < current.major {
        "MajorVersionClusterUpdateInProgress"
    } else {
        "MinorVersionClusterUpdateInProgress"
    };
    let message = format!("the update from {begun} to {current} is in progress, and goes on to {target} instead");
    (updating && minor(target) == minor(current)).then(|| warns(UPGRADEABLE, reason, message))
}

/// Whether the update service recommends the release for this cluster. A release that it does not know may be a build for
/// a test or from a mirror: that is recorded.
fn recommended(situation: &Situation<'_>) -> Option<Finding> {
    let Situation { target, advice, .. } = situation;
    // A plan may be of a release whose image is not known: then it is not known which one is meant.
    if target.image.is_empty() {
        return None;
    }
    let is_target = |release: &Release| same_digest(&release.image, &target.image);
    let conditional = advice.conditional.iter().find(|update| is_target(&update.release));
    if let Some(accepted) = conditional.and_then(|update| accepted(target, update)) {
        return Some(accepted);
    }
    if advice.available.iter().any(is_target) {
        return None;
    }
    if let Some(update) = conditional {
        return not_recommended(target, update);
    }
    let (version, channel) = (&target.version, situation.channel);
    if advice.available.iter().chain(advice.conditional.iter().map(|u| &u.release)).any(|r| r.version == *version) {
        let message = format!("the update service offers {version}, but with another image than {}", target.image);
        return Some(warns(RECOMMENDED, "UnknownUpdate", message));
    }
    if channel.is_empty() {
        let message = format!("whether {version} is recommended is not known, because spec.channel is empty");
        return Some(warns(RECOMMENDED, "NoChannel", message));
    }
    let message = if advice.current {
        format!("channel {channel} has no update from {} to {version}", situation.status.desired.version)
    } else {
        format!("whether {version} is recommended is not known: see condition RetrievedUpdates")
    };
    Some(warns(RECOMMENDED, "UnknownUpdate", message))
}

/// Without its own Deployment the new daemon would never take over, and two releases would be applied in turns.
fn successor(situation: &Situation<'_>) -> Option<Finding> {
    let message = "the daemon of the release could not take over: an override in spec.overrides makes the Deployment of the daemon \
                   unmanaged; remove it to update";
    let finding = || Finding { impossible: true, ..blocks(SUCCESSOR, "OwnDeploymentUnmanaged", message.to_owned()) };
    situation.own_unmanaged.then(finding)
}

/// A daemon that no node can run never takes over, and the one before it has ended by then.
fn placed(situation: &Situation<'_>) -> Option<Finding> {
    match situation.unplaced {
        Read::Absent => None,
        Read::Value(unmet) => {
            let message = format!("the daemon of the release could not take over: {unmet}");
            Some(blocks(SUCCESSOR, "NoNodeForDaemon", message))
        }
        Read::Failed(cause) => {
            let message = format!("whether a node can run the daemon of the release is not known: {cause}");
            Some(warns(SUCCESSOR, "NodesUnknown", message))
        }
    }
}

/// A conditional update that is recommended only because risks which apply are accepted: the history says so.
fn accepted(target: &Release, update: &ConditionalUpdate) -> Option<Finding> {
    let condition = verdict(update).filter(|c| c.status == "True" && c.reason == RISKS_ACCEPTED)?;
    let message = format!("{}: {}", target.version, condition.message.replace("\n\n", " "));
    Some(warns(RECOMMENDED, RISKS_ACCEPTED, message))
}

fn verdict(update: &ConditionalUpdate) -> Option<&MetaCondition> {
    update.conditions.iter().find(|condition| condition.type_ == RECOMMENDED_CONDITION)
}

/// A conditional update whose risks apply, or may apply.
fn not_recommended(target: &Release, update: &ConditionalUpdate) -> Option<Finding> {
    let condition = verdict(update);
    let (status, reason, message) = match condition {
        Some(MetaCondition { status, .. }) if status == "True" => return None,
        Some(condition) => (condition.status.as_str(), condition.reason.as_str(), condition.message.as_str()),
        None => ("Unknown", "UnknownConditionType", "its risks have not been evaluated yet"),
    };
    let lead =
        if status == "False" { "is not recommended for this cluster" } else { "may have risks for this cluster" };
    const FORCE: &str = "spec.desiredUpdate.force overrides that, and the check of the signature with it";
    let way_out = match to_accept(update).as_deref() {
        None | Some([]) => FORCE.to_owned(),
        Some(risks) => {
            let risks = listed(risks, ", ", CAUSE / 4, |n| format!("and {n} more"));
            format!("spec.desiredUpdate.acceptRisks with {risks} makes it recommended; {FORCE}")
        }
    };
    let message = format!("{} {lead}: {}. {way_out}", target.version, message.trim_end_matches('.'));
    Some(blocks(RECOMMENDED, reason, message))
}

#[cfg(test)]
mod tests;
