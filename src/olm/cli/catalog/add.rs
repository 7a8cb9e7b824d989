//! `cvo catalog add`: a bundle becomes an entry of a channel. One file is changed, beside which the new one is written and checked before
//! it takes its place.

use super::validate::{self, counted};
use super::{AddArgs, Output};
use crate::cli::exit::Exit;
use crate::cli::output::{print, remark};
use crate::olm::bundle::Bundle;
use crate::olm::bundle::render::{Form as BundleForm, blob};
use crate::olm::catalog::addition::{self, Addition, AdditionError};
use crate::olm::catalog::blobs::Form;
use crate::olm::catalog::channel::Entry;
use crate::olm::catalog::index::{self, Package};
use crate::olm::catalog::written::{Syntax, text, written};
use crate::olm::cli::input;
use crate::olm::names::schema::{BUNDLE, CHANNEL, PACKAGE};
use crate::olm::net::folder::{self, Place};
use anyhow::{Context, bail};
use semver::Version;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{borrow::Cow, fs};
use tempfile::NamedTempFile;

pub(super) async fn run(args: &AddArgs) -> anyhow::Result<Exit> {
    let (contents, image) = input::bundle(&args.bundle, &args.source).await?;
    let image = args.image.clone().unwrap_or(image);
    let bundle = contents.bundle()?;
    let added = match add(args, &bundle, &image) {
        Ok(added) => added,
        Err(error) => match error.downcast::<AdditionError>() {
            Ok(refused) => {
                remark(&format!("cvo: {refused}"));
                return Ok(Exit::Refused);
            }
            Err(error) => return Err(error),
        },
    };
    for note in &added.notes {
        remark(&format!("warning: {note}"));
    }
    match args.output {
        Output::Json => print(&format!("{:#}\n", added.json()))?,
        Output::Text => print(&added.text())?,
    }
    Ok(Exit::Success)
}

/// What was added.
#[derive(Debug)]
struct Added {
    file: String,
    package: String,
    channel: String,
    entry: Entry<'static>,
    dry_run: bool,
    notes: Vec<String>,
}

impl Added {
    fn json(&self) -> Value {
        json!({"schema": 1, "file": self.file, "package": self.package, "channel": self.channel, "entry": self.entry,
            "dryRun": self.dry_run})
    }

    fn text(&self) -> String {
        let Added { file, channel, entry, .. } = self;
        let would = if self.dry_run { "would be " } else { "" };
        let mut out = format!("{} {would}added to the channel {channel} in {file}\n", entry.name);
        if !entry.replaces.is_empty() {
            out.push_str(&format!("  replaces {}\n", entry.replaces));
        }
        if !entry.skips.is_empty() {
            out.push_str(&format!("  skips {}\n", entry.skips.join(", ")));
        }
        if !entry.skip_range.is_empty() {
            out.push_str(&format!("  skips what is in {}\n", entry.skip_range));
        }
        out
    }
}

/// The blobs of the package that matter.
#[derive(Default)]
struct Places {
    package: Option<Place>,
    channel: Option<Place>,
    bundle: Option<Place>,
}

fn add(args: &AddArgs, bundle: &Bundle, image: &str) -> anyhow::Result<Added> {
    let (name, package) = (bundle.csv.metadata.name.as_str(), bundle.annotations.package());
    let form = if image.is_empty() { BundleForm::Objects } else { BundleForm::Metadata };
    let new_blob = blob(bundle, image, form)?;
    let version: Version = bundle.csv.spec.version.parse().with_context(|| {
        format!("the version {:?} of {name} is not MAJOR.MINOR.PATCH: correct spec.version", bundle.csv.spec.version)
    })?;
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot make the folder {}", args.dir.display()))?;
    let catalog = folder::read(&args.dir, io::sink())?;
    if catalog.sick.iter().any(|sick| sick.package == package) {
        bail!("the package {package} has faults: cvo catalog validate {} tells which", args.dir.display());
    }
    let there = catalog.index.package(package);
    let addition = Addition {
        name: name.to_owned(),
        version,
        replaces: args.replaces.clone(),
        before_all: bundle.csv.spec.replaces.clone(),
        skips: args.skip.clone(),
        z_stream: args.z_stream,
        skip_range: bundle.csv.skip_range().to_owned(),
    };
    let (old, versions) = there.map(|package| entries(package, &args.channel)).unwrap_or_default();
    let entry = addition::entry(&old, &versions, &addition)?;
    let places = places(&args.dir, package, &args.channel, name)?;
    same_bundle(places.bundle.as_ref(), &new_blob, name)?;
    let new_blob = places.bundle.is_none().then_some(new_blob);
    let edit = edit(&args.dir, &places, (package, &args.channel), &entry, new_blob.as_deref())?;
    let notes = notes(bundle, &entry, &addition, &versions);
    replace(&args.dir, package, &edit, args.dry_run)?;
    let (file, channel) = (edit.name, args.channel.clone());
    Ok(Added { file, package: package.to_owned(), channel, entry, dry_run: args.dry_run, notes })
}

/// The entries of a channel and the versions of their bundles. Empty if it does not exist.
fn entries<'a>(package: Package<'a>, channel: &str) -> (Vec<Entry<'a>>, BTreeMap<&'a str, Version>) {
    let entries = || package.channel(channel).into_iter().flat_map(index::Channel::entries);
    let entry = |entry: index::Entry<'a>| Entry {
        name: Cow::Borrowed(entry.name()),
        replaces: Cow::Borrowed(entry.replaces().unwrap_or_default()),
        skips: entry.skips().map(Cow::Borrowed).collect(),
        skip_range: Cow::Borrowed(entry.skip_range().unwrap_or_default()),
    };
    let version = |entry: index::Entry<'a>| Some((entry.name(), entry.bundle()?.version().parse().ok()?));
    (entries().map(entry).collect(), entries().filter_map(version).collect())
}

fn places(dir: &Path, package: &str, channel: &str, bundle: &str) -> anyhow::Result<Places> {
    let mut places = Places::default();
    folder::each_blob(dir, &mut |place, blob| {
        let slot = match (blob.schema, blob.name) {
            (PACKAGE, _) => &mut places.package,
            (CHANNEL, name) if name == channel => &mut places.channel,
            (BUNDLE, name) if name == bundle => &mut places.bundle,
            _ => return,
        };
        if blob.package == package {
            *slot = Some(place.clone());
        }
    })?;
    Ok(places)
}

/// A bundle that is in another channel already must be the same one.
fn same_bundle(place: Option<&Place>, new: &str, name: &str) -> anyhow::Result<()> {
    let Some(place) = place else { return Ok(()) };
    let image = |json: &str| -> anyhow::Result<String> {
        let blob: Value = serde_json::from_str(json)?;
        let image = blob.get("image").and_then(Value::as_str).filter(|image| !image.is_empty());
        Ok(image.map_or_else(|| "without an image".to_owned(), |image| format!("with {image}")))
    };
    let (old, new) = (image(&place.json()?)?, image(new)?);
    if old != new {
        bail!(
            "{}, line {}: there is another olm.bundle {name}, {old} and not {new}: a version that is published does \
             not change, so give the new one another name and version",
            place.file,
            place.line
        );
    }
    Ok(())
}

/// The new content of a file.
struct Edit {
    path: PathBuf,
    /// In the catalog.
    name: String,
    old: Vec<u8>,
    new: Vec<u8>,
}

fn edit(
    dir: &Path,
    places: &Places,
    (package, channel): (&str, &str),
    entry: &Entry<'_>,
    bundle: Option<&str>,
) -> anyhow::Result<Edit> {
    let channel = |json: Option<String>| -> anyhow::Result<Map<String, Value>> {
        let mut blob: Map<String, Value> = match json {
            Some(json) => serde_json::from_str(&json)?,
            None => {
                serde_json::from_value(json!({"schema": CHANNEL, "package": package, "name": channel, "entries": []}))?
            }
        };
        let entries = blob.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case("entries"));
        let entries = entries.and_then(|(_, entries)| entries.as_array_mut()).context("the channel has no entries")?;
        entries.push(serde_json::to_value(entry)?);
        Ok(blob)
    };
    let Some(place) = places.channel.as_ref().or(places.package.as_ref()) else {
        let name = format!("{package}/catalog.yaml");
        let path = dir.canonicalize()?.join(&name);
        if path.exists() {
            bail!("{} exists, and has no olm.package {package}: add one to it, or rename the file", path.display());
        }
        let default = channel(None)?.get("name").cloned();
        let blob = json!({"schema": PACKAGE, "name": package, "defaultChannel": default});
        let mut new = written(&blob.to_string(), Syntax::Yaml)? + &text(&channel(None)?, Syntax::Yaml)?;
        new.push_str(&bundle.map_or(Ok(String::new()), |bundle| written(bundle, Syntax::Yaml))?);
        return Ok(Edit { path, name, old: Vec::new(), new: new.into_bytes() });
    };
    let syntax = if place.form == Form::Json { Syntax::Json } else { Syntax::Yaml };
    let old = fs::read(&place.path).with_context(|| format!("cannot read {}", place.path.display()))?;
    let mut new = old.clone();
    let mut behind = String::new();
    match &places.channel {
        Some(place) => {
            let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
            let blob = text(&channel(Some(place.json()?))?, syntax)?;
            let blob = match syntax {
                Syntax::Json => blob.trim_end(),
                Syntax::Yaml => blob.trim_start_matches("---\n"),
            };
            let range = start..start.saturating_add(place.length);
            anyhow::ensure!(range.end <= new.len(), "{} was changed meanwhile: try again", place.path.display());
            new.splice(range, blob.bytes());
        }
        None => behind.push_str(&text(&channel(None)?, syntax)?),
    }
    behind.push_str(&bundle.map_or(Ok(String::new()), |bundle| written(bundle, syntax))?);
    if !behind.is_empty() && !new.ends_with(b"\n") {
        new.push(b'\n');
    }
    new.extend(behind.bytes());
    Ok(Edit { path: place.path.to_path_buf(), name: place.file.to_string(), old, new })
}

/// What the author should know although it is allowed.
fn notes(bundle: &Bundle, entry: &Entry<'_>, addition: &Addition, versions: &BTreeMap<&str, Version>) -> Vec<String> {
    let (mut notes, name, said) = (Vec::new(), &entry.name, &bundle.csv.spec.replaces);
    if !said.is_empty() && *said != entry.replaces {
        notes.push(format!(
            "the ClusterServiceVersion of {name} says that it replaces {said}; in the channel it replaces {}, and that counts",
            if entry.replaces.is_empty() { "nothing" } else { &entry.replaces }
        ));
    }
    if let Some(replaced) = versions.get(entry.replaces.as_ref())
        && addition.version.cmp_precedence(replaced).is_le()
    {
        notes.push(format!("{name} has the version {}, and what it replaces has {replaced}", addition.version));
    }
    notes
}

/// Writes the new file beside the catalog, checks the package with it, and lets it take the place of the old one.
fn replace(dir: &Path, package: &str, edit: &Edit, dry_run: bool) -> anyhow::Result<()> {
    let root = dir.canonicalize()?;
    let folder = edit.path.parent().unwrap_or(&root);
    let failed = || format!("cannot write {}", edit.path.display());
    // Beside the catalog, because every file in it is part of it. On another file system it cannot be moved from there.
    let mut aside = match root.parent().map(|parent| NamedTempFile::with_prefix_in(".cvo-", parent)) {
        Some(Ok(aside)) => aside,
        _ => NamedTempFile::new().with_context(failed)?,
    };
    aside.write_all(&edit.new).and_then(|()| aside.as_file().sync_all()).with_context(failed)?;
    let catalog = folder::read_with(dir, io::sink(), Some((&edit.path, aside.path())))?;
    let faults: Vec<String> = catalog.faults.iter().filter(|it| it.package == package).map(validate::place).collect();
    if !faults.is_empty() {
        let count = counted(faults.len(), "fault");
        bail!("with it the package {package} would have {count}, and nothing is changed: {}", faults.join("; "));
    }
    if dry_run {
        return Ok(());
    }
    let is_new = edit.old.is_empty() && !edit.path.exists();
    if !is_new && fs::read(&edit.path).with_context(failed)? != edit.old {
        bail!("{} was changed meanwhile: try again", edit.path.display());
    }
    fs::create_dir_all(folder).with_context(failed)?;
    let permissions = fs::metadata(&edit.path).map(|file| file.permissions());
    let permissions = permissions.unwrap_or_else(|_| std::os::unix::fs::PermissionsExt::from_mode(0o644));
    aside.as_file().set_permissions(permissions).with_context(failed)?;
    match aside.persist(&edit.path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::CrossesDevices => {
            let mut near = NamedTempFile::with_prefix_in(".cvo-", folder).with_context(failed)?;
            near.write_all(&edit.new).and_then(|()| near.as_file().sync_all()).with_context(failed)?;
            near.persist(&edit.path).map(drop).map_err(|error| error.error).with_context(failed)
        }
        Err(error) => Err(error.error).with_context(failed),
    }
}

#[cfg(test)]
mod tests;
