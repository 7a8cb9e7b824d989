use super::*;
use crate::machine_config::plan::{SCHEMA, Unselected};
use jiff::Timestamp;

const PAGE: Page = Page { width: usize::MAX, colours: false, now: Timestamp::UNIX_EPOCH };

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn change(what: &str, how: &str, follows: &[&str]) -> ChangeLine {
    let follows = follows.iter().map(|text| (*text).to_owned()).collect();
    ChangeLine { what: what.into(), how: how.into(), follows }
}

fn rollout() -> Rollout {
    Rollout {
        order: names(["n1", "n2"]),
        at_a_time: 1,
        seconds: Some(700),
        holds: Vec::new(),
        stuck: None,
        unknown: Vec::new(),
        drains: Vec::new(),
    }
}

fn pool(transitions: Vec<Transition>, rollout: Rollout) -> PoolPlan {
    PoolPlan {
        name: "worker".into(),
        given: names(["10-a"]),
        from: "rendered-worker-1".into(),
        to: Some("rendered-worker-2".into()),
        error: None,
        warnings: Vec::new(),
        transitions,
        rollout: Some(rollout),
    }
}

fn shown(pools: Vec<PoolPlan>) -> String {
    let (unselected, refused, remarks) = (Vec::new(), Vec::new(), Vec::new());
    text(&NodePlan { schema: SCHEMA, pools, unselected, refused, incomplete: false, remarks }, &PAGE)
}

fn restarted() -> Transition {
    Transition {
        from: "rendered-worker-1".into(),
        nodes: names(["n1", "n2"]),
        changes: vec![change("file /etc/a", "3 → 5 bytes", &["Reboot"]), change("unit b.service", "added", &[])],
        drains: true,
        reboots: true,
        ..Transition::default()
    }
}

#[test]
fn a_pool_says_what_changes_what_follows_and_how_long_it_takes() {
    let master = PoolPlan { name: "master".into(), to: Some("rendered-worker-1".into()), ..pool(vec![], rollout()) };
    let expected = "\
Pool worker: rendered-worker-1 → rendered-worker-2
    file /etc/a     3 → 5 bytes  Reboot
    unit b.service  added        nothing follows
  Each node is drained and restarted
  Nodes, 1 at a time: n1, n2
  It takes about 11 minutes, if nodes take as long as the last ones did
Pool master does not change
";
    assert_eq!(shown(vec![pool(vec![restarted()], rollout()), master]), expected);
}

#[test]
fn what_makes_nodes_wait_is_told_with_the_way_out() {
    let hold = |after, message: &str| Held {
        reason: "AwaitingApproval".into(),
        message: message.into(),
        after,
        until: None,
        lasts: true,
    };
    let kept = Kept {
        namespace: "shop".into(),
        budget: "web".into(),
        pods: names(["web-0", "web-1"]),
        counts: None,
        message: "PodDisruptionBudget web (2 of 2 pods are healthy, 2 have to be)".into(),
    };
    let drain =
        DrainPlan { node: "n1".into(), pods: 3, kept: vec![kept], lost: names(["shop/db-0: its data is lost"]) };
    let stuck = Stuck { nodes: names(["n3"]), reason: "UnavailableNodes".into(), message: "node n3: away".into() };
    let waiting = Rollout {
        seconds: None,
        holds: vec![hold(0, "it is paused"), hold(1, "approve")],
        stuck: Some(stuck),
        unknown: names(["n4"]),
        drains: vec![drain],
        ..rollout()
    };
    let expected = "\x20 Nodes, 1 at a time: n1, n2
  How long it takes is not known yet: no node of the pool has been seen to take a change
  Nodes would wait: it is paused
  After 1 the others would wait: approve
  As the cluster is, n3 would wait: node n3: away
  n4: no agent has said yet what is there
  Node n1 could not be drained now: shop/web-0, shop/web-1 are kept by PodDisruptionBudget web (2 of 2 pods are healthy, 2 have to be)
  1 pod would lose something: shop/db-0: its data is lost
";
    let mut out = String::new();
    rollout_text(&waiting, &PAGE, &mut out);
    assert_eq!(out, expected);
}

#[test]
fn disruptions_are_told_in_words() {
    let of = |drains, reboots, actions: &[&str]| {
        let actions = actions.iter().map(|text| (*text).to_owned()).collect();
        effect(&Transition { drains, reboots, actions, ..Transition::default() }).0
    };
    assert_eq!(of(true, true, &[]), "Each node is drained and restarted");
    assert_eq!(of(true, false, &[]), "Each node is drained, and not restarted");
    assert_eq!(of(true, false, &["Reload crio.service"]), "Each node is drained, then: Reload crio.service");
    assert_eq!(of(false, false, &["Restart a", "Restart b"]), "Pods stay; on each node: Restart a, Restart b");
    assert_eq!(of(false, false, &[]), "Nothing is disrupted");
}

#[test]
fn failures_and_several_configurations_are_told_apart() {
    let failed = PoolPlan { to: None, error: Some("MachineConfig 10-a: bad".into()), ..pool(vec![], rollout()) };
    let expected = "Pool worker gets no configuration, and keeps rendered-worker-1\n  MachineConfig 10-a: bad\n";
    assert_eq!(shown(vec![failed]), expected);
    let gone = Transition { from: "old".into(), nodes: names(["n9"]), error: Some("is gone".into()), ..restarted() };
    let both = shown(vec![pool(vec![restarted(), gone], rollout())]);
    assert!(both.contains("n1, n2, which have rendered-worker-1\n"), "{both}");
    assert!(both.contains("n9, which has old\n    is gone\n"), "{both}");
    let lost = Unselected { name: "50-x".into(), message: "no pool".into() };
    let plan = NodePlan {
        schema: SCHEMA,
        pools: vec![],
        unselected: vec![lost],
        refused: vec![],
        incomplete: false,
        remarks: names(["a remark"]),
    };
    assert_eq!(text(&plan, &PAGE), "MachineConfig 50-x: no pool\na remark\n");
}
