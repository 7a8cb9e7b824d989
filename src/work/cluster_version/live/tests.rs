use super::*;
use serde_json::json;

fn object(name: &str, rv: u64, spec: Value) -> Change {
    Change::Applied(Box::new(json!({"metadata": {"name": name, "resourceVersion": rv.to_string(), "generation": rv,
        "uid": "u"}, "spec": spec})))
}

#[test]
fn second_cluster_version_is_named_until_it_is_deleted() {
    let mut latest = Latest::new("version");
    latest.on_change(object("version", 1, json!({"clusterID": "a"})));
    latest.on_change(object("other", 2, json!({})));
    assert!(latest.problems().first().unwrap().contains("\"other\""));
    assert_eq!(latest.live().unwrap().spec.cluster_id, "a");
    latest.on_change(Change::Deleted("other".into()));
    assert!(latest.problems().is_empty());
}

#[test]
fn cluster_version_that_is_being_deleted_counts_as_deleted() {
    let mut latest = Latest::new("version");
    latest.on_change(object("version", 1, json!({"clusterID": "a"})));
    let terminating = json!({"metadata": {"name": "version", "resourceVersion": "2", "uid": "u",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]}, "spec": {}});
    latest.on_change(Change::Applied(Box::new(terminating)));
    assert!(latest.live().is_none());
    // A new one may have any resource version.
    latest.on_change(object("version", 1, json!({"clusterID": "b"})));
    assert_eq!(latest.live().unwrap().spec.cluster_id, "b");
}

#[test]
fn older_event_and_unreadable_spec_change_nothing() {
    let mut latest = Latest::new("version");
    latest.on_change(object("version", 5, json!({"channel": "new"})));
    latest.on_change(object("version", 4, json!({"channel": "old"})));
    assert_eq!(latest.live().unwrap().spec.channel, "new");
    latest.on_change(object("version", 6, json!({"channel": 7})));
    assert_eq!(latest.live().unwrap().spec.channel, "new");
    assert!(latest.problems().first().unwrap().contains("cannot be read"));
    latest.on_change(object("version", 7, json!({"channel": "x"})));
    assert!(latest.problems().is_empty());
}
