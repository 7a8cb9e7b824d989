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

/// The digest after the last `@` of a pull spec.
pub(crate) fn digest_of_pull_spec(pull_spec: &str) -> Result<&str, VerifyError> {
    match pull_spec.rsplit_once('@') {
        Some((_, digest)) if !digest.is_empty() => Digest::parse(digest).map(|_| digest),
        _ => Err(VerifyError::NoDigest(pull_spec.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_parsed_strictly() {
        let table = [
            ("sha256:abc123", true),
            ("sha256+b64u:aB_-=9", true),
            ("a.b:1", true),
            ("", false),
            ("sha256", false),
            ("sha256:", false),
            (":abc", false),
            ("SHA256:abc", false),
            ("sha256::abc", false),
            ("a..b:1", false),
            (".:1", false),
            ("a+:1", false),
            ("sha256:../../etc", false),
            ("sha256:a/b", false),
            ("sha256:é", false),
            ("sha256:a b", false),
        ];
        for (text, good) in table {
            assert_eq!(Digest::parse(text).is_ok(), good, "{text:?}");
        }
        let digest = Digest::parse("sha256:ab").unwrap();
        assert_eq!((digest.to_string().as_str(), digest.store_folder().as_str()), ("sha256:ab", "sha256=ab"));
        assert_eq!(digest.config_map_prefix(), "sha256-ab");
    }

    #[test]
    fn digest_follows_the_last_at_sign_of_a_pull_spec() {
        assert_eq!(digest_of_pull_spec("r.example/a:tag@sha256:ab"), Ok("sha256:ab"));
        assert_eq!(digest_of_pull_spec("a@b@sha256:ab"), Ok("sha256:ab"));
        for tagged in ["r.example:5000/a:1.0", "r.example/a@", ""] {
            assert_eq!(digest_of_pull_spec(tagged), Err(VerifyError::NoDigest(tagged.to_owned())));
        }
        assert_eq!(digest_of_pull_spec("a@sha256"), Err(VerifyError::Digest("sha256".to_owned())));
    }
}
