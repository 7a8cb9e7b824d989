//! Deployment, DaemonSet, StatefulSet, Job, CronJob and the pod template that they share.

use super::metadata::{ROOT, TEMPLATE_METADATA};
use super::rule::{
    ADDITIVE, Absent, ENTRIES, Elements, Extra, Field, Order, QUANTITIES_WHOLE, Rule, Shape, WHOLE_EXACT, both_ways,
    closed, default, field, if_set, open,
};
use super::volume::{FIELD_REF, RESOURCE_REF, VOLUMES};
use serde_json::{Map, Value, json};

pub(super) const DEPLOYMENT: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[
            default("replicas", Absent::Int(1), Rule::Deep),
            default("paused", Absent::Bool(false), Rule::Deep),
            default("minReadySeconds", Absent::Int(0), Rule::Deep),
            field("selector", Rule::Exact),
            default("strategy", Absent::Empty, STRATEGY),
            field("template", TEMPLATE),
        ])),
    )])
};

const STRATEGY: Rule = Rule::Map(&closed(&[
    default("type", Absent::Text("RollingUpdate"), Rule::Exact),
    default(
        "rollingUpdate",
        Absent::Derive(if_rolling),
        Rule::Map(&closed(&[
            default("maxUnavailable", Absent::Text("25%"), Rule::IntOrString),
            default("maxSurge", Absent::Text("25%"), Rule::IntOrString),
        ])),
    ),
]));

pub(super) const DAEMON_SET: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[
            field("selector", Rule::Exact),
            field("updateStrategy", DAEMON_STRATEGY),
            field("template", TEMPLATE),
        ])),
    )])
};

const DAEMON_STRATEGY: Rule = Rule::Map(&closed(&[
    default("type", Absent::Text("RollingUpdate"), Rule::Exact),
    default(
        "rollingUpdate",
        Absent::Derive(if_rolling),
        Rule::Map(&closed(&[
            default("maxUnavailable", Absent::Int(1), Rule::IntOrString),
            default("maxSurge", Absent::Int(0), Rule::IntOrString),
        ])),
    ),
]));

/// The API server refuses the parameters of a rolling update with another type.
fn if_rolling(strategy: &Map<String, Value>) -> Option<Value> {
    let kind = strategy.get("type").and_then(Value::as_str).unwrap_or_default();
    (kind.is_empty() || kind == "RollingUpdate").then(|| json!({}))
}

pub(super) const STATEFUL_SET: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[
            field("selector", Rule::Exact),
            field("updateStrategy", STATEFUL_STRATEGY),
            field("template", TEMPLATE),
        ])),
    )])
};

const STATEFUL_STRATEGY: Rule = Rule::Map(&closed(&[
    default("type", Absent::Text("RollingUpdate"), Rule::Exact),
    default(
        "rollingUpdate",
        Absent::Derive(if_rolling),
        Rule::Map(&closed(&[
            default("partition", Absent::Int(0), Rule::Exact),
            field("maxUnavailable", Rule::IntOrString),
        ])),
    ),
]));

pub(super) const JOB: &Shape = &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(JOB_SPEC))]) };

const JOB_SPEC: &Shape = &open(&[
    default("parallelism", Absent::Int(1), Rule::Deep),
    default("completions", Absent::Derive(one_completion), Rule::Deep),
    both_ways("activeDeadlineSeconds", Rule::Deep),
    default("backoffLimit", Absent::Infer(retries), Rule::Deep),
    both_ways("ttlSecondsAfterFinished", Rule::Deep),
    default("suspend", Absent::Bool(false), Rule::Deep),
    default("completionMode", Absent::Text("NonIndexed"), Rule::Deep),
    default("manualSelector", Absent::Bool(false), Rule::Deep),
    both_ways("podFailurePolicy", Rule::Deep),
    both_ways("successPolicy", Rule::Deep),
    both_ways("backoffLimitPerIndex", Rule::Deep),
    both_ways("maxFailedIndexes", Rule::Deep),
    default("podReplacementPolicy", Absent::Derive(replacement), Rule::Deep),
    field("selector", Rule::Exact),
    field("template", TEMPLATE),
]);

/// Without either number a Job has one completion. With only a parallelism it is a work queue without completions.
fn one_completion(job: &Map<String, Value>) -> Option<Value> {
    job.get("parallelism").is_none_or(Value::is_null).then(|| json!(1))
}

/// With a limit per index the API server sets the overall limit to its maximum.
fn retries(job: &Map<String, Value>) -> Option<Value> {
    job.get("backoffLimitPerIndex").is_none_or(Value::is_null).then(|| json!(6))
}

/// With a pod failure policy a pod is replaced once it has failed, otherwise already while it terminates.
fn replacement(job: &Map<String, Value>) -> Option<Value> {
    let by_policy = job.get("podFailurePolicy").is_some_and(|policy| !policy.is_null());
    Some(Value::from(if by_policy { "Failed" } else { "TerminatingOrFailed" }))
}

pub(super) const CRON_JOB: &Shape = &Shape {
    base: ROOT,
    ..open(&[field(
        "spec",
        Rule::Map(&open(&[
            both_ways("timeZone", Rule::Deep),
            both_ways("startingDeadlineSeconds", Rule::Deep),
            default("concurrencyPolicy", Absent::Text("Allow"), Rule::Deep),
            default("suspend", Absent::Bool(false), Rule::Deep),
            default("successfulJobsHistoryLimit", Absent::Int(3), Rule::Deep),
            default("failedJobsHistoryLimit", Absent::Int(1), Rule::Deep),
            field(
                "jobTemplate",
                Rule::Map(&open(&[field("metadata", TEMPLATE_METADATA), field("spec", Rule::Map(JOB_SPEC))])),
            ),
        ])),
    )])
};

const TEMPLATE: Rule = Rule::Map(&open(&[field("metadata", TEMPLATE_METADATA), field("spec", Rule::Map(&open(POD)))]));

const POD: &[Field] = &[
    both_ways("containers", Rule::Choose(|pod| containers(pod, Order::Live))),
    // They run one after the other, so the manifest's order matters.
    both_ways("initContainers", Rule::Choose(|pod| containers(pod, Order::Manifest))),
    both_ways("volumes", Rule::List(VOLUMES)),
    both_ways("automountServiceAccountToken", Rule::Deep),
    both_ways("hostUsers", Rule::Deep),
    both_ways("shareProcessNamespace", Rule::Deep),
    both_ways("priority", Rule::Deep),
    default("hostNetwork", Absent::Bool(false), Rule::Deep),
    // A release that no longer needs these privileges must be able to remove them.
    default("hostPID", Absent::Bool(false), Rule::Deep),
    default("hostIPC", Absent::Bool(false), Rule::Deep),
    field("overhead", QUANTITIES_WHOLE),
    default("dnsPolicy", Absent::Text("ClusterFirst"), Rule::Deep),
    default("terminationGracePeriodSeconds", Absent::Int(30), Rule::Deep),
    // Old and new name of the same field. The API server copies one to the other and prefers the new one.
    default("serviceAccountName", Absent::Infer(|pod| account(pod, "serviceAccount")), Rule::Deep),
    default("serviceAccount", Absent::Infer(|pod| account(pod, "serviceAccountName")), Rule::Deep),
    field("nodeSelector", ENTRIES),
    field("tolerations", ADDITIVE),
    field("imagePullSecrets", ADDITIVE),
    field(
        "hostAliases",
        Rule::List(&Elements::Keyed { key: "ip", rule: Rule::Exact, extra: Extra::Keep, order: Order::Live }),
    ),
    if_set("priorityClassName"),
    field(
        "affinity",
        Rule::Map(&open(&[
            both_ways("nodeAffinity", Rule::Exact),
            both_ways("podAffinity", Rule::Exact),
            both_ways("podAntiAffinity", Rule::Exact),
        ])),
    ),
    field("dnsConfig", Rule::Exact),
    both_ways(
        "securityContext",
        Rule::Map(&open(&[
            both_ways("runAsUser", Rule::Deep),
            both_ways("runAsGroup", Rule::Deep),
            both_ways("runAsNonRoot", Rule::Deep),
            both_ways("fsGroup", Rule::Deep),
            both_ways("seccompProfile", Rule::Exact),
            both_ways("seLinuxOptions", SELINUX),
            field("appArmorProfile", Rule::Exact),
            field("supplementalGroups", ADDITIVE),
            field(
                "sysctls",
                Rule::List(&Elements::Keyed { key: "name", rule: Rule::Exact, extra: Extra::Keep, order: Order::Live }),
            ),
        ])),
    ),
];

/// What the manifest sets is enforced, if it has this block.
const SELINUX: Rule = Rule::Map(&open(&[if_set("user"), if_set("role"), if_set("type"), if_set("level")]));

fn account(pod: &Map<String, Value>, field: &str) -> Option<Value> {
    pod.get(field).filter(|name| name.as_str().is_some_and(|name| !name.is_empty())).cloned()
}

/// Containers are matched by name. The rule for their ports depends on the network of the pod.
fn containers(pod: &Map<String, Value>, order: Order) -> Rule {
    const fn by_name(rule: Rule, order: Order) -> Elements {
        Elements::Keyed { key: "name", rule, extra: Extra::Remove, order }
    }
    let on_host = pod.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    Rule::List(match (on_host, order) {
        (true, Order::Live) => &const { by_name(ON_HOST, Order::Live) },
        (true, Order::Manifest) => &const { by_name(ON_HOST, Order::Manifest) },
        (false, Order::Live) => &const { by_name(IN_POD, Order::Live) },
        (false, Order::Manifest) => &const { by_name(IN_POD, Order::Manifest) },
    })
}

const IN_POD: Rule = Rule::Map(&Shape {
    base: CONTAINER,
    ..open(&[both_ways(
        "ports",
        Rule::List(&Elements::Unordered(Rule::Map(&closed(&[
            default("protocol", Absent::Text("TCP"), Rule::Exact),
            both_ways("hostPort", Rule::Exact),
        ])))),
    )])
});

/// On the host network the API server sets the host port to the container port, as do other clients.
const ON_HOST: Rule = Rule::Map(&Shape {
    base: CONTAINER,
    ..open(&[both_ways(
        "ports",
        Rule::List(&Elements::Unordered(Rule::Map(&closed(&[
            default("protocol", Absent::Text("TCP"), Rule::Exact),
            default("hostPort", Absent::Tolerate(|port| port.get("containerPort").cloned()), Rule::Exact),
        ])))),
    )])
});

/// The fields that do not depend on the network.
const CONTAINER: &[Field] = &[
    if_set("workingDir"),
    both_ways("command", Rule::Exact),
    both_ways("args", Rule::Exact),
    both_ways("env", Rule::List(&Elements::Whole(Rule::Map(&closed(&[both_ways("valueFrom", VALUE_FROM)]))))),
    both_ways("envFrom", Rule::List(WHOLE_EXACT)),
    default(
        "resources",
        Absent::Empty,
        Rule::Map(&open(&[both_ways("limits", QUANTITIES_WHOLE), both_ways("requests", QUANTITIES_WHOLE)])),
    ),
    both_ways(
        "volumeMounts",
        Rule::List(&Elements::Keyed { key: "mountPath", rule: Rule::Exact, extra: Extra::Remove, order: Order::Live }),
    ),
    both_ways("livenessProbe", PROBE),
    both_ways("readinessProbe", PROBE),
    field("startupProbe", PROBE),
    field("lifecycle", LIFECYCLE),
    both_ways(
        "securityContext",
        Rule::Map(&open(&[
            both_ways("privileged", Rule::Deep),
            both_ways("runAsUser", Rule::Deep),
            both_ways("runAsNonRoot", Rule::Deep),
            both_ways("readOnlyRootFilesystem", Rule::Deep),
            both_ways("allowPrivilegeEscalation", Rule::Deep),
            both_ways("seccompProfile", Rule::Exact),
            field("appArmorProfile", Rule::Exact),
            // Additive inside a block of the manifest only: without one nobody else may grant privileges to its containers.
            both_ways("capabilities", Rule::Map(&open(&[field("add", ADDITIVE), field("drop", ADDITIVE)]))),
            both_ways("seLinuxOptions", SELINUX),
        ])),
    ),
];

const VALUE_FROM: Rule =
    Rule::Map(&closed(&[both_ways("fieldRef", FIELD_REF), both_ways("resourceFieldRef", RESOURCE_REF)]));

const HTTP_GET: Rule = Rule::Map(&closed(&[
    default("scheme", Absent::Text("HTTP"), Rule::Exact),
    default("path", Absent::Text("/"), Rule::Exact),
    both_ways("port", Rule::IntOrString),
]));

const PROBE: Rule = Rule::Map(&closed(&[
    both_ways("httpGet", HTTP_GET),
    default("initialDelaySeconds", Absent::Int(0), Rule::Exact),
    default("timeoutSeconds", Absent::Int(1), Rule::Exact),
    default("periodSeconds", Absent::Int(10), Rule::Exact),
    default("successThreshold", Absent::Int(1), Rule::Exact),
    default("failureThreshold", Absent::Int(3), Rule::Exact),
    field("terminationGracePeriodSeconds", Rule::Deep),
]));

const LIFECYCLE: Rule = Rule::Map(&closed(&[
    both_ways("postStart", Rule::Map(&closed(&[both_ways("httpGet", HTTP_GET)]))),
    both_ways("preStop", Rule::Map(&closed(&[both_ways("httpGet", HTTP_GET)]))),
]));
