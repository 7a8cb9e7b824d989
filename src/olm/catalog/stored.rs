//! What is large of packages and bundles, decoded from the data beside the index. It was checked when the catalog was read, so what
//! cannot be decoded now is not what was written.

use super::fields::Fields;
use super::index::{Bundle, IndexError};
use super::objects;
use super::properties::base64;
use super::record::StoredKind;
use super::served::Content;
use crate::object::yaml;
use serde::Deserialize;

/// The kind of the object that says what a bundle is.
const CSV: &str = "ClusterServiceVersion";

/// What a catalog has of the ClusterServiceVersion of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Csv {
    #[default]
    Absent,
    /// JSON: the value of an `olm.csv.metadata`.
    Metadata(String),
    /// JSON: the object itself.
    Object(Vec<u8>),
}

/// The images that a bundle names, without those that are empty.
pub(crate) fn related_images(content: &Content, bundle: Bundle<'_>) -> Result<Vec<String>, IndexError> {
    let mut images: Vec<String> = objects::related_images(content, bundle)?.into_iter().map(|it| it.image).collect();
    images.retain(|image| !image.is_empty());
    Ok(images)
}

/// The object, where the catalog has it whole; else what it says for people.
pub(crate) fn csv(content: &Content, bundle: Bundle<'_>) -> Result<Csv, IndexError> {
    for stored in bundle.stored(StoredKind::Object) {
        let json = content.json(stored)?;
        let fields = Fields::parse(&json).map_err(|_| IndexError::Data)?;
        let data = fields.text("data").map_err(|_| IndexError::Data)?;
        let manifest = base64(&data).map_err(|_| IndexError::Data)?;
        if let Some(object) = csv_of(manifest)? {
            return Ok(Csv::Object(object));
        }
    }
    match bundle.stored(StoredKind::Metadata).next() {
        Some(stored) => Ok(Csv::Metadata(content.json(stored)?)),
        None => Ok(Csv::Absent),
    }
}

/// The JSON of a manifest in JSON or YAML, if it is a ClusterServiceVersion.
fn csv_of(manifest: Vec<u8>) -> Result<Option<Vec<u8>>, IndexError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Typed {
        kind: Option<String>,
    }
    if manifest.trim_ascii_start().starts_with(b"{")
        && let Ok(Typed { kind }) = serde_json::from_slice(&manifest)
    {
        return Ok((kind.as_deref() == Some(CSV)).then_some(manifest));
    }
    let documents = yaml::documents(&manifest).map_err(|_| IndexError::Data)?;
    let found = documents.into_iter().find(|it| it.value.get("kind").is_some_and(|kind| kind == CSV));
    found.map(|it| serde_json::to_vec(&it.value).map_err(|_| IndexError::Data)).transpose()
}

#[cfg(test)]
mod tests;
