//! Manifests and other parts of bundles, decoded from the data beside the index for clients that get them whole. They were checked
//! when the catalog was read, so what cannot be decoded now is not what was written.

use super::fields::{Fields, compact};
use super::index::{Bundle, IndexError, Package, Stored};
use super::properties::base64;
use super::record::StoredKind;
use super::served::Content;
use crate::object::yaml;
use std::borrow::Cow;

/// An image that a bundle names.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct RelatedImage {
    pub name: String,
    pub image: String,
}

/// A picture of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Icon {
    /// Base64, perhaps with ends of lines in it.
    pub base64data: String,
    pub mediatype: String,
}

/// Bytes of the data that the manifests and the metadata of a bundle take.
pub(crate) fn length(bundle: Bundle<'_>) -> usize {
    let of = |kind| bundle.stored(kind).map(Stored::length).sum::<usize>();
    of(StoredKind::Object) + of(StoredKind::Metadata) + of(StoredKind::RelatedImages)
}

/// The manifests of a bundle that are in the catalog itself, each as JSON.
pub(crate) fn manifests(content: &Content, bundle: Bundle<'_>) -> Result<Vec<String>, IndexError> {
    let manifest = |stored| {
        let json = content.json(stored)?;
        let data = Fields::parse(&json).map_err(|_| IndexError::Data)?;
        let data = data.text("data").map_err(|_| IndexError::Data)?;
        manifest(base64(&data).map_err(|_| IndexError::Data)?)
    };
    bundle.stored(StoredKind::Object).map(manifest).collect()
}

/// The JSON of a manifest in JSON or YAML. Of several documents only the first one counts, as other programs read it.
fn manifest(bytes: Vec<u8>) -> Result<String, IndexError> {
    if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() {
        return String::from_utf8(bytes).map_err(|_| IndexError::Data);
    }
    let documents = yaml::documents(&bytes).map_err(|_| IndexError::Data)?;
    Ok(documents.into_iter().next().map_or_else(|| "null".to_owned(), |document| document.value.to_string()))
}

/// The value of the property `olm.csv.metadata`, without blanks, of a bundle that has exactly one.
pub(crate) fn metadata(content: &Content, bundle: Bundle<'_>) -> Result<Option<String>, IndexError> {
    let mut all = bundle.stored(StoredKind::Metadata);
    let (Some(stored), None) = (all.next(), all.next()) else { return Ok(None) };
    let json = content.json(stored)?;
    let mut text = String::with_capacity(json.len());
    compact(&json, &mut text);
    Ok(Some(text))
}

pub(crate) fn related_images(content: &Content, bundle: Bundle<'_>) -> Result<Vec<RelatedImage>, IndexError> {
    let mut images = Vec::new();
    for stored in bundle.stored(StoredKind::RelatedImages) {
        let json = content.json(stored)?;
        for fields in serde_json::from_str::<Vec<Fields<'_>>>(&json).map_err(|_| IndexError::Data)? {
            let text = |name| fields.text(name).map(Cow::into_owned).map_err(|_| IndexError::Data);
            images.push(RelatedImage { name: text("name")?, image: text("image")? });
        }
    }
    Ok(images)
}

/// Empty if there is none.
pub(crate) fn description(content: &Content, package: Package<'_>) -> Result<String, IndexError> {
    let Some(stored) = package.stored(StoredKind::Description) else { return Ok(String::new()) };
    serde_json::from_str(&content.json(stored)?).map_err(|_| IndexError::Data)
}

pub(crate) fn icon(content: &Content, package: Package<'_>) -> Result<Option<Icon>, IndexError> {
    let Some(stored) = package.stored(StoredKind::Icon) else { return Ok(None) };
    let json = content.json(stored)?;
    let fields = Fields::parse(&json).map_err(|_| IndexError::Data)?;
    let text = |name| fields.text(name).map(Cow::into_owned).map_err(|_| IndexError::Data);
    Ok(Some(Icon { base64data: text("base64data")?, mediatype: text("mediatype")? }))
}

/// Name and range of versions of a property `olm.package.required`.
pub(crate) fn required_package(value: &str) -> Result<(String, String), IndexError> {
    let fields = Fields::parse(value).map_err(|_| IndexError::Tables)?;
    let text = |name| fields.text(name).map(Cow::into_owned).map_err(|_| IndexError::Tables);
    Ok((text("packageName")?, text("versionRange")?))
}
