use super::*;
use crate::olm::api::keys::annotation::PROVIDED_APIS;
use crate::olm::operator::Group;
use crate::olm::operator::apis::Apis;
use crate::olm::operator::roles;

/// A version that provides `Widget` of these versions.
fn widgets(name: &str, versions: &[&str]) -> Value {
    let mut csv = csv(name, "w:1", &["get"]);
    let api = |version: &&str| json!({"name": format!("widgets.{GROUP}"), "kind": "Widget", "version": version});
    csv["spec"]["customresourcedefinitions"]["owned"] = versions.iter().map(api).collect();
    csv
}

fn defined() -> Value {
    let any = || json!({"type": "object"});
    definition(&[("v1", any()), ("v2", any())])
}

/// The roles of the group are there.
fn with_roles(mut known: Known) -> Known {
    let object = group();
    let group = Group { object: &object, targets: Vec::new() };
    for mut role in roles::of_group(&group, &Apis::new(), |_| true) {
        role["metadata"]["uid"] = json!("u");
        known.add(Key::of(&role), Read::Value(role));
    }
    known
}

/// What is for users of what would be written.
fn for_users(forecast: &Forecast) -> String {
    let of_operator = |line: &&str| line.contains("w.v1-") || line.contains("w.v2-");
    let lines = written(forecast);
    let lines = lines.lines().filter(|line| line.contains("ClusterRole ") || line.contains("OperatorGroup"));
    lines.filter(|line| !of_operator(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn roles_for_users_and_what_the_group_names_are_foretold() {
    let plan = plan(&[widgets("w.v1", &["v1"]), defined()], "");
    let mut known = with_roles(known(&plan));
    let found = foretold(&plan, &mut known, &Unfit::new());
    assert!(found.held.is_empty() && found.unknown.is_empty(), "{found:?}");
    insta::assert_snapshot!(for_users(&found), @r"
    Update OperatorGroup ns/g: metadata.annotations[olm.providedAPIs]
    Update ClusterRole g-admin: aggregationRule
    Update ClusterRole g-edit: aggregationRule
    Update ClusterRole g-view: aggregationRule
    Update ClusterRole olm.og.g.admin-4ikaPo9XcqnGzHZaoM8COY8rIm8odCXM6Vs68M: aggregationRule
    Update ClusterRole olm.og.g.edit-2sHL5sVq4itIxUFetuhufFWiZeqJVvSCZtKJSt: aggregationRule
    Update ClusterRole olm.og.g.view-36MOt3cvRkDPPD14Fnsp0hRvC6RrytnStNgzPy: aggregationRule
    Create ClusterRole widget.widgets.example.com-v1-admin
    Create ClusterRole widget.widgets.example.com-v1-edit
    Create ClusterRole widget.widgets.example.com-v1-view
    Create ClusterRole widget.widgets.example.com-v1-view-crdview
    Create ClusterRole widgets.widgets.example.com-v1-admin
    Create ClusterRole widgets.widgets.example.com-v1-crdview
    Create ClusterRole widgets.widgets.example.com-v1-edit
    Create ClusterRole widgets.widgets.example.com-v1-view
    ");
    let key = Key::new(("operators.coreos.com", "OperatorGroup"), "ns", "g");
    let group = known.object(&key).unwrap();
    assert_eq!(group["metadata"]["annotations"][PROVIDED_APIS], "Widget.v1.widgets.example.com");
    let role = known.object(&Key::new(("rbac.authorization.k8s.io", "ClusterRole"), "", "g-edit")).unwrap();
    assert_eq!(role["aggregationRule"]["clusterRoleSelectors"].as_array().unwrap().len(), 1);
}

#[test]
fn version_with_the_same_apis_changes_nothing_for_users_and_one_with_others_what_differs() {
    let first = plan(&[widgets("w.v1", &["v1"]), defined()], "");
    let mut before = with_roles(known(&first));
    assert!(foretold(&first, &mut before, &Unfit::new()).held.is_empty());
    let next = |versions: &[&str]| {
        let next = plan(&[widgets("w.v2", versions), defined()], "w.v1");
        let found = foretold(&next, &mut before.clone(), &Unfit::new());
        assert!(found.held.is_empty(), "{found:?}");
        for_users(&found)
    };
    assert_eq!(next(&["v1"]), "");
    insta::assert_snapshot!(next(&["v2"]), @r"
    Update OperatorGroup ns/g: metadata.annotations[olm.providedAPIs]
    Update ClusterRole g-admin: aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-10deca53241fb90d-admin], aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-35c669da6b4b6cf8-admin]
    Update ClusterRole g-edit: aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-10deca53241fb90d-edit], aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-35c669da6b4b6cf8-edit]
    Update ClusterRole g-view: aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-10deca53241fb90d-view], aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-35c669da6b4b6cf8-view]
    Update ClusterRole olm.og.g.admin-4ikaPo9XcqnGzHZaoM8COY8rIm8odCXM6Vs68M: aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-10deca53241fb90d-admin], aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-35c669da6b4b6cf8-admin]
    Update ClusterRole olm.og.g.edit-2sHL5sVq4itIxUFetuhufFWiZeqJVvSCZtKJSt: aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-10deca53241fb90d-edit], aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-35c669da6b4b6cf8-edit]
    Update ClusterRole olm.og.g.view-36MOt3cvRkDPPD14Fnsp0hRvC6RrytnStNgzPy: aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-10deca53241fb90d-view], aggregationRule.clusterRoleSelectors[0].matchLabels[olm.opgroup.permissions/aggregate-to-35c669da6b4b6cf8-view]
    Create ClusterRole widget.widgets.example.com-v2-admin
    Create ClusterRole widget.widgets.example.com-v2-edit
    Create ClusterRole widget.widgets.example.com-v2-view
    Create ClusterRole widget.widgets.example.com-v2-view-crdview
    Create ClusterRole widgets.widgets.example.com-v2-admin
    Create ClusterRole widgets.widgets.example.com-v2-crdview
    Create ClusterRole widgets.widgets.example.com-v2-edit
    Create ClusterRole widgets.widgets.example.com-v2-view
    ");
}

#[test]
fn operator_whose_apis_another_group_provides_is_held() {
    let plan = plan(&[widgets("w.v1", &["v1"]), defined()], "");
    let annotations = json!({PROVIDED_APIS: "Widget.v1.widgets.example.com"});
    let others: Vec<OperatorGroup> = vec![
        serde_json::from_value(json!({"metadata": {"name": "all", "namespace": "other", "annotations": annotations},
            "spec": {"staticProvidedAPIs": true}}))
        .unwrap(),
    ];
    let groups = [group()];
    let premise = Premise { groups: &groups, others: &others, ..premise(&plan) };
    let found = forecast(&premise, &mut known(&plan));
    insta::assert_snapshot!(found.held.join("\n"), @r"
    ClusterServiceVersion w.v1: intersecting operatorgroups provide the same apis: OperatorGroups ns/g and other/all, which share namespaces, both provide Widget.v1.widgets.example.com; select other namespaces in one of them, or delete the operator of one
    ");
    assert!(!found.changes.iter().any(|change| change.key.kind == "Deployment"), "{found:?}");
}
