use super::*;
use crate::machine_config::api::machine_config::{GROUP, MachineConfigPool};
use crate::machine_config::drain::MANAGER;
use crate::machine_config::quorum::AT_RISK;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Annotations of this API, from their keys without the group.
fn grouped(annotations: &[(&str, &str)]) -> Value {
    annotations.iter().map(|(key, value)| (format!("{GROUP}/{key}"), json!(value))).collect()
}

/// A node of the pool with these annotations and more of its spec.
fn node(name: &str, annotations: &[(&str, &str)], spec: &Value) -> NodeView {
    let metadata = json!({"name": name, "resourceVersion": "7", "labels": {"role": "worker"},
        "annotations": grouped(annotations)});
    let node: Node = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    NodeView::of(&node)
}

const DONE: [(&str, &str); 3] = [("state", "Done"), ("currentConfig", "old"), ("desiredConfig", "old")];
const AT_TARGET: [(&str, &str); 3] = [("state", "Done"), ("currentConfig", "new"), ("desiredConfig", "new")];
const WORKING: [(&str, &str); 3] = [("state", "Working"), ("currentConfig", "old"), ("desiredConfig", "new")];

fn config(name: &str, created: &str, image: &str) -> (String, Arc<ConfigView>) {
    let owner =
        json!([{"apiVersion": "v1", "kind": "MachineConfigPool", "name": "worker", "uid": "1", "controller": true}]);
    let metadata =
        json!({"name": name, "uid": format!("uid of {name}"), "creationTimestamp": created, "ownerReferences": owner});
    let config = serde_json::from_value(json!({"metadata": metadata, "spec": {"osImageURL": image}})).unwrap();
    (name.to_owned(), Arc::new(ConfigView::of(config)))
}

/// A pool that is to have `new`, two nodes at the same time, and has these annotations and nodes.
fn cluster(annotations: &[(&str, &str)], nodes: impl IntoIterator<Item = NodeView>) -> Seen {
    let selector = json!({"matchLabels": {"role": "worker"}});
    let pool: MachineConfigPool = serde_json::from_value(json!({
        "metadata": {"name": "worker", "resourceVersion": "5", "annotations": grouped(annotations)},
        "spec": {"nodeSelector": selector, "maxUnavailable": 2, "configuration": {"name": "new"}},
    }))
    .unwrap();
    let created = "2026-01-01T00:00:00Z";
    Seen {
        nodes: nodes.into_iter().map(|node| (node.facts.name.clone(), Arc::new(node))).collect(),
        pools: [("worker".to_owned(), Arc::new(PoolView::of(pool)))].into(),
        configs: [config("old", created, "os:1"), config("new", created, "os:2")].into(),
        ..Seen::default()
    }
}

fn decided(seen: &Seen) -> Decision {
    decide(&Settings::default(), &mut Remembered::default(), seen, now())
}

/// What is written to nodes: the name, the field manager, and the annotations and the spec of the patch.
fn node_writes(decision: &Decision) -> Vec<(String, &'static str, Value)> {
    let writes = decision.actions.iter().filter_map(|action| match action {
        Action::WriteNode { name, manager, patch } => Some((name.clone(), *manager, short(patch))),
        _ => None,
    });
    writes.collect()
}

/// The annotations without the group, and the spec.
fn short(patch: &Value) -> Value {
    let annotations = patch.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let annotations = annotations.map(|(key, value)| (key.replace(&format!("{GROUP}/"), ""), value.clone()));
    let spec = patch.get("spec").map(|spec| ("spec".to_owned(), spec.clone()));
    annotations.chain(spec).collect()
}

fn pool_writes(decision: &Decision) -> Vec<Value> {
    let writes = decision.actions.iter().filter_map(|action| match action {
        Action::WritePool { patch, .. } => Some(short(patch)),
        _ => None,
    });
    writes.collect()
}

#[test]
fn nodes_are_claimed_before_they_are_told() {
    let nodes = || ["a", "b", "c"].map(|name| node(name, &DONE, &json!({})));
    let decision = decided(&cluster(&[], nodes()));
    assert_eq!(pool_writes(&decision)[0]["claimed"], r#"{"a":"5","b":"5"}"#);
    let told = |decision: &Decision| {
        let is_told = |(name, _, patch): (String, _, Value)| patch.get("desiredConfig").map(|_| name);
        node_writes(decision).into_iter().filter_map(is_told).collect::<Vec<_>>()
    };
    assert_eq!(told(&decision), [""; 0]);
    let decision = decided(&cluster(&[("claimed", r#"{"a":"4","b":"4"}"#)], nodes()));
    assert_eq!((told(&decision), pool_writes(&decision)), (vec!["a".to_owned(), "b".to_owned()], vec![]));
    let (_, manager, patch) = node_writes(&decision).swap_remove(0);
    assert_eq!((manager, &patch["desiredConfig"], &patch["toldFor"]), (CONTROLLER_MANAGER, &json!("new"), &json!("4")));
}

#[test]
fn a_node_is_marked_by_what_it_waits_for() {
    let taint = json!({"key": "UpdateInProgress", "effect": "PreferNoSchedule"});
    let waiting = json!({"taints": [taint]});
    let asked = |config: &'static str| [&DONE[..], &[("stageAhead", config)]].concat();
    let since = [&AT_TARGET[..], &[("doneSince", "2025-12-31T00:00:00Z")]].concat();
    let (plain, soaks, claimed, nobody) =
        (&[][..], &[("soak", "2m")][..], &[("claimed", r#"{"z":"4"}"#)][..], &json!({}));
    let ahead = |config: Value| Some(json!({"stageAhead": config}));
    for (what, of_pool, of_node, spec, expected) in [
        ("it waits", plain, &DONE[..], nobody, Some(json!({"spec": waiting}))),
        ("it comes next, and has to download", plain, &DONE, &waiting, ahead(json!("new"))),
        ("it prepares for that", plain, &asked("new"), &waiting, None),
        ("it prepares for something else", plain, &asked("other"), &waiting, ahead(json!("new"))),
        ("it is about to be told", claimed, &DONE, nobody, None),
        ("it has been told", plain, &WORKING, nobody, None),
        ("it waited and is there", plain, &AT_TARGET, &waiting, Some(json!({"spec": {"taints": []}}))),
        (
            "it is there, and somebody waits for it",
            soaks,
            &AT_TARGET,
            nobody,
            Some(json!({"doneSince": now().to_string()})),
        ),
        ("that is known already", soaks, &since, nobody, None),
        ("nobody asks since when it is there", plain, &AT_TARGET, nobody, None),
    ] {
        // Two others use up what may be unavailable, so that none but those that are claimed begins.
        let cordoned = |name| node(name, &AT_TARGET, &json!({"unschedulable": true}));
        let seen = cluster(of_pool, [cordoned("a"), cordoned("b"), node("z", of_node, spec)]);
        let is_mark = |(name, manager, patch): (String, &str, Value)| {
            (name == "z" && manager == CONTROLLER_MANAGER && patch.get("desiredConfig").is_none()).then_some(patch)
        };
        let marks: Vec<Value> = node_writes(&decided(&seen)).into_iter().filter_map(is_mark).collect();
        assert_eq!(marks, Vec::from_iter(expected), "{what}");
        let mut paused = (*seen.pools["worker"].0).clone();
        paused.spec.paused = true;
        let pools = [("worker".to_owned(), Arc::new(PoolView::of(paused)))].into();
        assert_eq!(node_writes(&decided(&Seen { pools, ..seen })), [], "{what}, and the pool is paused");
    }
}

#[test]
fn marks_are_put_off_while_more_is_written_and_what_nodes_wait_for_is_not() {
    let nodes = ["a", "b", "c"].map(|name| node(name, &DONE, &json!({})));
    let mut seen = cluster(&[("claimed", r#"{"a":"4"}"#)], nodes);
    let written = |seen: &Seen| Vec::from_iter(node_writes(&decided(seen)).into_iter().map(|(name, ..)| name));
    assert_eq!(written(&seen), ["a", "c"], "b is claimed now");
    seen.room.under_way = 15;
    assert_eq!(written(&seen), ["a"]);
    seen.room.under_way = 32;
    assert_eq!(written(&seen), [""; 0]);
}

/// What is written to a node with these annotations, and what is done about its pods, of which so many are left.
fn stepped(
    annotations: &[&[(&str, &str)]],
    spec: &Value,
    left: Option<usize>,
) -> (Option<(&'static str, Value)>, Option<Pods>) {
    let mut seen = cluster(&[], [node("a", &annotations.concat(), spec)]);
    seen.pods = left.map(|left| ("a".to_owned(), left)).into_iter().collect();
    let decision = decided(&seen);
    let writes = node_writes(&decision);
    assert!(writes.len() < 2, "{writes:?}");
    (writes.into_iter().next().map(|(_, manager, patch)| (manager, patch)), decision.pods.get("a").copied())
}

#[test]
fn nodes_are_cordoned_drained_and_answered() {
    let asks = [("desiredDrain", "drain-new"), ("desiredDrainId", "i")];
    let begun = [&WORKING[..], &asks, &[("drainStarted", "2025-12-31T23:59:00Z")]];
    let evict = |started: &str| Some(Pods::Evict(Drain { started: started.parse().unwrap(), failed: None }));
    let (free, cordoned) = (json!({}), json!({"unschedulable": true}));
    let now = now().to_string();
    let cordon = json!({"cordonedFor": "new", "drainStarted": now, "spec": {"unschedulable": true}});
    let cordon = Some((MANAGER, cordon));
    let by_others = Some((MANAGER, json!({"drainStarted": now})));
    let answer =
        json!({"lastAppliedDrain": "drain-new", "lastAppliedDrainId": "i", "drainFailed": null, "drainBlocked": null});
    let answer = Some((CONTROLLER_MANAGER, answer));
    for (what, annotations, spec, left, written, pods) in [
        ("it has been told", &[&WORKING[..]][..], &free, None, None, Some(Pods::Follow)),
        ("it asks for a drain", &[&WORKING, &asks], &free, None, cordon.clone(), None),
        ("somebody has uncordoned it", &begun, &free, Some(0), cordon, None),
        ("somebody else had cordoned it", &[&WORKING, &asks], &cordoned, None, by_others, evict(&now)),
        ("it is being drained", &begun, &cordoned, Some(3), None, evict("2025-12-31T23:59:00Z")),
        ("no pod is left", &begun, &cordoned, Some(0), answer, Some(Pods::Keep)),
    ] {
        assert_eq!(stepped(annotations, spec, left), (written, pods), "{what}");
    }
}

#[test]
fn nodes_are_uncordoned_by_whom_they_were_cordoned() {
    let asks = [("desiredDrain", "uncordon-new"), ("desiredDrainId", "i")];
    let ours = [("cordonedFor", "new")];
    let (free, cordoned) = (json!({}), json!({"unschedulable": true}));
    let end = json!({"lastAppliedDrain": "uncordon-new", "lastAppliedDrainId": "i", "drainFailed": null,
        "drainBlocked": null, "drainStarted": null, "cordonedFor": null, "doneSince": now().to_string()});
    let mut uncordon = end.clone();
    uncordon["spec"] = json!({"unschedulable": null});
    let forgotten = json!({"cordonedFor": null});
    for (what, annotations, spec, written) in [
        ("it was cordoned for the update", &[&AT_TARGET[..], &asks, &ours][..], &cordoned, uncordon),
        ("somebody else has cordoned it", &[&AT_TARGET, &asks], &cordoned, end),
        ("somebody has uncordoned it", &[&AT_TARGET, &ours], &free, forgotten),
    ] {
        assert_eq!(stepped(annotations, spec, None), (Some((CONTROLLER_MANAGER, written)), None), "{what}");
    }
}

#[test]
fn a_request_that_nobody_understands_is_refused_once() {
    let asks = [("desiredDrain", "reboot"), ("desiredDrainId", "i")];
    let cause = "the annotation desiredDrain \"reboot\" is neither drain-<MachineConfig> nor uncordon-<MachineConfig>";
    let refused = stepped(&[&WORKING, &asks], &json!({}), None);
    assert_eq!(refused, (Some((CONTROLLER_MANAGER, json!({"drainBlocked": cause}))), None));
    assert_eq!(stepped(&[&WORKING, &asks, &[("drainBlocked", cause)]], &json!({}), None), (None, None));
}

#[test]
fn an_object_is_written_once_in_a_turn_and_not_while_it_is_written() {
    // It has been claimed, and asks for something as well.
    let asks = [&DONE[..], &[("desiredDrain", "drain-old"), ("desiredDrainId", "i")]].concat();
    let mut seen = cluster(&[("claimed", r#"{"a":"4"}"#)], [node("a", &asks, &json!({}))]);
    let [(_, _, patch)] = <[_; 1]>::try_from(node_writes(&decided(&seen))).unwrap();
    assert_eq!(patch["desiredConfig"], "new", "what comes first");
    seen.room.busy.insert(Key::Node("a".to_owned()));
    assert_eq!(node_writes(&decided(&seen)), []);
}

#[test]
fn rendered_configurations_that_nobody_has_are_deleted_but_the_newest() {
    let mut seen = cluster(&[], [node("a", &[("currentConfig", "v1"), ("desiredConfig", "v2")], &json!({}))]);
    let mut pool = (*seen.pools["worker"].0).clone();
    pool.status = Some(
        serde_json::from_value(json!({"observedGeneration": 1, "configuration": {"name": "v3"},
        "machineCount": 0, "updatedMachineCount": 0, "readyMachineCount": 0, "unavailableMachineCount": 0,
        "degradedMachineCount": 0, "conditions": []}))
        .unwrap(),
    );
    seen.pools = [("worker".to_owned(), Arc::new(PoolView::of(pool)))].into();
    seen.configs
        .extend((0..10).map(|number| config(&format!("v{number}"), &format!("2025-01-01T00:00:0{number}Z"), "")));
    let deleted: Vec<_> = decided(&seen)
        .actions
        .into_iter()
        .filter_map(|action| match action {
            Action::DeleteConfig { name, uid } => Some((name, uid)),
            _ => None,
        })
        .collect();
    // `old` is newer than all of these; v0 and those from v4 on are unused.
    assert_eq!(deleted, ["v5", "v4", "v0"].map(|name| (name.to_owned(), format!("uid of {name}"))));
}

#[test]
fn the_status_of_a_pool_is_written_at_most_once_a_second() {
    let mut seen = cluster(&[], [node("a", &AT_TARGET, &json!({}))]);
    let is_written = |decision: &Decision| {
        decision
            .actions
            .iter()
            .any(|action| matches!(action, Action::WritePoolStatus { version, .. } if version == "5"))
    };
    assert!(is_written(&decided(&seen)));
    seen.reported = [("worker".to_owned(), SignedDuration::from_millis(300))].into();
    let decision = decided(&seen);
    assert!(!is_written(&decision));
    assert_eq!(decision.next, Some(now() + SignedDuration::from_millis(700)));
    seen.reported = [("worker".to_owned(), SignedDuration::from_secs(1))].into();
    assert!(is_written(&decided(&seen)));
}

#[test]
fn the_control_plane_says_that_its_quorum_is_at_risk_and_no_other_pool_does() {
    let mut seen = cluster(&[], ["a", "b", "c"].map(|name| node(name, &AT_TARGET, &json!({}))));
    let mut master = (*seen.pools["worker"].0).clone();
    master.metadata.name = Some("master".to_owned());
    seen.pools.insert("master".to_owned(), Arc::new(PoolView::of(master)));
    let at_risk = |action| match action {
        Action::WritePoolStatus { name, status, .. } => {
            Some((name, status.conditions.iter().any(|condition| condition.type_ == AT_RISK)))
        }
        _ => None,
    };
    let told: BTreeMap<String, bool> = decided(&seen).actions.into_iter().filter_map(at_risk).collect();
    assert_eq!(told, [("master".to_owned(), true), ("worker".to_owned(), false)].into());
}

#[test]
fn the_object_of_a_node_is_written_at_once_when_it_is_new_or_at_rest_and_else_when_it_lasts() {
    let written =
        |decision: &Decision| decision.actions.iter().any(|action| matches!(action, Action::WriteNodeObject { .. }));
    let object = NodeObjectView {
        version: "1".to_owned(),
        generation: 1,
        spec: MachineConfigNodeSpec::default(),
        status: MachineConfigNodeStatus::default(),
    };
    let objects = |object: Option<&NodeObjectView>| {
        Some(object.map(|object| ("a".to_owned(), Arc::new(object.clone()))).into_iter().collect())
    };
    let with = |state, object| Seen { node_objects: objects(object), ..cluster(&[], [node("a", state, &json!({}))]) };
    assert!(written(&decided(&with(&WORKING, None))), "there is none");
    assert!(written(&decided(&with(&AT_TARGET, Some(&object)))));
    let mut remembered = Remembered::default();
    let mut at = |seen: &Seen, seconds: i64| {
        let now = now() + SignedDuration::from_secs(seconds);
        written(&decide(&Settings::default(), &mut remembered, seen, now))
    };
    let passing = with(&WORKING, Some(&object));
    assert_eq!([0, 9, 10].map(|seconds| at(&passing, seconds)), [false, false, true]);
    // The clock is set back by an hour.
    assert_eq!([-3600, -3591, -3590].map(|seconds| at(&passing, seconds)), [false, false, true]);
    let unwanted = Seen { node_objects: None, ..passing };
    assert!(!at(&unwanted, 60));
}

#[test]
fn a_turn_asks_and_follows_what_the_rollout_needs() {
    let waits = || node("a", &DONE, &json!({}));
    let mut seen = cluster(&[("approval-query", "up")], [waits()]);
    let decision = decided(&seen);
    assert_eq!(decision.queries, [("worker".to_owned(), ("up".to_owned(), Answer::Unknown))].into());
    assert_eq!((decision.etcd, pool_writes(&decision)), (false, vec![]), "nothing is claimed before the answer");
    let since = now() - SignedDuration::from_secs(60);
    seen.answers = [("worker".to_owned(), Answer::True { since })].into();
    assert!(pool_writes(&decided(&seen))[0].get("claimed").is_some());
    let done = cluster(&[("approval-query", "up")], [node("a", &AT_TARGET, &json!({}))]);
    assert_eq!(decided(&done).queries, [].into());

    // The control plane waits until the pods of etcd are known.
    let mut master = (*cluster(&[], []).pools["worker"].0).clone();
    master.metadata.name = Some("master".to_owned());
    let pools = || [("master".to_owned(), Arc::new(PoolView::of(master.clone())))].into();
    let seen = Seen { pools: pools(), ..cluster(&[], [waits()]) };
    let decision = decided(&seen);
    assert_eq!((decision.etcd, pool_writes(&decision)), (true, vec![]));
    let etcd = EtcdPods { known: Some(vec![]), error: None };
    assert!(pool_writes(&decided(&Seen { etcd, ..seen }))[0].get("claimed").is_some());
}
