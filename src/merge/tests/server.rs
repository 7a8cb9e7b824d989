//! What a real API server (1.36) taught: what it writes otherwise than a manifest, and what it refuses beside each other.

use super::*;

/// A custom resource definition apart, these are `spec`s unless the kind has none.
struct Row {
    api_version: &'static str,
    kind: &'static str,
    live: Value,
    want: Value,
}

fn row(api_version: &'static str, kind: &'static str, live: Value, want: Value) -> Row {
    Row { api_version, kind, live, want }
}

impl Row {
    fn object(&self, body: &Value) -> Value {
        let mut object = body.clone();
        object["apiVersion"] = json!(self.api_version);
        object["kind"] = json!(self.kind);
        object["metadata"] = json!({"name": "a"});
        object
    }
}

fn pods(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

/// A pod with one container.
fn container(field: &str, value: Value) -> Value {
    pods(json!({"containers": [{"name": "a", field: value}]}))
}

/// §10.21: nothing to write.
#[test]
fn what_a_server_writes_otherwise_is_the_same() {
    let metric = |amount: &str| json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": amount}}}]}});
    let limits = |cpu: Value, memory: &str| json!({"spec": {"limits": [{"min": {"cpu": cpu}, "max": {"memory": memory}, "default": {"cpu": cpu}}]}});
    let toleration = json!({"key": "a", "operator": "Exists"});
    let rows = [
        // Amounts, wherever a kind has them.
        row("v1", "LimitRange", limits(json!("100m"), "2G"), limits(json!(0.1), "2000M")),
        row(
            "node.k8s.io/v1",
            "RuntimeClass",
            json!({"overhead": {"podFixed": {"cpu": "100m"}}}),
            json!({"overhead": {"podFixed": {"cpu": "0.1"}}}),
        ),
        row("autoscaling/v2", "HorizontalPodAutoscaler", metric("512Mi"), metric("0.5Gi")),
        row(
            "apps/v1",
            "DaemonSet",
            pods(json!({"overhead": {"cpu": "250m"}})),
            pods(json!({"overhead": {"cpu": "0.25"}})),
        ),
        // Empty is the same as left out where the server has a default.
        row("apps/v1", "Deployment", pods(json!({"dnsPolicy": "ClusterFirst"})), pods(json!({"dnsPolicy": ""}))),
        row(
            "apps/v1",
            "Deployment",
            container("terminationMessagePolicy", json!("File")),
            container("terminationMessagePolicy", json!("")),
        ),
        row(
            "apps/v1",
            "Deployment",
            container("imagePullPolicy", json!("Always")),
            container("imagePullPolicy", json!("")),
        ),
        row(
            "apps/v1",
            "Deployment",
            container("startupProbe", json!({"periodSeconds": 10, "failureThreshold": 3})),
            container("startupProbe", json!({"periodSeconds": 0, "failureThreshold": 0})),
        ),
        row(
            "apps/v1",
            "Deployment",
            pods(json!({"volumes": [{"name": "v", "iscsi": {"iscsiInterface": "default"}}]})),
            pods(json!({"volumes": [{"name": "v", "iscsi": {"iscsiInterface": ""}}]})),
        ),
        // Said twice, it is there twice.
        row(
            "apps/v1",
            "DaemonSet",
            pods(json!({"tolerations": [toleration, toleration]})),
            pods(json!({"tolerations": [toleration, toleration]})),
        ),
        row(
            "flowcontrol.apiserver.k8s.io/v1",
            "FlowSchema",
            json!({"spec": {"matchingPrecedence": 1000}}),
            json!({"spec": {"matchingPrecedence": 0}}),
        ),
        row(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({"spec": {"metrics": [{"type": "Resource"}]}}),
            json!({"spec": {"metrics": []}}),
        ),
        row(
            "apps/v1",
            "DaemonSet",
            pods(json!({"serviceAccount": "a", "serviceAccountName": "a"})),
            pods(json!({"serviceAccountName": ""})),
        ),
        // Null among amounts is none of it.
        row(
            "apps/v1",
            "Deployment",
            container("resources", json!({"limits": {"cpu": "0"}})),
            container("resources", json!({"limits": {"cpu": null}})),
        ),
        row("example.com/v1", "Gadget", json!({"spec": {"limits": {}}}), json!({"spec": {"limits": {"cpu": null}}})),
        row("v1", "ResourceQuota", json!({"spec": {"hard": {"pods": "0"}}}), json!({"spec": {"hard": {"pods": null}}})),
        row(
            "batch/v1",
            "Job",
            json!({"spec": {"parallelism": 0, "completions": 0}}),
            json!({"spec": {"parallelism": 0, "completions": 0}}),
        ),
    ];
    for row in rows {
        assert_eq!(
            merge(&row.object(&row.live), &row.object(&row.want)),
            Ok(Outcome::Same),
            "{} {}",
            row.kind,
            row.want
        );
    }
}

/// §10.21: an empty value still takes back what another hand set.
#[test]
fn an_empty_value_brings_the_default_back() {
    let rows = [
        row("apps/v1", "Deployment", pods(json!({"dnsPolicy": "Default"})), pods(json!({"dnsPolicy": ""}))),
        row(
            "apps/v1",
            "Deployment",
            container("startupProbe", json!({"periodSeconds": 7})),
            container("startupProbe", json!({"periodSeconds": 0})),
        ),
        row("apps/v1", "Deployment", json!({"spec": {"replicas": 3}}), json!({"spec": {"replicas": 0}})),
        row("apps/v1", "Deployment", pods(json!({"hostPID": true})), pods(json!({"hostPID": false}))),
        row(
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}),
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
        ),
        row(
            "batch/v1",
            "CronJob",
            json!({"spec": {"jobTemplate": {"spec": {"parallelism": 3}}}}),
            json!({"spec": {"jobTemplate": {"spec": {"parallelism": 0}}}}),
        ),
        row("scheduling.k8s.io/v1", "PriorityClass", json!({"description": "x"}), json!({"description": ""})),
    ];
    for row in rows {
        changed(&row.object(&row.live), &row.object(&row.want));
    }
}

/// §10.21: what belongs to another choice goes with it; the server refuses both together.
#[test]
fn what_excludes_what_the_release_wants_is_taken_away() {
    let level = |kind: &str, response: Value| json!({"spec": {"type": kind, "limited": {"limitResponse": response}}});
    let queuing = json!({"queues": 64, "handSize": 8, "queueLengthLimit": 50});
    let queue = level("Limited", json!({"type": "Queue", "queuing": queuing}));
    let bare = level("Limited", json!({"type": "Queue", "queuing": {}}));
    let reject = level("Limited", json!({"type": "Reject"}));
    let job = |spec: Value| json!({"spec": {"jobTemplate": {"spec": spec}}});
    let api = |spec: Value| json!({"spec": spec});
    const LEVEL: &str = "flowcontrol.apiserver.k8s.io/v1";
    const API: &str = "apiregistration.k8s.io/v1";
    // Live, wanted, a pointer and what is to stand there afterwards.
    let table = [
        (
            row(LEVEL, "PriorityLevelConfiguration", queue.clone(), reject.clone()),
            "/spec/limited/limitResponse/queuing",
            None,
        ),
        (
            row(LEVEL, "PriorityLevelConfiguration", reject, bare),
            "/spec/limited/limitResponse/queuing",
            Some(json!({})),
        ),
        (row(LEVEL, "PriorityLevelConfiguration", queue, json!({"spec": {"type": "Exempt"}})), "/spec/limited", None),
        (
            row(
                "networking.k8s.io/v1",
                "IngressClass",
                json!({"spec": {"parameters": {"kind": "K", "name": "n", "scope": "Namespace", "namespace": "x"}}}),
                json!({"spec": {"parameters": {"kind": "K", "name": "n"}}}),
            ),
            "/spec/parameters/namespace",
            None,
        ),
        (
            row(
                "admissionregistration.k8s.io/v1",
                "ValidatingAdmissionPolicyBinding",
                json!({"spec": {"paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}}}),
                json!({"spec": {"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}}}),
            ),
            "/spec/paramRef/selector",
            None,
        ),
        (
            row(
                "admissionregistration.k8s.io/v1",
                "ValidatingAdmissionPolicyBinding",
                json!({"spec": {"paramRef": {"name": "x"}}}),
                json!({"spec": {"paramRef": {"selector": {}}}}),
            ),
            "/spec/paramRef/selector",
            Some(json!({})),
        ),
        (
            row("policy/v1", "PodDisruptionBudget", json!({"spec": {}}), json!({"spec": {"selector": {}}})),
            "/spec/selector",
            Some(json!({})),
        ),
        (
            row(
                "apps/v1",
                "Deployment",
                pods(json!({"volumes": [{"name": "v", "emptyDir": {}}]})),
                pods(json!({"volumes": [{"name": "v", "downwardAPI": {}}]})),
            ),
            "/spec/template/spec/volumes/0/downwardAPI",
            Some(json!({})),
        ),
        (
            row(API, "APIService", api(json!({"insecureSkipTLSVerify": true})), api(json!({"caBundle": "eA=="}))),
            "/spec/insecureSkipTLSVerify",
            Some(json!(false)),
        ),
        (
            row(API, "APIService", api(json!({"caBundle": "eA=="})), api(json!({"insecureSkipTLSVerify": true}))),
            "/spec/caBundle",
            Some(json!("")),
        ),
        (
            row(
                "batch/v1",
                "CronJob",
                job(json!({"completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 1})),
                job(json!({"completionMode": "NonIndexed"})),
            ),
            "/spec/jobTemplate/spec/backoffLimitPerIndex",
            None,
        ),
        (
            row(
                "batch/v1",
                "CronJob",
                job(json!({"podReplacementPolicy": "TerminatingOrFailed"})),
                job(json!({"podFailurePolicy": {"rules": [{"action": "Ignore"}]}})),
            ),
            "/spec/jobTemplate/spec/podReplacementPolicy",
            Some(json!("Failed")),
        ),
        (
            row(
                "apps/v1",
                "StatefulSet",
                json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}}),
                json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}),
            ),
            "/spec/updateStrategy/rollingUpdate",
            None,
        ),
        (
            row("apps/v1", "Deployment", pods(json!({"hostIPC": true})), pods(json!({"hostUsers": false}))),
            "/spec/template/spec/hostIPC",
            Some(json!(false)),
        ),
        (
            row(
                "apps/v1",
                "Deployment",
                pods(json!({"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}})),
                pods(json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}})),
            ),
            "/spec/template/spec/securityContext/appArmorProfile/localhostProfile",
            None,
        ),
        // Required and of no value: null, not absent.
        (
            row(
                "security.openshift.io/v1",
                "SecurityContextConstraints",
                json!({"priority": 5, "requiredDropCapabilities": ["ALL"]}),
                json!({"priority": null}),
            ),
            "/requiredDropCapabilities",
            Some(json!(null)),
        ),
    ];
    for (row, pointer, expected) in table {
        let (object, _) = changed(&row.object(&row.live), &row.object(&row.want));
        assert_eq!(object.pointer(pointer), expected.as_ref(), "{} {pointer} in {object}", row.kind);
    }
}
