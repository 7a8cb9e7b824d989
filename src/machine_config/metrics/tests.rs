use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn condition(type_: &str, holds: bool, reason: &str) -> PoolCondition {
    PoolCondition {
        type_: type_.to_owned(),
        status: if holds { ConditionStatus::True } else { ConditionStatus::False },
        last_transition_time: Some(Time(at("2026-01-01T00:00:00Z"))),
        reason: reason.to_owned(),
        message: "a text that changes all the time".to_owned(),
    }
}

fn snapshot() -> PoolsSnapshot {
    let status = MachineConfigPoolStatus {
        machine_count: 5,
        updated_machine_count: 2,
        ready_machine_count: 1,
        unavailable_machine_count: 3,
        degraded_machine_count: 1,
        conditions: vec![
            condition("Updating", true, ""),
            condition("Degraded", true, "NodesDegraded"),
            condition("Updated", false, ""),
        ],
        ..MachineConfigPoolStatus::default()
    };
    let node = |name: &str, pool: &str| NodeFigures { name: name.into(), pool: pool.into(), ..NodeFigures::default() };
    let drain = |started: &str| Some(Drain { started: at(started), failed: None });
    PoolsSnapshot {
        pools: vec![PoolFigures { name: "worker".into(), paused: true, status, os_image_overridden: false }],
        nodes: vec![
            NodeFigures { state: NodeState::Done, ..node("a", "worker") },
            NodeFigures { state: NodeState::Working, drain: drain("2026-01-01T00:50:00Z"), ..node("b", "worker") },
            NodeFigures { state: NodeState::Degraded, drain: drain("2026-01-01T00:00:00Z"), ..node("c", "worker") },
            NodeFigures { overlapping: true, ..node("d", "") },
            NodeFigures { without_pool: true, ..node("e", "") },
        ],
        ..PoolsSnapshot::default()
    }
}

#[test]
fn pools_and_nodes_are_counted() {
    let text = text(&snapshot(), at("2026-01-01T01:00:01Z"));
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        samples,
        [
            r#"mco_machine_count{pool="worker"} 5"#,
            r#"mco_updated_machine_count{pool="worker"} 2"#,
            r#"mco_ready_machine_count{pool="worker"} 1"#,
            r#"mco_degraded_machine_count{pool="worker"} 1"#,
            r#"mco_unavailable_machine_count{pool="worker"} 3"#,
            r#"os_image_url_override{pool="worker"} 0"#,
            r#"machine_config_pool_paused{pool="worker"} 1"#,
            r#"mco_state{node="",pool="worker",state="Degraded",reason="NodesDegraded"} 1767225600"#,
            r#"mco_state{node="",pool="worker",state="Updating",reason=""} 1767225600"#,
            r#"machine_config_pool_condition{pool="worker",condition="Degraded",reason="NodesDegraded"} 1"#,
            r#"machine_config_pool_condition{pool="worker",condition="Updated",reason=""} 0"#,
            r#"machine_config_pool_condition{pool="worker",condition="Updating",reason=""} 1"#,
            r#"machine_config_node_state{node="a",pool="worker",state="Done"} 1"#,
            r#"machine_config_node_state{node="b",pool="worker",state="Working"} 1"#,
            r#"machine_config_node_state{node="c",pool="worker",state="Degraded"} 1"#,
            r#"mcc_drain_err{node="b"} 0"#,
            r#"mcc_drain_err{node="c"} 1"#,
            r#"machine_config_node_drain_seconds{node="b",pool="worker"} 601"#,
            r#"machine_config_node_drain_seconds{node="c",pool="worker"} 3601"#,
            r#"mcc_pool_alert{node="d"} 1"#,
            "machine_config_nodes_without_pool 1",
        ]
    );
}

#[test]
fn a_process_without_the_lease_tells_of_itself_alone() {
    let process = ProcessFigures { threads: Some(4.0), ..ProcessFigures::default() };
    let requests = [(("get", "200".to_owned()), 7)].into();
    let text = text(&PoolsSnapshot { process, requests, ..PoolsSnapshot::default() }, at("2026-01-01T00:00:00Z"));
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(samples, [r#"machine_config_api_requests_total{verb="get",code="200"} 7"#, "process_threads 4"]);
}
