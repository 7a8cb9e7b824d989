//! What a server tells of its catalog, as blobs of a file-based catalog: so it becomes an index as any other catalog does, and what is
//! wrong with it is found by the same rules.

use super::csv;
use super::messages::{Bundle, Deprecation, GroupVersionKind, Package, Property};
use crate::olm::names::{property, schema};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// More is told than may be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuch;

/// The blobs of one catalog. Those of bundles are made as the bundles come, so that they need not be in memory; all others at the
/// end.
#[derive(Debug)]
pub(crate) struct Blobs {
    packages: BTreeMap<String, Package>,
    /// Heads of channels, by package and name.
    heads: BTreeSet<(String, String)>,
    seen: BTreeSet<(String, String)>,
    /// By package and name.
    channels: BTreeMap<(String, String), Vec<Entry>>,
    /// Of bundles, by package and name.
    deprecated: BTreeMap<(String, String), String>,
    /// Bundles at heads of channels that came without manifests, by package and name: somebody has to ask for these.
    bare: BTreeMap<(String, String), Bundle>,
    hashes: Vec<[u8; 32]>,
    /// Bytes that are left of those that may be in memory.
    left: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    replaces: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    skip_range: String,
}

#[derive(Serialize)]
struct Typed<'a> {
    r#type: &'a str,
    value: Box<RawValue>,
}

impl Blobs {
    /// `limit`: bytes that may be in memory, about.
    pub(crate) fn new(limit: usize) -> Blobs {
        Blobs {
            packages: BTreeMap::new(),
            heads: BTreeSet::new(),
            seen: BTreeSet::new(),
            channels: BTreeMap::new(),
            deprecated: BTreeMap::new(),
            bare: BTreeMap::new(),
            hashes: Vec::new(),
            left: limit,
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), TooMuch> {
        // What a container of strings needs besides their bytes.
        self.left = self.left.checked_sub(bytes + 64).ok_or(TooMuch)?;
        Ok(())
    }

    /// A package with its channels. Packages come before bundles.
    pub(crate) fn package(&mut self, package: Package) -> Result<(), TooMuch> {
        self.take(prost::Message::encoded_len(&package).saturating_mul(2))?;
        let heads = package.channels.iter().map(|channel| (package.name.clone(), channel.csv_name.clone()));
        self.heads.extend(heads);
        self.packages.insert(package.name.clone(), package);
        Ok(())
    }

    /// A bundle in a channel. Returns its blob, unless there is one already, or it is a head of which more has to be asked for.
    pub(crate) fn listed(&mut self, mut bundle: Bundle) -> Result<Option<String>, TooMuch> {
        let entry = Entry {
            name: bundle.csv_name.clone(),
            replaces: std::mem::take(&mut bundle.replaces),
            skips: std::mem::take(&mut bundle.skips),
            skip_range: std::mem::take(&mut bundle.skip_range),
        };
        let skips: usize = entry.skips.iter().map(|skip| skip.len() + 32).sum();
        self.take(entry.name.len() + entry.replaces.len() + entry.skip_range.len() + skips)?;
        self.channels.entry((bundle.package_name.clone(), bundle.channel_name.clone())).or_default().push(entry);
        let id = (bundle.package_name.clone(), bundle.csv_name.clone());
        if !self.seen.insert(id.clone()) {
            return Ok(None);
        }
        self.take(2 * (id.0.len() + id.1.len()))?;
        if let Some(Deprecation { message }) = bundle.deprecation.take().filter(|it| !it.message.is_empty()) {
            self.take(message.len())?;
            self.deprecated.insert(id.clone(), message);
        }
        if self.heads.contains(&id) && bundle.csv_json.is_empty() && bundle.object.is_empty() {
            self.take(prost::Message::encoded_len(&bundle))?;
            self.bare.insert(id, bundle);
            return Ok(None);
        }
        Ok(Some(self.counted(blob(&bundle))))
    }

    /// Bundles at heads of channels whose manifests are to be asked for. Each becomes a blob by [`Blobs::head`].
    pub(crate) fn take_bare(&mut self) -> Vec<Bundle> {
        std::mem::take(&mut self.bare).into_values().collect()
    }

    /// The blob of a head. `whole`: the answer to who has asked for it, if there is one.
    pub(crate) fn head(&mut self, mut bundle: Bundle, whole: Option<Bundle>) -> String {
        let whole = whole.unwrap_or_default();
        (bundle.csv_json, bundle.object) = (whole.csv_json, whole.object);
        self.counted(blob(&bundle))
    }

    /// The next blob that is not one of a bundle; `None` after the last one.
    pub(crate) fn next(&mut self) -> Option<String> {
        let blob = if let Some((name, package)) = self.packages.pop_first() {
            let deprecations = self.deprecations(&package);
            let blob = json!({"schema": schema::PACKAGE, "name": name, "defaultChannel": package.default_channel_name});
            match deprecations {
                Some(deprecations) => format!("{blob}\n{deprecations}"),
                None => blob.to_string(),
            }
        } else {
            let ((package, name), mut entries) = self.channels.pop_first()?;
            // Servers list what they have in any order.
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            json!({"schema": schema::CHANNEL, "package": package, "name": name, "entries": entries}).to_string()
        };
        Some(self.counted(blob))
    }

    fn deprecations(&mut self, package: &Package) -> Option<String> {
        let entry = |schema: &str, name: &str, message: &str| match name {
            "" => json!({"reference": {"schema": schema}, "message": message}),
            name => json!({"reference": {"schema": schema, "name": name}, "message": message}),
        };
        let said = |deprecation: &Option<Deprecation>| {
            deprecation.as_ref().map(|it| it.message.clone()).filter(|message| !message.is_empty())
        };
        let mut entries: Vec<Value> = Vec::new();
        entries.extend(said(&package.deprecation).map(|message| entry(schema::PACKAGE, "", &message)));
        for channel in &package.channels {
            let message = said(&channel.deprecation);
            entries.extend(message.map(|message| entry(schema::CHANNEL, &channel.name, &message)));
        }
        let later = self.deprecated.split_off(&(package.name.clone(), String::new()));
        for ((of, name), message) in later {
            if of == package.name {
                entries.push(entry(schema::BUNDLE, &name, &message));
            } else {
                self.deprecated.insert((of, name), message);
            }
        }
        let blob = json!({"schema": schema::DEPRECATIONS, "package": package.name, "entries": entries});
        (!entries.is_empty()).then(|| blob.to_string())
    }

    /// `sha256:…` of all blobs, in whichever order they came.
    pub(crate) fn digest(mut self) -> String {
        self.hashes.sort_unstable();
        let mut all = Sha256::new();
        self.hashes.iter().for_each(|hash| all.update(hash));
        format!("sha256:{}", hex::encode(all.finalize()))
    }

    fn counted(&mut self, blob: String) -> String {
        self.hashes.push(Sha256::digest(&blob).into());
        blob
    }
}

/// The blob of a bundle.
fn blob(bundle: &Bundle) -> String {
    let mut properties: Vec<Typed<'_>> = bundle.properties.iter().map(typed).collect();
    let known: BTreeSet<&str> = bundle.properties.iter().map(|property| property.r#type.as_str()).collect();
    let mut add = |kind: &'static str, value: &Value| {
        properties.extend(raw(&value.to_string()).map(|value| Typed { r#type: kind, value }))
    };
    // What servers told before there were properties.
    if !known.contains(property::PACKAGE) {
        add(property::PACKAGE, &json!({"packageName": bundle.package_name, "version": bundle.version}));
    }
    if !known.contains(property::GVK) {
        bundle.provided_apis.iter().for_each(|api| add(property::GVK, &of_api(api)));
    }
    for (kind, value) in required(bundle).iter().filter(|(kind, _)| !known.contains(kind)) {
        add(kind, value);
    }
    for manifest in manifests(bundle) {
        add(property::OBJECT, &json!({"data": STANDARD.encode(manifest)}));
    }
    let mut blob = json!({"schema": schema::BUNDLE, "package": bundle.package_name, "name": bundle.csv_name});
    if let Some(fields) = blob.as_object_mut().filter(|_| !bundle.bundle_path.is_empty()) {
        fields.insert("image".to_owned(), bundle.bundle_path.as_str().into());
    }
    #[derive(Serialize)]
    struct Blob<'a> {
        #[serde(flatten)]
        blob: &'a Value,
        properties: &'a [Typed<'a>],
    }
    // Texts and values that are JSON already.
    serde_json::to_string(&Blob { blob: &blob, properties: &properties }).unwrap_or_default()
}

/// A value that is no JSON is a text.
fn typed(property: &Property) -> Typed<'_> {
    let value = raw(&property.value).or_else(|| raw(&Value::String(property.value.clone()).to_string()));
    Typed { r#type: &property.r#type, value: value.unwrap_or_default() }
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    // On one line, because each blob is one.
    let value: &RawValue = serde_json::from_str(json).ok()?;
    let json = if json.contains('\n') {
        serde_json::from_str::<Value>(value.get()).ok()?.to_string()
    } else {
        json.to_owned()
    };
    RawValue::from_string(json).ok()
}

fn of_api(api: &GroupVersionKind) -> Value {
    json!({"group": api.group, "version": api.version, "kind": api.kind})
}

/// Properties of what it requires, by its APIs and its dependencies, each once.
fn required(bundle: &Bundle) -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&str, Value)> =
        bundle.required_apis.iter().map(|it| (property::GVK_REQUIRED, of_api(it))).collect();
    for found in bundle.dependencies.iter().filter_map(|it| dependency(&it.r#type, &it.value)) {
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

fn dependency(kind: &str, value: &str) -> Option<(&'static str, Value)> {
    let value: Value = serde_json::from_str(value).ok()?;
    Some(match kind {
        property::GVK => {
            let [group, version, kind] = [value.get("group")?, value.get("version")?, value.get("kind")?];
            (property::GVK_REQUIRED, json!({"group": group, "version": version, "kind": kind}))
        }
        property::PACKAGE => {
            let [name, range] = [value.get("packageName")?, value.get("version")?];
            (property::PACKAGE_REQUIRED, json!({"packageName": name, "versionRange": range}))
        }
        property::LABEL => (property::LABEL_REQUIRED, json!({"label": value.get("label")?})),
        property::CONSTRAINT => (property::CONSTRAINT, value),
        _ => return None,
    })
}

/// All manifests, with the ClusterServiceVersion.
fn manifests(bundle: &Bundle) -> impl Iterator<Item = &str> {
    let has_csv = bundle.object.iter().any(|object| csv::is_one(object));
    let csv = Some(bundle.csv_json.as_str()).filter(|csv| !csv.is_empty() && !has_csv);
    csv.into_iter().chain(bundle.object.iter().map(String::as_str)).filter(|manifest| !manifest.is_empty())
}

#[cfg(test)]
mod tests;
