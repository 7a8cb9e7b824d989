//! `cvo image`: prints the pull spec of one image of a release.

use super::layout::clean;
use super::output;
use crate::release::references;
use crate::release::references::ImageReferences;
use crate::release::work::payload_dir;
use anyhow::Context;
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An error lists at most this many names.
const MOST_NAMES: usize = 10;

/// Print the pull spec of one image of a release, without a newline
///
/// SHORT-NAME is the name of a tag in release-manifests/image-references; `cvo release info` lists them all.
#[derive(Args, Debug)]
pub(crate) struct ImageArgs {
    #[arg(value_name = "SHORT-NAME")]
    pub name: String,
    /// Root of the release, with manifests/ and release-manifests/
    #[arg(long, env = "PAYLOAD_OVERRIDE", default_value = "/", value_name = "DIR")]
    pub payload: PathBuf,
}

pub(crate) fn run(args: &ImageArgs) -> anyhow::Result<()> {
    let pull_spec = find(&args.name, &args.payload)?;
    output::print(&pull_spec)
}

fn find(name: &str, payload: &Path) -> anyhow::Result<String> {
    payload_dir::validate(payload).context("give the root of a release with --payload")?;
    let file = Path::new("release-manifests").join(references::FILE);
    let bytes = payload_dir::read_file(payload, &file)?;
    let images = ImageReferences::parse(&bytes).with_context(|| payload.display().to_string())?.images();
    images.get(name).cloned().with_context(|| unknown(name, payload, &images))
}

/// The error with similar names, or all names if there are few.
fn unknown(name: &str, payload: &Path, images: &BTreeMap<String, String>) -> String {
    let mut near: Vec<(usize, &str)> = images.keys().map(|known| (distance(name, known), known.as_str())).collect();
    near.sort_unstable();
    if near.len() > MOST_NAMES {
        let far = name.chars().count() / 2 + 1;
        near.retain(|(distance, known)| *distance <= far || known.contains(name) || name.contains(known));
        near.truncate(MOST_NAMES);
    }
    let names: Vec<_> = near.iter().map(|(_, known)| clean(known)).collect();
    let hint = match (images.is_empty(), names.is_empty()) {
        (true, _) => "it contains no images".to_owned(),
        (_, true) => format!("no name is similar; `cvo release info` lists all {}", images.len()),
        _ => format!("there are {}", names.join(", ")),
    };
    format!("the release in {} has no image {name:?}: {hint}", payload.display())
}

/// The Levenshtein distance of the first 100 characters.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, y) in b.chars().take(100).enumerate() {
        let mut left = i + 1;
        let mut diagonal = i;
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (x, &above) in a.iter().zip(row.iter().skip(1)) {
            left = (left + 1).min(above + 1).min(diagonal + usize::from(*x != y));
            diagonal = above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
