mod read;

use super::kinds::{Lists, What};
use super::objects::Objects;
use super::text;
use super::view::View;
use crate::cli::layout::Page;
use jiff::Timestamp;
use serde_json::{Value, json};

const BEGIN: &str = "2026-01-01T00:00:00Z";

fn lists(all: [Result<Vec<Value>, String>; 5]) -> Lists {
    What::OF_OPERATORS.into_iter().zip(all).collect()
}

/// The kinds of a namespace `shop`.
#[derive(Clone, Debug, Default)]
struct Shop {
    subscriptions: Vec<Value>,
    plans: Vec<Value>,
    versions: Vec<Value>,
    deployments: Vec<Value>,
    conditions: Vec<Value>,
}

fn now() -> Timestamp {
    "2026-01-01T00:05:00Z".parse().unwrap()
}

/// Of a Subscription to widgets.
fn subscription(installed: &str, current: &str, conditions: &Value) -> Value {
    json!({"kind": "Subscription", "metadata": {"namespace": "shop", "name": "widgets", "uid": "s"},
        "spec": {"name": "widgets", "channel": "stable", "source": "main", "sourceNamespace": "market"},
        "status": {"installedCSV": installed, "currentCSV": current, "lastUpdated": BEGIN,
            "installPlanRef": {"name": "install-abcde"}, "conditions": conditions}})
}

fn condition(type_: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": BEGIN})
}

fn version(name: &str, replaces: &str, phase: &str, reason: &str) -> Value {
    let deployments = json!([{"name": "widgets", "spec": {}}]);
    json!({"kind": "ClusterServiceVersion", "metadata": {"namespace": "shop", "name": name, "uid": name},
        "spec": {"replaces": replaces, "install": {"strategy": "deployment", "spec": {"deployments": deployments}}},
        "status": {"phase": phase, "reason": reason, "message": format!("as {phase} says"), "lastTransitionTime": BEGIN}})
}

fn deployment(owner: &str, ready: i64, conditions: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "widgets", "ownerReferences": [{"uid": owner}]},
        "spec": {"replicas": 2},
        "status": {"replicas": 2, "updatedReplicas": 2, "readyReplicas": ready, "conditions": conditions}})
}

fn available() -> Value {
    json!([{"type": "Available", "status": "True"}])
}

fn unavailable() -> Value {
    json!([{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "no\u{1b}[2Jpods"}])
}

fn plan(phase: &str, approved: bool, steps: &[(&str, &str)], message: &str) -> Value {
    let steps: Vec<Value> = steps
        .iter()
        .map(|(name, status)| json!({"resource": {"kind": "Role", "name": name}, "status": status}))
        .collect();
    json!({"kind": "InstallPlan", "metadata": {"namespace": "shop", "name": "install-abcde", "creationTimestamp": BEGIN,
            "annotations": {"olm.operatorframework.io/changes": "widgets: v1 to v2\nnew rights: get pods"}},
        "spec": {"approved": approved, "approval": "Manual", "clusterServiceVersionNames": ["widgets.v2"]},
        "status": {"phase": phase, "catalogSources": [], "plan": steps, "message": message}})
}

impl Shop {
    fn view(&self) -> View {
        View::of(&self.objects(), None)
    }

    pub(super) fn lists(&self) -> Lists {
        let Shop { subscriptions, plans, versions, deployments, conditions } = self.clone();
        lists([subscriptions, plans, versions, deployments, conditions].map(Ok))
    }

    pub(super) fn objects(&self) -> Objects {
        Objects::of(self.lists())
    }

    fn text(&self) -> String {
        text::text(&self.view(), &Page { width: usize::MAX, colours: false, now: now() })
    }

    /// The line, and whether something is wrong.
    fn to_do(&self) -> (String, bool) {
        let view = self.view();
        assert_eq!(view.rows.len(), 1, "{view:?}");
        (view.rows[0].what_to_do.clone(), view.needs_somebody())
    }
}

/// One version that runs.
fn installed() -> Shop {
    Shop {
        subscriptions: vec![subscription("widgets.v1", "widgets.v1", &json!([]))],
        versions: vec![version("widgets.v1", "", "Succeeded", "InstallSucceeded")],
        deployments: vec![deployment("widgets.v1", 2, &available())],
        ..Shop::default()
    }
}

#[test]
fn plan_that_waits_for_an_approval_says_what_it_changes_and_how_it_is_approved() {
    let mut shop = installed();
    shop.subscriptions = vec![subscription(
        "widgets.v1",
        "widgets.v2",
        &json!([condition("InstallPlanPending", "RequiresApproval", "")]),
    )];
    shop.plans = vec![plan("RequiresApproval", false, &[("a", "Unknown"), ("b", "Unknown")], "")];
    insta::assert_snapshot!(shop.text(), @"
    shop/widgets: package widgets, channel stable of market/main
      Installed: widgets.v1, Succeeded since 5m 0s.
        Deployment widgets: 2 of 2 replicas ready.
      To come: widgets.v2.
      InstallPlan install-abcde: RequiresApproval since 5m 0s; it waits for an approval of its 2 steps.
        widgets: v1 to v2
        new rights: get pods
      What to do: approve the InstallPlan: cvo olm approve install-abcde -n shop
    ");
    assert!(!shop.view().needs_somebody(), "nothing is wrong");
    shop.plans = vec![plan("RequiresApproval", true, &[("a", "Unknown")], "")];
    assert_eq!(shop.to_do(), ("wait: the InstallPlan is being carried out".to_owned(), false));
}

#[test]
fn version_that_waits_names_each_requirement_that_is_not_met() {
    let mut shop = Shop {
        subscriptions: vec![subscription("widgets.v1", "widgets.v1", &json!([]))],
        versions: vec![version("widgets.v1", "", "Pending", "RequirementsNotMet")],
        plans: vec![plan("Complete", true, &[("a", "Created")], "")],
        ..Shop::default()
    };
    shop.versions[0]["status"]["requirementStatus"] = json!([
        {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "name": "gears.example.com",
            "status": "NotPresent", "message": "CRD is not present"},
        {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "name": "widgets.example.com",
            "status": "Present", "message": "CRD is present"},
        {"group": "", "version": "v1", "kind": "ServiceAccount", "name": "widgets", "status": "PresentNotSatisfied",
            "message": "Policy rule not satisfied for service account", "dependents": [
                {"group": "", "version": "v1", "kind": "PolicyRule", "status": "Satisfied", "message": "has it"},
                {"group": "", "version": "v1", "kind": "PolicyRule", "status": "NotSatisfied", "message": "namespaced rule:{pods}"}]},
    ]);
    insta::assert_snapshot!(shop.text(), @"
    shop/widgets: package widgets, channel stable of market/main
      Nothing is installed.
      To come: widgets.v1, Pending (RequirementsNotMet) since 5m 0s: as Pending says
        Needs CustomResourceDefinition gears.example.com: NotPresent: CRD is not present
        Needs ServiceAccount widgets: PresentNotSatisfied: Policy rule not satisfied for service account
          namespaced rule:{pods}
      What to do: install what brings CustomResourceDefinition gears.example.com (and 1 more)
    ");
    assert!(shop.view().needs_somebody());
    // What is required comes with the plan.
    shop.plans = vec![plan("Installing", true, &[("a", "Created"), ("b", "Unknown")], "")];
    assert_eq!(shop.to_do(), ("wait: the InstallPlan is being carried out".to_owned(), false));
    shop.plans.clear();
    shop.versions[0]["status"]["requirementStatus"] = json!([shop.versions[0]["status"]["requirementStatus"][2]]);
    assert_eq!(shop.to_do().0, "give ServiceAccount shop/widgets the rights that it lacks");
}

#[test]
fn operator_that_holds_its_successor_is_named() {
    let mut shop = installed();
    shop.subscriptions = vec![subscription("widgets.v2", "widgets.v2", &json!([]))];
    shop.versions = vec![
        version("widgets.v1", "", "Replacing", "BeingReplaced"),
        version("widgets.v2", "widgets.v1", "Pending", "OperatorConditionNotUpgradeable"),
    ];
    let says = json!({"type": "Upgradeable", "status": "False", "reason": "Busy", "message": "it works", "lastTransitionTime": BEGIN,
        "observedGeneration": 1});
    shop.conditions = vec![
        json!({"kind": "OperatorCondition", "metadata": {"namespace": "shop", "name": "widgets.v1", "generation": 1},
        "spec": {"conditions": [says]}, "status": {"conditions": [says]}}),
    ];
    insta::assert_snapshot!(shop.text(), @"
    shop/widgets: package widgets, channel stable of market/main
      Installed: widgets.v1, Replacing (BeingReplaced) since 5m 0s: as Replacing says
        Deployment widgets: 2 of 2 replicas ready.
      To come: widgets.v2, Pending (OperatorConditionNotUpgradeable) since 5m 0s: as Pending says
        OperatorCondition widgets.v1 holds it: the operator is not upgradeable: it works
      What to do: wait until widgets.v1 says that it may be replaced, or override that: kubectl edit operatorcondition widgets.v1 -n shop
    ");
    assert!(!shop.view().needs_somebody());
    shop.conditions[0]["spec"]["overrides"] =
        json!([{"type": "Upgradeable", "status": "False", "reason": "", "message": "not now"}]);
    assert!(shop.to_do().0.starts_with("wait until its override lets widgets.v1 be replaced"), "{:?}", shop.to_do());
    // Who may not see it sees what the status of the next version says, and that there is more.
    let mut lists = shop.lists();
    lists.insert(What::Conditions, Err("forbidden".to_owned()));
    let view = View::of(&Objects::of(lists), None);
    assert_eq!(view.rows[0].hold.as_ref().unwrap().message, "as Pending says");
    assert_eq!(view.remarks, ["OperatorConditions are not shown: forbidden"]);
}

#[test]
fn deployment_says_what_is_in_its_way() {
    let mut shop = installed();
    shop.versions = vec![version("widgets.v1", "", "Installing", "InstallWaiting")];
    shop.deployments = vec![deployment("widgets.v1", 0, &unavailable())];
    let text = shop.text();
    let line = "    Deployment widgets: 0 of 2 replicas ready; ";
    assert!(text.contains(line) && text.contains("MinimumReplicasUnavailable: no [2Jpods"), "{text}");
    assert_eq!(shop.to_do(), ("wait: widgets.v1 is being installed".to_owned(), false));
    let mut conditions = unavailable();
    let refused =
        json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"});
    conditions.as_array_mut().unwrap().push(refused);
    shop.deployments = vec![deployment("widgets.v1", 0, &conditions)];
    assert!(shop.text().contains(&format!("{line}FailedCreate: exceeded quota\n")), "{}", shop.text());
    let (to_do, wrong) = shop.to_do();
    assert!(to_do.ends_with("kubectl describe deployment widgets -n shop") && wrong, "{to_do}");
    // It belongs to another version, and before it is time for one nothing is missing.
    shop.deployments = vec![deployment("widgets.v0", 2, &available())];
    assert!(shop.text().contains("Deployment widgets: missing; it is not there"), "{}", shop.text());
    shop.versions = vec![version("widgets.v1", "", "Pending", "RequirementsUnknown")];
    assert!(!shop.text().contains("Deployment"), "{}", shop.text());
}

#[test]
fn condition_of_a_subscription_says_what_to_mend() {
    let told = |type_: &str, reason: &str| json!([condition(type_, reason, "why")]);
    let mut shop = installed();
    assert_eq!(shop.to_do(), ("nothing".to_owned(), false));
    let mut of_conditions = |conditions: Value, health: Value| {
        shop.subscriptions = vec![subscription("widgets.v1", "widgets.v1", &conditions)];
        shop.subscriptions[0]["status"]["catalogHealth"] = health;
        shop.to_do()
    };
    let sick =
        json!([{"catalogSourceRef": {"namespace": "market", "name": "other"}, "lastUpdated": BEGIN, "healthy": false}]);
    for (conditions, health, expected) in [
        (
            told("CatalogSourcesUnhealthy", "UnhealthyCatalogSourceFound"),
            sick,
            "mend or remove the CatalogSource market/other: ",
        ),
        (
            told("CatalogSourcesUnhealthy", "NoCatalogSourcesFound"),
            json!([]),
            "create the CatalogSource market/main, or ",
        ),
        (
            told("ResolutionFailed", "ConstraintsNotSatisfiable"),
            json!([]),
            "change what stands against it: cvo olm why widgets -n shop",
        ),
        (
            told("ResolutionFailed", "ErrorPreventedResolution"),
            json!([]),
            "mend what the condition ResolutionFailed says",
        ),
        (told("BundleUnpackFailed", "BundleUnpackFailed"), json!([]), "mend what keeps the bundle from being read"),
        (
            told("BundleUnpackFailed", "EnsureInstallPlanFailed"),
            json!([]),
            "mend what keeps the InstallPlan from being made",
        ),
        (told("InstallPlanFailed", "InstallCheckFailed"), json!([]), "mend what the condition InstallPlanFailed says"),
    ] {
        let (to_do, wrong) = of_conditions(conditions, health);
        assert!(to_do.starts_with(expected) && wrong, "{to_do}");
    }
    let unpacking = of_conditions(told("BundleUnpacking", "UnpackingInProgress"), json!([]));
    assert_eq!(unpacking, ("wait: the bundle is being read".to_owned(), false));
    // A plan that was deleted after it was carried out is missed by nobody.
    let missing = of_conditions(told("InstallPlanMissing", "ReferencedInstallPlanNotFound"), json!([]));
    assert_eq!(missing, ("nothing".to_owned(), false));
}

#[test]
fn plan_and_version_that_fail_say_what_to_mend() {
    let mut shop = installed();
    for (plan, expected) in [
        (plan("Failed", true, &[], "no"), "mend what its message says, then delete the InstallPlan"),
        (
            plan("Installing", true, &[("a", "Unknown")], "retrying"),
            "mend what the message of InstallPlan install-abcde says",
        ),
    ] {
        shop.plans = vec![plan];
        assert!(shop.to_do().0.starts_with(expected) && shop.to_do().1, "{:?}", shop.to_do());
    }
    shop.plans.clear();
    for (reason, expected) in [
        ("NoOperatorGroup", "mend the OperatorGroup of namespace shop, as widgets.v1 says"),
        ("InstallComponentFailed", "mend what the message of widgets.v1 says: it is tried again by itself"),
    ] {
        shop.versions = vec![version("widgets.v1", "", "Failed", reason)];
        assert_eq!(shop.to_do(), (expected.to_owned(), true));
    }
    shop.versions = vec![version("widgets.v1", "", "", "")];
    assert!(shop.to_do().0.starts_with("wait: nobody has looked at widgets.v1 yet"), "{:?}", shop.to_do());
    shop.versions.clear();
    shop.subscriptions[0]["status"] = Value::Null;
    assert!(shop.to_do().0.starts_with("wait: nobody has looked at the Subscription yet"), "{:?}", shop.to_do());
}

#[test]
fn each_version_belongs_to_one_operator_and_copies_to_none() {
    let mut shop = installed();
    let mut copy = version("gears.v1", "", "Succeeded", "Copied");
    copy["metadata"]["labels"] = json!({"olm.copiedFrom": "elsewhere"});
    shop.versions.extend([
        copy,
        version("hands.v1", "", "Replacing", "BeingReplaced"),
        version("hands.v2", "hands.v1", "Installing", "InstallWaiting"),
        // In a circle none is the last one.
        version("round.v1", "round.v2", "Replacing", "BeingReplaced"),
        version("round.v2", "round.v1", "Replacing", "BeingReplaced"),
    ]);
    let names = |shop: &Shop| shop.view().rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(names(&shop), ["hands.v2", "round.v1", "widgets"]);
    let text = shop.text();
    let hands = "shop/hands.v2: applied without a Subscription\n  Installed: hands.v1, Replacing (BeingReplaced)";
    assert!(text.starts_with(hands) && text.contains("\n  To come: hands.v2, Installing (InstallWaiting)"), "{text}");
    // One that has succeeded has made the one before of no account.
    shop.versions =
        vec![version("widgets.v1", "", "Deleting", "Replaced"), version("widgets.v2", "widgets.v1", "Succeeded", "")];
    shop.subscriptions = vec![subscription("widgets.v2", "widgets.v2", &json!([]))];
    assert_eq!((names(&shop), shop.to_do().0), (vec!["widgets".to_owned()], "nothing".to_owned()));
    assert_eq!(shop.view().rows[0].installed.as_ref().unwrap().name, "widgets.v2");
    // One that has worked before is still what is installed.
    shop.versions = vec![version("widgets.v2", "", "Failed", "ComponentUnhealthy")];
    assert!(shop.view().rows[0].installed.is_none());
    shop.versions[0]["status"]["conditions"] = json!([{"phase": "Succeeded"}]);
    assert_eq!(shop.view().rows[0].installed.as_ref().unwrap().name, "widgets.v2");
}

#[test]
fn object_that_cannot_be_read_is_told_and_the_others_are_shown() {
    let mut shop = installed();
    let mut odd = version("odd.v1", "", "Succeeded", "");
    odd["spec"]["installModes"] = json!("all");
    shop.versions.push(odd);
    let text = shop.text();
    assert!(
        text.contains("What to do: nothing\n\nClusterServiceVersion shop/odd.v1 is left out: spec.installModes: "),
        "{text}"
    );
    assert!(shop.view().needs_somebody());
    assert_eq!(Shop::default().text(), "there are no Subscriptions and no ClusterServiceVersions\n");
}

#[test]
fn changes_are_told_once_with_their_time() {
    let mut shop = installed();
    let first = shop.view();
    let told = text::changes(None, &first, now());
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[0], "00:05:00Z  shop/widgets: package widgets, channel stable of market/main");
    assert_eq!(told[1], "00:05:00Z  shop/widgets: Installed: widgets.v1, Succeeded.");
    shop.versions[0]["status"]["lastTransitionTime"] = json!("2026-01-01T00:01:00Z");
    assert_eq!(text::changes(Some(&first), &shop.view(), now()), Vec::<String>::new(), "time alone is no change");
    shop.versions = vec![version("widgets.v1", "", "Failed", "ComponentUnhealthy")];
    shop.versions[0]["status"]["conditions"] = json!([{"phase": "Succeeded"}]);
    let expected = [
        "00:05:00Z  shop/widgets: Installed: widgets.v1, Failed (ComponentUnhealthy): as Failed says",
        "00:05:00Z  shop/widgets: What to do: mend what the message of widgets.v1 says: it is tried again by itself",
    ];
    assert_eq!(text::changes(Some(&first), &shop.view(), now()), expected);
    let gone = text::changes(Some(&first), &Shop::default().view(), now());
    let expected = ["shop/widgets: is gone", "there are no Subscriptions and no ClusterServiceVersions"];
    assert_eq!(gone, expected.map(|line| format!("00:05:00Z  {line}")));
}

#[test]
fn programs_read_the_same() {
    let mut shop = installed();
    shop.subscriptions = vec![subscription("widgets.v1", "widgets.v2", &json!([]))];
    shop.plans = vec![plan("RequiresApproval", false, &[("a", "Unknown")], "")];
    let expected = json!({"schema": 1, "operators": [{
        "namespace": "shop", "name": "widgets",
        "subscription": {"package": "widgets", "channel": "stable", "catalog": "market/main"},
        "installed": {"name": "widgets.v1", "exists": true, "phase": "Succeeded", "reason": "InstallSucceeded",
            "message": "as Succeeded says", "since": BEGIN, "isBeingDeleted": false,
            "deployments": [{"name": "widgets", "exists": true, "ready": 2, "wanted": 2, "fails": false}]},
        "next": {"name": "widgets.v2", "exists": false, "isBeingDeleted": false},
        "plan": {"name": "install-abcde", "phase": "RequiresApproval", "approved": false, "since": BEGIN, "steps": 1,
            "open": ["Role a: Unknown"], "changes": ["widgets: v1 to v2", "new rights: get pods"]},
        "whatToDo": "approve the InstallPlan: cvo olm approve install-abcde -n shop", "needsSomebody": false}]});
    assert_eq!(json!(shop.view()), expected);
    assert!(View::of(&shop.objects(), Some("gears")).rows.is_empty());
}
