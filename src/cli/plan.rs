//! `cvo plan`: shows what an update will do before it starts. Only reads.

mod cluster;
mod misuse;
mod text;

pub(crate) use misuse::misuse;

use super::exit::Exit;
use super::filters::{FilterArgs, ensure_some_included};
use super::layout::{self, clean};
use super::output::{self, print};
use super::release::{ImageSource, given, pull_spec};
use crate::cluster_version::api::OWN_DEPLOYMENT;
use crate::cluster_version::cli::request::Source;
use crate::cluster_version::forecast;
use crate::cluster_version::forecast::{Forecast, PlanInput, Side};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::rollout::MANAGER;
use crate::merge::inject::ClusterConfiguration;
use crate::merge::{self, MergeError, Owner};
use crate::object::manifest::{Manifest, ObjectId};
use crate::olm::fits::PlannedOperator;
use crate::release::{ApplyFilter, Payload};
use clap::{Args, ValueEnum};
use cluster::catalogs::Catalog;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// The value of `--from` that is not a release.
const CLUSTER: &str = "cluster";

/// Show what an update will do before it starts
///
/// Shows what will be created, changed, deleted and left alone, in which order, what the update waits for in between, and
/// what will probably stop it. Runs the same code as the daemon, and changes nothing.
///
/// With --from cluster, compares the release with the objects in the cluster, and reads from the cluster which manifests
/// are included; and says which images catalogs of operators will have, whether their registries have these, and whether the operators that
/// are installed fit the release. With --from DIR or IMAGE, compares two releases as if no object had been changed since, and the flags say
/// which manifests are included.
#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// What the update starts from: `cluster`, the root folder of a release, or the pull spec of a release image
    #[arg(long, value_name = "cluster|DIR|IMAGE")]
    pub from: String,
    /// The release to update to
    #[arg(long, value_name = "DIR|IMAGE")]
    pub to: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// With -o text: also list objects that are left alone, and every node
    #[arg(long)]
    pub all: bool,
    /// Show the values of fields before and after, not only which fields differ. Values of Secrets are never shown, but
    /// other objects may contain secrets, too
    #[arg(long)]
    pub values: bool,
    /// With --from DIR: pull spec of that release, which its manifests refer to
    #[arg(long, value_name = "IMAGE", value_parser = pull_spec)]
    pub from_image: Option<String>,
    /// With --to DIR: pull spec of that release, which its manifests refer to
    #[arg(long, value_name = "IMAGE", value_parser = pull_spec)]
    pub to_image: Option<String>,
    /// With --from cluster: the release that the cluster runs, to find out which of its objects the new one does not contain
    #[arg(long, value_name = "DIR|IMAGE")]
    pub running: Option<String>,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Read, and check permissions, as this user; the daemon is
    /// system:serviceaccount:openshift-cluster-version:cluster-version-operator
    #[arg(long = "as", value_name = "USER")]
    pub user: Option<String>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub filters: FilterArgs,
    #[command(flatten)]
    pub image: ImageSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
    /// For Graphviz
    Dot,
}

pub(crate) async fn run(args: PlanArgs) -> anyhow::Result<Exit> {
    let to = given::read(&args.to, args.to_image.as_deref(), &args.image).await?;
    let plan = if args.from == CLUSTER {
        cluster::plan(&args, &to).await?
    } else {
        let from = given::read(&args.from, args.from_image.as_deref(), &args.image).await?;
        Plan { forecast: between(&args, &from, &to)?, catalogs: Vec::new(), operators: Vec::new() }
    };
    match args.output {
        Output::Text => print(&text::text(&plan, &layout::page(), args.all))?,
        Output::Json => print(&(serde_json::to_string_pretty(&plan)? + "\n"))?,
        Output::Dot => print(&forecast::dot(&plan.forecast))?,
    }
    Ok(if plan.forecast.is_blocked() { Exit::Blocked } else { Exit::Success })
}

/// What the update does, and what other products make of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    #[serde(flatten)]
    forecast: Forecast,
    /// The catalogs of operators that the update may give another image. Empty if no cluster was read.
    catalogs: Vec<Catalog>,
    /// The operators of the cluster, and whether they fit the release. Empty if no cluster was read.
    operators: Vec<PlannedOperator>,
}

/// Plans the update from one release to another.
fn between(args: &PlanArgs, from: &given::Given, to: &given::Given) -> anyhow::Result<Forecast> {
    let mut filter = args.filters.apply_filter(None);
    let (before, after) = (from.load(filter.load.clone())?, to.load(filter.load.clone())?);
    let selected_before = before.select(&filter);
    let implied = imply(&mut filter, &after.manifests, &before.manifests);
    // Neither side has what a cluster injects.
    let no_configuration = ClusterConfiguration::default();
    let prepared = |manifest: &Manifest| prepare(manifest, None, &no_configuration);
    let live = forecast::live_after_release(&selected_before.manifests, &after, &prepared);
    let selection = after.select(&filter);
    ensure_some_included(&selection, &after, &filter)?;
    for warning in args.filters.unknown_capabilities([&before, &after].into_iter().flat_map(everything)) {
        output::remark(&format!("warning: {}", clean(&warning)));
    }
    let excluded = forecast::excluded(&selection, &filter);
    let dropped = forecast::dropped(&selected_before.manifests, &selection, &excluded);
    let mut forecast = forecast::forecast(&PlanInput {
        from: Side { source: from.given.clone(), release: before.release.clone() },
        to: Side { source: to.given.clone(), release: after.release.clone() },
        mode: Mode::Update,
        manifests: &selection.manifests,
        excluded,
        live: &live,
        namespaces: None,
        prepared: &prepared,
        own_deployment: &own_deployment(args),
        manager: MANAGER,
        server: None,
        values: args.values,
    });
    forecast.dropped = dropped;
    forecast.implicit_capabilities = implied.into_iter().collect();
    forecast.unknowns.extend(from.unknowns().into_iter().chain(to.unknowns()));
    forecast.unknowns.extend([&before, &after].into_iter().flat_map(warnings));
    forecast.unknowns.extend(
        [
            "What only a cluster shows: changes by other clients, objects that do not belong to the release, whether operators \
             are healthy, which overrides are set, which images catalogs of operators will have, and whether the permissions \
             suffice.",
            "What is injected into objects (proxy, API server address, TLS profile, CA bundles): it comes from the cluster and \
             may change more fields.",
        ]
        .map(str::to_owned),
    );
    forecast.unknowns.extend(always());
    Ok(forecast)
}

fn everything(payload: &Payload) -> impl Iterator<Item = &Manifest> {
    payload.all_manifests().into_iter().map(|manifest| &**manifest)
}

/// Enables the capabilities without which an object that is already managed would become unmanaged.
fn imply(filter: &mut ApplyFilter, new: &[Arc<Manifest>], old: &[Arc<Manifest>]) -> BTreeSet<String> {
    let gates = filter.load.feature_gates.clone().unwrap_or_default();
    filter.capabilities.as_mut().map(|capabilities| capabilities.imply(new, old, &gates)).unwrap_or_default()
}

/// What no plan can know.
fn always() -> [String; 1] {
    ["What operators do once they run in their new version: which objects they create, change and delete.".to_owned()]
}

/// The warnings of loading a release: objects of a file that cannot be read are missing in the plan.
fn warnings(payload: &Payload) -> Vec<String> {
    let version = &payload.release.version;
    let text = |warning: &String| format!("In {version}, {warning}.");
    payload.warnings.iter().map(text).collect()
}

/// The desired object as the daemon prepares it.
fn prepare(
    manifest: &Manifest,
    owner: Option<&Owner>,
    configuration: &ClusterConfiguration,
) -> Result<Value, MergeError> {
    merge::desired(manifest, owner, configuration).map_err(|e| MergeError::Manifest(e.to_string()))
}

fn own_deployment(args: &PlanArgs) -> ObjectId {
    ObjectId::new("apps", "Deployment", &args.source.namespace, OWN_DEPLOYMENT)
}

#[cfg(test)]
mod tests;
