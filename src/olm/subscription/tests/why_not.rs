//! Why a version is not what a Subscription gets.

use super::*;
use crate::olm::subscription::why_not::WhyNot;

/// `p.v1` to `p.v4` follow each other in channel `stable`, and `p.v4` skips `p.v33`. `q.v2` requires what nobody provides.
fn offered() -> Visible {
    let bundle = |name: &str, more: Vec<Value>| {
        let (package, version) = name.split_once(".v").unwrap();
        let identity =
            json!({"type": "olm.package", "value": {"packageName": package, "version": format!("{version}.0.0")}});
        let properties: Vec<Value> = std::iter::once(identity).chain(more).collect();
        json!({"schema": "olm.bundle", "name": name, "package": package, "properties": properties, "image": "quay.io/test/x"})
    };
    let package = |name: &str| json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"});
    let channel = |package: &str, name: &str, entries: Value| json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries});
    let mut blobs = vec![
        package("p"),
        channel(
            "p",
            "stable",
            json!([{"name": "p.v1"}, {"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v3", "replaces": "p.v2"},
            {"name": "p.v4", "replaces": "p.v3", "skips": ["p.v33"]}, {"name": "p.v33", "replaces": "p.v2"}]),
        ),
        channel("p", "fast", json!([{"name": "p.v5"}])),
        package("q"),
        channel("q", "stable", json!([{"name": "q.v1"}, {"name": "q.v2", "replaces": "q.v1"}])),
        bundle("q.v1", vec![]),
        bundle(
            "q.v2",
            vec![json!({"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "Missing"}})],
        ),
    ];
    blobs.extend(["1", "2", "3", "33", "4", "5"].map(|version| bundle(&format!("p.v{version}"), vec![])));
    let content = Some(Arc::new(content(&blobs).0));
    Visible { uid: "c".to_owned(), health: Some(Ok(())), content, ..Visible::default() }
}

fn namespace(package: &str, installed: &str) -> Case {
    let mut case = Case::of(&[package]);
    case.catalogs.insert(id("ns", "main"), offered());
    match installed {
        "" => case,
        name => case.with_plan(plan(1, name, InstallPlanPhase::Complete)).with_csv(csv(name, Phase::Succeeded)),
    }
}

fn why_not(case: &Case, csv: &str) -> WhyNot {
    let name = case.subscriptions[0].metadata.name.clone().unwrap();
    hypothesis(case).why_not(&name, csv, &ClusterVersions::default(), &Limits::default()).unwrap()
}

fn told(case: &Case, csv: &str) -> String {
    let WhyNot { is_coming, lines, ways } = why_not(case, csv);
    let ways = ways.into_iter().map(|way| format!("- {way}"));
    let word = if is_coming { "comes" } else { "does not come" };
    std::iter::once(word.to_owned()).chain(lines).chain(ways).collect::<Vec<_>>().join("\n")
}

#[test]
fn version_that_the_subscription_does_not_follow_is_told_with_what_to_change() {
    let installed = namespace("p", "p.v2");
    insta::assert_snapshot!(told(&installed, "p.v5"), @r"
    does not come
    Subscription sub-p follows channel stable, and p.v5 is only in fast.
    - set spec.channel of Subscription sub-p to fast
    ");
    insta::assert_snapshot!(told(&installed, "p.v9"), @r"
    does not come
    Package p of catalog ns/main has no p.v9: it has p.v1, p.v2, p.v3, p.v33, p.v4, p.v5.
    - name one of these, or wait until the catalog has it
    ");
    insta::assert_snapshot!(told(&installed, "p.v33"), @r"
    does not come
    p.v33 is skipped by p.v4 in channel stable: nobody is led to a version that another one skips.
    - delete Subscription sub-p and ClusterServiceVersion p.v2, and subscribe with spec.startingCSV p.v33 and installPlanApproval Manual; whether the objects of the operator fit the other version is for its author to say
    ");
    insta::assert_snapshot!(told(&installed, "p.v1"), @r"
    does not come
    p.v2 is installed, which follows p.v1: no update leads back.
    - delete Subscription sub-p and ClusterServiceVersion p.v2, and subscribe with spec.startingCSV p.v1 and installPlanApproval Manual; whether the objects of the operator fit the other version is for its author to say
    ");
    let other = namespace("p", "").change(0, |it| it.spec.name = "z".to_owned());
    insta::assert_snapshot!(told(&other, "z.v1"), @r"
    does not come
    Catalog ns/main has no package z.
    - correct spec.name or spec.source of Subscription sub-p
    ");
}

#[test]
fn version_that_comes_by_itself_is_told_with_its_round() {
    let installed = namespace("p", "p.v2");
    insta::assert_snapshot!(told(&installed, "p.v2"), @r"
    comes
    p.v2 is installed for Subscription sub-p.
    ");
    insta::assert_snapshot!(told(&installed, "p.v3"), @r"
    comes
    p.v3 is what Subscription sub-p gets next.
    ");
    insta::assert_snapshot!(told(&installed, "p.v4"), @r"
    comes
    p.v4 comes in round 2, each of which begins once the version before is ready: p.v3, p.v4.
    ");
    let pinned = namespace("p", "").change(0, |it| it.spec.starting_csv = "p.v2".to_owned());
    insta::assert_snapshot!(told(&pinned, "p.v4"), @r"
    comes
    p.v4 comes in round 3, each of which begins once the version before is ready: p.v2, p.v3, p.v4.
    ");
    insta::assert_snapshot!(told(&pinned, "p.v1"), @r"
    does not come
    Subscription sub-p begins with p.v2, which p.v1 does not follow.
    - delete Subscription sub-p, and subscribe with spec.startingCSV p.v1
    ");
}

#[test]
fn version_that_is_not_the_head_is_passed_over_by_a_new_subscription() {
    insta::assert_snapshot!(told(&namespace("p", ""), "p.v2"), @r"
    does not come
    p.v2 could be, and p.v4 is preferred to it: of all that may follow, the nearest to the head of the channel is taken.
    - delete Subscription sub-p, and subscribe with spec.startingCSV p.v2
    ");
}

#[test]
fn version_that_cannot_be_with_others_is_told_with_the_chain() {
    insta::assert_snapshot!(told(&namespace("q", "q.v1"), "q.v2"), @r"
    does not come
    q.v2 cannot be together with what else is wanted or installed:
    1. Subscription sub-q asks for package q, channel stable of catalog ns/main. q.v1 is installed for it.
    2. For it there is q.v2 (channel stable of main).
    3. q.v2 requires an operator providing an API with group: g, version: v1, kind: Missing; no catalog offers one: looked at ns/main.
    What would help, one of:
    - a catalog that offers an operator providing an API with group: g, version: v1, kind: Missing
    - change or delete Subscription sub-q
    ");
}

#[test]
fn version_that_somebody_holds_is_told_with_who_and_how_to_go_on() {
    let manual = namespace("p", "p.v2").change(0, |it| it.spec.install_plan_approval = Some(Approval::Manual));
    insta::assert_snapshot!(told(&manual, "p.v3"), @r"
    does not come
    p.v3 is what Subscription sub-p gets next. Somebody has to approve each InstallPlan, because Subscription sub-p says so.
    - approve the plan once it is there: cvo olm list -n ns
    ");
    assert!(told(&manual, "p.v4").contains("approve each InstallPlan"));
    let waiting = namespace("p", "p.v2").with_plan(plan(2, "p.v3", InstallPlanPhase::RequiresApproval));
    insta::assert_snapshot!(told(&waiting, "p.v3"), @r"
    does not come
    InstallPlan install-2 has p.v3, and waits for an approval.
    - approve it: cvo olm approve install-2 -n ns
    ");
    let installing = namespace("p", "p.v2");
    let not_ready = Case { csvs: vec![Arc::new(csv("p.v2", Phase::Installing))], ..installing };
    insta::assert_snapshot!(told(&not_ready, "p.v3"), @r"
    does not come
    p.v3 follows p.v2, which is not ready yet: nothing follows it before that.
    - see what ClusterServiceVersion p.v2 waits for
    ");
    let without_group = Case { groups: Vec::new(), ..namespace("p", "p.v2") };
    insta::assert_snapshot!(told(&without_group, "p.v3"), @r"
    does not come
    Nothing is looked for: found 0 operatorGroups, expected 1.
    - repair that: nothing else counts before
    ");
}

#[test]
fn subscription_that_does_not_exist_has_no_answer() {
    let case = namespace("p", "");
    let found = hypothesis(&case).why_not("x", "p.v1", &ClusterVersions::default(), &Limits::default());
    assert_eq!(found, None);
}
