//! What the rollout does up to the end of each turn.

use super::run::*;
use super::*;
use NodeState::{Done, Failing, Pending, Running, Waiting};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn manifests_of_a_node_follow_each_other_and_the_next_stage_waits() {
    let (mut run, first) = update(&[("0000_10_a_1", "config"), ("0000_10_a_2", "config"), ("0000_20_b_1", "config")]);
    assert_eq!((first.as_str(), run.node(0), run.node(1)), ("apply 0", Running, Pending));
    assert_eq!(run.ends(0, applied()), "apply 1");
    assert_eq!((run.ends(1, applied()).as_str(), run.node(0), run.node(1)), ("apply 2", Done, Running));
    assert!(!run.rollout.is_completed());
    assert_eq!((run.ends(2, applied()).as_str(), run.rollout.is_completed()), ("", true));
    assert_eq!((run.rollout.done(), run.rollout.mode()), (3, Mode::Reconcile));
}

#[test]
fn failed_attempt_is_repeated_with_the_wake_of_its_cause() {
    for (cause, until) in causes() {
        let (mut run, _) = update(&[("0000_10_a_1", "widget")]);
        for (failures, pause) in [(1, "500ms"), (2, "1s"), (3, "2s"), (4, "4s")] {
            assert_eq!(run.ends(0, failed(cause.clone())), format!("apply 0 after {pause}{until}"));
            assert_eq!(run.rollout.failure().is_some(), failures >= 3, "{cause:?}: reported with the third failure");
            assert_eq!(run.node(0), if failures >= 3 { Failing } else { Waiting });
            assert_eq!(run.rollout.nodes[0].waiting[0].since, Some(at(0)));
            run.now += 1;
        }
        run.ends(0, applied());
        assert_eq!((run.rollout.failure(), run.node(0)), (None, Done));
    }
}

#[test]
fn order_of_a_node_is_kept_while_a_manifest_waits_for_a_webhook() {
    let away = || failed(Cause::WebhookAway(Some("elsewhere".to_owned())));
    let files = [("0000_10_a_1", "config"), ("0000_10_a_2", "deployment"), ("0000_20_b_1", "config")];
    let (mut run, _) = update(&files);
    for (failures, pause) in
        [(1, "500ms"), (2, "1s"), (3, "2s"), (4, "4s"), (5, "8s"), (6, "16s"), (7, "30s"), (8, "30s")]
    {
        assert_eq!(run.ends(0, away()), format!("apply 0 after {pause} or deleted"));
        assert_eq!(run.rollout.failure().is_some(), failures >= 3);
    }
    assert_eq!(run.ends(0, applied()), "apply 1");
    assert_eq!(run.rollout.failure(), None);
    // So it is where the next one is the own Deployment, whatever namespace the webhook is in.
    let own = manifest("0000_10_a_2", "apps/v1", "Deployment", "own", json!({}));
    let plan = Plan { hand_over: true, ..plan(vec![object("0000_10_a_1", "config", "a"), own], Mode::Update) };
    let (mut run, _) = Run::start(plan);
    for pause in ["500ms", "1s", "2s", "4s"] {
        let away = failed(Cause::WebhookAway(Some("ns".to_owned())));
        assert_eq!(run.ends(0, away), format!("apply 0 after {pause} or deleted"));
    }
}

#[test]
fn webhook_that_a_component_brings_itself_is_written_before_its_turn() {
    let files = [
        ("0000_10_a_1", "widget"),
        ("0000_10_a_2", "config"),
        ("0000_10_a_3", "widget"),
        ("0000_10_a_4", "operator"),
        ("0000_10_a_5", "deployment"),
        ("0000_10_a_6", "config"),
    ];
    let away = || failed(Cause::WebhookAway(Some("ns".to_owned())));
    let (mut run, first) = update(&files);
    assert_eq!(first, "precreate 3");
    assert_eq!(run.on(Event::Precreated { node: 0 }), "apply 0");
    assert_eq!(run.ends(0, away()), "apply 0 after 500ms or deleted");
    assert_eq!(run.ends(0, away()), "apply 0 after 1s or deleted");
    assert_eq!(run.ends(0, away()), "ahead 1", "with the third failure");
    assert_eq!(run.ends(1, applied()), "ahead 4", "neither what the webhook catches too nor the ClusterOperator");
    assert_eq!(run.ends(4, failed(Cause::Other)), "apply 0 after 2s until [3, 4]", "no gate is waited for");
    assert!(run.rollout.failure().is_some_and(|error| error.message.contains("broken")), "of what waits");
    assert_eq!(run.ends(0, away()), "ahead 1", "it may have been removed, and what failed may succeed");
    assert_eq!(
        (run.ends(1, applied()).as_str(), run.ends(4, applied()).as_str()),
        ("ahead 4", "apply 0 after 4s until [3, 4]")
    );
    // From here on everything has its turn.
    assert_eq!((run.ends(0, applied()).as_str(), run.ends(1, applied()).as_str()), ("apply 1", "apply 2"));
    assert_eq!((run.ends(2, applied()).as_str(), run.ends(3, judged(None)).as_str()), ("apply 3", "apply 4"));
    assert_eq!((run.ends(4, judged(waiting())).as_str(), run.node(0)), ("", Waiting));
}

#[test]
fn nothing_is_written_ahead_of_a_job() {
    let third = |files: &[(&str, &str)]| {
        let (mut run, _) = update(files);
        [(); 3].map(|()| run.ends(0, failed(Cause::WebhookAway(Some("ns".to_owned())))))[2].clone()
    };
    let (first, workload) = (("0000_10_a_1", "widget"), ("0000_10_a_3", "deployment"));
    assert_eq!(third(&[first, ("0000_10_a_2", "config"), workload]), "ahead 1");
    assert_eq!(third(&[first, ("0000_10_a_2", "job"), workload]), "apply 0 after 2s or deleted");
    assert_eq!(third(&[first, workload, ("0000_10_a_4", "job")]), "ahead 1", "what is before the Job may be written");
}

#[test]
fn webhook_that_converts_a_kind_may_come_with_the_definition() {
    let webhook = |name: &str| {
        let definition = definition(name);
        let widget = object("0000_10_a_2", "widget", "a");
        let deployment = object("0000_10_a_3", "deployment", "d");
        let (mut run, _) = Run::start(plan(vec![definition, widget, deployment], Mode::Update));
        run.ends(0, applied());
        run.ends(0, judged(None));
        run.ends(1, failed(Cause::WebhookAway(None)));
        run.ends(1, failed(Cause::WebhookAway(None)));
        run.ends(1, failed(Cause::WebhookAway(None)))
    };
    assert_eq!(webhook("widgets.example.com"), "ahead 2");
    assert_eq!(webhook("gadgets.example.org"), "apply 1 after 2s or deleted");
}

#[test]
fn kind_that_the_release_defines_is_waited_for_before_the_server_is_asked() {
    let definition = definition("widgets.example.com");
    let widget = object("0000_10_b_1", "widget", "a");
    let (mut run, first) = Run::start(plan(vec![definition, widget], Mode::Update));
    assert_eq!(first, "apply 0, apply 1");
    for next in ["500ms until served", "1s until served", "2s until served or refreshed"] {
        assert_eq!(run.ends(1, failed(Cause::KindNotServed)), format!("apply 1 after {next}"));
    }
}

#[test]
fn closed_gate_parks_the_node_until_the_object_changes() {
    let (mut run, _) = update(&[("0000_10_a_1", "deployment"), ("0000_20_b_1", "config")]);
    run.now = 5;
    assert_eq!((run.ends(0, judged(waiting())).as_str(), run.node(0)), ("", Waiting));
    run.now = 9;
    assert_eq!(run.on(Event::Changed { position: 0, content: false }), "gate 0");
    assert_eq!(run.on(Event::Changed { position: 0, content: false }), "", "one attempt at a time");
    assert_eq!(run.ends(0, judged(waiting())), "gate 0", "it changed while it was judged");
    assert_eq!(run.rollout.nodes[0].waiting[0].since, Some(at(5)));
    assert_eq!((run.ends(0, judged(None)).as_str(), run.node(0)), ("apply 1", Done));
}

#[test]
fn failing_gate_is_reported_as_its_effect_says() {
    let with = |effect| unready(UpdateError { effect, ..UpdateError::new(Reason::Other("Bad".into()), "bad") });
    let (mut run, _) = update(&[("0000_10_a_1", "operator"), ("0000_20_b_1", "config")]);
    assert_eq!(run.on(Event::Precreated { node: 0 }), "apply 0");
    assert_eq!((run.ends(0, judged(with(Effect::Fail))).as_str(), run.node(0)), ("", Failing));
    let awaited = |run: &Run| run.rollout.awaited().into_iter().map(|id| id.name).collect::<Vec<_>>();
    assert_eq!(awaited(&run), ["0000-10-a-1"]);
    run.on(Event::Changed { position: 0, content: false });
    assert_eq!((run.ends(0, judged(with(Effect::Report))).as_str(), run.node(0)), ("apply 1", Done), "it goes on");
    assert_eq!(run.rollout.failure().unwrap().message, "bad");
    assert_eq!(awaited(&run), ["0000-10-a-1"], "beside what its node goes on with");
    assert!(!run.rollout.is_ahead("clusteroperator/0000-10-a-1") && run.rollout.is_ahead("configmap/ns/0000-20-b-1"));
}

#[test]
fn operator_that_is_away_with_its_node_is_waited_for_and_nothing_else_is() {
    let away = |effect| {
        let error = UpdateError::new(Reason::OperatorNotAvailable, "away");
        unready(UpdateError { effect, names: vec!["0000-10-a-1".into()], ..error })
    };
    let (mut run, _) = update(&[("0000_10_a_1", "operator"), ("0000_20_b_1", "config")]);
    run.on(Event::Precreated { node: 0 });
    run.ends(0, judged(away(Effect::Fail)));
    assert_eq!(run.view().unavailable_operators(), ["0000-10-a-1".to_owned()].into());
    let drained = |name: &str, nodes: &[&str]| {
        BTreeMap::from([(name.to_owned(), nodes.iter().map(|node| (*node).to_owned()).collect())])
    };
    let view = run.view();
    let told = |drained: &Drained| {
        let node = &view.nodes_beside(drained)[0];
        let failure = view.failure_beside(drained).map(|error| error.reason.to_string());
        (node.state, node.error.clone(), node.waiting[0].reason.clone(), failure.unwrap_or_default())
    };
    let not_available = ["away", "ClusterOperatorNotAvailable", "ClusterOperatorNotAvailable"].map(str::to_owned);
    let [error, reason, failure] = not_available.clone();
    assert_eq!(told(&drained("other", &["n1"])), (Failing, error, reason, failure));
    let [_, reason, _] = not_available;
    assert_eq!(told(&drained("0000-10-a-1", &[])), (Waiting, String::new(), reason, String::new()));
    let updating = "NodesUpdating".to_owned();
    assert_eq!(told(&drained("0000-10-a-1", &["n1"])), (Waiting, String::new(), updating.clone(), updating));
    assert_eq!(run.node(0), Failing, "what is known of it stays");
    // It waits for something else by now.
    run.on(Event::Changed { position: 0, content: false });
    run.ends(0, judged(away(Effect::FailAfterInterval)));
    assert_eq!(run.view().unavailable_operators(), BTreeSet::new());
}

#[test]
fn object_that_changes_while_it_is_judged_is_judged_again_and_reported_after_ten_times() {
    let (mut run, _) = update(&[("0000_10_a_1", "deployment")]);
    let overtaken = || Outcome {
        applied: Some(Applied::Unchanged),
        judged: Some(Judged { unready: None, as_desired: false }),
        ..Outcome::default()
    };
    let pauses: Vec<String> = (0..10).map(|_| run.ends(0, overtaken())).collect();
    assert_eq!((pauses[0].as_str(), pauses[9].as_str()), ("gate 0 after 10ms", "gate 0 after 1s"));
    let waiting = &run.rollout.nodes[0].waiting[0];
    assert_eq!((waiting.reason.as_str(), run.rollout.failure()), ("Unsettled", None));
    run.ends(0, judged(None));
    assert_eq!(run.node(0), Done);
}

#[test]
fn change_by_another_client_during_the_gate_is_undone_ever_more_slowly() {
    let (mut run, _) = update(&[("0000_10_a_1", "deployment")]);
    let restored = || Outcome {
        applied: Some(Applied::Updated { fields: vec!["spec".into()], by: Some("x".into()) }),
        ..judged(waiting())
    };
    run.ends(0, judged(waiting()));
    assert_eq!(run.on(Event::Changed { position: 0, content: true }), "gate 0");
    let next: Vec<String> = (0..4).map(|_| run.ends(0, restored())).collect();
    assert_eq!(next, ["gate 0", "gate 0 contested after 1s", "gate 0 contested after 2s", "gate 0 contested after 4s"]);
    let conflicts = run.rollout.conflicts(at(0));
    assert_eq!((conflicts.len(), conflicts[0].manager.as_str(), conflicts[0].repairs), (1, "x", 4));
    assert_eq!(run.rollout.conflict_ends(at(0)), Some(at(600)));
}

#[test]
fn definitions_of_a_node_are_gated_together_before_what_may_need_them() {
    let files = [("0000_10_a_1", "definition"), ("0000_10_a_2", "definition"), ("0000_10_a_3", "widget")];
    let (mut run, first) = update(&files);
    assert_eq!(first, "apply 0");
    assert_eq!(run.ends(0, applied()), "serve 0, apply 1");
    assert_eq!(run.ends(1, applied()), "serve 1, gate 0");
    assert_eq!(run.ends(0, judged(None)), "gate 1");
    assert_eq!(run.ends(1, judged(None)), "apply 2");
}

#[test]
fn definitions_of_an_install_hold_only_kinds_that_are_not_served() {
    let files = [("0000_10_a_1", "definition"), ("0000_10_a_2", "config"), ("0000_10_a_3", "widget")];
    let (mut run, first) = start(&files, Mode::Install);
    assert_eq!(first, "prerequisite 0");
    assert_eq!(run.on(Event::PrerequisiteDone { position: 0, applied: Some(Applied::Created) }), "serve 0, apply 0");
    assert_eq!(run.ends(0, judged(None)), "apply 1", "its kinds are served by the prerequisite");
    assert_eq!(run.ends(1, applied()), "apply 2");
    assert_eq!(run.ends(2, failed(Cause::KindNotServed)), "gate 0", "no failure: the definition comes first");
    assert_eq!(run.ends(0, judged(None)), "apply 2");
    assert_eq!(run.ends(2, failed(Cause::KindNotServed)), "apply 2 after 500ms until served or refreshed");
    run.ends(2, applied());
    assert!(run.rollout.is_completed());
}

#[test]
fn install_creates_namespaces_then_definitions_beside_the_nodes_but_none_behind_a_job() {
    let files = [
        ("0000_10_a_1", "config"),
        ("0000_20_b_1", "definition"),
        ("0000_30_c_1", "namespace"),
        ("0000_40_d_1", "job"),
        ("0000_50_e_1", "namespace"),
    ];
    let (mut run, first) = start(&files, Mode::Install);
    assert_eq!((first.as_str(), run.node(0)), ("prerequisite 2", Running));
    let next = run.on(Event::PrerequisiteDone { position: 2, applied: None });
    assert_eq!(
        next, "prerequisite 1, apply 0, apply 2",
        "a failure is no matter, and the node of the definition waits"
    );
    let next = run.on(Event::PrerequisiteDone { position: 1, applied: Some(Applied::Unchanged) });
    assert_eq!(next, "apply 1");
}

#[test]
fn install_creates_the_definitions_first_that_most_manifests_need() {
    let widget = |name: &str| object("0000_20_b_1", "widget", name);
    let manifests = vec![definition("a.other.com"), definition("widgets.example.com"), widget("1"), widget("2")];
    let (run, first) = Run::start(plan(manifests, Mode::Install));
    assert!(first.starts_with("prerequisite 1, prerequisite 0"), "{first}");
    assert_eq!(run.running.len(), 3, "{first}");
}

/// It is not late, so nothing is reported, however long the server takes.
#[test]
fn kind_whose_definition_is_on_its_way_is_waited_for_in_silence() {
    let definition = definition("widgets.example.com");
    let widget = object("0000_20_b_1", "widget", "a");
    let (mut run, first) = Run::start(plan(vec![definition, widget], Mode::Install));
    assert_eq!(first, "prerequisite 0, apply 1");
    for _ in 0..5 {
        assert_eq!(run.ends(1, failed(Cause::KindNotServed)), "apply 1 after 30s until served");
        assert_eq!(run.rollout.failure(), None);
    }
    run.on(Event::PrerequisiteDone { position: 0, applied: Some(Applied::Created) });
    assert_eq!(run.ends(1, failed(Cause::KindNotServed)), "apply 1 after 500ms until served");
}

#[test]
fn prerequisites_are_created_sixteen_at_once() {
    let names: Vec<String> = (10..40).map(|i| format!("0000_10_a_{i}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "namespace")).collect();
    let (mut run, first) = start(&files, Mode::Install);
    assert_eq!(first.split(", ").count(), 16);
    let mut largest = 0;
    while let Some(Command::CreatePrerequisite(position)) = run.running.first().cloned() {
        largest = largest.max(run.running.len());
        run.running.remove(0);
        run.on(Event::PrerequisiteDone { position, applied: Some(Applied::Created) });
    }
    assert_eq!((largest, run.running.len()), (16, 1), "all thirty, then the first manifest of the node");
}

#[test]
fn own_deployment_hands_over_and_a_missing_stop_is_a_failure() {
    let own = object("0000_00_own_1", "deployment", "own");
    let plan = Plan { hand_over: true, ..plan(vec![own, object("0000_10_a_1", "config", "a")], Mode::Update) };
    let (mut run, _) = Run::start(plan);
    assert_eq!(run.ends(0, applied()), "timer 300s");
    assert_eq!((run.node(0), run.rollout.nodes[0].waiting[0].reason.as_str()), (Waiting, "HandOver"));
    run.now = 300;
    assert_eq!(run.on(Event::HandOverExpired { node: 0 }), "");
    let failure = run.rollout.failure().unwrap();
    assert!(failure.effect == Effect::Fail && failure.message.contains("has not been asked to stop"), "{failure:?}");
    assert_eq!((run.node(0), run.node(1)), (Failing, Pending));
}

#[test]
fn failed_write_during_the_hand_over_is_told_as_long_as_it_lasts() {
    let plan = Plan { hand_over: true, ..plan(vec![object("0000_10_a_1", "deployment", "own")], Mode::Update) };
    let (mut run, _) = Run::start(plan);
    run.ends(0, applied());
    let reason = |run: &Run| run.rollout.nodes[0].waiting[0].reason.clone();
    for (expired, expected) in [(false, "HandOver"), (true, "HandOverTimedOut")] {
        if expired {
            run.on(Event::HandOverExpired { node: 0 });
        }
        run.on(Event::Changed { position: 0, content: true });
        for _ in 0..3 {
            run.ends(0, failed(Cause::Other));
        }
        assert_eq!((run.rollout.failure().is_some(), reason(&run)), (true, "Broken".to_owned()));
        let unchanged = || Outcome { applied: Some(Applied::Unchanged), ..Outcome::default() };
        assert_eq!(run.ends(0, unchanged()), "");
        assert_eq!((run.rollout.failure().is_some(), reason(&run)), (expired, expected.to_owned()));
        // One that is too short to be told takes nothing away either.
        run.on(Event::Changed { position: 0, content: true });
        run.ends(0, failed(Cause::Other));
        assert_eq!(run.ends(0, unchanged()), "");
        assert_eq!((run.rollout.failure().is_some(), reason(&run)), (expired, expected.to_owned()));
    }
}

#[test]
fn own_deployment_is_brought_back_until_the_process_is_replaced() {
    let plan = Plan { hand_over: true, ..plan(vec![object("0000_10_a_1", "deployment", "own")], Mode::Update) };
    let (mut run, _) = Run::start(plan);
    assert_eq!(run.ends(0, applied()), "timer 300s");
    for _ in 0..2 {
        assert_eq!(run.on(Event::Changed { position: 0, content: true }), "gate 0");
        assert_eq!(run.ends(0, Outcome { applied: Some(Applied::Unchanged), ..Outcome::default() }), "");
    }
    run.on(Event::Changed { position: 0, content: true });
    run.on(Event::Changed { position: 0, content: true });
    assert_eq!(run.ends(0, Outcome { applied: Some(Applied::Unchanged), ..Outcome::default() }), "gate 0");
    assert!(!run.rollout.is_completed());
}

#[test]
fn failed_attempts_and_repairs_are_counted() {
    let (mut run, _) = Run::start(plan(vec![object("0000_10_a_1", "config", "a")], Mode::Update));
    run.ends(0, failed(Cause::Other));
    run.ends(0, failed(Cause::Other));
    run.ends(0, applied());
    assert_eq!((run.rollout.tally.errors, run.rollout.tally.repairs.len()), (2, 0), "the first write is no repair");
    for outcome in
        [applied(), Outcome { applied: Some(Applied::Unchanged), ..Outcome::default() }, failed(Cause::Other)]
    {
        run.on(Event::Changed { position: 0, content: true });
        run.ends(0, outcome);
    }
    assert_eq!(run.rollout.tally.errors, 3);
    assert_eq!(run.rollout.tally.repairs.iter().collect::<Vec<_>>(), [(&"ConfigMap".to_owned(), &1)]);
}

/// It is told to stop because of its own write, often before the answer to that has come.
#[test]
fn hand_over_is_known_although_the_rollout_was_cancelled_meanwhile() {
    let manifests = || vec![object("0000_10_a_1", "deployment", "own")];
    for (hand_over, outcome, expected) in
        [(true, applied(), true), (false, applied(), false), (true, failed(Cause::Other), false)]
    {
        let (mut run, _) = Run::start(Plan { hand_over, ..plan(manifests(), Mode::Update) });
        run.rollout.cancel();
        assert_eq!(run.ends(0, outcome), "");
        assert_eq!(run.rollout.handing_over, expected);
    }
}

#[test]
fn closed_gate_is_judged_again_when_configuration_changes() {
    let annotated = json!({"config.openshift.io/inject-proxy": "main"});
    let workload = manifest("0000_10_a_1", "apps/v1", "Deployment", "a", annotated);
    let (mut run, _) = Run::start(plan(vec![workload, object("0000_20_b_2", "config", "b")], Mode::Update));
    assert_eq!(run.ends(0, judged(waiting())), "");
    assert_eq!(run.on(Event::ConfigurationChanged(vec![Source::Proxy])), "gate 0");
    assert_eq!(run.on(Event::ConfigurationChanged(vec![Source::Proxy])), "");
    assert_eq!(run.ends(0, judged(waiting())), "gate 0", "it changed while the gate was judged");
}

#[test]
fn own_deployment_of_the_running_release_is_not_waited_for() {
    let (mut run, _) = Run::start(plan(vec![object("0000_00_own_1", "deployment", "own")], Mode::Update));
    let Some(Command::Reconcile(request)) = run.running.first() else { panic!("nothing starts") };
    assert_eq!(request.gate, None);
    run.ends(0, applied());
    assert!(run.rollout.is_completed());
}

#[test]
fn nothing_is_applied_of_a_release_without_its_own_deployment() {
    let namespace = object("0000_00_a_0", "namespace", "a");
    let manifests = vec![namespace, object("0000_10_a_1", "config", "a"), object("0000_10_a_2", "deployment", "a")];
    let (mut run, first) = Run::start(Plan { hand_over: true, ..plan(manifests, Mode::Update) });
    assert_eq!((first.as_str(), run.running.len()), ("", 0));
    for content in [true, false] {
        assert_eq!(run.on(Event::Changed { position: 2, content }), "");
    }
    assert_eq!(run.on(Event::ConfigurationChanged(vec![Source::Proxy])), "");
    let failure = run.rollout.failure().unwrap();
    assert!(!run.rollout.is_completed());
    assert!(failure.reason == Reason::NoSuccessor && failure.message.contains("ns/own"), "{failure:?}");
}

#[test]
fn deletions_are_told_in_order_once_their_turn_is_over() {
    let deleted = |name: &str| {
        let annotations = json!({"release.openshift.io/delete": "true"});
        manifest(&format!("0000_10_a_{name}"), "v1", "ConfigMap", name, annotations)
    };
    let (mut run, _) =
        Run::start(plan(vec![deleted("1"), object("0000_10_a_2", "config", "2"), deleted("3")], Mode::Update));
    let told = |run: &Run| run.rollout.deletions().map(|id| id.name.clone()).collect::<Vec<_>>();
    assert_eq!(told(&run), Vec::<String>::new());
    run.ends(0, applied());
    assert_eq!(told(&run), ["1"]);
    run.ends(1, applied());
    run.ends(2, applied());
    assert_eq!(told(&run), ["1", "3"]);
}

#[test]
fn wait_that_began_before_this_process_keeps_its_beginning() {
    for (clock, since) in [(20, 20), (60, 50)] {
        let clocks = BTreeMap::from([("deployment/ns/0000-10-a-1".to_owned(), at(clock))]);
        let plan = plan(vec![object("0000_10_a_1", "deployment", "0000-10-a-1")], Mode::Update);
        let (mut run, _) = Run::resume(plan, Clocks::recorded("", clocks));
        run.now = 50;
        run.ends(0, judged(waiting()));
        let view = run.view();
        assert_eq!(view.nodes[0].waiting[0].since, Some(at(since)), "the earlier one counts");
        let since = UpdateError::name_of(&ObjectId::new("apps", "Deployment", "ns", "0000-10-a-1"));
        assert_eq!(view.waiting_since, BTreeMap::from([(since, at(clock))]));
    }
}

#[test]
fn unfinished_workloads_are_only_judged_for_failures_where_that_is_asked_for() {
    let gate = |unfinished_pass, manifest| {
        let (run, _) = Run::start(Plan { unfinished_pass, ..plan(vec![manifest], Mode::Update) });
        run.running.iter().find_map(|command| match command {
            Command::Reconcile(request) => request.gate,
            _ => None,
        })
    };
    let set = || manifest("0000_10_a_1", "apps/v1", "DaemonSet", "set", json!({}));
    let of = |kind| object("0000_10_a_1", kind, kind);
    for unfinished_pass in [false, true] {
        let loose = Some(if unfinished_pass { Mode::Reconcile } else { Mode::Update });
        assert_eq!((gate(unfinished_pass, set()), gate(unfinished_pass, of("job"))), (loose, loose));
        assert_eq!(gate(unfinished_pass, of("deployment")), Some(Mode::Update));
    }
}
