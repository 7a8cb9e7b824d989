//! Drift in an owned field of each kind is found under its path and repaired.

use super::*;

/// Kind and name, the changed field of the live object, its new value (null removes it), and the path that is reported.
const fn row(
    kind: &'static str,
    name: &'static str,
    pointer: &'static str,
    value: &'static str,
    path: &'static str,
) -> Row {
    Row { kind, name, pointer, value, path }
}

struct Row {
    kind: &'static str,
    name: &'static str,
    pointer: &'static str,
    value: &'static str,
    path: &'static str,
}

const POD: &str = "spec.template.spec";

const ROWS: &[Row] = &[
    row("Namespace", "shop", "/metadata/labels/tier", "null", "metadata.labels.tier"),
    row("Deployment", "web", "/metadata/annotations/note", r#""x""#, "metadata.annotations.note"),
    row("Deployment", "web", "/spec/replicas", "5", "spec.replicas"),
    row("Deployment", "one", "/spec/replicas", "1", "spec.replicas"),
    row("Deployment", "web", "/spec/paused", "true", "spec.paused"),
    row("Deployment", "web", "/spec/minReadySeconds", "9", "spec.minReadySeconds"),
    row("Deployment", "web", "/spec/strategy/rollingUpdate/maxSurge", "1", "spec.strategy.rollingUpdate.maxSurge"),
    row(
        "Deployment",
        "one",
        "/spec/strategy",
        r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}"#,
        "spec.strategy.type",
    ),
    row("Deployment", "web", "/spec/template/metadata/labels/app", r#""x""#, "spec.template.metadata.labels.app"),
    row("Deployment", "web", "/spec/template/spec/containers/0/image", r#""x""#, "{}.containers[web].image"),
    row("Deployment", "web", "/spec/template/spec/containers/-", r#"{"name":"spy"}"#, "{}.containers[spy]"),
    row("Deployment", "web", "/spec/template/spec/containers/0", "null", "{}.containers[web]"),
    row("Deployment", "web", "/spec/template/spec/initContainers", "null", "{}.initContainers"),
    row("Deployment", "one", "/spec/template/spec/initContainers", r#"[{"name":"spy"}]"#, "{}.initContainers[spy]"),
    row("Deployment", "web", "/spec/template/spec/containers/0/args/0", r#""x""#, "{}.containers[web].args[0]"),
    row("Deployment", "one", "/spec/template/spec/containers/0/args", r#"["x"]"#, "{}.containers[one].args"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/initContainers/0/args",
        r#"["x"]"#,
        "{}.initContainers[prepare].args",
    ),
    row("Deployment", "web", "/spec/template/spec/containers/0/env/-", r#"{"name":"X"}"#, "{}.containers[web].env"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/env/1/valueFrom/fieldRef/apiVersion",
        r#""v2""#,
        "{}.containers[web].env[1].valueFrom.fieldRef.apiVersion",
    ),
    row("Deployment", "one", "/spec/template/spec/containers/0/env", r#"[{"name":"X"}]"#, "{}.containers[one].env"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/resources/limits/cpu",
        r#""1001m""#,
        "{}.containers[web].resources.limits.cpu",
    ),
    row(
        "Deployment",
        "one",
        "/spec/template/spec/containers/0/resources/limits",
        r#"{"cpu":"1"}"#,
        "{}.containers[one].resources.limits",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/ports/0/protocol",
        r#""UDP""#,
        "{}.containers[web].ports",
    ),
    row("Deployment", "web", "/spec/template/spec/containers/0/ports/0/hostPort", "1", "{}.containers[web].ports"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/volumeMounts/0/readOnly",
        "true",
        "{}.containers[web].volumeMounts[/tmp].readOnly",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/livenessProbe/periodSeconds",
        "99",
        "{}.containers[web].livenessProbe.periodSeconds",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/livenessProbe/exec",
        r#"{"command":["x"]}"#,
        "{}.containers[web].livenessProbe.exec",
    ),
    row(
        "Deployment",
        "one",
        "/spec/template/spec/containers/0/readinessProbe",
        r#"{"exec":{}}"#,
        "{}.containers[one].readinessProbe",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/startupProbe",
        "null",
        "{}.containers[web].startupProbe",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/securityContext/privileged",
        "true",
        "{}.containers[web].securityContext.privileged",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/securityContext/allowPrivilegeEscalation",
        "null",
        "{}.containers[web].securityContext.allowPrivilegeEscalation",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/containers/0/securityContext/capabilities/drop",
        r#"["NET_RAW"]"#,
        "{}.containers[web].securityContext.capabilities.drop",
    ),
    row(
        "Deployment",
        "one",
        "/spec/template/spec/containers/0/securityContext",
        r#"{"privileged":true}"#,
        "{}.containers[one].securityContext",
    ),
    row("Deployment", "web", "/spec/template/spec/volumes/0", "null", "{}.volumes[tmp]"),
    row("Deployment", "web", "/spec/template/spec/volumes/-", r#"{"name":"x","emptyDir":{}}"#, "{}.volumes[x]"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/volumes/1/configMap/defaultMode",
        "511",
        "{}.volumes[conf].configMap.defaultMode",
    ),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/volumes/6/emptyDir/sizeLimit",
        r#""2Gi""#,
        "{}.volumes[mem].emptyDir.sizeLimit",
    ),
    row("Deployment", "web", "/spec/template/spec/hostNetwork", "null", "{}.hostNetwork"),
    row("Deployment", "one", "/spec/template/spec/hostNetwork", "true", "{}.hostNetwork"),
    row("Deployment", "one", "/spec/template/spec/priority", "7", "{}.priority"),
    row(
        "Deployment",
        "one",
        "/spec/template/spec/automountServiceAccountToken",
        "false",
        "{}.automountServiceAccountToken",
    ),
    row("Deployment", "one", "/spec/template/spec/serviceAccountName", r#""x""#, "{}.serviceAccountName"),
    row("Deployment", "web", "/spec/template/spec/tolerations/1", "null", "{}.tolerations"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/nodeSelector/kubernetes.io~1os",
        r#""x""#,
        "{}.nodeSelector[kubernetes.io/os]",
    ),
    row("Deployment", "web", "/spec/template/spec/affinity/nodeAffinity", r#"{"x":1}"#, "{}.affinity.nodeAffinity"),
    row("Deployment", "web", "/spec/template/spec/dnsPolicy", r#""Default""#, "{}.dnsPolicy"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/terminationGracePeriodSeconds",
        "5",
        "{}.terminationGracePeriodSeconds",
    ),
    row("Deployment", "web", "/spec/template/spec/securityContext/runAsUser", "null", "{}.securityContext.runAsUser"),
    row("Deployment", "one", "/spec/template/spec/securityContext", r#"{"fsGroup":0}"#, "{}.securityContext.fsGroup"),
    row(
        "Deployment",
        "web",
        "/spec/template/spec/topologySpreadConstraints/0/maxSkew",
        "2",
        "{}.topologySpreadConstraints[0].maxSkew",
    ),
    row("Deployment", "web", "/spec/template/spec/hostAliases", "null", "{}.hostAliases"),
    row(
        "DaemonSet",
        "agent",
        "/spec/updateStrategy/rollingUpdate/maxUnavailable",
        "1",
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
    ),
    row("DaemonSet", "agent", "/spec/updateStrategy", r#"{"type":"OnDelete"}"#, "spec.updateStrategy.type"),
    row("DaemonSet", "plain", "/spec/template/spec/containers/0/image", r#""x""#, "{}.containers[agent].image"),
    row("StatefulSet", "db", "/spec/template/spec/containers/0/image", r#""x""#, "{}.containers[db].image"),
    row("Job", "migrate", "/spec/parallelism", "3", "spec.parallelism"),
    row("Job", "migrate", "/spec/backoffLimit", "1", "spec.backoffLimit"),
    row("Job", "migrate", "/spec/suspend", "true", "spec.suspend"),
    row("Job", "migrate", "/spec/ttlSecondsAfterFinished", "0", "spec.ttlSecondsAfterFinished"),
    row("Job", "indexed", "/spec/ttlSecondsAfterFinished", "null", "spec.ttlSecondsAfterFinished"),
    row("CronJob", "nightly", "/spec/schedule", r#""* * * * *""#, "spec.schedule"),
    row("CronJob", "nightly", "/spec/concurrencyPolicy", r#""Forbid""#, "spec.concurrencyPolicy"),
    row("CronJob", "nightly", "/spec/timeZone", r#""Etc/UTC""#, "spec.timeZone"),
    row("CronJob", "nightly", "/spec/jobTemplate/spec/backoffLimit", "1", "spec.jobTemplate.spec.backoffLimit"),
    row(
        "CronJob",
        "nightly",
        "/spec/jobTemplate/spec/template/spec/containers/0/image",
        r#""x""#,
        "spec.jobTemplate.spec.template.spec.containers[night].image",
    ),
    row("Service", "web", "/spec/ports/0/port", "81", "spec.ports[http].port"),
    row("Service", "web", "/spec/ports/0/targetPort", "81", "spec.ports[http].targetPort"),
    row("Service", "web", "/spec/ports/-", r#"{"name":"x","port":1}"#, "spec.ports[x]"),
    row("Service", "headless", "/spec/type", r#""NodePort""#, "spec.type"),
    row("Service", "web", "/spec/selector/x", r#""y""#, "spec.selector.x"),
    row("Service", "web", "/spec/sessionAffinity", r#""ClientIP""#, "spec.sessionAffinity"),
    row("ConfigMap", "settings", "/data/a", r#""2""#, "data.a"),
    row("ConfigMap", "settings", "/data/empty", "null", "data.empty"),
    row("ConfigMap", "settings", "/binaryData/b", r#""AAED""#, "binaryData.b"),
    row("Secret", "login", "/data/user", r#""eA==""#, "data.user"),
    row("Secret", "login", "/data/password", "null", "data.password"),
    row("ServiceAccount", "web", "/automountServiceAccountToken", "null", "automountServiceAccountToken"),
    row("ResourceQuota", "quota", "/spec/hard/pods", r#""51""#, "spec.hard.pods"),
    row("Role", "reader", "/rules/0/verbs/-", r#""delete""#, "rules[0].verbs"),
    row("Role", "reader", "/rules/0/resourceNames", r#"["a"]"#, "rules[0].resourceNames"),
    row("Role", "reader", "/rules/-", r#"{"verbs":["*"]}"#, "rules"),
    row("ClusterRole", "shop-reader", "/rules", "null", "rules"),
    row("ClusterRole", "shop-reader", "/aggregationRule", r#"{"clusterRoleSelectors":[{}]}"#, "aggregationRule"),
    row(
        "ClusterRole",
        "shop-all",
        "/aggregationRule/clusterRoleSelectors/0/matchLabels/shop",
        r#""false""#,
        "aggregationRule.clusterRoleSelectors[0].matchLabels.shop",
    ),
    row("ClusterRoleBinding", "shop-readers", "/subjects/-", r#"{"kind":"User","name":"x"}"#, "subjects"),
    row("RoleBinding", "readers", "/subjects/0/name", r#""x""#, "subjects[0].name"),
    row("CustomResourceDefinition", "carts.shop.example", "/spec/names/singular", r#""x""#, "spec.names.singular"),
    row(
        "CustomResourceDefinition",
        "carts.shop.example",
        "/spec/names/shortNames",
        r#"["x"]"#,
        "spec.names.shortNames",
    ),
    row(
        "CustomResourceDefinition",
        "carts.shop.example",
        "/spec/versions/0/served",
        "false",
        "spec.versions[0].served",
    ),
    row(
        "CustomResourceDefinition",
        "baskets.shop.example",
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/n/maximum",
        "11",
        "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.n.maximum",
    ),
    row(
        "CustomResourceDefinition",
        "baskets.shop.example",
        "/spec/conversion/webhook/clientConfig/caBundle",
        r#""eA==""#,
        "spec.conversion.webhook.clientConfig.caBundle",
    ),
    row(
        "ValidatingWebhookConfiguration",
        "shop-validate",
        "/webhooks/0/failurePolicy",
        r#""Ignore""#,
        "webhooks[a.shop.example].failurePolicy",
    ),
    row(
        "ValidatingWebhookConfiguration",
        "shop-validate",
        "/webhooks/0/clientConfig/caBundle",
        r#""eA==""#,
        "webhooks[a.shop.example].clientConfig.caBundle",
    ),
    row(
        "MutatingWebhookConfiguration",
        "shop-mutate",
        "/webhooks/0/timeoutSeconds",
        "1",
        "webhooks[a.shop.example].timeoutSeconds",
    ),
    row("MutatingWebhookConfiguration", "shop-mutate", "/webhooks/-", r#"{"name":"x"}"#, "webhooks[x]"),
    row(
        "MutatingWebhookConfiguration",
        "shop-mutate",
        "/webhooks/0/namespaceSelector/matchLabels",
        r#"{"a":""}"#,
        "webhooks[a.shop.example].namespaceSelector.matchLabels",
    ),
    row("APIService", "v1.extra.shop.example", "/spec/versionPriority", "1", "spec.versionPriority"),
    row("NetworkPolicy", "web", "/spec/ingress/0/from/0/podSelector", "{}", "spec.ingress[0].from[0].podSelector"),
    row(
        "NetworkPolicy",
        "web",
        "/spec/ingress/0/from/0/namespaceSelector",
        "null",
        "spec.ingress[0].from[0].namespaceSelector",
    ),
    row("NetworkPolicy", "web", "/spec/egress", "[{}]", "spec.egress"),
    row("NetworkPolicy", "web", "/spec/policyTypes", r#"["Egress"]"#, "spec.policyTypes"),
    row("PodDisruptionBudget", "web", "/spec/maxUnavailable", r#""50%""#, "spec.maxUnavailable"),
    row("PriorityClass", "shop", "/value", "1", "value"),
    row(
        "FlowSchema",
        "shop",
        "/spec/rules/0/resourceRules/0/clusterScope",
        "true",
        "spec.rules[0].resourceRules[0].clusterScope",
    ),
    row(
        "HorizontalPodAutoscaler",
        "web",
        "/spec/behavior/scaleDown/stabilizationWindowSeconds",
        "1",
        "spec.behavior.scaleDown.stabilizationWindowSeconds",
    ),
];

#[test]
fn drift_is_found_by_its_path_and_repaired() {
    for row in ROWS {
        let (desired, live) = pair(row.kind, row.name);
        let mut drifted = live.clone();
        set(&mut drifted, row.pointer, serde_json::from_str(row.value).unwrap());
        let path = row.path.replace("{}", POD);
        let outcome = merge(&drifted, &desired).unwrap_or_else(|e| panic!("{path}: {e}"));
        let Outcome::Changed { object, fields } = outcome else { panic!("{} {path}: {outcome:?}", row.kind) };
        assert!(fields.contains(&path), "{} {}: {fields:?} without {path}", row.kind, row.pointer);
        assert_eq!(merge(&object, &desired), Ok(Outcome::Same), "{} {path} is not repaired", row.kind);
        assert_eq!(object["metadata"]["resourceVersion"], live["metadata"]["resourceVersion"]);
        assert_eq!(object["status"], live["status"]);
    }
}

#[test]
fn fields_that_the_api_server_drops_are_not_a_difference() {
    for (kind, name, pointer, value) in [
        ("ClusterRoleBinding", "shop-readers", "/userNames", json!(["eve"])),
        (
            "CustomResourceDefinition",
            "carts.shop.example",
            "/spec/versions/0/schema/openAPIV3Schema/optional",
            json!(true),
        ),
    ] {
        let (mut desired, live) = pair(kind, name);
        set(&mut desired, pointer, value);
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{kind}");
    }
}

#[test]
fn drift_anywhere_in_a_schema_is_found() {
    let (desired, live) = pair("CustomResourceDefinition", "baskets.shop.example");
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    for (pointer, value, path) in [
        ("/properties/evil", json!({}), "properties.evil"),
        ("/properties/n", Value::Null, "properties.n"),
        ("/properties/n/minimum", json!(2), "properties.n.minimum"),
        ("/properties/n/pattern", json!("a"), "properties.n.pattern"),
        ("/properties/port/anyOf/0/type", json!("string"), "properties.port.anyOf[0].type"),
        (
            "/properties/labels/additionalProperties/type",
            json!("integer"),
            "properties.labels.additionalProperties.type",
        ),
        ("/properties/size/enum/1", json!("big"), "properties.size.enum[1]"),
        ("/required", json!(["n"]), "required"),
    ] {
        let mut drifted = live.clone();
        set(&mut drifted, &format!("{schema}{pointer}"), value);
        let (_, fields) = changed(&drifted, &desired);
        assert_eq!(fields, [format!("spec.versions[0].schema.openAPIV3Schema.properties.spec.{path}")]);
    }
}

#[test]
fn binding_with_another_role_and_changed_job_are_replaced() {
    for (kind, name, pointer, value, path) in [
        ("RoleBinding", "readers", "/roleRef/name", json!("admin"), "roleRef.name"),
        ("ClusterRoleBinding", "shop-readers", "/roleRef/kind", json!("Role"), "roleRef.kind"),
        (
            "Job",
            "migrate",
            "/spec/template/spec/containers/0/image",
            json!("x"),
            "spec.template.spec.containers[migrate].image",
        ),
        ("Job", "indexed", "/spec/completions", json!(5), "spec.completions"),
    ] {
        let (desired, mut live) = pair(kind, name);
        set(&mut live, pointer, value);
        let labels = live.pointer("/metadata/labels").cloned().unwrap_or(json!({}));
        set(&mut live, "/metadata/labels", labels);
        set(&mut live, "/metadata/labels/foreign", json!("kept"));
        set(&mut live, "/metadata/finalizers", json!(["example.com/hold"]));
        let Outcome::Replace { object, fields } = merge(&live, &desired).unwrap() else { panic!("{kind} {path}") };
        assert_eq!(fields, [path]);
        assert_eq!(object["metadata"]["labels"]["foreign"], "kept");
        for key in ["uid", "resourceVersion", "creationTimestamp", "finalizers", "generation"] {
            assert_eq!(object["metadata"].get(key), None, "{kind} {key}");
        }
        assert_eq!(
            (object.get("status"), &object["spec"], &object["roleRef"]),
            (None, &desired["spec"], &desired["roleRef"])
        );
    }
}

#[test]
fn changed_selector_is_refused_with_the_way_out() {
    for (kind, name) in [("Deployment", "web"), ("DaemonSet", "agent"), ("StatefulSet", "db")] {
        let (desired, mut live) = pair(kind, name);
        set(&mut live, "/spec/selector/matchLabels/app", json!("other"));
        let error = merge(&live, &desired).unwrap_err();
        assert!(matches!(&error, MergeError::Immutable { field, .. } if field == "spec.selector.matchLabels.app"));
        assert!(error.to_string().contains(&format!("{kind} \"shop/{name}\"")) && error.to_string().contains("delete"));
    }
}

#[test]
fn order_matters_for_init_containers_only() {
    let (mut desired, _) = pair("Deployment", "web");
    let second = json!({"name": "second", "image": "x"});
    set(&mut desired, "/spec/template/spec/initContainers/-", second.clone());
    set(&mut desired, "/spec/template/spec/containers/-", second);
    let mut live = prepare(desired.clone(), None, false);
    live["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().reverse();
    assert_eq!(merge(&live, &desired), Ok(Outcome::Same));
    live["spec"]["template"]["spec"]["initContainers"].as_array_mut().unwrap().reverse();
    let (object, fields) = changed(&live, &desired);
    assert_eq!(fields, ["spec.template.spec.initContainers"]);
    assert_eq!(object["spec"]["template"]["spec"]["initContainers"][0]["name"], "prepare");
}

#[test]
fn drift_in_kinds_of_openshift_is_found() {
    let desired_objects = [
        json!({"apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
            "metadata": {"name": "s"}, "allowHostDirVolumePlugin": true, "allowHostPID": false,
            "users": ["system:a"], "groups": [], "volumes": ["secret", "configMap"], "runAsUser": {"type": "RunAsAny"}}),
        json!({"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "metadata": {"name": "s", "namespace": "n"},
            "spec": {"tags": [{"name": "t", "from": {"kind": "DockerImage", "name": "r/t"}, "importPolicy": {"scheduled": true}}]}}),
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "s", "namespace": "n"},
            "spec": {"targetNamespaces": ["n"]}}),
    ];
    let mut lives = desired_objects.clone();
    for (pointer, value) in [
        ("/volumes", json!(["configMap", "hostPath", "secret"])),
        ("/allowPrivilegeEscalation", json!(true)),
        ("/allowHostIPC", json!(false)),
        ("/fsGroup", json!({"type": "RunAsAny"})),
        ("/priority", json!(null)),
    ] {
        lives[0][&pointer[1..]] = value;
    }
    set(&mut lives[1], "/spec/lookupPolicy", json!({"local": false}));
    set(&mut lives[1], "/spec/tags/0/importPolicy/importMode", json!("Legacy"));
    set(&mut lives[1], "/spec/tags/0/generation", json!(2));
    set(&mut lives[1], "/spec/tags/0/annotations", json!({"a": "b"}));
    set(&mut lives[1], "/spec/tags/-", json!({"name": "extra"}));
    set(&mut lives[2], "/spec/upgradeStrategy", json!("Default"));
    for (live, desired) in lives.iter().zip(&desired_objects) {
        assert_eq!(merge(live, desired), Ok(Outcome::Same), "{}", desired["kind"]);
    }
    for (index, pointer, value, path) in [
        (0, "/users/-", json!("eve"), "users"),
        (0, "/allowHostIPC", json!(true), "allowHostIPC"),
        (0, "/fsGroup/type", json!("MustRunAs"), "fsGroup.type"),
        (1, "/spec/lookupPolicy/local", json!(true), "spec.lookupPolicy.local"),
        (1, "/spec/tags/0/from/name", json!("x"), "spec.tags[t].from.name"),
        (1, "/spec/tags/0/importPolicy/insecure", json!(true), "spec.tags[t].importPolicy.insecure"),
        (2, "/spec/targetNamespaces/-", json!("x"), "spec.targetNamespaces"),
        (2, "/spec/upgradeStrategy", json!("TechPreviewUnsafeFailForward"), "spec.upgradeStrategy"),
    ] {
        let mut drifted = lives[index].clone();
        set(&mut drifted, pointer, value);
        assert_eq!(changed(&drifted, &desired_objects[index]).1, [path]);
    }
}
