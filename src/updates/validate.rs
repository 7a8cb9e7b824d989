//! Is the spec one that can be acted on, and what is left of it if not (cluster-version §1.4).

use crate::api::cluster_version::{ClusterVersionSpec, ClusterVersionStatus, Update};
use crate::updates::graph::uri_problem;
use std::fmt;

/// Feature gates that change what the spec may hold. By default all are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// `ClusterUpdateAcceptRisks`: `desiredUpdate.acceptRisks` may be used.
    pub accept_risks: bool,
}

/// How a field is wrong, in the words of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    Required,
    Forbidden,
    /// With the value that is there.
    Invalid(String),
}

/// A field of the ClusterVersion that cannot be acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FieldError {
    /// `spec.desiredUpdate.version`: what [`clear`] goes by.
    pub path: String,
    pub wrong: Wrong,
    /// What is the matter and what to do.
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

/// All that is wrong, in the order of §1.4; of `desiredUpdate` only the first thing. `cv_name` is `metadata.name`.
pub fn validate(
    cv_name: &str,
    gates: Gates,
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

/// Empty is no error here: the update service is then not asked.
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

fn desired_update_error(update: &Update, gates: Gates, status: &ClusterVersionStatus) -> Option<FieldError> {
    const PATH: &str = "spec.desiredUpdate";
    const VERSION: &str = "spec.desiredUpdate.version";
    let names_nothing = [&update.architecture, &update.version, &update.image].iter().all(|text| text.is_empty());
    let wrong_version = |detail: String| Some(error(VERSION, Wrong::Invalid(update.version.clone()), detail));

    // Before everything else: a request to merely look must never be carried out (§14 no. 8).
    if !update.mode.is_empty() {
        let detail = "only real updates are supported; nothing was done. Remove mode to update for real";
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

/// Images that a version alone could stand for; history counts only where the updates offer none.
fn candidates(version: &str, status: &ClusterVersionStatus) -> usize {
    let available = status.available_updates.iter().flatten();
    let offered = available.filter(|r| r.version == version && !r.image.is_empty()).count();
    let known = status.history.iter().any(|entry| entry.version == version && !entry.image.is_empty());
    if offered > 0 { offered } else { usize::from(known) }
}

/// The spec without what the errors are about: what the rest of the sync goes by. An error inside `desiredUpdate`
/// drops the whole request.
pub fn clear(spec: &ClusterVersionSpec, errors: &[FieldError]) -> ClusterVersionSpec {
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

    fn errors_of(update: Update, gates: Gates) -> Vec<String> {
        let spec = ClusterVersionSpec { desired_update: Some(update), cluster_id: ID.into(), ..Default::default() };
        validate("version", gates, &spec, &status()).iter().map(|e| e.to_string()).collect()
    }

    fn version(text: &str) -> Update {
        Update { version: text.into(), ..Update::default() }
    }

    #[test]
    fn a_desired_update_is_refused_for_the_first_thing_that_is_wrong() {
        let risks = vec![AcceptRisk { name: "R".into() }];
        let on = Gates { accept_risks: true };
        let off = Gates::default();
        let gate_off = "spec.desiredUpdate.acceptRisks: Forbidden: the feature gate";
        let nothing = "spec.desiredUpdate: Required value: give a version";
        // row of §1.4, update, gates, beginning of the error ("" for none)
        let table = [
            ("a", Update { accept_risks: risks.clone(), ..version("2.0.0") }, off, gate_off),
            ("a first", Update { accept_risks: risks.clone(), ..Update::default() }, off, gate_off),
            ("b", Update::default(), off, nothing),
            ("b", Update { force: true, ..Update::default() }, off, nothing),
            ("c", Update::default(), on, nothing),
            ("c passes", Update { accept_risks: risks.clone(), ..Update::default() }, on, ""),
            ("on", Update { accept_risks: risks, ..version("2.0.0") }, on, ""),
            ("d", version("v2.0.0"), off, "spec.desiredUpdate.version: Invalid value: \"v2.0.0\": "),
            (
                "d with image",
                Update { image: "x".into(), ..version("2.0") },
                off,
                "spec.desiredUpdate.version: Invalid value: \"2.0\": ",
            ),
            ("e", version("7.0.0"), off, "spec.desiredUpdate.version: Invalid value: \"7.0.0\": is neither"),
            (
                "e no image offered",
                version("2.5.0"),
                off,
                "spec.desiredUpdate.version: Invalid value: \"2.5.0\": is neither",
            ),
            (
                "e no image in history",
                version("0.9.0"),
                off,
                "spec.desiredUpdate.version: Invalid value: \"0.9.0\": is neither",
            ),
            ("f", version("3.0.0"), off, "spec.desiredUpdate.version: Invalid value: \"3.0.0\": 2 available updates"),
            ("offered", version("2.0.0"), off, ""),
            ("history, even twice", version("1.0.0"), off, ""),
            ("image decides", Update { image: "x".into(), ..version("7.0.0") }, off, ""),
            ("image alone", Update { image: "x".into(), ..Update::default() }, off, ""),
            ("architecture", Update { architecture: "Multi".into(), ..version("1.0.0") }, off, ""),
            (
                "preflight",
                Update { mode: "Preflight".into(), ..version("2.0.0") },
                off,
                "spec.desiredUpdate.mode: Invalid value: \"Preflight\": ",
            ),
            (
                "preflight first",
                Update { mode: "Preflight".into(), ..Update::default() },
                on,
                "spec.desiredUpdate.mode: ",
            ),
            (
                "unknown mode",
                Update { mode: "Later".into(), image: "x".into(), ..version("2.0.0") },
                on,
                "spec.desiredUpdate.mode: ",
            ),
        ];
        for (row, update, gates, want) in table {
            let errors = errors_of(update, gates);
            match want {
                "" => assert_eq!(errors, Vec::<String>::new(), "{row}"),
                want => {
                    assert_eq!(errors.len(), 1, "{row}: {errors:?}");
                    assert!(errors[0].starts_with(want), "{row}: {}", errors[0]);
                }
            }
        }
    }

    #[test]
    fn name_upstream_and_cluster_id_are_checked_in_order() {
        let spec = ClusterVersionSpec { upstream: "#%GG".into(), cluster_id: "x".into(), ..Default::default() };
        let paths: Vec<_> =
            validate("Version", Gates::default(), &spec, &status()).into_iter().map(|e| e.path).collect();
        assert_eq!(paths, ["metadata.name", "spec.upstream", "spec.clusterID"]);
    }

    #[test]
    fn a_cluster_id_is_a_random_uuid() {
        let table = [
            ("", None),
            (ID, None),
            ("01234567-89ab-1cde-8f01-23456789abcd", Some("version 4")),
            ("01234567-89ab-4cde-cf01-23456789abcd", Some("RFC 4122")),
            ("nonsense", Some("RFC 4122")),
        ];
        for (id, want) in table {
            let problem = cluster_id_problem(id);
            match want {
                None => assert_eq!(problem, None, "{id}"),
                Some(part) => assert!(problem.is_some_and(|p| p.contains(part)), "{id}: {problem:?}"),
            }
        }
    }

    #[test]
    fn names_are_labels() {
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
        for (name, want) in table {
            assert_eq!(is_label(name), want, "{name}");
        }
    }

    #[test]
    fn clearing_removes_what_the_errors_are_about_and_no_more() {
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
