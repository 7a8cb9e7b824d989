//! `cvo catalog build`: the image of a catalog, without a container engine.

use super::validate;
use crate::cli::exit::Exit;
use crate::cli::image_build::{Built, ImageTarget, folder, program};
use crate::cli::layout;
use crate::cli::output::remark;
use crate::cli::release::{ImageSource, pull_spec};
use crate::net::registry::image::{self, Image, Start, Top};
use crate::net::registry::layer::{self, Packing};
use crate::net::registry::parse_reference;
use crate::olm::cli::input;
use crate::olm::net::pull::{CONFIGS, CONFIGS_LABEL};
use anyhow::{Context, anyhow};
use clap::Args;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where our own program is in an image.
const PROGRAM: &str = "/usr/bin/cvo";
/// The user of a container of an image that is built with the program: `nobody`, by its number.
const NOBODY: u32 = 65534;
/// The architecture of an image without a program. Such an image is only read.
const OF_DATA: &str = "amd64";

/// Build the image of a catalog, and push it or write it into a folder
///
/// No container engine is needed. The same files always give the same digest. The files of the folder become /configs, and the label
/// operators.operatorframework.io.index.configs.v1 says so. Without --serve and --base the image has nothing else: the controller of
/// operators reads it, and no pod runs. With --serve it also has this program, which serves the catalog by gRPC on port 50051, for
/// whoever runs it as a pod. A catalog with faults is not built. Prints one line: <digest> <image>.
#[derive(Args, Debug)]
pub(crate) struct BuildArgs {
    /// Folder or image of the catalog
    #[arg(value_name = "DIR|IMAGE")]
    pub catalog: String,
    #[command(flatten)]
    pub target: ImageTarget,
    /// Let containers of the image serve the catalog: cvo catalog serve /configs
    #[arg(long)]
    pub serve: bool,
    /// Build on this image; with --serve it has to contain /usr/bin/cvo
    #[arg(long, value_name = "IMAGE", value_parser = pull_spec)]
    pub base: Option<String>,
    /// Program to put into the image with --serve, linked statically [default: this one]
    #[arg(long, value_name = "FILE", requires = "serve", conflicts_with = "base")]
    pub binary: Option<PathBuf>,
    /// A word of the command that a container runs, with --base; may be repeated [default: that of the base]
    #[arg(long, value_name = "WORD", allow_hyphen_values = true, requires = "base", conflicts_with = "serve")]
    pub entrypoint: Vec<String>,
    /// Further label of the image; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Build it although packages have faults, which are not served
    #[arg(long)]
    pub with_faults: bool,
    #[command(flatten)]
    pub source: ImageSource,
}

pub(super) async fn run(args: &BuildArgs) -> anyhow::Result<Exit> {
    let given = input::catalog(&args.catalog, &args.source).await?;
    let catalog = super::read(&given.folder)?;
    if catalog.fault_count > 0 {
        remark(validate::text(&catalog, &layout::page()).trim_end());
        if !args.with_faults {
            remark(
                "nothing is built: correct the faults, or build the catalog without those packages by --with-faults",
            );
            return Ok(Exit::Found);
        }
    }
    drop(catalog);
    let created = args.target.created()?;
    let labels = labels(&args.label)?;
    let access = args.source.registry.access()?;
    let base = match &args.base {
        None => None,
        Some(base) => {
            let repository = access.repository(&parse_reference(base)?)?;
            let image = repository.pull(&args.source.architecture).await.context("base image")?;
            Some((repository, image))
        }
    };
    let built = built(args, &given.folder, base.as_ref().map(|(_, image)| image), &labels, created)?;
    args.target.put(built, &access, base.as_ref().map(|(repository, _)| repository)).await?;
    Ok(Exit::Success)
}

fn labels(given: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |given: &String| {
        let pair = given.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| anyhow!("--label {given} has no \"=\""))
    };
    let mut labels: BTreeMap<String, String> = given.iter().map(pair).collect::<anyhow::Result<_>>()?;
    labels.insert(CONFIGS_LABEL.to_owned(), CONFIGS.to_owned());
    Ok(labels)
}

/// The program in a layer of its own, which all catalogs share.
fn built(
    args: &BuildArgs,
    dir: &Path,
    base: Option<&Image>,
    labels: &BTreeMap<String, String>,
    created: Timestamp,
) -> anyhow::Result<Built> {
    let mtime = u64::try_from(created.as_second()).unwrap_or(0);
    // A catalog may be larger than the memory.
    let configs = layer::write_to_disk(&folder(dir, CONFIGS)?, mtime, Packing::USUAL)?;
    let serve = || [PROGRAM, "catalog", "serve", CONFIGS].map(str::to_owned).to_vec();
    if let Some(base) = base {
        let entrypoint = if args.serve { serve() } else { args.entrypoint.clone() };
        let top = Top { layer: &configs, content: "catalog", labels, entrypoint: &entrypoint };
        return Ok(Built { image: image::on_top(base, &top, created)?, layers: vec![configs] });
    }
    let mut start = Start { labels: labels.clone(), architecture: OF_DATA.to_owned(), ..Start::default() };
    let mut layers = Vec::new();
    if args.serve {
        let own = || std::env::current_exe().context("cannot find this program: name one with --binary");
        let binary = args.binary.clone().map_or_else(own, Ok)?;
        let (program, architecture) = program(&binary, PROGRAM)?;
        layers.push(layer::write(&[program], mtime, Packing::USUAL)?);
        start = Start {
            entrypoint: serve(),
            env: vec!["PATH=/usr/bin".to_owned()],
            user: Some(NOBODY),
            architecture: architecture.to_owned(),
            ..start
        };
    }
    layers.push(configs);
    Ok(Built { image: image::scratch(&layers, &start, created)?, layers })
}

#[cfg(test)]
mod tests;
