//! `cvo olm status`: where each operator of a cluster stands, what is in its way, and what is to be done about it.

mod follow;
mod kinds;
mod known;
mod objects;
mod page;
mod rows;
mod text;
mod to_do;
mod view;

pub(crate) use kinds::{Lists, What};
pub(crate) use known::{Event, Known, read, watches};
pub(crate) use objects::Objects;
pub(crate) use page::shown;
pub(crate) use view::{Row, View};

use super::cluster_output::{ClusterOutput, written};
use crate::cli::exit::Exit;
use crate::cli::layout;
use crate::cli::output::print;
use crate::cli::reach;
use crate::cluster::Clients;
use anyhow::bail;
use clap::Args;
use std::path::PathBuf;

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
    let mut lists = Lists::new();
    let mut read = known::read(clients, namespace.unwrap_or_default(), &What::OF_OPERATORS).await;
    for what in What::OF_OPERATORS {
        let list = match read.remove(&what) {
            Some(Ok(list)) => Ok(list),
            Some(Err(error)) if what.only_explains() => Err(error.to_string()),
            Some(Err(error)) => return Err(reach::explain(&clients.server(), error)),
            None if what.only_explains() => continue,
            None => bail!("this cluster has no {}: the component olm is not installed", what.text()),
        };
        lists.insert(what, list);
    }
    Ok(Objects::of(lists))
}

#[cfg(test)]
mod tests;
