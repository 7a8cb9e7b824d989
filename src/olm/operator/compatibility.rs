//! Whether the operators of a cluster can run on the next minor version of it, by the maximum that their bundles name. Where that cannot
//! be said, they cannot: an update that is held for a while does less harm than one that breaks what runs.

use crate::error::together;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::annotation::PROPERTIES;
use crate::olm::names::property::MAX_CLUSTER_VERSION;
use crate::olm::steps::properties;
use crate::version::parse_tolerant;
use serde_json::Value;
use std::fmt;

/// Reasons of the condition `Upgradeable`.
const INCOMPATIBLE: &str = "IncompatibleOperatorsInstalled";
const UNKNOWN: &str = "ErrorCheckingOperatorCompatibility";

/// Minor versions that are the same release under two names: the later name is the one that counts.
const SAME: [(Minor, Minor); 1] = [(Minor(4, 23), Minor(5, 0))];

/// Major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minor(pub u64, pub u64);

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Minor {
    /// Under the name that counts.
    fn settled(self) -> Minor {
        SAME.iter().find(|(other, _)| *other == self).map_or(self, |(_, counts)| *counts)
    }

    /// The one that follows it.
    pub(crate) fn next(self) -> Minor {
        let Minor(major, minor) = self.settled();
        Minor(major, minor.saturating_add(1)).settled()
    }

    /// Whether it is this one, or a later one.
    pub(crate) fn reaches(self, other: Minor) -> bool {
        self.settled() >= other.settled()
    }
}

/// A ClusterServiceVersion that is no copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    /// The annotation with its properties.
    pub properties: Option<&'a str>,
}

impl<'a> Installed<'a> {
    pub(crate) fn of(csv: &'a ClusterServiceVersion) -> Installed<'a> {
        let metadata = &csv.metadata;
        Installed {
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            name: metadata.name.as_deref().unwrap_or_default(),
            properties: metadata.annotations.as_ref().and_then(|all| all.get(PROPERTIES)).map(String::as_str),
        }
    }
}

/// What keeps a cluster from the next minor version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hindrance {
    pub reason: &'static str,
    /// A line for each operator, invalid ones first.
    pub message: String,
}

/// `release`: of the cluster, or why it is not known. `None` where nothing keeps it from the next minor version.
pub(crate) fn hindrance<'a>(
    release: Result<&str, &str>,
    installed: impl IntoIterator<Item = Installed<'a>>,
) -> Option<Hindrance> {
    let current = match release
        .map_err(ToOwned::to_owned)
        .and_then(|text| parse_tolerant(text).map_err(|error| format!("{text:?} is no version of a release: {error}")))
    {
        Ok(version) => Minor(version.major, version.minor),
        Err(cause) => {
            let message = format!(
                "cannot tell which operators fit the next version of the cluster: its release is not known: {cause}"
            );
            return Some(Hindrance { reason: UNKNOWN, message });
        }
    };
    let (mut invalid, mut too_low) = (Vec::new(), Vec::new());
    for operator in installed {
        let Installed { namespace, name, .. } = operator;
        match maximum(operator.properties) {
            Err(cause) => {
                invalid.push(format!("{namespace}/{name} has invalid {MAX_CLUSTER_VERSION} properties: {cause}"));
            }
            Ok(Some(maximum)) if !maximum.reaches(current.next()) => {
                too_low.push(format!("maximum supported OCP version for {namespace}/{name} is {maximum}"));
            }
            Ok(_) => {}
        }
    }
    invalid.sort();
    too_low.sort();
    let lines: Vec<String> = invalid.into_iter().chain(too_low).map(|line| format!("- {line}")).collect();
    (!lines.is_empty()).then(|| {
        let heading = format!(
            "ClusterServiceVersions blocking minor version upgrades to {}.0 or higher: update or remove these operators",
            current.next()
        );
        Hindrance { reason: INCOMPATIBLE, message: format!("{heading}:\n{}", together(&lines, "\n")) }
    })
}

/// The last minor version that an operator supports; `None` if it names none. `properties`: the annotation.
///
/// # Errors
/// Why it cannot be said.
pub(crate) fn maximum(annotation: Option<&str>) -> Result<Option<Minor>, String> {
    let Some(text) = annotation else { return Ok(None) };
    let properties = properties(text).map_err(|error| error.to_string())?;
    let mut found = properties.iter().filter(|(kind, _)| kind == MAX_CLUSTER_VERSION);
    let Some((_, value)) = found.next() else { return Ok(None) };
    if found.next().is_some() {
        return Err("it is there more than once; keep one".to_owned());
    }
    minor(value).map(Some)
}

/// The value of a property.
///
/// # Errors
/// What is wrong with it, and what to write.
pub(crate) fn minor(value: &Value) -> Result<Minor, String> {
    let wrong = |cause: &str| format!("{value} {cause}; write a minor version of the cluster such as \"4.9\"");
    // Bundles have it with quotes in quotes too.
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let text = text.trim().trim_matches('"');
    if text.is_empty() {
        return Err(wrong("is empty"));
    }
    let version = parse_tolerant(text).map_err(|_| wrong("is no version"))?;
    if !version.pre.is_empty() {
        return Err(wrong("has a pre-release"));
    }
    if version.patch != 0 {
        return Err(wrong("has a patch version"));
    }
    Ok(Minor(version.major, version.minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn annotation(values: &[Value]) -> String {
        let all: Vec<Value> = values.iter().map(|it| json!({"type": MAX_CLUSTER_VERSION, "value": it})).collect();
        json!({"properties": all}).to_string()
    }

    fn told(release: Result<&str, &str>, properties: &[(&str, Option<String>)]) -> Option<String> {
        let installed =
            properties.iter().map(|(name, text)| Installed { namespace: "n", name, properties: text.as_deref() });
        hindrance(release, installed).map(|it| format!("{}: {}", it.reason, it.message))
    }

    #[test]
    fn operator_fits_where_its_maximum_is_the_next_minor_version_or_later() {
        for (maximum, expected) in [
            (json!("1.1.0"), ""),
            (json!("1.1.0+build"), ""),
            (json!("1.1"), ""),
            (json!("\"1.1\""), ""),
            (json!("v1.2"), ""),
            (json!("2.0.0"), ""),
            (json!("1.0"), "maximum supported OCP version for n/a is 1.0"),
            (json!("0.1"), "maximum supported OCP version for n/a is 0.1"),
            (json!("1.1.0-pre"), "n/a has invalid olm.maxOpenShiftVersion properties: \"1.1.0-pre\" has a pre-release"),
            (json!("1.1.1"), "n/a has invalid olm.maxOpenShiftVersion properties: \"1.1.1\" has a patch version"),
            (json!("bad_version"), "n/a has invalid olm.maxOpenShiftVersion properties: \"bad_version\" is no version"),
            (json!(""), "n/a has invalid olm.maxOpenShiftVersion properties: \"\" is empty"),
            (json!({}), "n/a has invalid olm.maxOpenShiftVersion properties: {} is no version"),
        ] {
            let told = told(Ok("1.0.0"), &[("a", Some(annotation(std::slice::from_ref(&maximum))))]);
            match told {
                None => assert_eq!(expected, "", "{maximum}"),
                Some(told) => {
                    let line = told.lines().nth(1).unwrap_or_default();
                    assert!(!expected.is_empty() && line.starts_with(&format!("- {expected}")), "{maximum}: {told}");
                }
            }
        }
        assert_eq!(told(Ok("1.0.0"), &[("a", None), ("b", Some(annotation(&[])))]), None);
    }

    #[test]
    fn all_operators_are_told_and_those_that_cannot_be_judged_first() {
        let twice = annotation(&[json!("1.1"), json!("1.1")]);
        let all = [
            ("z", Some(annotation(&[json!("1.0")]))),
            ("fits", Some(annotation(&[json!("1.1")]))),
            ("twice", Some(twice)),
            ("broken", Some("{".to_owned())),
            ("a", Some(annotation(&[json!("1.0")]))),
        ];
        let told = told(Ok("1.0.3-rc.1"), &all).unwrap();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines[0],
            "IncompatibleOperatorsInstalled: ClusterServiceVersions blocking minor version upgrades to 1.1.0 or higher: update or \
             remove these operators:"
        );
        let starts = [
            "- n/broken has invalid",
            "- n/twice has invalid olm.maxOpenShiftVersion properties: it is there more than once",
            "- maximum supported OCP version for n/a is 1.0",
            "- maximum supported OCP version for n/z is 1.0",
        ];
        assert_eq!(lines.len(), 1 + starts.len(), "{told}");
        for (line, start) in lines[1..].iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }

    #[test]
    fn release_that_is_not_known_holds_the_cluster() {
        for release in [Err("nobody says it"), Ok("latest")] {
            let told = told(release, &[]).unwrap();
            assert!(told.starts_with("ErrorCheckingOperatorCompatibility: "), "{told}");
        }
    }

    #[test]
    fn release_with_two_names_is_one() {
        for (release, maximum, fits) in [
            ("4.22.0", "5.0", true),
            ("4.22.0", "4.23", true),
            ("4.22.0", "4.22", false),
            ("4.23.0", "5.0", false),
            ("5.0.0", "4.23", false),
            ("5.0.0", "5.1", true),
            ("4.23.0", "5.1", true),
        ] {
            let told = told(Ok(release), &[("a", Some(annotation(&[json!(maximum)])))]);
            assert_eq!(told.is_none(), fits, "{release} {maximum}: {told:?}");
        }
    }
}
