//! Reads the files of a bundle, each by itself: what cannot be read is passed over with a note, as installers do it.

use super::annotations::{Annotations, PREFIX, normal};
use super::finding::{Check, Finding};
use super::metadata::MetadataFiles;
use super::{Bundle, BundleError, CSV, CSV_API_VERSION, Contents, Object, SourceFile};
use crate::object::manifest::{ObjectId, is_manifest};
use crate::object::packed::Packed;
use crate::object::{metadata, yaml};
use crate::olm::api::keys::annotation::CONTENT_ENCODING;
use base64::Engine;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// Bytes of all objects of a bundle as JSON. The largest known bundles have some 5 MB.
pub(crate) const MAX_JSON: usize = 32 << 20;
/// Objects of a bundle.
pub(crate) const MAX_OBJECTS: usize = 10_000;
/// Notes of a bundle. What is beyond them says nothing new.
pub(crate) const MAX_FINDINGS: usize = 1_000;
const ANNOTATIONS_FILE: &str = "annotations.yaml";

/// Reads files by their paths below the root of the bundle. `labels`: those of the image; none for a folder.
///
/// The folders are those that annotations and labels name, or `manifests/` and `metadata/`. Folders below them are not read.
/// Never panics. The limits above bound what is kept; a file that is too large by itself is passed over.
pub(crate) fn read(files: &[SourceFile], labels: &BTreeMap<String, String>) -> Result<Contents, BundleError> {
    let files: BTreeMap<String, &[u8]> = files.iter().map(|file| (normal(&file.path), file.bytes.as_slice())).collect();
    let mut findings = Vec::new();
    let mut of_image = Annotations::default();
    of_image.fill(labels);
    let MetadataFiles { mut annotations, annotations_file, dependencies, properties } =
        metadata_files(&files, &of_image.metadata(), &mut findings);
    annotations.fill(labels);
    let mut reader = Reader { findings, ..Reader::default() };
    let folder = annotations.manifests();
    for (path, bytes) in &files {
        let Some(name) = path.strip_prefix(&folder) else { continue };
        if name.contains('/') {
            let message = format!("folders below {folder} are not read: move the file into {folder}");
            reader.note(Finding::warning(Check::Unread, (path, 0), "", message));
        } else if !name.starts_with('.') {
            reader.add(path, bytes)?;
        }
    }
    let Reader { objects, findings, .. } = reader;
    let labels = labels.clone();
    Ok(Contents { annotations, annotations_file, labels, dependencies, properties, objects, findings })
}

/// The bundle in a ConfigMap that another program has unpacked it into: its manifests by their file names, each compressed and in Base64
/// if the annotation says so.
pub(crate) fn unpacked(config_map: &Value) -> Result<Bundle, String> {
    let pointer = |pointer: &str| config_map.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let encoding = pointer("/metadata/annotations").find(|(key, _)| *key == CONTENT_ENCODING).map(|(_, value)| value);
    let is_packed = encoding.is_some_and(|it| it == "gzip+base64");
    let mut room = MAX_JSON as u64;
    let mut files = Vec::new();
    for (name, value) in pointer("/binaryData").chain(pointer("/data")) {
        let text = value.as_str().unwrap_or_default().as_bytes();
        let is_binary = config_map.pointer("/binaryData").is_some_and(|all| all.get(name) == Some(value));
        let bytes = if is_binary { decoded(text).map_err(|error| format!("{name}: {error}"))? } else { text.to_vec() };
        let bytes = if is_packed { inflated(&bytes, room).map_err(|error| format!("{name}: {error}"))? } else { bytes };
        room = room.checked_sub(bytes.len() as u64).ok_or_else(|| format!("it has more than {MAX_JSON} bytes"))?;
        files.push(SourceFile { path: format!("manifests/{name}"), bytes });
    }
    let contents = read(&files, &BTreeMap::new()).map_err(|error| error.to_string())?;
    contents.bundle().map_err(|error| error.to_string())
}

fn decoded(text: &[u8]) -> Result<Vec<u8>, base64::DecodeError> {
    base64::engine::general_purpose::STANDARD.decode(text)
}

/// At most one byte more than there is room for.
fn inflated(text: &[u8], room: u64) -> Result<Vec<u8>, String> {
    let bytes = decoded(text).map_err(|error| error.to_string())?;
    let mut inflated = Vec::new();
    let read = GzDecoder::new(bytes.as_slice()).take(room + 1).read_to_end(&mut inflated);
    read.map(|_| inflated).map_err(|error| error.to_string())
}

/// The bundle of manifests that stand in a catalog, each as JSON. `place`: where that is.
pub(crate) fn manifests(place: &str, manifests: &[String]) -> Result<Bundle, BundleError> {
    let mut reader = Reader::default();
    let file: Arc<str> = place.into();
    for (number, json) in manifests.iter().enumerate() {
        match serde_json::from_str::<Value>(json) {
            Ok(value) => reader.object(&file, number + 1, value)?,
            Err(error) => {
                let message = format!("it is passed over, as it cannot be read: {error}; correct the manifest");
                reader.note(Finding::error(Check::NotYaml, (place, number + 1), "", message));
            }
        }
    }
    let Reader { objects, findings, .. } = reader;
    Contents { objects, findings, ..Contents::default() }.bundle()
}

/// Those in the folder of metadata. Without annotations there, a file of that name anywhere tells which folder it is.
fn metadata_files(files: &BTreeMap<String, &[u8]>, folder: &str, findings: &mut Vec<Finding>) -> MetadataFiles {
    let mut read = MetadataFiles::default();
    in_folder(files, folder, &mut read, findings);
    if !read.annotations_file.is_empty() {
        return read;
    }
    let elsewhere = files.keys().filter_map(|path| Some((path.strip_suffix(ANNOTATIONS_FILE)?, path)));
    let found =
        elsewhere.filter(|(folder, _)| folder.is_empty() || folder.ends_with('/')).min_by_key(|(it, _)| it.len());
    match found {
        Some((other, path)) if other != folder => {
            let message = format!("annotations are expected in {folder}{ANNOTATIONS_FILE}: move the file there");
            findings.push(Finding::warning(Check::MetadataFile, (path, 0), "", message));
            in_folder(files, other, &mut read, findings);
        }
        _ => {
            let file = format!("{folder}{ANNOTATIONS_FILE}");
            let message = format!("there are no annotations: write the file, with {PREFIX}package.v1 and the others");
            findings.push(Finding::warning(Check::MetadataFile, (&file, 0), "", message));
        }
    }
    read
}

fn in_folder(files: &BTreeMap<String, &[u8]>, folder: &str, read: &mut MetadataFiles, findings: &mut Vec<Finding>) {
    let mut here: Vec<(&str, &str, &[u8])> = Vec::new();
    for (path, bytes) in files {
        match path.strip_prefix(folder) {
            Some(name) if !name.contains('/') && !name.starts_with('.') && is_manifest(name) => {
                here.push((name, path, bytes));
            }
            _ => {}
        }
    }
    // The usual names count before others.
    let usual = |name: &str| !matches!(name, ANNOTATIONS_FILE | "dependencies.yaml" | "properties.yaml");
    here.sort_by_key(|(name, ..)| usual(name));
    for (_, path, bytes) in here {
        read.add(path, bytes, findings);
        findings.truncate(MAX_FINDINGS);
    }
}

/// Reads objects out of files, within the limits of a bundle.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub objects: Vec<Object>,
    pub findings: Vec<Finding>,
    json: usize,
}

impl Reader {
    pub(super) fn note(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }

    /// Adds all objects of a file. Whatever else is in it gets a note.
    pub(super) fn add(&mut self, path: &str, bytes: &[u8]) -> Result<(), BundleError> {
        let documents = match yaml::documents(bytes) {
            Ok(documents) => documents,
            Err(error) => {
                let message = format!("it is passed over, as it cannot be read: {error}");
                let place = (path, 0);
                self.note(match is_manifest(path) {
                    true => Finding::error(Check::NotYaml, place, "", format!("{message}; correct or remove it")),
                    false => Finding::warning(Check::NotYaml, place, "", message),
                });
                return Ok(());
            }
        };
        let file: Arc<str> = path.into();
        for document in documents {
            self.object(&file, document.line, document.value)?;
        }
        Ok(())
    }

    /// Adds a document, if it is an object. A ClusterServiceVersion is known by its kind: some are published in a group that
    /// does not exist.
    pub(super) fn object(&mut self, file: &Arc<str>, line: usize, mut value: Value) -> Result<(), BundleError> {
        let is_csv = value.get("kind").is_some_and(|kind| kind == CSV.1);
        if let Some(given) = value.get_mut("apiVersion").filter(|given| is_csv && **given != CSV_API_VERSION) {
            let message = format!("its apiVersion is {given}, and it is taken for {CSV_API_VERSION}: write that");
            self.note(Finding::warning(Check::Version, (file, line), CSV.1, message));
            *given = CSV_API_VERSION.into();
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version.is_empty() || kind.is_empty() {
            let message =
                "it is passed over, as it has no apiVersion and kind: remove it if it is no object".to_owned();
            self.note(Finding::warning(Check::NotAnObject, (file, line), "", message));
            return Ok(());
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let namespace = value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let id = ObjectId::new(group, kind, namespace, metadata::name(&value));
        let raw = value.to_string();
        self.json += raw.len();
        if self.json > MAX_JSON {
            return Err(BundleError::TooLarge { limit: MAX_JSON, what: "bytes of JSON" });
        }
        if self.objects.len() == MAX_OBJECTS {
            return Err(BundleError::TooLarge { limit: MAX_OBJECTS, what: "objects" });
        }
        let raw = Packed::from(raw.as_bytes());
        self.objects.push(Object { file: file.clone(), line, id, api_version: api_version.to_owned(), raw });
        Ok(())
    }
}
