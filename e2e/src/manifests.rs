//! Random manifests of every kind that a release may contain and a plain API server serves. Most of them are valid.

pub mod extensions;
pub mod openshift;
pub mod ownership;
mod pods;
mod small;
pub mod variants;
mod volumes;
mod workloads;

use crate::random::SeededRandom;
use serde_json::{Value, json};

/// Makes the body of a manifest of one kind; only a few use the name of the object.
type Body = fn(&SeededRandom, &str) -> Value;

/// A kind and its place in the API.
#[derive(Clone, Debug)]
pub struct Kind {
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    body: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Made(Body),
    /// An object of a release, whose name the manifests have.
    Reduced(Value),
}

impl Kind {
    fn made(api_version: &str, kind: &str, plural: &str, namespaced: bool, body: Body) -> Self {
        let [api_version, kind, plural] = [api_version, kind, plural].map(str::to_owned);
        Kind { api_version, kind, plural, namespaced, body: Source::Made(body) }
    }

    /// An object of a release, of a kind that `definition` defines.
    pub fn of_release(definition: &Value, object: &Value) -> Self {
        Kind {
            api_version: object["apiVersion"].as_str().unwrap().to_owned(),
            kind: object["kind"].as_str().unwrap().to_owned(),
            plural: definition["spec"]["names"]["plural"].as_str().unwrap().to_owned(),
            namespaced: definition["spec"]["scope"] == "Namespaced",
            body: Source::Reduced(object.clone()),
        }
    }

    /// Whether its objects are made here, and not taken from a release.
    pub fn is_made(&self) -> bool {
        matches!(self.body, Source::Made(_))
    }

    /// The name of object `number`.
    pub fn name(&self, number: usize) -> String {
        match (&self.body, self.kind.as_str()) {
            (Source::Reduced(object), _) => object["metadata"]["name"].as_str().unwrap().to_owned(),
            (_, "CustomResourceDefinition") => format!("widgets.g{number}.merge.example"),
            (_, "APIService") => format!("v1.a{number}.merge.example"),
            _ => format!("m{number}"),
        }
    }

    /// Each kind has its own namespace, so that quotas and limits affect no other kind.
    pub fn namespace(&self) -> Option<String> {
        self.namespaced.then(|| format!("merge-{}", self.plural))
    }

    /// Path of the list.
    pub fn list(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let namespace = self.namespace().map(|name| format!("namespaces/{name}/")).unwrap_or_default();
        format!("/{root}/{}/{namespace}{}", self.api_version, self.plural)
    }

    /// Manifest number `turn` of object `number`.
    pub fn manifest(&self, seed: u64, number: usize, turn: u64) -> Value {
        let salt = self.kind.bytes().fold(number as u64, |sum, byte| sum.wrapping_mul(257).wrapping_add(byte.into()));
        let d = SeededRandom::new(seed, salt, turn);
        let name = self.name(number);
        let mut object = match &self.body {
            Source::Made(body) => body(&d, &name),
            Source::Reduced(object) => openshift::reduced(&d, object),
        };
        let mut metadata = d.some(&[("labels", SeededRandom::entries), ("annotations", SeededRandom::entries)]);
        metadata["name"] = json!(name);
        if let Some(namespace) = self.namespace() {
            metadata["namespace"] = json!(namespace);
        }
        object["apiVersion"] = json!(self.api_version);
        object["kind"] = json!(self.kind);
        object["metadata"] = metadata;
        object
    }
}

fn group_of(name: &str) -> &str {
    name.split_once('.').unwrap().1
}

/// The group of the custom resources with defaults.
pub const CUSTOM: &str = "custom.merge.example";

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const FLOW: &str = "flowcontrol.apiserver.k8s.io/v1";
/// The kinds that any API server serves: API version, kind, plural, whether namespaced, and body.
const SERVED: &[(&str, &str, &str, bool, Body)] = &[
    ("v1", "Namespace", "namespaces", false, |d, _| small::nothing(d)),
    ("v1", "ConfigMap", "configmaps", true, |d, _| small::config_map(d)),
    ("v1", "Secret", "secrets", true, |d, _| small::secret(d)),
    ("v1", "ServiceAccount", "serviceaccounts", true, |d, _| small::service_account(d)),
    ("v1", "Service", "services", true, |d, _| small::service(d)),
    ("v1", "ResourceQuota", "resourcequotas", true, |d, _| workloads::quota(d)),
    ("v1", "LimitRange", "limitranges", true, |d, _| workloads::limit_range(d)),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, |d, _| workloads::claim(d)),
    ("apps/v1", "Deployment", "deployments", true, |d, _| workloads::deployment(d)),
    ("apps/v1", "DaemonSet", "daemonsets", true, |d, _| workloads::daemon_set(d)),
    ("apps/v1", "StatefulSet", "statefulsets", true, |d, _| workloads::stateful_set(d)),
    ("batch/v1", "Job", "jobs", true, |d, _| workloads::job(d)),
    ("batch/v1", "CronJob", "cronjobs", true, |d, _| workloads::cron_job(d)),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true, |d, _| workloads::disruption_budget(d)),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true, |d, _| workloads::autoscaler(d)),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true, |d, _| small::network_policy(d)),
    ("networking.k8s.io/v1", "Ingress", "ingresses", true, |d, _| small::ingress(d)),
    ("networking.k8s.io/v1", "IngressClass", "ingressclasses", false, |d, _| small::ingress_class(d)),
    (RBAC, "Role", "roles", true, |d, _| small::role(d)),
    (RBAC, "ClusterRole", "clusterroles", false, |d, _| small::cluster_role(d)),
    (RBAC, "RoleBinding", "rolebindings", true, |d, _| small::role_binding(d)),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings", false, |d, _| small::cluster_binding(d)),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", false, |d, _| small::priority_class(d)),
    ("storage.k8s.io/v1", "StorageClass", "storageclasses", false, |d, _| small::storage_class(d)),
    ("storage.k8s.io/v1", "CSIDriver", "csidrivers", false, |d, _| small::csi_driver(d)),
    ("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", false, |d, _| small::runtime_class(d)),
    ("coordination.k8s.io/v1", "Lease", "leases", true, |d, _| small::lease(d)),
    (FLOW, "FlowSchema", "flowschemas", false, |d, _| extensions::flow_schema(d)),
    (FLOW, "PriorityLevelConfiguration", "prioritylevelconfigurations", false, |d, _| extensions::priority_level(d)),
    (ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false, |d, _| {
        extensions::validating_webhooks(d)
    }),
    (ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false, |d, _| {
        extensions::mutating_webhooks(d)
    }),
    (ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false, |d, _| {
        extensions::admission_policy(d)
    }),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false, |d, _| {
        extensions::policy_binding(d)
    }),
    ("apiregistration.k8s.io/v1", "APIService", "apiservices", false, |d, name| {
        extensions::api_service(d, group_of(name))
    }),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false, |d, name| {
        extensions::definition(d, group_of(name))
    }),
];

/// The kinds that any API server serves, and the custom resource of [`extensions::custom_definition`].
pub fn served() -> Vec<Kind> {
    let mut kinds: Vec<Kind> =
        SERVED.iter().map(|(v, kind, plural, ns, body)| Kind::made(v, kind, plural, *ns, *body)).collect();
    kinds.push(Kind::made(&format!("{CUSTOM}/v1"), "Gadget", "gadgets", true, |d, _| extensions::custom(d)));
    kinds
}

/// Kinds of the OpenShift APIs that are merged by special rules; the shared release contains their definitions.
pub fn openshift() -> Vec<Kind> {
    vec![
        Kind::made(
            "security.openshift.io/v1",
            "SecurityContextConstraints",
            "securitycontextconstraints",
            false,
            |d, _| openshift::constraints(d),
        ),
        Kind::made("operators.coreos.com/v1", "OperatorGroup", "operatorgroups", true, |d, _| {
            openshift::operator_group(d)
        }),
        Kind::made("config.openshift.io/v1", "ClusterOperator", "clusteroperators", false, |d, _| {
            openshift::cluster_operator(d)
        }),
    ]
}
