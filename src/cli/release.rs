//! `cvo release`: build release images, look into them, unpack them.

pub mod assemble;
pub mod extract;
pub mod info;
pub mod new;
pub mod sign;

use crate::net::registry::{Access, credentials::Credentials};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Folder of the release's own manifests in a release image.
pub const OWN_MANIFESTS: &str = "manifests/";
/// Folder of everybody else's.
pub const RELEASE_MANIFESTS: &str = "release-manifests/";
/// Label of a release image: the release's name.
pub const RELEASE_LABEL: &str = "io.openshift.release";
/// Label of a release image: digest of the image it was built upon.
pub const BASE_DIGEST_LABEL: &str = "io.openshift.release.base-image-digest";

/// Build, show and unpack release images.
#[derive(Debug, Subcommand)]
pub enum ReleaseCommand {
    /// Build a release image from the manifests of its components, and push it
    New(Box<new::NewArgs>),
    /// Show what a release image, or a folder with a release in it, holds
    Info(info::InfoArgs),
    /// Unpack the manifests of a release image into a folder
    Extract(extract::ExtractArgs),
    /// Sign a release digest with gpg and lay the signature out as a signature store
    Sign(sign::SignArgs),
}

/// Runs the command. What it prints on standard output is its result; remarks go to standard error.
pub async fn run(command: ReleaseCommand) -> anyhow::Result<()> {
    match command {
        ReleaseCommand::New(args) => new::run(*args).await,
        ReleaseCommand::Info(args) => info::run(args).await,
        ReleaseCommand::Extract(args) => extract::run(args).await,
        ReleaseCommand::Sign(args) => sign::run(args),
    }
}

/// How registries are reached.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registry")]
pub struct RegistryArgs {
    /// File with credentials as `docker login` or `podman login` write it [default: $DOCKER_CONFIG/config.json, else
    /// ~/.docker/config.json, if it is there]. Of several entries the one for the longest path counts
    #[arg(long, value_name = "FILE")]
    pub registry_config: Option<PathBuf>,
    /// Registry that speaks plain HTTP; may be repeated. localhost and 127.x.x.x need not be named
    #[arg(long, value_name = "HOST[:PORT]")]
    pub insecure_registry: Vec<String>,
    /// Certificates (PEM) to trust beside those of the system
    #[arg(long, value_name = "FILE")]
    pub registry_ca: Option<PathBuf>,
}

impl RegistryArgs {
    pub fn access(&self) -> anyhow::Result<Access> {
        let extra_ca = match &self.registry_ca {
            Some(path) => std::fs::read(path).with_context(|| format!("--registry-ca {}", path.display()))?,
            None => Vec::new(),
        };
        Ok(Access {
            credentials: Credentials::find(self.registry_config.as_deref())?,
            plain_http: self.insecure_registry.clone(),
            extra_ca,
        })
    }
}

/// This machine's architecture as images name it.
pub fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
