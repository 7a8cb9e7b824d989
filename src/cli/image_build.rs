//! `cvo image-build`: builds a container image from a static program, a CA bundle and manifests, without a container
//! engine. Tests and `hack/image` build their images with it.

use super::output;
use super::release::{OWN_MANIFESTS, RegistryArgs, new::created};
use crate::net::registry::image::{self, Image, Start};
use crate::net::registry::layer::{self, FileBytes, Layer, LayerFile, Packing};
use crate::net::registry::layout::Layout;
use crate::net::registry::{Access, RegistryError, Repository, copy, parse_reference, pull_spec};
use anyhow::{Context, anyhow, bail, ensure};
use clap::{ArgGroup, Args};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where programs look for trusted certificates.
const CA_BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// Build a container image from a static program, and push it
///
/// The image has no base: it contains the program, a bundle of CA certificates and what --manifests and --copy add. No
/// container engine is needed. The same input always gives the same digest. Prints one line: <digest> <image>.
#[derive(Args, Debug)]
pub(crate) struct ImageBuildArgs {
    /// Program to put into the image; must be linked statically, since the image has no loader
    #[arg(long, value_name = "FILE")]
    pub binary: PathBuf,
    /// Path of the program in the image
    #[arg(long, value_name = "PATH", default_value = "/usr/bin/cvo")]
    pub binary_path: String,
    /// A word of the command that a container runs; may be repeated [default: the program]
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub entrypoint: Vec<String>,
    /// User that a container runs as, by its number [default: root]
    #[arg(long, value_name = "UID")]
    pub user: Option<u32>,
    /// Folder whose files become /manifests/, from which the daemon of a release image is installed
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,
    /// File or folder to add; may be repeated
    #[arg(long, value_name = "SRC=DST")]
    pub copy: Vec<String>,
    /// Label of the image; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Bundle of CA certificates (PEM) to put into the image
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    pub ca_bundle: PathBuf,
    /// Push the image here
    #[arg(long, value_name = "IMAGE", required_unless_present = "dry_run", conflicts_with = "dry_run")]
    pub to_image: Option<String>,
    /// Build the image and print its digest, but push nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not compress layers, for a registry on this machine
    #[arg(long)]
    pub uncompressed: bool,
    /// Creation time; fixed, so that building again gives the same digest [default: 1970-01-01T00:00:00Z]
    #[arg(long, value_name = "RFC3339", conflicts_with = "source_date_epoch")]
    pub created: Option<Timestamp>,
    /// The same in seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH", hide = true)]
    pub source_date_epoch: Option<i64>,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// What goes into an image.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub binary: PathBuf,
    /// Absolute path of the program in the image.
    pub binary_path: String,
    /// If empty, the program.
    pub entrypoint: Vec<String>,
    /// Root without one.
    pub user: Option<u32>,
    /// Folder that becomes `/manifests/`; subfolders are skipped, since a release is flat.
    pub manifests: Option<PathBuf>,
    /// File or folder, and its absolute path in the image.
    pub copies: Vec<(PathBuf, String)>,
    pub labels: BTreeMap<String, String>,
    pub ca_bundle: Option<PathBuf>,
    pub packing: Packing,
    pub created: Timestamp,
}

/// An image ready to be pushed.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub image: Image,
    pub layers: Vec<Layer>,
}

pub(crate) async fn run(args: ImageBuildArgs) -> anyhow::Result<()> {
    let pairs = |list: &[String], flag: &str| -> anyhow::Result<Vec<(String, String)>> {
        let pair = |given: &String| {
            let parts = given.split_once('=').map(|(a, b)| (a.to_string(), b.to_string()));
            parts.ok_or_else(|| anyhow!("{flag} {given} has no \"=\""))
        };
        list.iter().map(pair).collect()
    };
    let recipe = Recipe {
        binary: args.binary.clone(),
        binary_path: args.binary_path.clone(),
        entrypoint: args.entrypoint.clone(),
        user: args.user,
        manifests: args.manifests.clone(),
        copies: pairs(&args.copy, "--copy")?.into_iter().map(|(from, to)| (from.into(), to)).collect(),
        labels: pairs(&args.label, "--label")?.into_iter().collect(),
        ca_bundle: Some(args.ca_bundle.clone()),
        packing: if args.uncompressed { Packing::Plain } else { Packing::USUAL },
        created: created(args.created, args.source_date_epoch)?,
    };
    let access = args.registry.access()?;
    let built = tokio::task::spawn_blocking(move || build(&recipe)).await??;
    match &args.to_image {
        None => output::line(&built.image.digest),
        Some(to) => {
            let spec = push(built, &access, to).await?;
            output::line(&format!("{} {to}", spec.rsplit_once('@').map_or("", |(_, digest)| digest)))
        }
    }
}

/// Builds the image in memory: program and certificates in one layer, everything else in a second one, so that a change of
/// manifests changes only the second. Blocks while it compresses.
pub(crate) fn build(recipe: &Recipe) -> anyhow::Result<Built> {
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let (program, architecture) = program(&recipe.binary, &recipe.binary_path)?;
    let mut system = vec![program];
    if let Some(path) = &recipe.ca_bundle {
        let bytes = read(path).context("bundle of CA certificates (name one with --ca-bundle)")?;
        ensure!(
            bytes.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----"),
            "{} contains no certificates in PEM format",
            path.display()
        );
        system.push(LayerFile { path: CA_BUNDLE.into(), mode: 0o444, bytes: bytes.into() });
    }
    let mut rest = Vec::new();
    if let Some(dir) = &recipe.manifests {
        add_folder(&mut rest, dir, OWN_MANIFESTS.trim_end_matches('/'), false)?;
        ensure!(!rest.is_empty(), "{} contains no files", dir.display());
    }
    for (from, to) in &recipe.copies {
        if from.is_dir() {
            add_folder(&mut rest, from, &inside(to)?, true)?;
        } else {
            rest.push(LayerFile { path: inside(to)?, mode: mode(from)?, bytes: read(from)?.into() });
        }
    }
    let mtime = u64::try_from(recipe.created.as_second()).unwrap_or(0);
    let mut layers = vec![layer::write(&system, mtime, recipe.packing)?];
    if !rest.is_empty() {
        layers.push(layer::write(&rest, mtime, recipe.packing)?);
    }
    let own = || vec![format!("/{}", recipe.binary_path.trim_start_matches('/'))];
    let start = Start {
        entrypoint: if recipe.entrypoint.is_empty() { own() } else { recipe.entrypoint.clone() },
        labels: recipe.labels.clone(),
        env: vec!["PATH=/usr/bin".into()],
        user: recipe.user,
        architecture: architecture.into(),
    };
    Ok(Built { image: image::scratch(&layers, &start, recipe.created)?, layers })
}

/// A static program as a file of an image, and its architecture.
pub(crate) fn program(binary: &Path, path: &str) -> anyhow::Result<(LayerFile, &'static str)> {
    let bytes = std::fs::read(binary).with_context(|| binary.display().to_string())?;
    let architecture = static_architecture(&bytes).with_context(|| binary.display().to_string())?;
    Ok((LayerFile { path: inside(path)?, mode: 0o755, bytes: bytes.into() }, architecture))
}

/// All files of a folder, as they are in an image below a path. They are read when the layer is written.
pub(crate) fn folder(dir: &Path, to: &str) -> anyhow::Result<Vec<LayerFile>> {
    let mut files = Vec::new();
    add_folder(&mut files, dir, &inside(to)?, true)?;
    Ok(files)
}

/// Where an image goes that is built.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("to").required(true).multiple(true).args(["tag", "to_dir", "dry_run"])))]
pub(crate) struct ImageTarget {
    /// Push the image here; with --to-dir the name that it has in the folder, and nothing is pushed
    #[arg(short, long, value_name = "REPOSITORY:TAG", value_parser = pullable)]
    pub tag: Option<String>,
    /// Write the image into this folder (an OCI image layout), which other tools read too
    #[arg(short = 'o', long, value_name = "FOLDER", conflicts_with = "dry_run")]
    pub to_dir: Option<PathBuf>,
    /// Build the image and print its digest, but push and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Creation time; fixed, so that building again gives the same digest [default: 1970-01-01T00:00:00Z]
    #[arg(long, value_name = "RFC3339", conflicts_with = "source_date_epoch")]
    pub created: Option<Timestamp>,
    /// The same in seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH", hide = true)]
    pub source_date_epoch: Option<i64>,
}

/// What an image is called in a folder if nothing else is said.
const UNNAMED: &str = "latest";

/// A name that an image can be pushed to.
fn pullable(given: &str) -> Result<String, String> {
    let reference = parse_reference(given).map_err(|error| error.to_string())?;
    match reference.digest() {
        None => Ok(given.to_owned()),
        Some(_) => Err("it must not have a digest: write REGISTRY/REPOSITORY:TAG".to_owned()),
    }
}

impl ImageTarget {
    pub(crate) fn created(&self) -> anyhow::Result<Timestamp> {
        created(self.created, self.source_date_epoch)
    }

    /// Writes or pushes the image, and prints its digest and name.
    pub(crate) async fn put(&self, built: Built, access: &Access, base: Option<&Repository>) -> anyhow::Result<()> {
        let Built { image, layers } = built;
        let digest = image.digest.clone();
        match (&self.to_dir, &self.tag) {
            _ if self.dry_run => output::line(&digest),
            (Some(dir), tag) => {
                let name = tag.as_deref().unwrap_or(UNNAMED);
                let layout = Layout::create(dir).await.map_err(RegistryError::from)?;
                copy::keep(&image, layers, base, (&layout, name)).await?;
                output::line(&format!("{digest} {name}"))
            }
            (None, Some(tag)) => {
                access.repository(&parse_reference(tag)?)?.push(&image, layers, base).await?;
                output::line(&format!("{digest} {tag}"))
            }
            (None, None) => Ok(()),
        }
    }
}

/// Pushes a built image; returns its pull spec with digest.
pub(crate) async fn push(built: Built, access: &Access, to_image: &str) -> anyhow::Result<String> {
    let target = parse_reference(to_image)?;
    ensure!(target.digest().is_none(), "{target} must not have a digest: write REGISTRY/REPOSITORY:TAG");
    let digest = access.repository(&target)?.push(&built.image, built.layers, None).await?;
    Ok(pull_spec(&target, &digest))
}

/// A path in the image as archives write it, without the leading slash.
fn inside(path: &str) -> anyhow::Result<String> {
    let relative = path.trim_start_matches('/').trim_end_matches('/').to_string();
    layer::check_path(&relative)?;
    Ok(relative)
}

fn add_folder(files: &mut Vec<LayerFile>, dir: &Path, to: &str, deep: bool) -> anyhow::Result<()> {
    let place = || dir.display().to_string();
    for entry in std::fs::read_dir(dir).with_context(place)? {
        let path = entry.with_context(place)?.path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .with_context(|| format!("{}: the name is not UTF-8 text", path.display()))?;
        let to = format!("{to}/{name}");
        if path.is_file() {
            files.push(LayerFile { path: to, mode: mode(&path)?, bytes: FileBytes::Disk(path) });
        } else if deep && path.is_dir() && !path.is_symlink() {
            add_folder(files, &path, &to, deep)?;
        }
    }
    Ok(())
}

/// Only the executable bit is kept: the rest depends on the umask of the user who builds.
fn mode(path: &Path) -> anyhow::Result<u32> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(if metadata.permissions().mode() & 0o111 == 0 { 0o444 } else { 0o555 })
}

/// The architecture of a static ELF program, as images name it. Other programs would need a loader, which the image lacks.
fn static_architecture(program: &[u8]) -> anyhow::Result<&'static str> {
    const NEEDS_LOADER: u32 = 3;
    let bytes = |at: usize, count: usize| program.get(at..at.checked_add(count)?);
    let number = |at: usize, count: usize| -> Option<u64> {
        let little = bytes(at, count)?.iter().rev();
        Some(little.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    ensure!(bytes(0, 6) == Some(b"\x7fELF\x02\x01"), "it is not a 64-bit little-endian ELF program");
    let headers = || -> Option<Vec<u64>> {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        (0..count).map(|n| number(usize::try_from(start.checked_add(n * size)?).ok()?, 4)).collect()
    };
    let headers = headers().context("its program headers are cut off")?;
    ensure!(
        !headers.contains(&u64::from(NEEDS_LOADER)),
        "it is linked dynamically, and the image has no loader: build it with RUSTFLAGS='-C target-feature=+crt-static' and an explicit --target"
    );
    match number(18, 2) {
        Some(62) => Ok("amd64"),
        Some(183) => Ok("arm64"),
        other => bail!("its machine type {} is neither amd64 nor arm64", other.unwrap_or(0)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
