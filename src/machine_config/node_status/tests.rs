use super::*;
use crate::machine_config::node::{NodeState, Target};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn node(current: &str, desired: &str, state: NodeState) -> NodeFacts {
    let (current, desired) = (Target::new(current), Target::new(desired));
    NodeFacts { name: "n".into(), current, desired, state, ..NodeFacts::default() }
}

fn asked(request: &str, answered: bool) -> DrainFacts {
    let asked = Some(request.to_owned());
    DrainFacts { answered: asked.clone().filter(|_| answered), asked, ..DrainFacts::default() }
}

/// The conditions that are not False; Unknown ones with a question mark.
fn of(before: &MachineConfigNodeStatus, node: &NodeFacts, drain: &DrainFacts) -> (MachineConfigNodeStatus, String) {
    let status = status(before, 1, (node, drain), NOW);
    let shown = status.conditions.iter().filter_map(|it| match it.status {
        False => None,
        Unknown => Some(format!("{}?", it.type_)),
        True => Some(it.type_.clone()),
    });
    let shown = shown.collect::<Vec<_>>().join(" ");
    (status, shown)
}

#[test]
fn each_step_of_an_update_is_seen() {
    let none = DrainFacts::default();
    let mut said = MachineConfigNodeStatus::default();
    let mut seen = Vec::new();
    let working = |unschedulable| NodeFacts { unschedulable, ..node("a", "b", NodeState::Working) };
    let restarting = NodeFacts { restarting_since: Some(NOW), ..working(true) };
    for (node, drain) in [
        (node("a", "a", NodeState::Done), none.clone()),
        (node("a", "b", NodeState::Done), none.clone()),
        (working(false), asked("uncordon-a", true)),
        (working(false), asked("drain-b", false)),
        (working(true), asked("drain-b", false)),
        (working(true), asked("drain-b", true)),
        (restarting, asked("drain-b", true)),
        (working(true), asked("uncordon-b", false)),
        (node("b", "b", NodeState::Done), asked("uncordon-b", true)),
    ] {
        let (status, shown) = of(&said, &node, &drain);
        said = status;
        seen.push(shown);
    }
    let executed = "UpdatePrepared UpdateExecuted Cordoned Drained AppliedFilesAndOS";
    assert_eq!(
        seen,
        [
            "Updated".to_owned(),
            "UpdatePrepared?".to_owned(),
            "UpdatePrepared?".to_owned(),
            "UpdatePrepared UpdateExecuted? Cordoned? Drained?".to_owned(),
            "UpdatePrepared UpdateExecuted? Cordoned Drained?".to_owned(),
            "UpdatePrepared UpdateExecuted? Cordoned Drained AppliedFilesAndOS?".to_owned(),
            format!("{executed} RebootedNode?"),
            format!("{executed} RebootedNode UpdateComplete? Uncordoned?"),
            "Updated".to_owned(),
        ]
    );
    assert_eq!(said.config_version, Some(Versions { current: "b".into(), desired: "b".into() }));
    assert!(said.conditions.iter().all(|condition| !condition.reason.is_empty()), "no reason may be empty");
    assert_eq!(said.conditions.len(), 12);
}

#[test]
fn node_that_failed_says_why_and_times_stay() {
    let failed = NodeFacts { reason: "disk full".into(), ..node("a", "b", NodeState::Degraded) };
    let (first, shown) = of(&MachineConfigNodeStatus::default(), &failed, &DrainFacts::default());
    assert_eq!(shown, "NodeDegraded");
    assert_eq!(find(&first.conditions, "NodeDegraded").unwrap().message, "disk full");
    assert!(is_at_rest(&first));
    let later = status(&first, 1, (&failed, &DrainFacts::default()), Timestamp::from_second(60).unwrap());
    assert_eq!(later, first, "nothing has changed");
    let working = node("a", "b", NodeState::Working);
    let later = status(&first, 2, (&working, &DrainFacts::default()), Timestamp::from_second(60).unwrap());
    assert_eq!(find(&later.conditions, "NodeDegraded").unwrap().last_transition_time.0.as_second(), 60);
    assert_eq!(find(&later.conditions, "Drained").unwrap().last_transition_time.0, NOW);
    assert!(!is_at_rest(&later));
    let deviates = NodeFacts { reason: "drift".into(), ..node("a", "a", NodeState::Degraded) };
    assert_eq!(of(&first, &deviates, &DrainFacts::default()).1, "Updated NodeDegraded");
}

#[test]
fn what_is_not_known_yet_has_a_name() {
    let new = NodeFacts { name: "n".into(), ..NodeFacts::default() };
    let spec = spec(&new, "worker");
    assert_eq!((spec.pool.name.as_str(), spec.config_version.desired.as_str()), ("worker", "not-yet-set"));
}
