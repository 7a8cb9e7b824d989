use super::*;
use crate::machine_config::node::{NodeState, Problem, Target};
use crate::machine_config::rollout::rounds;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

fn node(name: &str, current: &str, desired: &str, state: NodeState) -> NodeFacts {
    let (current, desired) = (Target::new(current), Target::new(desired));
    NodeFacts { name: name.into(), current, desired, state, ..NodeFacts::default() }
}

fn pool(nodes: Vec<NodeFacts>) -> PoolFacts {
    PoolFacts { name: "worker".into(), target: Target::new("v1"), nodes, ..PoolFacts::default() }
}

fn subject() -> Subject<'static> {
    let configuration = PoolConfiguration { name: "v1".into(), ..PoolConfiguration::default() };
    Subject { generation: 7, configuration, render_error: None, remaining: None, quorum: None }
}

fn of(before: &MachineConfigPoolStatus, subject: &Subject<'_>, pool: &PoolFacts, now: i64) -> MachineConfigPoolStatus {
    let now = Timestamp::from_millisecond(now * 1000 + 1).unwrap();
    status(before, subject, pool, &rounds(std::slice::from_ref(pool), None, now)[0], now)
}

/// The types of those that hold, and what they say.
fn holding(status: &MachineConfigPoolStatus) -> Vec<(&str, &str, &str)> {
    let holding = status.conditions.iter().filter(|condition| condition.status == ConditionStatus::True);
    holding.map(|c| (c.type_.as_str(), c.reason.as_str(), c.message.as_str())).collect()
}

#[test]
fn pool_without_nodes_is_updated_and_takes_its_configuration_at_once() {
    let found = of(&MachineConfigPoolStatus::default(), &subject(), &pool(vec![]), 1);
    assert_eq!(holding(&found), [("Updated", "", "All nodes have MachineConfig v1")]);
    assert_eq!((found.configuration.name.as_str(), found.observed_generation, found.machine_count), ("v1", 7, 0));
    let unrendered = PoolFacts { target: Target::default(), ..pool(vec![]) };
    let found = of(&MachineConfigPoolStatus::default(), &Subject::default(), &unrendered, 1);
    assert_eq!(holding(&found), [("Updating", "", "0 of 0 nodes have MachineConfig ")], "there is none yet");
}

#[test]
fn counts_are_those_that_clients_know() {
    use NodeState::{Degraded, Done, Unreconcilable, Working};
    let problem = Problem { what: "Ready=False".into(), since: None };
    let nodes = vec![
        node("at-target", "v1", "v1", Done),
        NodeFacts { unschedulable: true, ..node("cordoned", "v1", "v1", Done) },
        NodeFacts { problems: vec![problem], ..node("not-ready", "v1", "v1", Done) },
        node("waits", "v0", "v0", Done),
        node("told", "v0", "v1", Done),
        node("works", "v0", "v1", Working),
        node("failed", "v0", "v1", Degraded),
        node("refuses", "v0", "v1", Unreconcilable),
        node("drifted", "v1", "v1", Degraded),
    ];
    let expected = Counts { total: 9, updated: 3, ready: 1, unavailable: 5, degraded: 3 };
    assert_eq!(Counts::of(&pool(nodes)), expected);
}

#[test]
fn node_that_somebody_cordons_after_its_update_leaves_the_pool_updated() {
    let cordoned =
        |ours| NodeFacts { unschedulable: true, cordoned_for_update: ours, ..node("a", "v1", "v1", NodeState::Done) };
    assert!(is_updated(&pool(vec![cordoned(false)])));
    assert!(!is_updated(&pool(vec![cordoned(true)])), "the update is not over");
    let found = of(&MachineConfigPoolStatus::default(), &subject(), &pool(vec![cordoned(false)]), 1);
    assert_eq!((found.ready_machine_count, found.unavailable_machine_count), (0, 1));
}

#[test]
fn configuration_of_the_status_is_the_one_that_all_nodes_have() {
    let old = PoolConfiguration { name: "v0".into(), ..PoolConfiguration::default() };
    let before = MachineConfigPoolStatus { configuration: old, ..MachineConfigPoolStatus::default() };
    let nodes = vec![node("a", "v1", "v1", NodeState::Done), node("b", "v0", "v1", NodeState::Working)];
    let found = of(&before, &subject(), &pool(nodes), 1);
    assert_eq!(found.configuration.name, "v0");
    assert_eq!(holding(&found), [("Updating", "", "1 of 2 nodes have MachineConfig v1")]);
    let known = Subject { remaining: Some(SignedDuration::from_secs(150)), ..subject() };
    let nodes = vec![node("a", "v1", "v1", NodeState::Done), node("b", "v0", "v1", NodeState::Working)];
    let found = of(&before, &known, &pool(nodes), 1);
    let text = "1 of 2 nodes have MachineConfig v1, about 2 minutes left";
    assert_eq!(holding(&found), [("Updating", "", text)]);
}

#[test]
fn node_that_does_not_come_back_from_its_restart_is_named_with_since_when_and_the_way_out() {
    let restarting = NodeFacts {
        restarting_since: Timestamp::from_second(100).ok(),
        problems: vec![Problem { what: "Ready=Unknown (NodeStatusUnknown)".into(), since: None }],
        ..node("a", "v0", "v1", NodeState::Working)
    };
    let facts = PoolFacts {
        max_unavailable: Some(IntOrString::Int(2)),
        ..pool(vec![restarting, node("b", "v0", "v0", NodeState::Done)])
    };
    let before = of(&MachineConfigPoolStatus::default(), &subject(), &facts, 100 + 599);
    assert_eq!(holding(&before), [("Updating", "", "0 of 2 nodes have MachineConfig v1")]);
    let after = of(&MachineConfigPoolStatus::default(), &subject(), &facts, 100 + 600);
    let late = "node a: was to be restarted at 1970-01-01T00:01:40Z and is not back: look at its console, and restart its \
                machine; if the machine is lost, delete the Node";
    let updating = format!("0 of 2 nodes have MachineConfig v1; {late}");
    assert_eq!(holding(&after), [("Updating", "", updating.as_str())], "others go on");
    let stuck = PoolFacts { max_unavailable: None, ..facts };
    let after = of(&MachineConfigPoolStatus::default(), &subject(), &stuck, 100 + 600);
    let blocked = format!("1 node waits: {late}");
    assert_eq!(holding(&after)[1], ("RolloutBlocked", "RestartOverdue", blocked.as_str()));
    let alone = PoolFacts { nodes: stuck.nodes[..1].to_vec(), ..stuck };
    let after = of(&MachineConfigPoolStatus::default(), &subject(), &alone, 100 + 600);
    assert_eq!(holding(&after)[1], ("RolloutBlocked", "RestartOverdue", late), "nobody waits for it");
    let first = rounds(std::slice::from_ref(&alone), None, Timestamp::from_second(101).unwrap());
    assert_eq!(first[0].again, Timestamp::from_second(700).ok(), "it is looked at again then");
}

#[test]
fn paused_pool_is_not_updating_and_says_what_waits() {
    let paused = PoolFacts { paused: true, ..pool(vec![node("a", "v0", "v0", NodeState::Done)]) };
    let found = of(&MachineConfigPoolStatus::default(), &subject(), &paused, 1);
    let message = "1 node waits: it is paused: set spec.paused to false to let it go on";
    assert_eq!(holding(&found), [("RolloutBlocked", "PausedPool", message)]);
    assert_eq!(found.conditions[1].message, "Paused: no node begins to take MachineConfig v1");
}

#[test]
fn degraded_pool_names_each_cause_once() {
    let failed = |name: &str| NodeFacts { reason: "no room".into(), ..node(name, "v0", "v1", NodeState::Degraded) };
    let facts = pool(vec![failed("a"), failed("b")]);
    let said = "Node a is reporting: \"no room\", Node b is reporting: \"no room\"";
    let found = of(&MachineConfigPoolStatus::default(), &subject(), &facts, 1);
    let updating = ("Updating", "", "0 of 2 nodes have MachineConfig v1");
    let degraded = [("NodeDegraded", "NodesDegraded", said), ("Degraded", "NodesDegraded", said)];
    assert_eq!(holding(&found), [updating, degraded[0], degraded[1]], "nobody waits: both were told");
    let broken = Subject { render_error: Some("99-worker: file mode"), ..subject() };
    let found = of(&MachineConfigPoolStatus::default(), &broken, &pool(vec![]), 1);
    let render = [
        ("RenderDegraded", "RenderFailed", "99-worker: file mode"),
        ("Degraded", "RenderFailed", "99-worker: file mode"),
    ];
    assert_eq!(holding(&found)[1..], render);
    let found = of(&MachineConfigPoolStatus::default(), &broken, &facts, 1);
    let both = format!("{said}; 99-worker: file mode");
    assert!(holding(&found).contains(&("Degraded", "SeveralCauses", both.as_str())), "{found:?}");
}

#[test]
fn time_of_a_condition_moves_with_its_status_alone() {
    let waits = pool(vec![node("a", "v0", "v0", NodeState::Done)]);
    let first = of(&MachineConfigPoolStatus::default(), &subject(), &waits, 1);
    assert_eq!(of(&first, &subject(), &waits, 50), first, "nothing has changed");
    let two = pool(vec![node("a", "v1", "v1", NodeState::Done), node("b", "v0", "v0", NodeState::Done)]);
    let second = of(&first, &subject(), &two, 2);
    let time = |status: &MachineConfigPoolStatus, type_: &str| {
        let condition = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
        condition.last_transition_time.as_ref().unwrap().0.as_second()
    };
    assert_ne!(first.conditions[1].message, second.conditions[1].message);
    assert_eq!(time(&second, "Updating"), 1);
    let third = of(&second, &subject(), &pool(vec![node("a", "v1", "v1", NodeState::Done)]), 3);
    assert_eq!((time(&third, "Updating"), time(&third, "Updated")), (3, 3));
}

#[test]
fn conditions_of_others_are_kept_and_doubles_removed() {
    let condition = |type_: &str, status| PoolCondition {
        type_: type_.into(),
        status,
        last_transition_time: None,
        reason: "Mine".into(),
        message: String::new(),
    };
    let conditions = vec![
        condition("Updated", ConditionStatus::True),
        condition("ImageBuildDegraded", ConditionStatus::True),
        condition("Updated", ConditionStatus::False),
    ];
    let before = MachineConfigPoolStatus { conditions, ..MachineConfigPoolStatus::default() };
    let found = of(&before, &subject(), &pool(vec![]), 1);
    let types: Vec<&str> = found.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    let expected =
        ["Updated", "ImageBuildDegraded", "Updating", "NodeDegraded", "RenderDegraded", "Degraded", "RolloutBlocked"];
    assert_eq!(types, expected);
    assert_eq!(found.conditions[1].reason, "Mine");
}

#[test]
fn risk_of_the_quorum_is_a_condition_while_it_lasts() {
    let facts = PoolFacts { target: Target::new("v1"), ..PoolFacts::default() };
    let risky = Subject { quorum: Some("2 of 3".into()), ..subject() };
    let told = of(&MachineConfigPoolStatus::default(), &risky, &facts, 5);
    let at_risk = |status: &MachineConfigPoolStatus| {
        let condition = status.conditions.iter().find(|condition| condition.type_ == AT_RISK)?;
        Some((condition.status, condition.message.clone()))
    };
    assert_eq!(at_risk(&told), Some((ConditionStatus::True, "2 of 3".to_owned())));
    let over = of(&told, &subject(), &facts, 6);
    assert_eq!(at_risk(&over), None);
    assert_eq!(over.conditions.len(), 6, "the others stay");
}

/// Whoever has taken over a node can write there what they want.
#[test]
fn status_stays_small_whatever_nodes_say() {
    let says = |number: usize, text: &str| {
        let annotations = serde_json::json!({
            "machineconfiguration.openshift.io/currentConfig": "v0",
            "machineconfiguration.openshift.io/desiredConfig": "v1",
            "machineconfiguration.openshift.io/state": "Degraded",
            "machineconfiguration.openshift.io/reason": text,
        });
        let node = serde_json::json!({"metadata": {"name": format!("n{number}"), "annotations": annotations}});
        NodeFacts::of(&serde_json::from_value(node).unwrap())
    };
    for (said, nodes) in [("\u{1}", 3), ("\"", 100), ("\u{200b}", 100)] {
        let text = said.repeat((250 << 10) / said.len());
        let nodes = (0..nodes).map(|number| says(number, &text));
        let all = pool(nodes.chain([node("waits", "v0", "v0", NodeState::Done)]).collect());
        let found = of(&MachineConfigPoolStatus::default(), &subject(), &all, 1);
        let holds = holding(&found);
        assert!(holds.iter().all(|(_, _, message)| message.len() <= 9 << 10), "{said:?}: {holds:?}");
        assert!(holds.iter().any(|(_, reason, message)| *reason == "FailedNodes" && message.contains("node n0")));
        let size = serde_json::to_vec(&found).unwrap().len();
        assert!(size < 64 << 10, "{said:?}: {size} bytes");
    }
}
