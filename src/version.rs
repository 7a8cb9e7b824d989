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
