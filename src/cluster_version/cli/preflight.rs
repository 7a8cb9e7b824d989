//! `cvo preflight`: run by a Job from the target image before anything of it is applied. Loads its own payload and, if it was
//! verified, reads the API; writes nothing.

use crate::cli::{output, reach};
use crate::cluster::{Clients, Kind, Kinds, Objects};
use crate::cluster_version::api::{ClusterVersion, NAME};
use crate::release::work::{features, payload_dir};
use crate::release::{ApplyFilter, Filter, LoadOptions, load};
use anyhow::Context;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

/// Check that this image's payload can be loaded and the API can be read; changes nothing.
#[derive(Args, Debug)]
pub(crate) struct PreflightArgs {
    #[arg(long, value_name = "IMAGE")]
    release_image: String,
    #[arg(long, env = "CLUSTER_PROFILE", default_value = "self-managed-high-availability", value_name = "NAME")]
    profile: String,
    #[arg(long, env = "EXCLUDE_MANIFESTS", value_name = "IDS")]
    exclude_manifests: Option<String>,
    #[arg(long, env = "PAYLOAD_OVERRIDE", default_value = "/", value_name = "DIR")]
    payload: PathBuf,
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Do not read the API: the image was not verified, so it has no access to it.
    #[arg(long, conflicts_with = "kubeconfig")]
    without_api: bool,
}

pub(crate) async fn run(args: PreflightArgs) -> anyhow::Result<()> {
    let base =
        Filter { profile: Some(args.profile.clone()), exclude_identifier: args.exclude_manifests, ..Filter::default() };
    let options =
        LoadOptions { image: args.release_image, profile: args.profile, strict_templates: true, filter: base.clone() };
    let payload = load(payload_dir::read(&args.payload)?, &options)?;
    if args.without_api {
        let included = payload.select(&ApplyFilter { load: base, ..ApplyFilter::default() }).manifests.len();
        let version = &payload.release.version;
        return output::line(&format!("release {version} loads: {included} manifests before feature gates decide"));
    }
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let kinds = Kinds::default();
    let fail = |error| reach::explain(&clients.server(), error);
    kinds.refresh(&clients.call).await.map_err(fail).context("cannot read the API")?;
    let objects = Objects::reader(clients.call.clone());
    let gated = filter(&objects, &payload.release.version, base).await?;
    let included = payload.select(&ApplyFilter { load: gated, ..ApplyFilter::default() }).manifests;
    let unserved = included.iter().filter(|m| kinds.get(&m.api_version, &m.id.kind).is_none()).count();
    output::line(&format!(
        "release {} loads: {} manifests, {} of kinds that are not served yet",
        payload.release.version,
        included.len(),
        unserved
    ))
}

/// `base` with the cluster's feature set, and with the gates that are decided for this release, else for an earlier one.
async fn filter(objects: &Objects, version: &str, base: Filter) -> anyhow::Result<Filter> {
    let features = features::read(objects).await.context("cannot read the FeatureGate")?;
    let cluster =
        objects.get(&Kind::of::<ClusterVersion>(false), "", NAME).await.context("cannot read the ClusterVersion")?;
    let history = cluster.as_ref().and_then(|c| c.pointer("/status/history")).and_then(Value::as_array);
    let earlier = history.into_iter().flatten().filter_map(|entry| entry.get("version").and_then(Value::as_str));
    let gates = features.enabled([version].into_iter().chain(earlier)).cloned().unwrap_or_default();
    Ok(Filter { feature_set: Some(features.set), feature_gates: Some(gates), ..base })
}
