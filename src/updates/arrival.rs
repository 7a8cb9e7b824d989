//! Whether a cluster has the release that was asked for.

use crate::api::condition::find;
use crate::api::{ClusterVersion, ConditionStatus, HistoryState};
use crate::status::release::label;

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
    if let Some(refused) = told("ReleaseAccepted", ConditionStatus::False) {
        return Arrival::Refused(refused.message.clone());
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

    #[test]
    fn refusal_is_told() {
        let refused = object(2, "Completed", &[("Progressing", "False"), ("ReleaseAccepted", "False")]);
        assert_eq!(arrival(&refused, None), Arrival::Refused("ReleaseAccepted text".into()));
    }
}
