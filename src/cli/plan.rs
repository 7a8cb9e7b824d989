//! `cvo plan`: what an update will do, shown before it starts. Reads only.

mod cluster;
mod misuse;
mod release;
mod text;

pub use misuse::misuse;

use super::filters::{self, FilterArgs};
use super::output::{self, say};
use super::release::{RegistryArgs, host_architecture};
use super::status::{self, Source};
use crate::api::OWN_DEPLOYMENT;
use crate::graph::Mode;
use crate::merge::inject::ClusterConfiguration;
use crate::merge::{self, MergeError, Owner};
use crate::payload::{ApplyFilter, Manifest, ObjectId, Payload, Selection};
use crate::plan::{self, Forecast, Question, Side};
use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The `--from` that is no release.
const CLUSTER: &str = "cluster";

/// Show what an update will do before it starts: what is created, changed, deleted and left alone, in which order, what
/// is waited for in between, and what will probably stop it.
///
/// The functions of the daemon decide, so what is shown is what it does. With --from cluster the objects that are there
/// are compared, and what takes part is read from it; with a release the objects of that release, as if nobody had changed
/// any since, and the flags say what takes part. Changes nothing. Exit
/// code 0: nothing is known to stand in the way; 1: no plan could be made, or nothing of the release takes part; 2: wrong
/// usage; 3: there is a plan, and something in it will probably stop the update.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// What the update starts from: `cluster`, the root of a release in a folder, or the pull spec of a release image
    #[arg(long, value_name = "cluster|DIR|IMAGE")]
    pub from: String,
    /// The release to go to
    #[arg(long, value_name = "DIR|IMAGE")]
    pub to: String,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// With -o text: list what is left alone too, and every node
    #[arg(long)]
    pub all: bool,
    /// Show what fields hold before and after, not only which differ. Never of Secrets; elsewhere an object may hold
    /// secrets as well
    #[arg(long)]
    pub values: bool,
    /// With --from DIR: pull spec of that release, which its own manifests name
    #[arg(long, value_name = "IMAGE", value_parser = misuse::pull_spec)]
    pub from_image: Option<String>,
    /// With --to DIR: pull spec of that release, which its own manifests name
    #[arg(long, value_name = "IMAGE", value_parser = misuse::pull_spec)]
    pub to_image: Option<String>,
    /// With --from cluster: the release the cluster runs. It tells what the new one does not name any more
    #[arg(long, value_name = "DIR|IMAGE")]
    pub running: Option<String>,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Read, and ask for rights, as this user; the daemon is
    /// system:serviceaccount:openshift-cluster-version:cluster-version-operator
    #[arg(long = "as", value_name = "USER")]
    pub user: Option<String>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Architecture to take of an image for several
    #[arg(long, value_name = "ARCH", default_value = host_architecture())]
    pub architecture: String,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
    /// For Graphviz
    Dot,
}

/// Exit code of a plan in which something blocks.
const BLOCKED: u8 = 3;

pub async fn run(args: PlanArgs) -> anyhow::Result<ExitCode> {
    let to = release::read(&args.to, args.to_image.as_deref(), &args).await?;
    let forecast = if args.from == CLUSTER {
        cluster::forecast(&args, &to).await?
    } else {
        let from = release::read(&args.from, args.from_image.as_deref(), &args).await?;
        between(&args, &from, &to)?
    };
    match args.output {
        Output::Text => say(&text::text(&forecast, &status::page(), args.all))?,
        Output::Json => say(&(serde_json::to_string_pretty(&forecast)? + "\n"))?,
        Output::Dot => say(&plan::dot(&forecast))?,
    }
    Ok(if forecast.is_blocked() { ExitCode::from(BLOCKED) } else { ExitCode::SUCCESS })
}

/// From one release to another.
fn between(args: &PlanArgs, from: &release::Given, to: &release::Given) -> anyhow::Result<Forecast> {
    let mut by = args.filters.apply_filter(None);
    let (before, after) = (from.load(by.load.clone())?, to.load(by.load.clone())?);
    let selected_before = before.select(&by);
    let implied = imply(&mut by, &after.manifests, &before.manifests);
    // Both sides are without what a cluster has injected.
    let nowhere = ClusterConfiguration::default();
    let prepared = |manifest: &Manifest| prepare(manifest, None, &nowhere);
    let found = plan::of_release(&selected_before.manifests, &after, &prepared);
    let selection = after.select(&by);
    takes_part(&selection, &after, &by)?;
    for warning in args.filters.unknown_capabilities([&before, &after].into_iter().flat_map(everything)) {
        output::remark(&format!("warning: {}", status::clean(&warning)));
    }
    let left_out = plan::left_out(&selection, &by);
    let dropped = plan::dropped(&selected_before.manifests, &selection, &left_out);
    let mut forecast = plan::forecast(&Question {
        from: Side { source: from.given.clone(), release: before.release.clone() },
        to: Side { source: to.given.clone(), release: after.release.clone() },
        mode: Mode::Update,
        manifests: &selection.manifests,
        left_out,
        found: &found,
        namespaces: None,
        prepared: &prepared,
        own_deployment: &own_deployment(args),
        values: args.values,
    });
    forecast.dropped = dropped;
    forecast.implicit_capabilities = implied.into_iter().collect();
    forecast.unknowns.extend(from.unknowns().into_iter().chain(to.unknowns()));
    forecast.unknowns.extend([&before, &after].into_iter().flat_map(warnings));
    forecast.unknowns.extend(
        [
            "No cluster was asked: what somebody changed there, what is there beside the release, whether operators are \
             well, which overrides are set, and whether the rights suffice.",
            "What is injected into objects (proxy, API server address, TLS profile, CA bundles) comes from the cluster, and \
             may change more fields.",
        ]
        .map(str::to_owned),
    );
    forecast.unknowns.extend(always());
    Ok(forecast)
}

fn everything(payload: &Payload) -> impl Iterator<Item = &Manifest> {
    payload.everything().into_iter().map(|manifest| &**manifest)
}

/// A plan of nothing would say that nothing stands in the way.
fn takes_part(selection: &Selection, to: &Payload, by: &ApplyFilter) -> anyhow::Result<()> {
    let profile = by.load.profile.as_deref().unwrap_or_default();
    let nothing = || filters::nothing_takes_part(profile, everything(to));
    ensure!(!selection.manifests.is_empty(), "{}", status::clean(&nothing()));
    Ok(())
}

/// Enables the capabilities that keep managed what is (payload-and-apply §2.9).
fn imply(by: &mut ApplyFilter, new: &[Arc<Manifest>], old: &[Arc<Manifest>]) -> BTreeSet<String> {
    let gates = by.load.feature_gates.clone().unwrap_or_default();
    by.capabilities.as_mut().map(|capabilities| capabilities.imply(new, old, &gates)).unwrap_or_default()
}

/// What no plan knows.
fn always() -> [String; 1] {
    ["What operators do when they run in their new version: the objects that they create, change and delete themselves."
        .to_owned()]
}

/// What loading the release has to say. The objects of a file that is left out are missing in the plan, on either side.
fn warnings(payload: &Payload) -> Vec<String> {
    let version = &payload.release.version;
    let told = |warning: &String| format!("In {version}, {warning}.");
    payload.warnings.iter().map(told).collect()
}

/// As the daemon prepares what it applies.
fn prepare(
    manifest: &Manifest,
    owner: Option<&Owner>,
    configuration: &ClusterConfiguration,
) -> Result<Value, MergeError> {
    merge::wanted(manifest, owner, configuration).map_err(|e| MergeError::Manifest(e.to_string()))
}

fn own_deployment(args: &PlanArgs) -> ObjectId {
    ObjectId::new("apps", "Deployment", &args.source.namespace, OWN_DEPLOYMENT)
}

#[cfg(test)]
mod tests;
