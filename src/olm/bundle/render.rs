//! Writes a bundle as the blob of a file-based catalog. One bundle gives the same bytes each time.

use super::csv::RelatedImage;
use super::properties::Property;
use super::{Bundle, BundleError};
use crate::olm::names::property::{METADATA, OBJECT};
use crate::olm::names::schema::BUNDLE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::{BTreeMap, BTreeSet};

/// What a catalog keeps of the manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// What describes the operator, as `olm.csv.metadata`. Whoever installs it pulls the image.
    Metadata,
    /// All manifests, each as an `olm.bundle.object`, so that no image is needed.
    Objects,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    schema: &'static str,
    name: &'a str,
    package: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    image: &'a str,
    properties: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_images: Vec<RelatedImage>,
}

/// A property with its value as JSON.
#[derive(Serialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    value: Box<RawValue>,
}

/// What a catalog shows of a ClusterServiceVersion: neither how it is installed nor its icon, version and images, which stand
/// elsewhere in a catalog. Members that are absent are left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_service_definitions: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crd_descriptions: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    install_modes: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keywords: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maintainers: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maturity: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_kube_version: Option<&'a RawValue>,
    #[serde(rename = "nativeAPIs", skip_serializing_if = "Option::is_none")]
    native_apis: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: BTreeMap<String, &'a RawValue>,
    #[serde(borrow)]
    spec: BTreeMap<String, &'a RawValue>,
}

/// The blob of a bundle as one line of JSON. `image`: where the bundle is pulled from; empty only if all manifests are in the
/// blob. Refuses a bundle without a package, and one whose dependencies or properties cannot be used.
pub(crate) fn blob(bundle: &Bundle, image: &str, form: Form) -> Result<String, BundleError> {
    bundle.check_declared()?;
    let package = bundle.annotations.package();
    if package.is_empty() {
        return Err(BundleError::NoPackage);
    }
    let line = |it: Property| Ok(Line { value: to_raw_value(&it.value)?, kind: it.kind });
    let written = || -> serde_json::Result<String> {
        let mut properties = bundle.all_properties().into_iter().map(line).collect::<serde_json::Result<Vec<_>>>()?;
        match form {
            Form::Metadata => {
                let raw = bundle.csv_object().raw.bytes();
                properties.push(Line { kind: METADATA.to_owned(), value: metadata(&raw)? });
            }
            Form::Objects => {
                for object in &bundle.objects {
                    let value = to_raw_value(&Data { data: STANDARD.encode(object.raw.bytes()) })?;
                    properties.push(Line { kind: OBJECT.to_owned(), value });
                }
            }
        }
        let name = &bundle.csv.metadata.name;
        let related_images = related_images(bundle, image);
        serde_json::to_string(&Blob { schema: BUNDLE, name, package, image, properties, related_images })
    };
    written().map_err(|error| {
        let object = bundle.csv_object();
        BundleError::Csv { file: object.file.to_string(), line: object.line, cause: error.to_string() }
    })
}

#[derive(Serialize)]
struct Data {
    data: String,
}

fn metadata(csv: &[u8]) -> serde_json::Result<Box<RawValue>> {
    let Parts { metadata, spec } = serde_json::from_slice(csv)?;
    fn given<'a>(map: &BTreeMap<String, &'a RawValue>, key: &str) -> Option<&'a RawValue> {
        map.get(key).copied().filter(|value| value.get() != "null")
    }
    let of = |key: &str| given(&spec, key);
    to_raw_value(&Shown {
        annotations: given(&metadata, "annotations"),
        api_service_definitions: of("apiservicedefinitions"),
        crd_descriptions: of("customresourcedefinitions"),
        description: of("description"),
        display_name: of("displayName"),
        install_modes: of("installModes"),
        keywords: of("keywords"),
        labels: given(&metadata, "labels"),
        links: of("links"),
        maintainers: of("maintainers"),
        maturity: of("maturity"),
        min_kube_version: of("minKubeVersion"),
        native_apis: of("nativeAPIs"),
        provider: of("provider"),
    })
}

/// Every image that the operator is known to need, sorted: those that the ClusterServiceVersion names, those of
/// its containers, and the bundle itself. A mirror copies them all.
pub(crate) fn related_images(bundle: &Bundle, image: &str) -> Vec<RelatedImage> {
    let named = bundle.csv.spec.related_images.iter().filter(|related| !related.image.is_empty()).cloned();
    let mut all: BTreeSet<RelatedImage> = named.collect();
    let others = bundle.csv.spec.install.images().into_iter().chain((!image.is_empty()).then_some(image));
    for other in others {
        if all.iter().all(|known| known.image != other) {
            all.insert(RelatedImage { image: other.to_owned(), name: String::new() });
        }
    }
    all.into_iter().collect()
}
