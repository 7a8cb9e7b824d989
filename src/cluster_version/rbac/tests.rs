use super::*;
use crate::release::{LoadOptions, PayloadFiles, SourceFile, load};
use serde_json::json;

/// The manifests of a release with these objects, each in a file `0.json` and so on.
fn release(objects: &[Value]) -> Vec<Arc<Manifest>> {
    let file = |name: &str, content: &Value| SourceFile { name: name.to_owned(), bytes: content.to_string().into() };
    let mut files = vec![
        file("release-metadata", &json!({"kind": "cincinnati-metadata-v0", "version": "1.0.0"})),
        file(
            "image-references",
            &json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.0.0"}}),
        ),
    ];
    for (number, object) in objects.iter().enumerate() {
        let mut object = object.clone();
        object["metadata"]["annotations"]["include.release.openshift.io/self-managed-high-availability"] =
            "true".into();
        files.push(file(&format!("{number}.json"), &object));
    }
    let options = LoadOptions { image: "r/release:1.0.0".into(), ..LoadOptions::default() };
    load(PayloadFiles { place: "/p".into(), release: files, ..PayloadFiles::default() }, &options).unwrap().manifests
}

fn rights(objects: &[Value]) -> Rights {
    Rights::needed("own", "version", &release(objects))
}

/// The rules of a namespace, of one API group, as `verbs resources names`.
fn rules(rights: &Rights, namespace: &str, group: &str) -> Vec<String> {
    let words = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
    let roles = rights.roles();
    let role = roles.iter().find(|role| role.namespace == namespace);
    let rules = role.into_iter().flat_map(|role| &role.rules).filter(|rule| rule.api_groups == [group]);
    rules.map(|r| format!("{} {} {}", words(&r.verbs), words(&r.resources), words(&r.resource_names))).collect()
}

/// Verb, resource, name and causes of what is as good as cluster-admin.
fn powerful(rights: &Rights) -> Vec<String> {
    let text = |Powerful { right, causes, .. }: Powerful| {
        format!("{} {} {}: {}", right.verb, right.resource, right.name, Vec::from_iter(causes).join("; "))
    };
    rights.powerful().into_iter().map(text).collect()
}

const CLUSTER_ROLE: &str = "ClusterRole";

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    let mut role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules});
    if !namespace.is_empty() {
        role["metadata"]["namespace"] = namespace.into();
    }
    role
}

fn binding(kind: &str, namespace: &str, to: (&str, &str)) -> Value {
    let mut binding = role(kind, namespace, "b", Value::Null);
    binding.as_object_mut().unwrap().remove("rules");
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": to.0, "name": to.1});
    binding
}

#[test]
fn objects_are_read_by_kind_and_written_by_name() {
    let deployment = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"selector": {}, "template": {}}})
    };
    let network = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n", "namespace": "ns"}, "spec": {}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns"}, "spec": {"template": {}}});
    let mut gone = deployment("gone");
    gone["metadata"]["annotations"]["release.openshift.io/delete"] = "true".into();
    let rights = rights(&[deployment("a"), deployment("b"), gone, network, job]);
    assert_eq!(rules(&rights, "", "apps"), ["list,watch deployments "]);
    assert_eq!(
        rules(&rights, "ns", "apps"),
        ["create deployments ", "get,update deployments a,b", "delete,get deployments gone"]
    );
    assert_eq!(
        rules(&rights, "ns", "batch"),
        ["create jobs ", "delete,get,update jobs j"],
        "it may have to be replaced"
    );
    let written = rules(&rights, "ns", "networking.k8s.io");
    assert_eq!(written.last().unwrap().rsplit(' ').next(), Some("n"));
    assert!(written[0].starts_with("create networkpolicies"), "{written:?}");
    assert_eq!(powerful(&rights), Vec::<String>::new());
}

#[test]
fn resources_are_named_as_the_release_defines_them() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "oxen.lab.example.com"}, "spec": {"group": "lab.example.com", "scope": "Namespaced",
        "names": {"kind": "Ox", "plural": "oxen"}, "versions": [{"name": "v1", "served": true, "storage": true}]}});
    let ox = json!({"apiVersion": "lab.example.com/v1", "kind": "Ox", "metadata": {"name": "o", "namespace": "ns"}});
    assert_eq!(
        rules(&rights(&[definition, ox]), "ns", "lab.example.com"),
        ["create oxen ", "get,patch,update oxen o"],
        "a kind without merge rules is applied"
    );
    for (kind, plural) in [("Ingress", "ingresses"), ("APIService", "apiservices"), ("Gateway", "gateways")] {
        assert_eq!(plural::of(kind), plural);
    }
}

#[test]
fn daemon_has_what_its_roles_and_bindings_grant() {
    let reads = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let rights = rights(&[
        role(CLUSTER_ROLE, "", "reader", reads),
        role(
            "Role",
            "ns",
            "local",
            json!([{"apiGroups": ["x"], "resources": ["y"], "verbs": ["get", "list"], "resourceNames": ["z"]}]),
        ),
        binding("RoleBinding", "ns", (CLUSTER_ROLE, "view")),
        binding("ClusterRoleBinding", "", (CLUSTER_ROLE, "reader")),
    ]);
    assert!(rules(&rights, "", "").contains(&"get,list,watch nodes,pods ".to_owned()), "{:?}", rules(&rights, "", ""));
    assert_eq!(rules(&rights, "ns", "x"), ["get,list y z"]);
    assert!(
        rules(&rights, "ns", RBAC).contains(&"bind clusterroles view".to_owned()),
        "its rules are not in the release"
    );
    let paths: Vec<_> = rights.roles()[0].rules.iter().flat_map(|rule| rule.paths.clone()).collect();
    assert_eq!(paths, ["/metrics"]);
    assert_eq!(powerful(&rights), Vec::<String>::new());
}

#[test]
fn rights_as_good_as_cluster_admin_are_marked_with_what_needs_them() {
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let aggregated = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": []}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}});
    let found =
        powerful(&rights(&[secret, aggregated, binding("ClusterRoleBinding", "", (CLUSTER_ROLE, "cluster-admin"))]));
    assert_eq!(
        found,
        [
            "list secrets : secret \"ns/s\" in 0.json",
            "watch secrets : secret \"ns/s\" in 0.json",
            "bind clusterroles cluster-admin: clusterrolebinding.rbac.authorization.k8s.io \"b\" in 2.json",
            "escalate clusterroles sum: clusterrole.rbac.authorization.k8s.io \"sum\" in 1.json",
        ]
    );
    let found = powerful(&rights(&[role(CLUSTER_ROLE, "", "admin", everything)]));
    assert_eq!(found, ["* * : clusterrole.rbac.authorization.k8s.io \"admin\" in 0.json"], "it covers everything else");
}

#[test]
fn every_right_as_good_as_cluster_admin_is_known() {
    let admission = "admissionregistration.k8s.io";
    let table: [(&str, &str, &[&str], &[&str]); 9] = [
        (admission, "mutatingwebhookconfigurations", &["create", "delete", "get"], &["create"]),
        (admission, "validatingwebhookconfigurations", &["patch"], &["patch"]),
        (admission, "validatingadmissionpolicies", &["create"], &[]),
        ("apiregistration.k8s.io", "apiservices", &["create", "update"], &["create", "update"]),
        ("apiextensions.k8s.io", "customresourcedefinitions", &["create", "update"], &["update"]),
        ("security.openshift.io", "securitycontextconstraints", &["use"], &["use"]),
        ("", "persistentvolumes", &["create", "update"], &["create"]),
        ("", "secrets", &["create"], &[]),
        ("", "secrets", &["create", "watch"], &["create", "watch"]),
    ];
    for (group, resource, verbs, expected) in table {
        let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}]);
        let found = rights(&[role(CLUSTER_ROLE, "", "a", rules)]).powerful();
        let found: Vec<_> = found.iter().map(|powerful| powerful.right.verb.as_str()).collect();
        assert_eq!(found, expected, "{resource} {verbs:?}");
        let named = json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs, "resourceNames": ["n"]}]);
        assert_eq!(powerful(&rights(&[role(CLUSTER_ROLE, "", "a", named)])), Vec::<String>::new());
    }
}

#[test]
fn secrets_that_are_created_where_all_are_read_give_the_tokens_of_a_namespace() {
    let local = |namespace: &str, verbs: &[&str]| {
        role("Role", namespace, "a", json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}]))
    };
    let found =
        powerful(&rights(&[local("one", &["create", "get"]), local("two", &["create"]), local("three", &["get"])]));
    assert_eq!(found, ["create secrets : role.rbac.authorization.k8s.io \"one/a\" in 0.json"]);
}

#[test]
fn only_what_the_target_adds_is_new() {
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}});
    let (before, after) = (rights(&[map("a")]), rights(&[map("a"), map("b")]));
    let new: Vec<_> = after.beyond(&before).map(|right| format!("{} {}", right.verb, right.name)).collect();
    assert_eq!(new, ["get b", "update b"]);
    assert_eq!(before.beyond(&after).count(), 0);
}

#[test]
fn each_role_has_its_namespace_before_it_and_a_binding_to_the_daemon() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
    let objects = objects(&rights(&[map]).roles(), "own");
    let at = |kind: &str, namespace: &str, name: &str| {
        let text = |o: &Value, path: &str| o.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let is = |o: &Value| {
            (text(o, "/kind"), text(o, "/metadata/namespace"), text(o, "/metadata/name"))
                == (kind.into(), namespace.into(), name.into())
        };
        objects.iter().position(is).unwrap_or_else(|| panic!("{kind} {namespace}/{name}"))
    };
    let role = at("Role", "ns", "cluster-version-operator-release");
    assert!(at("Namespace", "", "ns") < role);
    let binding = &objects[at("RoleBinding", "ns", "cluster-version-operator-release")];
    assert_eq!(binding["roleRef"]["name"], objects[role]["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], "own");
    at("ClusterRoleBinding", "", "cluster-version-operator-release");
}
