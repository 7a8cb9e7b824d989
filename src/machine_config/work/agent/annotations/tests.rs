use super::*;

fn node(annotations: &[(&str, &str)]) -> Value {
    let annotations: BTreeMap<_, _> =
        annotations.iter().map(|(key, value)| (format!("{GROUP}/{key}"), *value)).collect();
    json!({"metadata": {"name": "n", "resourceVersion": "7", "annotations": annotations}})
}

fn read(annotations: &[(&str, &str)]) -> Seen {
    seen(&node(annotations), &Pending::default()).unwrap()
}

#[test]
fn answer_is_the_same_request_with_the_same_id() {
    let drain = [("desiredDrain", "drain-a"), ("desiredDrainId", "2"), ("lastAppliedDrain", "drain-a")];
    assert!(!read(&drain).answered, "the answer is to a request without id");
    let with = |id| [drain.as_slice(), &[("lastAppliedDrainId", id)]].concat();
    assert!(!read(&with("1")).answered);
    let answered = read(&with("2"));
    assert!(answered.answered);
    assert_eq!(answered.asked, Some(Request::Drain("a".into())));
    assert!(!read(&[("desiredDrain", "drain-a"), ("lastAppliedDrain", "uncordon-a")]).answered);
}

#[test]
fn what_is_to_be_written_is_seen_and_joined_into_one_patch() {
    let object = node(&[("state", "Done"), ("currentConfig", "a"), ("desiredConfig", "b")]);
    let mut pending = Pending::default();
    pending.tell(NodeState::Working, "", Some(&Target::new("a")));
    pending.ask(&Request::Drain("b".into()), "id".into());
    let now = seen(&object, &pending).unwrap();
    assert_eq!(
        (now.node.state, now.asked, now.answered),
        (NodeState::Working, Some(Request::Drain("b".into())), false)
    );
    let patch = pending.patch(&object).unwrap();
    let key = |key: &str| format!("{GROUP}/{key}");
    let expected = json!({key("state"): "Working", key("reason"): "", key("desiredDrain"): "drain-b",
        key("desiredDrainId"): "id"});
    assert_eq!(patch["metadata"]["annotations"], expected);
}

#[test]
fn what_is_written_already_is_not_written_again() {
    let object = node(&[("state", "Done"), ("currentConfig", "a"), ("desiredConfig", "a"), ("reason", "")]);
    let mut pending = Pending::default();
    pending.tell_done(&seen(&object, &pending).unwrap(), &Target::new("a"));
    assert_eq!(pending.patch(&object), None);
}

#[test]
fn done_clears_what_is_over() {
    let mut object = node(&[("reason", "failed"), ("currentImage", "i"), ("desiredImage", "")]);
    let mut pending = Pending::default();
    pending.begin_reboot("2026-01-01T00:00:00Z".parse().unwrap());
    let begun = pending.patch(&object).unwrap()["metadata"]["annotations"].clone();
    let started = json!({format!("{GROUP}/post-config-action"): "Rebooting", format!("{GROUP}/rebootStarted"): "2026-01-01T00:00:00Z"});
    assert_eq!(begun, started);
    let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.extend(begun.as_object().unwrap().clone());
    let mut pending = Pending::default();
    pending.tell_done(&seen(&object, &pending).unwrap(), &Target::new("a"));
    let patch = pending.patch(&object).unwrap();
    let at = |key: &str| patch["metadata"]["annotations"].get(format!("{GROUP}/{key}")).cloned();
    assert_eq!(at("reason"), Some(json!("")));
    assert_eq!([at("post-config-action"), at("rebootStarted")], [Some(json!("")), Some(Value::Null)]);
    assert_eq!([at("currentImage"), at("desiredImage")], [Some(Value::Null), Some(Value::Null)]);
    assert_eq!(at("desiredConfig"), Some(json!("a")), "nobody has told it any");
}

#[test]
fn object_that_is_no_node_says_why() {
    assert!(!seen(&json!({"metadata": 3}), &Pending::default()).unwrap_err().is_empty());
}
