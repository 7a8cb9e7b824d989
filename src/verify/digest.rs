//! Digests of images.

use super::VerifyError;
use std::fmt;
use std::str::FromStr;

/// A digest `ALGORITHM:HEX`. The algorithm consists of lower-case alphanumeric words joined by single `.`, `+`, `_` or `-`,
/// the rest of alphanumerics, `=`, `_` and `-`. So neither can contain `/` or `..`, and both are safe as path segments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: String,
    hex: String,
}

impl Digest {
    /// Parses `ALGORITHM:HEX`.
    pub fn parse(text: &str) -> Result<Self, VerifyError> {
        let refuse = || VerifyError::Digest(text.to_owned());
        let (algorithm, hex) = text.split_once(':').ok_or_else(refuse)?;
        let word = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let good_algorithm = algorithm.split(['.', '+', '_', '-']).all(word);
        let good_hex = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_alphanumeric() || b"=_-".contains(&b));
        if good_algorithm && good_hex {
            Ok(Digest { algorithm: algorithm.to_owned(), hex: hex.to_owned() })
        } else {
            Err(refuse())
        }
    }

    /// The digest after the last `@` of a pull spec.
    pub(crate) fn of_pull_spec(pull_spec: &str) -> Result<Self, VerifyError> {
        match pull_spec.rsplit_once('@') {
            Some((_, digest)) if !digest.is_empty() => Digest::parse(digest),
            _ => Err(VerifyError::NoDigest(pull_spec.to_owned())),
        }
    }

    /// As people give one to a command: alone, or in a pull spec.
    pub(crate) fn given(text: &str) -> Result<Self, VerifyError> {
        if text.contains('@') { Digest::of_pull_spec(text) } else { Digest::parse(text) }
    }

    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// Folder of this digest in an HTTP or file store: `sha256=HEX`.
    pub fn store_folder(&self) -> String {
        format!("{}={}", self.algorithm, self.hex)
    }

    /// Prefix of the `binaryData` keys in signature ConfigMaps: `sha256-HEX`.
    pub fn config_map_prefix(&self) -> String {
        format!("{}-{}", self.algorithm, self.hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex)
    }
}

impl FromStr for Digest {
    type Err = VerifyError;
    fn from_str(text: &str) -> Result<Self, VerifyError> {
        Digest::parse(text)
    }
}

#[cfg(test)]
mod tests;
