//! What a test cluster is made of.

/// What `Cluster::up` starts.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Name of the cluster; derived from the slot when absent. Lower-case letters, digits and dashes, at most 20.
    pub name: Option<String>,
    /// A real node: containerd and kubelet. Needs root.
    pub node: bool,
    /// An OCI registry on loopback, plain http, that the node can pull from.
    pub registry: bool,
    /// kwok, which simulates the nodes made by `add_fake_nodes` and their pods.
    pub kwok: bool,
    /// Write the API server's audit log (level Metadata).
    pub audit: bool,
    /// Statuses whose writes open gates, as group and `plural/status`: the audit log has them as soon as they arrive, so that they are
    /// known even if the server is killed before it answers. Those of workloads need not be named.
    pub gates: &'static [(&'static str, &'static str)],
    /// The controller-manager's `--controllers`, for example `*,-deployment-controller`; all when absent.
    pub controllers: Option<String>,
    /// The API server listens on IPv6 only, and Services have IPv6 addresses. Not with a real node.
    pub ipv6: bool,
    /// How many bytes etcd takes before it refuses writes; its default when absent.
    pub etcd_quota: Option<u64>,
    /// The API server's `--feature-gates`, for example `WatchList=false`; its defaults when absent.
    pub feature_gates: Option<String>,
    /// All clients trust a second authority too, of which `Cluster::exchange_authority` gives the API server a certificate.
    pub next_authority: bool,
}
