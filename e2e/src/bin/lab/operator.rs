//! The operator of one component of the sample platform, a real program in a pod. It rolls out its operands and reports
//! its progress on its ClusterOperator. `operator/facts.rs` watches, `operator/decide.rs` decides, this file acts.
//!
//! The ClusterOperator itself is created by the daemon; the operator writes only its status.

mod decide;
mod facts;

use anyhow::{Context, bail};
use cvo::testing::api::{ClusterOperator, ClusterOperatorStatus};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// Delay before another try after the API server refused a write; a watch event causes one at once.
const RETRY: Duration = Duration::from_secs(1);

/// `lab operator`: arguments and environment from a component's Deployment.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct OperatorArgs {
    /// Name of the component: of its ClusterOperator and of its namespace.
    #[arg(long)]
    pub component: String,
    /// Release version to roll out and to report when that is done.
    #[arg(long)]
    pub version: String,
    /// Workload to roll out, as Deployment/NAME or DaemonSet/NAME; may be repeated.
    #[arg(long = "operand", value_name = "KIND/NAME")]
    pub operands: Vec<Operand>,
    /// ClusterOperator that must be Available before operands are rolled out; may be repeated.
    #[arg(long = "needs", value_name = "COMPONENT")]
    pub needs: Vec<String>,
    /// Also needs PlatformConfig "cluster", and gives its spec to the operands.
    #[arg(long)]
    pub needs_config: bool,
    /// Image that the operands run (as `lab pause`).
    #[arg(long, env = "OPERAND_IMAGE")]
    pub operand_image: String,
    /// Report Degraded and not Available until the ConfigMap of this name exists in the component's namespace.
    #[arg(long, env = "FAIL_UNTIL_CONFIGMAP", value_name = "NAME")]
    pub fail_until: Option<String>,
    /// Do not run as an operator: set `layout` in the ConfigMap NAME of the component's namespace to this version, and
    /// end.
    #[arg(long, value_name = "NAME")]
    pub migrate: Option<String>,
}

/// A workload the operator owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub kind: OperandKind,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandKind {
    Deployment,
    DaemonSet,
}

impl OperandKind {
    fn name(self) -> &'static str {
        match self {
            OperandKind::Deployment => "Deployment",
            OperandKind::DaemonSet => "DaemonSet",
        }
    }

    fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", self.name()))
    }
}

impl FromStr for Operand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("{text:?} is not an operand: write Deployment/NAME or DaemonSet/NAME");
        let (kind, name) = text.split_once('/').ok_or_else(bad)?;
        let kind = match kind {
            "Deployment" => OperandKind::Deployment,
            "DaemonSet" => OperandKind::DaemonSet,
            _ => return Err(bad()),
        };
        if name.is_empty() {
            return Err(bad());
        }
        Ok(Operand { kind, name: name.into() })
    }
}

/// Runs until the process is terminated or its watches end.
pub(crate) async fn run(args: OperatorArgs) -> anyhow::Result<()> {
    let client = kube::Client::try_default()
        .await
        .context("cannot reach the API server: run in a pod with a service account, or set KUBECONFIG")?;
    if let Some(name) = &args.migrate {
        return migrate(client, &args, name).await;
    }
    if args.operands.is_empty() {
        bail!("an operator without an operand has nothing to do: give --operand KIND/NAME at least once");
    }
    println!("operator of {} at {}", args.component, args.version);
    // Once: a signal that comes while the operator acts must not be lost.
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let (stores, mut events) = facts::watch(&client, &args);
    let mut retry = false;
    let mut awaited = Versions::new();
    loop {
        let event =
            async { if retry { tokio::time::timeout(RETRY, events.next()).await } else { Ok(events.next().await) } };
        tokio::select! {
            event = event => match event {
                Ok(Some(())) => {}
                Ok(None) => return Ok(()),
                // The written object has been deleted or changed meanwhile.
                Err(_) => awaited.clear(),
            },
            _ = terminate.recv() => return Ok(()),
        };
        let Some(facts) = stores.facts(jiff::Timestamp::now()) else { continue };
        // A decision on a state without our last writes would repeat them.
        awaited.retain(|object, version| facts.versions.get(object).is_none_or(|seen| seen < version));
        if !awaited.is_empty() {
            retry = true;
            continue;
        }
        retry = match perform(&client, &args, decide::decide(&args, &facts), &mut awaited).await {
            Ok(()) => false,
            Err(error) => {
                eprintln!("{}: {error:#}", args.component);
                true
            }
        };
    }
}

/// Resource version by `KIND/NAME`. The API server's versions increase and can be compared as numbers.
type Versions = BTreeMap<String, u64>;

fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_ref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Performs the actions and records the resource versions of the written objects.
async fn perform(
    client: &kube::Client,
    args: &OperatorArgs,
    actions: Vec<decide::Action>,
    awaited: &mut Versions,
) -> anyhow::Result<()> {
    let params = PatchParams::apply(&format!("{}-operator", args.component)).force();
    for action in actions {
        match action {
            decide::Action::Report(status) => {
                let written = report(client, args, &params, &status).await?;
                awaited.insert(format!("ClusterOperator/{}", args.component), version(&written.metadata));
            }
            decide::Action::RollOut(operand, object) => {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), &args.component, &operand.kind.resource());
                println!("{}: rolling out {} {}", args.component, operand.kind.name(), operand.name);
                let written = api
                    .patch(&operand.name, &params, &Patch::Apply(&object))
                    .await
                    .with_context(|| format!("cannot write {} {}", operand.kind.name(), operand.name))?;
                awaited.insert(format!("{}/{}", operand.kind.name(), operand.name), version(&written.metadata));
            }
        }
    }
    Ok(())
}

async fn report(
    client: &kube::Client,
    args: &OperatorArgs,
    params: &PatchParams,
    status: &ClusterOperatorStatus,
) -> anyhow::Result<ClusterOperator> {
    for condition in &status.conditions {
        println!("{}: {}={:?} {}", args.component, condition.type_, condition.status, condition.message);
    }
    let object: Value = json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {"name": args.component},
        "status": status,
    });
    Api::<ClusterOperator>::all(client.clone())
        .patch_status(&args.component, params, &Patch::Apply(&object))
        .await
        .with_context(|| format!("cannot write the status of ClusterOperator {}", args.component))
}

/// What a release's Job runs: converts stored data to this version's layout. Running it again changes nothing.
async fn migrate(client: kube::Client, args: &OperatorArgs, name: &str) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client, &args.component);
    let patch = Patch::Merge(json!({"data": {"layout": args.version}}));
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("cannot migrate ConfigMap {}/{name}", args.component))?;
    println!("{}: {name} has the layout of {}", args.component, args.version);
    Ok(())
}
