//! Text and lines for constructed states.

use super::view::{Phase, component, level};
mod causes;

use super::*;
use crate::cluster_version::progress::NodeState;
use serde_json::{Value, json};

pub(crate) fn now() -> Timestamp {
    "2026-11-21T12:05:00Z".parse().unwrap()
}

pub(crate) fn condition(type_: &str, status: &str, since: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
}

fn version(status: Value) -> ClusterVersion {
    serde_json::from_value(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "id"}, "status": status,
    }))
    .unwrap()
}

pub(crate) fn operator(name: &str, conditions: &[Value]) -> ClusterOperator {
    serde_json::from_value(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name},
        "spec": {}, "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn entry(version: &str, state: &str, started: &str, ended: Option<&str>, verified: bool) -> Value {
    json!({"version": version, "image": format!("r.test/release@sha256:{version}"), "state": state,
        "startedTime": started, "completionTime": ended, "verified": verified})
}

/// 1.0.0 on its way to 1.0.1: config-api done, network waiting, storage being applied, console pending.
pub(crate) fn updating() -> State {
    let status = json!({
        "desired": {"version": "1.0.1", "image": "r.test/release@sha256:1.0.1"},
        "observedGeneration": 2, "versionHash": "h", "availableUpdates": [],
        "history": [
            entry("1.0.1", "Partial", "2026-11-21T12:03:00Z", None, true),
            entry("1.0.0", "Completed", "2026-11-21T10:00:00Z", Some("2026-11-21T10:01:02Z"), false),
        ],
        "conditions": [
            condition("Progressing", "True", "2026-11-21T12:03:00Z", "", "Working towards 1.0.1"),
            condition("Failing", "False", "2026-11-21T10:01:02Z", "", ""),
            condition("ReleaseAccepted", "True", "2026-11-21T10:01:02Z", "PayloadLoaded", ""),
        ],
    });
    let record = json!({
        "schema": 1,
        "release": {"version": "1.0.1", "image": "r.test/release@sha256:1.0.1"},
        "pass": {"mode": "update", "started": "2026-11-21T12:03:01Z", "done": 12, "total": 24},
        "nodes": [
            {"id": "1/0010/config-api", "state": "done", "done": 7, "total": 7,
             "started": "2026-11-21T12:03:01Z", "finished": "2026-11-21T12:03:09Z"},
            {"id": "2/0020/storage", "state": "running", "done": 1, "total": 6, "started": "2026-11-21T12:03:09Z"},
            {"id": "2/0020/network", "state": "waiting", "done": 4, "total": 5, "started": "2026-11-21T12:03:09Z",
             "waiting": [{"kind": "ClusterOperator", "namespace": "", "name": "network", "reason": "ClusterOperatorUpdating",
                "message": "versions not reached: operator", "since": "2026-11-21T12:04:00Z"}]},
            {"id": "3/0050/console", "state": "pending", "done": 0, "total": 6},
        ],
        "durations": {"network": 121.0, "storage": 10.0, "console": 50.0, "unknown": 9.0},
    });
    State {
        cluster_version: Some(version(status)),
        operators: Read::Value(vec![operator(
            "network",
            &[condition("Available", "True", "2026-11-21T10:00:10Z", "", "")],
        )]),
        progress: Some(serde_json::from_value(record).unwrap()),
        ..State::default()
    }
}

pub(crate) fn running() -> State {
    let mut state = updating();
    let status = state.cluster_version.as_mut().unwrap().status.as_mut().unwrap();
    let newest = status.history.first_mut().unwrap();
    newest.state = crate::cluster_version::api::HistoryState::Completed;
    newest.completion_time = serde_json::from_value(json!("2026-11-21T12:04:30Z")).unwrap();
    let progressing = status.conditions.first_mut().unwrap();
    progressing.status = crate::object::condition::ConditionStatus::False;
    progressing.last_transition_time = newest.completion_time.clone().unwrap();
    status.available_updates =
        Some(vec![crate::release::api::Release { version: "1.1.0".into(), ..crate::release::api::Release::default() }]);
    let progress = state.progress.as_mut().unwrap();
    progress.rollout.done = 24;
    for node in &mut progress.nodes {
        node.state = NodeState::Done;
        node.waiting.clear();
        node.done = node.total;
    }
    state
}

#[test]
fn update_in_progress() {
    insta::assert_snapshot!(render(&updating(), usize::MAX, false, now()), @r#"
    Updating 1.0.0 → 1.0.1, for 2m 0s
    Image r.test/release@sha256:1.0.1
    [##########..........] 12 of 24 manifests (50%), about 1m 0s left

    COMPONENT   LEVEL  STATE     DONE  TIME    WAITS FOR
    config-api  10     done      7/7   8s
    storage     20     applying  1/6   1m 51s
    network     20     waiting   4/5   1m 51s  ClusterOperator network: versions not reached: operator (since 1m 0s)
    console     50     pending   0/6

    History
      VERSION  STATE      STARTED               TOOK   VERIFIED
      1.0.1    Partial    2026-11-21 12:03:00Z  -      yes
      1.0.0    Completed  2026-11-21 10:00:00Z  1m 2s  no
    "#);
}

#[test]
fn updates_with_risks_and_what_is_not_offered() {
    let mut state = running();
    let status = state.cluster_version.as_mut().unwrap().status.as_mut().unwrap();
    let update = |version: &str, verdict: &str| {
        json!({
            "release": {"version": version, "image": format!("r.test/release@sha256:{version}")},
            "risks": [],
            "conditions": [{"type": "Recommended", "status": verdict, "reason": "SlowDisks", "lastTransitionTime": "2026-11-21T12:00:00Z",
                            "message": "Nodes with slow disks stay away for long.\nhttps://example.com/slow-disks"}],
        })
    };
    let mut unjudged = update("1.4.0", "False");
    unjudged["conditions"] = json!([]);
    let updates = json!([update("1.2.0", "False"), update("1.3.0", "Unknown"), unjudged, update("1.1.0", "True")]);
    status.conditional_updates = serde_json::from_value(updates).unwrap();
    let note = "Not everything in the update graph is offered: 1.5.0: risk \"X\" has no rule that can be evaluated";
    let retrieved = condition("RetrievedUpdates", "True", "2026-11-21T12:00:00Z", "", note);
    status.conditions.push(serde_json::from_value(retrieved).unwrap());
    insta::assert_snapshot!(render(&state, usize::MAX, false, now()), @r#"
    Running 1.0.1, for 30s
    Image r.test/release@sha256:1.0.1
    24 manifests of 4 components in place

    Updates available: 1.1.0

    Updates with risks
      1.2.0 (not recommended, SlowDisks)
        Nodes with slow disks stay away for long.
        https://example.com/slow-disks
      1.3.0 (not known whether recommended, SlowDisks)
        Nodes with slow disks stay away for long.
        https://example.com/slow-disks
      1.4.0 (not known whether recommended)
        its risks have not been evaluated yet

    Not everything in the update graph is offered: 1.5.0: risk "X" has no rule that can be evaluated

    History
      VERSION  STATE      STARTED               TOOK    VERIFIED
      1.0.1    Completed  2026-11-21 12:03:00Z  1m 30s  yes
      1.0.0    Completed  2026-11-21 10:00:00Z  1m 2s   no
    "#);
}

#[test]
fn running_release() {
    insta::assert_snapshot!(render(&running(), 80, false, now()), @r#"
    Running 1.0.1, for 30s
    Image r.test/release@sha256:1.0.1
    24 manifests of 4 components in place

    Updates available: 1.1.0

    History
      VERSION  STATE      STARTED               TOOK    VERIFIED
      1.0.1    Completed  2026-11-21 12:03:00Z  1m 30s  yes
      1.0.0    Completed  2026-11-21 10:00:00Z  1m 2s   no
    "#);
}

#[test]
fn failures_are_wrapped_to_the_width() {
    let mut state = updating();
    let status = state.cluster_version.as_mut().unwrap().status.as_mut().unwrap();
    let message =
        "Cluster operator network is degraded: a rather long sentence that needs more than one line\nand a second line";
    let failing = condition("Failing", "True", "2026-11-21T12:04:00Z", "ClusterOperatorDegraded", message);
    *status.conditions.get_mut(1).unwrap() = serde_json::from_value(failing).unwrap();
    let degraded = [
        condition("Available", "True", "2026-11-21T10:00:10Z", "", ""),
        condition("Degraded", "True", "2026-11-21T12:01:10Z", "RolloutFailed", "no such\u{1b}[31m image"),
    ];
    let down = [condition("Available", "False", "2026-11-21T12:04:59Z", "Down", "gone")];
    state.operators =
        Read::Value(vec![operator("network", &degraded), operator("silent", &[]), operator("console", &down)]);
    let page = render(&state, 60, false, now());
    assert!(page.lines().all(|line| line.chars().count() <= 60), "{page}");
    insta::assert_snapshot!(page, @r#"
    Updating 1.0.0 → 1.0.1, for 2m 0s
    Image r.test/release@sha256:1.0.1
    [##########..........] 12 of 24 manifests (50%), about 1m 0s
    left

    COMPONENT   LEVEL  STATE     DONE  TIME    WAITS FOR
    config-api  10     done      7/7   8s
    storage     20     applying  1/6   1m 51s
    network     20     waiting   4/5   1m 51s
        ClusterOperator network: versions not reached: operator
        (since 1m 0s)
    console     50     pending   0/6

    Failing for 1m 0s: ClusterOperatorDegraded
      Cluster operator network is degraded: a rather long
      sentence that needs more than one line
      and a second line
      → Look at the operator: kubectl describe clusteroperator
      network; its message says what it cannot do

    Unhealthy operators
      console is not available for 1s: Down: gone
      network is degraded for 3m 50s: RolloutFailed: no such
      [31m image
      silent has not reported: condition Available is missing
      → kubectl describe clusteroperator console network silent;
      then look at the pods in the namespaces of its related
      objects: cvo status --details

    History
      VERSION  STATE      STARTED               TOOK   VERIFIED
      1.0.1    Partial    2026-11-21 12:03:00Z  -      yes
      1.0.0    Completed  2026-11-21 10:00:00Z  1m 2s  no
    "#);
}

#[test]
fn colours_do_not_change_text() {
    let plain = render(&updating(), 70, false, now());
    let coloured = render(&updating(), 70, true, now());
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}[32mdone\u{1b}[0m"), "{coloured}");
    let codes = regex::Regex::new("\u{1b}\\[[0-9]*m").unwrap();
    let bare: Vec<String> = codes.replace_all(&coloured, "").lines().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(bare.join("\n"), plain.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_width_shows_all_components() {
    for width in 0..130 {
        let page = render(&updating(), width, true, now());
        for name in ["config-api", "storage", "network", "console"] {
            assert!(width < 12 || page.contains(name), "{name} at {width}:\n{page}");
        }
    }
}

#[test]
fn many_components_are_folded() {
    let mut state = updating();
    let progress = state.progress.as_mut().unwrap();
    let done = progress.nodes.first().unwrap().clone();
    progress.nodes.extend(
        (0..40).map(|n| crate::cluster_version::progress::NodeProgress { id: format!("1/10/c{n}"), ..done.clone() }),
    );
    let page = render(&state, 100, false, now());
    assert!(
        page.contains("41 components done, 1 pending") && !page.contains("c39") && page.contains("network"),
        "{page}"
    );
}

#[test]
fn missing_objects_are_reported() {
    let nothing = render(&State::default(), 80, false, now());
    assert!(nothing.starts_with("Nothing is known yet"), "{nothing}");

    let mut other = updating();
    other.progress.as_mut().unwrap().release =
        crate::release::api::Release { version: "0.9".into(), image: "x".into(), ..Default::default() };
    let page = render(&other, usize::MAX, false, now());
    assert!(
        page.contains("the progress record is about another release (0.9)") && !page.contains("COMPONENT"),
        "{page}"
    );
    assert!(page.contains("Working towards 1.0.1"), "{page}");

    for (text, said) in [
        ("{\"schema\": 7}", "has schema 7"),
        ("nonsense", "is not a progress record"),
        ("", "is not a progress record"),
    ] {
        let mut state = State::default();
        let map = serde_json::from_value(json!({"metadata": {"name": CONFIG_MAP}, "data": {KEY: text}})).unwrap();
        state.take_record(&map);
        assert!(state.progress.is_none() && state.remarks.iter().any(|r| r.contains(said)), "{:?}", state.remarks);
    }
}

#[test]
fn estimate_adds_slowest_node_of_each_stage() {
    // network: 121 s, of which 111 are spent; storage is over its time; console has 50 s to go after them.
    assert_eq!(View::of(&updating(), now()).remaining_seconds, Some(60));
    let mut unknown = updating();
    unknown.progress.as_mut().unwrap().durations.clear();
    assert_eq!(View::of(&unknown, now()).remaining_seconds, None);
    assert_eq!(View::of(&running(), now()).remaining_seconds, None);
}

#[test]
fn phase_follows_progressing_and_history() {
    let phase = |change: fn(&mut crate::cluster_version::api::ClusterVersionStatus)| {
        let mut state = updating();
        change(state.cluster_version.as_mut().unwrap().status.as_mut().unwrap());
        View::of(&state, now()).phase
    };
    assert_eq!(phase(|_| {}), Phase::Updating);
    assert_eq!(phase(|status| drop(status.history.pop())), Phase::Installing);
    assert_eq!(phase(|status| status.conditions.clear()), Phase::Unknown);
    assert_eq!(View::of(&running(), now()).phase, Phase::Running);
}

#[test]
fn outdated_record_is_ignored_after_completion() {
    let mut state = running();
    state.progress = updating().progress;
    let view = View::of(&state, now());
    assert!(view.pass.is_none() && view.components.is_empty(), "{view:?}");
}

#[test]
fn conditions_that_need_attention() {
    let concerns = |conditions: Value| {
        let status = json!({"desired": {"version": "1", "image": "i"}, "conditions": conditions});
        let state = State { cluster_version: Some(version(status)), ..State::default() };
        View::of(&state, now()).concerns.into_iter().map(|c| c.type_).collect::<Vec<_>>()
    };
    let one = |type_, status, reason| concerns(json!([condition(type_, status, "2026-11-21T10:00:00Z", reason, "")]));
    for (type_, status, reason, shown) in [
        ("Failing", "True", "", true),
        ("Failing", "Unknown", "SlowClusterOperator", true),
        ("Failing", "Unknown", "SlowResource", true),
        ("Failing", "False", "", false),
        ("ReleaseAccepted", "False", "RetrievePayload", true),
        ("ReleaseAccepted", "Unknown", "RetrievePayload", true),
        ("ReleaseAccepted", "True", "PayloadLoaded", false),
        ("Invalid", "True", "", true),
        ("Contested", "True", "FieldManagerConflict", true),
        ("KindsNotWatched", "True", "CannotListOrWatch", true),
        ("FieldsNotAccepted", "True", "KeptByServer", true),
        ("RetrievedUpdates", "False", "NoChannel", false),
        ("RetrievedUpdates", "False", "RemoteFailed", true),
        ("Available", "False", "", false),
    ] {
        assert_eq!(one(type_, status, reason).len(), usize::from(shown), "{type_}={status} {reason}");
    }
}

/// What is told when the state becomes this one.
fn lines_of(before: &View, state: &State) -> Vec<String> {
    lines::lines(before, &View::of(state, now()), state, now())
}

#[test]
fn watch_reports_each_change_once() {
    let first = View::of(&updating(), now());
    let told = lines_of(&View::default(), &updating());
    insta::assert_snapshot!(told.join("\n"), @r#"
    12:05:00Z  Updating 1.0.0 → 1.0.1
    12:05:00Z  config-api: done after 8s (7 manifests)
    12:05:00Z  storage: applying 6 manifests
    12:05:00Z  network: waiting for ClusterOperator network: versions not reached: operator
    12:05:00Z  1.0.0 completed after 1m 2s, not verified
    "#);
    assert_eq!(lines_of(&first, &updating()), Vec::<String>::new());
    insta::assert_snapshot!(lines_of(&first, &running()).join("\n"), @r#"
    12:05:00Z  Running 1.0.1
    12:05:00Z  storage: done (6 manifests)
    12:05:00Z  network: done (5 manifests)
    12:05:00Z  console: done (6 manifests)
    12:05:00Z  1.0.1 completed after 1m 30s, verified
    "#);

    let mut longer = updating();
    longer.progress.as_mut().unwrap().rollout.done = 13;
    assert_eq!(lines_of(&first, &longer), Vec::<String>::new(), "a count alone is not a change");
}

#[test]
fn watch_reports_failures_and_their_end() {
    let calm = View::of(&updating(), now());
    let mut state = updating();
    let degraded = [
        condition("Available", "True", "2026-11-21T10:00:10Z", "", ""),
        condition("Degraded", "True", "2026-11-21T12:01:10Z", "RolloutFailed", "no\nimage"),
    ];
    state.operators = Read::Value(vec![operator("network", &degraded)]);
    let status = state.cluster_version.as_mut().unwrap().status.as_mut().unwrap();
    let failing =
        condition("Failing", "True", "2026-11-21T12:04:00Z", "ClusterOperatorDegraded", "network is degraded");
    *status.conditions.get_mut(1).unwrap() = serde_json::from_value(failing).unwrap();
    let trouble = View::of(&state, now());
    assert_eq!(
        lines_of(&calm, &state),
        [
            "12:05:00Z  Failing: ClusterOperatorDegraded: network is degraded",
            "12:05:00Z  operator network is degraded: RolloutFailed: no image"
        ]
    );
    let mut over = updating();
    let healthy = [degraded[0].clone(), condition("Degraded", "False", "2026-11-21T12:01:10Z", "", "")];
    over.operators = Read::Value(vec![operator("network", &healthy)]);
    assert_eq!(lines_of(&trouble, &over), ["12:05:00Z  Failing: over", "12:05:00Z  operator network is healthy"]);
    over.operators = Read::Value(Vec::new());
    assert_eq!(lines_of(&trouble, &over), ["12:05:00Z  Failing: over", "12:05:00Z  operator network is gone"]);
    over.operators = Read::Failed("forbidden".to_owned());
    assert_eq!(lines_of(&trouble, &over), ["12:05:00Z  Failing: over"], "nothing is known of them");
    let told = lines_of(&trouble, &State { cluster_version: None, ..state });
    assert!(told[0].contains("there is no ClusterVersion") && !told.concat().contains("over"), "{told:?}");
}

#[test]
fn node_ids_are_split() {
    for (id, name, number) in [
        ("3/0050/console", "console", "50"),
        ("0/00/cvo#2", "cvo#2", "0"),
        ("1/-/x.yaml", "x.yaml", "-"),
        ("odd", "odd", ""),
    ] {
        assert_eq!((component(id), level(id)), (name, number));
    }
}

fn pool(name: &str, paused: bool, counts: (i32, i32), conditions: &[Value]) -> MachineConfigPool {
    let selector = json!({"matchLabels": {"pool": name}});
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": name},
        "spec": {"nodeSelector": selector, "configuration": {"name": "b"}, "paused": paused},
        "status": {"machineCount": counts.1, "updatedMachineCount": counts.0, "conditions": conditions},
    }))
    .unwrap()
}

fn node(name: &str, pool: &str, annotations: &[(&str, &str)]) -> Node {
    let annotations: Value = annotations
        .iter()
        .map(|(key, value)| (format!("machineconfiguration.openshift.io/{key}"), Value::from(*value)))
        .collect();
    let metadata = json!({"name": name, "labels": {"pool": pool}, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

/// The release is applied, and the workers are still under way.
pub(crate) fn rolling() -> State {
    let since = "2026-11-21T12:00:00Z";
    let pools = vec![
        pool(
            "worker",
            false,
            (1, 4),
            &[
                condition("Updating", "True", since, "", "1 of 4 nodes have MachineConfig b, about 3 minutes left"),
                condition("RolloutBlocked", "True", since, "DrainBlocked", "1 node waits: node w1: pod a/b is kept"),
            ],
        ),
        pool("master", false, (1, 1), &[condition("Updated", "True", since, "", "All nodes have MachineConfig b")]),
    ];
    let done = [("currentConfig", "b"), ("desiredConfig", "b"), ("state", "Done")];
    let drained = [
        ("currentConfig", "a"),
        ("desiredConfig", "b"),
        ("state", "Working"),
        ("desiredDrain", "drain-b"),
        ("drainStarted", "2026-11-21T12:03:00Z"),
        ("drainBlocked", "pod a/b is kept"),
    ];
    let restarted =
        [("currentConfig", "a"), ("desiredConfig", "b"), ("state", "Working"), ("post-config-action", "Rebooting")];
    let waiting = [("currentConfig", "a"), ("desiredConfig", "a"), ("state", "Done")];
    let nodes = vec![
        node("m0", "master", &done),
        node("w0", "worker", &waiting),
        node("w1", "worker", &drained),
        node("w2", "worker", &done),
        node("w3", "worker", &restarted),
    ];
    State { pools, nodes, ..running() }
}

#[test]
fn pools_that_still_roll_are_told_of_after_the_update() {
    insta::assert_snapshot!(render(&rolling(), 100, false, now()), @r#"
    Running 1.0.1, for 30s
    Image r.test/release@sha256:1.0.1
    The release is applied; 3 of 4 nodes of pool worker still have to get their configuration
    24 manifests of 4 components in place

    POOL    STATE    NODES  TIME   WHY
    master  updated  1/1
    worker  waiting  1/4    5m 0s  1 of 4 nodes have MachineConfig b, about 3 minutes left; 1 node
                                   waits: node w1: pod a/b is kept (since 5m 0s)
      → worker: Look at the PodDisruptionBudgets that the message names: the pods need another healthy
      replica, or the budget has to allow one to go
      w1 is being drained for 2m 0s: pod a/b is kept
      w3 is being restarted

    Updates available: 1.1.0

    History
      VERSION  STATE      STARTED               TOOK    VERIFIED
      1.0.1    Completed  2026-11-21 12:03:00Z  1m 30s  yes
      1.0.0    Completed  2026-11-21 10:00:00Z  1m 2s   no
    "#);
}

#[test]
fn changes_of_pools_and_nodes_are_lines() {
    let before = View::of(&running(), now());
    let rolling = rolling();
    let after = View::of(&rolling, now());
    let mut later = rolling.clone();
    later.nodes.retain(|node| node.metadata.name.as_deref() != Some("w3"));
    let mut gone = later.clone();
    let done = [("currentConfig", "b"), ("desiredConfig", "b"), ("state", "Done")];
    later.nodes.push(node("w3", "worker", &done));
    let lines = |before: &View, state: &State| lines_of(before, state).join("\n");
    assert_eq!(lines(&after, &gone), "12:05:00Z  w3 is gone from pool worker");
    gone.nodes.push(node("w3", "master", &done));
    assert_eq!(lines(&after, &gone), "12:05:00Z  w3 has left pool worker");
    gone.pools.retain(|pool| pool.metadata.name.as_deref() != Some("worker"));
    assert_eq!(lines(&after, &gone), "12:05:00Z  pool worker is gone");
    insta::assert_snapshot!(format!("{}\n--\n{}", lines(&before, &rolling), lines(&after, &later)), @r#"
    12:05:00Z  pool worker: updating: 1 of 4 nodes have MachineConfig b, about 3 minutes left
    12:05:00Z  pool worker waits: 1 node waits: node w1: pod a/b is kept
    12:05:00Z  w1 is being drained for 2m 0s: pod a/b is kept
    12:05:00Z  w3 is being restarted
    --
    12:05:00Z  w3 has the configuration of pool worker
    "#);
}

#[test]
fn updated_pools_take_a_line_each() {
    let mut state = rolling();
    state.pools.retain(|pool| pool.metadata.name.as_deref() == Some("master"));
    let text = render(&state, 100, false, now());
    assert!(text.contains("master  updated  1/1\n"), "{text}");
    assert!(!text.contains("still have"), "{text}");
}

/// It does not stop an update within the minor version, and during an update it always holds.
#[test]
fn next_minor_version_that_has_to_wait_is_shown_while_nothing_is_updated() {
    let with = |mut state: State| {
        let status = state.cluster_version.as_mut().unwrap().status.as_mut().unwrap();
        let not = condition("Upgradeable", "False", "2026-11-21T12:00:00Z", "AdminAck", "APIs go away");
        status.conditions.push(serde_json::from_value(not).unwrap());
        View::of(&state, now()).concerns.into_iter().find(|concern| concern.type_ == "Upgradeable")
    };
    let shown = with(running()).expect("shown");
    assert!(shown.next_step.contains("cvo ack"), "{}", shown.next_step);
    assert_eq!(with(updating()), None);
}

#[test]
fn nodes_that_no_pool_selects_are_named_with_the_command_that_labels_them() {
    let mut state = rolling();
    state.nodes.push(node("lost", "nowhere", &[]));
    let text = render(&state, 200, false, now());
    assert!(text.contains("node lost belongs to no MachineConfigPool"), "{text}");
    assert!(text.contains("kubectl label node lost pool=worker"), "{text}");
}

#[test]
fn causes_that_are_left_out_are_counted_with_what_shows_them() {
    let cause = |name: &str| crate::diagnosis::Trouble {
        object: format!("pod shop/{name}"),
        message: "Error".to_owned(),
        next_step: String::new(),
    };
    let told = |causes: Vec<crate::diagnosis::Trouble>| {
        let details = vec![Detail { object: "Deployment shop/web".to_owned(), causes, more: 3 }];
        render(&State { details, ..updating() }, 200, false, now())
    };
    assert!(told(vec![cause("a")]).contains("  and 3 more (cvo status --details shows up to ten)\n"));
    assert!(told(vec![cause("a"), cause("b")]).contains("  and 3 more\n"), "this is what --details shows");
}
