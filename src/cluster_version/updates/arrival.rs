//! Whether a cluster has the release that was asked for.

use crate::cluster_version::api::Update;
use crate::cluster_version::api::{ClusterVersion, HistoryState};
use crate::cluster_version::status::release::{label, same_digest};
use crate::object::condition::ConditionStatus;
use crate::object::condition::find;
use crate::release::api::Release;

/// What stands in condition `Invalid` if it is about the request: of other fields the daemon only ignores what they say.
const OF_REQUEST: [&str; 2] = ["spec.desiredUpdate.", "spec: Invalid: cannot be read"];

/// How far a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The release is completed, and nothing else is asked for.
    There(String),
    /// The daemon does not accept what is asked for at present; it tries again by itself.
    Refused(String),
    /// What is done, or waited for.
    Waiting(String),
}

/// `to`: the version that is waited for; without it the one that is asked for last.
pub(crate) fn arrival(object: &ClusterVersion, to: Option<&str>) -> Arrival {
    let Some(status) = &object.status else {
        return Arrival::Waiting("the daemon has not written a status yet".into());
    };
    if object.metadata.generation.is_some_and(|generation| generation > status.observed_generation) {
        return Arrival::Waiting("the daemon has not seen the last change of the ClusterVersion yet".into());
    }
    let told = |type_: &str, is: ConditionStatus| find(&status.conditions, type_).filter(|it| it.status == is);
    let invalid = told("Invalid", ConditionStatus::True);
    let invalid = invalid.filter(|it| OF_REQUEST.iter().any(|words| it.message.contains(words)));
    if let Some(refused) = invalid.or_else(|| told("ReleaseAccepted", ConditionStatus::False)) {
        return Arrival::Refused(refused.message.clone());
    }
    // The request has been seen and the release is looked at, while the status still shows the one before.
    if let Some(unknown) = told("ReleaseAccepted", ConditionStatus::Unknown) {
        return Arrival::Waiting(unknown.message.clone());
    }
    if let Some(asked) = object.spec.desired_update.as_ref().and_then(|asked| unmet(asked, &status.desired)) {
        return Arrival::Waiting(format!("{asked} is asked for, and the cluster is at {}", label(&status.desired)));
    }
    let newest = status.history.first().filter(|entry| to.is_none_or(|to| entry.version == to));
    let completed = newest.is_some_and(|newest| newest.state == HistoryState::Completed);
    match told("Progressing", ConditionStatus::False) {
        Some(_) if completed => Arrival::There(format!("{} is completed", label(&status.desired))),
        _ => {
            let progressing = find(&status.conditions, "Progressing").map(|it| it.message.clone());
            let failing = told("Failing", ConditionStatus::True).map(|it| format!("; failing: {}", it.message));
            let progressing = progressing.unwrap_or_else(|| "nothing tells how far it is".to_owned());
            Arrival::Waiting(format!("{progressing}{}", failing.unwrap_or_default()))
        }
    }
}

/// What of the request is not what the cluster has or is being brought to.
fn unmet(asked: &Update, desired: &Release) -> Option<String> {
    let other = |asked: &str, has: &str| !asked.is_empty() && asked != has;
    if other(&asked.image, &desired.image) && !same_digest(&asked.image, &desired.image) {
        return Some(asked.image.clone());
    }
    if asked.image.is_empty() && other(&asked.version, &desired.version) {
        return Some(asked.version.clone());
    }
    other(&asked.architecture, &desired.architecture).then(|| format!("architecture {}", asked.architecture))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const TIME: &str = "2026-01-01T00:00:00Z";

    fn object(observed: i64, state: &str, conditions: &[(&str, &str)]) -> ClusterVersion {
        let condition = |(type_, status): &(&str, &str)| -> Value {
            json!({"type": type_, "status": status, "message": format!("{type_} text"), "lastTransitionTime": TIME})
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        let entry = json!({"state": state, "startedTime": TIME, "version": "1.0.1", "image": "i"});
        serde_json::from_value(json!({
            "metadata": {"name": "version", "generation": 2},
            "spec": {"clusterID": "c"},
            "status": {
                "desired": {"version": "1.0.1", "image": "i"}, "history": [entry], "observedGeneration": observed,
                "versionHash": "h", "availableUpdates": null, "conditions": conditions,
            },
        }))
        .unwrap()
    }

    #[test]
    fn release_is_there_once_it_is_completed_and_nothing_else_is_asked_for() {
        let rest = [("Progressing", "False"), ("ReleaseAccepted", "True")];
        let there = Arrival::There("1.0.1 is completed".to_owned());
        assert_eq!(arrival(&object(2, "Completed", &rest), None), there);
        assert_eq!(arrival(&object(2, "Completed", &rest), Some("1.0.1")), there);
        for (object, to) in [
            (object(2, "Completed", &rest), Some("1.0.2")),
            (object(2, "Partial", &rest), None),
            (object(1, "Completed", &rest), None),
            (object(2, "Completed", &[("Progressing", "True")]), None),
            (object(2, "Completed", &[]), None),
        ] {
            assert!(matches!(arrival(&object, to), Arrival::Waiting(_)), "{:?}", object.status);
        }
        let failing = object(2, "Partial", &[("Progressing", "True"), ("Failing", "True")]);
        assert_eq!(arrival(&failing, None), Arrival::Waiting("Progressing text; failing: Failing text".into()));
    }

    /// Right after `cvo upgrade` the status may still be that of the release before, except for what the daemon says of the request.
    #[test]
    fn request_that_has_just_been_made_is_waited_for() {
        let rest = [("Progressing", "False"), ("ReleaseAccepted", "True")];
        let asked = |update: Value| {
            let mut object = object(2, "Completed", &rest);
            object.spec.desired_update = serde_json::from_value(update).unwrap();
            arrival(&object, None)
        };
        let loading = object(2, "Completed", &[("Progressing", "False"), ("ReleaseAccepted", "Unknown")]);
        assert_eq!(arrival(&loading, None), Arrival::Waiting("ReleaseAccepted text".into()));
        for (update, what) in [
            (json!({"version": "1.1.0"}), "1.1.0"),
            (json!({"image": "r/a@sha256:ab"}), "r/a@sha256:ab"),
            (json!({"image": "other", "version": "1.0.1"}), "other"),
            (json!({"architecture": "Multi", "version": "1.0.1"}), "architecture Multi"),
        ] {
            let expected = Arrival::Waiting(format!("{what} is asked for, and the cluster is at 1.0.1"));
            assert_eq!(asked(update), expected);
        }
        for update in [json!({"version": "1.0.1"}), json!({"image": "i"}), json!({"acceptRisks": [{"name": "A"}]})] {
            assert!(matches!(asked(update.clone()), Arrival::There(_)), "{update}");
        }
    }

    #[test]
    fn refusal_is_told() {
        let invalid = |message: &str| {
            let conditions = [("Progressing", "False"), ("ReleaseAccepted", "True"), ("Invalid", "True")];
            let mut object = object(2, "Completed", &conditions);
            object.status.as_mut().unwrap().conditions[2].message = message.into();
            object
        };
        for message in [
            "The cluster version is invalid: spec.desiredUpdate.version: Invalid value: \"1\": x",
            "The cluster version is invalid:\n* spec.upstream: x\n* spec.desiredUpdate.acceptRisks: Forbidden: x\n",
            "The cluster version is invalid: spec: Invalid: cannot be read: x",
        ] {
            for to in [None, Some("1.0.2")] {
                assert_eq!(arrival(&invalid(message), to), Arrival::Refused(message.into()));
            }
        }
        // The daemon updates nevertheless.
        for field in ["spec.upstream", "spec.clusterID", "spec.signatureStores", "metadata.name"] {
            let ignored = invalid(&format!("The cluster version is invalid: {field}: Forbidden: x"));
            assert_eq!(arrival(&ignored, None), Arrival::There("1.0.1 is completed".into()), "{field}");
        }
        let refused = object(2, "Completed", &[("Progressing", "False"), ("ReleaseAccepted", "False")]);
        assert_eq!(arrival(&refused, None), Arrival::Refused("ReleaseAccepted text".into()));
    }
}
