//! CatalogSources and OperatorHub.

use super::{Verdict, property};
use crate::fuzz::fixture::Fixture;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::operator_hub::OperatorHub;
use cvo::testing::sources::{First, Made, first, hub};
use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes of a message in a status.
const MAX_MESSAGE: usize = 8 << 10;

/// A name that the API server takes.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        let inner = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// What is decided for an object of any form says what is wrong, makes objects that the API server takes, and once the image is written
/// nothing is written again.
pub(in crate::fuzz) fn source(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Ok(mut object) = serde_json::from_slice::<CatalogSource>(input) else { return Ok(false) };
    if !object.metadata.name.as_deref().is_some_and(is_name) {
        object.metadata.name = Some("widgets".to_owned());
    }
    object.metadata.namespace = Some("shop".to_owned());
    let decided = first(&object, "v1.36.2", fixture.now);
    said(&decided)?;
    decided.pod.iter().try_for_each(created)?;
    if let Some(image) = &decided.image {
        object.spec.image.clone_from(image);
        property(first(&object, "v1.36.2", fixture.now).image.is_none(), "the image is written again")?;
    }
    let (other, unknown) = (first(&object, "v2.0.1-rc.1+k3s1", fixture.now), first(&object, "", fixture.now));
    said(&other)?;
    said(&unknown)?;
    Ok(decided.works)
}

fn said(decided: &First) -> Result<(), String> {
    let (reason, message) = &decided.said;
    property(reason.is_empty() || !message.is_empty(), "a reason without a message")?;
    property(message.len() <= MAX_MESSAGE, &format!("a message of {} bytes", message.len()))
}

fn created(object: &Value) -> Result<(), String> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (name, prefix) = (text("/metadata/name"), text("/metadata/generateName"));
    let is_prefix = || prefix.len() <= 58 && is_name(&format!("{prefix}abcde"));
    property(is_name(name) || name.is_empty() && is_prefix(), &format!("an object is named {name:?} {prefix:?}"))?;
    for (key, value) in object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or("?");
        let valid = value.len() <= 63 && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        property(valid, &format!("the label {key} is {value:?}"))?;
    }
    property(text("/metadata/namespace") == "shop", "an object is of another namespace")
}

/// What a release, OperatorHub and the catalogs that there are ask for is done at once.
pub(in crate::fuzz) fn operator_hub(_: &Fixture, input: &[u8]) -> Verdict {
    let Ok(given) = serde_json::from_slice::<Value>(input) else { return Ok(false) };
    let part = |name: &str| given.get(name).cloned().unwrap_or_default();
    let release: BTreeMap<String, String> = match part("release") {
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned())).collect()
        }
        _ => BTreeMap::new(),
    };
    let Ok(operator_hub) = serde_json::from_value::<OperatorHub>(part("hub")) else { return Ok(false) };
    let live = part("live").as_array().cloned().unwrap_or_default();
    let live = live.into_iter().filter_map(|source| serde_json::from_value::<CatalogSource>(source).ok());
    let named = live.filter_map(|source| Some((source.metadata.name.clone().filter(|name| is_name(name))?, source)));
    // There is one of each name.
    let live: Vec<CatalogSource> = named.collect::<BTreeMap<_, _>>().into_values().collect();
    let Made { sources, hub: made, errors, changes } = hub(&release, &operator_hub, &live, "openshift-marketplace");
    property(errors.iter().all(|error| !error.is_empty()), "an error without a cause")?;
    let again = hub(&release, &made, &sources, "openshift-marketplace");
    property(again.changes == 0, &format!("what was done is done again: {} of {changes} changes", again.changes))?;
    Ok(changes > 0 && errors.is_empty())
}
