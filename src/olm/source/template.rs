//! The template of an image: a text with variables in braces, which follow the version of the API server.

use super::CheckImage;
use crate::error::shortened;
use std::borrow::Cow;
use std::fmt;

/// The variables that have a value where the version is known.
const VARIABLES: [&str; 3] = ["kube_major_version", "kube_minor_version", "kube_patch_version"];
/// Most bytes of a template, and of a variable, in a message.
const SHOWN: usize = 200;
/// Variables that a message names.
const NAMED: usize = 10;

/// The version of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeVersion {
    pub major: String,
    pub minor: String,
    /// Unknown if the server calls its version something that is no version.
    pub patch: Option<String>,
}

impl fmt::Display for KubeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch.as_deref().unwrap_or("0"))
    }
}

impl KubeVersion {
    /// From what the server says of itself: two numbers, the second perhaps with `+`, and a version such as `v1.35.2+k3s1`, which
    /// comes before them. `None` if neither says anything.
    pub(crate) fn of(major: &str, minor: &str, git_version: &str) -> Option<KubeVersion> {
        let git = git_version.strip_prefix('v').unwrap_or(git_version);
        if let Ok(version) = crate::version::parse(git) {
            let semver::Version { major, minor, patch, .. } = version;
            return Some(KubeVersion {
                major: major.to_string(),
                minor: minor.to_string(),
                patch: Some(patch.to_string()),
            });
        }
        let number = |text: &str| {
            let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
            (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.to_owned())
        };
        Some(KubeVersion { major: number(major)?, minor: number(minor)?, patch: None })
    }

    /// Without a patch, the first one.
    pub(crate) fn number(&self) -> semver::Version {
        let number = |text: &str| text.parse().unwrap_or_default();
        let patch = self.patch.as_deref().map(number).unwrap_or_default();
        semver::Version::new(number(&self.major), number(&self.minor), patch)
    }

    fn value(&self, variable: &str) -> Option<&str> {
        match variable {
            "kube_major_version" => Some(&self.major),
            "kube_minor_version" => Some(&self.minor),
            "kube_patch_version" => self.patch.as_deref(),
            _ => None,
        }
    }
}

/// What a template stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    Image(String),
    /// It stands for no image; why, with what to do about it.
    Unable(String),
    /// That is known once the version of the API server is.
    NotYet,
}

/// A part of a template.
enum Part<'a> {
    Text(&'a str),
    Variable(&'a str),
    /// A brace without its counterpart.
    Stray,
}

/// What the template stands for. `version`: of the API server, or why it cannot be read; `None` before that is known.
pub(crate) fn resolve(
    template: &str,
    version: Option<&Result<KubeVersion, String>>,
    check: CheckImage<'_>,
) -> Resolved {
    let parts = parts(template);
    let variables = || parts.iter().filter_map(|part| if let Part::Variable(name) = part { Some(*name) } else { None });
    let known = |variable: &str| VARIABLES.contains(&variable);
    if version.is_none() && variables().any(known) {
        return Resolved::NotYet;
    }
    let value = |variable: &str| version?.as_ref().ok()?.value(variable);
    let mut faults = Vec::new();
    let without_value: Vec<&str> = variables().filter(|name| known(name) && value(name).is_none()).collect();
    if !without_value.is_empty() {
        let cause = match version {
            Some(Err(cause)) => shortened(cause, crate::error::CAUSE),
            _ => Cow::Borrowed("it does not say them of itself"),
        };
        faults.push(format!("the API server has no value for {}: {cause}", names(&without_value)));
    }
    let unknown: Vec<&str> = variables().filter(|name| !known(name)).collect();
    if !unknown.is_empty() {
        faults.push(format!("nobody knows {}; there are {}", names(&unknown), names(&VARIABLES)));
    }
    if parts.iter().any(|part| matches!(part, Part::Stray)) {
        faults.push("it is malformed: a brace has no counterpart".to_owned());
    }
    if faults.is_empty() {
        let image: String = parts.iter().filter_map(|part| text(part, value)).collect();
        match check(&image) {
            Ok(()) => return Resolved::Image(image),
            Err(cause) => {
                faults.push(format!("it stands for {:?}, which is no image: {cause}", shortened(&image, SHOWN)))
            }
        }
    }
    let template = shortened(template, SHOWN);
    Resolved::Unable(format!("cannot make an image of the template {template:?}: {}", faults.join("; ")))
}

fn text<'a>(part: &Part<'a>, value: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Variable(name) => value(name),
        Part::Stray => None,
    }
}

/// The first few of them, each once.
fn names(variables: &[&str]) -> String {
    let mut known: Vec<&str> = Vec::new();
    variables.iter().for_each(|name| {
        if !known.contains(name) {
            known.push(name);
        }
    });
    let rest = known.len().saturating_sub(NAMED);
    let named = known.iter().take(NAMED).map(|name| format!("{{{}}}", shortened(name, SHOWN)));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if rest > 0 {
        text.push_str(&format!(" and {rest} more"));
    }
    text
}

fn parts(template: &str) -> Vec<Part<'_>> {
    let (mut parts, mut rest) = (Vec::new(), template);
    while let Some((text, brace)) = rest.find(['{', '}']).and_then(|at| rest.split_at_checked(at)) {
        parts.push(Part::Text(text));
        let variable = brace.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let (part, behind) = match variable.filter(|(name, _)| !name.is_empty() && !name.contains('{')) {
            Some((name, behind)) => (Part::Variable(name), behind),
            None => (Part::Stray, brace.get(1..).unwrap_or_default()),
        };
        parts.push(part);
        rest = behind;
    }
    parts.push(Part::Text(rest));
    parts
}

#[cfg(test)]
mod tests;
