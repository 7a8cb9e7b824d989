use super::*;
use crate::object::read::Read;
use crate::olm::api::install_plan::{InstallPlanSpec, InstallPlanStatus};
use crate::olm::bundle::read;
use crate::olm::steps::{self as bundle_steps, Chosen, ordered};
use serde_json::{Value, json};
use std::sync::LazyLock;

mod restore;
mod users;

const GROUP: &str = "widgets.example.com";
static KUBERNETES: semver::Version = semver::Version::new(1, 34, 0);

fn definition(versions: &[(&str, Value)]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, (name, spec))| {
            let schema = json!({"type": "object", "properties": {"spec": spec}});
            json!({"name": name, "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": schema}})
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "versions": versions,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}}})
}

fn csv(name: &str, image: &str, verbs: &[&str]) -> Value {
    let labels = json!({"app": "w"});
    let container = json!({"name": "operator", "image": image});
    let deployment = json!({"name": "widgets", "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "w", "containers": [container]}}}});
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let modes = json!([{"type": "OwnNamespace", "supported": true}]);
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"version": "1.0.0", "installModes": modes, "install": {"strategy": "deployment", "spec": {
            "deployments": [deployment],
            "permissions": [{"serviceAccountName": "w", "rules": rules}],
            "clusterPermissions": [{"serviceAccountName": "w", "rules": rules}]}}}})
}

/// The plan of a bundle in namespace `ns`.
fn plan(objects: &[Value], replaces: &str) -> InstallPlan {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let bundle = read::manifests("test", &texts).unwrap();
    let chosen = Chosen { bundle: &bundle, namespace: "ns", replaces, catalog: ("ns", "main"), properties: &[] };
    let mut plan = InstallPlan::new("install-x", InstallPlanSpec { approved: true, ..InstallPlanSpec::default() });
    let steps = ordered(vec![bundle_steps::of_bundle(&chosen).unwrap()]);
    plan.status = Some(InstallPlanStatus { plan: steps, ..InstallPlanStatus::default() });
    plan
}

fn group() -> OperatorGroup {
    serde_json::from_value(json!({"metadata": {"name": "g", "namespace": "ns"}, "spec": {"targetNamespaces": ["ns"]}}))
        .unwrap()
}

/// All kinds of the plan are served.
fn known(plan: &InstallPlan) -> Known {
    let mut known = Known::default();
    for (api_version, kind) in kinds(&steps(plan, &Found::default())) {
        let namespaced = !["CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"].contains(&kind.as_str());
        known.add_kind(&api_version, &kind, Some(namespaced));
    }
    known
}

/// Nothing is known but the plan.
fn premise(plan: &InstallPlan) -> Premise<'_> {
    static CONTENTS: LazyLock<Found> = LazyLock::new(Found::default);
    static UNFIT: Unfit = Unfit::new();
    Premise {
        namespace: "ns",
        plan,
        contents: &CONTENTS,
        is_new: true,
        superseded: &[],
        groups: &[],
        others: &[],
        subscribers: &[],
        unfit: &UNFIT,
        kubernetes: Ok(&KUBERNETES),
        values: true,
    }
}

fn foretold(plan: &InstallPlan, known: &mut Known, unfit: &Unfit) -> Forecast {
    forecast(&Premise { groups: &[group()], unfit, ..premise(plan) }, known)
}

fn written(forecast: &Forecast) -> String {
    let line = |change: &Change| {
        let fields: Vec<&str> = change.fields.iter().map(|field| field.path.as_str()).collect();
        let fields = if fields.is_empty() { String::new() } else { format!(": {}", fields.join(", ")) };
        format!("{:?} {}{fields}", change.verb, change.key)
    };
    forecast.changes.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn first() -> [Value; 2] {
    [csv("w.v1", "w:1", &["get"]), definition(&[("v1", json!({"type": "object"}))])]
}

#[test]
fn what_an_install_writes_is_foretold_in_its_order() {
    let plan = plan(&first(), "");
    let found = foretold(&plan, &mut known(&plan), &Unfit::new());
    insta::assert_snapshot!(written(&found), @r"
    Create InstallPlan ns/install-x
    Create ClusterServiceVersion ns/w.v1
    Create CustomResourceDefinition widgets.widgets.example.com
    Create ServiceAccount ns/w
    Create Role ns/w.v1-w-8B2lG6XiGjnGSQQ4yGJsm2VZHHD9TjIFGCOP5p
    Create RoleBinding ns/w.v1-w-8B2lG6XiGjnGSQQ4yGJsm2VZHHD9TjIFGCOP5p
    Create ClusterRole w.v1-1aBBMGots8PIVlf8vBARCUzbpdTxUrRzhWqkmq
    Create ClusterRoleBinding w.v1-1aBBMGots8PIVlf8vBARCUzbpdTxUrRzhWqkmq
    Create OperatorCondition ns/w.v1
    Create Role ns/w.v1
    Create RoleBinding ns/w.v1
    Create Deployment ns/widgets
    ");
    assert!(found.held.is_empty() && found.unknown.is_empty(), "{found:?}");
    let rights: Vec<_> =
        found.rights.iter().map(|it| (it.account.as_str(), it.everywhere, it.rules.join(";"))).collect();
    assert_eq!(rights, [("w", false, "get configmaps".to_owned()), ("w", true, "get configmaps".to_owned())]);
    assert_eq!(found.definitions[0].findings, ["it is new"]);
}

/// As if the first version were installed.
fn installed() -> (Known, InstallPlan) {
    let before = plan(&first(), "");
    let mut known = known(&before);
    assert!(foretold(&before, &mut known, &Unfit::new()).held.is_empty());
    let strict = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let second = [csv("w.v2", "w:2", &["get", "list"]), definition(&[("v1", strict)])];
    (known, plan(&second, "w.v1"))
}

fn fit() -> Unfit {
    [((format!("widgets.{GROUP}"), "v1".to_owned()), Ok((Vec::new(), true)))].into()
}

#[test]
fn update_is_foretold_field_by_field_with_what_goes() {
    let (mut known, next) = installed();
    let found = foretold(&next, &mut known, &fit());
    insta::assert_snapshot!(written(&found), @r"
    Create InstallPlan ns/install-x
    Create ClusterServiceVersion ns/w.v2
    Update CustomResourceDefinition widgets.widgets.example.com: metadata.annotations[operatorframework.io/installed-alongside-69c2a2650cc6af8e], spec.versions[0].schema.openAPIV3Schema.properties.spec.properties
    Update ServiceAccount ns/w: metadata.ownerReferences[of the new ClusterServiceVersion ns/w.v2]
    Create Role ns/w.v2-w-4JFnJCkGUSydXcRyjdaDOOuVyyKTq67g7RBciF
    Create RoleBinding ns/w.v2-w-4JFnJCkGUSydXcRyjdaDOOuVyyKTq67g7RBciF
    Create ClusterRole w.v2-9zjQrcfnOZ1PXdKIG00xn8DFVfOG3nprlWCiBK
    Create ClusterRoleBinding w.v2-9zjQrcfnOZ1PXdKIG00xn8DFVfOG3nprlWCiBK
    Create OperatorCondition ns/w.v2
    Create Role ns/w.v2
    Create RoleBinding ns/w.v2
    Update Deployment ns/widgets: metadata.labels[olm.deployment-spec-hash], metadata.labels[olm.owner], metadata.ownerReferences[of the new ClusterServiceVersion ns/w.v2], spec.template.spec.containers[operator].env[0].value, spec.template.spec.containers[operator].image, metadata.ownerReferences
    Delete ClusterRoleBinding w.v1-1aBBMGots8PIVlf8vBARCUzbpdTxUrRzhWqkmq
    Delete ClusterRole w.v1-1aBBMGots8PIVlf8vBARCUzbpdTxUrRzhWqkmq
    Delete ClusterServiceVersion ns/w.v1
    ");
    let image = |change: &Change| {
        let field = change.fields.iter().find(|field| field.path.ends_with(".image")).unwrap();
        (field.from.clone().unwrap(), field.to.clone().unwrap())
    };
    let deployment = found.changes.iter().find(|change| change.key.kind == "Deployment").unwrap();
    assert_eq!(image(deployment), (json!("w:1"), json!("w:2")));
    let rights: Vec<_> = found.rights.iter().map(|it| (it.everywhere, it.rules.join(";"))).collect();
    assert_eq!(rights, [(false, "list configmaps".to_owned()), (true, "list configmaps".to_owned())]);
    assert_eq!(found.definitions[0].findings, ["all objects that exist fit the new schema of version v1"]);
    // A second look finds nothing to write.
    let (groups, unfit) = ([group()], fit());
    let again = Premise { is_new: false, groups: &groups, unfit: &unfit, values: false, ..premise(&next) };
    assert_eq!(written(&forecast(&again, &mut known)), "");
}

#[test]
fn object_that_would_not_fit_refuses_the_plan_unless_the_annotation_takes_it() {
    let invalid = vec!["ns/one: spec.size: must be integer".to_owned()];
    let unfit: Unfit = [((format!("widgets.{GROUP}"), "v1".to_owned()), Ok((invalid, true)))].into();
    let (known, next) = installed();
    let found = foretold(&next, &mut known.clone(), &unfit);
    assert!(found.held[0].contains("ns/one: spec.size"), "{found:?}");
    assert_eq!(written(&found), "Create InstallPlan ns/install-x");
    assert_eq!(found.definitions[0].refused.len(), 1);
    let key = Key::new(("apiextensions.k8s.io", "CustomResourceDefinition"), "", &format!("widgets.{GROUP}"));
    let mut lenient = known.clone();
    let mut object = (*lenient.object(&key).unwrap()).clone();
    object["metadata"]["annotations"]["olm.operatorframework.io/crd-safety"] = json!("warn");
    lenient.add(key, Read::Value(object));
    let found = foretold(&next, &mut lenient, &unfit);
    assert_eq!((found.held.len(), found.definitions[0].taken.len()), (0, 1), "{found:?}");
    let failed: Unfit = [((format!("widgets.{GROUP}"), "v1".to_owned()), Err("forbidden".to_owned()))].into();
    let found = foretold(&next, &mut known.clone(), &failed);
    assert!(found.unknown[0].contains("forbidden"), "{found:?}");
}

#[test]
fn operator_that_is_not_upgradeable_holds_what_follows_it() {
    let (mut known, next) = installed();
    let key = Key::new(("operators.coreos.com", "OperatorCondition"), "ns", "w.v1");
    let mut condition = (*known.object(&key).unwrap()).clone();
    let said = json!({"type": "Upgradeable", "status": "False", "reason": "r", "message": "busy",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    condition["status"] = json!({"conditions": [said]});
    known.add(key, Read::Value(condition));
    let found = foretold(&next, &mut known, &fit());
    assert!(found.held[0].contains("w.v1") && found.held[0].contains("busy"), "{found:?}");
    assert!(found.changes.iter().all(|it| it.verb != Verb::Delete && it.key.kind != "Deployment"), "{found:?}");
}

#[test]
fn what_keeps_a_plan_from_its_steps_is_told_before() {
    let plan = plan(&first(), "");
    let held = |groups: &[OperatorGroup], known: &mut Known| {
        forecast(&Premise { groups, ..premise(&plan) }, known).held.join("\n")
    };
    assert!(held(&[], &mut known(&plan)).contains("no operator group found"));
    let everywhere = serde_json::from_value(json!({"metadata": {"name": "g", "namespace": "ns"}, "spec": {}})).unwrap();
    assert!(held(&[everywhere], &mut known(&plan)).contains("AllNamespaces InstallModeType not supported"));
    let mut without = known(&plan);
    without.add_kind("rbac.authorization.k8s.io/v1", "Role", None);
    assert!(held(&[group()], &mut without).contains("does not serve Role"));
    let mut rival = known(&plan);
    let mut other = csv("o.v1", "o:1", &[]);
    let owned = json!({"owned": [{"name": format!("widgets.{GROUP}"), "version": "v1", "kind": "Widget"}]});
    other["spec"]["customresourcedefinitions"] = owned.clone();
    other["metadata"]["namespace"] = json!("ns");
    rival.add(Key::of(&other), Read::Value(other));
    let mut owner = csv("w.v1", "w:1", &["get"]);
    owner["spec"]["customresourcedefinitions"] = owned;
    let plan = self::plan(&[owner, first()[1].clone()], "");
    let found = foretold(&plan, &mut rival, &Unfit::new());
    assert!(found.held[0].contains("o.v1 owns"), "{found:?}");
}

#[test]
fn object_that_could_not_be_read_is_told_as_unknown() {
    let plan = plan(&first(), "");
    let mut known = known(&plan);
    let account = Key::new(("", "ServiceAccount"), "ns", "w");
    known.add(account, Read::Failed("forbidden".to_owned()));
    let found = foretold(&plan, &mut known, &Unfit::new());
    assert_eq!(found.unknown.len(), 1);
    assert!(found.unknown[0].contains("ServiceAccount ns/w") && found.unknown[0].contains("forbidden"));
}

/// A version that requires all that can be, over what there is.
#[test]
fn what_a_version_requires_and_the_cluster_does_not_have_is_told_before() {
    let mut csv = csv("w.v1", "w:1", &["get"]);
    csv["spec"]["minKubeVersion"] = json!("1.35.0");
    csv["spec"]["nativeAPIs"] = json!([{"group": "batch", "version": "v2", "kind": "CronJob"}]);
    csv["spec"]["customresourcedefinitions"] =
        json!({"required": [{"name": "gears.g", "version": "v1", "kind": "Gear"}]});
    csv["spec"]["apiservicedefinitions"] =
        json!({"required": [{"name": "x", "group": "g", "version": "v1", "kind": "X"}]});
    let plan = plan(&[csv], "");
    let all = steps(&plan, &Found::default());
    assert!(kinds(&all).contains(&("batch/v2".to_owned(), "CronJob".to_owned())));
    let mut here = known(&plan);
    here.add_kind("batch/v2", "CronJob", None);
    here.add_kind("g/v1", "X", None);
    let looked: Vec<String> = looked_at(&all, "ns", &here).into_iter().map(|(_, key)| key.to_string()).collect();
    for expected in ["CustomResourceDefinition gears.g", "APIService v1.g"] {
        assert!(looked.iter().any(|it| it == expected), "{expected}: {looked:?}");
    }
    let found = foretold(&plan, &mut here.clone(), &Unfit::new());
    insta::assert_snapshot!(found.held.join("\n"), @r"
    ClusterServiceVersion w.v1: CSV version requirement not met: minKubeVersion (1.35.0) > server version (1.34.0)
    ClusterServiceVersion w.v1 requires CustomResourceDefinition gears.g: CRD is not present
    ClusterServiceVersion w.v1 requires APIService v1.g: it is not there
    ClusterServiceVersion w.v1 requires CronJob v2.batch: Native API does not exist
    ");
    assert!(found.changes.iter().all(|it| it.key.kind != "Deployment"), "it waits until then: {found:?}");
    // All of it is there.
    let mut whole = here.clone();
    whole.add_kind("batch/v2", "CronJob", Some(true));
    whole.add_kind("g/v1", "X", Some(true));
    let gears = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gears.g"},
        "spec": {"versions": [{"name": "v1", "served": true}]}});
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.g"},
        "status": {"conditions": [{"type": "Available", "status": "True"}]}});
    for object in [&gears, &service] {
        whole.add(Key::of(object), Read::Value(object.clone()));
    }
    let found = foretold(&plan, &mut whole.clone(), &Unfit::new());
    assert_eq!(found.held.len(), 1, "the API server is as old as before: {found:?}");
    // A definition whose names are taken is not there.
    let mut taken = gears.clone();
    taken["status"] = json!({"conditions": [{"type": "Established", "status": "False", "message": "taken"}]});
    whole.add(Key::of(&taken), Read::Value(taken));
    assert_eq!(foretold(&plan, &mut whole.clone(), &Unfit::new()).held.len(), 2);
    // What could not be read is neither there nor missing.
    whole.add(Key::of(&gears), Read::Failed("forbidden".to_owned()));
    let found = foretold(&plan, &mut whole, &Unfit::new());
    assert_eq!((found.held.len(), found.unknown.len()), (1, 1), "{found:?}");
    assert!(found.unknown[0].contains("gears.g") && found.unknown[0].contains("forbidden"), "{found:?}");
}

#[test]
fn what_would_be_written_can_be_tried_and_what_refers_to_it_is_marked() {
    let plan = plan(&first(), "");
    let found = foretold(&plan, &mut known(&plan), &Unfit::new());
    let told = |trial: &Trial| {
        let refers = if trial.refers { ", refers" } else { "" };
        format!("{} {} {}{refers}", if trial.is_new { "POST" } else { "PUT" }, trial.api_version, trial.key.kind)
    };
    insta::assert_snapshot!(found.trials.iter().map(told).collect::<Vec<_>>().join("\n"), @r"
    POST operators.coreos.com/v1alpha1 ClusterServiceVersion
    POST apiextensions.k8s.io/v1 CustomResourceDefinition
    POST v1 ServiceAccount
    POST rbac.authorization.k8s.io/v1 Role
    POST rbac.authorization.k8s.io/v1 RoleBinding, refers
    POST rbac.authorization.k8s.io/v1 ClusterRole
    POST rbac.authorization.k8s.io/v1 ClusterRoleBinding, refers
    POST operators.coreos.com/v2 OperatorCondition
    POST rbac.authorization.k8s.io/v1 Role
    POST rbac.authorization.k8s.io/v1 RoleBinding, refers
    POST apps/v1 Deployment
    ");
}
