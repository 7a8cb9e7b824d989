//! Tables: what the rollout does after each event, in a short notation.

use super::*;
use NodeState::{Done, Failing, Pending, Running, Waiting};
use std::collections::{BTreeMap, BTreeSet};

/// `apply 0`, `gate 0 after 500ms until namespace ns`, `repair 0`, ...
fn text(command: &Command) -> String {
    match command {
        Command::CreatePrerequisite(position) => format!("prerequisite {position}"),
        Command::Precreate { position, .. } => format!("precreate {position}"),
        Command::ServeKinds(position) => format!("serve {position}"),
        Command::HandOverTimer { after, .. } => format!("timer {after:?}"),
        Command::Reconcile(Reconcile { position, purpose, delay, .. }) => {
            let purpose = match purpose {
                Purpose::Apply { .. } => "apply",
                Purpose::Gate { .. } => "gate",
                Purpose::Repair => "repair",
                Purpose::Configuration => "configure",
            };
            let after = if delay.pause.is_zero() { String::new() } else { format!(" after {:?}", delay.pause) };
            let until = match &delay.until {
                Wake::Timeout => String::new(),
                Wake::NamespaceChanged(name) => format!(" until namespace {name}"),
                Wake::ObjectChanged => " until changed".into(),
                Wake::KindServed { refresh: false } => " until served".into(),
                Wake::KindServed { refresh: true } => " until served or refreshed".into(),
                Wake::Refresh => " then refreshed".into(),
            };
            format!("{purpose} {position}{after}{until}")
        }
    }
}

/// A rollout with the commands that are under way.
struct Run {
    rollout: Rollout,
    running: Vec<Command>,
    now: i64,
}

impl Run {
    fn start(plan: Plan) -> (Run, String) {
        let (rollout, commands) = Rollout::start(plan, at(0));
        let mut run = Run { rollout, running: Vec::new(), now: 0 };
        let texts = run.begin(commands);
        (run, texts)
    }

    fn begin(&mut self, commands: Vec<Command>) -> String {
        let texts: Vec<String> = commands.iter().map(text).collect();
        self.running.extend(commands);
        texts.join(", ")
    }

    fn on(&mut self, event: Event) -> String {
        let commands = self.rollout.on(event, at(self.now));
        self.begin(commands)
    }

    /// Ends the attempt at this position.
    fn ends(&mut self, position: usize, outcome: Outcome) -> String {
        let is = |command: &Command| matches!(command, Command::Reconcile(r) if r.position == position);
        let index = self.running.iter().position(is).expect("an attempt is under way");
        let Command::Reconcile(request) = self.running.remove(index) else { unreachable!() };
        self.on(Event::Reconciled(request, Box::new(outcome)))
    }

    fn node(&self, node: usize) -> NodeState {
        self.rollout.nodes()[node].state
    }
}

fn update(files: &[(&str, &str)]) -> (Run, String) {
    start(files, Mode::Update)
}

fn start(files: &[(&str, &str)], mode: Mode) -> (Run, String) {
    let manifests = files.iter().map(|(file, kind)| object(file, kind, &file.replace(['_', '.'], "-"))).collect();
    Run::start(plan(manifests, mode))
}

#[test]
fn manifests_of_a_node_follow_each_other_and_the_next_stage_waits() {
    let (mut run, first) = update(&[("0000_10_a_1", "config"), ("0000_10_a_2", "config"), ("0000_20_b_1", "config")]);
    assert_eq!((first.as_str(), run.node(0), run.node(1)), ("apply 0", Running, Pending));
    assert_eq!(run.ends(0, applied()), "apply 1");
    assert_eq!((run.ends(1, applied()).as_str(), run.node(0), run.node(1)), ("apply 2", Done, Running));
    assert!(!run.rollout.is_completed());
    assert_eq!((run.ends(2, applied()).as_str(), run.rollout.is_completed()), ("", true));
    assert_eq!((run.rollout.done(), run.rollout.current_mode()), (3, Mode::Reconcile));
}

#[test]
fn failed_attempt_is_repeated_with_the_wake_of_its_cause() {
    let table = [
        (Cause::Other, ""),
        (Cause::Terminating, " until changed"),
        (Cause::NamespaceMissing("ns".into()), " until namespace ns"),
        // No definition of the release brings the kind, so the server is asked at once.
        (Cause::KindNotServed, " until served or refreshed"),
        (Cause::KindGone, " then refreshed"),
    ];
    for (cause, until) in table {
        let (mut run, _) = update(&[("0000_10_a_1", "widget")]);
        for (failures, pause) in [(1, "500ms"), (2, "1s"), (3, "2s"), (4, "4s")] {
            assert_eq!(run.ends(0, failed(cause.clone())), format!("apply 0 after {pause}{until}"));
            assert_eq!(run.rollout.failure().is_some(), failures >= 3, "{cause:?}: reported with the third failure");
            assert_eq!(run.node(0), if failures >= 3 { Failing } else { Waiting });
            assert_eq!(run.rollout.nodes()[0].waiting[0].since, Some(at(0)));
            run.now += 1;
        }
        run.ends(0, applied());
        assert_eq!((run.rollout.failure(), run.node(0)), (None, Done));
    }
}

#[test]
fn manifest_that_waits_for_a_webhook_is_passed_over() {
    let (mut run, _) = update(&[("0000_10_a_1", "widget"), ("0000_10_a_2", "config"), ("0000_10_a_3", "config")]);
    let away = || failed(Cause::WebhookAway);
    run.ends(0, away());
    assert_eq!(run.ends(0, away()), "apply 0 after 1s");
    assert_eq!(run.ends(0, away()), "apply 1", "with the third failure");
    assert!(run.rollout.failure().is_some(), "reported");
    assert_eq!(run.ends(1, applied()), "apply 2");
    assert_eq!(run.ends(2, applied()), "apply 0", "which may have brought the webhook");
    for next in ["500ms", "1s", "2s", "4s"] {
        assert_eq!(run.ends(0, away()), format!("apply 0 after {next}"), "it is alone");
    }
    assert_eq!((run.ends(0, applied()).as_str(), run.rollout.is_completed()), ("", true));

    // Two of them do not make room for each other without end.
    let (mut run, _) = update(&[("0000_10_a_1", "widget"), ("0000_10_a_2", "config")]);
    for (position, next) in [(0, "apply 0 after 500ms"), (0, "apply 0 after 1s"), (0, "apply 1")] {
        assert_eq!(run.ends(position, away()), next);
    }
    for next in ["500ms", "1s", "2s", "4s", "8s"] {
        assert_eq!(run.ends(1, away()), format!("apply 1 after {next}"));
    }
    assert_eq!(run.ends(1, applied()), "apply 0");
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
    assert_eq!(run.rollout.nodes()[0].waiting[0].since, Some(at(5)));
    assert_eq!((run.ends(0, judged(Verdict::Ready)).as_str(), run.node(0)), ("apply 1", Done));
}

#[test]
fn failing_gate_is_reported_as_its_effect_says() {
    let with =
        |effect| Verdict::Failing(UpdateError { effect, ..UpdateError::new(Reason::Other("Bad".into()), "bad") });
    let (mut run, _) = update(&[("0000_10_a_1", "operator"), ("0000_20_b_1", "config")]);
    assert_eq!(run.on(Event::Precreated { node: 0 }), "apply 0");
    assert_eq!((run.ends(0, judged(with(Effect::Fail))).as_str(), run.node(0)), ("", Failing));
    assert_eq!(run.rollout.awaited_operators(), BTreeSet::from(["0000-10-a-1".to_owned()]));
    run.on(Event::Changed { position: 0, content: false });
    assert_eq!((run.ends(0, judged(with(Effect::Report))).as_str(), run.node(0)), ("apply 1", Done), "it goes on");
    assert_eq!(run.rollout.failure().unwrap().message, "bad");
    assert!(run.rollout.awaited_operators().contains("0000-10-a-1") && !run.rollout.is_ahead("0000-10-a-1"));
}

#[test]
fn object_that_changes_while_it_is_judged_is_judged_again_and_reported_after_ten_times() {
    let (mut run, _) = update(&[("0000_10_a_1", "deployment")]);
    let overtaken = || Outcome {
        applied: Some(Applied::Unchanged),
        judged: Some(Judged { verdict: Verdict::Ready, as_desired: false }),
        ..Outcome::default()
    };
    let pauses: Vec<String> = (0..10).map(|_| run.ends(0, overtaken())).collect();
    assert_eq!((pauses[0].as_str(), pauses[9].as_str()), ("gate 0 after 10ms", "gate 0 after 1s"));
    let waiting = &run.rollout.nodes()[0].waiting[0];
    assert_eq!((waiting.reason.as_str(), run.rollout.failure()), ("Unsettled", None));
    run.ends(0, judged(Verdict::Ready));
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
    assert_eq!(next, ["gate 0", "gate 0 after 1s", "gate 0 after 2s", "gate 0 after 4s"]);
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
    assert_eq!(run.ends(0, judged(Verdict::Ready)), "gate 1");
    assert_eq!(run.ends(1, judged(Verdict::Ready)), "apply 2");
}

#[test]
fn definitions_of_an_install_hold_only_kinds_that_are_not_served() {
    let files = [("0000_10_a_1", "definition"), ("0000_10_a_2", "config"), ("0000_10_a_3", "widget")];
    let (mut run, first) = start(&files, Mode::Install);
    assert_eq!(first, "prerequisite 0");
    assert_eq!(run.on(Event::PrerequisiteDone { position: 0, applied: Some(Applied::Created) }), "serve 0, apply 0");
    assert_eq!(run.ends(0, judged(Verdict::Ready)), "apply 1", "its kinds are served by the prerequisite");
    assert_eq!(run.ends(1, applied()), "apply 2");
    assert_eq!(run.ends(2, failed(Cause::KindNotServed)), "gate 0", "no failure: the definition comes first");
    assert_eq!(run.ends(0, judged(Verdict::Ready)), "apply 2");
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
    assert_eq!((run.node(0), run.rollout.nodes()[0].waiting[0].reason.as_str()), (Waiting, "HandOver"));
    run.now = 300;
    assert_eq!(run.on(Event::HandOverExpired { node: 0 }), "");
    let failure = run.rollout.failure().unwrap();
    assert!(failure.effect == Effect::Fail && failure.message.contains("has not been asked to stop"), "{failure:?}");
    assert_eq!((run.node(0), run.node(1)), (Failing, Pending));
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
    assert_eq!((run.rollout.errors(), run.rollout.repairs().len()), (2, 0), "the first write is no repair");
    for outcome in
        [applied(), Outcome { applied: Some(Applied::Unchanged), ..Outcome::default() }, failed(Cause::Other)]
    {
        run.on(Event::Changed { position: 0, content: true });
        run.ends(0, outcome);
    }
    assert_eq!(run.rollout.errors(), 3);
    assert_eq!(run.rollout.repairs().iter().collect::<Vec<_>>(), [(&"ConfigMap".to_owned(), &1)]);
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
        assert_eq!(run.rollout.is_handing_over(), expected);
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
fn release_without_its_own_deployment_never_completes() {
    let plan = Plan { hand_over: true, ..plan(vec![object("0000_10_a_1", "config", "a")], Mode::Update) };
    let (mut run, _) = Run::start(plan);
    run.ends(0, applied());
    let failure = run.rollout.failure().unwrap();
    assert!(!run.rollout.is_completed());
    assert!(failure.reason == Reason::NoSuccessor && failure.message.contains("ns/own"), "{failure:?}");
}

#[test]
fn change_after_the_turn_is_repaired_one_at_a_time() {
    let (mut run, _) = update(&[("0000_10_a_1", "config"), ("0000_20_b_1", "deployment")]);
    run.ends(0, applied());
    assert_eq!(run.on(Event::Changed { position: 0, content: false }), "", "nothing reads the status of a ConfigMap");
    assert_eq!(run.on(Event::Changed { position: 0, content: true }), "repair 0");
    assert_eq!(run.on(Event::Changed { position: 0, content: true }), "");
    assert_eq!(run.ends(0, applied()), "repair 0", "it changed again meanwhile");
    assert_eq!(run.ends(0, Outcome { applied: Some(Applied::Unchanged), ..Outcome::default() }), "");
    assert_eq!(run.node(0), Done, "a repair does not move its node");
}

#[test]
fn change_during_the_turn_is_looked_at_once_it_is_over() {
    let (mut run, _) = update(&[("0000_10_a_1", "config"), ("0000_20_b_1", "config")]);
    run.on(Event::Changed { position: 0, content: true });
    assert_eq!(run.ends(0, applied()), "repair 0, apply 1");
    // Before the attempt began it is no news.
    let (mut run, _) = update(&[("0000_10_a_1", "config"), ("0000_10_a_2", "config")]);
    run.on(Event::Changed { position: 1, content: true });
    assert_eq!((run.ends(0, applied()), run.ends(1, applied())), ("apply 1".to_owned(), String::new()));
}

#[test]
fn failed_repair_is_repeated_and_reported_with_the_third_failure() {
    let (mut run, _) = update(&[("0000_10_a_1", "config")]);
    run.ends(0, applied());
    run.on(Event::Changed { position: 0, content: true });
    for (failures, next) in [(1, "repair 0 after 1s"), (2, "repair 0 after 2s"), (3, "repair 0 after 4s")] {
        assert_eq!(run.ends(0, failed(Cause::Other)), next);
        assert_eq!(run.rollout.failure().is_some(), failures == 3);
    }
    assert_eq!((run.ends(0, applied()), run.rollout.failure()), (String::new(), None));
}

#[test]
fn changed_configuration_is_applied_and_is_no_repair() {
    let annotated = json!({"config.openshift.io/inject-proxy": "main"});
    let workload = manifest("0000_10_a_1", "apps/v1", "Deployment", "a", annotated);
    let (mut run, _) = Run::start(plan(vec![workload, object("0000_10_a_2", "config", "b")], Mode::Reconcile));
    let updated = || Outcome { applied: Some(Applied::Updated { fields: vec![], by: None }), ..judged(Verdict::Ready) };
    assert_eq!(run.on(Event::ConfigurationChanged(vec![Source::Proxy])), "", "the attempt under way comes first");
    assert_eq!(run.ends(0, judged(Verdict::Ready)), "repair 0, apply 1");
    run.ends(0, judged(Verdict::Ready));
    run.ends(1, applied());
    for _ in 0..5 {
        assert_eq!(run.on(Event::ConfigurationChanged(vec![Source::Infrastructure])), "", "not a part of it");
        assert_eq!(run.on(Event::ConfigurationChanged(vec![Source::Proxy])), "configure 0");
        run.ends(0, updated());
    }
    assert_eq!(run.rollout.conflicts(at(0)), []);
}

#[test]
fn completion_waits_for_an_object_whose_gate_closes_again() {
    let (mut run, _) = update(&[("0000_10_a_1", "deployment"), ("0000_20_b_1", "config")]);
    run.ends(0, judged(Verdict::Ready));
    assert_eq!(run.on(Event::Changed { position: 0, content: false }), "repair 0");
    run.ends(1, applied());
    assert!(!run.rollout.is_completed(), "it is being looked at");
    assert_eq!(run.ends(0, judged(waiting())), "");
    assert_eq!((run.rollout.is_completed(), run.rollout.done()), (false, 1));
    assert_eq!(
        run.rollout.failure().map(|error| (error.message, error.effect)),
        Some(("not yet".into(), Effect::Wait))
    );
    assert_eq!(run.on(Event::Changed { position: 0, content: false }), "repair 0");
    run.ends(0, judged(Verdict::Ready));
    assert_eq!((run.rollout.is_completed(), run.rollout.done(), run.rollout.failure()), (true, 2, None));
}

#[test]
fn completion_waits_for_an_object_that_cannot_be_restored() {
    let (mut run, _) = update(&[("0000_10_a_1", "config"), ("0000_20_b_1", "config")]);
    run.ends(0, applied());
    run.on(Event::Changed { position: 0, content: true });
    run.ends(0, failed(Cause::Other));
    run.ends(1, applied());
    assert_eq!((run.rollout.is_completed(), run.rollout.done()), (false, 1));
    run.ends(0, failed(Cause::Other));
    run.ends(0, failed(Cause::Other));
    assert_eq!(run.rollout.failure().map(|error| error.message), Some("it is broken".into()));
    assert_eq!((run.ends(0, applied()).as_str(), run.rollout.is_completed()), ("", true));
}

#[test]
fn completion_waits_for_an_object_that_changed_while_it_was_judged() {
    let (mut run, _) = update(&[("0000_10_a_1", "deployment"), ("0000_20_b_1", "config")]);
    run.ends(0, judged(Verdict::Ready));
    run.on(Event::Changed { position: 0, content: true });
    let overtaken = Judged { verdict: Verdict::Ready, as_desired: false };
    run.ends(0, Outcome { judged: Some(overtaken), ..applied() });
    run.ends(1, applied());
    assert!(!run.rollout.is_completed());
    assert!(run.rollout.failure().unwrap().message.contains("changes again"));
    run.on(Event::Changed { position: 0, content: true });
    run.ends(0, judged(Verdict::Ready));
    assert!(run.rollout.is_completed());
}

#[test]
fn install_completes_with_a_degraded_operator_which_counts_from_then_on() {
    let (mut run, _) = start(&[("0000_10_a_1", "operator")], Mode::Install);
    run.on(Event::Precreated { node: 0 });
    let error = UpdateError { effect: Effect::Report, ..UpdateError::new(Reason::OperatorDegraded, "degraded") };
    assert_eq!(run.ends(0, judged(Verdict::Failing(error))), "repair 0");
    assert!(run.rollout.is_completed());
    let Some(Command::Reconcile(Reconcile { gate: Some(Mode::Reconcile), .. })) = run.running.last() else {
        panic!("it is not judged again: {:?}", run.running);
    };
}

#[test]
fn failed_repair_is_woken_when_its_cause_goes() {
    let table = [
        (Cause::Other, ""),
        (Cause::Terminating, " until changed"),
        (Cause::NamespaceMissing("ns".into()), " until namespace ns"),
        (Cause::KindNotServed, " until served or refreshed"),
        (Cause::KindGone, " then refreshed"),
    ];
    for (cause, until) in table {
        let (mut run, _) = update(&[("0000_10_a_1", "widget"), ("0000_20_b_1", "config")]);
        run.ends(0, applied());
        run.on(Event::Changed { position: 0, content: true });
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(run.ends(0, failed(cause.clone())), format!("repair 0 after {pause}s{until}"));
        }
        // Once the rollout has completed, nothing waits for the object.
        run.ends(0, applied());
        run.ends(1, applied());
        run.on(Event::Changed { position: 0, content: true });
        for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300] {
            assert_eq!(run.ends(0, failed(cause.clone())), format!("repair 0 after {pause}s{until}"));
        }
    }
}

#[test]
fn repair_in_a_conflict_is_not_woken_early() {
    let (mut run, _) = update(&[("0000_10_a_1", "widget")]);
    run.ends(0, applied());
    for _ in 0..3 {
        run.on(Event::Changed { position: 0, content: true });
        run.ends(0, applied());
    }
    run.on(Event::Changed { position: 0, content: true });
    assert_eq!(run.ends(0, failed(Cause::Terminating)), "repair 0 after 2s");
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
    let (mut run, _) = update(&[("0000_10_a_1", "deployment")]);
    run.now = 50;
    run.ends(0, judged(waiting()));
    run.rollout.backdate(&BTreeMap::from([(clock("Deployment", "ns", "0000-10-a-1"), at(20))]));
    assert_eq!(run.rollout.nodes()[0].waiting[0].since, Some(at(20)));
    run.rollout.backdate(&BTreeMap::from([(clock("Deployment", "ns", "0000-10-a-1"), at(40))]));
    assert_eq!(run.rollout.nodes()[0].waiting[0].since, Some(at(20)), "the earlier one counts");
}
