use super::*;
use machine::Machine;

mod machine;

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn ask(config: &str, drain: bool) -> Action {
    Action::Ask(if drain { Request::Drain(config.into()) } else { Request::Uncordon(config.into()) })
}

#[test]
fn update_is_staged_before_the_node_is_drained_and_nothing_is_written_before_that() {
    let mut machine = Machine::new(true, true);
    machine.run();
    assert!(machine.is_at("b"));
    let wait = |what: &str| Action::Wait { what: what.into(), until: None };
    let expected = [
        Action::MakePlan,
        Action::Check,
        Action::Tell(NodeState::Working, String::new()),
        Action::Stage,
        ask("b", true),
        wait("the node to be drained"),
        Action::CountPods,
        Action::Apply,
        Action::Reboot,
        Action::Check,
        Action::Commit,
        ask("b", false),
        wait("the node to be uncordoned"),
        Action::TellDone,
        Action::Rest,
    ];
    assert_eq!(machine.trail, expected);
}

#[test]
fn change_that_disturbs_nobody_is_made_without_a_drain() {
    let mut machine = Machine::new(false, false);
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail[4..], [Action::Apply, Action::RunActions, Action::Commit, Action::TellDone, Action::Rest]);
    let mut machine = Machine::new(true, true);
    machine.facts.single_node = true;
    machine.run();
    assert!(machine.is_at("b"));
    assert!(!machine.trail.contains(&ask("b", true)), "nobody could take the pods");
}

#[test]
fn agent_killed_at_any_action_ends_at_the_same_configuration() {
    for change in [(true, true), (true, false), (false, false)] {
        let whole = {
            let mut machine = Machine::new(change.0, change.1);
            machine.run();
            machine.trail
        };
        for killed in 0..whole.len() {
            for performed in [false, true] {
                let mut machine = Machine::new(change.0, change.1);
                for _ in 0..killed {
                    if let Action::Wait { .. } = machine.step() {
                        machine.answer();
                    }
                }
                let action = decide(&machine.facts, machine.now);
                machine.perform(&action, performed);
                machine.restart();
                machine.run();
                assert!(machine.is_at("b"), "killed in {action:?}: {:?}", machine.facts);
                let reboots = machine.trail.iter().filter(|action| **action == Action::Reboot).count();
                assert!(reboots <= 1, "{:?}", machine.trail);
            }
        }
    }
}

#[test]
fn failed_write_is_rolled_back_and_tried_again_without_another_drain() {
    let mut machine = Machine::new(true, true);
    machine.fails = Some(7);
    for _ in 0..9 {
        if let Action::Wait { .. } = machine.step() {
            machine.answer();
        }
    }
    assert_eq!(machine.trail[7..], [Action::Apply, Action::RollBack]);
    assert_eq!((machine.tree.as_str(), &machine.facts.journal), ("a", &None));
    assert_eq!(machine.step(), Action::Tell(NodeState::Degraded, "no room on the disk".into()));
    assert_eq!(
        machine.step(),
        Action::Wait { what: "the next attempt".into(), until: Some(START + SignedDuration::from_secs(1)) }
    );
    assert!(machine.facts.unschedulable, "it stays drained");
    machine.now += SignedDuration::from_secs(1);
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail.iter().filter(|action| **action == ask("b", true)).count(), 1);
    assert_eq!(machine.facts.failure, None);
}

#[test]
fn failed_reload_is_rolled_back() {
    let mut machine = Machine::new(false, false);
    machine.fails = Some(5);
    machine.run();
    assert!(machine.is_at("b"));
    let told = Action::Tell(NodeState::Degraded, "crio.service does not reload".into());
    assert_eq!(machine.trail[5..8], [Action::RunActions, Action::RollBack, told]);
}

/// Otherwise it would be restarted for ever.
#[test]
fn node_that_comes_back_as_it_was_goes_back_and_waits_for_another_target() {
    let mut machine = Machine::new(true, true);
    machine.comes_back_old = true;
    machine.run();
    let reason = "has b and runs a instead of b";
    assert_eq!((machine.facts.state, machine.facts.reason.as_str()), (NodeState::Degraded, reason));
    assert_eq!((machine.tree.as_str(), machine.running.as_str()), ("a", "a"));
    assert!(machine.facts.unschedulable, "nobody knows whether it is well");
    assert_eq!(machine.trail.iter().filter(|action| **action == Action::Reboot).count(), 2);
    machine.restart();
    machine.run();
    assert_eq!(machine.facts.state, NodeState::Degraded, "a new process knows it as well");
    machine.facts.desired = Target::new("a");
    machine.run();
    assert!(machine.is_at("a"));
    assert!(!machine.facts.unschedulable);
    machine.facts.desired = Target::new("b");
    machine.run();
    assert!(machine.is_at("b"), "what is desired again is tried again: {:?}", machine.facts);
}

#[test]
fn failure_of_a_target_is_forgotten_once_another_one_is_desired() {
    let mut machine = Machine::new(true, true);
    machine.comes_back_old = true;
    machine.run();
    assert!(machine.facts.failure.as_ref().unwrap().after_reboot);
    machine.facts.desired = Target::new("c");
    machine.facts.plan = Plan::Unreconcilable("storage.disks cannot be changed".into());
    machine.run();
    assert_eq!(machine.facts.state, NodeState::Unreconcilable);
    machine.facts.desired = Target::new("b");
    machine.facts.plan = Plan::Unknown;
    machine.run();
    assert!(machine.is_at("b"), "{:?}", machine.facts);
}

/// Only a deviation that was read is a reason to go back.
#[test]
fn what_cannot_be_read_after_the_restart_is_asked_again_and_told_after_minutes() {
    let mut machine = Machine::new(true, true);
    while !machine.trail.contains(&Action::Reboot) {
        if let Action::Wait { .. } = machine.step() {
            machine.answer();
        }
    }
    machine.unreadable = true;
    let cause = "what the node is like after the update could not be read: rpm-ostree does not answer";
    let mut checks = Vec::new();
    while machine.facts.reason.is_empty() {
        match machine.step() {
            Action::Check => checks.push(machine.now.as_second()),
            Action::Wait { until, .. } => machine.now = until.unwrap(),
            Action::Tell(state, reason) => assert_eq!((state, reason.as_str()), (NodeState::Degraded, cause)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(checks, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]);
    assert!(matches!(machine.step(), Action::Wait { until: Some(_), .. }), "it is told once");
    machine.unreadable = false;
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail.iter().filter(|action| **action == Action::Reboot).count(), 1);
    assert!(!machine.trail.contains(&Action::RollBack));
}

#[test]
fn nothing_is_changed_on_top_of_what_cannot_be_read() {
    for desired in ["a", "b"] {
        let mut machine = Machine::new(false, false);
        machine.facts.desired = Target::new(desired);
        machine.unreadable = true;
        assert!((0..10).any(|_| matches!(machine.step(), Action::Wait { until: Some(_), .. })), "{:?}", machine.trail);
        assert!(!machine.trail.contains(&Action::Apply) && machine.facts.state == NodeState::Done);
        machine.unreadable = false;
        machine.run();
        assert!(machine.is_at(desired));
    }
}

/// Each of them would be written again and again in place of the other one.
#[test]
fn of_a_failure_and_of_what_keeps_it_from_being_tried_again_one_is_told() {
    let now = START + SignedDuration::from_hours(1);
    let unread = Unread { cause: "nothing answers".into(), since: START, at: now, count: 9 };
    for (check, expected) in [
        (Check::Failed("/etc/a differs".into()), "before the update: /etc/a differs"),
        (Check::Unread(unread), "what the node is like before the update could not be read: nothing answers"),
    ] {
        let mut machine = Machine::new(false, false);
        let failure = Failure {
            target: Target::new("b"),
            cause: "no room".into(),
            at: now,
            count: 1,
            after_reboot: false,
            begun_in: None,
        };
        let facts = AgentFacts {
            plan: Plan::Change { drains: false, reboots: false },
            failure: Some(failure),
            ..machine.facts.clone()
        };
        machine.facts = AgentFacts { check: Check::Passed, ..facts };
        let mut reasons = Vec::new();
        for seconds in [0, 0, 2, 2, 2] {
            if let Action::Tell(state, reason) = decide(&machine.facts, now + SignedDuration::from_secs(seconds)) {
                machine.facts.reason.clone_from(&reason);
                machine.facts.state = state;
                machine.facts.check = check.clone();
                reasons.push(reason);
            }
        }
        assert_eq!(reasons, ["no room", expected]);
    }
}

/// Whether a restart is asked for or not, the services have been restarted: that it worked is asked again, not that it is done.
#[test]
fn services_are_not_restarted_again_because_something_could_not_be_read() {
    let mut machine = Machine::new(false, false);
    while !machine.trail.contains(&Action::RunActions) {
        machine.step();
    }
    let unread = Unread::again(None, "systemctl does not answer".into(), machine.now);
    machine.facts.check = Check::Unread(unread);
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail.iter().filter(|action| **action == Action::RunActions).count(), 1);
}

#[test]
fn clock_that_was_set_back_does_not_put_off_what_is_tried_again() {
    let later = START + SignedDuration::from_hours(3);
    let failure = Failure {
        target: Target::new("b"),
        cause: String::new(),
        at: later,
        count: 7,
        after_reboot: false,
        begun_in: None,
    };
    assert_eq!(failure.again(false, START), Some(START));
    let unread = Unread::again(None, "x".into(), later);
    assert_eq!(unread.next(START), START);
    let unread = Unread::again(Some(&unread), "x".into(), START);
    assert_eq!((unread.since, unread.count), (START, 2));
}

#[test]
fn target_that_changes_during_the_drain_or_the_restart_is_reached_without_serving_in_between() {
    for changed_at in [6, 9] {
        let mut machine = Machine::new(true, true);
        for _ in 0..changed_at {
            if let Action::Wait { .. } = machine.step() {
                machine.answer();
            }
        }
        machine.facts.desired = Target::new("c");
        machine.facts.plan = Plan::Unknown;
        machine.change = (false, true);
        machine.run();
        assert!(machine.is_at("c"));
        let uncordoned: Vec<&Action> =
            machine.trail.iter().filter(|action| matches!(action, Action::Ask(Request::Uncordon(_)))).collect();
        assert_eq!(uncordoned, [&ask("c", false)], "{:?}", machine.trail);
    }
}

#[test]
fn drain_that_is_not_wanted_any_more_is_taken_back() {
    let mut machine = Machine::new(true, true);
    for _ in 0..5 {
        machine.step();
    }
    assert_eq!(machine.facts.asked, Some(Request::Drain("b".into())));
    machine.facts.desired = Target::new("a");
    assert_eq!(machine.step(), ask("a", false));
    machine.run();
    assert!(machine.is_at("a"));
}

#[test]
fn what_was_staged_is_dropped_once_its_target_is_not_wanted_any_more() {
    for (wanted, agent_restarts) in [("a", false), ("a", true), ("c", false), ("c", true)] {
        let mut machine = Machine::new(true, true);
        while machine.facts.staged.is_none() {
            machine.step();
        }
        machine.facts.desired = Target::new(wanted);
        machine.facts.plan = Plan::Unknown;
        machine.change = (false, true);
        if agent_restarts {
            machine.restart();
        }
        machine.run();
        assert!(machine.is_at(wanted) && machine.facts.staging.is_none(), "{wanted}: {:?}", machine.facts);
        let drops = machine.trail.iter().filter(|action| **action == Action::DropStaged).count();
        assert_eq!(drops, 1, "{wanted}: {:?}", machine.trail);
    }
}

#[test]
fn node_that_became_schedulable_is_drained_again_before_it_is_restarted() {
    for uncordoned_at in [6, 8] {
        let mut machine = Machine::new(true, true);
        for _ in 0..uncordoned_at {
            if let Action::Wait { .. } = machine.step() {
                machine.answer();
            }
        }
        machine.facts.unschedulable = false;
        assert_eq!(machine.step(), ask("b", true), "{:?}", machine.trail);
        machine.run();
        assert!(machine.is_at("b"));
    }
}

/// Made schedulable and cordoned again, by whomever: what the controller said then is not so any more.
#[test]
fn pods_that_have_come_back_are_moved_away_before_the_node_is_changed() {
    let mut machine = Machine::new(true, true);
    for _ in 0..6 {
        if let Action::Wait { .. } = machine.step() {
            machine.answer();
        }
    }
    machine.pods = 2;
    assert_eq!([machine.step(), machine.step()], [Action::CountPods, ask("b", true)]);
    machine.run();
    assert!(machine.is_at("b"));
}

/// Back to the configuration that it is still said to have: what it has and what it should have must not look the same.
#[test]
fn node_that_fails_on_its_way_back_says_what_it_has() {
    let mut machine = Machine::new(true, true);
    while !machine.trail.contains(&Action::Commit) {
        if let Action::Wait { .. } = machine.step() {
            machine.answer();
        }
    }
    assert_eq!(machine.facts.current, Target::new("a"));
    machine.facts.desired = Target::new("a");
    machine.facts.plan = Plan::Missing("rendered-a does not exist".into());
    machine.run();
    assert_eq!((machine.facts.state, &machine.facts.current), (NodeState::Degraded, &Target::new("b")));
}

#[test]
fn disk_counts_before_the_annotation() {
    let mut machine = Machine::new(true, true);
    (machine.tree, machine.running) = ("b".into(), "b".into());
    machine.facts.record = Some(Target::new("b"));
    machine.run();
    assert!(machine.is_at("b"));
    assert_eq!(machine.trail, [Action::Check, Action::TellDone, Action::Rest]);
}

#[test]
fn deviation_is_reported_until_it_is_gone_and_nothing_is_changed_on_top_of_it() {
    let mut machine = Machine::new(false, false);
    machine.facts.desired = Target::new("a");
    machine.run();
    machine.tree = "edited".into();
    machine.facts.check = Check::Outdated;
    machine.run();
    assert_eq!(machine.facts.state, NodeState::Degraded);
    machine.facts.desired = Target::new("b");
    machine.run();
    assert_eq!(machine.facts.reason, "before the update: has edited and runs a instead of a");
    assert!(!machine.trail.contains(&Action::Apply));
    machine.tree = "a".into();
    machine.facts.check = Check::Outdated;
    machine.run();
    assert!(machine.is_at("b"));
}

#[test]
fn administrator_can_have_the_node_written_anew() {
    let mut machine = Machine::new(true, true);
    machine.facts.desired = Target::new("a");
    machine.tree = "edited".into();
    machine.facts.forced = true;
    // The drain is for the same configuration.
    for _ in 0..20 {
        if let Action::Wait { .. } = {
            let action = decide(&machine.facts, machine.now);
            machine.perform(&action, true);
            action
        } {
            machine.answer();
        }
    }
    assert!(machine.is_at("a"), "{:?}", machine.trail);
    assert!(machine.trail.contains(&Action::Reboot) && !machine.facts.forced);
}

#[test]
fn forced_attempt_that_fails_is_told_and_has_its_pause() {
    let mut machine = Machine::new(false, false);
    machine.facts.forced = true;
    machine.fails = Some(3);
    let actions = std::array::from_fn::<_, 7, _>(|_| machine.step());
    let expected = [
        Action::MakePlan,
        Action::Tell(NodeState::Working, String::new()),
        Action::Stage,
        Action::Apply,
        Action::RollBack,
        Action::Tell(NodeState::Degraded, "no room on the disk".into()),
        Action::Wait { what: "the next attempt".into(), until: Some(START + SignedDuration::from_secs(1)) },
    ];
    assert_eq!(actions, expected);
    machine.run();
    assert!(machine.is_at("b"));
}

/// That nothing is tried again after a restart in vain is all that it overrides.
#[test]
fn administrator_can_have_it_tried_again_after_a_restart_in_vain() {
    let mut machine = Machine::new(true, true);
    machine.comes_back_old = true;
    machine.run();
    assert!(machine.facts.failure.as_ref().unwrap().after_reboot);
    assert_eq!(machine.facts.failure.as_ref().unwrap().again(false, machine.now), None);
    machine.facts.forced = true;
    machine.run();
    assert!(machine.is_at("b"), "{:?}", machine.facts);
}

#[test]
fn force_file_means_nothing_on_a_node_that_was_told_no_configuration() {
    let mut machine = Machine::new(true, true);
    machine.facts.desired = Target::default();
    machine.facts.forced = true;
    machine.run();
    assert!(machine.is_at("a"), "{:?}", machine.trail);
}

#[test]
fn first_state_is_recorded_before_anything_is_changed() {
    let mut machine = Machine::new(true, true);
    machine.facts = AgentFacts { boot: "1".into(), ..AgentFacts::default() };
    (machine.tree, machine.running) = ("first".into(), "first".into());
    machine.run();
    assert!(machine.is_at("first"));
    assert_eq!(machine.facts.desired, Target::new("first"));
    assert_eq!(machine.trail, [Action::RecordFirst, Action::Check, Action::TellDone, Action::Rest]);
}

#[test]
fn target_that_cannot_be_reached_is_told_once_with_its_cause() {
    let mut machine = Machine::new(true, true);
    machine.facts.plan = Plan::Unreconcilable("storage.disks cannot be changed".into());
    assert_eq!(machine.step(), Action::Tell(NodeState::Unreconcilable, "storage.disks cannot be changed".into()));
    assert!(matches!(machine.step(), Action::Wait { .. }));
    machine.facts.plan = Plan::Missing("rendered-b does not exist".into());
    assert_eq!(machine.step(), Action::Tell(NodeState::Degraded, "rendered-b does not exist".into()));
    machine.facts.plan = Plan::Unknown;
    machine.run();
    assert!(machine.is_at("b"));
}

#[test]
fn attempts_come_later_and_later_up_to_a_minute() {
    let failure = |count| Failure {
        target: Target::new("b"),
        cause: String::new(),
        at: START,
        count,
        after_reboot: false,
        begun_in: None,
    };
    let seconds = |count| failure(count).again(false, START).unwrap().as_second();
    assert_eq!([1, 2, 3, 6, 7, 8, 1000].map(seconds), [1, 2, 4, 32, 60, 60, 60]);
    assert_eq!(Failure { after_reboot: true, ..failure(1) }.again(false, START), None);
}

#[test]
fn what_is_to_be_taken_later_is_prepared_while_nothing_else_is_to_be_done() {
    let ahead = Target::new("b");
    let settled = AgentFacts {
        desired: Target::new("a"),
        current: Target::new("a"),
        state: NodeState::Done,
        record: Some(Target::new("a")),
        check: Check::Passed,
        ahead: Some(ahead.clone()),
        ..AgentFacts::default()
    };
    assert_eq!(decide(&settled, START), Action::StageAhead(ahead.clone()));
    let staged = AgentFacts { staged: Some(ahead.clone()), ..settled.clone() };
    assert_eq!(decide(&staged, START), Action::Rest);
    // It is not wanted any more, or was never finished.
    assert_eq!(decide(&AgentFacts { ahead: None, ..staged.clone() }, START), Action::DropStaged);
    let half = AgentFacts { staged: Some(Target::default()), ..settled.clone() };
    assert_eq!(decide(&half, START), Action::StageAhead(ahead.clone()));
    assert_eq!(decide(&AgentFacts { ahead: None, ..settled.clone() }, START), Action::Rest);
    // What is on disk is kept as long as it is for what is to come.
    let on_disk = AgentFacts { staging: Some(ahead.clone()), ..staged.clone() };
    assert_eq!(decide(&on_disk, START), Action::Rest);
    for other in [None, Some(Target::new("c"))] {
        assert_eq!(decide(&AgentFacts { ahead: other, ..on_disk.clone() }, START), Action::DropStaged);
    }
    assert_eq!(decide(&AgentFacts { ahead: Some(Target::new("a")), ..settled.clone() }, START), Action::Rest);
    // The node comes first: it deviates, or its state is not told yet.
    let deviates = AgentFacts { check: Check::Failed("x".into()), ..settled.clone() };
    assert!(matches!(decide(&deviates, START), Action::Tell(NodeState::Degraded, _)));
    assert_eq!(decide(&AgentFacts { state: NodeState::Working, ..settled }, START), Action::TellDone);
    // Once it is told, it is not prepared again.
    let told = AgentFacts {
        desired: ahead,
        plan: Plan::Change { drains: true, reboots: true },
        state: NodeState::Working,
        ..staged
    };
    assert_eq!(decide(&told, START), ask("b", true));
}

#[test]
fn what_could_not_be_prepared_for_later_is_tried_again_later_and_later() {
    let (ahead, second) = (Target::new("b"), SignedDuration::from_secs(1));
    let failed = |count: u32| {
        let tried = TriedAhead { target: ahead.clone(), at: START, count };
        AgentFacts {
            desired: Target::new("a"),
            current: Target::new("a"),
            state: NodeState::Done,
            record: Some(Target::new("a")),
            check: Check::Passed,
            ahead: Some(ahead.clone()),
            tried_ahead: Some(tried),
            ..AgentFacts::default()
        }
    };
    for (count, seconds) in [(1, 1), (2, 2), (6, 32), (7, 60), (1000, 60)] {
        let due = START + second * seconds;
        let waiting = decide(&failed(count), due - second);
        assert!(matches!(waiting, Action::Wait { until: Some(until), .. } if until == due), "{count}: {waiting:?}");
        assert_eq!(decide(&failed(count), due), Action::StageAhead(ahead.clone()));
    }
    let half = AgentFacts { staging: Some(ahead.clone()), ..failed(1) };
    assert_eq!(decide(&half, START), Action::DropStaged, "nothing half prepared stays between attempts");
    let other = AgentFacts { ahead: Some(Target::new("c")), ..failed(1000) };
    assert_eq!(decide(&other, START), Action::StageAhead(Target::new("c")));
    assert_eq!(decide(&AgentFacts { ahead: None, ..failed(1) }, START), Action::Rest);
    let tried = TriedAhead::again(failed(3).tried_ahead.as_ref(), ahead.clone(), START);
    assert_eq!(tried.count, 4);
    assert_eq!(TriedAhead::again(Some(&tried), Target::new("c"), START).count, 1);
}

#[test]
fn cause_that_is_passed_on_in_other_characters_is_told_once() {
    let cause = "rpm-ostree:\tno \u{1b}[31mspace";
    let mut machine = Machine::new(true, true);
    machine.facts.plan = Plan::Missing(cause.to_owned());
    assert_eq!(decide(&machine.facts, START), Action::Tell(NodeState::Degraded, cause.to_owned()));
    (machine.facts.state, machine.facts.reason) = (NodeState::Degraded, said(cause));
    assert!(matches!(decide(&machine.facts, START), Action::Wait { .. }));
}
