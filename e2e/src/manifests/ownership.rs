//! Says for each kind what a release owns, as its documentation promises it to administrators, and checks that one rollout
//! enforced that and nothing else. Must not use the rules of the merge, which it checks.

mod check;

pub use check::{Sides, problems};
use serde_json::Value;

/// Who decides about a value.
#[derive(Clone, Copy, Debug)]
pub enum Owns {
    /// The release: it is as in a new object of the manifest, whether the manifest sets it or not.
    Whole,
    /// The same, in any order.
    Unordered,
    /// The same, where a host port equal to the container port is none: on the host network other clients may set it.
    Ports,
    /// The same, where none means this value (JSON).
    Default(&'static str),
    /// The release if the manifest has the value, as a whole. Otherwise it stays.
    WholeIfSet,
    /// The release where the manifest sets something, map by map, lists position by position. The rest stays.
    Set,
    /// Like `Set`, for a text; an empty one is not set.
    Text,
    /// The release by each key of the manifest. Other keys stay.
    Entries,
    /// Others: it stays.
    Nothing,
    /// The server.
    Server,
    /// Field by field; all other fields are `Set`. No map in the manifest means an empty one.
    Fields(&'static [(&'static str, Owns)]),
    /// The same, but all other fields are `Whole`.
    Closed(&'static [(&'static str, Owns)]),
    /// Like `Fields` if the manifest has the map. Otherwise it is as in a new object.
    Block(&'static [(&'static str, Owns)]),
    /// The same if the manifest has the map. Otherwise it stays.
    FieldsIfSet(&'static [(&'static str, Owns)]),
    /// The elements of the manifest are in the list, once. Others stay.
    Additive,
    /// Elements are known by this key. Others are removed.
    Named(&'static str, &'static Owns),
    /// Elements are known by this key. Others stay.
    NamedAndOthers(&'static str, &'static Owns),
    /// Depends on the manifest's map.
    Choose(fn(&Value) -> Owns),
}

use Owns::{
    Additive, Block, Choose, Closed, Default, Entries, Fields, FieldsIfSet, Named, NamedAndOthers, Nothing, Ports,
    Server, Set, Text, Unordered, Whole, WholeIfSet,
};

type Table = &'static [(&'static str, Owns)];

const METADATA: Owns = Fields(&[
    ("labels", Entries),
    ("annotations", Entries),
    ("ownerReferences", NamedAndOthers("uid", &Whole)),
    ("finalizers", Nothing),
    ("name", Server),
    ("uid", Server),
    ("resourceVersion", Server),
    ("generation", Server),
    ("creationTimestamp", Server),
    ("managedFields", Server),
]);

const TEMPLATE: Owns = Fields(&[
    ("metadata", Fields(&[("labels", Entries), ("annotations", Entries), ("creationTimestamp", Server)])),
    ("spec", Fields(POD)),
]);

const POD: Table = &[
    ("containers", Named("name", &CONTAINER)),
    ("initContainers", Named("name", &CONTAINER)),
    ("volumes", Named("name", &VOLUME)),
    ("automountServiceAccountToken", Whole),
    ("hostUsers", Whole),
    ("shareProcessNamespace", Whole),
    ("priority", Whole),
    ("hostNetwork", Whole),
    ("hostPID", Whole),
    ("hostIPC", Whole),
    ("dnsPolicy", Whole),
    ("terminationGracePeriodSeconds", Whole),
    ("serviceAccount", Choose(account)),
    ("serviceAccountName", Choose(account)),
    ("priorityClassName", Text),
    ("nodeSelector", Entries),
    ("tolerations", Additive),
    ("imagePullSecrets", Additive),
    ("hostAliases", NamedAndOthers("ip", &Whole)),
    ("affinity", FieldsIfSet(&[("nodeAffinity", Whole), ("podAffinity", Whole), ("podAntiAffinity", Whole)])),
    ("dnsConfig", WholeIfSet),
    ("overhead", WholeIfSet),
    (
        "securityContext",
        Block(&[
            ("runAsUser", Whole),
            ("runAsGroup", Whole),
            ("runAsNonRoot", Whole),
            ("fsGroup", Whole),
            ("seccompProfile", Whole),
            ("seLinuxOptions", SELINUX),
            ("appArmorProfile", WholeIfSet),
            ("supplementalGroups", Additive),
            ("sysctls", NamedAndOthers("name", &Whole)),
        ]),
    ),
];

/// Old and new name of one field.
fn account(pod: &Value) -> Owns {
    let named = |field: &str| pod[field].as_str().is_some_and(|name| !name.is_empty());
    if named("serviceAccount") || named("serviceAccountName") { Whole } else { Nothing }
}

const SELINUX: Owns = Block(&[("user", Text), ("role", Text), ("type", Text), ("level", Text)]);

/// Of a claim that is made with the pod only what the manifest sets is owned.
const VOLUME: Owns = Choose(|volume| match (&volume["ephemeral"], &volume["image"]) {
    (Value::Object(_), _) => Closed(&[("ephemeral", Set)]),
    (_, Value::Object(_)) => Closed(&[("image", Fields(&[("reference", Whole)]))]),
    _ => Whole,
});

const CONTAINER: Owns = Fields(&[
    ("ports", Ports),
    ("workingDir", Text),
    ("command", Whole),
    ("args", Whole),
    ("env", Whole),
    ("envFrom", Whole),
    ("resources", Fields(&[("limits", Whole), ("requests", Whole)])),
    ("volumeMounts", Named("mountPath", &Whole)),
    ("livenessProbe", PROBE),
    ("readinessProbe", PROBE),
    ("startupProbe", Choose(|container| if container["startupProbe"].is_null() { Nothing } else { PROBE })),
    ("lifecycle", WholeIfSet),
    (
        "securityContext",
        Block(&[
            ("privileged", Whole),
            ("runAsUser", Whole),
            ("runAsNonRoot", Whole),
            ("readOnlyRootFilesystem", Whole),
            ("allowPrivilegeEscalation", Whole),
            ("seccompProfile", Whole),
            ("seLinuxOptions", SELINUX),
            ("appArmorProfile", WholeIfSet),
            ("capabilities", Block(&[("add", Additive), ("drop", Additive)])),
        ]),
    ),
]);

const PROBE: Owns = Block(&[
    ("exec", Whole),
    ("httpGet", Whole),
    ("tcpSocket", Whole),
    ("grpc", Whole),
    ("initialDelaySeconds", Whole),
    ("timeoutSeconds", Whole),
    ("periodSeconds", Whole),
    ("successThreshold", Whole),
    ("failureThreshold", Whole),
    ("terminationGracePeriodSeconds", Set),
]);

const JOB: Table = &[
    // The server does not fill in the job of a CronJob.
    ("parallelism", Default("1")),
    ("completions", Choose(|job| if job["parallelism"].is_null() { Default("1") } else { Whole })),
    ("activeDeadlineSeconds", Whole),
    ("backoffLimit", Choose(|job| if job["backoffLimitPerIndex"].is_null() { Default("6") } else { Set })),
    ("ttlSecondsAfterFinished", Whole),
    ("suspend", Default("false")),
    ("completionMode", Default("\"NonIndexed\"")),
    ("manualSelector", Server),
    ("podFailurePolicy", Whole),
    ("successPolicy", Whole),
    ("backoffLimitPerIndex", Whole),
    ("maxFailedIndexes", Whole),
    (
        "podReplacementPolicy",
        Choose(|job| {
            if job["podFailurePolicy"].is_null() { Default("\"TerminatingOrFailed\"") } else { Default("\"Failed\"") }
        }),
    ),
    ("selector", Server),
    ("template", TEMPLATE),
];

const CRON_JOB: Table = &[
    ("timeZone", Whole),
    ("startingDeadlineSeconds", Whole),
    ("concurrencyPolicy", Whole),
    ("suspend", Whole),
    ("successfulJobsHistoryLimit", Whole),
    ("failedJobsHistoryLimit", Whole),
    (
        "jobTemplate",
        Fields(&[
            ("metadata", Fields(&[("labels", Entries), ("annotations", Entries), ("creationTimestamp", Server)])),
            ("spec", Fields(JOB)),
        ]),
    ),
];

const SERVICE: Table = &[
    (
        "ports",
        Named(
            "name",
            &Fields(&[
                ("port", Whole),
                ("protocol", Whole),
                ("targetPort", Whole),
                ("appProtocol", Whole),
                ("nodePort", Server),
            ]),
        ),
    ),
    ("type", Whole),
    ("selector", Whole),
    // Follows from the affinity.
    ("sessionAffinityConfig", Server),
    // Allocated, or cleared with another type.
    ("clusterIP", Server),
    ("clusterIPs", Server),
    ("ipFamilies", Server),
    ("ipFamilyPolicy", Server),
    ("healthCheckNodePort", Server),
    ("externalTrafficPolicy", Server),
    ("allocateLoadBalancerNodePorts", Server),
];

const CONSTRAINTS: Table = &[
    ("priority", Default("0")),
    ("allowHostDirVolumePlugin", Default("false")),
    ("allowHostIPC", Default("false")),
    ("allowHostNetwork", Default("false")),
    ("allowHostPID", Default("false")),
    ("allowHostPorts", Default("false")),
    ("allowPrivilegedContainer", Default("false")),
    ("readOnlyRootFilesystem", Default("false")),
    ("allowPrivilegeEscalation", Default("true")),
    ("defaultAllowPrivilegeEscalation", Whole),
    ("allowedCapabilities", Unordered),
    ("defaultAddCapabilities", Unordered),
    ("requiredDropCapabilities", Unordered),
    ("allowedFlexVolumes", Unordered),
    ("users", Unordered),
    ("groups", Unordered),
    ("seccompProfiles", Unordered),
    ("allowedUnsafeSysctls", Unordered),
    ("forbiddenSysctls", Unordered),
    // The server adds or removes host directories.
    ("volumes", Choose(|m| if m["volumes"].is_array() { Server } else { Nothing })),
    ("seLinuxContext", WholeIfSet),
    ("runAsUser", WholeIfSet),
    ("fsGroup", Closed(&[("type", Default("\"RunAsAny\""))])),
    ("supplementalGroups", Closed(&[("type", Default("\"RunAsAny\""))])),
];

/// By group and kind. Of all other kinds a release owns what its manifest sets.
const KINDS: &[(&str, &str, Table)] = &[
    ("", "Namespace", &[("spec", Nothing)]),
    ("", "ConfigMap", &[("data", Entries), ("binaryData", Entries), ("immutable", Nothing)]),
    ("", "Secret", &[("data", Entries), ("stringData", Server), ("type", Text)]),
    (
        "",
        "ServiceAccount",
        &[("automountServiceAccountToken", Whole), ("secrets", Nothing), ("imagePullSecrets", Nothing)],
    ),
    ("", "Service", &[("spec", Fields(SERVICE))]),
    ("", "ResourceQuota", &[("spec", Fields(&[("hard", Entries)]))]),
    (
        "apps",
        "Deployment",
        &[(
            "spec",
            Fields(&[
                ("replicas", Whole),
                ("paused", Whole),
                ("minReadySeconds", Whole),
                ("selector", Whole),
                ("strategy", Whole),
                ("template", TEMPLATE),
            ]),
        )],
    ),
    (
        "apps",
        "DaemonSet",
        &[("spec", Fields(&[("selector", Whole), ("updateStrategy", WholeIfSet), ("template", TEMPLATE)]))],
    ),
    (
        "apps",
        "StatefulSet",
        &[(
            "spec",
            Fields(&[
                ("selector", Whole),
                (
                    "updateStrategy",
                    FieldsIfSet(&[("type", Whole), ("rollingUpdate", Fields(&[("partition", Default("0"))]))]),
                ),
                ("template", TEMPLATE),
            ]),
        )],
    ),
    ("batch", "Job", &[("spec", Fields(JOB))]),
    ("batch", "CronJob", &[("spec", Fields(CRON_JOB))]),
    (
        "policy",
        "PodDisruptionBudget",
        &[("spec", Fields(&[("minAvailable", Whole), ("maxUnavailable", Whole), ("selector", WholeIfSet)]))],
    ),
    ("networking.k8s.io", "IngressClass", &[("spec", Fields(&[("parameters", Whole)]))]),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        &[(
            "spec",
            Fields(&[("podSelector", Whole), ("policyTypes", Unordered), ("ingress", Whole), ("egress", Whole)]),
        )],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        &[("spec", Fields(&[("limited", Whole), ("exempt", Whole)]))],
    ),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", &[("spec", Fields(&[("rules", WholeIfSet)]))]),
    (
        "node.k8s.io",
        "RuntimeClass",
        &[("overhead", FieldsIfSet(&[("podFixed", WholeIfSet)])), ("scheduling", Fields(&[("nodeSelector", Entries)]))],
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", &[("spec", Fields(&[("paramRef", Whole)]))]),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", &[("webhooks", Whole)]),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", &[("webhooks", Whole)]),
    ("rbac.authorization.k8s.io", "Role", &[("rules", Whole)]),
    (
        "rbac.authorization.k8s.io",
        "ClusterRole",
        // The control plane sets the rules of an aggregated role.
        &[
            ("aggregationRule", Whole),
            ("rules", Choose(|role| if role["aggregationRule"].is_null() { Whole } else { Server })),
        ],
    ),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        &[("subjects", Whole), ("roleRef", WholeIfSet), ("userNames", Server)],
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        &[("subjects", Whole), ("roleRef", WholeIfSet), ("userNames", Server)],
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", &[("spec", Whole)]),
    (
        "apiregistration.k8s.io",
        "APIService",
        &[(
            "spec",
            Fields(&[
                ("insecureSkipTLSVerify", Whole),
                ("caBundle", Choose(|spec| if spec["insecureSkipTLSVerify"] == true { Whole } else { Text })),
            ]),
        )],
    ),
    ("security.openshift.io", "SecurityContextConstraints", CONSTRAINTS),
    (
        "operators.coreos.com",
        "OperatorGroup",
        &[(
            "spec",
            Fields(&[
                ("selector", Default("{}")),
                ("targetNamespaces", Whole),
                ("staticProvidedAPIs", Default("false")),
                ("upgradeStrategy", Default("\"Default\"")),
            ]),
        )],
    ),
    ("config.openshift.io", "ClusterOperator", &[("spec", Nothing)]),
];
