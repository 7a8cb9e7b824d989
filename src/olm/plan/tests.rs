mod definitions;
mod steps;

use super::group::{Account, Group};
use super::surplus::{Known, surplus};
use super::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NOW: i64 = 1_700_000_000;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

/// A plan with one step in each of these states.
fn plan(phase: &str, approved: bool, steps: &[&str]) -> InstallPlan {
    let steps: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(at, status)| {
            json!({"resolving": "a.v1", "status": status,
                "resource": {"group": "", "version": "v1", "kind": "ConfigMap", "name": format!("c{at}")}})
        })
        .collect();
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-x", "namespace": "shop", "uid": "u"},
        "spec": {"approved": approved, "approval": "Manual", "clusterServiceVersionNames": ["a.v1"]},
        "status": {"phase": phase, "catalogSources": [], "plan": steps}});
    serde_json::from_value(plan).unwrap()
}

fn group(name: &str, account: &str) -> Group {
    Group { namespace: "shop".to_owned(), name: name.to_owned(), account: account.to_owned() }
}

fn decided(plan: &InstallPlan, groups: &[Group], account: Account) -> Decision {
    decide(&Facts { plan, groups, account, is_judged: &|name| name == "c1" }, at(0))
}

fn status(plan: &InstallPlan) -> &InstallPlanStatus {
    plan.status.as_ref().unwrap()
}

fn written(decision: Decision) -> InstallPlanStatus {
    let Decision::Write(status) = decision else { panic!("nothing is written: {decision:?}") };
    *status
}

/// Status, reason and message of the condition Installed.
fn installed(status: &InstallPlanStatus) -> Option<(&str, &str, &str)> {
    let found = status.conditions.iter().find(|it| it.type_ == "Installed")?;
    Some((&found.status, &found.reason, &found.message))
}

#[test]
fn plan_without_approval_without_steps_or_at_its_end_is_left_alone() {
    let one = [group("g", "")];
    for (phase, approved, steps) in [
        ("", true, &["Unknown"][..]),
        ("Planning", true, &["Unknown"]),
        ("Complete", true, &["Unknown"]),
        ("Failed", true, &["Unknown"]),
        ("Else", true, &["Unknown"]),
        ("RequiresApproval", false, &["Unknown"]),
        ("Installing", false, &["Unknown"]),
        ("Installing", true, &[]),
        ("RequiresApproval", true, &[]),
    ] {
        let plan = plan(phase, approved, steps);
        for groups in [&one[..], &[]] {
            assert_eq!(decided(&plan, groups, Account::None), Decision::Nothing, "{phase} {approved} {steps:?}");
        }
    }
    let without = InstallPlan { status: None, ..plan("", true, &[]) };
    assert_eq!(decided(&without, &one, Account::None), Decision::Nothing);
}

#[test]
fn approved_plan_becomes_installing_and_then_its_steps_are_carried_out() {
    let mut plan = plan("RequiresApproval", true, &["Unknown"]);
    let next = written(decided(&plan, &[group("g", "")], Account::None));
    assert_eq!((&next.phase, next.start_time.as_ref().map(|it| it.0)), (&InstallPlanPhase::Installing, Some(at(0))));
    plan.status = Some(next);
    assert_eq!(decided(&plan, &[group("g", "")], Account::None), Decision::CarryOut);
}

#[test]
fn step_that_waits_for_its_definition_is_looked_at_when_the_server_has_judged_it() {
    for (steps, expected) in [
        (&["Created", "WaitingForApi"][..], Decision::CarryOut),
        (&["WaitingForApi", "Created"], Decision::Nothing),
        (&["WaitingForApi", "NotPresent"], Decision::CarryOut),
        (&["Present", "Created", "NotCreated"], Decision::CarryOut),
    ] {
        assert_eq!(decided(&plan("Installing", true, steps), &[group("g", "")], Account::None), expected, "{steps:?}");
    }
}

#[test]
fn group_is_checked_before_anything_runs_and_what_it_lacks_is_told_until_it_is_repaired() {
    let prefix = "attenuated service account query failed";
    let both = [group("g", ""), group("h", "")];
    let accounted = [group("g", "robot")];
    for phase in ["RequiresApproval", "Installing"] {
        let plan = plan(phase, true, &["Unknown"]);
        for (groups, account, text) in [
            (
                &both[..],
                Account::None,
                format!("{prefix} - more than one operator group(s) are managing this namespace count=2"),
            ),
            (&[], Account::None, format!("{prefix} - no operator group found that is managing this namespace")),
            (
                &accounted,
                Account::Missing,
                format!("{prefix} - please make sure the service account exists. sa=robot operatorgroup=shop/g"),
            ),
        ] {
            let next = written(decided(&plan, groups, account));
            assert_eq!((&next.phase, next.start_time.as_ref()), (&status(&plan).phase, None));
            assert_eq!(next.message, text);
            assert_eq!(installed(&next), Some(("False", "InstallCheckFailed", text.as_str())));
            // It is told once.
            let told = InstallPlan { status: Some(next), ..plan.clone() };
            assert_eq!(decided(&told, groups, account), Decision::Nothing);
            let repaired = written(decided(&told, &[group("g", "")], Account::None));
            assert_eq!((installed(&repaired), repaired.message.as_str()), (None, ""));
            assert_eq!(repaired.phase, InstallPlanPhase::Installing);
        }
        assert_eq!(decided(&plan, &accounted, Account::NotKnownYet), Decision::Nothing);
        let scoped = written(decided(&plan, &accounted, Account::Exists));
        let by = scoped.attenuated_service_account_ref.as_ref().unwrap();
        assert_eq!((by.namespace.as_deref(), by.name.as_deref()), (Some("shop"), Some("robot")));
        assert_eq!(scoped.phase, InstallPlanPhase::Installing);
        let told = InstallPlan { status: Some(scoped), ..plan.clone() };
        assert_eq!(decided(&told, &accounted, Account::Exists), Decision::CarryOut);
        // Once the group names none, they are carried out with the rights of the cluster.
        let free = written(decided(&told, &[group("g", "")], Account::None));
        assert_eq!(free.attenuated_service_account_ref, None);
    }
}

fn trouble(text: &str, is_forbidden: bool) -> Outcome {
    Outcome { steps: vec![(0, StepStatus::Created)], trouble: Some(Trouble { text: text.to_owned(), is_forbidden }) }
}

#[test]
fn step_that_fails_is_tried_again_for_a_minute_and_one_that_is_forbidden_for_ever() {
    let plan = plan("Installing", true, &["Unknown", "Unknown"]);
    let (first, again) = after(status(&plan), trouble("no", false), MINUTE, at(0));
    assert_eq!((first.message.as_str(), again), ("retrying execution due to error: no", true));
    assert_eq!((&first.phase, installed(&first)), (&InstallPlanPhase::Installing, None));
    assert_eq!(first.plan.first().unwrap().status, StepStatus::Created);
    // The same trouble again writes nothing.
    assert_eq!(after(&first, trouble("no", false), MINUTE, at(59)), (first.clone(), true));
    let (last, again) = after(&first, trouble("no", false), MINUTE, at(60));
    assert_eq!((&last.phase, last.message.as_str(), again), (&InstallPlanPhase::Failed, "no", false));
    assert_eq!(installed(&last), Some(("False", "InstallComponentFailed", "no")));
    let (forbidden, again) = after(&first, trouble("no", true), MINUTE, at(86_400));
    assert_eq!((&forbidden.phase, again), (&InstallPlanPhase::Installing, true));
}

#[test]
fn plan_is_complete_when_all_of_its_steps_are_final() {
    let plan = plan("Installing", true, &["Present", "Unknown", "Unknown"]);
    let some = vec![(1, StepStatus::Created), (2, StepStatus::WaitingForApi), (9, StepStatus::Created)];
    let (waiting, again) = after(status(&plan), Outcome { steps: some, trouble: None }, MINUTE, at(0));
    assert_eq!((&waiting.phase, again, installed(&waiting)), (&InstallPlanPhase::Installing, false, None));
    let rest = Outcome { steps: vec![(2, StepStatus::Created)], trouble: None };
    let told = InstallPlanStatus { message: "retrying execution due to error: no".to_owned(), ..waiting };
    let (complete, again) = after(&told, rest, MINUTE, at(1));
    assert_eq!((&complete.phase, again, complete.message.as_str()), (&InstallPlanPhase::Complete, false, ""));
    assert_eq!(installed(&complete), Some(("True", "", "")));
    assert_eq!(complete.start_time.unwrap().0, at(0));
}

#[test]
fn newest_five_plans_are_kept_and_none_that_has_not_ended_is_deleted() {
    let known = |generation: i64, phase: InstallPlanPhase| Known {
        name: format!("p{generation}"),
        uid: String::new(),
        resource_version: String::new(),
        generation,
        phase,
        owners: BTreeSet::new(),
    };
    let mut plans: Vec<Known> = (1..=13).rev().map(|it| known(it, InstallPlanPhase::Complete)).collect();
    let names = |plans: &[Known]| surplus(plans).iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&plans), ["p1", "p2", "p3", "p4", "p5"]);
    for plan in &mut plans {
        match plan.generation {
            1 => plan.phase = InstallPlanPhase::RequiresApproval,
            2 => plan.phase = InstallPlanPhase::Installing,
            3 => plan.phase = InstallPlanPhase::None,
            4 => plan.phase = InstallPlanPhase::Failed,
            _ => {}
        }
    }
    assert_eq!(names(&plans), ["p4", "p5", "p6", "p7", "p8"]);
    plans.retain(|plan| plan.generation > 8);
    assert_eq!(names(&plans), [""; 0]);
}

#[test]
fn newest_five_plans_of_each_subscription_are_kept() {
    let known = |generation: i64, owners: &[&str]| Known {
        name: format!("p{generation}"),
        uid: String::new(),
        resource_version: String::new(),
        generation,
        phase: InstallPlanPhase::Complete,
        owners: owners.iter().map(|it| it.to_string()).collect(),
    };
    let names = |plans: &[Known]| surplus(plans).iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    // Those of an operator that changes often do not push out that of one that seldom does.
    let mut plans: Vec<Known> = (2..=8).map(|it| known(it, &["often"])).collect();
    plans.push(known(1, &["seldom"]));
    assert_eq!(names(&plans), ["p2", "p3"]);
    // What was made for both is kept for the one that needs it.
    plans.push(known(0, &["often", "seldom"]));
    assert_eq!(names(&plans), ["p2", "p3"]);
    plans.extend((9..=13).map(|it| known(it, &["seldom"])));
    assert_eq!(names(&plans), ["p0", "p1", "p2", "p3"]);
    // Nor do those that somebody has written.
    plans = (2..=8).map(|it| known(it, &[])).collect();
    plans.push(known(1, &["seldom"]));
    assert_eq!(names(&plans), ["p2", "p3"]);
}
