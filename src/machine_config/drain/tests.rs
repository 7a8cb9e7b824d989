use super::*;

fn minutes(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn asked(request: &str) -> DrainFacts {
    DrainFacts { asked: Some(request.into()), ..DrainFacts::default() }
}

#[test]
fn drain_cordons_then_evicts_then_answers() {
    let mut node = asked("drain-rendered-worker-1");
    assert_eq!(step(&node), Step::Cordon);
    (node.unschedulable, node.cordoned_for_update) = (true, true);
    assert_eq!(step(&node), Step::Evict, "the pods have not been looked at");
    node.pods = Some(2);
    assert_eq!(step(&node), Step::Evict);
    node.pods = Some(0);
    assert_eq!(step(&node), Step::Answer { uncordon: false });
    node.answered = node.asked.clone();
    assert_eq!(step(&node), Step::Nothing);
    node.asked = Some("uncordon-rendered-worker-1".into());
    assert_eq!(step(&node), Step::Answer { uncordon: true });
    assert_eq!(step(&DrainFacts::default()), Step::Nothing);
}

#[test]
fn node_made_schedulable_while_it_is_drained_is_cordoned_again() {
    let node = DrainFacts { pods: Some(0), cordoned_for_update: true, ..asked("drain-a") };
    assert_eq!(step(&node), Step::Cordon, "pods may have come back: it is not drained");
}

#[test]
fn node_that_somebody_else_had_cordoned_stays_cordoned() {
    let node = DrainFacts { unschedulable: true, pods: Some(1), ..asked("drain-a") };
    assert_eq!(step(&node), Step::Evict);
    let node = DrainFacts { asked: Some("uncordon-a".into()), ..node };
    assert_eq!(step(&node), Step::Answer { uncordon: false });
}

/// Otherwise whoever cordons it for work on its hardware would find it drained, restarted and uncordoned.
#[test]
fn node_that_somebody_has_uncordoned_is_no_longer_one_that_was_cordoned_for_an_update() {
    let failed = DrainFacts { answered: Some("drain-a".into()), cordoned_for_update: true, ..asked("drain-a") };
    assert_eq!(step(&failed), Step::ForgetCordon);
    assert_eq!(step(&DrainFacts { unschedulable: true, ..failed.clone() }), Step::Nothing, "it is still cordoned");
    assert_eq!(step(&DrainFacts { cordoned_for_update: false, ..failed.clone() }), Step::Nothing);
    assert_eq!(step(&DrainFacts { asked: None, answered: None, ..failed.clone() }), Step::ForgetCordon);
    assert_eq!(step(&DrainFacts { answered: None, ..failed }), Step::Cordon, "the drain is under way");
}

/// Pods are dated by the API server, and the controller's clock may differ.
#[test]
fn a_drain_begins_when_the_api_server_says_so() {
    let node = |fields: serde_json::Value| -> Node {
        let annotations = serde_json::json!({format!("{GROUP}/{}", key::DRAIN_STARTED): "2026-01-01T12:00:00Z"});
        let metadata = serde_json::json!({"name": "a", "annotations": annotations, "managedFields": fields});
        serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
    };
    let time = |text: &str| Some(text.parse::<Timestamp>().unwrap());
    let entry =
        |manager: &str, time: &str| serde_json::json!({"manager": manager, "operation": "Update", "time": time});
    let told = node(serde_json::json!([
        entry("kubelet", "2026-01-01T11:30:00Z"),
        entry(MANAGER, "2026-01-01T11:00:00Z"),
        entry("cvo", "2026-01-01T11:45:00Z"),
    ]));
    assert_eq!(begun(&told), time("2026-01-01T11:00:00Z"));
    assert_eq!(begun(&node(serde_json::json!([]))), time("2026-01-01T12:00:00Z"), "nothing else is known");
    let none = Node {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta { annotations: None, ..told.metadata },
        ..told
    };
    assert_eq!(begun(&none), None, "no drain is under way");
}

#[test]
fn answer_to_an_earlier_request_for_the_same_configuration_does_not_count() {
    let id = |id: &str| Some(id.to_owned());
    let answered = DrainFacts {
        answered: Some("drain-a".into()),
        unschedulable: true,
        asked_id: id("2"),
        answered_id: id("1"),
        ..asked("drain-a")
    };
    assert_eq!(step(&answered), Step::Evict);
    assert_eq!(step(&DrainFacts { answered_id: id("2"), ..answered }), Step::Nothing);
}

#[test]
fn request_that_is_not_understood_is_refused_and_others_are_read_back() {
    for text in ["reboot-a", "drain", "drain-", "uncordon-", "-a"] {
        assert!(matches!(step(&asked(text)), Step::Refuse(cause) if cause.contains(text)), "{text}");
    }
    for text in ["drain-rendered-worker-0a", "uncordon-x"] {
        assert_eq!(Request::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(step(&asked("")), Step::Nothing);
}

#[test]
fn only_pods_that_would_come_back_stay() {
    let pod = PodFacts { controlled: true, ..PodFacts::default() };
    let of = |set: DaemonSet| PodFacts { daemon_set: Some(set), ..pod.clone() };
    let goes = Fate::Goes { warning: None };
    let warns = |pod: &PodFacts| matches!(pod.fate(), Fate::Goes { warning: Some(_) });
    assert_eq!(pod.fate(), goes);
    assert_eq!(of(DaemonSet::Exists).fate(), Fate::Stays);
    assert_eq!(PodFacts { finished: true, ..of(DaemonSet::Exists) }.fate(), goes);
    assert!(warns(&of(DaemonSet::Gone)));
    assert_eq!(of(DaemonSet::Unknown("timeout".into())).fate(), Fate::Unknown("timeout".into()));
    assert_eq!(PodFacts { mirror: true, ..PodFacts::default() }.fate(), Fate::Stays);
    let came_back = PodFacts { came_back: true, ..pod.clone() };
    assert_eq!(came_back.fate(), Fate::Stays, "another would come in its place, for ever");
    assert_eq!(PodFacts { finished: true, ..came_back }.fate(), goes);
    assert!(warns(&PodFacts { empty_dir: true, ..pod.clone() }));
    assert!(warns(&PodFacts::default()));
    assert_eq!(PodFacts { finished: true, ..PodFacts::default() }.fate(), goes, "it has nothing left to do");
}

#[test]
fn attempts_are_a_minute_apart_and_later_five() {
    let drain = |failed| Drain { started: minutes(0), failed };
    assert_eq!(drain(None).next_attempt(minutes(3)), minutes(3));
    assert_eq!(drain(Some(minutes(3))).next_attempt(minutes(3)), minutes(4));
    assert_eq!(drain(Some(minutes(3))).next_attempt(minutes(9)), minutes(9), "after a restart");
    assert_eq!(drain(Some(minutes(10))).next_attempt(minutes(10)), minutes(11));
    assert_eq!(drain(Some(minutes(11))).next_attempt(minutes(11)), minutes(16));
    assert_eq!(drain(Some(minutes(90))).next_attempt(minutes(5)), minutes(5), "the clock was put back");
    for (now, delay) in
        [(0, Delay::Usual), (10, Delay::Usual), (11, Delay::Long), (60, Delay::Long), (61, Delay::Failed)]
    {
        assert_eq!(drain(None).delay(minutes(now)), delay, "{now}");
    }
}

/// What the next process knows of a drain is what the one before has left at the node.
#[test]
fn drain_goes_on_with_its_time_in_the_next_process() {
    let of = |annotations: &[(&str, &str)]| {
        let annotations: serde_json::Value =
            annotations.iter().map(|(key, value)| (format!("{GROUP}/{key}"), serde_json::json!(value))).collect();
        let node = serde_json::json!({"metadata": {"name": "n", "annotations": annotations}});
        Drain::of(&serde_json::from_value(node).unwrap())
    };
    let drain = of(&[("drainStarted", "1970-01-01T00:00:00Z"), ("drainFailed", "1970-01-01T00:12:00Z")]).unwrap();
    assert_eq!(drain, Drain { started: minutes(0), failed: Some(minutes(12)) });
    assert_eq!((drain.delay(minutes(13)), drain.next_attempt(minutes(13))), (Delay::Long, minutes(17)));
    assert_eq!(of(&[("drainStarted", "1970-01-01T00:00:00Z")]).unwrap().failed, None);
    assert_eq!((of(&[]), of(&[("drainStarted", "yesterday")])), (None, None));
}
