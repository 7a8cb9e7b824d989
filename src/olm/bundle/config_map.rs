//! Reads a catalog out of a ConfigMap: blocks of YAML under three keys, each a list.

use super::csv::Csv;
use super::definition;
use super::finding::{Check, Finding};
use super::package_file::PackageFile;
use super::read::Reader;
use super::unpackaged::{Blobs, Unpackaged, blobs};
use super::{BundleError, CSV, Contents, Object};
use crate::object::yaml;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of the blobs. A ConfigMap has a sixteenth of that at most.
pub(super) const MAX_BLOBS: usize = 16 << 20;
const CSVS: &str = "clusterServiceVersions";
const CRDS: &str = "customResourceDefinitions";
const PACKAGES: &str = "packages";

/// Why a ConfigMap is no catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigMapError {
    #[error(
        "the ConfigMap has no key {0:?}, so that it is no catalog: a catalog has {CSVS}, {CRDS} and {PACKAGES}, each a list in YAML"
    )]
    NoKey(&'static str),
    #[error("key {key}: {cause}; correct the YAML")]
    Yaml { key: &'static str, cause: yaml::YamlError },
    #[error("key {key}, line {line}: it must be one list, each entry with a hyphen")]
    NoList { key: &'static str, line: usize },
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// The data of a ConfigMap as blobs of a file-based catalog. Entries that cannot be used are left out, each with a finding whose
/// file is the key.
pub(crate) fn read(data: &BTreeMap<String, String>) -> Result<Blobs, ConfigMapError> {
    let mut read = Unpackaged::default();
    let mut reader = Reader::default();
    for key in [CSVS, CRDS] {
        let file: Arc<str> = key.into();
        for (line, value) in list(data, key, key == CSVS)? {
            reader.object(&file, line, value)?;
        }
    }
    for (line, value) in list(data, PACKAGES, true)? {
        match PackageFile::of(&value) {
            Ok(package) => read.packages.push((PACKAGES.to_owned(), package)),
            Err(cause) => read.findings.push(Finding::error(Check::MetadataFile, (PACKAGES, line), "", cause)),
        }
    }
    read.findings.append(&mut reader.findings);
    let (csvs, others): (Vec<Object>, Vec<Object>) = reader.objects.into_iter().partition(|object| object.is(CSV));
    let crds: Vec<(Object, Vec<String>)> =
        others.into_iter().filter(|object| object.is(definition::KIND)).map(with_versions).collect();
    for csv in csvs {
        let objects = std::iter::once(csv.clone()).chain(brought(&csv, &crds)).collect();
        read.bundles.push(Contents { objects, ..Contents::default() });
    }
    Ok(blobs(read, MAX_BLOBS)?)
}

/// A definition with its versions. What is wrong with it is told of each bundle that has it.
fn with_versions(crd: Object) -> (Object, Vec<String>) {
    let read = definition::definitions(std::slice::from_ref(&crd), &mut Vec::new());
    let versions = read.into_iter().flat_map(|it| it.versions).map(|(version, _)| version).collect();
    (crd, versions)
}

/// The definitions that a ClusterServiceVersion owns. The list may have one name several times, as it was in other versions of the
/// operator: the one counts that has most of the owned versions, and of equal ones the last. A ClusterServiceVersion that cannot be
/// read owns none.
fn brought(csv: &Object, crds: &[(Object, Vec<String>)]) -> Vec<Object> {
    let csv = Csv::read(&csv.raw.bytes()).unwrap_or_default();
    let mut owned: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for it in &csv.spec.definitions.owned {
        owned.entry(&it.name).or_default().insert(&it.version);
    }
    let of = |(name, wanted): (&str, BTreeSet<&str>)| {
        let of_name = crds.iter().filter(|(crd, _)| crd.id.name == name);
        let fitting = |versions: &[String]| versions.iter().filter(|it| wanted.contains(it.as_str())).count();
        of_name.max_by_key(|(_, versions)| fitting(versions)).map(|(crd, _)| crd.clone())
    };
    owned.into_iter().filter_map(of).collect()
}

/// The entries of a list, each with the line that the list begins in.
fn list(
    data: &BTreeMap<String, String>,
    key: &'static str,
    required: bool,
) -> Result<Vec<(usize, Value)>, ConfigMapError> {
    let Some(text) = data.get(key) else {
        return if required { Err(ConfigMapError::NoKey(key)) } else { Ok(Vec::new()) };
    };
    let documents = yaml::documents(text.as_bytes()).map_err(|cause| ConfigMapError::Yaml { key, cause })?;
    let mut found = Vec::new();
    for document in documents {
        let Value::Array(entries) = document.value else {
            return Err(ConfigMapError::NoList { key, line: document.line });
        };
        found.extend(entries.into_iter().map(|entry| (document.line, entry)));
    }
    Ok(found)
}
