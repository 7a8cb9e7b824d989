//! ClusterOperator: available, not degraded, and at the versions that its manifest lists.

use super::Verdict;
use super::observed::{Condition, Observed};
use crate::graph::Mode;
use crate::status::failure::{Effect, Reason, UpdateError};

/// Availability comes first, then degradation, then versions. A missing condition counts as not available or as degraded. An
/// install does not wait for versions and goes on past a degraded operator. `Progressing` and `Upgradeable` do not matter.
///
/// An operator that has never been available is not failing: it is given the time that a degraded one has. In an install
/// none has been; later one that says nothing about its availability has not.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    let name = desired.name();
    if let Some(error) = no_versions(desired) {
        return Verdict::Failing(error);
    }
    let Some(live) = live else {
        let message =
            format!("Cluster operator {name} does not exist yet; its operator or the next attempt creates it");
        return Verdict::Failing(error(Reason::ResourceNotFound, name, message, Effect::FailAfterInterval));
    };
    let available = live.condition("Available");
    if !Condition::is(available, "True") {
        let message = format!("Cluster operator {name} is not available");
        let silent = available.is_none_or(|condition| condition.status != "False");
        let effect = if silent || mode == Mode::Install { Effect::FailAfterInterval } else { Effect::Fail };
        let error = error(Reason::OperatorNotAvailable, name, message, effect);
        return Verdict::Failing(because("Available", available, error));
    }
    let degraded = live.condition("Degraded");
    if !Condition::is(degraded, "False") {
        let effect = if mode == Mode::Install { Effect::Report } else { Effect::FailAfterInterval };
        let message = format!("Cluster operator {name} is degraded");
        let error = error(Reason::OperatorDegraded, name, message, effect);
        return Verdict::Failing(because("Degraded", degraded, error));
    }
    if mode == Mode::Install {
        return Verdict::Ready;
    }
    match behind(&desired.versions(), &live.versions()) {
        None => Verdict::Ready,
        Some(behind) => {
            let message = format!("Cluster operator {name} is not yet at the release's versions: {behind}");
            let error = error(Reason::OperatorUpdating, name, message.clone(), Effect::Wait);
            Verdict::Waiting { reason: error.reason.to_string(), message, report: Some(error) }
        }
    }
}

/// Without versions in the manifest it is unknown when the operator has reached the release.
pub(crate) fn no_versions(desired: &Observed) -> Option<UpdateError> {
    let name = desired.name();
    desired.versions().is_empty().then(|| {
        let message = format!(
            "Cluster operator {name} declares no versions: its manifest in the release must list status.versions"
        );
        error(Reason::OperatorNoVersions, name, message, Effect::Fail)
    })
}

pub(crate) fn awaits(desired: &Observed, mode: Mode) -> Option<String> {
    if mode == Mode::Install {
        return Some("to be available".to_owned());
    }
    let versions: Vec<String> = desired.versions().iter().map(|(name, version)| format!("{name} {version}")).collect();
    if versions.is_empty() {
        return Some("to be available and not degraded".to_owned());
    }
    Some(format!("to be available, not degraded and at {}", versions.join(", ")))
}

/// Describes the desired versions that the operator does not report. Versions are compared as text. If a live name comes
/// twice, its first entry counts; other live names are ignored.
fn behind(desired: &[(&str, &str)], live: &[(&str, &str)]) -> Option<String> {
    let missing = desired.iter().filter_map(|(name, version)| match live.iter().find(|(n, _)| n == name) {
        Some((_, found)) if found == version => None,
        Some((_, found)) => Some(format!("{name} is at {found}, not {version}")),
        None => Some(format!("{name} reports no version, not {version}")),
    });
    let all: Vec<String> = missing.collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn error(reason: Reason, name: &str, message: String, effect: Effect) -> UpdateError {
    UpdateError { effect, names: vec![name.to_owned()], ..UpdateError::new(reason, message) }
}

/// Adds the operator's own condition as the cause; the outer message only names the operator.
fn because(type_: &str, condition: Option<Condition<'_>>, error: UpdateError) -> UpdateError {
    let cause = match condition {
        Some(c) => UpdateError::new(Reason::Other(c.reason.to_owned()), c.message),
        None => UpdateError::new(Reason::NoCondition, format!("the operator reports no condition {type_}")),
    };
    UpdateError { nested: vec![cause], ..error }
}
