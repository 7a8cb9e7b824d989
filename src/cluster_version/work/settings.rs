//! What the process of the ClusterVersion is configured by.

use crate::process::settings::{LeaseSettings, QuerySettings, ServingSettings, SettingsError};
use crate::release::{Filter, capability};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Run the daemon: reconcile the release that this image belongs to, and update the cluster when another one is requested.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Pull spec of the running release image, by digest.
    #[arg(long, value_name = "IMAGE")]
    pub release_image: String,
    /// Node of this process; retrieval Jobs are pinned to it, because the extracted payload is on its disk.
    #[arg(long, env = "NODE_NAME", value_name = "NAME", default_value = "")]
    pub node_name: String,
    /// Address of the metrics (HTTPS), for clients with the certificate of the platform's Prometheus or with the token of one who
    /// may get the path /metrics; empty disables it.
    #[arg(long, default_value = "0.0.0.0:9099", value_name = "ADDRESS")]
    pub listen: String,
    /// Address of /healthz and /readyz (HTTP) for the kubelet, which ask nobody who they are; empty disables it.
    #[arg(long, default_value = "127.0.0.1:9098", value_name = "ADDRESS")]
    pub listen_health: String,
    #[command(flatten)]
    pub serving: ServingSettings,
    /// Kubeconfig instead of the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the update service; overrides spec.upstream.
    #[arg(long, value_name = "URL")]
    pub update_service: Option<String>,
    #[command(flatten)]
    pub metrics: QuerySettings,
    /// Namespace of the daemon.
    #[arg(long, env = "CVO_NAMESPACE", default_value = crate::cluster_version::api::NAMESPACE, value_name = "NAME")]
    pub namespace: String,
    /// Name of the ClusterVersion.
    #[arg(long, env = "CVO_NAME", default_value = crate::cluster_version::api::NAME, value_name = "NAME")]
    pub name: String,
    /// Cluster profile: manifests without its annotation are excluded.
    #[arg(long, env = "CLUSTER_PROFILE", default_value = "self-managed-high-availability", value_name = "NAME")]
    pub profile: String,
    /// Manifests annotated exclude.release.openshift.io/<ID>=true are excluded for each of these IDs, comma-separated.
    #[arg(long, env = "EXCLUDE_MANIFESTS", value_name = "IDS")]
    pub exclude_manifests: Option<String>,
    /// Capabilities that are enabled even if the ClusterVersion does not name them, comma-separated.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = capability_name)]
    pub always_enable_capabilities: Vec<String>,
    /// Report an operator as failing at once also where its pods had to leave a node that its pool is updating, as the original does.
    /// Without it the update says for up to five minutes that it waits for the node, unless anything else is wrong with the operator.
    #[arg(long)]
    pub drained_operators_fail: bool,
    /// Go on past DaemonSets that are being rolled out and Jobs that run, as the original does. Without it they are waited for
    /// like Deployments.
    #[arg(long)]
    pub unfinished_workloads_pass: bool,
    /// Root of the running release's payload.
    #[arg(long, env = "PAYLOAD_OVERRIDE", default_value = "/", value_name = "DIR")]
    pub payload: PathBuf,
    /// Folder of extracted payloads in this process's file system.
    #[arg(long, default_value = crate::cluster_version::api::PAYLOAD_STORE, value_name = "DIR")]
    pub payload_store: PathBuf,
    /// The same folder on the node, mounted into retrieval Jobs.
    #[arg(long, env = "CVO_PAYLOAD_HOST_PATH", default_value = crate::cluster_version::api::PAYLOAD_STORE, value_name = "DIR")]
    pub payload_host_path: String,
    /// Where target payloads come from: a Job that extracts the target image, or a directory that is already in the payload
    /// store (for running outside a cluster; nothing says that it is what the signature is for, so that the release must be
    /// signed and is not recorded as verified).
    #[arg(long, value_enum, default_value = "job")]
    pub payload_source: PayloadSource,
    #[command(flatten)]
    pub lease: LeaseSettings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadSource {
    Job,
    Directory,
}

impl Settings {
    /// Refuses flags that do not go together.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        if self.release_image.is_empty() {
            let message = "--release-image must name the running release image, by digest";
            return Err(SettingsError(message.to_owned()));
        }
        if self.payload_source == PayloadSource::Job && self.node_name.is_empty() {
            let message = "--node-name (or NODE_NAME) must name the node of this process, because retrieval Jobs are pinned to it; \
                outside a cluster use --payload-source=directory";
            return Err(SettingsError(message.to_owned()));
        }
        Ok(())
    }

    /// The part of the filter that does not change while the process lives.
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            profile: Some(self.profile.clone()),
            exclude_identifier: self.exclude_manifests.clone(),
            ..Filter::default()
        }
    }
}

fn capability_name(text: &str) -> Result<String, String> {
    let known = capability::names();
    if known.contains(text) {
        return Ok(text.to_owned());
    }
    let known: Vec<_> = known.into_iter().collect();
    Err(format!("unknown capability; the known ones are {}", known.join(", ")))
}
