use super::super::facts::Facts;
use super::*;
use cvo::testing::api::ClusterOperator;
use cvo::testing::api::cluster_operator::ClusterOperatorSpec;
use std::sync::Arc;

const DONE: &str = "1.0.1";

fn args() -> OperatorArgs {
    OperatorArgs {
        component: "network".into(),
        version: DONE.into(),
        operands: vec!["DaemonSet/network-agent".parse().unwrap()],
        needs: vec!["storage".into()],
        needs_config: true,
        operand_image: "lab".into(),
        fail_until: None,
        migrate: None,
    }
}

fn operator(name: &str, version: &str, conditions: &[(&str, bool)]) -> ClusterOperator {
    let mut object = ClusterOperator::new(name, ClusterOperatorSpec {});
    let condition = |(type_, status): &(&str, bool)| Condition {
        type_: (*type_).into(),
        status: if *status { ConditionStatus::True } else { ConditionStatus::False },
        last_transition_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
        reason: String::new(),
        message: String::new(),
    };
    object.status = Some(ClusterOperatorStatus {
        conditions: conditions.iter().map(condition).collect(),
        versions: vec![OperandVersion { name: "operator".into(), version: version.into() }],
        ..ClusterOperatorStatus::default()
    });
    object
}

/// The operand as an item of a list: it has more fields than were written, and does not say its kind.
fn live(args: &OperatorArgs, config: &Value, updated: i64, available: i64) -> Value {
    let mut object = workload(args, &args.operands[0], Some(config));
    object["metadata"]["generation"] = json!(2);
    object.as_object_mut().unwrap().retain(|key, _| key != "apiVersion" && key != "kind");
    object["spec"]["revisionHistoryLimit"] = json!(10);
    object["status"] = json!({"observedGeneration": 2, "desiredNumberScheduled": 1,
        "updatedNumberScheduled": updated, "numberAvailable": available});
    object
}

fn facts(own: ClusterOperator, storage: bool, operand: Option<Value>) -> Facts {
    let storage = operator("storage", DONE, &[("Available", storage)]);
    Facts {
        now: "2026-01-02T00:00:00.5Z".parse().unwrap(),
        operators: [("network".into(), Arc::new(own)), ("storage".into(), Arc::new(storage))].into(),
        operands: vec![operand],
        config: Some(json!({"networkCIDR": "10.0.0.0/8"})),
        repaired: true,
        ..Facts::default()
    }
}

/// `Available Progressing Degraded version rollout`, as letters: A, P, D when true.
fn verdict(args: &OperatorArgs, facts: &Facts) -> String {
    let before = facts.operators["network"].status.clone().unwrap_or_default();
    let actions = decide(args, facts);
    let rollout = actions.iter().any(|action| matches!(action, Action::RollOut(..)));
    let status = actions
        .into_iter()
        .find_map(|action| match action {
            Action::Report(status) => Some(status),
            Action::RollOut(..) => None,
        })
        .unwrap_or(before);
    let letter = |type_: &'static str| if holds(&status, type_) { &type_[..1] } else { "-" };
    let version = status.versions.first().map_or("", |v| v.version.as_str());
    let roll = if rollout { " rollout" } else { "" };
    format!("{}{}{} {version}{roll}", letter("Available"), letter("Progressing"), letter("Degraded"))
}

#[test]
fn reports_follow_the_rollout() {
    let args = args();
    let config = json!({"networkCIDR": "10.0.0.0/8"});
    let old = OperatorArgs { version: "1.0.0".into(), ..args.clone() };
    let ran = [("Available", true), ("Progressing", false), ("Degraded", false)];
    let rolls = [("Available", true), ("Progressing", true), ("Degraded", false)];
    let fresh = || ClusterOperator::new("network", ClusterOperatorSpec {});
    let table = [
        ("first rollout begins", facts(fresh(), true, None), "-P-  rollout"),
        ("another component is missing", facts(fresh(), false, None), "-P- "),
        ("first pods start", facts(fresh(), true, Some(live(&args, &config, 1, 0))), "-P- "),
        ("first pods serve", facts(fresh(), true, Some(live(&args, &config, 1, 1))), "A-- 1.0.1"),
        (
            "an update begins: the old version stands until the end",
            facts(operator("network", "1.0.0", &ran), true, Some(live(&old, &config, 1, 1))),
            "AP- 1.0.0 rollout",
        ),
        (
            "pods are replaced: having served counts",
            facts(operator("network", "1.0.0", &rolls), true, Some(live(&args, &config, 1, 0))),
            "AP- 1.0.0",
        ),
        (
            "an update waits for another component",
            facts(operator("network", "1.0.0", &ran), false, Some(live(&old, &config, 1, 1))),
            "AP- 1.0.0",
        ),
        (
            "all pods serve the new version",
            facts(operator("network", "1.0.0", &rolls), true, Some(live(&args, &config, 1, 1))),
            "A-- 1.0.1",
        ),
        (
            "a pod is lost after the rollout",
            facts(operator("network", DONE, &ran), true, Some(live(&args, &config, 1, 0))),
            "--- 1.0.1",
        ),
        ("the operand was deleted", facts(operator("network", DONE, &ran), true, None), "AP- 1.0.1 rollout"),
        (
            "configuration changed",
            facts(
                operator("network", DONE, &ran),
                true,
                Some(live(&args, &json!({"networkCIDR": "10.1.0.0/16"}), 1, 1)),
            ),
            "AP- 1.0.1 rollout",
        ),
        (
            "another component is down later: nothing to do with this one",
            facts(operator("network", DONE, &ran), false, Some(live(&args, &config, 1, 1))),
            "A-- 1.0.1",
        ),
    ];
    for (case, facts, expected) in table {
        assert_eq!(verdict(&args, &facts), expected, "{case}");
    }
}

#[test]
fn failing_variant_names_its_repair_and_recovers() {
    let args = OperatorArgs { fail_until: Some("repair".into()), ..args() };
    let ran = [("Available", true), ("Progressing", false), ("Degraded", false)];
    let mut facts = facts(operator("network", "1.0.0", &ran), true, None);
    facts.repaired = false;
    assert_eq!(verdict(&args, &facts), "-PD 1.0.0");
    let Some(Action::Report(status)) = decide(&args, &facts).pop() else { panic!("no report") };
    assert!(find(&status.conditions, "Degraded").unwrap().message.contains("network/repair"));
    facts.repaired = true;
    assert_eq!(verdict(&args, &facts), "AP- 1.0.0 rollout");
}

#[test]
fn unchanged_status_is_not_reported_again() {
    let args = args();
    let config = json!({"networkCIDR": "10.0.0.0/8"});
    let own = operator("network", "1.0.0", &[("Available", true), ("Progressing", true)]);
    let mut facts = facts(own.clone(), true, Some(live(&args, &config, 1, 1)));
    let Some(Action::Report(status)) = decide(&args, &facts).pop() else { panic!("no report") };
    let since = |type_: &str| find(&status.conditions, type_).unwrap().last_transition_time.0.to_string();
    assert_eq!(since("Available"), "2026-01-01T00:00:00Z", "unchanged status keeps its time");
    assert_eq!(since("Progressing"), "2026-01-02T00:00:00Z", "whole seconds");
    let next = ClusterOperator { status: Some(status), ..own };
    facts.operators.insert("network".into(), Arc::new(next));
    facts.now = "2026-01-03T00:00:00Z".parse().unwrap();
    assert_eq!(decide(&args, &facts), Vec::new());
}

#[test]
fn nothing_is_done_without_a_cluster_operator() {
    assert_eq!(decide(&args(), &Facts::default()), Vec::new());
}
