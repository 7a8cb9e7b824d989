use super::*;
use crate::olm::operator::apis::Apis;
use crate::olm::operator::roles::{of_api, of_group, provided};

fn world_with<T>(cluster: &Cluster, with: impl FnOnce(&World<'_>) -> T) -> T {
    let rights = Rights::default();
    with(&World {
        kubernetes: Err("not asked"),
        definitions: &cluster.definitions,
        services: &cluster.services,
        served: &BTreeSet::new(),
        accounts: &cluster.accounts,
        rights: &rights,
    })
}

/// A version that defines widgets, and serves gears by an APIService that a Service answers for, or the API server itself.
fn cluster(has_service: bool) -> Cluster {
    let mut version = csv("a", "Succeeded", "");
    version["spec"]["customresourcedefinitions"] = json!({"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"},
            {"name": "gone.example.com", "version": "v1", "kind": "Gone"}]});
    version["spec"]["apiservicedefinitions"] = json!({"owned": [{"name": "gears", "group": "gears.example.com", "version": "v2", "kind": "Gear", "deploymentName": "server"}]});
    let mut cluster = Cluster::new([version]);
    let definition = Definition { uid: "uid-crd".into(), ..Definition::default() };
    cluster.definitions.insert("widgets.example.com".into(), definition);
    let service = ApiService { uid: "uid-service".into(), is_available: true, has_service, ..ApiService::default() };
    cluster.services.insert("v2.gears.example.com".into(), service);
    cluster
}

fn roles(cluster: &Cluster) -> Vec<Value> {
    let csv: ClusterServiceVersion = typed(cluster.csvs[0].clone());
    let apis = world_with(cluster, |world| provided(&csv, |it| world.defined(it), |it| world.answered(it)));
    apis.iter().flat_map(|api| of_api(api, "g")).collect()
}

fn shown(roles: &[Value]) -> String {
    let text =
        |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
    let line = |role: &Value| {
        let rule = &role["rules"][0];
        let names = rule.get("resourceNames").map(|names| format!(" {}", text(names))).unwrap_or_default();
        let labels = role["metadata"]["labels"].as_object().unwrap().iter().filter(|(key, _)| *key != "olm.managed");
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("\n  {}", labels.join(" ")) };
        format!(
            "{} ({}): {} {}.{}{names}{labels}\n",
            role["metadata"]["name"].as_str().unwrap(),
            role["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap(),
            text(&rule["verbs"]),
            text(&rule["resources"]),
            text(&rule["apiGroups"]),
        )
    };
    roles.iter().map(line).collect()
}

/// Each belongs to what defines the API, and goes with it. What is not there has none.
#[test]
fn each_api_has_roles_that_add_themselves_to_those_of_the_cluster_and_of_its_group() {
    insta::assert_snapshot!(shown(&roles(&cluster(true))), @r"
    widget.example.com-v1-admin (uid-crd): * widgets.example.com
    widget.example.com-v1-edit (uid-crd): create,update,patch,delete widgets.example.com
    widget.example.com-v1-view (uid-crd): get,list,watch widgets.example.com
    widget.example.com-v1-view-crdview (uid-crd): get customresourcedefinitions.apiextensions.k8s.io widgets.example.com
    widgets.example.com-v1-admin (uid-crd): * widgets.example.com
      olm.opgroup.permissions/aggregate-to-50cc6f60739af19b-admin=true olm.opgroup.permissions/aggregate-to-admin=g rbac.authorization.k8s.io/aggregate-to-admin=true
    widgets.example.com-v1-crdview (uid-crd): get customresourcedefinitions.apiextensions.k8s.io widgets.example.com
      olm.opgroup.permissions/aggregate-to-50cc6f60739af19b-view=true olm.opgroup.permissions/aggregate-to-view=g rbac.authorization.k8s.io/aggregate-to-view=true
    widgets.example.com-v1-edit (uid-crd): create,update,patch,delete widgets.example.com
      olm.opgroup.permissions/aggregate-to-50cc6f60739af19b-edit=true olm.opgroup.permissions/aggregate-to-edit=g rbac.authorization.k8s.io/aggregate-to-edit=true
    widgets.example.com-v1-view (uid-crd): get,list,watch widgets.example.com
      olm.opgroup.permissions/aggregate-to-50cc6f60739af19b-view=true olm.opgroup.permissions/aggregate-to-view=g rbac.authorization.k8s.io/aggregate-to-view=true
    gear.gears.example.com-v2-admin (uid-service): * gears.gears.example.com
    gear.gears.example.com-v2-edit (uid-service): create,update,patch,delete gears.gears.example.com
    gear.gears.example.com-v2-view (uid-service): get,list,watch gears.gears.example.com
    gears-v2-admin (uid-service): * gears.gears.example.com
      olm.opgroup.permissions/aggregate-to-admin=g olm.opgroup.permissions/aggregate-to-e39013907c243b41-admin=true rbac.authorization.k8s.io/aggregate-to-admin=true
    gears-v2-edit (uid-service): create,update,patch,delete gears.gears.example.com
      olm.opgroup.permissions/aggregate-to-e39013907c243b41-edit=true olm.opgroup.permissions/aggregate-to-edit=g rbac.authorization.k8s.io/aggregate-to-edit=true
    gears-v2-view (uid-service): get,list,watch gears.gears.example.com
      olm.opgroup.permissions/aggregate-to-e39013907c243b41-view=true olm.opgroup.permissions/aggregate-to-view=g rbac.authorization.k8s.io/aggregate-to-view=true
    ");
}

/// Else a version could give away what it does not serve, by naming it.
#[test]
fn api_of_the_api_server_itself_gives_no_roles() {
    let names: Vec<String> = roles(&cluster(false)).iter().map(|role| role["metadata"]["name"].to_string()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| !name.contains("gear")), "{names:?}");
}

/// Whoever names an API names its roles: what is there by such a name, and was not made for an operator, stays as it is.
#[test]
fn roles_of_an_api_take_no_role_of_the_cluster_by_its_name() {
    let mut cluster = cluster(true);
    let api = cluster.csvs[0].pointer_mut("/spec/apiservicedefinitions/owned/0").unwrap();
    merge(api, &json!({"name": "system:aggregate", "version": "to"}));
    let service = cluster.services["v2.gears.example.com"].clone();
    cluster.services.insert("to.gears.example.com".into(), service);
    let wanted = roles(&cluster);
    for level in ["admin", "edit", "view"] {
        let name = format!("system:aggregate-to-{level}");
        let role = wanted.iter().find(|role| role["metadata"]["name"] == name.as_str()).unwrap();
        let aggregates = format!("rbac.authorization.k8s.io/aggregate-to-{level}");
        let labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults", aggregates: "true"});
        let theirs = json!({"metadata": {"name": name, "uid": "u", "labels": labels}, "rules": []});
        let id = component::Id::of(role).unwrap();
        assert!(component::take_over(&id, &theirs, role).is_err(), "{name}");
    }
}

#[test]
fn group_gathers_the_roles_of_its_apis_by_their_labels() {
    let object: OperatorGroup = typed(json!({"metadata": {"name": "g", "namespace": "shop"}, "spec": {}}));
    let group = Group { object: &object, targets: vec![String::new()] };
    let apis = Apis::from(["Widget.v1.example.com".to_owned()]);
    let roles = of_group(&group, &apis, |name| name != "g-edit");
    let names: Vec<&str> = roles.iter().map(|role| role["metadata"]["name"].as_str().unwrap()).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    olm.og.g.admin-8nbAe2z3rceybY63lgmd90TMxghydnRauyWkr1
    g-admin
    olm.og.g.edit-6fp69JuEfJX8aTLZQyTJzTo8nUpOCMc1yxjEHM
    olm.og.g.view-2XHBv8RxsJ1kCrMLjwzYeAkMxqS3iu1Q9nEC8v
    g-view
    ");
    let labels = json!({"olm.managed": "true", "olm.owner": "g", "olm.owner.namespace": "shop", "olm.owner.kind": "OperatorGroup"});
    assert!(roles.iter().all(|role| role["metadata"]["labels"] == labels && role["rules"] == json!([])));
    let label = |role: &Value| {
        let selectors = &role["aggregationRule"]["clusterRoleSelectors"];
        assert_eq!(selectors.as_array().unwrap().len(), 1);
        selectors[0]["matchLabels"].as_object().unwrap().keys().next().unwrap().clone()
    };
    // It is a label of the role of the API.
    let of_api = self::roles(&cluster(true));
    let find = |name: &str| of_api.iter().find(|role| role["metadata"]["name"] == name).unwrap();
    for (role, name) in [(&roles[0], "admin"), (&roles[2], "edit"), (&roles[3], "view")] {
        let labels = &find(&format!("widgets.example.com-v1-{name}"))["metadata"]["labels"];
        assert_eq!(labels[label(role)], "true", "{name}");
    }
    let without = of_group(&group, &Apis::new(), |_| false);
    assert!(without.len() == 3 && without.iter().all(|role| role.get("aggregationRule").is_none()));
    // The names are those that other implementations give them, and differ where the group does.
    let long: OperatorGroup = typed(json!({"metadata": {"name": "g".repeat(253), "namespace": "shop"}, "spec": {}}));
    let long = of_group(&Group { object: &long, targets: Vec::new() }, &apis, |_| false);
    assert!(long.iter().all(|role| role["metadata"]["name"].as_str().unwrap().len() == 253));
}
