//! The default catalogs: the release brings them, OperatorHub says which of them are wanted, and what else there is belongs to
//! administrators.

use crate::error::{CAUSE, shortened};
use crate::object::yaml;
use crate::olm::api::catalog_source::{CatalogSource, CatalogSourceSpec};
use crate::olm::api::keys::annotation::CATALOG_IMAGE_TEMPLATE;
use crate::olm::api::operator_hub::{HubSourceStatus, OperatorHub, OperatorHubStatus};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The ConfigMap of the release with its default catalogs, in the namespace of the global catalogs: each key has CatalogSources as
/// YAML.
pub(crate) const CONFIG_MAP: &str = "default-catalog-sources";
/// On each default catalog: its own name, so that a copy under another name is none.
pub(crate) const DEFAULT_CATALOG: &str = "olm.operatorframework.io/default-catalog";
/// Where default catalogs were made by another program, they have this annotation instead.
const MANAGED_BY: (&str, &str) = ("operatorframework.io/managed-by", "marketplace-operator");

/// Why a default catalog is not made.
pub(crate) const OTHER: &str = "there is another CatalogSource of this name, which is not that of the release: delete it, or give it \
                                another name, or disable the default catalog in OperatorHub cluster";

const SUCCESS: &str = "Success";
const ERROR: &str = "Error";

/// What is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HubFacts<'a> {
    /// The data of the ConfigMap; `None` if there is none.
    pub release: Option<&'a BTreeMap<String, String>>,
    /// `None` where the cluster has no OperatorHub: all default catalogs are wanted.
    pub hub: Option<&'a OperatorHub>,
    /// The CatalogSources of the namespace of the global catalogs.
    pub live: &'a [CatalogSource],
    pub namespace: &'a str,
    /// Why the last write of a catalog has failed, by its name.
    pub failed: &'a BTreeMap<String, String>,
}

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct HubDecision {
    pub create: Vec<CatalogSource>,
    /// In place of those of their name; each has the resourceVersion that it is based on.
    pub repair: Vec<CatalogSource>,
    /// Name and uid.
    pub delete: Vec<(String, String)>,
    /// The status to be written, because it differs.
    pub status: Option<OperatorHubStatus>,
    /// What is wrong with what the release brings, and which writes fail.
    pub errors: Vec<String>,
}

/// The default catalogs of a release, by their names; and what of the ConfigMap cannot be used.
pub(crate) fn defaults(
    data: &BTreeMap<String, String>,
    namespace: &str,
) -> (BTreeMap<String, CatalogSource>, Vec<String>) {
    let (mut found, mut errors) = (BTreeMap::new(), Vec::new());
    for (key, text) in data {
        let place = format!("ConfigMap {namespace}/{CONFIG_MAP}, key {key}");
        let documents = yaml::documents(text.as_bytes()).unwrap_or_else(|error| {
            errors.push(format!("{place}: {error}"));
            Vec::new()
        });
        for document in documents {
            match default(&document.value, namespace) {
                Ok((name, source)) => {
                    if found.insert(name.clone(), source).is_some() {
                        errors.push(format!("{place}: there are two catalogs {name}, and the latter counts"));
                    }
                }
                Err(cause) => errors.push(format!("{place}, line {}: {cause}", document.line)),
            }
        }
    }
    (found, errors)
}

/// A catalog as it is to be in the cluster.
fn default(manifest: &Value, namespace: &str) -> Result<(String, CatalogSource), String> {
    let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if (kind, version) != ("CatalogSource", "operators.coreos.com/v1alpha1") {
        return Err(format!("it is a {version} {kind}, not an operators.coreos.com/v1alpha1 CatalogSource"));
    }
    let read: CatalogSource = serde_json::from_value(manifest.clone()).map_err(|error| error.to_string())?;
    let name = read.metadata.name.clone().filter(|name| !name.is_empty()).ok_or("it has no name")?;
    let mut source = CatalogSource::new(&name, read.spec);
    source.metadata.namespace = Some(namespace.to_owned());
    source.metadata.labels = read.metadata.labels;
    let mut annotations = read.metadata.annotations.unwrap_or_default();
    annotations.insert(DEFAULT_CATALOG.to_owned(), name.clone());
    source.metadata.annotations = Some(annotations);
    Ok((name, source))
}

/// What is to be done so that there are those default catalogs that are wanted. Without the ConfigMap nothing is, because it is
/// not known what the release brings; and nothing is deleted as long as some of it cannot be read.
pub(crate) fn decide(facts: &HubFacts<'_>) -> HubDecision {
    let mut decision = HubDecision::default();
    let Some(release) = facts.release else { return decision };
    let (defaults, errors) = defaults(release, facts.namespace);
    decision.errors = errors;
    let is_whole = decision.errors.is_empty();
    let disabled = |name: &str| is_disabled(facts.hub, name);
    let live: BTreeMap<&str, &CatalogSource> = facts.live.iter().map(|source| (name(source), source)).collect();
    let mut status = Vec::new();
    for (name, wanted) in &defaults {
        let is_disabled = disabled(name);
        let other = decision.bring(wanted, live.get(name.as_str()).copied(), is_disabled);
        let failed = facts.failed.get(name).map(|cause| shortened(cause, CAUSE).into_owned());
        decision.errors.extend(failed.iter().map(|error| format!("catalog {name}: {error}")));
        status.push(said(name, is_disabled, other.or(failed)));
    }
    let left = facts.live.iter().filter(|source| is_whole && is_own(source) && !defaults.contains_key(name(source)));
    decision.delete.extend(left.map(identity));
    let named: BTreeSet<&str> =
        facts.hub.iter().flat_map(|hub| &hub.spec.sources).map(|source| &*source.name).collect();
    for name in named.into_iter().filter(|name| !defaults.contains_key(*name)) {
        let error = "the release has no default catalog of this name: remove it from spec.sources, or correct the name";
        status.push(said(name, disabled(name), Some(error.to_owned())));
    }
    let status = OperatorHubStatus { sources: status };
    let differs = facts
        .hub
        .filter(|hub| hub.status.as_ref() != Some(&status) && (hub.status.is_some() || !status.sources.is_empty()));
    decision.status = differs.map(|_| status);
    decision
}

impl HubDecision {
    /// Makes the live catalog what the release wants. Returns why that must not be done.
    fn bring(&mut self, wanted: &CatalogSource, live: Option<&CatalogSource>, is_disabled: bool) -> Option<String> {
        let Some(live) = live else {
            self.create.extend((!is_disabled).then(|| wanted.clone()));
            return None;
        };
        if live.metadata.deletion_timestamp.is_some() {
            return None;
        }
        match (is_default(live), is_disabled) {
            (true, true) => self.delete.push(identity(live)),
            (true, false) => self.repair.extend(repaired(wanted, live)),
            (false, true) => {}
            (false, false) if has_spec(live, wanted) => self.repair.extend(repaired(wanted, live)),
            (false, false) => {
                return Some(OTHER.to_owned());
            }
        }
        None
    }
}

/// What is named in `sources` comes before `disableAllDefaultSources`; of two entries the latter counts.
pub(crate) fn is_disabled(hub: Option<&OperatorHub>, name: &str) -> bool {
    let Some(hub) = hub else { return false };
    let named = hub.spec.sources.iter().rev().find(|source| source.name == name);
    named.map_or(hub.spec.disable_all_default_sources, |source| source.disabled)
}

fn said(name: &str, disabled: bool, error: Option<String>) -> HubSourceStatus {
    let status = if error.is_some() { ERROR } else { SUCCESS };
    HubSourceStatus { name: name.to_owned(), disabled, status: status.to_owned(), message: error.unwrap_or_default() }
}

fn name(source: &CatalogSource) -> &str {
    source.metadata.name.as_deref().unwrap_or_default()
}

fn identity(source: &CatalogSource) -> (String, String) {
    (name(source).to_owned(), source.metadata.uid.clone().unwrap_or_default())
}

fn annotation<'a>(source: &'a CatalogSource, key: &str) -> Option<&'a str> {
    source.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether a release has brought it.
fn is_own(source: &CatalogSource) -> bool {
    annotation(source, DEFAULT_CATALOG) == Some(name(source)) && source.metadata.deletion_timestamp.is_none()
}

/// Whether one with the name of a default catalog is that.
pub(crate) fn is_default(source: &CatalogSource) -> bool {
    is_own(source) || annotation(source, MANAGED_BY.0) == Some(MANAGED_BY.1)
}

/// The spec that the live object is to have. The image of one with a template follows the version of the cluster.
fn spec_of(wanted: &CatalogSource, live: &CatalogSource) -> CatalogSourceSpec {
    let mut spec = wanted.spec.clone();
    if annotation(wanted, CATALOG_IMAGE_TEMPLATE).is_some() && !live.spec.image.is_empty() {
        spec.image.clone_from(&live.spec.image);
    }
    spec
}

fn has_spec(live: &CatalogSource, wanted: &CatalogSource) -> bool {
    live.spec == spec_of(wanted, live)
}

/// The live object with what the release says of it, if that differs. Labels and annotations of others stay.
fn repaired(wanted: &CatalogSource, live: &CatalogSource) -> Option<CatalogSource> {
    let mut repaired = live.clone();
    repaired.spec = spec_of(wanted, live);
    for (own, theirs) in [
        (&mut repaired.metadata.labels, &wanted.metadata.labels),
        (&mut repaired.metadata.annotations, &wanted.metadata.annotations),
    ] {
        if let Some(theirs) = theirs.as_ref().filter(|theirs| !theirs.is_empty()) {
            own.get_or_insert_default().extend(theirs.clone());
        }
    }
    ((&repaired.metadata, &repaired.spec) != (&live.metadata, &live.spec)).then_some(repaired)
}

#[cfg(test)]
mod tests;
