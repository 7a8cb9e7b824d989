//! What is wrong with a bundle, found without a cluster and before it goes into a catalog.

pub(crate) mod advice;
mod apis;
mod csv;
mod labels;

use super::finding::{Check, Finding};
use super::{BundleError, Contents, MEDIA_TYPE, Object, definition};
use std::collections::BTreeMap;

/// What the API server's store takes of one object, in bytes of JSON.
const MAX_OBJECT: usize = 1_500_000;
/// Larger ones leave little room for what a cluster adds to them.
const LARGE_OBJECT: usize = 1 << 20;

/// Kinds that are installed with an operator.
const KINDS: [&str; 21] = [
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Secret",
    "ServiceAccount",
    "Service",
    "ConfigMap",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "PrometheusRule",
    "ServiceMonitor",
    "PodDisruptionBudget",
    "PriorityClass",
    "VerticalPodAutoscaler",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "NetworkPolicy",
];

/// All findings, errors first, then by file and place.
pub(crate) fn validate(contents: &Contents) -> Vec<Finding> {
    let mut findings = labels::check(contents);
    findings.extend(objects(&contents.objects));
    findings.extend(dropped_versions(&contents.objects));
    // The labels have told of it.
    let mut contents = contents.clone();
    contents.annotations.set("mediatype.v1", MEDIA_TYPE);
    let read = contents.findings.clone();
    match contents.bundle() {
        Ok(bundle) => {
            findings.extend(csv::check(&bundle));
            findings.extend(apis::check(&bundle));
            findings.extend(advice::check(&bundle));
            findings.extend(bundle.notes);
        }
        Err(error) => {
            let at = match &error {
                BundleError::Csv { file, line, .. } => (file.clone(), *line),
                _ => (String::new(), 0),
            };
            findings.push(Finding::error(Check::Csv, (&at.0, at.1), "", error.to_string()));
            findings.extend(read);
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

fn at(object: &Object) -> (&str, usize) {
    (&object.file, object.line)
}

fn objects(objects: &[Object]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: BTreeMap<_, &Object> = BTreeMap::new();
    for object in objects {
        let place = object.id.to_string();
        let id = &object.id;
        if id.name.is_empty() {
            let message = format!("the {} has no name: set metadata.name", id.kind);
            findings.push(Finding::error(Check::Name, at(object), &place, message));
        } else if let Some(other) = first.get(id) {
            let message = format!("it is also in {}: keep one of them", other.file);
            findings.push(Finding::error(Check::Duplicate, at(object), &place, message));
        } else {
            first.insert(id, object);
        }
        if !KINDS.contains(&id.kind.as_str()) {
            let message =
                "objects of this kind are not installed with an operator, and a plan with one fails: let the \
                           operator create it"
                    .to_owned();
            findings.push(Finding::error(Check::UnsupportedKind, at(object), &place, message));
        }
        findings.extend(size(object, &place));
    }
    findings
}

fn size(object: &Object, place: &str) -> Option<Finding> {
    let bytes = object.raw.bytes().len();
    let told = format!("it has {bytes} bytes as JSON");
    if bytes > MAX_OBJECT {
        let message =
            format!("{told}, and the API server stores {MAX_OBJECT}: shorten descriptions, examples and icons");
        Some(Finding::error(Check::Size, at(object), place, message))
    } else if bytes > LARGE_OBJECT {
        let message =
            format!("{told}, and the API server stores {MAX_OBJECT} with all that a cluster adds: shorten it");
        Some(Finding::warning(Check::Size, at(object), place, message))
    } else {
        None
    }
}

/// Definitions in a version that no supported API server has.
fn dropped_versions(objects: &[Object]) -> Vec<Finding> {
    let dropped = objects.iter().filter(|it| it.is(definition::KIND) && it.api_version != definition::API_VERSION);
    let found = dropped.map(|object| {
        let message = format!("{} is not served: write it as {}", object.api_version, definition::API_VERSION);
        Finding::error(Check::Version, at(object), &object.id.to_string(), message)
    });
    found.collect()
}

#[cfg(test)]
mod tests;
