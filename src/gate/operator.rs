//! ClusterOperator: available, not degraded, and at the versions its manifest names (payload-and-apply §6.1).

use super::Verdict;
use super::observed::{Observed, Seen};
use crate::graph::Mode;
use crate::status::failure::{Effect, Reason, UpdateError};

/// The rows of §6.1 in their order. `Progressing` and `Upgradeable` take no part.
pub fn judge(want: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    let name = want.name();
    if let Some(error) = no_versions(want) {
        return Verdict::Failing(error);
    }
    let Some(live) = live else {
        let message = format!("Cluster operator {name} does not exist yet; its operator or the next pass creates it");
        return Verdict::Failing(error(Reason::ResourceNotFound, name, message, Effect::Fail));
    };
    let available = live.condition("Available");
    if !Seen::is(available, "True") {
        let message = format!("Cluster operator {name} is not available");
        let error = error(Reason::OperatorNotAvailable, name, message, Effect::Fail);
        return Verdict::Failing(because("Available", available, error));
    }
    let degraded = live.condition("Degraded");
    if !Seen::is(degraded, "False") {
        let effect = if mode == Mode::Install { Effect::Report } else { Effect::FailAfterInterval };
        let message = format!("Cluster operator {name} is degraded");
        let error = error(Reason::OperatorDegraded, name, message, effect);
        return Verdict::Failing(because("Degraded", degraded, error));
    }
    if mode == Mode::Install {
        return Verdict::Ready;
    }
    match behind(&want.versions(), &live.versions()) {
        None => Verdict::Ready,
        Some(behind) => {
            let message = format!("Cluster operator {name} is not yet at the release's versions: {behind}");
            let error = error(Reason::OperatorUpdating, name, message.clone(), Effect::Wait);
            Verdict::Waiting { reason: error.reason.to_string(), message, report: Some(error) }
        }
    }
}

/// A manifest that does not say which versions to wait for cannot be waited for (§6.1).
pub fn no_versions(want: &Observed) -> Option<UpdateError> {
    let name = want.name();
    want.versions().is_empty().then(|| {
        let message = format!(
            "Cluster operator {name} does not declare versions: its manifest in the release must list status.versions"
        );
        error(Reason::OperatorNoVersions, name, message, Effect::Fail)
    })
}

/// See the rows above: what they pass over, nobody waits for.
pub fn awaits(want: &Observed, mode: Mode) -> Option<String> {
    if mode == Mode::Install {
        return Some("to be available".to_owned());
    }
    let versions: Vec<String> = want.versions().iter().map(|(name, version)| format!("{name} {version}")).collect();
    if versions.is_empty() {
        return Some("to be available and not degraded".to_owned());
    }
    Some(format!("to be available, not degraded and at {}", versions.join(", ")))
}

/// Wanted versions that the operator does not report, in words. The first live entry of a name counts; the text must
/// be exactly the same; further live entries do not matter.
fn behind(wanted: &[(&str, &str)], live: &[(&str, &str)]) -> Option<String> {
    let missing = wanted.iter().filter_map(|(name, version)| match live.iter().find(|(n, _)| n == name) {
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

/// Keeps what the operator says of itself as the cause; the outer message only names the operator.
fn because(type_: &str, condition: Option<Seen<'_>>, error: UpdateError) -> UpdateError {
    let cause = match condition {
        Some(seen) => UpdateError::new(Reason::Other(seen.reason.to_owned()), seen.message),
        None => UpdateError::new(Reason::NoCondition, format!("the operator reports no condition {type_}")),
    };
    UpdateError { nested: vec![cause], ..error }
}
