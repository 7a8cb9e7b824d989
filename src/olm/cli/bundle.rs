//! `cvo bundle`: checks bundles of operators before they go into a catalog.

use crate::cli::exit::Exit;
use crate::cli::layout::clean;
use crate::cli::output::print;
use crate::object::yaml::MAX_BYTES;
use crate::olm::bundle::finding::{Finding, Weight};
use crate::olm::bundle::validate::validate;
use crate::olm::bundle::{SourceFile, read, unpackaged};
use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Folders below each other.
const MAX_DEPTH: usize = 8;
const MAX_FILES: usize = 10_000;
/// Bytes of all files.
const MAX_TOTAL: usize = 64 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    Validate(ValidateArgs),
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

pub(crate) fn run(command: BundleCommand) -> anyhow::Result<Exit> {
    let BundleCommand::Validate(args) = command;
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
    findings.extend(unpackaged::blobs(unpackaged).findings);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

fn line(finding: &Finding) -> String {
    let weight = match finding.weight {
        Weight::Error => "error",
        Weight::Warning => "warning",
    };
    format!("{weight}: {}: {} ({:?})\n", clean(&finding.location()), clean(&finding.message), finding.check)
}

/// All files of a folder by their paths below it. Of a file that is too large only so much is read that this shows.
fn files(dir: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let (mut found, mut total) = (Vec::new(), 0);
    let mut folders = vec![(dir.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        if depth > MAX_DEPTH {
            bail!("{} is more than {MAX_DEPTH} folders deep: give the root of one bundle", folder.display());
        }
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read the folder {}", folder.display()))?.path();
            let attempt = || format!("cannot read {}", path.display());
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let metadata = fs::metadata(&path).with_context(attempt)?;
            if metadata.is_dir() {
                folders.push((path.clone(), format!("{prefix}{name}/"), depth + 1));
            } else if metadata.is_file() {
                let mut bytes = Vec::new();
                File::open(&path)
                    .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
                    .with_context(attempt)?;
                total += bytes.len();
                found.push(SourceFile { path: format!("{prefix}{name}"), bytes });
            }
            if found.len() > MAX_FILES || total > MAX_TOTAL {
                bail!(
                    "{} has more than {MAX_FILES} files or {MAX_TOTAL} bytes: give the root of one bundle",
                    dir.display()
                );
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

#[cfg(test)]
mod tests;
