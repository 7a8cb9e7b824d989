//! What a manifest does not have, because it is missing, null or empty: parts that the payload owns are removed, others stay.

use super::server::{assert_merged, assert_same, container, pods, row};
use super::*;

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// A network policy with one rule for incoming traffic.
fn ingress(rule: Value) -> Value {
    json!({"spec": {"podSelector": {}, "ingress": [rule]}})
}

fn webhook(fields: Value) -> Value {
    let mut webhook = json!({"name": "a.b.c", "clientConfig": {"url": "https://a"}});
    webhook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"webhooks": [webhook]})
}

#[test]
fn null_in_a_part_that_is_owned_as_a_whole_means_absent() {
    let urls = |urls: Value| json!({"rules": [{"verbs": ["get"], "resources": ["pods"], "nonResourceURLs": urls}]});
    let mount =
        |key: &str, value: Value| container("volumeMounts", json!([{"mountPath": "/a", "name": "v", key: value}]));
    let toleration =
        |effect: Value| pods(json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": effect}]}));
    let peers = json!([{"podSelector": {"matchLabels": {"a": "b"}}}]);
    let conditions = json!([{"name": "c", "expression": "false"}]);
    let is_null_or_absent = |value: Option<&Value>| value.is_none_or(Value::is_null);
    for (row, pointer) in [
        (row(RBAC, "ClusterRole", urls(json!(["*"])), urls(json!(null))), "/rules/0/nonResourceURLs"),
        (
            row(
                "apps/v1",
                "Deployment",
                container("env", json!([{"name": "E", "value": "drifted"}])),
                container("env", json!([{"name": "E", "value": null}])),
            ),
            "/spec/template/spec/containers/0/env/0/value",
        ),
        (
            row("apps/v1", "DaemonSet", mount("readOnly", json!(true)), mount("readOnly", json!(null))),
            "/spec/template/spec/containers/0/volumeMounts/0/readOnly",
        ),
        (
            row("apps/v1", "StatefulSet", mount("subPath", json!("x")), mount("subPath", json!(null))),
            "/spec/template/spec/containers/0/volumeMounts/0/subPath",
        ),
        (
            row(
                "networking.k8s.io/v1",
                "NetworkPolicy",
                ingress(json!({"from": peers})),
                ingress(json!({"from": null})),
            ),
            "/spec/ingress/0/from",
        ),
        (
            row(
                ADMISSION,
                "ValidatingWebhookConfiguration",
                webhook(json!({"matchConditions": conditions})),
                webhook(json!({"matchConditions": null})),
            ),
            "/webhooks/0/matchConditions",
        ),
    ] {
        let (object, fields) = row.changed();
        assert!(is_null_or_absent(object.pointer(pointer)), "{pointer} in {object}");
        assert_eq!(fields.len(), 1, "{fields:?}");
    }
    // A toleration without an effect is another one.
    let (object, _) = row("apps/v1", "Deployment", toleration(json!("NoSchedule")), toleration(json!(null))).changed();
    assert_eq!(object.pointer("/spec/template/spec/tolerations/1/effect"), Some(&json!(null)), "{object}");
    // A custom resource as well, whose server drops the null.
    let monitor = |app: Value| json!({"spec": {"selector": {"matchLabels": {"app": app}}}});
    let (object, _) = row("example.com/v1", "Monitor", monitor(json!("x")), monitor(json!(null))).changed();
    assert_eq!(object.pointer("/spec/selector/matchLabels/app"), None);
}

#[test]
fn null_and_absent_are_the_same() {
    assert_same([
        row(
            RBAC,
            "Role",
            json!({"rules": [{"verbs": ["get"]}]}),
            json!({"rules": [{"verbs": ["get"], "resourceNames": null}]}),
        ),
        row(
            "apps/v1",
            "Deployment",
            container("env", json!([{"name": "E"}])),
            container("env", json!([{"name": "E", "value": null, "valueFrom": null}])),
        ),
        row("networking.k8s.io/v1", "NetworkPolicy", ingress(json!({})), ingress(json!({"from": null, "ports": null}))),
    ]);
}

/// What others add to a block that the manifest has stays. Without the block nobody else may grant privileges.
#[test]
fn privileges_stay_only_inside_a_block_of_the_manifest() {
    let of_container = |context: Value| container("securityContext", context);
    let of_pod = |context: Value| pods(json!({"securityContext": context}));
    let granted = json!({"capabilities": {"add": ["SYS_ADMIN"]}, "seLinuxOptions": {"type": "spc_t"}});
    let place = |field: &str| match field {
        "container capabilities" => "/spec/template/spec/containers/0/securityContext/capabilities",
        "container options" => "/spec/template/spec/containers/0/securityContext/seLinuxOptions",
        _ => "/spec/template/spec/securityContext/seLinuxOptions",
    };
    for omitted in [json!({}), json!({"runAsUser": 7}), json!({"capabilities": null, "seLinuxOptions": null})] {
        let container = || row("apps/v1", "Deployment", of_container(granted.clone()), of_container(omitted.clone()));
        let pod = || row("apps/v1", "DaemonSet", of_pod(granted.clone()), of_pod(omitted.clone()));
        assert_merged([
            (container(), place("container capabilities"), None),
            (container(), place("container options"), None),
            (pod(), place("pod options"), None),
        ]);
    }
    let some = json!({"capabilities": {"drop": ["KILL"]}, "seLinuxOptions": {"level": "s0", "user": ""}});
    assert_merged([
        (
            row("apps/v1", "Deployment", of_container(granted.clone()), of_container(some.clone())),
            place("container capabilities"),
            Some(json!({"add": ["SYS_ADMIN"], "drop": ["KILL"]})),
        ),
        (
            row("apps/v1", "Deployment", of_container(granted.clone()), of_container(some.clone())),
            place("container options"),
            Some(json!({"type": "spc_t", "level": "s0"})),
        ),
        (
            row("apps/v1", "Deployment", of_pod(granted.clone()), of_pod(some)),
            place("pod options"),
            Some(json!({"type": "spc_t", "level": "s0"})),
        ),
    ]);
    let empty = json!({"capabilities": {}, "seLinuxOptions": {}});
    assert_same([row("apps/v1", "Deployment", of_container(granted), of_container(empty))]);
}

#[test]
fn missing_spec_means_an_empty_one() {
    for none in [json!({}), json!({"spec": null}), json!({"spec": {}})] {
        assert_merged([
            (
                row(
                    "operators.coreos.com/v1",
                    "OperatorGroup",
                    json!({"spec": {"targetNamespaces": ["x"], "upgradeStrategy": "TechPreviewUnsafeFailForward"}}),
                    none.clone(),
                ),
                "/spec",
                Some(json!({"upgradeStrategy": "Default"})),
            ),
            (
                row(
                    "image.openshift.io/v1",
                    "ImageStream",
                    json!({"spec": {"lookupPolicy": {"local": true}}}),
                    none.clone(),
                ),
                "/spec/lookupPolicy",
                Some(json!({"local": false})),
            ),
            (
                row("networking.k8s.io/v1", "NetworkPolicy", ingress(json!({})), none.clone()),
                "/spec",
                Some(json!({"podSelector": {}})),
            ),
            (
                row(
                    "policy/v1",
                    "PodDisruptionBudget",
                    json!({"spec": {"minAvailable": 1, "selector": {}}}),
                    none.clone(),
                ),
                "/spec",
                Some(json!({"selector": {}})),
            ),
        ]);
        assert_same([
            row(
                "operators.coreos.com/v1",
                "OperatorGroup",
                json!({"spec": {"upgradeStrategy": "Default"}}),
                none.clone(),
            ),
            row("operators.coreos.com/v1", "OperatorGroup", json!({}), none.clone()),
            row(
                "image.openshift.io/v1",
                "ImageStream",
                json!({"spec": {"lookupPolicy": {"local": false}, "tags": [{"name": "foreign"}]}}),
                none.clone(),
            ),
        ]);
    }
}

#[test]
fn source_of_an_image_stream_tag_is_removed() {
    let tag = |tag: Value| json!({"spec": {"tags": [tag]}});
    assert_merged([(
        row(
            "image.openshift.io/v1",
            "ImageStream",
            tag(json!({"name": "a", "from": {"kind": "DockerImage", "name": "r/x"}, "generation": 2})),
            tag(json!({"name": "a"})),
        ),
        "/spec/tags/0",
        Some(json!({"name": "a", "generation": 2})),
    )]);
}

/// The API server fills them in, so that a write would change nothing.
#[test]
fn empty_value_that_the_server_fills_in_needs_no_write() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    let on_nodes = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let in_order = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    let strategy = |field: &str, strategy: Value| json!({"spec": {field: strategy}});
    let limits = |default: Value| json!({"spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}, "default": default}]}});
    let policy = |types: Value| json!({"spec": {"podSelector": {}, "policyTypes": types}});
    assert_same([
        row("apps/v1", "Deployment", strategy("strategy", rolling), strategy("strategy", json!({"type": ""}))),
        row(
            "apps/v1",
            "DaemonSet",
            strategy("updateStrategy", on_nodes),
            strategy("updateStrategy", json!({"type": ""})),
        ),
        row(
            "apps/v1",
            "StatefulSet",
            strategy("updateStrategy", in_order),
            strategy("updateStrategy", json!({"type": ""})),
        ),
        row("networking.k8s.io/v1", "NetworkPolicy", policy(json!(["Ingress"])), policy(json!([]))),
        row("v1", "Secret", json!({"type": "Opaque"}), json!({"type": ""})),
        row(
            "v1",
            "Service",
            json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Cluster"}}),
            json!({"spec": {"type": "NodePort", "externalTrafficPolicy": ""}}),
        ),
        row("v1", "LimitRange", limits(json!({"cpu": "1", "memory": "1Gi"})), limits(json!({"cpu": "1"}))),
        row("v1", "LimitRange", limits(json!({"cpu": "1"})), limits(json!({}))),
        row(
            "apps/v1",
            "Deployment",
            pods(json!({"priorityClassName": "shop"})),
            pods(json!({"priorityClassName": ""})),
        ),
        row("apps/v1", "Deployment", container("workingDir", json!("/a")), container("workingDir", json!(""))),
    ]);
    assert_merged([
        (
            row("networking.k8s.io/v1", "NetworkPolicy", policy(json!(["Egress"])), policy(json!([]))),
            "/spec/policyTypes",
            Some(json!(["Ingress"])),
        ),
        (
            row("v1", "Secret", json!({"type": "Opaque"}), json!({"type": "example.com/own"})),
            "/type",
            Some(json!("example.com/own")),
        ),
    ]);
}

#[test]
fn one_write_is_enough_for_webhooks_of_which_one_has_a_bundle() {
    let annotations = json!({"service.beta.openshift.io/inject-cabundle": "true"});
    let configuration = |first: Value, second: Value| {
        let webhook = |name: &str, client: Value| json!({"name": name, "clientConfig": client});
        json!({"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w", "annotations": annotations},
            "webhooks": [webhook("a.b.c", first), webhook("d.e.f", second)]})
    };
    let service = json!({"service": {"name": "s", "namespace": "n"}});
    let given = json!({"service": {"name": "s", "namespace": "n"}, "caBundle": "Z2l2ZW4="});
    let desired = configuration(given.clone(), service.clone());
    let (object, fields) = changed(&configuration(service.clone(), service.clone()), &desired);
    assert_eq!(fields, ["webhooks[a.b.c].clientConfig.caBundle"]);
    assert_eq!(object["webhooks"], desired["webhooks"]);
    assert_eq!(merge(&desired, &desired), Ok(Outcome::Same), "as it was created");
}

/// Other clients may add to these lists.
#[test]
fn foreign_pull_secrets_and_host_aliases_stay() {
    let with = |secrets: Value, aliases: Value| pods(json!({"imagePullSecrets": secrets, "hostAliases": aliases}));
    let foreign = json!({"ip": "10.0.0.9", "hostnames": ["foreign"]});
    let live = with(json!([{"name": "foreign"}]), json!([foreign, {"ip": "10.0.0.1", "hostnames": ["old"]}]));
    let desired = with(json!([{"name": "own"}]), json!([{"ip": "10.0.0.1", "hostnames": ["new"]}]));
    let workload = || row("apps/v1", "Deployment", live.clone(), desired.clone());
    assert_merged([
        (workload(), "/spec/template/spec/imagePullSecrets", Some(json!([{"name": "foreign"}, {"name": "own"}]))),
        (
            workload(),
            "/spec/template/spec/hostAliases",
            Some(json!([foreign, {"ip": "10.0.0.1", "hostnames": ["new"]}])),
        ),
    ]);
}
