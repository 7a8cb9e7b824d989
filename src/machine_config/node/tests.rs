use super::*;
use serde_json::{Value, json};

fn facts(annotations: &Value, spec: &Value, conditions: &Value) -> NodeFacts {
    let annotations = annotations.as_object().unwrap().iter();
    let annotations: Value = annotations.map(|(key, value)| (format!("{GROUP}/{key}"), value.clone())).collect();
    let object = json!({
        "metadata": {"name": "n", "annotations": annotations, "labels": {ZONE_LABEL: "z"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec, "status": {"conditions": conditions},
    });
    NodeFacts::of(&serde_json::from_value(object).unwrap())
}

#[test]
fn node_is_read_from_its_annotations_and_conditions() {
    let annotations = json!({"currentConfig": "a", "desiredConfig": "b", "state": "Degraded", "reason": "no room", "currentImage": "",
        "desiredImage": "i", "cordonedFor": "b", "doneSince": "2026-01-02T00:00:00Z", "drainBlocked": "pod a/b", "toldFor": "17",
        "post-config-action": "Rebooting", "rebootStarted": "2026-01-04T00:00:00Z", "kubeletConfigDir": "/etc/k", "stageAhead": "c"});
    let conditions = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-01-03T00:00:00Z"},
        {"type": "MemoryPressure", "status": "True"}, {"type": "NetworkUnavailable", "status": "False"}]);
    let found = facts(&annotations, &json!({"unschedulable": true}), &conditions);
    let expected = NodeFacts {
        name: "n".into(),
        zone: Some("z".into()),
        created: "2026-01-01T00:00:00Z".parse().ok(),
        current: Target::new("a"),
        desired: Target { config: "b".into(), image: Some("i".into()) },
        state: NodeState::Degraded,
        reason: "no room".into(),
        unschedulable: true,
        cordoned_for_update: true,
        problems: vec![Problem {
            what: "Ready=Unknown (NodeStatusUnknown)".into(),
            since: "2026-01-03T00:00:00Z".parse().ok(),
        }],
        done_since: "2026-01-02T00:00:00Z".parse().ok(),
        told_for: Some("17".into()),
        restarting_since: "2026-01-04T00:00:00Z".parse().ok(),
        drain_blocked: Some("pod a/b".into()),
        kubelet_config_dir: Some("/etc/k".into()),
        stage_ahead: Some("c".into()),
    };
    assert_eq!(found, expected);
    assert!(found.is_failing() && !found.is_ready() && found.is_managed() && !found.is_changing());
    assert_eq!(found.back_by(), None, "its agent has told since that it failed");
    let restarting = json!({"currentConfig": "a", "desiredConfig": "b", "state": "Working", "post-config-action": "Rebooting",
        "rebootStarted": "2026-01-04T00:00:00Z"});
    let found = facts(&restarting, &json!({}), &json!([]));
    assert_eq!(found.back_by(), "2026-01-04T00:10:00Z".parse().ok());
    let back = json!({"state": "Working", "post-config-action": "", "rebootStarted": "2026-01-04T00:00:00Z"});
    assert_eq!(facts(&back, &json!({}), &json!([])).back_by(), None);
    let empty = facts(&json!({"doneSince": "yesterday", "state": "Sleeping"}), &json!({}), &json!([]));
    assert!(empty.is_ready() && !empty.is_managed() && empty.is_changing() && !empty.is_done());
    assert_eq!((empty.state, empty.done_since), (NodeState::Unknown, None));
}

#[test]
fn node_is_done_where_state_and_both_configurations_say_so() {
    for (current, desired, state, done) in [
        ("a", "a", "Done", true),
        ("a", "b", "Done", false),
        ("a", "a", "Working", false),
        ("a", "a", "Degraded", false),
        ("", "", "Done", false),
    ] {
        let annotations = json!({"currentConfig": current, "desiredConfig": desired, "state": state});
        let facts = facts(&annotations, &json!({}), &json!([]));
        assert_eq!(facts.is_done(), done, "{annotations}");
        assert_eq!(facts.is_at(&Target::new("a")), done && desired == "a");
    }
}

#[test]
fn what_others_may_have_written_at_a_node_is_bounded_and_on_one_line() {
    let annotations = json!({"state": "Degraded", "reason": "\u{1}x".repeat(125 << 10),
        "drainBlocked": format!("pod a/b\n{}", "y".repeat(9000)), "currentConfig": "c".repeat(9000), "desiredConfig": "d"});
    let conditions = json!([{"type": "Ready", "status": "Unknown", "reason": "\u{1b}z".repeat(9000)}]);
    let found = facts(&annotations, &json!({}), &conditions);
    let blocked = found.drain_blocked.unwrap();
    assert!(blocked.starts_with("pod a/b yyy"), "{blocked}");
    for text in [&found.reason, &blocked, &found.problems[0].what] {
        assert!(text.len() <= SAID && !text.contains(char::is_control), "{} bytes: {text}", text.len());
        assert_eq!(said(text), *text, "an agent recognizes what it has told");
    }
    assert_eq!(
        (found.current, found.desired),
        (Target::default(), Target::new("d")),
        "no MachineConfig has such a name"
    );
}
