use super::*;
use crate::machine_config::api::machine_config::{MachineConfigPoolSpec, MachineConfigPoolStatus, PoolConfiguration};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

fn node(annotations: &Value) -> NodeView {
    let annotations: BTreeMap<String, String> = annotations
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| (format!("{GROUP}/{key}"), value.as_str().unwrap().to_owned()))
        .collect();
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n", "annotations": annotations}})).unwrap();
    NodeView::of(&node)
}

#[test]
fn trouble_of_a_node_is_told_once_for_each_cause() {
    let good = node(&json!({"state": "Working", "desiredConfig": "b"}));
    let bad = node(&json!({"state": "Degraded", "desiredConfig": "b", "reason": "no room on the disk"}));
    let other = node(&json!({"state": "Degraded", "desiredConfig": "b", "reason": "a service does not start"}));
    let lost = node(&json!({"state": "Unreconcilable", "desiredConfig": "b", "reason": "disks differ"}));
    assert_eq!(trouble(&bad, &good), None);
    assert_eq!(trouble(&bad, &bad), None);
    let told = |before, after| trouble(before, after).unwrap();
    assert_eq!(told(&good, &bad), Notice::new(true, "NodeDegraded", "MachineConfig b: no room on the disk"));
    assert_eq!(told(&bad, &other), Notice::new(true, "NodeDegraded", "MachineConfig b: a service does not start"));
    let deviates = json!({"state": "Degraded", "currentConfig": "b", "desiredConfig": "b", "reason": "/etc/a differs"});
    let drift = Notice::new(true, "ConfigDriftDetected", "MachineConfig b: /etc/a differs");
    assert_eq!(trouble(&good, &node(&deviates)), Some(drift));
    assert_eq!(told(&good, &lost), Notice::new(true, "FailedToReconcile", "MachineConfig b: disks differ"));
}

#[test]
fn restart_of_a_node_is_told_when_it_begins() {
    let up = node(&json!({"state": "Working", "desiredConfig": "b"}));
    let away =
        json!({"post-config-action": "Rebooting", "rebootStarted": "2026-01-01T00:00:00Z", "desiredConfig": "b"});
    let away = node(&away);
    let expected = Notice::new(false, "Reboot", "The node is restarted for MachineConfig b");
    assert_eq!(restart(&up, &away), Some(expected));
    assert_eq!((restart(&away, &away), restart(&away, &up)), (None, None));
}

#[test]
fn long_drains_are_told_of_when_they_become_long() {
    let started: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let drain = Drain { started, failed: None };
    let blocked = node(&json!({"drainBlocked": "pod a/b is kept"}));
    let long = delayed(Delay::Usual, Delay::Long, &blocked, drain).unwrap();
    let text = "The node has been being drained for more than ten minutes, since 2026-01-01T00:00:00Z: pod a/b is kept";
    assert_eq!(long, Notice::new(true, "DrainThresholdExceeded", text));
    assert_eq!(delayed(Delay::Long, Delay::Long, &blocked, drain), None);
    let failed = delayed(Delay::Long, Delay::Failed, &node(&json!({})), drain).unwrap();
    let text = "The node has been being drained for more than an hour, and is tried again for ever, since \
                2026-01-01T00:00:00Z: pods have not ended";
    assert_eq!(failed, Notice::new(true, "DrainFailed", text));
    // They are waited for.
    let first = drain.delay_changes(started).unwrap();
    assert_eq!(drain.delay(first), Delay::Long);
    let second = drain.delay_changes(first).unwrap();
    assert_eq!((drain.delay(second), drain.delay_changes(second)), (Delay::Failed, None));
}

fn pool(target: &str, conditions: &[(&str, bool, &str)]) -> MachineConfigPool {
    let configuration = PoolConfiguration { name: target.to_owned(), ..PoolConfiguration::default() };
    let spec = MachineConfigPoolSpec { configuration, ..MachineConfigPoolSpec::default() };
    let conditions = conditions.iter().map(|(type_, holds, reason)| PoolCondition {
        type_: (*type_).to_owned(),
        status: if *holds { ConditionStatus::True } else { ConditionStatus::False },
        last_transition_time: None,
        reason: (*reason).to_owned(),
        message: format!("{type_} text"),
    });
    let status = MachineConfigPoolStatus { conditions: conditions.collect(), ..MachineConfigPoolStatus::default() };
    MachineConfigPool { status: Some(status), ..MachineConfigPool::new("worker", spec) }
}

#[test]
fn what_begins_in_a_pool_is_told_once() {
    let rest = pool("a", &[("Updated", true, ""), ("Updating", false, "")]);
    let begun = pool("b", &[("Updated", false, ""), ("Updating", true, "")]);
    let blocked =
        pool("b", &[("Updated", false, ""), ("Updating", true, ""), ("RolloutBlocked", true, "DrainBlocked")]);
    let end = pool("b", &[("Updated", true, ""), ("Updating", false, ""), ("RolloutBlocked", false, "")]);
    let plain = |reason, note| Notice::new(false, reason, note);
    assert_eq!(
        progress(&rest, &begun),
        [plain("RenderedConfigGenerated", "b was rendered from 0 MachineConfigs"), plain("Updating", "Updating text")]
    );
    assert_eq!(progress(&begun, &begun), []);
    assert_eq!(progress(&begun, &blocked), [Notice::new(true, "RolloutBlocked", "DrainBlocked: RolloutBlocked text")]);
    assert_eq!(progress(&blocked, &blocked), []);
    assert_eq!(progress(&blocked, &end), [plain("Completed", "All nodes have MachineConfig b")]);
}

#[test]
fn new_versions_and_troubles_of_the_operator_are_told() {
    let view = |version: &str, degraded: Option<&str>| {
        let status = degraded.map_or("False", |_| "True");
        let condition = json!({"type": "Degraded", "status": status, "reason": degraded.unwrap_or("AsExpected"),
            "message": "why", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let versions = json!([{"name": "operator", "version": version}]);
        let status = json!({"conditions": [condition], "versions": versions});
        OperatorView::of(serde_json::from_value(json!({"metadata": {}, "spec": {}, "status": status})).unwrap())
    };
    assert_eq!(reported(&view("1", None), &view("1", None)), []);
    let changed = Notice::new(false, "OperatorVersionChanged", "Nodes were brought from 1 to 2");
    assert_eq!(reported(&view("1", None), &view("2", None)), [changed]);
    let degraded = Notice::new(true, "OperatorDegraded", "WriteFailed: why");
    assert_eq!(reported(&view("1", None), &view("1", Some("WriteFailed"))), [degraded]);
    assert_eq!(reported(&view("1", Some("WriteFailed")), &view("1", Some("WriteFailed"))), []);
}
