//! A bundle is one version of an operator: a folder or an image with its ClusterServiceVersion, the definitions of its kinds,
//! other objects, and files that say into which package and channels it belongs. This room reads bundles, says what is
//! wrong with them, and writes them as blobs of a file-based catalog. ConfigMaps and folders of the format before bundles are
//! read to the same.

pub(crate) mod annotations;
pub(crate) mod channels;
pub(crate) mod config_map;
pub(crate) mod csv;
pub(crate) mod definition;
pub(crate) mod finding;
pub(crate) mod metadata;
pub(crate) mod package_file;
pub(crate) mod printed;
pub(crate) mod properties;
pub(crate) mod read;
pub(crate) mod render;
pub(crate) mod unpackaged;
pub(crate) mod validate;

use crate::object::manifest::ObjectId;
use crate::object::packed::Packed;
use annotations::Annotations;
use csv::Csv;
use definition::Definition;
use finding::{Check, Finding, Weight};
use metadata::Declared;
use properties::Written;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The group and the kind of a ClusterServiceVersion.
pub(crate) const CSV: (&str, &str) = ("operators.coreos.com", "ClusterServiceVersion");
pub(crate) const CSV_API_VERSION: &str = super::api::API_VERSION;
/// The only media type of bundles that can be installed.
pub(crate) const MEDIA_TYPE: &str = "registry+v1";

/// Files of a bundle, and bytes of all of them.
pub(crate) const MAX_FILES: usize = 10_000;
pub(crate) const MAX_TOTAL: usize = 64 << 20;

/// A file of a bundle, by its path below the root of the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// An object in a file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub file: Arc<str>,
    /// The first line of its document, from 1.
    pub line: usize,
    pub id: ObjectId,
    /// `group/version`, or `version` for the core group.
    pub api_version: String,
    /// The object as compact JSON with sorted keys.
    pub raw: Packed,
}

impl Object {
    /// Whether it is of this group and kind, in any version.
    pub(crate) fn is(&self, (group, kind): (&str, &str)) -> bool {
        self.id.group == group && self.id.kind == kind
    }
}

/// What was read of the files of a bundle, whether or not they make up a whole one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contents {
    /// From the file of annotations, then from the labels of the image.
    pub annotations: Annotations,
    /// Path of the file of annotations; empty if there is none.
    pub annotations_file: String,
    /// Of the image; none for a folder.
    pub labels: BTreeMap<String, String>,
    pub dependencies: Vec<Declared>,
    pub properties: Vec<Declared>,
    /// In the order of their files, then of their documents.
    pub objects: Vec<Object>,
    /// What the reader passed over or took for something else than is written.
    pub findings: Vec<Finding>,
}

/// A whole bundle.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bundle {
    pub annotations: Annotations,
    pub csv: Csv,
    /// The definitions among the objects.
    pub definitions: Vec<Definition>,
    /// All objects, with the ClusterServiceVersion.
    pub objects: Vec<Object>,
    /// Of the files of dependencies and properties and of the ClusterServiceVersion, without what can be derived.
    pub dependencies: Vec<Written>,
    pub properties: Vec<Written>,
    /// What was passed over, or cannot be used.
    pub notes: Vec<Finding>,
    csv_object: Object,
}

/// Why a bundle cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BundleError {
    #[error("the bundle is larger than {limit} {what}: leave out what the operator does not need, or split it")]
    TooLarge { limit: usize, what: &'static str },
    #[error(
        "as a catalog it has more than {limit} bytes, because each version has all of its definitions and each channel all of its \
         versions: make bundles of it, and a file-based catalog that names them"
    )]
    Blobs { limit: usize },
    #[error(
        "{place}: there is no ClusterServiceVersion: add the one of this version of the operator{}",
        if .skipped.is_empty() { String::new() } else { format!("; passed over: {skipped}") }
    )]
    NoCsv { place: String, skipped: String },
    #[error("{files}: each has a ClusterServiceVersion: a bundle has exactly one, so make a bundle of each")]
    SeveralCsvs { files: String },
    #[error("{file}, line {line}: the ClusterServiceVersion cannot be read: {cause}; correct the field")]
    Csv { file: String, line: usize, cause: String },
    #[error(
        "{place}: the media type is {found:?}, and only {MEDIA_TYPE} can be installed: build the bundle in that format"
    )]
    MediaType { place: String, found: String },
    #[error(
        "the ClusterServiceVersion is named {found:?}, but the catalog calls the bundle {expected:?}, so that the \
         Subscription would wait for ever: correct the name in the catalog or in the bundle"
    )]
    Name { found: String, expected: String },
    #[error("{place}: {cause}; correct it before the bundle goes into a catalog")]
    Declared { place: String, cause: String },
    #[error(
        "it is not known which package the bundle belongs to: set \
         operators.operatorframework.io.bundle.package.v1 in metadata/annotations.yaml"
    )]
    NoPackage,
}

impl Contents {
    /// The whole bundle, if there is exactly one ClusterServiceVersion that can be read. What else is wrong is in the notes.
    pub(crate) fn bundle(self) -> Result<Bundle, BundleError> {
        let media_type = self.annotations.media_type();
        if !media_type.is_empty() && media_type != MEDIA_TYPE {
            let place = if self.annotations_file.is_empty() { "labels of the image" } else { &self.annotations_file };
            return Err(BundleError::MediaType { place: place.to_owned(), found: media_type.to_owned() });
        }
        let mut found = self.objects.iter().filter(|object| object.is(CSV));
        let csv_object = match (found.next(), found.next()) {
            (None, _) => return Err(self.without_csv()),
            (Some(one), None) => one.clone(),
            (Some(one), Some(other)) => return Err(BundleError::SeveralCsvs { files: several(one, other) }),
        };
        let csv = Csv::read(&csv_object.raw.bytes()).map_err(|cause| BundleError::Csv {
            file: csv_object.file.to_string(),
            line: csv_object.line,
            cause,
        })?;
        let mut notes = self.findings;
        let definitions = definition::definitions(&self.objects, &mut notes);
        let dependencies = properties::of_dependencies(&self.dependencies, &mut notes);
        let mut properties = properties::of_properties(&self.properties, &mut notes);
        properties.extend(properties::of_csv(&csv, &csv_object, &mut notes));
        let Contents { annotations, objects, .. } = Contents { findings: Vec::new(), ..self };
        Ok(Bundle { annotations, csv, definitions, objects, dependencies, properties, notes, csv_object })
    }

    fn without_csv(&self) -> BundleError {
        let skipped = self.findings.iter().filter(|it| matches!(it.check, Check::NotYaml | Check::NotAnObject));
        let skipped: Vec<String> = skipped.map(|it| format!("{} ({})", it.file, it.message)).take(3).collect();
        BundleError::NoCsv { place: self.annotations.manifests().to_owned(), skipped: skipped.join("; ") }
    }
}

fn several(one: &Object, other: &Object) -> String {
    if one.file == other.file { one.file.to_string() } else { format!("{} and {}", one.file, other.file) }
}

impl Bundle {
    /// The ClusterServiceVersion as compact JSON.
    pub(crate) fn csv_object(&self) -> &Object {
        &self.csv_object
    }

    /// The definitions of kinds, as objects.
    pub(crate) fn crds(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(|object| object.is(definition::KIND))
    }

    /// Refuses a bundle whose ClusterServiceVersion has another name than the catalog gave it.
    pub(crate) fn expect_name(&self, name: &str) -> Result<(), BundleError> {
        if self.csv.metadata.name == name {
            return Ok(());
        }
        Err(BundleError::Name { found: self.csv.metadata.name.clone(), expected: name.to_owned() })
    }

    /// The first thing in the files of dependencies and properties that cannot be used. A catalog without it would say less
    /// than the author meant.
    pub(crate) fn check_declared(&self) -> Result<(), BundleError> {
        let declared = [Check::Dependency, Check::Property, Check::MetadataFile];
        let wrong = |note: &&Finding| note.weight == Weight::Error && declared.contains(&note.check);
        match self.notes.iter().find(wrong) {
            None => Ok(()),
            Some(note) => Err(BundleError::Declared { place: note.location(), cause: note.message.clone() }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
