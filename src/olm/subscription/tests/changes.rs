//! What plans say that they change.

use super::*;
use crate::olm::subscription::changes::summary;

/// Rules with these verbs and resources, all of the group of Deployments.
fn rules(all: &[(&[&str], &[&str])]) -> Value {
    all.iter()
        .map(|(verbs, resources)| json!({"apiGroups": ["apps"], "verbs": verbs, "resources": resources}))
        .collect()
}

fn operator(name: &str, version: &str, cluster: &Value, namespaced: &Value, kinds: &[&str]) -> (Value, Vec<String>) {
    let owned: Vec<Value> =
        kinds.iter().map(|kind| json!({"name": format!("{kind}.g"), "kind": kind, "version": "v1"})).collect();
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name}, "spec": {"version": version, "customresourcedefinitions": {"owned": owned},
        "install": {"strategy": "deployment", "spec": {"deployments": [],
            "clusterPermissions": [{"serviceAccountName": "s", "rules": cluster}],
            "permissions": [{"serviceAccountName": "s", "rules": namespaced}]}}}});
    let definition = |kind: &&str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{kind}.g")}, "spec": {"group": "g", "names": {"kind": kind, "plural": kind},
            "versions": [{"name": "v1", "served": true, "storage": true}]}})
        .to_string()
    };
    (csv.clone(), std::iter::once(csv.to_string()).chain(kinds.iter().map(definition)).collect())
}

fn new(name: &str, replaces: &str, subscriptions: &[&str]) -> New {
    New {
        name: name.to_owned(),
        package: String::new(),
        channel: String::new(),
        catalog: Id::default(),
        image: String::new(),
        replaces: replaces.to_owned(),
        properties: Vec::new(),
        subscriptions: subscriptions.iter().map(|it| it.to_string()).collect(),
        reasons: Vec::new(),
    }
}

fn part(of: New, manifests: &[String]) -> (New, Arc<Bundle>) {
    let bundle = read::manifests(&of.name, manifests).unwrap();
    (of, Arc::new(bundle))
}

#[test]
fn plan_says_versions_new_rights_and_definitions() {
    let before = operator(
        "a.v1",
        "1.0.0",
        &rules(&[(&["get", "list"], &["deployments"])]),
        &rules(&[(&["*"], &["daemonsets"])]),
        &["old", "kept"],
    );
    let cluster = rules(&[(&["get", "list", "delete"], &["deployments"]), (&["get"], &["statefulsets"])]);
    let namespaced = rules(&[(&["update"], &["daemonsets", "replicasets"]), (&["list"], &["deployments"])]);
    let a = operator("a.v2", "2.0.0", &cluster, &namespaced, &["kept", "more"]);
    let b = operator("b.v1", "0.1.0", &json!([]), &json!([]), &[]);
    let bundles = [part(new("a.v2", "a.v1", &["s"]), &a.1), part(new("b.v1", "", &[]), &b.1)];
    let known = BTreeMap::from([("a.v1".to_owned(), before.0)]);
    insta::assert_snapshot!(summary(&bundles, &known), @"
    a.v2: 1.0.0 -> 2.0.0, in the place of a.v1
    b.v1: 0.1.0 is new, because others depend on it
    a.v2: new rights in the whole cluster: delete of deployments.apps
    a.v2: new rights in the whole cluster: get of statefulsets.apps
    a.v2: new rights in the namespaces of its OperatorGroup: update of replicasets.apps
    a.v2: definitions, new: more.g
    a.v2: definitions, as before or changed: kept.g
    ");
    let first = [part(new("a.v2", "a.v1", &["s"]), &a.1)];
    insta::assert_snapshot!(summary(&first, &BTreeMap::new()), @"
    a.v2: 2.0.0 is new
    a.v2: new rights in the whole cluster: delete, get, list of deployments.apps
    a.v2: new rights in the whole cluster: get of statefulsets.apps
    a.v2: new rights in the namespaces of its OperatorGroup: list of deployments.apps
    a.v2: new rights in the namespaces of its OperatorGroup: update of daemonsets.apps, replicasets.apps
    a.v2: definitions, new: kept.g, more.g
    ");
}

#[test]
fn what_a_plan_says_of_itself_is_short() {
    let names: Vec<String> = (0..2_000).map(|at| format!("resources{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = rules(&[(&["get"], &names)]);
    let different: Vec<String> = (0..500).map(|at| format!("verb{at}")).collect();
    let each: Vec<(Vec<&str>, Vec<&str>)> =
        different.iter().zip(&names).map(|(verb, name)| (vec![verb.as_str()], vec![*name])).collect();
    let each: Vec<(&[&str], &[&str])> =
        each.iter().map(|(verbs, names)| (verbs.as_slice(), names.as_slice())).collect();
    let a = operator("a.v1", "1.0.0", &many, &rules(&each), &names[..500]);
    let text = summary(&[part(new("a.v1", "", &["s"]), &a.1)], &BTreeMap::new());
    assert!(text.len() <= 8 << 10, "{}", text.len());
    assert!(
        text.starts_with("a.v1: 1.0.0 is new\na.v1: new rights in the whole cluster: get of resources0.apps"),
        "{text}"
    );
    assert!(text.lines().nth(1).unwrap().ends_with(" more"), "{text}");
    assert!(text.ends_with(" more lines"), "{text}");
    // A rule that stands for millions of things is not taken apart.
    let huge = rules(&[(&different.iter().map(String::as_str).collect::<Vec<_>>(), &names)]);
    let a = operator("a.v1", "1.0.0", &huge, &json!([]), &[]);
    let text = summary(&[part(new("a.v1", "", &["s"]), &a.1)], &BTreeMap::new());
    assert!(text.ends_with("new rights in the whole cluster: by rules that are too large to be shown here"), "{text}");
}

#[test]
fn plan_has_what_it_changes_in_an_annotation() {
    let (plan, _) = Case::of(&["b"]).decide().create.remove(0).object(&BTreeMap::new()).unwrap();
    let text = &plan.metadata.annotations.unwrap()["olm.operatorframework.io/changes"];
    assert_eq!(text, "b.v1:  is new\nc.v1:  is new, because others depend on it");
}
