//! `cvo release info`: shows the content of a release image or of a folder with a release.

use super::{BASE_DIGEST_LABEL, ImageSource, Pulled, RELEASE_LABEL, RELEASE_MANIFESTS, assemble};
use crate::cli::output;
use crate::net::registry::{parse_reference, pull_spec};
use crate::object::manifest::is_manifest;
use crate::release::SourceFile;
use crate::release::work::payload_dir;
use anyhow::{Context, anyhow, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Show the content of a release image or of a folder with a release
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Pull spec of a release image, or a folder that `cvo release extract` or `cvo release new --to-dir` wrote
    #[arg(value_name = "IMAGE|DIR")]
    pub release: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub source: ImageSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: image, digest, config, metadata, references, manifests
    Json,
}

/// What is shown of a release.
#[derive(Debug, Default)]
struct Info {
    /// Pull spec with digest, or the folder.
    place: String,
    /// Empty for a folder.
    digest: String,
    /// The image config; null for a folder.
    config: Value,
    metadata: Value,
    references: Value,
    /// Files of `release-manifests/` that are manifests.
    manifests: usize,
}

pub(crate) async fn run(args: InfoArgs) -> anyhow::Result<()> {
    let info =
        if Path::new(&args.release).is_dir() { of_folder(Path::new(&args.release))? } else { of_image(&args).await? };
    match args.output {
        Output::Text => output::print(&text(&info)?),
        Output::Json => output::line(&serde_json::to_string_pretty(&value(&info))?),
    }
}

async fn of_image(args: &InfoArgs) -> anyhow::Result<Info> {
    let reference = parse_reference(&args.release)
        .with_context(|| format!("{} is neither a folder nor an image reference", args.release))?;
    let Pulled { reference, repository, image } = args.source.pull(&reference).await?;
    let complete = |found: &crate::net::registry::layer::Gathered| {
        ["image-references", "release-metadata"]
            .iter()
            .all(|n| found.files.contains_key(&format!("{RELEASE_MANIFESTS}{n}")))
    };
    let found = repository.gather(&image, &[RELEASE_MANIFESTS], complete).await?;
    let mut info = of_files(&found.files).with_context(|| reference.to_string())?;
    info.place = pull_spec(&reference, &image.digest);
    info.digest = image.digest;
    info.config = image.config;
    Ok(info)
}

fn of_folder(dir: &Path) -> anyhow::Result<Info> {
    let inner = dir.join(RELEASE_MANIFESTS);
    let folder = if inner.is_dir() { inner } else { dir.to_path_buf() };
    let place = || folder.display().to_string();
    let read = payload_dir::read_plain(&folder)?;
    ensure!(read.unreadable.is_empty(), "{}", read.unreadable.join("\n"));
    let named = |file: SourceFile| (format!("{RELEASE_MANIFESTS}{}", file.name), file.bytes);
    let files = read.release.into_iter().map(named).collect();
    let info = of_files(&files).with_context(place)?;
    Ok(Info { place: place(), ..info })
}

/// Reads metadata and references and counts the manifests.
fn of_files(files: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<Info> {
    let read = |name: &str| {
        let bytes = files.get(&format!("{RELEASE_MANIFESTS}{name}"));
        bytes.ok_or_else(|| anyhow!("this is not a release: {RELEASE_MANIFESTS}{name} is missing"))
    };
    let references = read("image-references")?;
    assemble::image_stream(references).map_err(|cause| anyhow!("image-references: {cause}"))?;
    let references = serde_yaml::from_slice(references).context("image-references")?;
    let metadata = serde_json::from_slice(read("release-metadata")?).context("release-metadata is not JSON")?;
    Ok(Info {
        metadata,
        references,
        manifests: files.keys().filter(|name| is_manifest(name)).count(),
        ..Info::default()
    })
}

fn value(info: &Info) -> Value {
    json!({
        "image": info.place,
        "digest": info.digest,
        "config": info.config,
        "metadata": info.metadata,
        "references": info.references,
        "manifests": info.manifests,
    })
}

fn text(info: &Info) -> Result<String, std::fmt::Error> {
    let string =
        |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or("<none>").to_string();
    let label = |key: &str| {
        let found = info.config.pointer("/config/Labels").and_then(|labels| labels.get(key)).and_then(Value::as_str);
        found.unwrap_or("<none>").to_string()
    };
    let mut out = String::new();
    writeln!(out, "Name:       {}", string(&info.references, "/metadata/name"))?;
    writeln!(out, "Version:    {}", string(&info.metadata, "/version"))?;
    if info.digest.is_empty() {
        writeln!(out, "Folder:     {}", info.place)?;
        writeln!(out, "Created:    {}", string(&info.references, "/metadata/creationTimestamp"))?;
    } else {
        writeln!(out, "Digest:     {}", info.digest)?;
        writeln!(out, "Pull from:  {}", info.place)?;
        writeln!(out, "Created:    {}", string(&info.config, "/created"))?;
        writeln!(out, "OS/Arch:    {}/{}", string(&info.config, "/os"), string(&info.config, "/architecture"))?;
        writeln!(out, "Base:       {}", label(BASE_DIGEST_LABEL))?;
        let release = label(RELEASE_LABEL);
        if release != string(&info.metadata, "/version") {
            writeln!(out, "Warning:    label {RELEASE_LABEL} says {release}")?;
        }
    }
    writeln!(out, "Manifests:  {}", info.manifests)?;
    let list = |path: &str| -> Vec<&str> {
        let values = info.metadata.pointer(path).and_then(Value::as_array);
        values.into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let previous = list("/previous");
    writeln!(out, "Previous:   {}", if previous.is_empty() { "<none>".into() } else { previous.join(", ") })?;
    for (key, value) in info.metadata.get("metadata").and_then(Value::as_object).into_iter().flatten() {
        writeln!(out, "  {key}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_string))?;
    }
    let tags: Vec<_> = info.references.pointer("/spec/tags").and_then(Value::as_array).into_iter().flatten().collect();
    writeln!(out, "\nImages:")?;
    let width = tags.iter().map(|t| string(t, "/name").len()).max().unwrap_or(0);
    for tag in tags {
        writeln!(out, "  {:width$}  {}", string(tag, "/name"), string(tag, "/from/name"))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
