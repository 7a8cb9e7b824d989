//! Bundles, their properties, and catalogs in ConfigMaps.

use super::{Verdict, property};
use crate::fuzz::catalogs::read;
use crate::fuzz::fixture::{Fixture, parts};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cvo::testing::bundles::{self, Bundle, Found, Read};
use cvo::testing::catalog::StoredKind;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const IMAGE: &str = "r.example/a@sha256:0123456789012345678901234567890123456789012345678901234567890123";
/// Types whose values are beside the index.
const STORED: [&str; 2] = ["olm.csv.metadata", "olm.bundle.object"];

type Files = Vec<(String, Vec<u8>)>;

/// A folder of files.
pub(in crate::fuzz) fn bundle(_: &Fixture, input: &[u8]) -> Verdict {
    judged(&parts(input))
}

/// A bundle without errors goes into a catalog, and is there what it is in its folder. The order of files does not matter.
fn judged(files: &Files) -> Verdict {
    let Ok(read) = bundles::read_bundle(files, IMAGE) else { return Ok(false) };
    read.found.iter().try_for_each(located)?;
    let plain = |path: &str| path.split('/').all(|part| !["", "."].contains(&part));
    let unique: BTreeSet<&str> = files.iter().map(|(path, _)| path.as_str()).filter(|path| plain(path)).collect();
    if unique.len() == files.len() {
        let reversed: Files = files.iter().rev().cloned().collect();
        property(
            bundles::read_bundle(&reversed, IMAGE).as_ref() == Ok(&read),
            "the order of files changes the bundle",
        )?;
    }
    let bundle = match &read.bundle {
        Ok(bundle) => bundle,
        Err(error) => {
            property(read.found.iter().any(|found| found.is_error), "what is no bundle has no error")?;
            property(!error.is_empty(), "an error without a cause")?;
            return Ok(false);
        }
    };
    // An image may say of which package it is.
    if !bundle.package.is_empty() && read.found.iter().all(|found| !found.is_error) {
        kept(bundle)?;
    }
    Ok(true)
}

/// Each finding says where and what.
fn located(found: &Found) -> Result<(), String> {
    let place = !found.place.is_empty() || found.message.contains(['/', '.']);
    property(place && !found.message.is_empty(), &format!("a finding without a place: {found:?}"))
}

fn kept(bundle: &Bundle) -> Result<(), String> {
    for blob in [&bundle.described, &bundle.whole] {
        let blob = blob.as_ref().map_err(|e| format!("a bundle without errors cannot be written: {e}"))?;
        let catalog = read(of_one(bundle, blob).as_bytes())?;
        property(catalog.fault_count == 0, &format!("a bundle without errors is not served: {:?}", catalog.faults))?;
        let served = catalog.index.package(&bundle.package).and_then(|package| package.bundle(&bundle.name));
        let served = served.ok_or("a bundle is not served")?;
        let told: BTreeSet<_> = served.properties().map(|it| (it.kind().to_owned(), it.value().to_owned())).collect();
        property(told == bundle.properties.iter().cloned().collect(), "the catalog has other properties")?;
    }
    let blob: Value = serde_json::from_str(bundle.whole.as_deref().unwrap_or_default()).map_err(|e| e.to_string())?;
    let Read { found, bundle: again } = bundles::read_bundle(&files_of(&blob)?, IMAGE)?;
    let again = again.map_err(|e| format!("what was written of a bundle is none: {e}"))?;
    property(again == *bundle, &format!("what was written of a bundle is another one, with {found:?}"))
}

/// A catalog with one bundle.
fn of_one(bundle: &Bundle, blob: &str) -> String {
    let package = json!({"schema": "olm.package", "name": bundle.package, "defaultChannel": "c"});
    let entries = json!([{"name": bundle.name}]);
    let channel = json!({"schema": "olm.channel", "package": bundle.package, "name": "c", "entries": entries});
    format!("{package}\n{channel}\n{blob}\n")
}

/// The folder of a bundle whose manifests are in its blob.
fn files_of(blob: &Value) -> Result<Files, String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut files, mut properties) = (Files::new(), Vec::new());
    for property in blob.get("properties").and_then(Value::as_array).into_iter().flatten() {
        if text(property, "type") == STORED[1] {
            let data = property.get("value").map(|value| text(value, "data")).unwrap_or_default();
            let manifest = STANDARD.decode(data).map_err(|e| e.to_string())?;
            files.push((format!("manifests/{:05}.json", files.len()), manifest));
        } else {
            properties.push(property);
        }
    }
    let package = text(blob, "package");
    let annotations = ["package.v1", "channels.v1"].map(|key| format!("operators.operatorframework.io.bundle.{key}"));
    let annotations: BTreeMap<String, String> = annotations.into_iter().zip([package, "c".to_owned()]).collect();
    files.push(("metadata/annotations.yaml".into(), json!({"annotations": annotations}).to_string().into_bytes()));
    files.push(("metadata/properties.yaml".into(), json!({"properties": properties}).to_string().into_bytes()));
    Ok(files)
}

/// Properties as an author writes them beside manifests and into a catalog: what is accepted there is kept as it is.
pub(in crate::fuzz) fn properties(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Ok(given) = serde_json::from_slice::<Value>(input) else {
        let mut files = fixture.operators.widgets.clone();
        for (path, bytes) in files.iter_mut().filter(|(path, _)| path.starts_with("metadata/")) {
            if !path.ends_with("annotations.yaml") {
                *bytes = input.to_vec();
            }
        }
        return judged(&files);
    };
    let part = |name: &str| json!({name: given.get(name)}).to_string().into_bytes();
    let mut files = fixture.operators.widgets.clone();
    files.retain(|(path, _)| !path.ends_with("dependencies.yaml") && !path.ends_with("properties.yaml"));
    files.push(("metadata/dependencies.yaml".to_owned(), part("dependencies")));
    files.push(("metadata/properties.yaml".to_owned(), part("properties")));
    judged(&files)?;
    let listed: Vec<Value> = given.get("properties").and_then(Value::as_array).cloned().unwrap_or_default();
    // Bundles are read whatever their properties are; catalogs refuse those that cannot be used.
    in_a_catalog(listed)
}

/// A member of a property by its name in any case, as catalogs are read; of several the last one.
fn member<'a>(property: &'a Value, name: &str) -> Option<&'a Value> {
    let members = property.as_object()?.iter();
    members.rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn in_a_catalog(mut listed: Vec<Value>) -> Verdict {
    listed.retain(|property| member(property, "type").is_none_or(|kind| kind != "olm.package"));
    listed.push(json!({"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}));
    let blobs = [
        json!({"schema": "olm.package", "name": "a", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "a", "name": "c", "entries": [{"name": "a.v1"}]}),
        json!({"schema": "olm.bundle", "package": "a", "name": "a.v1", "image": "r/a", "properties": listed}),
    ];
    let catalog = read(blobs.map(|blob| blob.to_string()).join("\n").as_bytes())?;
    let Some(bundle) = catalog.index.bundles().next() else {
        property(catalog.faults.iter().all(|it| it.line > 0 && !it.file.is_empty()), "a fault without a place")?;
        return property(catalog.fault_count > 0, "a bundle is left out without a fault").map(|()| false);
    };
    let mut told = Vec::new();
    for property in bundle.properties() {
        let _json: Value = serde_json::from_str(property.value()).map_err(|e| format!("a property is no JSON: {e}"))?;
        // Numbers that are read again may be other ones.
        told.push((property.kind().to_owned(), property.value().to_owned()));
    }
    for given in &listed {
        let kind = member(given, "type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let value = member(given, "value").unwrap_or(&Value::Null).to_string();
        let is_kept = STORED.contains(&kind.as_str()) || told.contains(&(kind, value));
        property(is_kept, &format!("the property {given} is lost"))?;
    }
    let stored = bundle.stored(StoredKind::Metadata).count() + bundle.stored(StoredKind::Object).count();
    property(stored + told.len() <= listed.len(), "there are more properties than were written")?;
    Ok(true)
}

/// The data of a ConfigMap, each key as a part. What is left out of it has a place, and the rest is no larger than what it is made of
/// allows.
pub(in crate::fuzz) fn config_map(_: &Fixture, input: &[u8]) -> Verdict {
    let text = |(key, bytes): (String, Vec<u8>)| (key, String::from_utf8_lossy(&bytes).into_owned());
    let data: BTreeMap<String, String> = parts(input).into_iter().map(text).collect();
    let (blobs, found) = match bundles::read_config_map(&data) {
        Ok(read) => read,
        Err(error) => {
            let place = ["key ", "ClusterServiceVersion", "bundle"].iter().any(|place| error.contains(place));
            return property(place, &format!("an error without a place: {error}")).map(|()| false);
        }
    };
    found.iter().try_for_each(located)?;
    property(blobs.len() <= 64 << 20, "the blobs are larger than a catalog may be in memory")?;
    let again = bundles::read_config_map(&data).map(|(blobs, _)| blobs);
    property(again.as_ref() == Ok(&blobs), "the same ConfigMap is read differently")?;
    let catalog = read(blobs.as_bytes())?;
    let placed = |fault: &cvo::testing::catalog::Fault| fault.line > 0 && !fault.blob.is_empty();
    property(catalog.faults.iter().all(placed), &format!("a fault without a place: {:?}", catalog.faults))?;
    Ok(catalog.index.counts().bundles > 0)
}
