//! Behaviour of a real API server (1.36): values that it stores in another form, and fields that it refuses together.

use super::*;

/// A live and a desired object without apiVersion, kind and metadata.
pub(super) struct Row {
    api_version: &'static str,
    kind: &'static str,
    live: Value,
    desired: Value,
}

pub(super) fn row(api_version: &'static str, kind: &'static str, live: Value, desired: Value) -> Row {
    Row { api_version, kind, live, desired }
}

impl Row {
    /// The merged object and the paths that differed.
    pub(super) fn changed(&self) -> (Value, Vec<String>) {
        super::changed(&self.object(&self.live), &self.object(&self.desired))
    }

    fn object(&self, body: &Value) -> Value {
        let mut object = body.clone();
        object["apiVersion"] = json!(self.api_version);
        object["kind"] = json!(self.kind);
        object["metadata"] = json!({"name": "a"});
        object
    }
}

pub(super) fn pods(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

/// A pod with one container.
pub(super) fn container(field: &str, value: Value) -> Value {
    pods(json!({"containers": [{"name": "a", field: value}]}))
}

pub(super) fn assert_same(rows: impl IntoIterator<Item = Row>) {
    for row in rows {
        let (live, desired) = (row.object(&row.live), row.object(&row.desired));
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{} {}", row.kind, row.desired);
    }
}

#[test]
fn quantities_are_compared_by_value_in_every_kind() {
    let metric = |amount: &str| json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": amount}}}]}});
    let limits = |cpu: Value, memory: &str| json!({"spec": {"limits": [{"min": {"cpu": cpu}, "max": {"memory": memory}, "default": {"cpu": cpu}}]}});
    assert_same([
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
        // Null is read as zero, and dropped from a custom resource.
        row(
            "apps/v1",
            "Deployment",
            container("resources", json!({"limits": {"cpu": "0"}})),
            container("resources", json!({"limits": {"cpu": null}})),
        ),
        row("example.com/v1", "Gadget", json!({"spec": {"limits": {}}}), json!({"spec": {"limits": {"cpu": null}}})),
        row("v1", "ResourceQuota", json!({"spec": {"hard": {"pods": "0"}}}), json!({"spec": {"hard": {"pods": null}}})),
    ]);
}

/// The API server replaces the empty value by its default.
#[test]
fn empty_value_is_the_same_as_the_default() {
    assert_same([
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
    ]);
}

#[test]
fn repetitions_and_zeros_of_the_manifest_are_the_same() {
    let toleration = json!({"key": "a", "operator": "Exists"});
    assert_same([
        row(
            "apps/v1",
            "DaemonSet",
            pods(json!({"tolerations": [toleration, toleration]})),
            pods(json!({"tolerations": [toleration, toleration]})),
        ),
        row(
            "batch/v1",
            "Job",
            json!({"spec": {"parallelism": 0, "completions": 0}}),
            json!({"spec": {"parallelism": 0, "completions": 0}}),
        ),
    ]);
}

/// The value that another client set is replaced.
#[test]
fn empty_value_restores_the_default() {
    let rows = [
        row("apps/v1", "Deployment", pods(json!({"dnsPolicy": "Default"})), pods(json!({"dnsPolicy": ""}))),
        row(
            "apps/v1",
            "Deployment",
            container("startupProbe", json!({"periodSeconds": 7})),
            container("startupProbe", json!({"periodSeconds": 0})),
        ),
        row("apps/v1", "Deployment", json!({"spec": {"replicas": 3}}), json!({"spec": {"replicas": 0}})),
        row(
            "batch/v1",
            "CronJob",
            json!({"spec": {"jobTemplate": {"spec": {"completionMode": "Indexed"}}}}),
            json!({"spec": {"jobTemplate": {"spec": {"completionMode": "Indexed", "backoffLimitPerIndex": 0}}}}),
        ),
        // Without a value it is 300.
        row(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({"spec": {"behavior": {"scaleDown": {"selectPolicy": "Max"}}}}),
            json!({"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}),
        ),
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
        row.changed();
    }
}

/// Rows: the objects, a pointer, and the value that must be there after the merge.
pub(super) fn assert_merged(rows: impl IntoIterator<Item = (Row, &'static str, Option<Value>)>) {
    for (row, pointer, expected) in rows {
        let (object, _) = row.changed();
        assert_eq!(object.pointer(pointer), expected.as_ref(), "{} {pointer} in {object}", row.kind);
    }
}

#[test]
fn settings_of_another_priority_level_are_removed() {
    const LEVEL: &str = "flowcontrol.apiserver.k8s.io/v1";
    let level = |kind: &str, response: Value| json!({"spec": {"type": kind, "limited": {"limitResponse": response}}});
    let queuing = json!({"queues": 64, "handSize": 8, "queueLengthLimit": 50});
    let queue = level("Limited", json!({"type": "Queue", "queuing": queuing}));
    let bare = level("Limited", json!({"type": "Queue", "queuing": {}}));
    let reject = level("Limited", json!({"type": "Reject"}));
    assert_merged([
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
    ]);
}

/// The API server refuses the live field together with that of the manifest.
#[test]
fn fields_that_exclude_each_other_are_replaced() {
    const API: &str = "apiregistration.k8s.io/v1";
    let api = |spec: Value| json!({"spec": spec});
    assert_merged([
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
            row(API, "APIService", api(json!({"insecureSkipTLSVerify": true})), api(json!({"caBundle": "eA=="}))),
            "/spec/insecureSkipTLSVerify",
            Some(json!(false)),
        ),
        (
            row(API, "APIService", api(json!({"caBundle": "eA=="})), api(json!({"insecureSkipTLSVerify": true}))),
            "/spec/caBundle",
            Some(json!("")),
        ),
    ]);
}

#[test]
fn settings_of_another_pod_option_are_removed() {
    assert_merged([
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
            row(
                "apps/v1",
                "DaemonSet",
                pods(json!({"volumes": [{"name": "v", "emptyDir": {}}]})),
                pods(json!({"volumes": [{"name": "v", "image": {}}]})),
            ),
            "/spec/template/spec/volumes/0",
            Some(json!({"name": "v", "image": {}})),
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
    ]);
}

#[test]
fn settings_of_another_job_option_are_removed() {
    let job = |spec: Value| json!({"spec": {"jobTemplate": {"spec": spec}}});
    assert_merged([
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
    ]);
}

/// An API server adds `rules: null` to one, and never makes one itself.
#[test]
fn policy_without_rules_is_not_the_same_as_none() {
    let job = |spec: Value| json!({"spec": {"jobTemplate": {"spec": spec}}});
    let empty = job(json!({"podFailurePolicy": {}}));
    assert_merged([(
        row("batch/v1", "CronJob", job(json!({})), empty.clone()),
        "/spec/jobTemplate/spec/podFailurePolicy",
        Some(json!({})),
    )]);
    let live = job(json!({"podFailurePolicy": {"rules": null}}));
    assert_same([row("batch/v1", "CronJob", live, empty)]);
}

/// The field is required, so a removed value is null and not absent.
#[test]
fn removed_list_of_constraints_is_null() {
    assert_merged([(
        row(
            "security.openshift.io/v1",
            "SecurityContextConstraints",
            json!({"priority": 5, "requiredDropCapabilities": ["ALL"]}),
            json!({"priority": null}),
        ),
        "/requiredDropCapabilities",
        Some(json!(null)),
    )]);
}
