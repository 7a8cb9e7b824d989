//! Reads a catalog out of a ConfigMap: blocks of YAML under three keys, each a list.

use super::definition;
use super::finding::{Check, Finding};
use super::package_file::PackageFile;
use super::read::Reader;
use super::unpackaged::{Blobs, Unpackaged, blobs, owned};
use super::{BundleError, CSV, Contents, Object};
use crate::object::yaml;
use serde_json::Value;
use std::collections::BTreeMap;
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
    for csv in csvs {
        let names = owned(&csv);
        let crds = others.iter().filter(|object| object.is(definition::KIND) && names.contains(&object.id.name));
        let objects = std::iter::once(csv.clone()).chain(crds.cloned()).collect();
        read.bundles.push(Contents { objects, ..Contents::default() });
    }
    Ok(blobs(read, MAX_BLOBS)?)
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
