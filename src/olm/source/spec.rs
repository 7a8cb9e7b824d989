//! What the spec of a CatalogSource asks for, and what is wrong with it.

use super::CheckImage;
use crate::error::shortened;
use crate::olm::api::catalog_source::{CatalogSourceSpec, SourceType};
use crate::olm::duration;
use crate::olm::endpoints::PORT;
use jiff::{SignedDuration, Timestamp};

/// How often an image is asked for where the interval cannot be read.
const DEFAULT_INTERVAL: SignedDuration = SignedDuration::from_mins(15);
/// Shorter intervals count as this one.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// Bytes of a value in a message.
const SHOWN: usize = 200;

/// Where the catalog comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Image {
        image: String,
        directory: String,
    },
    Address(String),
    /// A pod serves the catalog of this image.
    Pod {
        image: String,
        /// Only its own server can read it; otherwise somebody wants it so.
        only_serves: bool,
    },
    /// Name of a ConfigMap.
    ConfigMap(String),
}

/// Another CatalogSource of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sibling {
    pub name: String,
    pub created: Option<Timestamp>,
}

/// Where the catalog comes from, if there is anything to it. `image`: that of the spec, or what its template stands for. An image
/// comes before an address.
pub(crate) fn wanted(spec: &CatalogSourceSpec, image: &str, check: CheckImage<'_>) -> Result<Wanted, String> {
    match &spec.source_type {
        of @ (SourceType::ConfigMap | SourceType::Internal) if spec.config_map.is_empty() => {
            Err(format!("configmap name unset: must be set for sourcetype: {}", word(of)))
        }
        SourceType::ConfigMap | SourceType::Internal => Ok(Wanted::ConfigMap(spec.config_map.clone())),
        SourceType::Grpc if !image.is_empty() => match check(image) {
            Ok(()) => Ok(Wanted::Image { image: image.to_owned(), directory: directory(spec).to_owned() }),
            Err(cause) => Err(format!("spec.image {:?} is no image: {cause}", shortened(image, SHOWN))),
        },
        SourceType::Grpc if !spec.address.is_empty() => Ok(Wanted::Address(spec.address.clone())),
        of @ SourceType::Grpc => {
            Err(format!("image and address unset: at least one must be set for sourcetype: {}", word(of)))
        }
        of @ SourceType::Other(_) => Err(format!("unknown sourcetype: {}", shortened(word(of), SHOWN))),
    }
}

fn word(of: &SourceType) -> &str {
    match of {
        SourceType::Grpc => "grpc",
        SourceType::ConfigMap => "configmap",
        SourceType::Internal => "internal",
        SourceType::Other(word) => word,
    }
}

/// The folder of the image with the catalog; empty if the image is to say which.
pub(crate) fn directory(spec: &CatalogSourceSpec) -> &str {
    let extract = spec.grpc_pod_config.as_ref().and_then(|config| config.extract_content.as_ref());
    extract.map_or("", |extract| &extract.catalog_dir)
}

/// How often the registry is to be asked for the image, `None` for never; and what is wrong with the interval.
pub(crate) fn interval(spec: &CatalogSourceSpec) -> (Option<SignedDuration>, Option<String>) {
    let poll = spec.update_strategy.as_ref().and_then(|strategy| strategy.registry_poll.as_ref());
    let Some(text) = poll.map(|poll| &poll.interval).filter(|text| !text.is_empty()) else { return (None, None) };
    let cause = match duration::parse(text) {
        Ok(every) if every.is_positive() => return (Some(every.max(SHORTEST_INTERVAL)), None),
        Ok(_) => "it must be longer than nothing".to_owned(),
        Err(error) => error.to_string(),
    };
    let text = shortened(text, SHOWN);
    let message = format!(
        "spec.updateStrategy.registryPoll.interval {text:?} is no duration such as 30m0s, so 15m counts in its place: {cause}"
    );
    (Some(DEFAULT_INTERVAL), Some(message))
}

/// The address of that Service.
pub(crate) fn service_address(namespace: &str, catalog: &str) -> String {
    format!("{}.{namespace}.svc:{PORT}", service_name(catalog))
}

/// The name of the Service by which others ask for the catalog.
pub(crate) fn service_name(catalog: &str) -> String {
    catalog.replace('.', "-")
}

/// What to say if the Service belongs to an older catalog.
pub(crate) fn collision(name: &str, created: Option<Timestamp>, siblings: &[Sibling]) -> Option<String> {
    let service = service_name(name);
    let same = siblings.iter().filter(|other| other.name != name && service_name(&other.name) == service);
    let older = same.filter(|other| (other.created, &*other.name) < (created, name));
    let other = &older.min_by_key(|other| (other.created, &*other.name))?.name;
    Some(format!(
        "its Service would be {service}, which is that of the older CatalogSource {other}: give it a name of its own"
    ))
}

#[cfg(test)]
mod tests;
