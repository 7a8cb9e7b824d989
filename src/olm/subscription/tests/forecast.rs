//! What would be installed if the namespace were otherwise.

use super::*;
use crate::olm::resolve::answer::Outcome;
use crate::olm::subscription::forecast::{Hypothesis, Round};

fn hypothesis(case: &Case) -> Hypothesis {
    Hypothesis {
        namespace: "ns".to_owned(),
        global: "global".to_owned(),
        subscriptions: case.subscriptions.clone(),
        csvs: case.csvs.clone(),
        groups: case.groups.clone(),
        plans: case.plans.clone(),
        catalogs: case.catalogs.clone(),
    }
}

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
