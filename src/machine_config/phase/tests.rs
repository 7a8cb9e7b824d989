use super::*;
use serde_json::{Value, json};

fn of(annotations: &Value, ready: &str) -> Option<NodePhase> {
    let annotations = annotations.as_object().unwrap().iter();
    let annotations: Value = annotations.map(|(key, value)| (format!("{GROUP}/{key}"), value.clone())).collect();
    let since = "2026-01-01T00:00:00Z";
    let condition = json!({"type": "Ready", "status": ready, "reason": "Kubelet", "lastTransitionTime": since});
    let node = json!({"metadata": {"name": "n", "annotations": annotations}, "status": {"conditions": [condition]}});
    NodePhase::of(&serde_json::from_value(node).unwrap(), &Target::new("b"))
}

fn phase_of(annotations: &Value) -> Option<Phase> {
    of(annotations, "True").map(|found| found.phase)
}

/// The annotations of a node as an update with a restart changes them.
#[test]
fn an_update_goes_through_its_phases() {
    assert_eq!(phase_of(&json!({})), None, "without an agent");
    let mut node = json!({"currentConfig": "a", "desiredConfig": "a", "state": "Done",
        "desiredDrain": "uncordon-a", "lastAppliedDrain": "uncordon-a"});
    for (key, value, expected) in [
        ("state", "Done", Some(Phase::Waiting)),
        ("desiredConfig", "b", Some(Phase::Told)),
        ("state", "Working", Some(Phase::Preparing)),
        ("desiredDrain", "drain-b", Some(Phase::Draining)),
        ("drainStarted", "2026-01-01T00:00:05Z", Some(Phase::Draining)),
        ("lastAppliedDrain", "drain-b", Some(Phase::Applying)),
        ("post-config-action", "Rebooting", Some(Phase::Restarting)),
        ("post-config-action", "", Some(Phase::Applying)),
        ("desiredDrain", "uncordon-b", Some(Phase::Uncordoning)),
        ("lastAppliedDrain", "uncordon-b", Some(Phase::Preparing)),
        ("currentConfig", "b", Some(Phase::Preparing)),
        ("state", "Done", None),
    ] {
        node[key] = json!(value);
        assert_eq!(phase_of(&node), expected, "{key} {value}");
    }
}

#[test]
fn what_keeps_a_node_is_said_and_since_when() {
    let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
    let drained = json!({"currentConfig": "a", "desiredConfig": "b", "state": "Working", "desiredDrain": "drain-b",
        "drainStarted": "2026-01-01T00:00:05Z", "drainBlocked": "pod x/y is kept"});
    let found = of(&drained, "True").unwrap();
    assert_eq!((found.message.as_str(), found.since), ("pod x/y is kept", at("2026-01-01T00:00:05Z")));
    let failed = json!({"currentConfig": "a", "desiredConfig": "b", "state": "Degraded", "reason": "no room"});
    let found = of(&failed, "True").unwrap();
    assert_eq!((found.phase, found.message.as_str()), (Phase::Degraded, "no room"));
    let done = json!({"currentConfig": "b", "desiredConfig": "b", "state": "Done"});
    let found = of(&done, "False").unwrap();
    assert_eq!((found.phase, found.message.as_str()), (Phase::Unavailable, "Ready=False (Kubelet)"));
    assert_eq!(found.since, at("2026-01-01T00:00:00Z"));
    assert_eq!(of(&done, "True"), None);
}
