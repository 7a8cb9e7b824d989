//! Single rollouts over objects that another client changed: privileges, null and empty values of a manifest, lists to
//! which others may add.

use super::Server;
use cvo::testing::merge::{self, MANAGER, Outcome};
use e2e::manifests::extensions::BUNDLE;
use http::Method;
use serde_json::{Value, json};

/// A rollout: where the kind is served, the object that exists, the manifest, and what is there afterwards, by pointers;
/// nothing where nothing may be written.
#[derive(Clone)]
struct Single {
    what: &'static str,
    path: &'static str,
    api_version: &'static str,
    kind: &'static str,
    live: Value,
    manifest: Value,
    expected: Vec<(&'static str, Value)>,
}

/// The body of a Deployment with these fields of its pods, and of their container.
fn workload(strategy: Value, pod: Value, container: Value) -> Value {
    let mut pods = json!({"containers": [{"name": "c", "image": "r.example/a"}]});
    pods["containers"][0].as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    pods.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
    json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "strategy": strategy,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pods}}})
}

fn deployment(what: &'static str, live: Value, manifest: Value, expected: Vec<(&'static str, Value)>) -> Single {
    let path = "/apis/apps/v1/namespaces/merge-deployments/deployments";
    Single { what, path, api_version: "apps/v1", kind: "Deployment", live, manifest, expected }
}

fn privileges() -> Vec<Single> {
    let of = |container: Value, pod: Value| {
        workload(json!({}), json!({"securityContext": pod}), json!({"securityContext": container}))
    };
    let options = json!({"seLinuxOptions": {"type": "spc_t"}});
    let granted = json!({"capabilities": {"add": ["SYS_ADMIN"]}, "seLinuxOptions": {"type": "spc_t"}});
    let live = || of(granted.clone(), options.clone());
    let context = "/spec/template/spec/containers/0/securityContext";
    let pod = "/spec/template/spec/securityContext";
    let some = json!({"capabilities": {"drop": ["KILL"]}});
    vec![
        deployment(
            "privileges without a block of the manifest",
            live(),
            of(json!({"runAsUser": 7}), json!({"runAsUser": 8})),
            vec![(context, json!({"runAsUser": 7})), (pod, json!({"runAsUser": 8}))],
        ),
        deployment(
            "privileges in a block of the manifest",
            live(),
            of(some, json!({"seLinuxOptions": {"level": "s0"}})),
            vec![
                (context, json!({"capabilities": {"add": ["SYS_ADMIN"], "drop": ["KILL"]}})),
                (pod, json!({"seLinuxOptions": {"type": "spc_t", "level": "s0"}})),
            ],
        ),
    ]
}

fn nulls() -> Vec<Single> {
    let container = |value: Value, read_only: Value, path: Value| {
        let mounts = json!([{"name": "v", "mountPath": "/v", "readOnly": read_only, "subPath": path}]);
        let container = json!({"env": [{"name": "E", "value": value}], "volumeMounts": mounts});
        workload(json!({}), json!({"volumes": [{"name": "v"}]}), container)
    };
    let urls = |urls: Value, resources: Value| json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": resources, "nonResourceURLs": urls}]});
    let from = |from: Value| json!({"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 1}], "from": from}]}});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let policies = "/apis/networking.k8s.io/v1/namespaces/merge-networkpolicies/networkpolicies";
    let one = Single {
        what: "null in the rule of a role",
        path: rbac,
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        live: json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}]}),
        manifest: urls(json!(null), json!(["pods"])),
        expected: vec![("/rules", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]))],
    };
    let other = Single {
        what: "null instead of the peers of a network policy",
        path: policies,
        api_version: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        live: from(json!([{"podSelector": {}}])),
        manifest: from(json!(null)),
        expected: vec![("/spec/ingress/0", json!({"ports": [{"port": 1, "protocol": "TCP"}]}))],
    };
    let pods = deployment(
        "null in a variable and in a mount",
        container(json!("drifted"), json!(true), json!("x")),
        container(json!(null), json!(null), json!(null)),
        vec![
            ("/spec/template/spec/containers/0/env", json!([{"name": "E"}])),
            ("/spec/template/spec/containers/0/volumeMounts", json!([{"name": "v", "mountPath": "/v"}])),
        ],
    );
    vec![one, other, pods, conditions()]
}

fn webhook(name: &str, fields: Value) -> Value {
    let mut webhook = json!({"name": name, "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    webhook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    webhook
}

fn webhooks(what: &'static str, live: Value, manifest: Value, expected: Vec<(&'static str, Value)>) -> Single {
    Single {
        what,
        path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        api_version: "admissionregistration.k8s.io/v1",
        kind: "ValidatingWebhookConfiguration",
        live,
        manifest,
        expected,
    }
}

fn conditions() -> Single {
    let of = |conditions: Value| json!({"webhooks": [webhook("a.b.c", json!({"matchConditions": conditions}))]});
    let never = json!([{"name": "never", "expression": "false"}]);
    webhooks(
        "null instead of conditions",
        of(never),
        of(json!(null)),
        vec![("/webhooks/0/matchConditions", json!(null))],
    )
}

fn bundles() -> Single {
    let injected = json!({"annotations": {"service.beta.openshift.io/inject-cabundle": "true"}});
    let of = |first: Value| json!({"metadata": injected, "webhooks": [webhook("a.b.c", first), webhook("d.e.f", json!({}))]});
    let client = json!({"service": {"name": "s", "namespace": "n"}, "caBundle": BUNDLE.trim()});
    webhooks(
        "one CA bundle and injection",
        of(json!({})),
        of(json!({"clientConfig": client})),
        vec![
            ("/webhooks/0/clientConfig/caBundle", json!(BUNDLE.trim())),
            ("/webhooks/1/clientConfig/caBundle", json!(null)),
        ],
    )
}

/// Values that the server fills in, and lists to which others may add.
fn empty_and_foreign() -> Vec<Single> {
    let class =
        |name: &str| workload(json!({"type": ""}), json!({"priorityClassName": name}), json!({"workingDir": ""}));
    let lists = |secret: &str, alias: Value| {
        workload(json!({}), json!({"imagePullSecrets": [{"name": secret}], "hostAliases": alias}), json!({}))
    };
    let foreign = json!({"ip": "10.0.0.9", "hostnames": ["foreign.example"]});
    let [old, new] = ["old", "new"].map(|name| json!({"ip": "10.0.0.1", "hostnames": [format!("{name}.example")]}));
    vec![
        deployment("empty type of a strategy, empty priority class", class("shop"), class(""), vec![]),
        Single {
            what: "empty policy types",
            path: "/apis/networking.k8s.io/v1/namespaces/merge-networkpolicies/networkpolicies",
            api_version: "networking.k8s.io/v1",
            kind: "NetworkPolicy",
            live: json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
            manifest: json!({"spec": {"podSelector": {}, "policyTypes": []}}),
            expected: vec![],
        },
        Single {
            what: "empty type of a secret",
            path: "/api/v1/namespaces/merge-secrets/secrets",
            api_version: "v1",
            kind: "Secret",
            live: json!({"type": ""}),
            manifest: json!({"type": ""}),
            expected: vec![],
        },
        deployment(
            "foreign pull secrets and host aliases",
            lists("foreign", json!([foreign, old])),
            lists("own", json!([new])),
            vec![
                ("/spec/template/spec/imagePullSecrets", json!([{"name": "foreign"}, {"name": "own"}])),
                ("/spec/template/spec/hostAliases", json!([foreign, new])),
            ],
        ),
        bundles(),
    ]
}

/// Only where a release with its definition is at hand.
fn operator_group() -> Single {
    Single {
        what: "no spec",
        path: "/apis/operators.coreos.com/v1/namespaces/merge-operatorgroups/operatorgroups",
        api_version: "operators.coreos.com/v1",
        kind: "OperatorGroup",
        live: json!({"spec": {"targetNamespaces": ["foreign"], "upgradeStrategy": "TechPreviewUnsafeFailForward"}}),
        manifest: json!({}),
        expected: vec![("/spec", json!({"upgradeStrategy": "Default"}))],
    }
}

/// The problems.
pub(super) async fn rollouts(server: &Server) -> Vec<String> {
    let mut all = [privileges(), nulls(), empty_and_foreign()].concat();
    if e2e::real_payload::manifests().is_some() {
        all.push(operator_group());
    } else {
        println!("without the operator group: no release is at hand");
    }
    let mut problems = Vec::new();
    for (number, single) in all.iter().enumerate() {
        problems.extend(single.check(server, &format!("single{number}")).await);
    }
    println!("{} single rollouts", all.len());
    problems
}

impl Single {
    fn object(&self, body: &Value, name: &str) -> Value {
        let mut object = body.clone();
        object["apiVersion"] = json!(self.api_version);
        object["kind"] = json!(self.kind);
        object["metadata"]["name"] = json!(name);
        if let Some((_, rest)) = self.path.split_once("/namespaces/") {
            object["metadata"]["namespace"] = json!(rest.split('/').next().unwrap());
        }
        object
    }

    /// What is wrong. There is one write at most, none where nothing is expected.
    async fn check(&self, server: &Server, name: &str) -> Vec<String> {
        let Self { what, expected, .. } = self;
        let desired = self.object(&self.manifest, name);
        let live = server.call(Method::POST, self.path, Some(&self.object(&self.live, name))).await.unwrap();
        let Outcome::Changed { object, fields } = merge::merge(&live, &desired, MANAGER).unwrap() else {
            return if expected.is_empty() { Vec::new() } else { vec![format!("{what}: nothing is written")] };
        };
        if expected.is_empty() {
            return vec![format!("{what}: {fields:?} are written")];
        }
        let path = format!("{}/{name}", self.path);
        let written = server.call(Method::PUT, &path, Some(&object)).await.unwrap();
        let at = |pointer: &str| written.pointer(pointer).unwrap_or(&Value::Null);
        let wrong = expected.iter().filter(|(pointer, value)| at(pointer) != value);
        let mut problems: Vec<String> =
            wrong.map(|(pointer, _)| format!("{what}: {pointer} is {}", at(pointer))).collect();
        if let Ok(Outcome::Changed { fields, .. }) = merge::merge(&written, &desired, MANAGER) {
            problems.push(format!("{what}: a second rollout writes {fields:?}"));
        }
        problems
    }
}
