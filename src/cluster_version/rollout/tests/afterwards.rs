//! What the rollout does after a turn: repairs, completion, and objects that others keep changing.

use super::run::*;
use super::*;
use NodeState::Done;

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
fn repair_that_the_server_did_not_answer_is_repeated_as_soon_as_it_is_ready() {
    let (mut run, _) = update(&[("0000_10_a_1", "config")]);
    run.ends(0, applied());
    run.on(Event::Changed { position: 0, content: true });
    for next in ["1s", "2s", "4s", "4s"] {
        assert_eq!(run.ends(0, failed(Cause::NoAnswer)), format!("repair 0 after {next} or ready"));
    }
    assert_eq!((run.ends(0, applied()), run.rollout.failure()), (String::new(), None));
}

#[test]
fn failed_repair_is_repeated_and_reported_with_the_third_failure() {
    let (mut run, _) = update(&[("0000_10_a_1", "config")]);
    run.ends(0, applied());
    run.on(Event::Changed { position: 0, content: true });
    for (failures, next) in [(1, "1s"), (2, "2s"), (3, "4s")] {
        assert_eq!(run.ends(0, failed(Cause::Other)), format!("repair 0 after {next} or deleted"));
        assert_eq!(run.rollout.failure().is_some(), failures == 3);
    }
    assert_eq!((run.ends(0, applied()), run.rollout.failure()), (String::new(), None));
}

#[test]
fn changed_configuration_is_applied_and_is_no_repair() {
    let annotated = json!({"config.openshift.io/inject-proxy": "main"});
    let workload = manifest("0000_10_a_1", "apps/v1", "Deployment", "a", annotated);
    let (mut run, _) = Run::start(plan(vec![workload, object("0000_10_a_2", "config", "b")], Mode::Reconcile));
    let updated = || Outcome { applied: Some(Applied::Updated { fields: vec![], by: None }), ..judged(None) };
    assert_eq!(run.on(Event::ConfigurationChanged(vec![Source::Proxy])), "", "the attempt under way comes first");
    assert_eq!(run.ends(0, judged(None)), "repair 0, apply 1");
    run.ends(0, judged(None));
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
    run.ends(0, judged(None));
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
    run.ends(0, judged(None));
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
    run.ends(0, judged(None));
    run.on(Event::Changed { position: 0, content: true });
    let overtaken = Judged { unready: None, as_desired: false };
    run.ends(0, Outcome { judged: Some(overtaken), ..applied() });
    run.ends(1, applied());
    assert!(!run.rollout.is_completed());
    assert!(run.rollout.failure().unwrap().message.contains("changes again"));
    run.on(Event::Changed { position: 0, content: true });
    run.ends(0, judged(None));
    assert!(run.rollout.is_completed());
}

#[test]
fn install_completes_with_a_degraded_operator_which_counts_from_then_on() {
    let (mut run, _) = start(&[("0000_10_a_1", "operator")], Mode::Install);
    run.on(Event::Precreated { node: 0 });
    let error = UpdateError { effect: Effect::Report, ..UpdateError::new(Reason::OperatorDegraded, "degraded") };
    assert_eq!(run.ends(0, judged(unready(error))), "repair 0");
    assert!(run.rollout.is_completed());
    let Some(Command::Reconcile(Reconcile { gate: Some(Mode::Reconcile), .. })) = run.running.last() else {
        panic!("it is not judged again: {:?}", run.running);
    };
}

#[test]
fn failed_repair_is_woken_when_its_cause_goes() {
    for (cause, until) in causes() {
        let (mut run, _) = update(&[("0000_10_a_1", "widget"), ("0000_20_b_1", "config")]);
        run.ends(0, applied());
        run.on(Event::Changed { position: 0, content: true });
        // What was not answered is no reason to be slower.
        let longest = if cause == Cause::NoAnswer { 4 } else { 300 };
        for pause in [1, 2, 4, 8, 16, 30, 30].map(|pause| longest.min(pause)) {
            assert_eq!(run.ends(0, failed(cause.clone())), format!("repair 0 after {pause}s{until}"));
        }
        // Once the rollout has completed, nothing waits for the object.
        run.ends(0, applied());
        run.ends(1, applied());
        run.on(Event::Changed { position: 0, content: true });
        for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300].map(|pause| longest.min(pause)) {
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
    assert_eq!(run.ends(0, failed(Cause::Terminating)), "repair 0 contested after 2s");
}

/// The object was written again, and this was judged.
fn written(unready: Option<Unready>) -> Outcome {
    Outcome { applied: Some(Applied::Created), ..judged(unready) }
}

#[test]
fn objects_that_others_keep_changing_do_not_hold_up_the_completion() {
    let (mut run, _) = update(&[("0000_10_a_1", "config"), ("0000_10_b_1", "config"), ("0000_20_c_1", "config")]);
    run.ends(0, applied());
    run.ends(1, applied());
    let changed = |position| Event::Changed { position, content: true };
    for position in [0, 1] {
        for _ in 0..2 {
            assert_eq!(run.on(changed(position)), format!("repair {position}"));
            assert_eq!(run.ends(position, applied()), "");
        }
        assert_eq!(run.on(changed(position)), format!("repair {position} contested after 1s"));
    }
    run.ends(2, applied());
    assert!(run.rollout.is_completed(), "both were brought back and only pause");
    run.ends(0, applied());
    assert_eq!(run.rollout.conflicts(at(0)).len(), 1, "it is told");

    // One that cannot be brought back does.
    let (mut run, _) = update(&[("0000_10_a_1", "config"), ("0000_20_c_1", "config")]);
    run.ends(0, applied());
    for _ in 0..2 {
        run.on(changed(0));
        run.ends(0, applied());
    }
    run.on(changed(0));
    run.ends(0, failed(Cause::Other));
    run.ends(1, applied());
    assert!(!run.rollout.is_completed());
    run.ends(0, applied());
    assert!(run.rollout.is_completed());
}

#[test]
fn contested_object_is_judged_by_what_it_was_between_two_writes() {
    // In its turn.
    let (mut run, _) = update(&[("0000_10_a_1", "deployment")]);
    assert_eq!(run.ends(0, written(waiting())), "");
    assert_eq!(run.on(Event::Changed { position: 0, content: true }), "gate 0");
    assert_eq!(run.ends(0, written(None)), "gate 0", "it was ready in another state");
    assert_eq!(run.ends(0, written(waiting())), "gate 0 contested after 1s");
    assert_eq!(run.ends(0, written(waiting())), "gate 0 contested after 2s");
    assert_eq!((run.ends(0, written(None)).as_str(), run.rollout.is_completed()), ("", true));

    // After its turn.
    let (mut run, _) = update(&[("0000_10_a_1", "deployment"), ("0000_20_b_1", "config")]);
    assert_eq!(run.ends(0, judged(None)), "apply 1");
    for _ in 0..2 {
        assert_eq!(run.on(Event::Changed { position: 0, content: true }), "repair 0");
        assert_eq!(run.ends(0, written(waiting())), "");
    }
    run.ends(1, applied());
    assert!(!run.rollout.is_completed(), "the last that is known of it is that it is not ready");
    assert_eq!(run.on(Event::Changed { position: 0, content: true }), "repair 0 contested after 1s");
    run.ends(0, written(None));
    assert!(run.rollout.is_completed());
}
