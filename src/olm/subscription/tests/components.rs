//! Plans of a namespace whose group asks for one of each operator.

use super::*;

fn per_operator(packages: &[&str]) -> Case {
    let group = Group { per_operator: true, ..Group::default() };
    Case { groups: vec![Arc::new(group)], ..Case::of(packages) }
}

/// Of each plan that is made: its generation, whether it waits, what it installs and whose it is.
fn made(case: &Case) -> Vec<(i64, bool, String, Vec<String>)> {
    let owner = |it: &Arc<Subscription>| it.metadata.name.clone().unwrap();
    let of = |new: &NewPlan| {
        let csvs = new.csvs().collect::<Vec<_>>().join(" ");
        (new.generation, !new.approved, csvs, new.owners.iter().map(owner).collect())
    };
    case.decide().create.iter().map(of).collect()
}

fn superseded(case: &Case) -> Vec<String> {
    case.decide().superseded.iter().map(|plan| plan.name.clone()).collect()
}

#[test]
fn operators_that_share_nothing_have_plans_of_their_own() {
    let both = made(&per_operator(&["a", "b"]));
    let of = |name: &str| vec![format!("sub-{name}")];
    assert_eq!(both, [(1, false, "a.v2".to_owned(), of("a")), (2, false, "b.v1 c.v1".to_owned(), of("b"))]);
    // What one depends on belongs to its plan, whoever has subscribed to that.
    let shared = made(&per_operator(&["b", "c"]));
    assert_eq!(shared, [(1, false, "b.v1 c.v1".to_owned(), vec!["sub-b".to_owned(), "sub-c".to_owned()])]);
    let together = made(&Case::of(&["a", "b"]));
    assert_eq!(together.iter().map(|it| it.2.as_str()).collect::<Vec<_>>(), ["a.v2 b.v1 c.v1"]);
}

#[test]
fn group_asks_for_that_by_an_annotation() {
    for (value, expected) in [("per-operator", true), ("together", false), ("", false)] {
        let object =
            json!({"metadata": {"name": "g", "annotations": {"olm.operatorframework.io/plans": value}}, "spec": {}});
        assert_eq!(Group::of(&serde_json::from_value(object).unwrap()).per_operator, expected, "{value}");
    }
}

#[test]
fn subscription_that_asks_for_an_approval_holds_its_own_operator_alone() {
    let manual = |case: Case| case.change(0, |it| it.spec.install_plan_approval = Some(Approval::Manual));
    let waits: Vec<(String, bool)> =
        made(&manual(per_operator(&["a", "b"]))).into_iter().map(|it| (it.2, it.1)).collect();
    assert_eq!(waits, [("a.v2".to_owned(), true), ("b.v1 c.v1".to_owned(), false)]);
    assert_eq!(made(&manual(Case::of(&["a", "b"]))).iter().map(|it| it.1).collect::<Vec<_>>(), [true]);
    // The one that waits is there, and the other goes on, also while its plan is carried out.
    let waiting = manual(per_operator(&["a", "b"])).with_plan(plan(4, "a.v2", InstallPlanPhase::RequiresApproval));
    assert_eq!(made(&waiting).into_iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [(5, "b.v1 c.v1".to_owned())]);
    let running = waiting.with_plan(plan(5, "b.v1", InstallPlanPhase::Installing));
    assert_eq!((made(&running), superseded(&running)), (vec![], vec![]));
    let next = Case { plans: running.plans[1..].to_vec(), ..running };
    assert_eq!(made(&next).into_iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [(6, "a.v2".to_owned())]);
    // Elsewhere nothing is looked for while a plan is carried out.
    let all = Case::of(&["a", "b"]).with_plan(plan(5, "b.v1", InstallPlanPhase::Installing));
    assert_eq!(all.facts().gate(), Gate::Waiting);
    // Nor here, while one is carried out of which it is not known whose it is.
    let foreign = Plan { owners: BTreeSet::new(), ..plan(5, "b.v1", InstallPlanPhase::Installing) };
    assert_eq!(per_operator(&["a"]).with_plan(foreign).facts().gate(), Gate::Waiting);
}

#[test]
fn newer_answer_supersedes_the_plan_of_its_own_operator() {
    let waits = |csv: &str| Plan { approved: false, ..plan(3, csv, InstallPlanPhase::RequiresApproval) };
    let case = per_operator(&["a", "b"]).with_plan(waits("a.v1"));
    assert_eq!(superseded(&case), ["install-3"]);
    assert_eq!(made(&case).into_iter().map(|it| it.2).collect::<Vec<_>>(), ["b.v1 c.v1"]);
    // So does the first plan of each operator that of all of them, when the group begins to ask for it.
    let of_all = Plan {
        csvs: ["a.v2", "b.v1", "c.v1"].map(ToOwned::to_owned).into(),
        owners: ["uid-a", "uid-b"].map(ToOwned::to_owned).into(),
        ..waits("a.v2")
    };
    let case = per_operator(&["a", "b"]).with_plan(of_all);
    let twice: BTreeSet<String> = superseded(&case).into_iter().collect();
    assert_eq!((twice.into_iter().collect::<Vec<_>>(), made(&case)), (vec!["install-3".to_owned()], vec![]));
}

#[test]
fn plan_that_failed_holds_its_own_operator_alone() {
    let case = per_operator(&["a", "b"]).with_plan(plan(3, "a.v2", InstallPlanPhase::Failed));
    assert_eq!(made(&case).into_iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [(4, "b.v1 c.v1".to_owned())]);
    // It counts as the newest of its operator, although another one has a newer plan.
    let later = case.with_plan(plan(4, "b.v1", InstallPlanPhase::Complete)).with_csv(csv("b.v1", Phase::Succeeded));
    assert!(made(&later).iter().all(|it| !it.2.contains("a.v2")), "{:?}", made(&later));
}
