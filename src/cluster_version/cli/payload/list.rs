//! `cvo payload list`: every manifest of a release, and why it is included or excluded.

use crate::cli::filters::{self, FilterArgs};
use crate::cli::folder::{self, Document, Entry, Folder};
use crate::cli::layout::clean;
use crate::cli::output;
use clap::{ArgMatches, Args, ValueEnum};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// List every manifest of a release in the order of loading, with the reason if it is excluded.
///
/// DIR is the root of a release (with manifests/ and release-manifests/ in it, as `cvo release extract` writes it), or a
/// plain folder of manifests, which is read as the release that would be built from it: files of the component
/// cluster-version-operator come first and are templates. Without a release-metadata file the major version is unknown,
/// and nothing is excluded because of it.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// With -o json: also the objects, decoded and with templates filled in
    #[arg(long)]
    pub objects: bool,
    /// Pull spec of the release image, for templates
    #[arg(long, value_name = "IMAGE", default_value = folder::NO_IMAGE)]
    pub release_image: String,
    #[command(flatten)]
    pub filters: FilterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people
    Text,
    /// One JSON object per line for programs, with file, index (in the file, from 0), apiVersion, kind, namespace, name,
    /// included, reason, and object
    Json,
}

/// One line of `-o json`. All fields are always present; `reason` is empty for an included manifest.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    entry: Entry<'a>,
    included: bool,
    reason: &'a str,
}

/// What is wrong with the combination of flags.
pub(crate) fn misuse(given: &ArgMatches) -> Option<String> {
    if given.get_flag("objects") && given.get_one("output") != Some(&Output::Json) {
        return Some("--objects goes with -o json only: a table has no room for objects".to_owned());
    }
    filters::misuse(given)
}

pub(crate) fn run(args: &ListArgs) -> anyhow::Result<()> {
    let folder = folder::open(&args.dir, &args.release_image, &args.filters)?;
    for warning in &folder.warnings {
        output::remark(&format!("warning: {}", clean(warning)));
    }
    output::to_stdout(|out| match args.output {
        Output::Text => text(&folder, out),
        Output::Json => folder.documents.iter().try_for_each(|document| json(document, args.objects, out)),
    })
}

/// The object is written as the compact JSON that loading keeps, so nothing is decoded twice.
fn json(document: &Document, object: bool, out: &mut impl Write) -> io::Result<()> {
    let manifest = &document.manifest;
    let line = Line {
        entry: Entry::of(manifest),
        included: document.excluded.is_none(),
        reason: document.excluded.as_deref().unwrap_or_default(),
    };
    let mut head = serde_json::to_vec(&line)?;
    if object {
        // Without its closing brace.
        head.pop();
        out.write_all(&head)?;
        out.write_all(b",\"object\":")?;
        out.write_all(&manifest.raw.bytes())?;
        return out.write_all(b"}\n");
    }
    head.push(b'\n');
    out.write_all(&head)
}

fn text(folder: &Folder, out: &mut impl Write) -> io::Result<()> {
    let row = |document: &Document| {
        let id = &document.manifest.id;
        let kind = if id.group.is_empty() { id.kind.clone() } else { format!("{}.{}", id.kind, id.group) };
        let name = if id.namespace.is_empty() { id.name.clone() } else { format!("{}/{}", id.namespace, id.name) };
        let included = document.excluded.as_ref().map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"));
        let index = document.manifest.index_in_file.to_string();
        [document.manifest.file.to_string(), index, kind, name, included].map(|cell| clean(&cell).into_owned())
    };
    let rows: Vec<_> = folder.documents.iter().map(row).collect();
    output::table(["FILE", "INDEX", "KIND", "NAME", "INCLUDED"], &rows, out)?;
    let included = folder.documents.iter().filter(|d| d.excluded.is_none()).count();
    let release = if folder.version.is_empty() { String::new() } else { format!("release {}: ", folder.version) };
    writeln!(out, "\n{release}{} manifests, {included} included, {} excluded", rows.len(), rows.len() - included)
}

#[cfg(test)]
mod tests;
