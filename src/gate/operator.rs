//! ClusterOperator: available, not degraded, and at the versions that its manifest lists.

use super::observed::{Condition, Observed};
use super::{Cause, Reason, Verdict};

/// Availability comes first, then degradation, then versions. A missing condition counts as not available or as degraded.
/// `Progressing` and `Upgradeable` do not matter.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>) -> Verdict {
    let name = desired.name();
    if desired.versions().is_empty() {
        let message = format!(
            "Cluster operator {name} declares no versions: its manifest in the release must list status.versions"
        );
        return Verdict::failing(Reason::NoVersions, &message, None);
    }
    let Some(live) = live else {
        let message =
            format!("Cluster operator {name} does not exist yet; its operator or the next attempt creates it");
        return Verdict::failing(Reason::NotFound, &message, None);
    };
    let available = live.condition("Available");
    if !Condition::is(available, "True") {
        let says_so = Condition::is(available, "False");
        let reason = if says_so { Reason::NotAvailable } else { Reason::AvailabilityUnknown };
        let message = format!("Cluster operator {name} is not available");
        return Verdict::failing(reason, &message, Some(cause("Available", available)));
    }
    let degraded = live.condition("Degraded");
    if !Condition::is(degraded, "False") {
        let message = format!("Cluster operator {name} is degraded");
        return Verdict::failing(Reason::Degraded, &message, Some(cause("Degraded", degraded)));
    }
    match behind(&desired.versions(), &live.versions()) {
        None => Verdict::Ready,
        Some(behind) => {
            let message = format!("Cluster operator {name} is not yet at the release's versions: {behind}");
            Verdict::waiting(Reason::OtherVersions, message)
        }
    }
}

pub(crate) fn awaits(desired: &Observed) -> String {
    let versions: Vec<String> = desired.versions().iter().map(|(name, version)| format!("{name} {version}")).collect();
    match versions.is_empty() {
        true => "to be available and not degraded".to_owned(),
        false => format!("to be available, not degraded and at {}", versions.join(", ")),
    }
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

/// The operator's own condition; the message of the verdict only names the operator.
fn cause(type_: &str, condition: Option<Condition<'_>>) -> Cause {
    let missing = || Cause { reason: None, message: format!("the operator reports no condition {type_}") };
    condition.map_or_else(missing, Cause::from)
}
