//! `cvo start`: the daemon.

use crate::cluster::lease::Times;
use crate::daemon::{self, Config, PayloadSource, Serving, SetLogLevel, promql};
use crate::payload::capability;
use crate::serve::tls;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Run the daemon: reconcile the release that this image belongs to, and update the cluster when another one is requested.
#[derive(Args, Debug)]
pub(crate) struct StartArgs {
    /// Pull spec of the running release image, by digest.
    #[arg(long, value_name = "IMAGE")]
    release_image: String,
    /// Node of this process; retrieval Jobs are pinned to it, because the extracted payload is on its disk.
    #[arg(long, env = "NODE_NAME", value_name = "NAME", default_value = "")]
    node_name: String,
    /// Address of the metrics (HTTPS), for clients with the certificate of the platform's Prometheus or with the token of one who
    /// may get the path /metrics; empty disables it.
    #[arg(long, default_value = "0.0.0.0:9099", value_name = "ADDRESS")]
    listen: String,
    /// Address of /healthz and /readyz (HTTP) for the kubelet, which ask nobody who they are; empty disables it.
    #[arg(long, default_value = "127.0.0.1:9098", value_name = "ADDRESS")]
    listen_health: String,
    #[command(flatten)]
    serving: ServingArgs,
    /// Kubeconfig instead of the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// URL of the update service; overrides spec.upstream.
    #[arg(long, value_name = "URL")]
    update_service: Option<String>,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Namespace of the daemon.
    #[arg(long, env = "CVO_NAMESPACE", default_value = crate::api::NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// Name of the ClusterVersion.
    #[arg(long, env = "CVO_NAME", default_value = crate::api::NAME, value_name = "NAME")]
    name: String,
    /// Cluster profile: manifests without its annotation are excluded.
    #[arg(long, env = "CLUSTER_PROFILE", default_value = "self-managed-high-availability", value_name = "NAME")]
    profile: String,
    /// Manifests annotated exclude.release.openshift.io/<ID>=true are excluded for each of these IDs, comma-separated.
    #[arg(long, env = "EXCLUDE_MANIFESTS", value_name = "IDS")]
    exclude_manifests: Option<String>,
    /// Capabilities that are enabled even if the ClusterVersion does not name them, comma-separated.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = capability_name)]
    always_enable_capabilities: Vec<String>,
    /// Report an operator as failing at once also where its pods had to leave a node that its pool is updating, as the original does.
    /// Without it the update says for up to five minutes that it waits for the node, unless anything else is wrong with the operator.
    #[arg(long)]
    drained_operators_fail: bool,
    /// Go on past DaemonSets that are being rolled out and Jobs that run, as the original does. Without it they are waited for
    /// like Deployments.
    #[arg(long)]
    unfinished_workloads_pass: bool,
    /// Root of the running release's payload.
    #[arg(long, env = "PAYLOAD_OVERRIDE", default_value = "/", value_name = "DIR")]
    payload: PathBuf,
    /// Folder of extracted payloads in this process's file system.
    #[arg(long, default_value = crate::api::PAYLOAD_STORE, value_name = "DIR")]
    payload_store: PathBuf,
    /// The same folder on the node, mounted into retrieval Jobs.
    #[arg(long, env = "CVO_PAYLOAD_HOST_PATH", default_value = crate::api::PAYLOAD_STORE, value_name = "DIR")]
    payload_host_path: String,
    /// Where target payloads come from: a Job that extracts the target image, or a directory that is already in the payload
    /// store (for running outside a cluster; nothing says that it is what the signature is for, so that the release must be
    /// signed and is not recorded as verified).
    #[arg(long, value_enum, default_value = "job")]
    payload_source: Source,
    /// Identity in the leader election; the pod's UID, so that a restarted container resumes its own lease.
    #[arg(long, env = "POD_UID", value_name = "ID")]
    identity: Option<String>,
    #[command(flatten)]
    lease: LeaseArgs,
}

/// How metrics are served.
#[derive(Args, Debug)]
pub(crate) struct ServingArgs {
    /// Certificate of the metrics server; self-signed if none is given, and until it is there.
    #[arg(long, value_name = "FILE", requires = "serving_key_file")]
    serving_cert_file: Option<PathBuf>,
    /// Key of the metrics server's certificate.
    #[arg(long, value_name = "FILE", requires = "serving_cert_file")]
    serving_key_file: Option<PathBuf>,
    /// Lowest TLS version of the metrics server, such as VersionTLS13; comes before what the cluster demands.
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<String>,
    /// Cipher suites of the metrics server for TLS 1.2 (IANA names, comma-separated); come before what the cluster demands.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
}

/// The monitoring of the cluster, which answers queries.
#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// URL of the Prometheus API that is asked for the queries of published risks, and for those of pools of nodes.
    #[arg(
        long,
        default_value = "https://thanos-querier.openshift-monitoring.svc.cluster.local:9091",
        value_name = "URL"
    )]
    metrics_url: String,
    /// Service whose address is used in place of the host of --metrics-url.
    #[arg(long, default_value = "thanos-querier", value_name = "NAME")]
    metrics_service: String,
    /// Namespace of that Service.
    #[arg(long, default_value = "openshift-monitoring", value_name = "NAME")]
    metrics_namespace: String,
    /// CAs that sign the certificate of --metrics-url; empty for those of the operating system.
    #[arg(long, default_value = "/etc/tls/service-ca/service-ca.crt", value_name = "FILE")]
    metrics_ca_bundle_file: String,
    /// Bearer token for --metrics-url, if that begins with https; empty for none.
    #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token", value_name = "FILE")]
    metrics_token_file: String,
    /// Resolve the host of --metrics-url by DNS, and do not look the Service up.
    #[arg(long)]
    use_dns_for_services: bool,
}

/// The times of a leader election: all three, or none.
#[derive(Args, Debug)]
pub(crate) struct LeaseArgs {
    /// How long the lease is valid without being renewed, in seconds [default: 137; with a control plane of a single node
    /// 270].
    #[arg(long, value_name = "SECONDS", requires_all = ["lease_renew_deadline", "lease_retry"])]
    lease_duration: Option<u64>,
    /// How long the leader tries to renew before it stops, in seconds; at least 5 less than --lease-duration [default: 107;
    /// with a control plane of a single node 240].
    #[arg(long, value_name = "SECONDS", requires_all = ["lease_duration", "lease_retry"])]
    lease_renew_deadline: Option<u64>,
    /// How often the lease is renewed, in seconds [default: 26; with a control plane of a single node 60].
    #[arg(long, value_name = "SECONDS", requires_all = ["lease_duration", "lease_renew_deadline"])]
    lease_retry: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Source {
    Job,
    Directory,
}

fn capability_name(text: &str) -> Result<String, String> {
    let known = capability::names();
    if known.contains(text) {
        return Ok(text.to_owned());
    }
    let known: Vec<_> = known.into_iter().collect();
    Err(format!("unknown capability; the known ones are {}", known.join(", ")))
}

pub(crate) async fn run(args: StartArgs, set_log_level: SetLogLevel, stop: CancellationToken) -> anyhow::Result<()> {
    let serving = args.serving.serving(&args.listen)?;
    let listen_health = address("--listen-health", &args.listen_health)?;
    let lease = args.lease.times()?;
    anyhow::ensure!(!args.release_image.is_empty(), "--release-image must name the running release image, by digest");
    let source = match args.payload_source {
        Source::Directory => PayloadSource::Directory,
        Source::Job => {
            anyhow::ensure!(
                !args.node_name.is_empty(),
                "--node-name (or NODE_NAME) must name the node of this process, because retrieval Jobs are pinned to it; outside a cluster use --payload-source=directory"
            );
            PayloadSource::Job { node: args.node_name, host_path: args.payload_host_path }
        }
    };
    let config = Config {
        release_image: args.release_image,
        serving,
        listen_health,
        kubeconfig: args.kubeconfig,
        update_service: args.update_service,
        metrics: args.metrics.source()?,
        namespace: args.namespace,
        name: args.name,
        profile: args.profile,
        exclude_manifests: args.exclude_manifests,
        always_enabled: args.always_enable_capabilities.into_iter().collect(),
        nodes_explain: !args.drained_operators_fail,
        unfinished_pass: args.unfinished_workloads_pass,
        payload: args.payload,
        payload_store: args.payload_store,
        source,
        identity: args.identity.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        lease,
        set_log_level,
    };
    Ok(daemon::run(config, stop).await?)
}

impl MetricsArgs {
    pub(crate) fn source(self) -> anyhow::Result<promql::Source> {
        let file = |path: String| (!path.is_empty()).then(|| PathBuf::from(path));
        let by_service = !self.use_dns_for_services;
        anyhow::ensure!(
            !by_service || !self.metrics_service.is_empty() && !self.metrics_namespace.is_empty(),
            "--metrics-service and --metrics-namespace must name a Service; use --use-dns-for-services to resolve the host of \
             --metrics-url by DNS instead"
        );
        Ok(promql::Source {
            url: self.metrics_url,
            service: by_service.then_some((self.metrics_namespace, self.metrics_service)),
            ca_bundle: file(self.metrics_ca_bundle_file),
            token: file(self.metrics_token_file),
        })
    }
}

impl LeaseArgs {
    pub(crate) fn times(&self) -> anyhow::Result<Option<Times>> {
        match (self.lease_duration, self.lease_renew_deadline, self.lease_retry) {
            (Some(duration), Some(renew), Some(retry)) => Ok(Some(Times::seconds(duration, renew, retry).check()?)),
            _ => Ok(None),
        }
    }
}

impl ServingArgs {
    /// The metrics server at this address, unless that is empty.
    pub(crate) fn serving(self, listen: &str) -> anyhow::Result<Option<Serving>> {
        let flags = tls::Flags::new(self.tls_min_version, self.tls_cipher_suites)
            .map_err(|e| anyhow::anyhow!("--tls-min-version or --tls-cipher-suites: {e}"))?;
        let Some(listen) = address("--listen", listen)? else { return Ok(None) };
        let files = self.serving_cert_file.zip(self.serving_key_file);
        let files = files.map(|(certificate, key)| tls::Files { certificate, key });
        Ok(Some(Serving { listen, files, flags }))
    }
}

/// The address in a flag; `None` if it is empty.
pub(crate) fn address(flag: &str, value: &str) -> anyhow::Result<Option<SocketAddr>> {
    if value.is_empty() {
        return Ok(None);
    }
    let refuse = |e| anyhow::anyhow!("{flag} {value:?} is not an address like 127.0.0.1:9099 ({e}); empty disables it");
    value.parse().map(Some).map_err(refuse)
}
