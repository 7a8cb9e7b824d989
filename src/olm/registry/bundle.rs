//! What is told of a bundle in a channel.

use super::csv::{self, Beside};
use super::messages::{Bundle, Dependency, Deprecation, GroupVersionKind, Property};
use crate::olm::catalog::index::{self, Api, Entry, IndexError};
use crate::olm::catalog::objects;
use crate::olm::catalog::served::Content;
use crate::olm::names::property::{GVK, GVK_REQUIRED, PACKAGE, PACKAGE_REQUIRED};
use serde::Serialize;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One of many: manifests only if nothing else has them, and what it replaces and skips.
    Listed,
    /// Manifests, but not what it replaces and skips.
    Single,
}

/// Times that manifests and metadata are in memory at most while they are decoded, put together and encoded.
const COPIES: usize = 4;

/// Bytes of memory that telling it takes besides what is in the index, about.
pub(super) fn weight(entry: Entry<'_>, form: Form) -> usize {
    let bundle = entry.bundle().filter(|bundle| has_manifests(*bundle, form));
    bundle.map_or(0, objects::length).saturating_mul(COPIES)
}

/// Whether manifests are told.
fn has_manifests(bundle: index::Bundle<'_>, form: Form) -> bool {
    form == Form::Single || bundle.image().is_none()
}

pub(super) fn of(content: &Content, entry: Entry<'_>, form: Form) -> Result<Bundle, IndexError> {
    let bundle = entry.bundle().ok_or(IndexError::Tables)?;
    let channel = entry.channel().ok_or(IndexError::Tables)?;
    let package = channel.package().ok_or(IndexError::Tables)?;
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let mut told = Bundle {
        csv_name: bundle.name().to_owned(),
        package_name: package.name().to_owned(),
        channel_name: channel.name().to_owned(),
        bundle_path: text(bundle.image()),
        provided_apis: bundle.provided().map(api).collect(),
        required_apis: bundle.required().map(api).collect(),
        version: bundle.version().to_owned(),
        skip_range: text(entry.skip_range()),
        dependencies: dependencies(bundle)?,
        properties: bundle.properties().map(property).collect(),
        deprecation: bundle.deprecation().map(deprecation),
        ..Bundle::default()
    };
    if form == Form::Listed {
        told.replaces = text(entry.replaces());
        told.skips = entry.skips().map(str::to_owned).collect();
    }
    if has_manifests(bundle, form) {
        (told.csv_json, told.object) = manifests(content, bundle, package)?;
    }
    Ok(told)
}

pub(super) fn deprecation(message: &str) -> Deprecation {
    Deprecation { message: message.to_owned() }
}

fn api(api: Api<'_>) -> GroupVersionKind {
    let [group, version, kind] = [api.group, api.version, api.kind].map(str::to_owned);
    GroupVersionKind { group, version, kind, plural: String::new() }
}

fn property(property: index::Property<'_>) -> Property {
    Property { r#type: property.kind().to_owned(), value: property.value().to_owned() }
}

/// What it requires, in the form in which clients knew it before there were properties.
fn dependencies(bundle: index::Bundle<'_>) -> Result<Vec<Dependency>, IndexError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Required {
        package_name: String,
        version: String,
    }
    let mut dependencies = Vec::new();
    for property in bundle.properties() {
        let (kind, value) = match property.kind() {
            GVK_REQUIRED => (GVK, property.value().to_owned()),
            PACKAGE_REQUIRED => {
                let (package_name, version) = objects::required_package(property.value())?;
                let required = serde_json::to_string(&Required { package_name, version });
                (PACKAGE, required.map_err(|_| IndexError::Tables)?)
            }
            _ => continue,
        };
        dependencies.push(Dependency { r#type: kind.to_owned(), value });
    }
    Ok(dependencies)
}

/// The ClusterServiceVersion and all manifests. Where a catalog has no manifests, it is made of what the catalog says for people.
fn manifests(
    content: &Content,
    bundle: index::Bundle<'_>,
    package: index::Package<'_>,
) -> Result<(String, Vec<String>), IndexError> {
    let mut manifests = objects::manifests(content, bundle)?;
    if let Some(csv) = manifests.iter().find(|manifest| csv::is_one(manifest)) {
        return Ok((csv.clone(), manifests));
    }
    let Some(metadata) = objects::metadata(content, bundle)? else { return Ok((String::new(), manifests)) };
    let beside = Beside {
        name: bundle.name(),
        version: bundle.version(),
        description: objects::description(content, package)?,
        icon: objects::icon(content, package)?,
        related_images: objects::related_images(content, bundle)?,
    };
    let csv = csv::object(&metadata, &beside).map_err(|_| IndexError::Data)?;
    if manifests.is_empty() {
        manifests.push(csv.clone());
    }
    Ok((csv, manifests))
}
