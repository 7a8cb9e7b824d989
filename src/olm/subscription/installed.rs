//! What is installed in a namespace, as a resolver knows it.

use crate::olm::api::cluster_service_version::{ApiServiceDescription, ClusterServiceVersion, CrdDescription, Phase};
use crate::olm::api::keys::annotation;
use crate::olm::names::property::{GVK, GVK_REQUIRED, PACKAGE};
use crate::olm::resolve::operator::Operator;
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::steps::properties;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What counts of a ClusterServiceVersion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Csv {
    pub name: String,
    pub version: String,
    /// The annotation with the properties of its bundle.
    pub properties: Option<String>,
    /// Group, version and kind of what it provides, and of what it requires.
    pub owned: Vec<[String; 3]>,
    pub required: Vec<[String; 3]>,
    pub phase: Phase,
    pub replaces: String,
    pub is_copy: bool,
    pub is_deleted: bool,
}

/// Why it is not known what is installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InstalledError {
    #[error(
        "clusterserviceversion {namespace}/{name}: its annotation {} cannot be read: {cause}; correct it, or remove it so that \
         its APIs are taken from its spec",
        annotation::PROPERTIES
    )]
    Annotation { namespace: String, name: String, cause: String },
    #[error(
        "clusterserviceversion {namespace}/{name}: {cause}; correct its annotation {}, or remove it",
        annotation::PROPERTIES
    )]
    Property { namespace: String, name: String, cause: String },
    #[error("csv {namespace}/{name} in phase {phase} instead of Replacing")]
    Phase { namespace: String, name: String, phase: String },
}

impl Csv {
    pub(crate) fn of(csv: &ClusterServiceVersion) -> Csv {
        let metadata = &csv.metadata;
        let annotations = metadata.annotations.as_ref();
        let definitions = &csv.spec.custom_resource_definitions;
        let services = &csv.spec.api_service_definitions;
        let of_definition = |it: &CrdDescription| [it.group(), &it.version, &it.kind].map(ToOwned::to_owned);
        let of_service = |it: &ApiServiceDescription| [&it.group, &it.version, &it.kind].map(ToOwned::to_owned);
        let all = |definitions: &[CrdDescription], services: &[ApiServiceDescription]| {
            definitions.iter().map(of_definition).chain(services.iter().map(of_service)).collect()
        };
        Csv {
            name: metadata.name.clone().unwrap_or_default(),
            version: csv.spec.version.clone(),
            properties: annotations.and_then(|all| all.get(annotation::PROPERTIES)).cloned(),
            owned: all(&definitions.owned, &services.owned),
            required: all(&definitions.required, &services.required),
            phase: csv.status.as_ref().map(|status| status.phase.clone()).unwrap_or_default(),
            replaces: csv.spec.replaces.clone(),
            is_copy: csv.is_copy(),
            is_deleted: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Whether it can be replaced, or cannot become ready any more.
    fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed | Phase::Replacing)
    }
}

/// The ClusterServiceVersions that count: no copies, nothing that is going, and nothing whose place another one is taking.
/// `fail_forward`: one that has failed may be replaced, and then counts alone.
pub(crate) fn counting<'a>(
    namespace: &str,
    csvs: &'a [Arc<Csv>],
    fail_forward: bool,
) -> Result<Vec<&'a Arc<Csv>>, InstalledError> {
    let all: Vec<&Arc<Csv>> = csvs.iter().filter(|csv| !csv.is_copy && !csv.is_deleted).collect();
    let successor: BTreeMap<&str, &Arc<Csv>> =
        all.iter().filter(|csv| csv.replaces != csv.name).map(|csv| (csv.replaces.as_str(), *csv)).collect();
    let mut counting = Vec::new();
    for csv in &all {
        let last = last(csv, &successor);
        let has_failed = last.phase == Phase::Failed;
        if csv.name == last.name || has_failed && !fail_forward {
            counting.extend((csv.phase != Phase::Deleting).then_some(*csv));
        } else if has_failed && csv.phase != Phase::Replacing {
            let phase = phase(&csv.phase);
            return Err(InstalledError::Phase { namespace: namespace.to_owned(), name: csv.name.clone(), phase });
        }
    }
    Ok(counting)
}

/// The last one of those that replace it; itself in a circle.
fn last<'a>(csv: &'a Arc<Csv>, successor: &BTreeMap<&str, &'a Arc<Csv>>) -> &'a Arc<Csv> {
    let (mut at, mut visited) = (csv, BTreeSet::new());
    while let Some(next) = successor.get(at.name.as_str()) {
        if !visited.insert(&at.name) {
            return csv;
        }
        at = next;
    }
    at
}

fn phase(phase: &Phase) -> String {
    let text = serde_json::to_value(phase).ok();
    text.and_then(|text| text.as_str().map(ToOwned::to_owned)).unwrap_or_default()
}

/// The operator of a ClusterServiceVersion: by the annotation, else by its APIs and by the package of the only Subscription that has
/// it installed. `installed`: package and name of the ClusterServiceVersion of each Subscription.
pub(crate) fn operator(
    namespace: &str,
    csv: &Csv,
    installed: &[(&str, &str)],
    cluster: &ClusterVersions,
) -> Result<Operator, InstalledError> {
    let (namespace, name) = (namespace.to_owned(), csv.name.clone());
    let properties = match &csv.properties {
        Some(text) => properties(text).map_err(|error| InstalledError::Annotation {
            namespace: namespace.clone(),
            name: name.clone(),
            cause: error.to_string(),
        })?,
        None => derived(csv, installed),
    };
    let mut operator = Operator::new(&csv.name, properties, cluster);
    if let (None, Some(package)) = (&csv.properties, subscribed(csv, installed)) {
        package.clone_into(&mut operator.package);
    }
    match &operator.unreadable {
        Some(cause) => Err(InstalledError::Property { namespace, name, cause: cause.clone() }),
        None => Ok(operator),
    }
}

/// The package of the Subscription that has it installed, if there is one and no other.
fn subscribed<'a>(csv: &Csv, installed: &[(&'a str, &str)]) -> Option<&'a str> {
    let packages: BTreeSet<&str> =
        installed.iter().filter(|(_, name)| *name == csv.name).map(|(package, _)| *package).collect();
    packages.first().filter(|package| packages.len() == 1 && !package.is_empty()).copied()
}

fn derived(csv: &Csv, installed: &[(&str, &str)]) -> Vec<(String, Value)> {
    let api = |kind: &str, [group, version, of]: &[String; 3]| {
        (kind.to_owned(), json!({"group": group, "version": version, "kind": of}))
    };
    let provides = csv.owned.iter().map(|it| api(GVK, it));
    let requires = csv.required.iter().map(|it| api(GVK_REQUIRED, it));
    // Without a version it is no property, but the package all the same.
    let package = subscribed(csv, installed).filter(|_| !csv.version.is_empty());
    let package = package.map(|name| (PACKAGE.to_owned(), json!({"packageName": name, "version": csv.version})));
    provides.chain(requires).chain(package).collect()
}

/// Whether what is installed for a Subscription is on its way, so that nothing may follow it yet.
pub(crate) fn waits(installed: Option<&Csv>) -> bool {
    installed.is_some_and(|csv| !csv.is_settled())
}

#[cfg(test)]
mod tests;
