//! Validates the ClusterVersion spec, and clears the fields that are invalid.

use crate::api::cluster_version::{ClusterVersionSpec, ClusterVersionStatus, Update};
use crate::updates::graph::uri_problem;
use std::fmt;

/// Feature gates that change what the spec may contain. All are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// `ClusterUpdateAcceptRisks`: `desiredUpdate.acceptRisks` may be used.
    pub accept_risks: bool,
}

/// What is wrong with a field, in the words of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Required,
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
            Wrong::Required => write!(f, "{path}: Required value: {detail}"),
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
    const PATH: &str = "spec.desiredUpdate";
    const VERSION: &str = "spec.desiredUpdate.version";
    let names_nothing = [&update.architecture, &update.version, &update.image].iter().all(|text| text.is_empty());
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
    if names_nothing && update.accept_risks.is_empty() {
        let risks = if gates.accept_risks { ", or the risks to accept" } else { "" };
        let detail = format!("give a version, an image or an architecture{risks}, or remove desiredUpdate");
        return Some(error(PATH, Wrong::Required, detail));
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
            path if path.starts_with("spec.desiredUpdate.") => spec.desired_update = None,
            _ => {}
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cluster_version::{AcceptRisk, HistoryEntry, HistoryState, Release};
    use crate::status::tests::{at, release};

    const ID: &str = "01234567-89ab-4cde-8f01-23456789abcd";

    fn status() -> ClusterVersionStatus {
        let entry = |version: &str, image: &str| HistoryEntry {
            state: HistoryState::Completed,
            started_time: at(0),
            completion_time: None,
            version: version.into(),
            image: image.into(),
            verified: false,
            accepted_risks: String::new(),
        };
        let offered = ["a", "b"].map(|image| release("3.0.0", image));
        ClusterVersionStatus {
            available_updates: Some(
                [&offered[..], &[release("2.0.0", "c"), Release { version: "2.5.0".into(), ..Release::default() }]]
                    .concat(),
            ),
            history: vec![entry("1.0.0", "d"), entry("1.0.0", "e"), entry("0.9.0", "")],
            ..ClusterVersionStatus::default()
        }
    }

    fn errors_of(update: Update, gates: FeatureGates) -> Vec<String> {
        let spec = ClusterVersionSpec { desired_update: Some(update), cluster_id: ID.into(), ..Default::default() };
        validate("version", gates, &spec, &status()).iter().map(|e| e.to_string()).collect()
    }

    fn version(text: &str) -> Update {
        Update { version: text.into(), ..Update::default() }
    }

    #[test]
    fn desired_update_is_refused_for_its_first_error() {
        let risks = vec![AcceptRisk { name: "R".into() }];
        let on = FeatureGates { accept_risks: true };
        let off = FeatureGates::default();
        let gate_off = ".acceptRisks: Forbidden: the feature gate";
        let nothing = ": Required value: give a version";
        // case, update, gates, beginning of the error behind spec.desiredUpdate ("" for none)
        let table = [
            ("risks while the gate is off", Update { accept_risks: risks.clone(), ..version("2.0.0") }, off, gate_off),
            ("the gate comes first", Update { accept_risks: risks.clone(), ..Update::default() }, off, gate_off),
            ("nothing is named", Update::default(), off, nothing),
            ("force alone", Update { force: true, ..Update::default() }, off, nothing),
            ("nothing is named, gate on", Update::default(), on, nothing),
            ("risks alone, gate on", Update { accept_risks: risks.clone(), ..Update::default() }, on, ""),
            ("version and risks, gate on", Update { accept_risks: risks, ..version("2.0.0") }, on, ""),
            ("not a version", version("v2.0.0"), off, ".version: Invalid value: \"v2.0.0\": "),
            (
                "not a version, with an image",
                Update { image: "x".into(), ..version("2.0") },
                off,
                ".version: Invalid value: \"2.0\": ",
            ),
            ("unknown version", version("7.0.0"), off, ".version: Invalid value: \"7.0.0\": is neither"),
            ("available without an image", version("2.5.0"), off, ".version: Invalid value: \"2.5.0\": is neither"),
            (
                "in the history without an image",
                version("0.9.0"),
                off,
                ".version: Invalid value: \"0.9.0\": is neither",
            ),
            ("two images", version("3.0.0"), off, ".version: Invalid value: \"3.0.0\": 2 available updates"),
            ("available", version("2.0.0"), off, ""),
            ("history, even twice", version("1.0.0"), off, ""),
            ("image decides", Update { image: "x".into(), ..version("7.0.0") }, off, ""),
            ("image alone", Update { image: "x".into(), ..Update::default() }, off, ""),
            ("architecture", Update { architecture: "Multi".into(), ..version("1.0.0") }, off, ""),
            (
                "preflight",
                Update { mode: "Preflight".into(), ..version("2.0.0") },
                off,
                ".mode: Invalid value: \"Preflight\": ",
            ),
            ("preflight first", Update { mode: "Preflight".into(), ..Update::default() }, on, ".mode: "),
            ("unknown mode", Update { mode: "Later".into(), image: "x".into(), ..version("2.0.0") }, on, ".mode: "),
        ];
        for (case, update, gates, expected) in table {
            let errors = errors_of(update, gates);
            match expected {
                "" => assert_eq!(errors, Vec::<String>::new(), "{case}"),
                expected => {
                    assert_eq!(errors.len(), 1, "{case}: {errors:?}");
                    let error = errors[0].strip_prefix("spec.desiredUpdate").unwrap();
                    assert!(error.starts_with(expected), "{case}: {error}");
                }
            }
        }
    }

    #[test]
    fn errors_are_in_the_order_of_the_fields() {
        let spec = ClusterVersionSpec { upstream: "#%GG".into(), cluster_id: "x".into(), ..Default::default() };
        let paths: Vec<_> =
            validate("Version", FeatureGates::default(), &spec, &status()).into_iter().map(|e| e.path).collect();
        assert_eq!(paths, ["metadata.name", "spec.upstream", "spec.clusterID"]);
    }

    #[test]
    fn cluster_id_is_a_random_uuid() {
        let table = [
            ("", None),
            (ID, None),
            ("01234567-89ab-1cde-8f01-23456789abcd", Some("version 4")),
            ("01234567-89ab-4cde-cf01-23456789abcd", Some("RFC 4122")),
            ("nonsense", Some("RFC 4122")),
        ];
        for (id, expected) in table {
            let problem = cluster_id_problem(id);
            match expected {
                None => assert_eq!(problem, None, "{id}"),
                Some(part) => assert!(problem.is_some_and(|p| p.contains(part)), "{id}: {problem:?}"),
            }
        }
    }

    #[test]
    fn name_is_a_dns_label() {
        let long = "a".repeat(64);
        let table = [
            ("version", true),
            ("a-1", true),
            ("1a", false),
            ("a-", false),
            ("", false),
            ("A", false),
            ("a.b", false),
            (&long, false),
        ];
        for (name, valid) in table {
            assert_eq!(is_label(name), valid, "{name}");
        }
    }

    #[test]
    fn clear_removes_invalid_fields_only() {
        let spec = ClusterVersionSpec {
            cluster_id: ID.into(),
            upstream: "https://u".into(),
            channel: "stable".into(),
            desired_update: Some(version("1.0.0")),
            ..Default::default()
        };
        let cleared = |path: &str| clear(&spec, &[error(path, Wrong::Required, "")]);
        assert_eq!(cleared("spec.upstream"), ClusterVersionSpec { upstream: String::new(), ..spec.clone() });
        assert_eq!(cleared("spec.clusterID"), ClusterVersionSpec { cluster_id: String::new(), ..spec.clone() });
        for path in ["spec.desiredUpdate.version", "spec.desiredUpdate.mode"] {
            assert_eq!(cleared(path), ClusterVersionSpec { desired_update: None, ..spec.clone() }, "{path}");
        }
        assert_eq!(cleared("spec.desiredUpdate"), spec);
        assert_eq!(cleared("metadata.name"), spec);
    }
}
