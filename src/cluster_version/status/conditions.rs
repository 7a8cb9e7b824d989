//! The conditions of ClusterVersion, one function each, and how they are written.

mod progress;

use crate::cluster_version::api::ClusterVersionStatus;
use crate::cluster_version::graph::Mode;
use crate::cluster_version::status::facts::{Conflict, KeptFields, LoadStatus, LoadStep, RolloutFacts, Unwatched};
use crate::cluster_version::status::failure::MESSAGE;
use crate::cluster_version::status::{Facts, release, upgradeable};
use crate::error::{CAUSE, listed, shortened};
use crate::object::condition;
use crate::object::condition::{Condition, ConditionStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) const AVAILABLE: &str = "Available";
pub(crate) const FAILING: &str = "Failing";
pub(crate) const PROGRESSING: &str = "Progressing";
pub(crate) const RELEASE_ACCEPTED: &str = "ReleaseAccepted";
pub(crate) const RETRIEVED_UPDATES: &str = "RetrievedUpdates";
pub(crate) const INVALID: &str = "Invalid";
pub(crate) const UPGRADEABLE: &str = "Upgradeable";
pub(crate) const IMPLICIT_CAPABILITIES: &str = "ImplicitlyEnabledCapabilities";
/// Another client keeps changing what the release defines.
pub(crate) const CONTESTED: &str = "Contested";
/// Objects that the release no longer contains still exist.
pub(crate) const DROPPED_OBJECTS: &str = "DroppedObjects";

/// The annotation of objects that are to stay although the release no longer contains them.
pub(crate) const KEEP: &str = "release.openshift.io/keep";

/// Changes of some kinds are noticed late.
pub(crate) const KINDS_NOT_WATCHED: &str = "KindsNotWatched";
/// The API server does not accept some fields as the release defines them.
pub(crate) const FIELDS_NOT_ACCEPTED: &str = "FieldsNotAccepted";

/// Reason of `Invalid`, and of `Progressing` while the spec is invalid.
pub(crate) const INVALID_CLUSTER_VERSION: &str = "InvalidClusterVersion";

/// Types that earlier daemons wrote and that nothing updates any more.
const RETIRED: [&str; 6] = [
    "UpgradeableAdminAckRequired",
    "UpgradeableDeletesInProgress",
    "UpgradeableClusterOperators",
    "UpgradeableClusterVersionOverrides",
    "UpgradeableUpgradeInProgress",
    "ImplicitlyEnabled",
];

/// At most this many objects, and fields of each, are named in a message, so that it stays readable.
const NAMED: usize = 10;

/// A condition to be written; writing finds out whether its status changed, and with it the transition time.
#[derive(Debug, PartialEq)]
struct NewCondition {
    type_: &'static str,
    status: ConditionStatus,
    reason: String,
    message: String,
}

impl NewCondition {
    /// Reason and message are bounded, whatever they are made of.
    fn new(type_: &'static str, status: ConditionStatus, reason: impl AsRef<str>, message: impl AsRef<str>) -> Self {
        let (reason, message) = (shortened(reason.as_ref(), CAUSE), shortened(message.as_ref(), MESSAGE));
        NewCondition { type_, status, reason: reason.into_owned(), message: message.into_owned() }
    }
}

/// Writes all conditions that follow from the facts. Others stay unchanged.
pub(super) fn write(status: &mut ClusterVersionStatus, facts: &Facts, now: &Time) {
    let decided = progress::conditions(facts, status.history.is_empty(), now.0);
    let conditions = &mut status.conditions;
    conditions.retain(|c| !RETIRED.contains(&c.type_.as_str()));
    set_or_default(conditions, AVAILABLE, available(facts), now);
    for new in decided {
        set(conditions, new, now);
    }
    if let Some(new) = facts.load.as_ref().map(release_accepted) {
        set(conditions, new, now);
    }
    set_or_default(conditions, RETRIEVED_UPDATES, retrieved_updates(facts), now);
    set_or_remove(conditions, INVALID, invalid(&facts.invalid), now);
    // Until everything has been read, what the process before has said stays.
    if let Some(risks) = &facts.risks {
        let text = upgradeable::text(risks, &release::actual(facts).version);
        let not = |(reason, message)| NewCondition::new(UPGRADEABLE, ConditionStatus::False, reason, message);
        set_or_remove(conditions, UPGRADEABLE, text.map(not), now);
    }
    set(conditions, implicit_capabilities(facts), now);
    let rollout = facts.rollout.as_ref();
    set_or_remove(conditions, CONTESTED, rollout.and_then(contested), now);
    // While it is not known which of them exist, what the process before has said stays.
    if facts.dropped.is_some() || facts.mode() != Mode::Reconcile {
        set_or_remove(conditions, DROPPED_OBJECTS, dropped_objects(facts), now);
    }
    set_or_remove(conditions, KINDS_NOT_WATCHED, rollout.and_then(|it| kinds_not_watched(&it.unwatched)), now);
    set_or_remove(conditions, FIELDS_NOT_ACCEPTED, rollout.and_then(|it| fields_not_accepted(&it.kept)), now);
}

/// `lastTransitionTime` moves only when the status changes; reason and message are always the latest.
fn set(conditions: &mut Vec<Condition>, new: NewCondition, now: &Time) {
    match conditions.iter_mut().find(|c| c.type_ == new.type_) {
        Some(current) => {
            if current.status != new.status {
                current.last_transition_time = now.clone();
            }
            current.status = new.status;
            current.reason = new.reason;
            current.message = new.message;
        }
        None => conditions.push(Condition {
            type_: new.type_.to_owned(),
            status: new.status,
            last_transition_time: now.clone(),
            reason: new.reason,
            message: new.message,
        }),
    }
}

fn set_or_remove(conditions: &mut Vec<Condition>, type_: &str, new: Option<NewCondition>, now: &Time) {
    match new {
        Some(new) => set(conditions, new, now),
        None => conditions.retain(|c| c.type_ != type_),
    }
}

/// With nothing new to say an existing condition stays; a missing one is added as False without a reason.
fn set_or_default(conditions: &mut Vec<Condition>, type_: &'static str, new: Option<NewCondition>, now: &Time) {
    match new {
        Some(new) => set(conditions, new, now),
        None if condition::find(conditions, type_).is_none() => {
            set(conditions, NewCondition::new(type_, ConditionStatus::False, "", ""), now);
        }
        None => {}
    }
}

/// True once a release was applied, and during later updates and failures: it does not say that the cluster is healthy.
fn available(facts: &Facts) -> Option<NewCondition> {
    let release = release::actual(facts);
    facts.is_completed().then(|| {
        NewCondition::new(AVAILABLE, ConditionStatus::True, "", format!("Done applying {}", release::label(&release)))
    })
}

fn release_accepted(load: &LoadStatus) -> NewCondition {
    let (reason, mut message) = (load.step.reason(), load.text());
    let status = match (&load.outcome, load.step) {
        (Some(Err(_)), _) => {
            if load.tries > 1 {
                message.push_str(&format!(" (tried {} times)", load.tries));
            }
            ConditionStatus::False
        }
        (Some(Ok(())), LoadStep::PayloadLoaded) => {
            if !load.release.architecture.is_empty() {
                message.push_str(&format!(" architecture=\"{}\"", load.release.architecture));
            }
            ConditionStatus::True
        }
        // After a step that succeeded comes the next one: only the last makes the release accepted.
        _ => {
            if !load.message.is_empty() {
                message.push_str(&format!(": {}", load.message));
            }
            match load.tries {
                0 => {}
                1 => message.push_str(" (refused once before)"),
                tries => message.push_str(&format!(" (refused {tries} times before)")),
            }
            ConditionStatus::Unknown
        }
    };
    NewCondition::new(RELEASE_ACCEPTED, status, reason, message)
}

fn retrieved_updates(facts: &Facts) -> Option<NewCondition> {
    facts.retrieval.as_ref().map(|retrieval| match &retrieval.outcome {
        Ok(message) => NewCondition::new(RETRIEVED_UPDATES, ConditionStatus::True, "", message),
        Err((reason, message)) => NewCondition::new(RETRIEVED_UPDATES, ConditionStatus::False, reason, message),
    })
}

/// Present only while the spec is invalid.
fn invalid(errors: &[String]) -> Option<NewCondition> {
    const LEAD: &str = "The cluster version is invalid:";
    let message = match errors {
        [] => return None,
        [one] => format!("{LEAD} {one}"),
        several => {
            let rest = |n| format!("and {n} more");
            format!("{LEAD}\n* {}\n", listed(several, "\n* ", MESSAGE - LEAD.len() - 4, rest))
        }
    };
    Some(NewCondition::new(INVALID, ConditionStatus::True, INVALID_CLUSTER_VERSION, message))
}

fn implicit_capabilities(facts: &Facts) -> NewCondition {
    let mut names = facts.capabilities.implicit.clone();
    if names.is_empty() {
        let message = "Capabilities match configured spec";
        return NewCondition::new(IMPLICIT_CAPABILITIES, ConditionStatus::False, "AsExpected", message);
    }
    names.sort();
    let message = format!("These capabilities are enabled because their resources exist already: {}", names.join(", "));
    NewCondition::new(IMPLICIT_CAPABILITIES, ConditionStatus::True, "CapabilitiesImplicitlyEnabled", message)
}

/// Which objects other clients keep changing; left out while reconciling fails, which is more urgent.
fn contested(rollout: &RolloutFacts) -> Option<NewCondition> {
    let RolloutFacts { conflicts, failure, .. } = rollout;
    let failing = rollout.mode() == Mode::Reconcile && failure.is_some();
    if conflicts.is_empty() || failing {
        return None;
    }
    let message = format!("Another client keeps changing what the release defines: {}", some(conflicts, conflict_line));
    Some(NewCondition::new(CONTESTED, ConditionStatus::True, "FieldManagerConflict", message))
}

/// What the update has left behind; while it runs, operators may still remove it.
fn dropped_objects(facts: &Facts) -> Option<NewCondition> {
    let dropped = facts.dropped.as_ref().filter(|dropped| !dropped.is_empty() && facts.mode() == Mode::Reconcile)?;
    const LEAD: &str =
        "Objects of an earlier release that this one does not contain still exist, and nothing manages them:";
    let way_out = format!("Delete them, or annotate those that are to stay with {KEEP}=true");
    let room = MESSAGE - LEAD.len() - way_out.len() - 3;
    let names = listed(dropped, ", ", room, |n| format!("and {n} more, which the progress record names"));
    let message = format!("{LEAD} {names}. {way_out}");
    Some(NewCondition::new(DROPPED_OBJECTS, ConditionStatus::True, "NotInRelease", message))
}

fn conflict_line(conflict: &Conflict) -> String {
    let manager = match conflict.manager.as_str() {
        "" => "an unknown field manager".to_owned(),
        name => format!("field manager {name:?}"),
    };
    let fields = field_names(&conflict.fields);
    format!("{} by {manager} ({fields}; repaired {} times in ten minutes)", conflict.object, conflict.repairs)
}

fn field_names(fields: &[String]) -> String {
    let mut names: Vec<&str> = fields.iter().take(NAMED).map(String::as_str).collect();
    if fields.len() > NAMED {
        names.push("…");
    }
    if names.is_empty() { "fields unknown".to_owned() } else { names.join(", ") }
}

/// The first few, and how many more there are.
fn some<T>(all: &[T], line: impl Fn(&T) -> String) -> String {
    let mut lines: Vec<String> = all.iter().take(NAMED).map(line).collect();
    let unnamed = all.len().saturating_sub(NAMED);
    if unnamed > 0 {
        lines.push(format!("and {unnamed} more"));
    }
    lines.join("; ")
}

/// Present only while there are such kinds.
fn kinds_not_watched(unwatched: &[Unwatched]) -> Option<NewCondition> {
    let lines = some(unwatched, |kind| format!("{} ({})", kind.kind, shortened(&kind.cause, CAUSE)));
    let message = format!("These kinds cannot be watched, so changes of their objects are noticed late: {lines}");
    (!unwatched.is_empty())
        .then(|| NewCondition::new(KINDS_NOT_WATCHED, ConditionStatus::True, "CannotListOrWatch", message))
}

/// Present only while there are such fields.
fn fields_not_accepted(kept: &[KeptFields]) -> Option<NewCondition> {
    let lines = some(kept, |kept| format!("{} ({})", kept.object, field_names(&kept.fields)));
    let message = format!(
        "The API server, or a webhook, keeps these fields different from the release whatever is written: {lines}"
    );
    (!kept.is_empty()).then(|| NewCondition::new(FIELDS_NOT_ACCEPTED, ConditionStatus::True, "KeptByServer", message))
}
