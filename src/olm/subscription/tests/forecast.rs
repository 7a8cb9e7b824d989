//! What would be installed if the namespace were otherwise.

use super::*;
use crate::olm::subscription::forecast::{PlannedPlan, Round};

fn rounds(hypothesis: Hypothesis) -> Vec<Round> {
    hypothesis.rounds(&ClusterVersions::default(), &Limits::default(), 10)
}

fn names(round: &Round) -> Vec<&str> {
    round.installs().iter().map(|new| new.name.as_str()).collect()
}

#[test]
fn rounds_go_on_until_the_head_is_reached_one_version_at_a_time() {
    let pinned = Case::of(&["a"]).change(0, |it| it.spec.starting_csv = "a.v1".to_owned());
    let found = rounds(hypothesis(&pinned));
    assert_eq!(found.iter().map(names).collect::<Vec<_>>(), [["a.v1"], ["a.v2"]]);
    assert_eq!(found[1].installs()[0].replaces, "a.v1");
    let installed =
        Case::of(&["a"]).with_plan(plan(1, "a.v2", InstallPlanPhase::Complete)).with_csv(csv("a.v2", Phase::Succeeded));
    let found = rounds(hypothesis(&installed));
    assert_eq!((found.len(), names(&found[0]).len(), &found[0].held), (1, 0, &None));
}

#[test]
fn package_that_nobody_has_subscribed_to_can_be_tried() {
    let mut tried = hypothesis(&Case::of(&["a"]));
    tried.subscribe(&id("ns", "main"), "b", "");
    let found = rounds(tried);
    assert_eq!(names(&found[0]), ["a.v2", "b.v1", "c.v1"]);
    assert_eq!(found.len(), 1, "what only others depend on has a Subscription of its own");
    let reasons = |name: &str| found[0].installs().iter().find(|new| new.name == name).unwrap().reasons.clone();
    assert_eq!(reasons("b.v1"), ["subscription b asks for it"]);
    assert_eq!(
        reasons("c.v1"),
        ["bundle b.v1 requires an operator providing an API with group: g, version: v1, kind: K"]
    );
}

#[test]
fn subscription_that_is_in_the_way_can_be_left_out() {
    let mut tried = hypothesis(&Case::of(&["a", "d"]));
    assert!(rounds(tried.clone())[0].answer.parts.iter().any(|part| matches!(part.outcome, Outcome::Impossible(_))));
    assert!(tried.remove("sub-d") && !tried.remove("sub-d"));
    let found = rounds(tried);
    assert!(found[0].answer.parts.iter().all(|part| matches!(part.outcome, Outcome::Install(_))));
}

#[test]
fn what_holds_the_namespace_is_said() {
    let held = |case: &Case| rounds(hypothesis(case))[0].held.clone().unwrap_or_default();
    let running = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::Installing));
    assert_eq!(held(&running), "InstallPlan install-1 is being carried out");
    assert_eq!(held(&Case { groups: Vec::new(), ..Case::of(&["a"]) }), "found 0 operatorGroups, expected 1");
    assert!(held(&Case::of(&["a"]).catalog("ns", "main", Err("no route"))).contains("no route"));
    let manual = Case::of(&["a"]).change(0, |it| it.spec.install_plan_approval = Some(Approval::Manual));
    assert_eq!(rounds(hypothesis(&manual))[0].manual, ["sub-a"]);
}

#[test]
fn plan_of_a_round_is_the_one_that_the_controller_would_make() {
    let planned = |case: &Case, found: bool| {
        let hypothesis = hypothesis(case);
        let round = hypothesis.round(&ClusterVersions::default(), &Limits::default());
        let done = Unpacked::Done(bundle("a.v2"));
        hypothesis.planned(&round, &|_| if found { done.clone() } else { Unpacked::Pending(String::new()) })
    };
    let fetched = planned(&Case::of(&["a"]), false);
    assert_eq!(fetched.wanted.iter().map(|new| new.name.as_str()).collect::<Vec<_>>(), ["a.v2"]);
    let [PlannedPlan::New(new)] = &planned(&Case::of(&["a"]), true).plans[..] else { panic!("a plan") };
    assert_eq!((new.csvs().collect::<Vec<_>>(), new.generation), (vec!["a.v2"], 1));
    let open = Plan { is_empty: false, ..plan(1, "a.v2", InstallPlanPhase::RequiresApproval) };
    let [PlannedPlan::Exists(name)] = &planned(&Case::of(&["a"]).with_plan(open), true).plans[..] else {
        panic!("one exists")
    };
    assert_eq!(name, "install-1");
    let other = Plan { is_empty: false, ..plan(1, "a.v1", InstallPlanPhase::RequiresApproval) };
    assert_eq!(planned(&Case::of(&["a"]).with_plan(other), true).superseded, ["install-1"]);
    let failure = Some(("InstallComponentFailed".to_owned(), "no room".to_owned()));
    let failed = Plan { failure, ..plan(1, "a.v2", InstallPlanPhase::Failed) };
    let [PlannedPlan::Held(cause)] = &planned(&Case::of(&["a"]).with_plan(failed), true).plans[..] else {
        panic!("held")
    };
    assert!(cause.contains("install-1") && cause.contains("no room"), "{cause}");
    let done =
        Case::of(&["a"]).with_plan(plan(1, "a.v2", InstallPlanPhase::Complete)).with_csv(csv("a.v2", Phase::Succeeded));
    assert!(planned(&done, true).plans.is_empty());
    // Each operator has its own plan: one exists, and the other one is new.
    let open = Plan { is_empty: false, ..plan(1, "a.v2", InstallPlanPhase::RequiresApproval) };
    let mut both = Case::of(&["a", "c"]).with_plan(open);
    both.groups = vec![Arc::new(Group { per_operator: true, ..Group::default() })];
    let plans = planned(&both, true).plans;
    let [PlannedPlan::New(new), PlannedPlan::Exists(name)] = &plans[..] else { panic!("{plans:?}") };
    assert_eq!((new.csvs().collect::<Vec<_>>(), name.as_str()), (vec!["c.v1"], "install-1"));
}
