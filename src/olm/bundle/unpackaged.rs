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

/// Bytes of the blobs of a folder. Its files may be as large, and each version has all of its definitions.
pub(crate) const MAX_OF_FOLDER: usize = 1 << 30;

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
fn owned(csv: &Object) -> BTreeSet<String> {
    let csv = super::csv::Csv::read(&csv.raw.bytes()).unwrap_or_default();
    csv.spec.definitions.owned.into_iter().map(|it| it.name).collect()
}

/// The blobs of all packages, as long as they have no more bytes than `limit`. A ClusterServiceVersion that cannot be used, a channel
/// without a head and a package without channels are left out, each with a finding.
pub(crate) fn blobs(read: Unpackaged, limit: usize) -> Result<Blobs, BundleError> {
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
    for (file, package) in &once(read.packages, &mut out.findings) {
        let (lines, channels) = channels(&mut out, (file, package), &by_name, limit)?;
        if !channels.is_empty() {
            out.json.push_str(&lines);
            add_bundles(&mut out, package, (&by_name, &channels), limit)?;
            used.extend(channels);
        }
    }
    for (name, bundle) in by_name.iter().filter(|(name, _)| !used.contains(*name)) {
        let object = bundle.csv_object();
        let message =
            "left out, as no channel leads to it: name it as the head of one, or in replaces or skips".to_owned();
        out.findings.push(Finding::warning(Check::UpdateEdge, (&object.file, object.line), name, message));
    }
    Ok(out)
}

/// Each package once, with the channels of all that have its name: lists that were written one after the other have one several times.
/// What is said last counts.
fn once(packages: Vec<(String, PackageFile)>, findings: &mut Vec<Finding>) -> Vec<(String, PackageFile)> {
    let mut all: Vec<(String, PackageFile)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut repeated = BTreeSet::new();
    for (file, package) in packages {
        let place = places.get(&package.package_name).copied();
        let Some((place, (_, first))) = place.and_then(|place| Some((place, all.get_mut(place)?))) else {
            places.insert(package.package_name.clone(), all.len());
            all.push((file, package));
            continue;
        };
        if repeated.insert(place) {
            let message = "the package is named more than once; all its channels are taken: name it once".to_owned();
            findings.push(Finding::warning(Check::Duplicate, (&file, 0), &package.package_name, message));
        }
        first.channels.extend(package.channels);
        if !package.default_channel.is_empty() {
            first.default_channel = package.default_channel;
        }
    }
    for (_, (_, PackageFile { channels, .. })) in
        all.iter_mut().enumerate().filter(|(place, _)| repeated.contains(place))
    {
        let last: BTreeMap<String, usize> =
            channels.iter().enumerate().map(|(at, channel)| (channel.name.clone(), at)).collect();
        let mut at = 0..;
        channels.retain(|channel| at.next() == last.get(&channel.name).copied());
    }
    all
}

/// The blobs of a package and its channels, and the names of the bundles in them; none if the package has no channels.
fn channels<'a>(
    out: &mut Blobs,
    (file, package): (&str, &PackageFile),
    bundles: &BTreeMap<&'a str, &'a Bundle>,
    limit: usize,
) -> Result<(String, BTreeSet<&'a str>), BundleError> {
    let name = package.package_name.as_str();
    let blob = PackageBlob { schema: schema::PACKAGE, name, default_channel: &package.default_channel };
    let (mut lines, mut names) = (line(&blob), BTreeSet::new());
    for channel in &package.channels {
        let entries = entries(&channel.current_csv, bundles);
        if entries.is_empty() {
            let message = format!(
                "the channel is left out, as there is no ClusterServiceVersion {:?}: add it, or correct currentCSV",
                channel.current_csv
            );
            let place = format!("{name}/{}", channel.name);
            out.findings.push(Finding::error(Check::UpdateEdge, (file, 0), &place, message));
            continue;
        }
        names.extend(entries.iter().filter_map(|entry| Some(*bundles.get_key_value(entry.name.as_str())?.0)));
        let blob = ChannelBlob { schema: schema::CHANNEL, package: name, name: &channel.name, entries: &entries };
        lines.push_str(&line(&blob));
        within(out.json.len() + lines.len(), limit)?;
    }
    if names.is_empty() {
        let message = "the package is left out, as it has no channels: add one with a currentCSV".to_owned();
        out.findings.push(Finding::error(Check::UpdateEdge, (file, 0), name, message));
    }
    Ok((lines, names))
}

/// The blobs of these bundles of a package.
fn add_bundles(
    out: &mut Blobs,
    package: &PackageFile,
    (bundles, names): (&BTreeMap<&str, &Bundle>, &BTreeSet<&str>),
    limit: usize,
) -> Result<(), BundleError> {
    for csv in names {
        let Some(mut bundle) = bundles.get(csv).map(|bundle| (*bundle).clone()) else { continue };
        bundle.annotations.set("package.v1", &package.package_name);
        match blob(&bundle, "", Form::Objects) {
            Ok(json) => out.json.extend([json.as_str(), "\n"]),
            Err(error) => {
                let object = bundle.csv_object();
                let message = format!("left out: {error}");
                out.findings.push(Finding::error(Check::Csv, (&object.file, object.line), csv, message));
            }
        }
        within(out.json.len(), limit)?;
    }
    Ok(())
}

fn within(length: usize, limit: usize) -> Result<(), BundleError> {
    if length > limit { Err(BundleError::Blobs { limit }) } else { Ok(()) }
}

fn line(blob: &impl Serialize) -> String {
    // Text and lists of text are always JSON.
    serde_json::to_string(blob).map(|json| json + "\n").unwrap_or_default()
}
