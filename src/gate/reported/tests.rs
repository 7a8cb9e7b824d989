use super::*;
use crate::gate::Reason;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn deployment(available: i64, verdict: Verdict, as_desired: bool) -> Workload {
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2}, "status": {"availableReplicas": available}});
    Workload {
        id: ObjectId::new("apps", "Deployment", "shop", "web"),
        live: Some(Observed::of(&live)),
        as_desired,
        verdict,
    }
}

fn rolling() -> Verdict {
    Verdict::Waiting { reason: Reason::RollingOut, message: "web is rolling out".into() }
}

fn failing() -> Verdict {
    Verdict::failing(Reason::NotProgressing, "web is stuck", None)
}

/// The ClusterOperator in the release.
fn manifest(versions: &[(&str, &str)]) -> Observed {
    let versions: Vec<_> = versions.iter().map(|(name, version)| json!({"name": name, "version": version})).collect();
    Observed::of(&json!({"kind": "ClusterOperator", "status": {"versions": versions}}))
}

/// Status of Available, Progressing and Degraded, and the version.
fn told(report: &OperatorReport) -> (Vec<bool>, Option<&str>) {
    let is = |type_: &str| find(&report.conditions, type_).unwrap().status == ConditionStatus::True;
    (["Available", "Progressing", "Degraded"].map(is).to_vec(), report.version("operator"))
}

#[test]
fn health_of_workloads_becomes_conditions_and_the_version() {
    let old = OperatorReport {
        versions: vec![OperandVersion { name: "operator".into(), version: "1.0.0".into() }],
        ..OperatorReport::default()
    };
    let gone = Workload { live: None, ..deployment(0, rolling(), false) };
    let cases = [
        (vec![deployment(2, Verdict::Ready, true)], vec![true, false, false], "1.0.1"),
        (vec![deployment(1, rolling(), true)], vec![true, true, false], "1.0.0"),
        (vec![deployment(0, rolling(), true)], vec![false, true, false], "1.0.0"),
        (vec![deployment(2, failing(), true)], vec![true, false, true], "1.0.0"),
        // Rolled out, but not what this release wants.
        (vec![deployment(2, Verdict::Ready, false)], vec![true, true, false], "1.0.0"),
        (vec![deployment(2, Verdict::Ready, true), gone], vec![false, true, false], "1.0.0"),
        (vec![], vec![true, false, false], "1.0.1"),
    ];
    for (workloads, conditions, version) in cases {
        let report = report(&old, &workloads, &manifest(&[("operator", "1.0.1")]), at(0));
        assert_eq!(told(&report), (conditions, Some(version)), "{workloads:?}");
    }
}

/// A release `1.0.1+build` has `1.0.1` in its manifests, and perhaps versions of operands: its gate waits for just these.
#[test]
fn versions_are_those_that_the_gate_waits_for() {
    let desired = manifest(&[("operator", "1.0.1"), ("web", "7.2")]);
    let report = report(&OperatorReport::default(), &[deployment(2, Verdict::Ready, true)], &desired, at(0));
    let live = Observed::of(&json!({"status": {"conditions": report.conditions, "versions": report.versions}}));
    assert_eq!(super::super::operator::judge(&desired, Some(&live)), Verdict::Ready);
}

#[test]
fn time_of_a_condition_stays_as_long_as_its_status_does() {
    let first = report(
        &OperatorReport::default(),
        &[deployment(0, rolling(), true)],
        &manifest(&[("operator", "1.0.1")]),
        at(0),
    );
    let second = report(&first, &[deployment(2, rolling(), true)], &manifest(&[("operator", "1.0.1")]), at(60));
    let time = |report: &OperatorReport, type_: &str| find(&report.conditions, type_).unwrap().last_transition_time.0;
    assert_eq!((time(&second, "Available"), time(&second, "Progressing")), (at(60), at(0)));
    assert_eq!(
        report(&second, &[deployment(2, rolling(), true)], &manifest(&[("operator", "1.0.1")]), at(90)),
        second,
        "nothing to write"
    );
}

#[test]
fn what_is_meant_to_have_no_pods_is_available() {
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0}});
    let zero = Workload { live: Some(Observed::of(&live)), ..deployment(0, Verdict::Ready, true) };
    let live = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "status": {"desiredNumberScheduled": 0}});
    let nowhere = Workload { live: Some(Observed::of(&live)), ..deployment(0, Verdict::Ready, true) };
    let report = report(&OperatorReport::default(), &[zero, nowhere], &manifest(&[("operator", "1.0.1")]), at(0));
    assert_eq!(told(&report), (vec![true, false, false], Some("1.0.1")));
}
