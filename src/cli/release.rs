//! `cvo release`: builds, inspects, extracts, mirrors and signs release images.

pub(crate) mod assemble;
pub(crate) mod extract;
pub(crate) mod given;
pub(crate) mod import;
pub(crate) mod info;
pub(crate) mod lint;
mod mark;
pub(crate) mod mirror;
pub(crate) mod new;
pub(crate) mod sign;
pub(crate) mod signatures;

use super::exit::Exit;
use crate::net::registry::{Access, Repository, architecture, credentials, image::Image, parse_reference};
use anyhow::Context;
use clap::{Args, Subcommand};
use oci_client::Reference;
use std::path::PathBuf;

/// Folder of the daemon's manifests in a release image.
pub(crate) const OWN_MANIFESTS: &str = "manifests/";
/// Folder of the manifests of all other components.
pub(crate) const RELEASE_MANIFESTS: &str = "release-manifests/";
/// Label of a release image: the release's name.
pub(crate) const RELEASE_LABEL: &str = "io.openshift.release";
/// Label of a release image: digest of its base image.
pub(crate) const BASE_DIGEST_LABEL: &str = "io.openshift.release.base-image-digest";

/// Build, inspect, extract, mirror and sign release images.
#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    /// Build a release image from the manifests of its components, and push it
    New(Box<new::NewArgs>),
    /// Show the content of a release image or of a folder with a release
    Info(info::InfoArgs),
    Import(import::ImportArgs),
    Lint(lint::LintArgs),
    /// Extract the manifests of a release image to a folder
    Extract(extract::ExtractArgs),
    /// Copy a release with all of its images and signatures to another registry, or to a folder
    Mirror(mirror::MirrorArgs),
    /// Sign a release digest with gpg and write the signature to a signature store
    Sign(sign::SignArgs),
}

/// Runs the command. What it prints on standard output is its result; remarks go to standard error.
pub(crate) async fn run(command: ReleaseCommand) -> anyhow::Result<Exit> {
    match command {
        ReleaseCommand::Lint(args) => return lint::run(&args),
        ReleaseCommand::New(args) => new::run(*args).await,
        ReleaseCommand::Import(args) => import::run(args).await,
        ReleaseCommand::Info(args) => info::run(args).await,
        ReleaseCommand::Extract(args) => extract::run(args).await,
        ReleaseCommand::Mirror(args) => mirror::run(args).await,
        ReleaseCommand::Sign(args) => sign::run(args),
    }
    .map(|()| Exit::Success)
}

/// How to reach registries.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registry")]
pub(crate) struct RegistryArgs {
    /// File with credentials, as `docker login` or `podman login` writes it [default: $DOCKER_CONFIG/config.json, else
    /// ~/.docker/config.json, if it exists]. Of several entries that with the longest path is tried first
    #[arg(long, value_name = "FILE")]
    pub registry_config: Option<PathBuf>,
    /// Registry to use over plain HTTP; may be repeated. localhost and 127.x.x.x are included by default
    #[arg(long, value_name = "HOST[:PORT]")]
    pub insecure_registry: Vec<String>,
    /// Certificates (PEM) to trust in addition to those of the system
    #[arg(long, value_name = "FILE")]
    pub registry_ca: Option<PathBuf>,
}

impl RegistryArgs {
    pub(crate) fn access(&self) -> anyhow::Result<Access> {
        let extra_ca = match &self.registry_ca {
            Some(path) => std::fs::read(path).with_context(|| format!("--registry-ca {}", path.display()))?,
            None => Vec::new(),
        };
        Ok(Access {
            credentials: credentials::find(self.registry_config.as_deref())?,
            plain_http: self.insecure_registry.clone(),
            extra_ca,
            ..Access::default()
        })
    }
}

/// A value parser that accepts pull specs.
pub(crate) fn pull_spec(given: &str) -> Result<String, String> {
    parse_reference(given).map(|_| given.to_owned()).map_err(|error| error.to_string())
}

/// How to pull an image.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImageSource {
    /// Architecture to choose from a multi-architecture image
    #[arg(long, value_name = "ARCH", default_value = architecture())]
    pub architecture: String,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// A pulled image, and where it comes from.
pub(super) struct Pulled {
    pub reference: Reference,
    pub repository: Repository,
    pub image: Image,
}

impl ImageSource {
    pub(super) async fn pull(&self, reference: &Reference) -> anyhow::Result<Pulled> {
        let repository = self.registry.access()?.repository(reference)?;
        let image = repository.pull(&self.architecture).await?;
        Ok(Pulled { reference: reference.clone(), repository, image })
    }
}
