//! What the daemon reads and writes by itself, whatever the release contains.

use super::{Place, Rights};
use crate::cluster_version::progress;
use crate::object::MANAGED_NAMESPACE;

/// Where a resource is.
#[derive(Clone, Copy)]
enum Scope {
    Cluster,
    /// The daemon's own namespace.
    Own,
    Namespace(&'static str),
}

/// What objects of a resource are accessed.
#[derive(Clone, Copy)]
enum Which {
    All,
    Named(&'static str),
    /// Named as the ClusterVersion.
    Version,
}

use Scope::{Cluster, Namespace, Own};
use Which::{All, Named, Version};

struct Line(Scope, &'static str, &'static str, Which, &'static [&'static str], &'static str);

const FOLLOW: &[&str] = &["get", "list", "watch"];
const CREATE: &[&str] = &["create"];
const CONFIG: &str = "config.openshift.io";

/// Scope, group, resource, which of them, verbs, and what for.
const TABLE: &[Line] = &[
    Line(Cluster, CONFIG, "clusterversions", All, FOLLOW, "what is asked for, and whether there are others"),
    Line(Cluster, CONFIG, "clusterversions/status", Version, &["update"], "what is done"),
    Line(Cluster, CONFIG, "clusteroperators", All, FOLLOW, "the health of operators"),
    Line(Cluster, CONFIG, "featuregates", Named("cluster"), FOLLOW, "which manifests are included"),
    Line(Cluster, CONFIG, "proxies", All, FOLLOW, "the way out of the cluster, and what is injected into manifests"),
    Line(Cluster, CONFIG, "infrastructures", All, FOLLOW, "the topology, and what is injected into manifests"),
    Line(
        Cluster,
        CONFIG,
        "apiservers",
        All,
        FOLLOW,
        "TLS settings of the metrics, and what is injected into manifests",
    ),
    Line(Cluster, "operator.openshift.io", "clusterversionoperators", Named("cluster"), FOLLOW, "the log level"),
    Line(
        Cluster,
        "operator.openshift.io",
        "clusterversionoperators/status",
        Named("cluster"),
        &["update"],
        "that the log level was taken over",
    ),
    Line(Cluster, "apiextensions.k8s.io", "customresourcedefinitions", All, FOLLOW, "which kinds are served"),
    Line(Cluster, "apiregistration.k8s.io", "apiservices", All, FOLLOW, "which kinds are served"),
    Line(
        Cluster,
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        All,
        FOLLOW,
        "which fields are accepted",
    ),
    Line(
        Cluster,
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        All,
        FOLLOW,
        "which fields are accepted",
    ),
    Line(Cluster, "", "nodes", All, &["list"], "what hinders an update"),
    Line(Cluster, "", "nodes", All, &["list", "watch"], "whether a node can run the daemon of the next release"),
    Line(Cluster, "", "pods", All, &["list"], "what hinders an update"),
    Line(Cluster, "", "nodes", All, &["get", "list"], "whether nodes explain that an operator is not available"),
    Line(Cluster, "", "pods", All, &["list", "watch"], "whether nodes explain that an operator is not available"),
    Line(Cluster, "", "events", All, &["list"], "whether nodes explain that an operator is not available"),
    Line(Namespace("kube-node-lease"), "coordination.k8s.io", "leases", All, &["list"], "what hinders an update"),
    Line(Cluster, "policy", "poddisruptionbudgets", All, &["list"], "what hinders an update"),
    Line(Cluster, "apiregistration.k8s.io", "apiservices", All, &["list"], "what hinders an update"),
    Line(Cluster, "discovery.k8s.io", "endpointslices", All, &["list"], "what hinders an update"),
    Line(Cluster, "", "services", All, &["get"], "what hinders an update"),
    Line(Cluster, "authentication.k8s.io", "tokenreviews", All, CREATE, "who asks for metrics"),
    Line(Cluster, "authorization.k8s.io", "subjectaccessreviews", All, CREATE, "who may read metrics"),
    Line(
        Cluster,
        "security.openshift.io",
        "securitycontextconstraints",
        Named("hostaccess"),
        &["use"],
        "the pod of the daemon",
    ),
    Line(Own, "coordination.k8s.io", "leases", All, CREATE, "which process leads"),
    Line(Own, "coordination.k8s.io", "leases", Version, &["get", "list", "watch", "update"], "which process leads"),
    Line(Own, "", "configmaps", All, CREATE, "the progress record"),
    Line(Own, "", "configmaps", Named(progress::CONFIG_MAP), &["get", "update"], "the progress record"),
    Line(Own, "batch", "jobs", All, &["create", "get", "list", "watch", "delete"], "retrieving and trying releases"),
    Line(Own, "", "pods", All, FOLLOW, "retrieving and trying releases"),
    Line(Own, "events.k8s.io", "events", All, &["create", "patch"], "events of the ClusterVersion"),
    Line(
        Namespace("kube-system"),
        "",
        "configmaps",
        Named("extension-apiserver-authentication"),
        FOLLOW,
        "who may read metrics",
    ),
    Line(Namespace("openshift-config"), "", "configmaps", Named("admin-acks"), FOLLOW, "acknowledged gates"),
    Line(Namespace("openshift-config"), "", "configmaps", Named("openshift-install"), &["get"], "who installed"),
    Line(
        Namespace("openshift-config"),
        "",
        "configmaps",
        Named("openshift-install-manifests"),
        &["get"],
        "who installed",
    ),
    Line(Namespace(MANAGED_NAMESPACE), "", "configmaps", All, FOLLOW, "gates, signatures and trusted CAs"),
    Line(Namespace(MANAGED_NAMESPACE), "", "configmaps", All, CREATE, "signatures that were found"),
    Line(
        Namespace(MANAGED_NAMESPACE),
        "",
        "configmaps",
        Named("signatures-managed"),
        &["update"],
        "signatures that were found",
    ),
    Line(
        Namespace("kube-system"),
        "",
        "configmaps",
        Named("extension-apiserver-authentication"),
        FOLLOW,
        "which certificates of clients the metrics trust",
    ),
    Line(Namespace("openshift-monitoring"), "", "services", Named("thanos-querier"), &["get"], "risks of updates"),
];

/// Adds what the daemon needs in its namespace, with a ClusterVersion of this name.
pub(super) fn add(rights: &mut Rights, own: &str, version: &str) {
    for Line(scope, group, resource, which, verbs, purpose) in TABLE {
        let namespace = match scope {
            Cluster => "",
            Own => own,
            Namespace(name) => name,
        };
        let name = match which {
            All => "",
            Named(name) => name,
            Version => version,
        };
        rights.add_verbs(&Place { namespace, group, resource }, name, verbs, &format!("the daemon: {purpose}"));
    }
}
