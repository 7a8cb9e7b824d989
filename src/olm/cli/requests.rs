//! `cvo olm subscribe` and `cvo olm approve`: what administrators ask for.

use crate::cli::exit::Exit;
use crate::cli::output::print;
use crate::cli::reach;
use crate::cluster::{ApiError, Clients};
use crate::olm::api::GLOBAL_CATALOG_NAMESPACE;
use crate::olm::api::install_plan::{InstallPlan, InstallPlanPhase};
use crate::olm::api::subscription::{Approval, Subscription, SubscriptionSpec};
use anyhow::{Context, bail};
use clap::Args;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use std::path::PathBuf;

/// Subscribe to a package
///
/// Creates a Subscription with the name of the package. What is installed because of it, cvo olm plan --subscribe says before.
#[derive(Args, Debug)]
pub(crate) struct SubscribeArgs {
    /// Catalog, package and channel; without CHANNEL any, the default channel first
    #[arg(value_name = "CATALOG/PACKAGE[:CHANNEL]")]
    pub package: String,
    /// Where the operator is installed
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// The namespace of the catalog
    #[arg(long, value_name = "NAMESPACE", default_value = GLOBAL_CATALOG_NAMESPACE)]
    pub catalog_namespace: String,
    /// Somebody has to approve each plan of the namespace
    #[arg(long)]
    pub manual: bool,
    /// The version to begin with
    #[arg(long, value_name = "CSV")]
    pub starting_csv: Option<String>,
    /// Only let the API server check it
    #[arg(long)]
    pub dry_run: bool,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Approve an InstallPlan
///
/// The plan is approved as it was read: if somebody changes it in between, nothing is approved.
#[derive(Args, Debug)]
pub(crate) struct ApproveArgs {
    /// Name of the InstallPlan
    #[arg(value_name = "PLAN")]
    pub plan: String,
    /// Its namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Only let the API server check it
    #[arg(long)]
    pub dry_run: bool,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// The Subscription that is asked for.
fn subscription(args: &SubscribeArgs) -> anyhow::Result<Subscription> {
    let (catalog, package) = args.package.split_once('/').context("give CATALOG/PACKAGE or CATALOG/PACKAGE:CHANNEL")?;
    let (package, channel) = package.split_once(':').unwrap_or((package, ""));
    if [catalog, package].iter().any(|it| it.is_empty()) {
        bail!("give CATALOG/PACKAGE or CATALOG/PACKAGE:CHANNEL");
    }
    let spec = SubscriptionSpec {
        source: catalog.to_owned(),
        source_namespace: args.catalog_namespace.clone(),
        name: package.to_owned(),
        channel: channel.to_owned(),
        starting_csv: args.starting_csv.clone().unwrap_or_default(),
        install_plan_approval: Some(if args.manual { Approval::Manual } else { Approval::Automatic }),
        ..SubscriptionSpec::default()
    };
    let mut subscription = Subscription::new(package, spec);
    subscription.metadata.namespace = Some(args.namespace.clone());
    Ok(subscription)
}

pub(super) async fn subscribe(args: &SubscribeArgs) -> anyhow::Result<Exit> {
    let subscription = subscription(args)?;
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let api: Api<Subscription> = Api::namespaced(clients.call.clone(), &args.namespace);
    let params = PostParams { dry_run: args.dry_run, ..PostParams::default() };
    let created = api.create(&params, &subscription).await;
    created.map_err(|error| reach::explain(&clients.server(), ApiError::of("create the Subscription", error)))?;
    let (namespace, name) = (&args.namespace, &subscription.spec.name);
    print(&match args.dry_run {
        true => format!("Subscription {namespace}/{name} could be created; nothing was done\n"),
        false => format!(
            "Subscription {namespace}/{name} is created: cvo olm why {name} -n {namespace} says what comes of it\n"
        ),
    })?;
    Ok(Exit::Success)
}

/// Why a plan cannot be approved.
fn refused(plan: &InstallPlan) -> Option<&'static str> {
    match plan.status.as_ref().map(|status| &status.phase) {
        Some(InstallPlanPhase::Complete) => Some("it is complete"),
        Some(InstallPlanPhase::Failed) => Some("it has failed, and a new one is made once there is another answer"),
        _ if plan.spec.approved => Some("it is approved already"),
        _ => None,
    }
}

pub(super) async fn approve(args: &ApproveArgs) -> anyhow::Result<Exit> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let api: Api<InstallPlan> = Api::namespaced(clients.call.clone(), &args.namespace);
    let failed = |attempt: &str, error| reach::explain(&clients.server(), ApiError::of(attempt, error));
    let plan = api.get(&args.plan).await.map_err(|error| failed("read the InstallPlan", error))?;
    let (namespace, name) = (&args.namespace, &args.plan);
    if let Some(cause) = refused(&plan) {
        bail!("InstallPlan {namespace}/{name} cannot be approved: {cause}");
    }
    let patch = json!({"metadata": {"resourceVersion": plan.metadata.resource_version}, "spec": {"approved": true}});
    let params = PatchParams { dry_run: args.dry_run, ..PatchParams::default() };
    let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
    patched.map_err(|error| failed("approve the InstallPlan", error))?;
    let csvs = plan.spec.cluster_service_version_names.join(", ");
    print(&match args.dry_run {
        true => format!("InstallPlan {namespace}/{name} ({csvs}) could be approved; nothing was done\n"),
        false => format!("InstallPlan {namespace}/{name} ({csvs}) is approved\n"),
    })?;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        args: SubscribeArgs,
    }

    fn asked(arguments: &[&str]) -> anyhow::Result<Subscription> {
        subscription(&Line::try_parse_from(std::iter::once(&"x").chain(arguments)).unwrap().args)
    }

    #[test]
    fn subscription_has_the_name_of_the_package_and_what_was_asked_for() {
        let found = asked(&["main/widgets:stable", "-n", "shop", "--manual", "--starting-csv", "widgets.v1"]).unwrap();
        let expected = json!({"source": "main", "sourceNamespace": GLOBAL_CATALOG_NAMESPACE, "name": "widgets",
            "channel": "stable", "startingCSV": "widgets.v1", "installPlanApproval": "Manual"});
        assert_eq!(json!(found.spec), expected);
        assert_eq!(
            (found.metadata.name.as_deref(), found.metadata.namespace.as_deref()),
            (Some("widgets"), Some("shop"))
        );
        assert_eq!(asked(&["main/widgets"]).unwrap().spec.channel, "");
        for wrong in ["widgets", "/widgets", "main/", "main/:stable"] {
            assert!(asked(&[wrong]).unwrap_err().to_string().contains("CATALOG/PACKAGE:CHANNEL"), "{wrong}");
        }
    }

    #[test]
    fn plan_that_has_ended_or_is_approved_is_not_approved() {
        let plan = |phase: &str, approved: bool| -> InstallPlan {
            serde_json::from_value(
                json!({"metadata": {"name": "p"}, "spec": {"approved": approved, "approval": "Manual",
                "clusterServiceVersionNames": ["a"]}, "status": {"phase": phase, "catalogSources": []}}),
            )
            .unwrap()
        };
        assert_eq!(refused(&plan("RequiresApproval", false)), None);
        for (phase, approved, word) in
            [("Complete", true, "complete"), ("Failed", false, "failed"), ("Installing", true, "already")]
        {
            assert!(refused(&plan(phase, approved)).unwrap().contains(word), "{phase}");
        }
    }
}
