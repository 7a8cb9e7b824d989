//! Semantic versions of releases.

use semver::Version;
use std::cmp::Ordering;

/// A version string that is not strict SemVer (no leading `v`, three numbers).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a semantic version (MAJOR.MINOR.PATCH without a leading v): {cause}")]
pub struct VersionError {
    pub text: String,
    pub cause: String,
}

/// Parses strict SemVer.
pub fn parse(text: &str) -> Result<Version, VersionError> {
    Version::parse(text).map_err(|e| VersionError { text: text.to_owned(), cause: e.to_string() })
}

/// Parses what people write: blanks around it, a leading `v`, zeros before a number, and missing numbers do not matter.
pub(crate) fn parse_tolerant(text: &str) -> Result<Version, VersionError> {
    let trimmed = text.trim();
    let mut parts: Vec<String> =
        trimmed.strip_prefix('v').unwrap_or(trimmed).splitn(3, '.').map(without_zeros).collect();
    let missing = 3_usize.saturating_sub(parts.len());
    if missing > 0 && parts.last().is_some_and(|part| part.contains(['+', '-'])) {
        let cause = "a version with a pre-release or build has three numbers".to_owned();
        return Err(VersionError { text: text.to_owned(), cause });
    }
    parts.extend(std::iter::repeat_n("0".to_owned(), missing));
    let cause = |error: semver::Error| VersionError { text: text.to_owned(), cause: error.to_string() };
    Version::parse(&parts.join(".")).map_err(cause)
}

fn without_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    let lost = rest.len() < part.len() && !rest.starts_with(|first: char| first.is_ascii_digit());
    if lost { format!("0{rest}") } else { rest.to_owned() }
}

/// Compares by precedence. Unlike `Ord` of the semver crate this ignores build metadata, as Semantic Versioning asks.
pub fn precedence(a: &Version, b: &Version) -> Ordering {
    a.cmp_precedence(b)
}

/// Major and minor of a version; `None` if it is not one.
pub(crate) fn minor(text: &str) -> Option<(u64, u64)> {
    parse(text).ok().map(|version| (version.major, version.minor))
}

#[cfg(test)]
mod tests;
