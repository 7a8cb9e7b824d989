//! `cvo bundle`: checks bundles of operators before they go into a catalog, and builds their images.

mod build;
mod print;

use crate::cli::exit::Exit;
use crate::cli::layout::clean;
use crate::cli::output::print;
use crate::olm::bundle::finding::{Finding, Weight};
use crate::olm::bundle::validate::validate;
use crate::olm::bundle::{read, unpackaged};
use crate::olm::net::bundle::files;
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    Validate(ValidateArgs),
    Build(Box<build::BuildArgs>),
    /// Print the files of the bundle in this image for the process that reads the log of the container.
    #[command(hide = true)]
    Print {
        /// Root of the image.
        #[arg(default_value = "/", value_name = "DIR")]
        root: PathBuf,
    },
}

/// Check a bundle before it goes into a catalog
///
/// DIR is the root of a bundle, with manifests/ and metadata/, or a folder of the format before bundles, with a package.yaml and
/// ClusterServiceVersions. Says what would keep the operator from being installed or updated, and what authors are advised to avoid in
/// dependencies. Needs no cluster.
#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Count warnings as errors
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
}

pub(crate) async fn run(command: BundleCommand) -> anyhow::Result<Exit> {
    match command {
        BundleCommand::Validate(args) => validated(&args),
        BundleCommand::Build(args) => build::run(&args).await,
        BundleCommand::Print { root } => print::run(&root),
    }
}

fn validated(args: &ValidateArgs) -> anyhow::Result<Exit> {
    let findings = check(&args.dir)?;
    match args.output {
        Output::Json => print(&format!("{:#}\n", json!({"schema": 1, "findings": findings})))?,
        Output::Text if findings.is_empty() => print("nothing found\n")?,
        Output::Text => print(&findings.iter().map(line).collect::<String>())?,
    }
    let counts = |finding: &Finding| args.strict || finding.weight == Weight::Error;
    Ok(if findings.iter().any(counts) { Exit::Found } else { Exit::Success })
}

fn check(dir: &Path) -> anyhow::Result<Vec<Finding>> {
    let files = files(dir)?;
    let contents = read::read(&files, &BTreeMap::new())?;
    if !contents.objects.is_empty() || !contents.annotations_file.is_empty() {
        return Ok(validate(&contents));
    }
    let unpackaged = unpackaged::read_folder(&files)?;
    if unpackaged.packages.is_empty() || unpackaged.bundles.is_empty() {
        bail!(
            "{} is no bundle: DIR must have manifests/ with a ClusterServiceVersion and metadata/annotations.yaml, or a package.yaml \
             with ClusterServiceVersions",
            dir.display()
        );
    }
    let mut findings: Vec<Finding> = unpackaged.bundles.iter().flat_map(validate).collect();
    findings.extend(unpackaged::blobs(unpackaged, unpackaged::MAX_OF_FOLDER)?.findings);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// A finding in one line.
pub(super) fn line(finding: &Finding) -> String {
    let weight = match finding.weight {
        Weight::Error => "error",
        Weight::Warning => "warning",
    };
    format!("{weight}: {}: {} ({:?})\n", clean(&finding.location()), clean(&finding.message), finding.check)
}

#[cfg(test)]
mod tests;
