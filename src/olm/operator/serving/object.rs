//! What makes the API server reach a Deployment, and what its pods need to answer it: a Service, and what they may read.

use super::endpoint::{Endpoint, secret, secret_of, service, service_of};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::operator::component::{Id, Kind, Known};
use crate::olm::operator::deployment::{labels, owner_reference};
use crate::olm::permissions::DEFAULT_ACCOUNT;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Where every program that serves an API reads whom to believe.
const SYSTEM: &str = "kube-system";
const READER: &str = "extension-apiserver-authentication-reader";
const DELEGATOR: &str = "system:auth-delegator";

/// Metadata of an object that goes with its version.
pub(super) fn owned(csv: &ClusterServiceVersion, name: &str) -> Value {
    json!({"name": name, "namespace": csv.metadata.namespace, "labels": labels(csv),
        "ownerReferences": [owner_reference(csv)]})
}

/// Service, and the roles of the account of the pods. `known`: what there is.
pub(super) fn objects(csv: &ClusterServiceVersion, endpoint: &Endpoint<'_>, known: &Known) -> [Value; 5] {
    let name = endpoint.entry.name.as_str();
    let (service, secret) = (service(name), secret(name));
    let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": owned(csv, &secret),
        "rules": certificate_rules(&secret)});
    let account = endpoint.entry.spec.pointer("/template/spec/serviceAccountName").and_then(Value::as_str);
    let account = account.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_ACCOUNT);
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": csv.metadata.namespace});
    let binding = |kind: &str, metadata: Value, role: (&str, &str)| {
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "subjects": [subject],
            "roleRef": {"apiGroup": RBAC, "kind": role.0, "name": role.1}})
    };
    // What is in another namespace or in none cannot name its owner but in labels.
    let asking = name_of((Kind::ClusterRoleBinding, "", delegator(&service)), csv, known);
    let asking = json!({"name": asking, "labels": labels(csv)});
    let reading = name_of((Kind::RoleBinding, SYSTEM, reader(&service)), csv, known);
    let reading = json!({"name": reading, "namespace": SYSTEM, "labels": labels(csv)});
    [
        service_object(csv, endpoint, &service),
        role,
        binding("RoleBinding", owned(csv, &secret), ("Role", &secret)),
        binding("ClusterRoleBinding", asking, ("ClusterRole", DELEGATOR)),
        binding("RoleBinding", reading, ("Role", READER)),
    ]
}

/// What the Role of pods lets them do: read this Secret.
fn certificate_rules(secret: &str) -> Value {
    json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}])
}

/// The Service of which pods read the certificate by this Role; `None` where it is the Role of something else.
pub(super) fn service_of_role<'a>(role: &'a Id, known: &Known) -> Option<&'a str> {
    let rules = known.get(role)?.get("rules")?;
    service_of(&role.name).filter(|_| *rules == certificate_rules(&role.name))
}

fn delegator(service: &str) -> String {
    format!("{service}-{DELEGATOR}")
}

fn reader(service: &str) -> String {
    format!("{service}-auth-reader")
}

/// Whatever of a Service there may be but the Role.
pub(super) fn of_service(csv: &ClusterServiceVersion, service: &str) -> [Id; 6] {
    let own = csv.metadata.namespace.as_deref().unwrap_or_default();
    let id = |kind: Kind, namespace: &str, name: String| Id { kind, namespace: namespace.to_owned(), name };
    let (asking, reading) = (delegator(service), reader(service));
    [
        id(Kind::Service, own, service.to_owned()),
        id(Kind::RoleBinding, own, secret_of(service)),
        id(Kind::ClusterRoleBinding, "", second(own, &asking)),
        id(Kind::ClusterRoleBinding, "", asking),
        id(Kind::RoleBinding, SYSTEM, second(own, &reading)),
        id(Kind::RoleBinding, SYSTEM, reading),
    ]
}

/// The name of a binding where another namespace has one of the first name.
fn second(namespace: &str, name: &str) -> String {
    format!("{namespace}.{name}")
}

/// Operators of several namespaces may have Deployments of one name. Where the binding of that name is of another namespace, the own
/// namespace stands in the name, and stays there.
fn name_of((kind, at, name): (Kind, &str, String), csv: &ClusterServiceVersion, known: &Known) -> String {
    let own = csv.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = |name: &str| {
        known.owner(&Id { kind, namespace: at.to_owned(), name: name.to_owned() }).map(|owner| owner.namespace)
    };
    let second = second(own, &name);
    let is_taken = namespace(&name).is_some_and(|other| other != own);
    if is_taken || namespace(&second).is_some_and(|other| other == own) { second } else { name }
}

fn service_object(csv: &ClusterServiceVersion, endpoint: &Endpoint<'_>, name: &str) -> Value {
    let port = |(port, target): (&i32, &_)| json!({"name": port.to_string(), "port": port, "targetPort": target});
    let ports: Vec<Value> = endpoint.ports.iter().map(port).collect();
    let selector = endpoint.entry.spec.pointer("/selector/matchLabels");
    json!({"apiVersion": "v1", "kind": "Service", "metadata": owned(csv, name),
        "spec": {"type": "ClusterIP", "ports": ports, "selector": selector}})
}
