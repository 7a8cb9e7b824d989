//! What several processes are configured by. What is parsed from the command line is the configuration, and is handed down as it
//! is; what has to be checked is made of it by a method here.

use super::prometheus;
use super::serving::Serving;
use crate::cluster::lease::Times;
use crate::serve::tls;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A flag with a value that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SettingsError(pub String);

/// How metrics are served.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServingSettings {
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
#[derive(Args, Clone, Debug)]
pub(crate) struct QuerySettings {
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

/// Who takes part in a leader election, and its times: all three, or none.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseSettings {
    /// Identity in the leader election; the pod's UID, so that a restarted container resumes its own lease.
    #[arg(long, env = "POD_UID", value_name = "ID")]
    identity: Option<String>,
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

impl QuerySettings {
    pub(crate) fn source(&self) -> Result<prometheus::Source, SettingsError> {
        let file = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
        let by_service = !self.use_dns_for_services;
        if by_service && (self.metrics_service.is_empty() || self.metrics_namespace.is_empty()) {
            return Err(SettingsError(
                "--metrics-service and --metrics-namespace must name a Service; use --use-dns-for-services to resolve the host of \
                 --metrics-url by DNS instead"
                    .to_owned(),
            ));
        }
        Ok(prometheus::Source {
            url: self.metrics_url.clone(),
            service: by_service.then(|| (self.metrics_namespace.clone(), self.metrics_service.clone())),
            ca_bundle: file(&self.metrics_ca_bundle_file),
            token: file(&self.metrics_token_file),
        })
    }
}

impl LeaseSettings {
    /// Without the flag another one each time.
    pub(crate) fn identity(&self) -> String {
        self.identity.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
    }

    /// `None` without flags: those that suit the topology of the control plane.
    pub(crate) fn times(&self) -> Result<Option<Times>, SettingsError> {
        let (Some(duration), Some(renew), Some(retry)) =
            (self.lease_duration, self.lease_renew_deadline, self.lease_retry)
        else {
            return Ok(None);
        };
        let times = Times::seconds(duration, renew, retry).check();
        times.map(Some).map_err(|error| SettingsError(error.to_string()))
    }
}

impl ServingSettings {
    /// The metrics server at this address, unless that is empty.
    pub(crate) fn serving(&self, listen: &str) -> Result<Option<Serving>, SettingsError> {
        let flags = tls::Flags::new(self.tls_min_version.clone(), self.tls_cipher_suites.clone())
            .map_err(|e| SettingsError(format!("--tls-min-version or --tls-cipher-suites: {e}")))?;
        let Some(listen) = address("--listen", listen)? else { return Ok(None) };
        let files = self.serving_cert_file.clone().zip(self.serving_key_file.clone());
        let files = files.map(|(certificate, key)| tls::Files { certificate, key });
        Ok(Some(Serving { listen, files, flags }))
    }
}

/// The address in a flag; `None` if it is empty.
pub(crate) fn address(flag: &str, value: &str) -> Result<Option<SocketAddr>, SettingsError> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|error| {
        let form = "is not an address like 127.0.0.1:9099";
        SettingsError(format!("{flag} {value:?} {form} ({error}); empty disables it"))
    })
}
