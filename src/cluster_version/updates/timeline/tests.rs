use super::*;
use crate::cluster_version::progress::{NodeState, WaitingFor};
use jiff::SignedDuration;

fn at(seconds: f64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs_f64(seconds)
}

fn node(id: &str, started: f64, finished: Option<f64>) -> NodeProgress {
    let state = if finished.is_some() { NodeState::Done } else { NodeState::Running };
    NodeProgress {
        id: id.into(),
        state,
        started: Some(at(started)),
        finished: finished.map(at),
        ..NodeProgress::default()
    }
}

fn waited(node: NodeProgress, object: &str, seconds: u64) -> NodeProgress {
    let longest = LongestWait { object: object.into(), reason: "RollingOut".into(), millis: seconds * 1000 };
    NodeProgress { longest: Some(longest), ..node }
}

fn course(nodes: &[NodeProgress], started: f64, completed: bool) -> Course<'_> {
    let (mode, from, version, image) = ("update", "1.0.0", "1.0.1", "r.example/p@sha256:b");
    Course { mode, from, version, image, started: at(started), nodes, completed }
}

fn path(record: &UpdateRecord) -> Vec<(String, f64)> {
    critical_path(record).into_iter().map(|step| (step.id, step.seconds)).collect()
}

fn ended() -> Vec<NodeProgress> {
    vec![
        node("1/10/api", 0.0, Some(4.0)),
        waited(node("2/20/dns", 4.0, Some(5.0)), "Deployment dns/dns", 1),
        NodeProgress { retries: 3, ..waited(node("2/20/network", 4.0, Some(11.0)), "ClusterOperator network", 6) },
        node("3/30/console", 11.0, Some(12.5)),
    ]
}

#[test]
fn stages_and_critical_path_add_up_to_the_whole() {
    let mut timeline = Timeline::default();
    let nodes = ended();
    timeline.observe(&course(&nodes, 0.0, true), at(13.0));
    let told = told(timeline.records()).remove(0);
    assert_eq!((told.state, told.seconds, told.last_check, told.retries), ("Completed", 13.0, 0.5, 3));
    let stages: Vec<(&str, f64)> = told.stages.iter().map(|it| (it.stage.as_str(), it.seconds)).collect();
    assert_eq!(stages, [("1", 4.0), ("2", 7.0), ("3", 1.5)]);
    let path: Vec<(&str, f64)> = told.critical_path.iter().map(|it| (it.id.as_str(), it.seconds)).collect();
    assert_eq!(path, [("1/10/api", 4.0), ("2/20/network", 7.0), ("3/30/console", 1.5)]);
    let sum = |times: &[(&str, f64)]| times.iter().map(|it| it.1).sum::<f64>();
    assert_eq!((sum(&stages) + told.last_check, sum(&path) + told.last_check), (13.0, 13.0));
    let waits: Vec<(&str, f64)> = told.longest_waits.iter().map(|it| (it.object.as_str(), it.seconds)).collect();
    assert_eq!(waits, [("ClusterOperator network", 6.0), ("Deployment dns/dns", 1.0)]);
}

#[test]
fn what_is_over_does_not_change_any_more() {
    let mut timeline = Timeline::default();
    timeline.observe(&course(&ended(), 0.0, true), at(13.0));
    let before = timeline.records().to_vec();
    // A repair, hours later.
    let mut nodes = ended();
    nodes[0].retries = 9;
    timeline.observe(&course(&nodes, 0.0, true), at(9000.0));
    timeline.observe(&course(&nodes, 8000.0, false), at(9001.0));
    assert_eq!(timeline.records(), before);
}

#[test]
fn update_goes_on_in_the_next_process() {
    let mut first = Timeline::default();
    let handing_over = WaitingFor {
        kind: "Deployment".into(),
        namespace: "n".into(),
        name: "cvo".into(),
        reason: "HandOver".into(),
        since: Some(at(2.0)),
        ..WaitingFor::default()
    };
    let left = [
        node("1/00/first", 0.0, Some(1.0)),
        NodeProgress { waiting: vec![handing_over], ..node("1/00/cvo", 1.0, None) },
    ];
    first.observe(&course(&left, 0.0, false), at(2.5));
    assert_eq!(told(first.records())[0].state, "Running");
    let mut second = Timeline::recorded(first.records(), &left);
    let nodes = [
        node("1/00/first", 10.0, Some(10.1)),
        node("1/00/cvo", 10.1, Some(10.2)),
        node("2/20/network", 10.2, Some(15.0)),
    ];
    // What is observed again and again counts once.
    for now in [15.0, 15.1, 15.2] {
        second.observe(&course(&nodes, 10.0, now > 15.1), at(now));
    }
    let record = &second.records()[0];
    assert_eq!((second.records().len(), record.rollouts, record.started), (1, 2, at(0.0)));
    assert_eq!(
        path(record),
        [("1/00/first".to_owned(), 1.0), ("1/00/cvo".to_owned(), 9.2), ("2/20/network".to_owned(), 4.8)]
    );
    let wait = record.components[1].longest.clone().unwrap();
    assert_eq!((wait.object.as_str(), wait.reason.as_str(), wait.millis), ("Deployment n/cvo", "HandOver", 8000));
}

#[test]
fn component_that_had_to_wait_again_has_ended_later() {
    let mut timeline = Timeline::default();
    timeline.observe(&course(&[node("1/10/api", 0.0, Some(4.0))], 0.0, false), at(4.0));
    let again = [waited(node("1/10/api", 20.0, Some(26.0)), "Deployment api/api", 5)];
    timeline.observe(&course(&again, 20.0, true), at(26.0));
    let component = &timeline.records()[0].components[0];
    assert_eq!((component.begin, component.end), (0, Some(26_000)));
}

#[test]
fn another_release_begins_another_record_and_the_last_ten_are_kept() {
    let mut timeline = Timeline::default();
    for update in 0..14 {
        let (image, begun) = (format!("image{update}"), f64::from(update) * 100.0);
        let nodes = [node("1/10/api", begun, Some(begun + 1.0))];
        let course = Course { image: &image, version: &image, ..course(&nodes, begun, update % 2 == 0) };
        timeline.observe(&course, at(begun + 1.0));
    }
    let told = told(timeline.records());
    let states: Vec<(&str, &str)> = told.iter().map(|it| (it.version.as_str(), it.state)).take(4).collect();
    let expected = [("image13", "Running"), ("image12", "Completed"), ("image11", "Partial"), ("image10", "Completed")];
    assert_eq!((told.len(), states.as_slice()), (10, expected.as_slice()));
    assert_eq!(told[1].comparison.as_ref().unwrap().version, "image10");
}

#[test]
fn comparison_names_what_took_notably_longer() {
    let earlier =
        vec![node("1/10/api", 0.0, Some(4.2)), node("2/20/network", 4.2, Some(5.2)), node("2/20/dns", 4.2, Some(64.2))];
    let mut timeline = Timeline::default();
    timeline.observe(&Course { image: "old", version: "1.0.0", ..course(&earlier, 0.0, true) }, at(65.0));
    let nodes: Vec<NodeProgress> = vec![
        node("1/10/api", 100.0, Some(104.0)),
        node("2/20/network", 104.0, Some(111.0)),
        node("2/20/dns", 104.0, Some(165.0)),
    ];
    timeline.observe(&course(&nodes, 100.0, true), at(166.0));
    let comparison = told(timeline.records())[0].comparison.clone().unwrap();
    let components: Vec<(&str, f64, f64)> =
        comparison.components.iter().map(|it| (it.component.as_str(), it.seconds, it.before)).collect();
    assert_eq!((comparison.version.as_str(), comparison.seconds), ("1.0.0", 65.0));
    assert_eq!(components, [("network", 7.0, 1.0)]);
}

#[test]
fn slow_is_what_takes_longer_than_ever() {
    let mut timeline = Timeline::default();
    timeline.observe(&course(&ended(), 0.0, true), at(13.0));
    let under_way =
        [node("2/20/network", 100.0, None), node("1/10/api", 90.0, Some(99.0)), node("2/20/new", 0.0, None)];
    assert_eq!(slow(&under_way, timeline.records(), at(120.0)), []);
    let slow = slow(&under_way, timeline.records(), at(121.0));
    assert_eq!(slow, [Slow { component: "network".into(), seconds: 21.0, before: vec![7.0] }]);
}

#[test]
fn older_updates_give_way_and_keep_their_critical_path() {
    let mut timeline = Timeline::default();
    for update in 0..10 {
        let begun = f64::from(update) * 10_000.0;
        let mut nodes: Vec<NodeProgress> = (0..300)
            .map(|i| node(&format!("2/20/component-{i:03}"), begun + 1.0, Some(begun + 2.0 + f64::from(i))))
            .collect();
        nodes.insert(0, node("1/10/api", begun, Some(begun + 1.0)));
        let image = format!("image{update}");
        timeline.observe(&Course { image: &image, ..course(&nodes, begun, true) }, at(begun + 400.0));
    }
    let records = timeline.records();
    let bytes = serde_json::to_string(records).unwrap().len();
    assert!((BYTES / 2..BYTES * 5 / 4).contains(&bytes), "{bytes}");
    assert_eq!((records[0].components.len(), records[0].components_left_out), (301, 0));
    let oldest = records.last().unwrap();
    assert_eq!(oldest.components.len() + oldest.components_left_out, 301);
    assert!(oldest.components_left_out > 250, "{}", oldest.components_left_out);
    for record in records {
        assert!(record.finished.is_some());
    }
}

#[test]
fn records_that_somebody_edited_do_no_harm() {
    let record = UpdateRecord {
        finished: Some(at(-50.0)),
        started: at(0.0),
        components: vec![
            ComponentRecord { id: String::new(), begin: u64::MAX, end: Some(0), ..ComponentRecord::default() },
            ComponentRecord { id: "x".into(), begin: 5, end: Some(u64::MAX), ..ComponentRecord::default() },
        ],
        ..UpdateRecord::default()
    };
    let told = told(&[record.clone(), record]);
    assert_eq!(told.len(), 2);
    assert!(told.iter().flat_map(|it| &it.stages).all(|it| it.seconds.is_finite()));
}
