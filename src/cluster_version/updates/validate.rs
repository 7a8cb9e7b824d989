//! Validates the ClusterVersion spec, and clears the fields that are invalid.

use crate::cluster_version::api::{ClusterVersionSpec, ClusterVersionStatus, Update};
use crate::release::update_graph::uri_problem;
use crate::verify::Digest;
use std::collections::BTreeSet;
use std::fmt;

/// Feature gates that change what the spec may contain. All are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// `ClusterUpdateAcceptRisks`: `desiredUpdate.acceptRisks` may be used.
    pub accept_risks: bool,
    /// `SignatureStores`: `signatureStores` may be used.
    pub signature_stores: bool,
}

impl FeatureGates {
    /// Out of the names of the gates that are enabled.
    pub(crate) fn of(enabled: Option<&BTreeSet<String>>) -> FeatureGates {
        let is_on = |gate: &str| enabled.is_some_and(|enabled| enabled.contains(gate));
        FeatureGates { accept_risks: is_on("ClusterUpdateAcceptRisks"), signature_stores: is_on("SignatureStores") }
    }
}

/// What is wrong with a field, in the words of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Forbidden,
    /// The invalid value.
    Invalid(String),
}

/// An invalid field of the ClusterVersion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct FieldError {
    /// Such as `spec.desiredUpdate.version`; [`clear`] clears the field by it.
    pub path: String,
    pub wrong: Wrong,
    /// The problem, and what to do about it.
    pub detail: String,
}

/// `<path>: <kind>: <quoted value, if any>: <detail>`.
impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FieldError { path, wrong, detail } = self;
        match wrong {
            Wrong::Forbidden => write!(f, "{path}: Forbidden: {detail}"),
            Wrong::Invalid(value) => write!(f, "{path}: Invalid value: {value:?}: {detail}"),
        }
    }
}

fn error(path: &str, wrong: Wrong, detail: impl Into<String>) -> FieldError {
    FieldError { path: path.into(), wrong, detail: detail.into() }
}

/// All errors in the order of the fields; of `desiredUpdate` only the first. `cv_name` is `metadata.name`.
pub(crate) fn validate(
    cv_name: &str,
    gates: FeatureGates,
    spec: &ClusterVersionSpec,
    status: &ClusterVersionStatus,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_label(cv_name) {
        let detail = "a name has 1 to 63 lower-case letters, digits and -, begins with a letter and ends without -";
        errors.push(error("metadata.name", Wrong::Invalid(cv_name.into()), detail));
    }
    if let Some(problem) = uri_problem(&spec.upstream) {
        let detail = format!("must be a URL: {problem}; leave it empty for the default update service");
        errors.push(error("spec.upstream", Wrong::Invalid(spec.upstream.clone()), detail));
    }
    if let Some(problem) = cluster_id_problem(&spec.cluster_id) {
        errors.push(error("spec.clusterID", Wrong::Invalid(spec.cluster_id.clone()), problem));
    }
    if spec.signature_stores.is_some() && !gates.signature_stores {
        let detail = "the feature gate SignatureStores is off, and the stores of the release are asked";
        errors.push(error("spec.signatureStores", Wrong::Forbidden, detail));
    }
    errors.extend(spec.desired_update.as_ref().and_then(|update| desired_update_error(update, gates, status)));
    errors
}

/// A DNS label that begins with a letter (RFC 1035).
fn is_label(name: &str) -> bool {
    let legal = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    legal && name.len() <= 63 && name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.ends_with('-')
}

/// An empty ID is valid: the update service is then not queried.
fn cluster_id_problem(id: &str) -> Option<&'static str> {
    if id.is_empty() {
        return None;
    }
    match uuid::Uuid::parse_str(id) {
        Ok(parsed) if parsed.get_variant() == uuid::Variant::RFC4122 => {
            (parsed.get_version_num() != 4).then_some("must be a UUID of version 4")
        }
        _ => Some("must be a UUID as RFC 4122 defines it"),
    }
}

fn desired_update_error(update: &Update, gates: FeatureGates, status: &ClusterVersionStatus) -> Option<FieldError> {
    const VERSION: &str = "spec.desiredUpdate.version";
    let wrong_version = |detail: String| Some(error(VERSION, Wrong::Invalid(update.version.clone()), detail));

    // First of all: a request for a mere preflight must never be carried out as an update.
    if !update.mode.is_empty() {
        let detail = "only real updates are supported, and nothing was done; remove mode to really update";
        return Some(error("spec.desiredUpdate.mode", Wrong::Invalid(update.mode.clone()), detail));
    }
    if !gates.accept_risks && !update.accept_risks.is_empty() {
        let detail = "the feature gate ClusterUpdateAcceptRisks is off";
        return Some(error("spec.desiredUpdate.acceptRisks", Wrong::Forbidden, detail));
    }
    if update.force
        && let Some(problem) = unforceable(update)
    {
        return Some(error("spec.desiredUpdate.image", Wrong::Invalid(update.image.clone()), problem));
    }
    if update.version.is_empty() {
        return None;
    }
    if let Err(problem) = crate::version::parse(&update.version) {
        return wrong_version(problem.to_string());
    }
    if !update.image.is_empty() {
        return None;
    }
    match candidates(&update.version, status) {
        0 => wrong_version(
            "is neither an available update nor in the history; for any other release give its image as well".into(),
        ),
        1 => None,
        n => wrong_version(format!("{n} available updates have this version; give the image of one of them")),
    }
}

/// Force lets a release run that is not verified, so the request itself must say which bytes that are: a version is looked up in
/// what the update service says, and a tag may mean other bytes each time it is read.
pub(crate) fn unforceable(update: &Update) -> Option<&'static str> {
    if update.image.is_empty() {
        let is_named = !update.version.is_empty() || !update.architecture.is_empty();
        return is_named.then_some("force needs the image by its digest, NAME@sha256:HEX; add it, or remove force");
    }
    Digest::of_pull_spec(&update.image)
        .is_err()
        .then_some("force needs the image by its digest, NAME@sha256:HEX: a tag can mean other bytes each time")
}

/// How many images a version alone could mean. History counts only if no available update has the version.
fn candidates(version: &str, status: &ClusterVersionStatus) -> usize {
    let available = status.available_updates.iter().flatten();
    let matching = available.filter(|r| r.version == version && !r.image.is_empty()).count();
    let known = status.history.iter().any(|entry| entry.version == version && !entry.image.is_empty());
    if matching > 0 { matching } else { usize::from(known) }
}

/// The spec without its invalid fields, which is all that the rest of the controller sees. An error inside `desiredUpdate`
/// clears the whole request.
pub(crate) fn clear(spec: &ClusterVersionSpec, errors: &[FieldError]) -> ClusterVersionSpec {
    let mut spec = spec.clone();
    for FieldError { path, .. } in errors {
        match path.as_str() {
            "spec.upstream" => spec.upstream.clear(),
            "spec.clusterID" => spec.cluster_id.clear(),
            "spec.signatureStores" => spec.signature_stores = None,
            path if path.starts_with("spec.desiredUpdate.") => spec.desired_update = None,
            _ => {}
        }
    }
    spec
}

#[cfg(test)]
mod tests;
