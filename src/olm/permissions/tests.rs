use super::*;

fn permissions(account: &str, rules: Value) -> StrategyPermissions {
    serde_json::from_value(json!({"serviceAccountName": account, "rules": rules})).unwrap()
}

fn rules() -> Value {
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/metrics?a<b&c"], "verbs": ["get"]}])
}

/// Kind and name of each object.
fn names(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    objects.iter().map(|it| format!("{} {}", text(&it["kind"]), text(&it["metadata"]["name"]))).collect()
}

#[test]
fn names_and_hashes_are_those_of_other_programs() {
    // Made with the JSON and the numbers of the Go library.
    let permission = permissions("etcd-operator", rules());
    let strategy = StrategyDetails {
        permissions: vec![permission.clone()],
        cluster_permissions: vec![permission],
        ..StrategyDetails::default()
    };
    let objects = objects("etcd.v1", "ns", &strategy);
    let (role, cluster_role) = (
        "etcd.v1-etcd-operator-8p9PKGiuCcDPmV36NiQ4XYTZrh6FtCaDbt2dzi",
        "etcd.v1-6Vjeuox4Axq2NnbQEC4fwYBgymIdSKqJBoWnJj",
    );
    assert_eq!(
        names(&objects),
        [
            "ServiceAccount etcd-operator".to_owned(),
            format!("Role {role}"),
            format!("RoleBinding {role}"),
            format!("ClusterRole {cluster_role}"),
            format!("ClusterRoleBinding {cluster_role}"),
        ]
    );
    let hash = |at: usize| objects[at]["metadata"]["labels"]["olm.permissions.hash"].as_str().unwrap();
    assert_eq!(hash(1), "aCcxuSdSrUrS52gEnZ8RGMX6ECTSyjjDqS8rAq");
    assert_eq!(hash(2), "c2mIMrTavck1c6KTrpNNncT8HDkAiyWk4gcFnF");
    assert_eq!(hash(1), hash(3));
}

#[test]
fn role_has_the_rules_its_owner_and_a_binding_to_its_account() {
    let strategy = StrategyDetails { permissions: vec![permissions("a", rules())], ..StrategyDetails::default() };
    let objects = objects("x.v1", "ns", &strategy);
    let [account, role, binding] = objects.as_slice() else { panic!("{objects:?}") };
    assert_eq!(account["metadata"], json!({"name": "a", "namespace": "ns"}));
    assert_eq!(role["rules"], rules());
    for object in [role, binding] {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["olm.owner"], "x.v1");
        assert_eq!(labels["olm.owner.namespace"], "ns");
        assert_eq!(labels["olm.owner.kind"], "ClusterServiceVersion");
        assert_eq!(object["metadata"]["namespace"], "ns");
    }
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]});
    assert_eq!(binding["roleRef"], reference);
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "a", "namespace": "ns"}]));
}

#[test]
fn account_is_made_once_and_the_default_one_never() {
    let strategy = StrategyDetails {
        permissions: vec![permissions("b", json!([])), permissions("default", json!([]))],
        cluster_permissions: vec![permissions("b", rules()), permissions("a", rules())],
        ..StrategyDetails::default()
    };
    let objects = objects("x.v1", "ns", &strategy);
    let kinds: Vec<String> = names(&objects).iter().map(|it| it.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(
        kinds,
        [
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
        ]
    );
    assert!(objects.iter().all(|it| it["kind"] != "ClusterRole" || it["metadata"]["namespace"].is_null()));
}

#[test]
fn same_permission_of_another_version_namespace_or_rule_has_another_name() {
    let name = |csv: &str, namespace: &str, rules: Value| {
        let strategy =
            StrategyDetails { cluster_permissions: vec![permissions("a", rules)], ..StrategyDetails::default() };
        names(&objects(csv, namespace, &strategy))[1].clone()
    };
    let one = name("x.v1", "ns", rules());
    assert_eq!(one, name("x.v1", "ns", rules()));
    for other in [name("x.v2", "ns", rules()), name("x.v1", "other", rules()), name("x.v1", "ns", json!([]))] {
        assert_ne!(one, other);
    }
}

/// Cases that other programs are known by.
#[test]
fn names_are_those_that_are_published() {
    for (base, of, expected) in [
        ("myname".to_owned(), vec!["something"], "myname-5L9sNXi3Y6mcOevFzYY3WOLIukKOeZwz1pfUlT"),
        (
            "name".repeat(100),
            vec!["something", "else"],
            "namenamenamenamenamename-6XtefCelEzfYlFOD1fARIK5vhWVfWfGHja7H3q",
        ),
    ] {
        assert_eq!(generated(&base, &hash(&of, "\n")), expected);
    }
}

#[test]
fn each_permission_has_a_role_and_a_binding_of_its_own() {
    let pods = || json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let deployments = json!([{"apiGroups": [""], "resources": ["deployments"], "verbs": ["get"]}]);
    let [one, two] = ["test-service-account", "second-service-account"];
    let in_both = StrategyDetails {
        permissions: vec![permissions(one, pods()), permissions(one, deployments), permissions(two, pods())],
        cluster_permissions: vec![permissions(one, pods())],
        ..StrategyDetails::default()
    };
    let of_cluster = StrategyDetails {
        cluster_permissions: vec![permissions(one, pods()), permissions(two, pods())],
        ..StrategyDetails::default()
    };
    let mut all = Vec::new();
    for (name, namespace, strategy, expected) in [
        ("roles and a cluster role", "test-namespace", in_both, [(one, 2, 1), (two, 1, 0)]),
        ("cluster roles, with what is installed elsewhere", "second-namespace", of_cluster, [(one, 0, 1), (two, 0, 1)]),
    ] {
        let objects = objects("test-csv.v1.1.0", namespace, &strategy);
        for (account, bindings, cluster_bindings) in expected {
            let of = |kind: &str| {
                objects.iter().filter(|it| it["kind"] == kind && it["subjects"][0]["name"] == account).count()
            };
            assert_eq!((of("RoleBinding"), of("ClusterRoleBinding")), (bindings, cluster_bindings), "{name}");
        }
        all.extend(names(&objects).into_iter().filter(|name| !name.starts_with("ServiceAccount")));
    }
    let different: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "{all:?}");
}

#[test]
fn names_are_not_too_long() {
    for length in [1, 20, 24, 25, 60, 300] {
        let csv = "ä".repeat(length);
        let strategy = StrategyDetails { permissions: vec![permissions("a", rules())], ..StrategyDetails::default() };
        let name = names(&objects(&csv, "ns", &strategy))[1].clone();
        assert!(name.len() <= "Role ".len() + 64, "{name}");
    }
    assert_eq!(base_62(&[0, 0]), "0");
    assert_eq!(base_62(&[1, 0]), "48");
}
