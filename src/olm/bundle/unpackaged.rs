//! Packages whose channels name the ClusterServiceVersion at their heads, and ClusterServiceVersions without images: the format
//! before bundles, and ConfigMap catalogs. Both become the blobs of a file-based catalog that has all manifests in it.

use super::annotations::normal;
use super::channels::{Entry, entries};
use super::definition;
use super::finding::{Check, Finding};
use super::package_file::PackageFile;
use super::read::Reader;
use super::render::{Form, blob};
use super::{Bundle, BundleError, CSV, Contents, Object, SourceFile};
use crate::object::manifest::is_manifest;
use crate::object::yaml;
use crate::olm::names::schema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Unpackaged {
    /// Each with the file that it is from.
    pub packages: Vec<(String, PackageFile)>,
    /// One for each ClusterServiceVersion, with the objects that belong to it.
    pub bundles: Vec<Contents>,
    pub findings: Vec<Finding>,
}

/// Blobs, and what was left out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blobs {
    /// JSON, one blob a line.
    pub json: String,
    pub findings: Vec<Finding>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageBlob<'a> {
    schema: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    default_channel: &'a str,
}

#[derive(Serialize)]
struct ChannelBlob<'a> {
    schema: &'static str,
    package: &'a str,
    name: &'a str,
    entries: &'a [Entry],
}

/// Reads a folder of the format before bundles: a file with a `packageName` in it, and ClusterServiceVersions in its folders.
/// Objects belong to the ClusterServiceVersion of their folder; where a folder has several, each gets the definitions that
/// it owns, and all other objects.
pub(crate) fn read_folder(files: &[SourceFile]) -> Result<Unpackaged, BundleError> {
    let files: BTreeMap<String, &[u8]> = files.iter().map(|file| (normal(&file.path), file.bytes.as_slice())).collect();
    let mut found = Unpackaged::default();
    let mut reader = Reader::default();
    for (path, bytes) in files.iter().filter(|(path, _)| is_manifest(path)) {
        let documents = yaml::documents(bytes).unwrap_or_default();
        let packages: Vec<_> = documents.iter().filter(|document| PackageFile::is_one(&document.value)).collect();
        if packages.is_empty() {
            reader.add(path, bytes)?;
        }
        for document in packages {
            match PackageFile::of(&document.value) {
                Ok(package) => found.packages.push((path.clone(), package)),
                Err(cause) => {
                    found.findings.push(Finding::error(Check::MetadataFile, (path, document.line), "", cause))
                }
            }
        }
    }
    found.findings.append(&mut reader.findings);
    let mut folders: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for object in &reader.objects {
        folders.entry(object.file.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default().push(object);
    }
    for objects in folders.values() {
        found.bundles.extend(group(objects));
    }
    Ok(found)
}

/// A bundle for each ClusterServiceVersion among objects.
pub(super) fn group(objects: &[&Object]) -> Vec<Contents> {
    let csvs: Vec<&Object> = objects.iter().copied().filter(|object| object.is(CSV)).collect();
    let others: Vec<&Object> = objects.iter().copied().filter(|object| !object.is(CSV)).collect();
    let several = csvs.len() > 1;
    let contents = |csv: &&Object| {
        let owned = if several { Some(owned(csv)) } else { None };
        let belongs = |it: &&&Object| match &owned {
            Some(names) => !it.is(definition::KIND) || names.contains(&it.id.name),
            None => true,
        };
        let objects = std::iter::once(*csv).chain(others.iter().filter(belongs).copied()).cloned();
        Contents { objects: objects.collect(), ..Contents::default() }
    };
    csvs.iter().map(contents).collect()
}

/// Names of the definitions that a ClusterServiceVersion owns. One that cannot be read owns none.
pub(super) fn owned(csv: &Object) -> BTreeSet<String> {
    let csv = super::csv::Csv::read(&csv.raw.bytes()).unwrap_or_default();
    csv.spec.definitions.owned.into_iter().map(|it| it.name).collect()
}

/// The blobs of all packages. A ClusterServiceVersion that cannot be used, a channel without a head and a package without
/// channels are left out, each with a finding.
pub(crate) fn blobs(read: Unpackaged) -> Blobs {
    let mut out = Blobs { findings: read.findings, ..Blobs::default() };
    let mut bundles = Vec::new();
    for contents in read.bundles {
        let at = contents.objects.first().map(|csv| (csv.file.clone(), csv.line, csv.id.name.clone()));
        match contents.bundle() {
            Ok(bundle) => bundles.push(bundle),
            Err(error) => {
                let (file, line, name) = at.unwrap_or_default();
                out.findings.push(Finding::error(Check::Csv, (&file, line), &name, format!("left out: {error}")));
            }
        }
    }
    let mut by_name: BTreeMap<&str, &Bundle> = BTreeMap::new();
    for bundle in &bundles {
        let (object, name) = (bundle.csv_object(), bundle.csv.metadata.name.as_str());
        if by_name.contains_key(name) {
            let message = "left out, as another one has the same name: keep one of them".to_owned();
            out.findings.push(Finding::error(Check::Duplicate, (&object.file, object.line), name, message));
        }
        by_name.entry(name).or_insert(bundle);
    }
    let mut used = BTreeSet::new();
    for (file, package) in &read.packages {
        add_package(&mut out, (file, package), &by_name, &mut used);
    }
    for (name, bundle) in by_name.iter().filter(|(name, _)| !used.contains(*name)) {
        let object = bundle.csv_object();
        let message =
            "left out, as no channel leads to it: name it as the head of one, or in replaces or skips".to_owned();
        out.findings.push(Finding::warning(Check::UpdateEdge, (&object.file, object.line), name, message));
    }
    out
}

fn add_package<'a>(
    out: &mut Blobs,
    (file, package): (&str, &'a PackageFile),
    bundles: &BTreeMap<&'a str, &'a Bundle>,
    used: &mut BTreeSet<&'a str>,
) {
    let name = package.package_name.as_str();
    let mut channels = Vec::new();
    let mut names = BTreeSet::new();
    for channel in &package.channels {
        let entries = entries(&channel.current_csv, bundles);
        if entries.is_empty() {
            let message = format!(
                "the channel is left out, as there is no ClusterServiceVersion {:?}: add it, or correct currentCSV",
                channel.current_csv
            );
            out.findings.push(Finding::error(
                Check::UpdateEdge,
                (file, 0),
                &format!("{name}/{}", channel.name),
                message,
            ));
            continue;
        }
        names.extend(entries.iter().map(|entry| entry.name.clone()));
        channels.push((channel.name.as_str(), entries));
    }
    if channels.is_empty() {
        let message = "the package is left out, as it has no channels: add one with a currentCSV".to_owned();
        return out.findings.push(Finding::error(Check::UpdateEdge, (file, 0), name, message));
    }
    let default_channel = &package.default_channel;
    line(out, &PackageBlob { schema: schema::PACKAGE, name, default_channel });
    for (channel, entries) in &channels {
        line(out, &ChannelBlob { schema: schema::CHANNEL, package: name, name: channel, entries });
    }
    for (csv, bundle) in bundles.iter().filter(|(csv, _)| names.contains(**csv)) {
        used.insert(csv);
        let mut bundle = (*bundle).clone();
        bundle.annotations.set("package.v1", name);
        match blob(&bundle, "", Form::Objects) {
            Ok(json) => out.json.extend([json.as_str(), "\n"]),
            Err(error) => {
                let object = bundle.csv_object();
                let message = format!("left out: {error}");
                out.findings.push(Finding::error(Check::Csv, (&object.file, object.line), csv, message));
            }
        }
    }
}

fn line(out: &mut Blobs, blob: &impl Serialize) {
    // Text and lists of text are always JSON.
    if let Ok(json) = serde_json::to_string(blob) {
        out.json.extend([json.as_str(), "\n"]);
    }
}
