//! What somebody else has written, what is far too large, and clocks that jump.

use super::*;
use crate::olm::operator::deployment::Write;
use crate::olm::operator::labels::patches;
use crate::olm::operator::roles;

/// In the phase and for the reason.
fn one(phase: &str, reason: &str) -> Cluster {
    Cluster::new([csv("a", phase, reason)]).marked()
}

/// A status says what was, and never what is.
#[test]
fn phase_that_somebody_has_written_is_judged_by_what_there_is() {
    let gone = "Failed/ComponentUnhealthy: installing: missing deployment with name=server";
    // The last one is the reason of copies.
    for reason in ["InstallSucceeded", "x", "Copied"] {
        let cluster = one("Succeeded", reason);
        assert_eq!(cluster.step("a", 10), gone, "{reason}");
        assert_eq!(cluster.decide("a", 10).deployments.len(), 1, "{reason}");
    }
    let lacking = |phase: &str| {
        let mut cluster = one(phase, "x");
        cluster.csv_mut("a")["spec"]["minKubeVersion"] = json!("1.99.0");
        cluster.step("a", 10)
    };
    assert_eq!(lacking("Succeeded"), "Failed/RequirementsNotMet: requirements no longer met");
    assert_eq!(lacking("Failed"), "Pending/RequirementsNotMet: requirements not met");
    let waits = "InstallReady/InstallWaiting: installing: missing deployment with name=server";
    assert_eq!(one("Installing", "x").step("a", 10), waits);
    let nobody = one("Replacing", "x").step("a", 10);
    assert!(nobody.starts_with("Pending/NeedsReinstall: "), "{nobody}");
}

/// Whoever may write the status may delete it so. What belongs to it goes as with any other that is deleted, and not before.
#[test]
fn version_that_somebody_has_said_to_be_deleted_is_deleted_and_nothing_else() {
    let mut cluster = one("Deleting", "x").deployed("a", ready());
    assert_eq!(cluster.decide("a", 10), Decision { delete: true, ..Decision::default() });
    cluster.groups.clear();
    assert!(cluster.step("a", 10).starts_with("Failed/NoOperatorGroup: "), "it is no member");
}

#[test]
fn time_that_is_yet_to_come_holds_an_installation_no_longer_than_its_limit() {
    let since = |minute: i64| {
        let mut cluster = one("Installing", "InstallWaiting").deployed("a", waiting());
        cluster.csv_mut("a")["status"]["lastTransitionTime"] = json!(at(minute).to_string());
        cluster
    };
    let decided = |cluster: &Cluster| {
        let decision = cluster.decide("a", 10);
        (decision.next, decision.status.unwrap().1)
    };
    let mut cluster = since(70);
    let (next, status) = decided(&cluster);
    assert_eq!((next, status.last_transition_time.as_ref().unwrap().0), (Some(at(15)), at(10)));
    // Also where there is nothing else to say.
    cluster.csv_mut("a")["status"] = json!(*status);
    cluster.csv_mut("a")["status"]["lastTransitionTime"] = json!(at(70).to_string());
    let (next, again) = decided(&cluster);
    assert_eq!((next, &again), (Some(at(15)), &status));
    cluster.csv_mut("a")["status"] = json!(*again);
    assert_eq!(cluster.decide("a", 10), Decision { next: Some(at(15)), ..Decision::default() });
    assert_eq!(cluster.step("a", 15), "Failed/InstallCheckFailed: install timeout");
    // Clocks differ by a little.
    let (next, status) = decided(&since(11));
    assert_eq!((next, status.last_transition_time.as_ref().unwrap().0), (Some(at(16)), at(11)));
}

#[test]
fn clock_that_goes_forward_ends_an_installation_that_goes_on_by_itself() {
    let mut cluster = one("Installing", "InstallWaiting").deployed("a", waiting());
    assert_eq!(cluster.step("a", 1000), "Failed/InstallCheckFailed: install timeout");
    merge(&mut cluster.csv_mut("a")["status"], &json!({"phase": "Failed", "reason": "InstallCheckFailed"}));
    assert!(cluster.step("a", 1000).starts_with("Pending/NeedsReinstall: "));
    assert!(cluster.deployed("a", ready()).step("a", 1000).starts_with("Succeeded/"));
}

const LARGE: usize = 1 << 20;

#[test]
fn annotations_that_no_pod_may_have_are_told_with_the_way_out_and_others_go_on() {
    let mut large = csv("a", "InstallReady", "x");
    large["metadata"]["annotations"] = json!({"note": "n".repeat(LARGE)});
    let mut other = csv("b", "InstallReady", "x");
    other["spec"]["install"]["spec"]["deployments"] = json!([entry("other")]);
    let mut cluster = Cluster::new([large, other]).marked();
    assert_eq!(cluster.decide("a", 10).deployments.len(), 1, "the server says whether it takes them");
    let error = "Deployment.apps is invalid: spec.template.annotations: Too long";
    cluster.failing = ["server", "other"].map(|name| (name.to_owned(), error.to_owned())).into();
    let failed = format!("Failed/InstallComponentFailed: install strategy failed: {error}");
    let way_out = "; all annotations of the ClusterServiceVersion go to its pods: remove some, or make them shorter";
    assert_eq!(cluster.step("a", 10), format!("{failed}{way_out}"));
    assert_eq!(cluster.step("b", 10), failed, "its annotations are not the reason");
    cluster.failing.remove("other");
    assert_eq!((cluster.step("b", 10), cluster.decide("b", 10).deployments.len()), (String::new(), 1));
    // Once they are gone, it goes on.
    cluster.csv_mut("a")["metadata"]["annotations"]["note"] = json!("");
    cluster.failing.clear();
    assert_eq!((cluster.step("a", 10), cluster.decide("a", 10).deployments.len()), (String::new(), 1));
}

#[test]
fn description_however_large_goes_to_no_deployment_and_into_no_status() {
    let mut cluster = one("InstallReady", "x");
    cluster.csv_mut("a")["spec"]["description"] = json!("d".repeat(LARGE));
    let [Write::Create { object, .. }] = &cluster.decide("a", 10).deployments[..] else { panic!("it is created") };
    assert!(object.to_string().len() < 4096, "{object}");
    let (_, status) = cluster.deployed("a", ready()).decide("a", 10).status.unwrap();
    assert!(json!(*status).to_string().len() < 4096, "{status:?}");
}

const MANY: usize = 10_000;

fn names() -> Vec<String> {
    (0..MANY).map(|number| format!("n{number:05}")).collect()
}

/// One group for all of these namespaces, and one in each of them for itself alone.
fn groups() -> Vec<OperatorGroup> {
    let group = |namespace: &str, targets: &[String]| -> OperatorGroup {
        typed(json!({"metadata": {"name": "g", "namespace": namespace, "uid": format!("uid-{namespace}")},
            "spec": {"targetNamespaces": targets}}))
    };
    let names = names();
    let own = names.iter().map(|name| group(name, std::slice::from_ref(name)));
    [group("shop", &names)].into_iter().chain(own).collect()
}

/// What is made grows with the namespaces, and not with their square.
#[test]
fn group_for_ten_thousand_namespaces_has_a_label_in_each_and_no_more_roles_than_any_other() {
    let objects = groups();
    let targets = |object: &OperatorGroup| targets(&object.spec, &BTreeMap::new());
    let groups: Vec<Group<'_>> = objects.iter().map(|object| Group { object, targets: targets(object) }).collect();
    let namespaces: BTreeMap<String, BTreeMap<String, String>> =
        names().into_iter().map(|name| (name, BTreeMap::new())).collect();
    let patches = patches(groups.iter(), &namespaces, true);
    assert_eq!(patches.len(), MANY);
    let labels = patches.iter().map(|(_, patch)| patch["metadata"]["labels"].as_object().unwrap());
    assert_eq!(labels.map(serde_json::Map::len).sum::<usize>(), 2 * MANY);
    let (key, own) = ("olm.operatorgroup.uid/uid-shop", "olm.operatorgroup.uid/uid-n09999");
    let last = json!({"metadata": {"labels": {key: "", own: ""}}});
    assert_eq!(patches.last().unwrap(), &("n09999".to_owned(), last));
    let roles = roles::of_group(&groups[0], &BTreeSet::from(["K.v1.example.com".to_owned()]), |_| true);
    assert_eq!(roles.len(), 6);
    assert!(json!(roles).to_string().len() < 4096, "they name no namespace");
}

#[test]
fn group_for_ten_thousand_namespaces_meets_each_of_their_groups() {
    let objects = groups();
    let targets = |object: &OperatorGroup| targets(&object.spec, &BTreeMap::new());
    let groups: Vec<Group<'_>> = objects.iter().map(|object| Group { object, targets: targets(object) }).collect();
    let mut version = csv("a", "Succeeded", "InstallSucceeded");
    version["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "ks.example.com", "version": "v1", "kind": "K"}]});
    let version: ClusterServiceVersion = typed(version);
    // Only the last of them has an operator of the same API.
    let has_member = |at: usize| at == 0 || at == MANY;
    let members = |at: usize| if has_member(at) { vec![&version] } else { Vec::new() };
    let tenants: Vec<tenants::Tenant<'_>> = groups
        .iter()
        .enumerate()
        .map(|(at, group)| tenants::Tenant { group, members: members(at), is_whole: true })
        .collect();
    let tenancy = Tenancy::new(&tenants);
    let patched: Vec<&str> =
        groups.iter().filter(|group| tenancy.patch(group).is_some()).map(|group| group.id().0).collect();
    assert_eq!(patched, ["n09999"], "the first by its namespace, where both are new");
    let refused = |at: usize| matches!(tenancy.verdict(&groups[at], &version), Verdict::Refused(_));
    assert_eq!([0, MANY].map(refused), [true, false]);
}

/// Its pods have to know them, and its status names a few.
#[test]
fn rights_that_are_missing_in_ten_thousand_namespaces_are_one_short_line() {
    let mut cluster = one("Pending", "RequirementsUnknown");
    let permissions = json!([{"serviceAccountName": "server", "rules": [rule(&["get"], &["pods"])]}]);
    cluster.csv_mut("a")["spec"]["install"]["spec"]["permissions"] = permissions;
    cluster.csv_mut("a")["spec"]["installModes"] = json!([{"type": "MultiNamespace", "supported": true}]);
    cluster.accounts.insert(("shop".into(), "server".into()), Account::default());
    cluster.groups[0]["spec"]["targetNamespaces"] = json!(names());
    let all: &'static [String] = names().leak();
    cluster.namespaces = all.iter().map(String::as_str).collect();
    let cluster = cluster.marked();
    let targets = cluster.csv("a")["metadata"]["annotations"]["olm.targetNamespaces"].as_str().unwrap();
    assert_eq!(targets.split(',').count(), MANY);
    let decision = cluster.decide("a", 10);
    let (_, status) = decision.status.unwrap();
    let line = status.requirement_status.last().unwrap();
    let expected = "Policy rule not satisfied for service account in 10000 namespaces, such as n00000, n00001, n00002";
    assert_eq!((line.message.as_str(), line.dependents.len()), (expected, 1));
    assert!(json!(*status).to_string().len() < 4096);
    assert_eq!(decision.components, [], "nothing is given before the plan has given it");
}
