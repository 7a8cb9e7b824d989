//! `cvo olm status`: where each operator of a cluster stands, what is in its way, and what is to be done about it.

mod follow;
mod objects;
mod rows;
mod text;
mod to_do;
mod view;

use super::cluster_output::{ClusterOutput, written};
use super::objects::selected;
use crate::cli::exit::Exit;
use crate::cli::layout;
use crate::cli::output::print;
use crate::cluster::{Clients, Kind};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::keys::label;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::subscription::Subscription;
use anyhow::bail;
use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use kube::core::ApiResource;
use objects::Objects;
use std::path::PathBuf;
use view::View;

/// Show where each operator stands, what is in its way, and what to do about it
///
/// A block for each Subscription, and for each ClusterServiceVersion that somebody has applied without one: what is installed and what is
/// to come, each with its phase and Deployments, the InstallPlan with what it waits for, requirements that are not met, and one line with
/// what is to be done. If standard output is not a terminal, --watch writes one line for each change instead of redrawing.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Only this Subscription, or this ClusterServiceVersion without one
    #[arg(value_name = "SUBSCRIPTION")]
    pub subscription: Option<String>,
    /// Only this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Follow the changes until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Output format; with --watch, json writes one object a line
    #[arg(short, long, value_enum, default_value_t = ClusterOutput::Text)]
    pub output: ClusterOutput,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// A kind that is read.
struct Wanted {
    resource: ApiResource,
    kind: Kind,
    /// A label selector.
    labels: String,
}

impl Wanted {
    fn of<K: Resource<DynamicType = ()>>(labels: &str) -> Wanted {
        Wanted { resource: ApiResource::erase::<K>(&()), kind: Kind::of::<K>(true), labels: labels.to_owned() }
    }

    /// In the order of [`Objects::of`].
    fn all() -> [Wanted; 5] {
        [
            Wanted::of::<Subscription>(""),
            Wanted::of::<InstallPlan>(""),
            Wanted::of::<ClusterServiceVersion>(&format!("!{}", label::COPIED_FROM)),
            Wanted::of::<Deployment>(&format!("{}=true", label::MANAGED)),
            Wanted::of::<OperatorCondition>(""),
        ]
    }
}

pub(super) async fn run(args: &StatusArgs) -> anyhow::Result<Exit> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    if args.watch {
        return follow::run(&clients, args).await;
    }
    let view = View::of(&gather(&clients, args.namespace.as_deref()).await?, args.subscription.as_deref());
    if let (Some(name), true) = (&args.subscription, view.rows.is_empty()) {
        let place = args.namespace.as_ref().map(|it| format!(" in the namespace {it}")).unwrap_or_default();
        bail!("there is no Subscription {name:?}{place}, nor a ClusterServiceVersion without one of this name");
    }
    match args.output {
        ClusterOutput::Text => print(&text::text(&view, &layout::page()))?,
        other => print(&written(other, &serde_json::to_value(&view)?)?)?,
    }
    Ok(if view.needs_somebody() { Exit::Found } else { Exit::Success })
}

/// Who may see a namespace need not be allowed to see all of it: what only explains is a remark where it cannot be read.
async fn gather(clients: &Clients, namespace: Option<&str>) -> anyhow::Result<Objects> {
    let all = Wanted::all();
    let [subscriptions, plans, versions, deployments, conditions] =
        all.each_ref().map(|it| selected(clients, namespace, &it.resource, &it.labels));
    let (subscriptions, plans, versions, deployments, conditions) =
        tokio::join!(subscriptions, plans, versions, deployments, conditions);
    let told = |error: anyhow::Error| crate::error::chain(error.as_ref());
    let (deployments, conditions) = (deployments.map_err(told), conditions.map_err(told));
    Ok(Objects::of([Ok(subscriptions?), Ok(plans?), Ok(versions?), deployments, conditions]))
}

#[cfg(test)]
mod tests;
