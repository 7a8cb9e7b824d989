//! What `cvo upgrade`, `cvo rollback` and `cvo channel` have in common: the ClusterVersion is read, changed by one patch, and said
//! what was done.

use crate::cli::output::{print, remark};
use crate::cli::reach;
use crate::cluster::{ApiError, Clients};
use crate::cluster_version::api::{ClusterVersion, NAME, NAMESPACE};
use crate::cluster_version::updates::desired_update::Change;
use anyhow::bail;
use clap::{Args, ValueEnum};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where the daemon keeps its state.
#[derive(Args, Clone, Debug)]
pub(crate) struct Source {
    /// Namespace of the daemon
    #[arg(long, env = "CVO_NAMESPACE", default_value = NAMESPACE, value_name = "NAME")]
    pub namespace: String,
    /// Name of the ClusterVersion
    #[arg(long, env = "CVO_NAME", default_value = NAME, value_name = "NAME")]
    pub name: String,
}

impl Default for Source {
    fn default() -> Self {
        Source { namespace: NAMESPACE.to_owned(), name: NAME.to_owned() }
    }
}

/// Which cluster, and how the result is shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct RequestArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
}

/// The ClusterVersion of a cluster.
pub(crate) struct Requested {
    api: Api<ClusterVersion>,
    server: String,
    pub object: ClusterVersion,
}

/// How often a change is tried again because the status was written meanwhile, which is at most once a second.
const ATTEMPTS: u32 = 10;

impl Requested {
    /// What was decided on the spec that was read is written only if the spec is still that one.
    async fn write(&self, name: &str, patch: &Value) -> anyhow::Result<()> {
        let explained =
            |error| reach::explain(&self.server, ApiError::of(&format!("change ClusterVersion {name}"), error));
        let params = PatchParams { field_manager: Some("cvo".to_owned()), ..PatchParams::default() };
        let mut revision = self.object.metadata.resource_version.clone();
        for _ in 0..ATTEMPTS {
            let patch = Patch::Merge(of_revision(patch, revision.as_deref()));
            match self.api.patch(name, &params, &patch).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                written => return written.map(drop).map_err(explained),
            }
            let now = self.api.get(name).await.map_err(explained)?;
            if now.metadata.generation != self.object.metadata.generation {
                break;
            }
            revision = now.metadata.resource_version;
        }
        bail!(
            "ClusterVersion {name} was changed by somebody else meanwhile, and nothing is written: run the command again"
        )
    }
}

/// The patch, which the API server refuses once the object has another revision.
fn of_revision(patch: &Value, revision: Option<&str>) -> Value {
    let mut patch = patch.clone();
    if let (Some(fields), Some(revision)) = (patch.as_object_mut(), revision) {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), json!(revision));
        }
    }
    patch
}

impl RequestArgs {
    pub(crate) async fn read(&self) -> anyhow::Result<Requested> {
        let clients = Clients::connect(self.kubeconfig.as_deref()).await?;
        let (api, server): (Api<ClusterVersion>, _) = (Api::all(clients.call.clone()), clients.server());
        let name = &self.source.name;
        let found = api.get_opt(name).await;
        let found = found
            .map_err(|error| reach::explain(&server, ApiError::of(&format!("read ClusterVersion {name}"), error)))?;
        match found {
            Some(object) => Ok(Requested { api, server, object }),
            None => bail!(
                "there is no ClusterVersion {name}: the daemon is not installed in this cluster, or --kubeconfig names another one"
            ),
        }
    }

    /// Writes the change, unless there is none, and says so.
    pub(crate) async fn perform(&self, requested: &Requested, change: &Change) -> anyhow::Result<()> {
        for warning in &change.warnings {
            remark(&format!("warning: {warning}"));
        }
        if let Some(patch) = &change.patch {
            requested.write(&self.source.name, patch).await?;
        }
        match self.output {
            Output::Text => print(&format!("{}\n", change.said)),
            Output::Json => {
                let target = change.target.as_ref();
                let object = json!({
                    "schema": 1, "patch": change.patch, "message": change.said, "warnings": change.warnings,
                    "target": target.map(|target| json!({"version": target.version, "image": target.image})),
                });
                print(&format!("{object:#}\n"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
