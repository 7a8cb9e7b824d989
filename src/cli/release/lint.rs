//! `cvo release lint`: what is wrong with a release before it is built or installed.

use super::{OWN_MANIFESTS, RELEASE_MANIFESTS};
use crate::cli::exit::Exit;
use crate::cli::filters::FilterArgs;
use crate::cli::folder;
use crate::cli::layout::clean;
use crate::cli::output::{print, remark};
use crate::object::manifest::Manifest;
use crate::release::lint::{Finding, Weight, lint};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Check the manifests of a release before it is built or installed
///
/// DIR is what `cvo payload list` takes: the root of a release, or a folder of manifests. Finds manifests that take part nowhere, kinds
/// and namespaces that nothing in the release defines or that it defines too late, objects of two components, images without a digest,
/// and ClusterOperators that nobody reports. What a cluster has besides the release is not known here: `cvo plan` compares with a cluster.
#[derive(Args, Debug)]
pub(crate) struct LintArgs {
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Count warnings as errors
    #[arg(long)]
    pub strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
}

pub(crate) fn run(args: &LintArgs) -> anyhow::Result<Exit> {
    let folder = folder::open(&manifests_in(&args.dir), folder::NO_IMAGE, &FilterArgs::default())?;
    for warning in &folder.warnings {
        remark(&format!("warning: {}", clean(warning)));
    }
    let manifests: Vec<Arc<Manifest>> = folder.documents.iter().map(|document| document.manifest.clone()).collect();
    let findings = lint(&manifests);
    match args.output {
        Output::Json => print(&format!("{:#}\n", json!({"schema": 1, "findings": findings})))?,
        Output::Text if findings.is_empty() => print(&format!("{} manifests, nothing found\n", manifests.len()))?,
        Output::Text => print(&findings.iter().map(line).collect::<String>())?,
    }
    let counts = |finding: &Finding| args.strict || finding.weight == Weight::Error;
    Ok(if findings.iter().any(counts) { Exit::Found } else { Exit::Success })
}

/// What `cvo release new --to-dir` writes has no manifests/, which come with the base image.
fn manifests_in(dir: &Path) -> PathBuf {
    let own = dir.join(RELEASE_MANIFESTS);
    if own.is_dir() && !dir.join(OWN_MANIFESTS).is_dir() { own } else { dir.to_owned() }
}

fn line(finding: &Finding) -> String {
    let weight = match finding.weight {
        Weight::Error => "error",
        Weight::Warning => "warning",
    };
    let Finding { file, object, message, check, .. } = finding;
    format!("{weight}: {}: {}: {} ({check:?})\n", clean(file), clean(object), clean(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_without_its_base_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(manifests_in(dir.path()), dir.path(), "any folder of manifests");
        std::fs::create_dir(dir.path().join("release-manifests")).unwrap();
        assert_eq!(manifests_in(dir.path()), dir.path().join("release-manifests/"));
        std::fs::create_dir(dir.path().join("manifests")).unwrap();
        assert_eq!(manifests_in(dir.path()), dir.path(), "a whole release");
    }
}
