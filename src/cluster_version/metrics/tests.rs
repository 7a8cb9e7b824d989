use super::*;
use crate::cluster_version::api::{Capabilities, HistoryEntry, HistoryState, Update};
use crate::cluster_version::progress::WaitingFor;
use crate::object::cluster_operator::OperandVersion;
use crate::object::condition::{Condition, ConditionStatus};
use crate::release::api::{ConditionalUpdate, ConditionalUpdateRisk};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as MetaCondition, Time};
use std::collections::BTreeSet;

const CREATED: i64 = 100;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn release(version: &str, image: &str) -> Release {
    Release { version: version.into(), image: image.into(), ..Release::default() }
}

fn condition(type_: &str, status: ConditionStatus, reason: &str, since: i64) -> Condition {
    let (type_, reason, message) = (type_.to_owned(), reason.to_owned(), String::new());
    Condition { type_, status, last_transition_time: Time(at(since)), reason, message }
}

fn entry(version: &str, started: i64, completed: Option<i64>) -> HistoryEntry {
    HistoryEntry {
        state: if completed.is_some() { HistoryState::Completed } else { HistoryState::Partial },
        started_time: Time(at(started)),
        completion_time: completed.map(|second| Time(at(second))),
        version: version.into(),
        image: format!("image-{version}"),
        verified: false,
        accepted_risks: String::new(),
    }
}

/// A daemon of release 1.1.0 that has seen this ClusterVersion.
fn snapshot(spec: ClusterVersionSpec, status: ClusterVersionStatus) -> Snapshot {
    let seen = SeenClusterVersion { spec, status, created: Some(at(CREATED)) };
    let observation = Observation { cluster_version: Some(Arc::new(seen)), ..Observation::default() };
    Snapshot {
        own: release("1.1.0", "image-1.1.0"),
        built: Some(at(50)),
        observation: Some(Arc::new(observation)),
        ..Snapshot::default()
    }
}

fn with(mut snapshot: Snapshot, change: impl FnOnce(&mut Observation)) -> Snapshot {
    let mut observation = Observation::clone(snapshot.observation.as_ref().unwrap());
    change(&mut observation);
    snapshot.observation = Some(Arc::new(observation));
    snapshot
}

/// The lines of one metric without its name.
fn lines(snapshot: &Snapshot, name: &str) -> Vec<String> {
    let text = text(snapshot, at(1000));
    let of_metric = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    text.lines().filter(of_metric).map(|line| line[name.len()..].to_owned()).collect()
}

fn version_line(type_: &str, version: &str, from: &str, value: i64) -> String {
    let image = if version.is_empty() { String::new() } else { format!("image-{version}") };
    format!("{{type=\"{type_}\",version=\"{version}\",image=\"{image}\",from_version=\"{from}\"}} {value}")
}

fn asked(version: &str, image: &str) -> ClusterVersionSpec {
    let update = Update { version: version.into(), image: image.into(), ..Update::default() };
    ClusterVersionSpec { desired_update: Some(update), ..ClusterVersionSpec::default() }
}

fn history(entries: Vec<HistoryEntry>) -> ClusterVersionStatus {
    ClusterVersionStatus { history: entries, ..ClusterVersionStatus::default() }
}

#[test]
fn only_the_running_release_is_shown_before_there_is_a_cluster_version() {
    let waiting = Snapshot { own: release("1.1.0", "image-1.1.0"), ..Snapshot::default() };
    let current = version_line("current", "1.1.0", "", 0);
    assert_eq!(lines(&waiting, "cluster_version"), [current.as_str()]);
    assert!(lines(&waiting, "cluster_operator_up").is_empty(), "another process may know");
    let leading = Snapshot { observation: Some(Arc::default()), ..waiting };
    assert_eq!(lines(&leading, "cluster_version"), [current]);
    let missing = "{name=\"version\",version=\"\",reason=\"ClusterVersionNotFound\"} 0";
    assert_eq!(lines(&leading, "cluster_operator_up"), [missing]);
}

#[test]
fn versions_of_an_install() {
    let status = history(vec![entry("1.1.0", 110, None)]);
    let expected = [
        version_line("cluster", "1.1.0", "", CREATED),
        version_line("current", "1.1.0", "", 50),
        version_line("initial", "1.1.0", "", CREATED),
        version_line("updating", "1.1.0", "", 110),
    ];
    assert_eq!(lines(&snapshot(ClusterVersionSpec::default(), status), "cluster_version"), expected);
}

#[test]
fn versions_of_a_resting_cluster() {
    let status =
        history(vec![entry("1.1.0", 300, Some(400)), entry("1.0.5", 250, None), entry("1.0.0", 110, Some(200))]);
    let expected = [
        version_line("cluster", "1.1.0", "1.0.0", CREATED),
        version_line("completed", "1.1.0", "1.0.0", 400),
        version_line("current", "1.1.0", "1.1.0", 50),
        version_line("initial", "1.0.0", "", CREATED),
    ];
    assert_eq!(lines(&snapshot(asked("1.1.0", "image-1.1.0"), status.clone()), "cluster_version"), expected);
    // A request by version alone, for what runs, is fulfilled, and one without either is none.
    for spec in [asked("1.1.0", ""), asked("", ""), asked("", "image-1.1.0"), ClusterVersionSpec::default()] {
        assert_eq!(lines(&snapshot(spec, status.clone()), "cluster_version"), expected);
    }
}

#[test]
fn versions_of_an_update_and_of_a_failure() {
    let mut status = history(vec![entry("1.2.0", 500, None), entry("1.1.0", 300, Some(400))]);
    status.conditions = vec![condition("Failing", ConditionStatus::True, "Broken", 600)];
    let seen = snapshot(asked("1.2.0", ""), status.clone());
    let all = lines(&seen, "cluster_version");
    // Requested by version alone: its image is not known here.
    let of = |type_: &str, value: i64| {
        format!("{{type=\"{type_}\",version=\"1.2.0\",image=\"\",from_version=\"1.1.0\"}} {value}")
    };
    for expected in [of("desired", 600), of("failure", 600), version_line("updating", "1.2.0", "1.1.0", 500)] {
        assert!(all.contains(&expected), "{expected} in {all:#?}");
    }
    // Without a request the failure is one of the running release; without a failure there is none.
    let all = lines(&snapshot(ClusterVersionSpec::default(), status.clone()), "cluster_version");
    assert!(all.contains(&version_line("failure", "1.1.0", "1.1.0", 600)), "{all:#?}");
    for other in [ConditionStatus::False, ConditionStatus::Unknown] {
        status.conditions[0].status = other;
        let all = lines(&snapshot(asked("1.2.0", ""), status.clone()), "cluster_version");
        assert!(!all.iter().any(|line| line.contains("failure")), "{all:#?}");
    }
}

#[test]
fn available_updates_are_counted_once_they_are_known() {
    let mut seen = SeenClusterVersion::default();
    let count = |seen: &SeenClusterVersion, flag: Option<&str>| {
        let snapshot = snapshot(seen.spec.clone(), seen.status.clone());
        lines(&Snapshot { update_service: flag.map(Into::into), ..snapshot }, "cluster_version_available_updates")
    };
    assert!(count(&seen, None).is_empty());
    seen.spec.channel = "stable".into();
    seen.status.conditions = vec![condition("RetrievedUpdates", ConditionStatus::True, "", 1)];
    assert_eq!(count(&seen, None), ["{upstream=\"<default>\",channel=\"stable\"} 0"]);
    seen.status.conditions.clear();
    seen.status.available_updates = Some(vec![release("1.2.0", "a"), release("1.3.0", "b")]);
    assert_eq!(count(&seen, None), ["{upstream=\"<default>\",channel=\"stable\"} 2"]);
    seen.status.available_updates = None;
    seen.spec.upstream = "https://a".into();
    assert_eq!(count(&seen, None), ["{upstream=\"https://a\",channel=\"stable\"} 0"]);
    assert_eq!(count(&seen, Some("https://flag")), ["{upstream=\"https://flag\",channel=\"stable\"} 0"]);
}

#[test]
fn operators_and_the_cluster_version_are_up_or_say_why_not() {
    let operator = |conditions: Vec<Condition>, version: &str| {
        let versions = vec![
            OperandVersion { name: "operand".into(), version: "9".into() },
            OperandVersion { name: "operator".into(), version: version.into() },
        ];
        Arc::new(OperatorReport { generation: 1, conditions, versions })
    };
    let mut status = history(vec![entry("1.2.0", 500, None), entry("1.1.0", 300, Some(400))]);
    status.conditions = vec![condition("Available", ConditionStatus::True, "", 1)];
    let operators = BTreeMap::from([
        ("console".to_owned(), operator(vec![condition("Available", ConditionStatus::False, "Broken", 1)], "1.1.0")),
        ("dns".to_owned(), operator(vec![condition("Available", ConditionStatus::Unknown, "Waits", 1)], "1.1.0")),
        ("new".to_owned(), Arc::default()),
    ]);
    let snapshot = Snapshot { operators: Some(Arc::new(operators)), ..snapshot(ClusterVersionSpec::default(), status) };
    let expected = [
        "{name=\"console\",version=\"1.1.0\",reason=\"Broken\"} 0",
        "{name=\"dns\",version=\"1.1.0\",reason=\"Waits\"} 0",
        "{name=\"new\",version=\"\",reason=\"NoAvailableCondition\"} 0",
        "{name=\"version\",version=\"1.1.0\",reason=\"\"} 1",
    ];
    assert_eq!(lines(&snapshot, "cluster_operator_up"), expected);
    let known = [
        "{name=\"console\",condition=\"Available\",reason=\"Broken\"} 0",
        "{name=\"version\",condition=\"Available\",reason=\"\"} 1",
    ];
    assert_eq!(lines(&snapshot, "cluster_operator_conditions"), known);
    let all = [known[0], "{name=\"dns\",condition=\"Available\",reason=\"Waits\"} -1", known[1]];
    assert_eq!(lines(&snapshot, "cluster_version_operator_conditions"), all);
}

#[test]
fn capabilities_risks_and_conditional_updates_have_their_series() {
    let meta = |type_: &str, status: &str| MetaCondition {
        type_: type_.into(),
        status: status.into(),
        reason: "R".into(),
        message: String::new(),
        last_transition_time: Time(at(77)),
        observed_generation: None,
    };
    let risk = |name: &str, status: &str| ConditionalUpdateRisk {
        url: String::new(),
        name: name.into(),
        message: String::new(),
        matching_rules: vec![],
        conditions: vec![meta("Applies", status), meta("Other", "True")],
    };
    let status = ClusterVersionStatus {
        capabilities: Capabilities {
            enabled_capabilities: vec!["Console".into()],
            known_capabilities: vec!["Build".into(), "Console".into()],
        },
        conditional_updates: vec![ConditionalUpdate {
            release: release("1.2.0", "a"),
            risks: vec![],
            conditions: vec![meta("Recommended", "Unknown"), meta("Other", "True")],
            risk_names: vec![],
        }],
        conditional_update_risks: vec![risk("a", "True"), risk("b", "False"), risk("c", "Unknown")],
        ..ClusterVersionStatus::default()
    };
    let snapshot = snapshot(ClusterVersionSpec::default(), status);
    assert_eq!(lines(&snapshot, "cluster_version_capability"), ["{name=\"Build\"} 0", "{name=\"Console\"} 1"]);
    let risks = ["a", "b", "c"].map(|name| format!("{{condition=\"Applies\",risk=\"{name}\",reason=\"R\"}}"));
    let expected = [format!("{} 1", risks[0]), format!("{} 0", risks[1]), format!("{} -1", risks[2])];
    assert_eq!(lines(&snapshot, "cluster_version_risk_conditions"), expected);
    let expected = ["{version=\"1.2.0\",condition=\"Recommended\",status=\"Unknown\",reason=\"R\"} 77"];
    assert_eq!(lines(&snapshot, "cluster_version_conditional_update_condition_seconds"), expected);
}

/// A daemon in the middle of an update.
fn busy() -> Snapshot {
    let waiting = WaitingFor {
        kind: "ClusterOperator".into(),
        name: "dns".into(),
        since: Some(at(990)),
        ..WaitingFor::default()
    };
    let future = WaitingFor { kind: "Job".into(), name: "j".into(), since: Some(at(2000)), ..WaitingFor::default() };
    let node = |id: &str, waiting| NodeProgress { id: id.into(), waiting: vec![waiting], ..NodeProgress::default() };
    let conflict = Conflict { object: "ConfigMap a/b".into(), manager: "kubectl".into(), fields: vec![], repairs: 4 };
    let observation = |o: &mut Observation| {
        o.turn = at(999);
        o.durations.insert("network".into(), 2.5);
        o.rollout = Some(SeenRollout {
            version: "1.2.0".into(),
            done: 3,
            total: 10,
            errors: 2,
            waiting: vec![node("1/50/dns", waiting), node("1/60/network", future)],
            conflicts: vec![conflict],
        });
        o.counters.loads.insert(("RetrievePayload", "failed"), 2);
        o.counters.repairs.insert("ConfigMap".into(), 5);
    };
    Snapshot {
        installer: Some(Installer { type_: "other".into(), version: "v1".into(), invoker: "me".into() }),
        kinds: BTreeMap::from([("deployments.apps".into(), true), (String::new(), false)]),
        requests: BTreeMap::from([(("get", "200".to_owned()), 7)]),
        transitions: BTreeMap::from([(("dns".to_owned(), "Available".to_owned()), 2)]),
        retrieval: RetrievalFigures {
            retrieved: Some(at(900)),
            failures: BTreeMap::from([("RemoteFailed".to_owned(), 3)]),
        },
        process: ProcessFigures { cpu_seconds: Some(1.25), ..ProcessFigures::default() },
        ..with(snapshot(ClusterVersionSpec::default(), ClusterVersionStatus::default()), observation)
    }
}

#[test]
fn work_of_the_daemon_has_its_series() {
    let snapshot = busy();
    let table: [(&str, &[&str]); 18] = [
        (
            "cluster_version_payload",
            &["{version=\"1.2.0\",type=\"applied\"} 3", "{version=\"1.2.0\",type=\"pending\"} 7"],
        ),
        ("cluster_operator_payload_errors", &["{version=\"1.2.0\"} 2"]),
        ("cluster_version_operator_update_retrieval_timestamp_seconds", &["{name=\"\"} 900"]),
        ("cluster_installer", &["{type=\"other\",version=\"v1\",invoker=\"me\"} 1"]),
        ("cluster_operator_condition_transitions", &["{name=\"dns\",condition=\"Available\"} 2"]),
        ("cluster_version_operator_leader", &[" 1"]),
        ("cluster_version_operator_last_turn_timestamp_seconds", &[" 999"]),
        ("cluster_version_operator_component_duration_seconds", &["{component=\"network\"} 2.5"]),
        (
            "cluster_version_operator_gate_wait_seconds",
            &[
                "{component=\"dns\",kind=\"ClusterOperator\",namespace=\"\",name=\"dns\"} 10",
                "{component=\"network\",kind=\"Job\",namespace=\"\",name=\"j\"} 0",
            ],
        ),
        ("cluster_version_operator_conflict_repairs", &["{object=\"ConfigMap a/b\",manager=\"kubectl\"} 4"]),
        ("cluster_version_operator_load_attempts_total", &["{step=\"RetrievePayload\",outcome=\"failed\"} 2"]),
        ("cluster_version_operator_update_retrieval_failures_total", &["{reason=\"RemoteFailed\"} 3"]),
        ("cluster_version_operator_repairs_total", &["{kind=\"ConfigMap\"} 5"]),
        ("cluster_version_operator_api_requests_total", &["{verb=\"get\",code=\"200\"} 7"]),
        ("cluster_version_operator_kind_watched", &["{resource=\"\"} 0", "{resource=\"deployments.apps\"} 1"]),
        ("process_cpu_seconds_total", &[" 1.25"]),
        ("process_open_fds", &[]),
        ("cluster_version_available_updates", &[]),
    ];
    for (name, expected) in table {
        assert_eq!(lines(&snapshot, name), expected, "{name}");
    }
}

#[test]
fn every_line_can_be_read_whatever_the_labels_contain() {
    let nasty = "a\"b\\c\nd} 1 # HELP x";
    let mut status = history(vec![entry(nasty, 1, None)]);
    status.conditions = vec![condition("Available", ConditionStatus::True, nasty, 1); 3];
    let many = (0..20_000).map(|n| condition(&format!("C{n}"), ConditionStatus::True, &"x".repeat(2000), 1));
    status.conditions.extend(many);
    let text = text(&snapshot(asked(nasty, ""), status), at(1000));
    let label = r#"[a-z_]+="(?:[^"\\\n]|\\["\\n])*""#;
    let sample = format!(r"^[a-z_]+(?:\{{{label}(?:,{label})*\}})? -?[0-9.]+$");
    let line = regex::Regex::new(&format!(r"{sample}|^# (?:HELP|TYPE) [a-z_]+ .+$")).unwrap();
    let wrong: Vec<&str> = text.lines().filter(|l| !line.is_match(l)).collect();
    assert!(wrong.is_empty(), "{:#?}", wrong.first());
    let series: Vec<&str> =
        text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| Some(l.rsplit_once(' ')?.0)).collect();
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len(), "a series is there twice");
    assert!(text.contains(r#"reason="a\"b\\c\nd} 1 # HELP x""#), "the first condition is there");
    assert!(series.len() < 25_000 && text.len() < 20_000_000);
    assert!(text.lines().all(|l| l.len() < 3000));
}
