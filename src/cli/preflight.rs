//! `cvo preflight`: run by a Job from the target image before anything of it is applied. Loads its own payload and reads
//! the API; writes nothing (architecture §3, "Hand-over").

use crate::cluster::{Clients, Kinds};
use crate::payload::filter::Filter;
use crate::payload::{LoadOptions, load};
use crate::work::payload_dir;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Check that this image's payload loads and the API can be read. Changes nothing.
#[derive(Args, Debug)]
pub struct PreflightArgs {
    #[arg(long, value_name = "IMAGE")]
    release_image: String,
    #[arg(long, env = "CLUSTER_PROFILE", default_value = "self-managed-high-availability", value_name = "NAME")]
    profile: String,
    #[arg(long, env = "PAYLOAD_OVERRIDE", default_value = "/", value_name = "DIR")]
    payload: PathBuf,
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub async fn run(args: PreflightArgs) -> anyhow::Result<()> {
    let options = LoadOptions {
        image: args.release_image,
        profile: args.profile.clone(),
        strict_templates: true,
        filter: Filter { profile: Some(args.profile), ..Filter::default() },
    };
    let payload = load(payload_dir::read(&args.payload)?, &options)?;
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let kinds = Kinds::default();
    kinds.refresh(&clients.call).await.context("cannot read the API")?;
    let unserved = payload.manifests.iter().filter(|m| kinds.get(&m.api_version, &m.id.kind).is_none()).count();
    println!(
        "release {} loads: {} manifests, {} of kinds that are not served yet",
        payload.release.version,
        payload.manifests.len(),
        unserved
    );
    Ok(())
}
