//! The conditions of ClusterVersion, one function each, and the rule by which they are written (cluster-version §2).

use crate::api::cluster_version::ClusterVersionStatus;
use crate::api::condition::{self, Condition, ConditionStatus};
use crate::graph::Mode;
use crate::status::facts::{Conflict, LoadStatus, LoadStep};
use crate::status::{Facts, progress, release};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub const AVAILABLE: &str = "Available";
pub const FAILING: &str = "Failing";
pub const PROGRESSING: &str = "Progressing";
pub const RELEASE_ACCEPTED: &str = "ReleaseAccepted";
pub const RETRIEVED_UPDATES: &str = "RetrievedUpdates";
pub const INVALID: &str = "Invalid";
pub const IMPLICIT_CAPABILITIES: &str = "ImplicitlyEnabledCapabilities";
/// Another client keeps changing what the release defines.
pub const CONTESTED: &str = "Contested";

/// Reason of `Invalid`, and of `Progressing` while the spec is invalid.
pub const INVALID_CLUSTER_VERSION: &str = "InvalidClusterVersion";

/// Types of earlier daemons that nobody keeps up to date any more.
const RETIRED: [&str; 6] = [
    "UpgradeableAdminAckRequired",
    "UpgradeableDeletesInProgress",
    "UpgradeableClusterOperators",
    "UpgradeableClusterVersionOverrides",
    "UpgradeableUpgradeInProgress",
    "ImplicitlyEnabled",
];

/// Objects and fields named in `Contested`, so that its message stays readable.
const CONFLICTS_NAMED: usize = 10;

/// What a condition should say; when it last changed is found out on writing.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    type_: &'static str,
    status: ConditionStatus,
    reason: String,
    message: String,
}

impl Said {
    pub(super) fn new(
        type_: &'static str,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Said { type_, status, reason: reason.into(), message: message.into() }
    }
}

/// Writes all conditions that the facts decide. Others, `Upgradeable` among them, stay as they are.
pub(super) fn write(status: &mut ClusterVersionStatus, facts: &Facts, now: &Time) {
    let decided = progress::conditions(facts, status.history.is_empty(), now.0);
    let conditions = &mut status.conditions;
    conditions.retain(|c| !RETIRED.contains(&c.type_.as_str()));
    set_or_default(conditions, AVAILABLE, available(facts), now);
    for said in decided {
        set(conditions, said, now);
    }
    if let Some(said) = facts.load.as_ref().map(release_accepted) {
        set(conditions, said, now);
    }
    set_or_default(conditions, RETRIEVED_UPDATES, retrieved_updates(facts), now);
    set_or_remove(conditions, INVALID, invalid(&facts.invalid), now);
    set(conditions, implicit_capabilities(facts), now);
    set_or_remove(conditions, CONTESTED, contested(facts), now);
}

/// `lastTransitionTime` moves only when the status changes; reason and message are always the latest.
fn set(conditions: &mut Vec<Condition>, said: Said, now: &Time) {
    match conditions.iter_mut().find(|c| c.type_ == said.type_) {
        Some(held) => {
            if held.status != said.status {
                held.last_transition_time = now.clone();
            }
            held.status = said.status;
            held.reason = said.reason;
            held.message = said.message;
        }
        None => conditions.push(Condition {
            type_: said.type_.to_owned(),
            status: said.status,
            last_transition_time: now.clone(),
            reason: said.reason,
            message: said.message,
        }),
    }
}

fn set_or_remove(conditions: &mut Vec<Condition>, type_: &str, said: Option<Said>, now: &Time) {
    match said {
        Some(said) => set(conditions, said, now),
        None => conditions.retain(|c| c.type_ != type_),
    }
}

/// Nothing new: what was said stays, and what was never said begins as False without a reason.
fn set_or_default(conditions: &mut Vec<Condition>, type_: &'static str, said: Option<Said>, now: &Time) {
    match said {
        Some(said) => set(conditions, said, now),
        None if condition::find(conditions, type_).is_none() => {
            set(conditions, Said::new(type_, ConditionStatus::False, "", ""), now);
        }
        None => {}
    }
}

/// True once a release was applied, and so through later updates and failures: it is no sign of health (§2.1).
fn available(facts: &Facts) -> Option<Said> {
    let release = release::actual(facts);
    facts
        .completed
        .then(|| Said::new(AVAILABLE, ConditionStatus::True, "", format!("Done applying {}", release::label(&release))))
}

fn release_accepted(load: &LoadStatus) -> Said {
    let (reason, mut message) = (load.step.reason(), load.text());
    let status = match (&load.outcome, load.step) {
        (Some(Err(_)), _) => ConditionStatus::False,
        (Some(Ok(())), LoadStep::PayloadLoaded) => {
            if !load.release.architecture.is_empty() {
                message.push_str(&format!(" architecture=\"{}\"", load.release.architecture));
            }
            ConditionStatus::True
        }
        // A step that ended well is followed by the next one: only the last makes the release accepted.
        _ => {
            if !load.message.is_empty() {
                message.push_str(&format!(": {}", load.message));
            }
            ConditionStatus::Unknown
        }
    };
    Said::new(RELEASE_ACCEPTED, status, reason, message)
}

fn retrieved_updates(facts: &Facts) -> Option<Said> {
    facts.retrieval.as_ref().map(|retrieval| match &retrieval.outcome {
        Ok(()) => Said::new(RETRIEVED_UPDATES, ConditionStatus::True, "", ""),
        Err((reason, message)) => Said::new(RETRIEVED_UPDATES, ConditionStatus::False, reason, message),
    })
}

/// Present only while the spec is invalid (§1.4).
fn invalid(errors: &[String]) -> Option<Said> {
    const LEAD: &str = "The cluster version is invalid:";
    let message = match errors {
        [] => return None,
        [one] => format!("{LEAD} {one}"),
        several => several.iter().fold(format!("{LEAD}\n"), |text, error| format!("{text}* {error}\n")),
    };
    Some(Said::new(INVALID, ConditionStatus::True, INVALID_CLUSTER_VERSION, message))
}

fn implicit_capabilities(facts: &Facts) -> Said {
    let mut names = facts.capabilities.implicit.clone();
    if names.is_empty() {
        let message = "Capabilities match configured spec";
        return Said::new(IMPLICIT_CAPABILITIES, ConditionStatus::False, "AsExpected", message);
    }
    names.sort();
    let message = format!("These capabilities are on because their resources exist already: {}", names.join(", "));
    Said::new(IMPLICIT_CAPABILITIES, ConditionStatus::True, "CapabilitiesImplicitlyEnabled", message)
}

/// Who works against the release, unless a failure while reconciling is the more urgent thing to look at.
fn contested(facts: &Facts) -> Option<Said> {
    let failing = facts.mode == Mode::Reconcile && facts.failure.is_some();
    if facts.conflicts.is_empty() || failing {
        return None;
    }
    let mut lines: Vec<String> = facts.conflicts.iter().take(CONFLICTS_NAMED).map(conflict_line).collect();
    let unnamed = facts.conflicts.len().saturating_sub(CONFLICTS_NAMED);
    if unnamed > 0 {
        lines.push(format!("and {unnamed} more"));
    }
    let message = format!("Somebody else keeps changing what the release defines: {}", lines.join("; "));
    Some(Said::new(CONTESTED, ConditionStatus::True, "FieldManagerConflict", message))
}

fn conflict_line(conflict: &Conflict) -> String {
    let manager = match conflict.manager.as_str() {
        "" => "an unknown field manager".to_owned(),
        name => format!("field manager {name:?}"),
    };
    let mut fields: Vec<&str> = conflict.fields.iter().take(CONFLICTS_NAMED).map(String::as_str).collect();
    if conflict.fields.len() > CONFLICTS_NAMED {
        fields.push("…");
    }
    let fields = if fields.is_empty() { "fields unknown".to_owned() } else { fields.join(", ") };
    format!("{} by {manager} ({fields}; repaired {} times in ten minutes)", conflict.object, conflict.repairs)
}
