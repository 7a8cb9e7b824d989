use super::super::reference::Found;
use super::super::step::{Action, Context, Csv, Item, StepError, copied, desired, merged, owner_conflict, read};
use super::super::together::Together;
use super::*;
use crate::merge::Outcome as Merged;
use std::sync::Arc;

fn step(kind: &str, manifest: &Value) -> Step {
    let version = manifest["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    serde_json::from_value(
        json!({"resolving": "a.v1", "status": "Unknown", "resource": {"group": group, "version": version,
        "kind": kind, "name": name, "manifest": manifest.to_string()}}),
    )
    .unwrap()
}

fn object(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
}

fn item(step: &Step) -> Result<super::super::step::Item, StepError> {
    read(&plan("Installing", true, &[]), 3, step, &Found::default())
}

fn context(owner: Option<&'static str>, namespaced: bool) -> Context<'static> {
    Context { namespace: "shop", plan: "install-x", owner, namespaced, scoped: false }
}

fn wanted(api_version: &str, kind: &str, namespaced: bool) -> Value {
    let item = item(&step(kind, &object(api_version, kind))).unwrap();
    desired(&item, context(Some("u1"), namespaced))
}

#[test]
fn each_kind_has_its_way_and_others_are_no_part_of_a_plan() {
    let rbac = "rbac.authorization.k8s.io/v1";
    for (api_version, kind, expected) in [
        ("operators.coreos.com/v1alpha1", "ClusterServiceVersion", Action::Once),
        ("operators.coreos.com/v1alpha1", "Subscription", Action::Once),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", Action::Define),
        ("v1", "Secret", Action::Copy),
        ("v1", "ServiceAccount", Action::Merge),
        ("v1", "Service", Action::Merge),
        ("v1", "ConfigMap", Action::Merge),
        (rbac, "Role", Action::Merge),
        (rbac, "ClusterRoleBinding", Action::Merge),
        ("monitoring.coreos.com/v1", "PrometheusRule", Action::Merge),
        ("monitoring.coreos.com/v1", "ServiceMonitor", Action::Merge),
        ("policy/v1", "PodDisruptionBudget", Action::Merge),
        ("scheduling.k8s.io/v1", "PriorityClass", Action::Merge),
        ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", Action::Merge),
        ("console.openshift.io/v1", "ConsoleYAMLSample", Action::Merge),
        ("console.openshift.io/v1", "ConsoleQuickStart", Action::Merge),
        ("console.openshift.io/v1", "ConsoleCLIDownload", Action::Merge),
        ("console.openshift.io/v1", "ConsoleLink", Action::Merge),
        ("console.openshift.io/v1", "ConsolePlugin", Action::Merge),
        ("networking.k8s.io/v1", "NetworkPolicy", Action::Merge),
    ] {
        let whole = step(kind, &object(api_version, kind));
        assert_eq!(item(&whole).unwrap().action, expected, "{kind}");
        // As somebody writes it who does not know the group.
        let mut short = whole.clone();
        short.resource.group.clear();
        assert_eq!(item(&short), item(&whole), "{kind}");
        // Without a type in the manifest, and with the group in the version, as Go programs write both.
        let mut untyped = object(api_version, kind);
        untyped.as_object_mut().unwrap().retain(|key, _| key != "apiVersion" && key != "kind");
        short.resource.manifest = untyped.to_string();
        for version in [api_version, api_version.rsplit('/').next().unwrap()] {
            short.resource.version = version.to_owned();
            assert_eq!(item(&short), item(&whole), "{kind} of {version}");
        }
    }
    let secret = item(&step("BundleSecret", &object("v1", "Secret"))).unwrap();
    assert_eq!((secret.action, secret.kind.as_str()), (Action::Merge, "Secret"));
    for (api_version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("example.com/v1", "Role")] {
        let error = item(&step(kind, &object(api_version, kind))).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
    }
    let text = item(&step("Role", &object("example.com/v1", "Role"))).unwrap_err().to_string();
    assert!(
        text.starts_with("api-server resource not found installing Role x: GroupVersionKind example.com/v1, Kind=Role not found on the cluster")
            && text.contains("of the group rbac.authorization.k8s.io"),
        "{text}"
    );
}

#[test]
fn step_without_an_object_says_so() {
    let config_map = step("ConfigMap", &object("v1", "ConfigMap"));
    let with = |manifest: &str| {
        let mut step = config_map.clone();
        step.resource.manifest = manifest.to_owned();
        item(&step).unwrap_err()
    };
    assert!(matches!(with("{"), StepError::Json(_)));
    assert!(matches!(with("[]"), StepError::Other { .. }));
    let reference = r#"{"kind":"ConfigMap","name":"n","namespace":"olm","catalogSourceName":"c"}"#;
    assert_eq!(with(reference), StepError::NoName, "it does not say which catalog it is of");
    let whole = reference.replace('}', r#","catalogSourceNamespace":"olm"}"#);
    let missing = with(&whole).to_string();
    assert!(
        missing.starts_with("its manifest is in ConfigMap olm/n: it has no ConfigMap x; delete the plan"),
        "{missing}"
    );
    assert_eq!(with(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#), StepError::NoName);
    // One kind in the list and another in the text.
    let other = with(&object("rbac.authorization.k8s.io/v1", "ClusterRole").to_string());
    assert_eq!(
        other,
        StepError::Other {
            found: "ClusterRole.rbac.authorization.k8s.io".to_owned(),
            expected: "ConfigMap".to_owned()
        }
    );
    let old =
        item(&step("CustomResourceDefinition", &object("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition")));
    assert_eq!(old.unwrap_err(), StepError::OldDefinition("x".to_owned()));
}

#[test]
fn object_without_a_name_has_the_same_one_at_each_attempt() {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}});
    let names = [0, 1].map(|_| item(&step("ConfigMap", &manifest)).unwrap().name);
    assert_eq!(names[0], names[1]);
    assert!(names[0].starts_with("c-") && names[0].len() == 12, "{}", names[0]);
    let long = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c".repeat(100)}});
    let long = item(&step("ConfigMap", &long)).unwrap().name;
    assert!(long.starts_with(&"c".repeat(53)) && long.len() == 63, "{long}");
    let other = read(&plan("Installing", true, &[]), 4, &step("ConfigMap", &manifest), &Found::default()).unwrap();
    assert_ne!(other.name, names[0]);
}

#[test]
fn object_says_who_owns_it_and_who_made_it() {
    let owner = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a.v1",
        "uid": "u1", "blockOwnerDeletion": false, "controller": false}]);
    for (api_version, kind) in [("v1", "ConfigMap"), ("rbac.authorization.k8s.io/v1", "Role"), ("v1", "Service")] {
        let object = wanted(api_version, kind, true);
        assert_eq!(object["metadata"]["ownerReferences"], owner, "{kind}");
        let mut labels = json!({"olm.managed": "true"});
        if kind == "Role" {
            // What is written with the rights of this process may be given in other namespaces too.
            labels["olm.operatorframework.io/for-targets"] = json!("true");
        }
        assert_eq!(object["metadata"]["labels"], labels);
        assert_eq!(object["metadata"]["namespace"], "shop");
    }
    let role = item(&step(
        "Role",
        &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "x"}}),
    ));
    let scoped = desired(&role.unwrap(), Context { scoped: true, ..context(Some("u1"), true) });
    assert_eq!(scoped["metadata"]["labels"], json!({"olm.managed": "true"}));
    let role = wanted("rbac.authorization.k8s.io/v1", "ClusterRole", false);
    assert_eq!(
        role["metadata"],
        json!({"name": "x", "labels": {"olm.managed": "true", "olm.owner": "a.v1", "olm.owner.namespace": "shop",
            "olm.owner.kind": "ClusterServiceVersion"}})
    );
    let managed = json!({"olm.managed": "true"});
    let mut of_long = step("ClusterRole", &object("rbac.authorization.k8s.io/v1", "ClusterRole"));
    of_long.resolving = format!("{}.v1", "long-name-".repeat(8));
    let labels = desired(&item(&of_long).unwrap(), context(Some("u1"), false))["metadata"]["labels"].clone();
    assert_eq!(
        labels["olm.owner"],
        crate::olm::names::label_value(&of_long.resolving),
        "labels are shorter than names"
    );
    let csv = wanted("operators.coreos.com/v1alpha1", "ClusterServiceVersion", true);
    assert_eq!(csv["metadata"], json!({"name": "x", "namespace": "shop", "labels": managed}));
    let subscription = wanted("operators.coreos.com/v1alpha1", "Subscription", true);
    assert_eq!(
        subscription["metadata"],
        json!({"name": "x", "namespace": "shop", "labels": managed, "annotations": {"olm.generated-by": "install-x"}})
    );
    let definition = wanted("apiextensions.k8s.io/v1", "CustomResourceDefinition", false);
    assert_eq!(definition["metadata"]["labels"], managed);
    let alongside = definition["metadata"]["annotations"].as_object().unwrap();
    let [(key, value)] = &alongside.iter().collect::<Vec<_>>()[..] else { panic!("{alongside:?}") };
    // FNV-1a of the value.
    assert_eq!(
        (key.as_str(), value.as_str()),
        ("operatorframework.io/installed-alongside-ddc4ff5631bb7828", Some("shop/a.v1"))
    );
}

#[test]
fn what_a_manifest_says_of_its_place_and_owners_does_not_count() {
    let mut manifest = object("v1", "ConfigMap");
    manifest["metadata"] = json!({"name": "x", "namespace": "kube-system", "uid": "9", "resourceVersion": "3",
        "ownerReferences": [{"uid": "other"}], "labels": {"a": "b", "olm.managed": "false"}});
    manifest["status"] = json!({"a": 1});
    let object = desired(&item(&step("ConfigMap", &manifest)).unwrap(), context(None, true));
    let metadata = json!({"name": "x", "namespace": "shop", "labels": {"a": "b", "olm.managed": "true"}});
    assert_eq!((&object["metadata"], object.get("status")), (&metadata, None));
    // A label that is no text does no harm.
    manifest["metadata"] = json!({"name": "x", "labels": "nonsense"});
    let object = desired(&item(&step("ConfigMap", &manifest)).unwrap(), context(None, true));
    assert_eq!(object["metadata"]["labels"], json!({"olm.managed": "true"}));
}

#[test]
fn next_version_becomes_an_owner_beside_the_one_before() {
    let new = item(&step("ConfigMap", &object("v1", "ConfigMap"))).unwrap();
    let mut live = desired(&new, context(Some("u0"), true));
    let outcome = merged(&new, &live, &desired(&new, context(Some("u1"), true))).unwrap();
    let Merged::Changed { object, .. } = outcome else { panic!("{outcome:?}") };
    let uids: Vec<&str> = object["metadata"]["ownerReferences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["uid"].as_str().unwrap())
        .collect();
    assert_eq!(uids, ["u0", "u1"]);
    live = object;
    assert_eq!(merged(&new, &live, &desired(&new, context(Some("u1"), true))).unwrap(), Merged::Same);
}

#[test]
fn account_keeps_the_secrets_that_it_has_and_gets_new_ones() {
    let mut manifest = object("v1", "ServiceAccount");
    manifest["imagePullSecrets"] = json!([{"name": "a"}, {"name": "b"}]);
    let item = item(&step("ServiceAccount", &manifest)).unwrap();
    let wanted = desired(&item, context(Some("u1"), true));
    let mut live = wanted.clone();
    live["imagePullSecrets"] = json!([{"name": "c"}, {"name": "a"}]);
    live["secrets"] = json!([{"name": "token"}]);
    let outcome = merged(&item, &live, &wanted).unwrap();
    let Merged::Changed { object, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(object["imagePullSecrets"], json!([{"name": "c"}, {"name": "a"}, {"name": "b"}]));
    assert_eq!(object["secrets"], json!([{"name": "token"}]));
    assert_eq!(merged(&item, &object, &wanted).unwrap(), Merged::Same);
}

#[test]
fn what_is_only_created_is_left_alone_where_it_exists() {
    for kind in ["ClusterServiceVersion", "Subscription"] {
        let item = item(&step(kind, &object("operators.coreos.com/v1alpha1", kind))).unwrap();
        let live = json!({"metadata": {"name": "x"}, "spec": {"other": true}});
        assert_eq!(merged(&item, &live, &desired(&item, context(None, true))).unwrap(), Merged::Same);
    }
}

#[test]
fn pull_secret_is_copied_without_what_belongs_to_the_original() {
    let secret = json!({"metadata": {"name": "pull", "namespace": "olm", "uid": "1", "labels": {"a": "b"},
        "ownerReferences": [{"uid": "2"}]}, "data": {"k": "dg=="}, "type": "kubernetes.io/dockerconfigjson"});
    let mut item = item(&step("Secret", &object("v1", "Secret"))).unwrap();
    item.object = copied(&secret);
    let object = desired(&item, context(None, true));
    assert_eq!(
        object,
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "dg=="}, "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "x", "namespace": "shop", "labels": {"a": "b", "olm.managed": "true"}}})
    );
}

fn csv(name: &str, replaces: &str, owned: &str) -> Csv {
    Csv::read(&json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"replaces": replaces,
        "customresourcedefinitions": {"owned": [{"name": owned}]}}}))
}

#[test]
fn operators_may_hand_a_definition_on_in_one_plan() {
    let manifest = |name: &str, replaces: &str, owned: &str| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
            "spec": {"replaces": replaces, "customresourcedefinitions": {"owned": [{"name": owned}]}}})
    };
    let of = |manifest: &Value| item(&step("ClusterServiceVersion", manifest)).unwrap();
    let takes = of(&manifest("b.v2", "b.v1", "as.example.com"));
    let known = || vec![Arc::new(csv("a.v1", "", "as.example.com")), Arc::new(csv("b.v1", "", "bs.example.com"))];
    let conflict = |gives: &[Item]| {
        let items: Vec<Item> = gives.iter().chain([&takes]).cloned().collect();
        Together::of(&items, known()).owner_conflict(&takes, "shop").is_some()
    };
    assert!(!conflict(&[of(&manifest("a.v2", "a.v1", "cs.example.com"))]));
    assert!(conflict(&[of(&manifest("a.v2", "a.v1", "as.example.com"))]), "the next version keeps it");
    assert!(conflict(&[]), "nothing replaces it");
}

#[test]
fn definition_that_another_operator_of_the_namespace_owns_is_refused() {
    let all = |csvs: &[Csv]| csvs.iter().cloned().map(Arc::new).collect::<Vec<_>>();
    let new = csv("a.v3", "a.v2", "as.example.com");
    let conflict = |csvs: &[Csv]| owner_conflict(&new, &all(csvs)).is_some();
    assert!(conflict(&[csv("b.v1", "", "as.example.com")]));
    assert!(!conflict(&[csv("b.v1", "", "bs.example.com")]));
    assert!(!conflict(&[csv("a.v2", "", "as.example.com")]), "its predecessor");
    assert!(!conflict(&[csv("a.v1", "", "as.example.com"), csv("a.v2", "a.v1", "as.example.com")]), "and that of that");
    assert!(conflict(&[csv("a.v1", "", "as.example.com"), csv("a.v2", "", "as.example.com")]));
    assert!(!conflict(&[Csv { is_deleted: true, ..csv("b.v1", "", "as.example.com") }]));
    // A circle ends.
    assert!(!conflict(&[csv("a.v2", "a.v3", "as.example.com")]));
    let text = owner_conflict(&new, &all(&[csv("b.v1", "", "as.example.com")])).unwrap();
    assert!(text.contains("ClusterServiceVersion b.v1 owns CustomResourceDefinition as.example.com"), "{text}");
}

/// All that a plan makes for a version is a component of its operator, also where an earlier attempt has made that version.
#[test]
fn objects_of_a_plan_are_components_of_the_operator_of_their_version() {
    const KEY: &str = "operators.coreos.com/etcd.shop";
    let properties =
        json!({"properties": [{"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}}]});
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "a.v1", "namespace": "shop", "annotations": {"operatorframework.io/properties": properties.to_string()}}});
    let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "needed"}, "spec": {"name": "needed"}});
    let of = |manifest: &Value| item(&step(manifest["kind"].as_str().unwrap(), manifest)).unwrap();
    let items = [
        of(&csv),
        of(&object("v1", "ConfigMap")),
        of(&object("rbac.authorization.k8s.io/v1", "ClusterRole")),
        of(&object("apiextensions.k8s.io/v1", "CustomResourceDefinition")),
        of(&subscription),
    ];
    let keys = |together: &Together, item: &Item| {
        let wanted = together.wanted(item, None, context(Some("u1"), true));
        let labels = wanted["metadata"]["labels"].as_object().unwrap().clone();
        labels.into_iter().map(|(key, _)| key).filter(|key| key.starts_with("operators.")).collect::<Vec<_>>()
    };
    let first = Together::of(&items, Vec::new());
    for item in &items[..4] {
        assert_eq!(keys(&first, item), [KEY], "{}", item.kind);
    }
    assert_eq!(keys(&first, &items[4]), ["operators.coreos.com/needed.shop"]);
    // The version is there, and others have labelled it as well.
    let mut live = csv.clone();
    live["metadata"]["labels"] = json!({"operators.coreos.com/suite.shop": ""});
    let again = Together::of(&items[1..], vec![Arc::new(Csv::read(&live))]);
    assert_eq!(keys(&again, &items[1]), [KEY, "operators.coreos.com/suite.shop"]);
    // That of another namespace is another one.
    live["metadata"]["namespace"] = json!("mall");
    let other = Together::of(&items[1..], vec![Arc::new(Csv::read(&live))]);
    assert_eq!(keys(&other, &items[1]), Vec::<String>::new());
}
