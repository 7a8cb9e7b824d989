//! Plans that somebody has written.

use super::*;

/// Names these ClusterServiceVersions.
fn written(names: &[&str]) -> Plan {
    Plan {
        name: "install-abcde".to_owned(),
        resource_version: "7".to_owned(),
        csvs: names.iter().map(|it| it.to_string()).collect(),
        is_empty: true,
        ..Plan::default()
    }
}

fn namespace(plan: Plan) -> Case {
    Case::of(&[]).with_plan(plan)
}

fn decided(case: &Case) -> ByHand {
    decided_after(case, None)
}

/// After the API server has refused the steps.
fn decided_after(case: &Case, refused: Option<&str>) -> ByHand {
    let facts = Facts { refused, ..case.facts() };
    let plan = facts.by_hand().next().expect("a plan");
    let gate = facts.gate_by_hand(plan);
    let found = match &gate {
        Gate::Open(inputs) => Some(inputs.answer(&ClusterVersions::default(), &Limits::default())),
        Gate::Closed(_) | Gate::Waiting => None,
    };
    facts.decide_by_hand(plan, &gate, found.as_ref(), &|_| case.unpacked.clone())
}

fn resolved(case: &Case) -> Vec<(String, String)> {
    let new = decided(case).resolve.expect("it is resolved");
    new.bundles.iter().map(|(it, _)| (it.name.clone(), it.replaces.clone())).collect()
}

fn refused(case: &Case) -> String {
    let decided = decided(case);
    assert!(decided.resolve.is_none());
    decided.refuse.expect("it is told")
}

fn pair(name: &str, replaces: &str) -> (String, String) {
    (name.to_owned(), replaces.to_owned())
}

#[test]
fn versions_that_a_plan_names_are_installed_with_what_they_depend_on() {
    assert_eq!(resolved(&namespace(written(&["a.v1"]))), [pair("a.v1", "")], "not the head of its channel");
    assert_eq!(resolved(&namespace(written(&["b.v1"]))), [pair("b.v1", ""), pair("c.v1", "")]);
    assert_eq!(resolved(&namespace(written(&["c.v1", "b.v1"]))), [pair("b.v1", ""), pair("c.v1", "")]);
    // What is there is not installed again; what is named is, so that the plan has its steps.
    let there = namespace(written(&["b.v1"])).with_csv(csv("b.v1", Phase::Succeeded));
    assert_eq!(resolved(&there), [pair("b.v1", ""), pair("c.v1", "")]);
}

#[test]
fn version_takes_the_place_of_the_one_that_is_installed_or_is_refused() {
    let with = |installed: &str| namespace(written(&["a.v2"])).with_csv(csv(installed, Phase::Succeeded));
    assert_eq!(resolved(&with("a.v1")), [pair("a.v2", "a.v1")]);
    let cause = refused(&with("a.v7"));
    assert!(cause.starts_with("a.v7 of package a is installed, and a.v2 does not take its place"), "{cause}");
}

#[test]
fn name_that_no_catalog_has_is_told_once_until_one_has_it() {
    let case = namespace(written(&["a.v9", "b.v1", "z.v1"]));
    let cause = refused(&case);
    assert!(
        cause.contains("has the ClusterServiceVersion a.v9, z.v1: correct spec.clusterServiceVersionNames"),
        "{cause}"
    );
    let told = namespace(Plan { unresolved: Some(cause), ..written(&["a.v9", "b.v1", "z.v1"]) });
    assert!(decided(&told).refuse.is_none());
    let depends = refused(&namespace(written(&["d.v1"])));
    assert!(depends.starts_with("constraints not satisfiable:") && depends.contains("z"), "{depends}");
    let names: Vec<String> = (0..101).map(|at| format!("a.v{at}")).collect();
    let many = refused(&namespace(written(&names.iter().map(String::as_str).collect::<Vec<_>>())));
    assert!(many.contains("has 101 names, and 100 are the most"), "{many}");
    let without = Case { catalogs: BTreeMap::new(), ..namespace(written(&["a.v1"])) };
    assert!(refused(&without).starts_with("no catalog is visible in this namespace"), "{}", refused(&without));
}

#[test]
fn nothing_is_written_before_catalogs_and_bundles_are_read() {
    let pending = Case { unpacked: Unpacked::Pending("soon".to_owned()), ..namespace(written(&["b.v1"])) };
    let waits = decided(&pending);
    assert!(waits.resolve.is_none() && waits.refuse.is_none());
    assert_eq!(waits.wanted.iter().map(|it| it.new.name.as_str()).collect::<Vec<_>>(), ["b.v1", "c.v1"]);
    let failed = Unpacked::Failed { cause: "no".to_owned(), of_content: false };
    assert_eq!(refused(&Case { unpacked: failed, ..namespace(written(&["a.v1"])) }), "no");
    let mut unknown = namespace(written(&["a.v1"]));
    unknown.catalogs.insert(id("ns", "other"), Visible::default());
    assert_eq!(unknown.facts().gate_by_hand(&unknown.plans[0]), Gate::Waiting);
}

#[test]
fn steps_that_are_not_taken_are_told_and_tried_again() {
    let refused = Some("the plan is too large");
    let first = decided_after(&namespace(written(&["a.v1"])), refused);
    assert_eq!((first.refuse.as_deref(), first.resolve.is_none()), (refused, true));
    let told = Plan { unresolved: refused.map(ToOwned::to_owned), ..written(&["a.v1"]) };
    let next = decided_after(&namespace(told), refused);
    assert_eq!((next.refuse, next.resolve.is_some()), (None, true));
    // What has to be read first is told first.
    let pending = Case { unpacked: Unpacked::Pending("soon".to_owned()), ..namespace(written(&["a.v1"])) };
    assert_eq!(decided_after(&pending, refused).refuse, None);
}

#[test]
fn steps_wait_for_an_approval_and_nobody_has_subscribed() {
    for (approved, phase) in [(false, InstallPlanPhase::RequiresApproval), (true, InstallPlanPhase::Installing)] {
        let new = decided(&namespace(Plan { approved, ..written(&["b.v1"]) })).resolve.unwrap();
        assert_eq!((new.name().as_str(), new.by_hand.as_deref()), ("install-abcde", Some("7")));
        let (_, status) = new.object(&BTreeMap::new()).unwrap();
        assert_eq!(status.phase, phase);
        assert!(status.plan.iter().all(|step| step.resource.kind != "Subscription"), "{:?}", status.plan);
    }
}

#[test]
fn plan_is_of_somebody_if_nobody_owns_it_and_nothing_was_found_for_it() {
    let is_by_hand = |plan: Plan| namespace(plan).facts().by_hand().count() == 1;
    assert!(is_by_hand(written(&["a.v1"])));
    assert!(is_by_hand(Plan { phase: InstallPlanPhase::Planning, ..written(&["a.v1"]) }), "as older ones say");
    assert!(!is_by_hand(written(&[])));
    assert!(!is_by_hand(Plan { owners: ["uid-a".to_owned()].into(), ..written(&["a.v1"]) }));
    assert!(!is_by_hand(Plan { is_empty: false, ..written(&["a.v1"]) }));
    for phase in [InstallPlanPhase::RequiresApproval, InstallPlanPhase::Complete, InstallPlanPhase::Failed] {
        assert!(!is_by_hand(Plan { phase: phase.clone(), ..written(&["a.v1"]) }), "{phase:?}");
    }
}
