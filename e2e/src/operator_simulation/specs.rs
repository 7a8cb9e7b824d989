//! Objects that users and plans write, made at random.

use super::store::text;
use crate::random::SeededRandom;
use serde_json::{Value, json};

pub(super) const NAMESPACES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const PACKAGES: [&str; 3] = ["a", "b", "c"];
const MODES: [&str; 4] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
/// A Deployment with this image never becomes ready.
pub(super) const CRASHES: &str = "crash";

/// Name of a version of a package.
fn version(package: &str, number: usize) -> String {
    format!("{package}.v{number}")
}

pub(super) fn any_namespace(random: &SeededRandom) -> &'static str {
    random.pick(&NAMESPACES)
}

/// Name of the definition of a package.
pub(super) fn definition_name(package: &str) -> String {
    format!("{package}s.example.com")
}

pub(super) fn definition(name: &str) -> Value {
    let plural = name.split('.').next().unwrap_or_default();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": "example.com", "names": {"plural": plural}, "versions": [{"name": "v1", "served": true}]}})
}

fn entry(name: &str, image: &str, replicas: Option<usize>) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": image}]}}});
    if let Some(replicas) = replicas {
        spec["replicas"] = replicas.into();
    }
    json!({"name": name, "label": {"app": name}, "spec": spec})
}

/// A ClusterServiceVersion of some package in some version, with what it replaces.
pub(super) fn csv(random: &SeededRandom, namespace: &str) -> Value {
    let package = random.pick(&PACKAGES);
    let number = 1 + random.below(4);
    let mut replaces = if number > 1 { version(package, number - 1) } else { String::new() };
    match random.below(20) {
        // It names itself, one that comes later, or another operator.
        0 => replaces = version(package, number),
        1 => replaces = version(package, 1 + random.below(4)),
        2 => replaces = version(random.pick(&PACKAGES), 1 + random.below(4)),
        _ => {}
    }
    let mut csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": version(package, number), "namespace": namespace},
        "spec": {"version": format!("{number}.0.0"), "replaces": replaces, "installModes": modes(random),
            "install": {"strategy": "deployment", "spec": strategy(random, package, number)}}});
    csv["spec"]["customresourcedefinitions"] = definitions(random, package);
    if random.chance(10) {
        let api = json!({"name": format!("{package}ps"), "group": format!("{package}.example.com"), "version": "v1",
            "kind": "P", "deploymentName": package, "containerPort": 443});
        csv["spec"]["apiservicedefinitions"] = json!({"owned": [api]});
    }
    if random.chance(10) {
        csv["spec"]["webhookdefinitions"] = json!([{"generateName": format!("{package}.example.com"),
            "type": "ValidatingAdmissionWebhook", "deploymentName": package, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": [format!("{package}s")]}]}]);
    }
    if random.chance(3) {
        csv["spec"]["install"]["strategy"] = "helm".into();
    }
    if random.chance(3) {
        csv["spec"]["minKubeVersion"] = random.pick(&["1.99.0", "x"]).into();
    }
    csv
}

fn modes(random: &SeededRandom) -> Value {
    let mode = |name: &str, supported: bool| json!({"type": name, "supported": supported});
    let mut modes: Vec<Value> = match random.below(3) {
        0 => MODES.iter().map(|name| mode(name, random.chance(50))).collect(),
        _ => MODES.iter().map(|name| mode(name, true)).collect(),
    };
    if random.chance(3) {
        modes.push(mode("OwnNamespace", true));
    }
    modes.into()
}

fn strategy(random: &SeededRandom, package: &str, number: usize) -> Value {
    let image = if random.chance(8) { CRASHES.to_owned() } else { format!("{package}:{number}") };
    let replicas = random.pick(&[None, Some(1), Some(2)]);
    let mut deployments = vec![entry(package, &image, replicas)];
    if random.chance(25) {
        deployments.push(entry(&format!("{package}-{}", random.below(2)), "second:1", Some(1)));
    }
    let rule = |verbs: &[&str], resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    let permission = |rules: Value| json!({"serviceAccountName": format!("sa-{package}"), "rules": rules});
    let mut strategy = json!({"deployments": deployments});
    if random.chance(60) {
        strategy["permissions"] = json!([permission(json!([rule(&["get", "list"], "configmaps")]))]);
    }
    if random.chance(30) {
        strategy["clusterPermissions"] = json!([permission(json!([rule(&["get"], "nodes")]))]);
    }
    strategy
}

fn definitions(random: &SeededRandom, package: &str) -> Value {
    let described =
        |package: &str| json!({"name": definition_name(package), "version": "v1", "kind": package.to_uppercase()});
    let mut definitions = json!({});
    let mut owned = Vec::new();
    if random.chance(80) {
        owned.push(described(package));
    }
    if random.chance(8) {
        owned.push(described(random.pick(&PACKAGES)));
    }
    if !owned.is_empty() {
        definitions["owned"] = owned.into();
    }
    if random.chance(10) {
        definitions["required"] = json!([described(random.pick(&PACKAGES))]);
    }
    definitions
}

/// What an administrator writes into an OperatorGroup.
pub(super) fn group_spec(random: &SeededRandom, namespace: &str) -> Value {
    let mut spec = match random.below(16) {
        0..3 => json!({}),
        3 => json!({"selector": {}}),
        4..7 => json!({"targetNamespaces": [namespace]}),
        7..9 => json!({"targetNamespaces": [any_namespace(random)]}),
        9..11 => json!({"targetNamespaces": [any_namespace(random), any_namespace(random), namespace]}),
        11..13 => json!({"selector": {"matchLabels": {"team": random.pick(&["x", "y"])}}}),
        13 => json!({"selector": {"team": random.pick(&["x", "y", "nobody"])}}),
        14 => {
            json!({"selector": {"matchExpressions": [{"key": "team", "operator": random.pick(&["Exists", "DoesNotExist"])}]}})
        }
        _ => json!({"selector": {"matchLabels": {"team": "nobody"}}}),
    };
    if random.chance(2) {
        spec["targetNamespaces"] = json!(["", namespace]);
    }
    if random.chance(15) {
        spec["staticProvidedAPIs"] = true.into();
    }
    if random.chance(8) {
        spec["serviceAccountName"] = "installer".into();
    }
    if random.chance(25) {
        spec["upgradeStrategy"] = "TechPreviewUnsafeFailForward".into();
    }
    spec
}

pub(super) fn group(random: &SeededRandom, namespace: &str, name: &str) -> Value {
    let mut group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": name, "namespace": namespace}, "spec": group_spec(random, namespace)});
    if random.chance(15) {
        group["metadata"]["annotations"] = json!({"olm.providedAPIs": some_apis(random)});
    }
    group
}

/// As an administrator may write them into the annotation of a group.
pub(super) fn some_apis(random: &SeededRandom) -> String {
    let apis = PACKAGES.iter().filter(|_| random.chance(40)).map(|it| format!("{}.v1.example.com", it.to_uppercase()));
    apis.collect::<Vec<_>>().join(",")
}

pub(super) fn namespace(random: &SeededRandom, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "finalizers": ["kubernetes"], "labels": labels(random)}})
}

pub(super) fn labels(random: &SeededRandom) -> Value {
    match random.below(3) {
        0 => json!({}),
        at => json!({"team": if at == 1 { "x" } else { "y" }}),
    }
}

/// The account of a version with its roles and their bindings, as a plan makes them.
pub(super) fn permissions(csv: &Value) -> Vec<(&'static str, Value)> {
    let (namespace, name) = (text(csv, "/metadata/namespace"), text(csv, "/metadata/name"));
    let owner = owner(csv);
    let labels = json!({"olm.owner": name, "olm.owner.namespace": namespace, "olm.owner.kind": "ClusterServiceVersion",
        "olm.managed": "true",
        "olm.operatorframework.io/for-targets": "true"});
    let mut objects = Vec::new();
    for (list, role, binding) in
        [("permissions", "Role", "RoleBinding"), ("clusterPermissions", "ClusterRole", "ClusterRoleBinding")]
    {
        let all = csv.pointer(&format!("/spec/install/spec/{list}")).and_then(Value::as_array);
        for (at, permission) in all.into_iter().flatten().enumerate() {
            let account = text(permission, "/serviceAccountName");
            let own = if role == "Role" { json!([owner]) } else { json!([]) };
            let metadata = json!({"name": format!("{name}-{namespace}-{}-{at}", role.to_lowercase()), "namespace": namespace, "labels": labels,
                "ownerReferences": own});
            let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
            let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": metadata["name"]});
            let rbac = "rbac.authorization.k8s.io/v1";
            objects.push((
                "ServiceAccount",
                json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": namespace, "ownerReferences": [owner]}}),
            ));
            objects.push((
                role,
                json!({"apiVersion": rbac, "kind": role, "metadata": metadata, "rules": permission["rules"]}),
            ));
            objects.push((
                binding,
                json!({"apiVersion": rbac, "kind": binding, "metadata": metadata, "roleRef": reference,
                "subjects": [subject]}),
            ));
        }
    }
    objects
}

pub(super) fn owner(csv: &Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": csv["metadata"]["name"],
        "uid": csv["metadata"]["uid"], "controller": false, "blockOwnerDeletion": false})
}

/// One Deployment more, or all but the first gone.
pub(super) fn other_deployments(csv: &mut Value) {
    let mut deployments = csv["spec"]["install"]["spec"]["deployments"].as_array().cloned().unwrap_or_default();
    match deployments.len() {
        1 => {
            let mut second = deployments[0].clone();
            second["name"] = format!("{}-x", text(&second, "/name")).into();
            deployments.push(second);
        }
        _ => deployments.truncate(1),
    }
    csv["spec"]["install"]["spec"]["deployments"] = deployments.into();
}
