//! The verification ConfigMap of the running release: the keyrings that must have signed, and the stores of signatures.

use super::keyring::Keyring;
use super::{Digest, VerifyError};
use crate::payload::Manifest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Annotation of the ConfigMap that configures verification. Its value does not matter.
pub(crate) const VERIFICATION_ANNOTATION: &str = "release.openshift.io/verification-config-map";

const KEYRING_PREFIX: &str = "verifier-public-key-";
const STORE_PREFIX: &str = "store-";

/// A store of signatures at `<base>/<algorithm>=<hex>/signature-<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// `http` or `https` URL without a trailing slash.
    Http(String),
    /// Absolute path of a directory, without a trailing slash.
    File(String),
}

impl Store {
    /// Parses a URL with scheme `http`, `https` or `file`. The error is the cause only; the caller adds where the URL is from.
    pub fn parse(url: &str) -> Result<Self, String> {
        let url = url.trim();
        if let Some(path) = url.strip_prefix("file://") {
            // Another authority than localhost would be a remote host.
            return match path.strip_prefix("localhost").unwrap_or(path) {
                path if path.starts_with('/') => Ok(Store::File(path.trim_end_matches('/').to_owned())),
                _ => Err("a file URL needs an absolute path: file:///DIRECTORY".to_owned()),
            };
        }
        let parsed: http::Uri = url.parse().map_err(|e| format!("{e}"))?;
        match (parsed.scheme_str(), parsed.host()) {
            (Some("http" | "https"), Some(host)) if !host.is_empty() => {
                if parsed.query().is_some() {
                    return Err("a store URL cannot have a query".to_owned());
                }
                Ok(Store::Http(url.trim_end_matches('/').to_owned()))
            }
            (Some("http" | "https"), _) => Err("the URL has no host".to_owned()),
            (scheme, _) => Err(format!("scheme {:?} is not http, https or file", scheme.unwrap_or_default())),
        }
    }

    /// The location of signature `n` of `digest`: a URL, or a path in a file store.
    pub fn location(&self, digest: &Digest, n: u32) -> String {
        let (Store::Http(base) | Store::File(base)) = self;
        format!("{base}/{}/signature-{n}", digest.store_folder())
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Store::Http(url) => f.write_str(url),
            Store::File(path) => write!(f, "file://{path}"),
        }
    }
}

/// Keyrings and stores, at least one of each.
#[derive(Clone, Debug)]
pub struct Config {
    /// By their key in the ConfigMap.
    pub(super) keyrings: BTreeMap<String, Keyring>,
    pub stores: Vec<Store>,
}

impl Config {
    /// Reads `data` of the ConfigMap. An invalid keyring or URL is an error, since ignoring it would weaken verification
    /// unnoticed. Other keys are ignored.
    pub fn from_config_map(data: &BTreeMap<String, String>) -> Result<Self, VerifyError> {
        let mut config = Config { keyrings: BTreeMap::new(), stores: Vec::new() };
        for (name, value) in data {
            if name.starts_with(KEYRING_PREFIX) {
                let keyring = Keyring::parse(value.as_bytes())
                    .map_err(|cause| VerifyError::Keyring { name: name.clone(), cause })?;
                config.keyrings.insert(name.clone(), keyring);
            } else if name.starts_with(STORE_PREFIX) {
                let store = Store::parse(value).map_err(|cause| VerifyError::StoreUrl {
                    name: name.clone(),
                    url: value.trim().to_owned(),
                    cause,
                })?;
                config.stores.push(store);
            }
        }
        match (config.keyrings.is_empty(), config.stores.is_empty()) {
            (true, _) => Err(VerifyError::NoKeyring),
            (_, true) => Err(VerifyError::NoStore),
            _ => Ok(config),
        }
    }

    /// The configuration of a release: its first ConfigMap, in load order, with the annotation. `None` if there is none; then
    /// an update must be forced (see [`VerifyError::NotConfigured`]).
    pub fn from_manifests<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Result<Option<Self>, VerifyError> {
        let found = manifests.into_iter().find(|m| {
            m.id.group.is_empty() && m.id.kind == "ConfigMap" && m.annotation(VERIFICATION_ANNOTATION).is_some()
        });
        let Some(manifest) = found else { return Ok(None) };
        let object = manifest.object().map_err(|_| VerifyError::ConfigShape)?;
        let members = object.get("data").and_then(Value::as_object).ok_or(VerifyError::ConfigShape)?;
        let text = |(key, value): (&String, &Value)| value.as_str().map(|v| (key.clone(), v.to_owned()));
        let data: Option<BTreeMap<String, String>> = members.iter().map(text).collect();
        Config::from_config_map(&data.ok_or(VerifyError::ConfigShape)?).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::Signer;
    use super::*;
    use crate::payload::{ObjectId, Origin};

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn store_urls_are_parsed() {
        let digest = Digest::parse("sha256:ab").unwrap();
        let table = [
            (" https://a.example/base/ \n", Ok("https://a.example/base/sha256=ab/signature-2")),
            ("http://a.example", Ok("http://a.example/sha256=ab/signature-2")),
            ("file:///var/sigs/", Ok("/var/sigs/sha256=ab/signature-2")),
            ("file://localhost/var", Ok("/var/sha256=ab/signature-2")),
            ("file://host/var", Err("absolute path")),
            ("ftp://a.example", Err("not http, https or file")),
            ("a.example/x", Err("invalid")),
            ("/var/sigs", Err("not http, https or file")),
            ("https://a.example/?q=1", Err("query")),
            ("", Err("empty")),
        ];
        for (url, expected) in table {
            match (Store::parse(url).map(|s| s.location(&digest, 2)), expected) {
                (Ok(location), Ok(expected)) => assert_eq!(location, expected, "{url:?}"),
                (Err(cause), Err(part)) => assert!(cause.contains(part), "{url:?}: {cause}"),
                (got, expected) => panic!("{url:?}: {got:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn config_map_needs_a_keyring_and_a_store_and_invalid_keys_are_named() {
        let key = Signer::new("one").public();
        let good = [("verifier-public-key-a", key.as_str()), ("store-a", "https://a.example"), ("other", "x")];
        let config = Config::from_config_map(&data(&good)).unwrap();
        assert_eq!(config.keyrings.keys().collect::<Vec<_>>(), ["verifier-public-key-a"]);
        assert_eq!(config.stores, [Store::Http("https://a.example".to_owned())]);

        assert_eq!(Config::from_config_map(&data(&good[1..])).unwrap_err(), VerifyError::NoKeyring);
        assert_eq!(Config::from_config_map(&data(&good[..1])).unwrap_err(), VerifyError::NoStore);
        let bad_url = [good[0], ("store-b", "gopher://x")];
        let error = Config::from_config_map(&data(&bad_url)).unwrap_err().to_string();
        assert!(error.contains("store-b") && error.contains("gopher://x"), "{error}");
        for junk in
            ["", "not a key", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n"]
        {
            let error = Config::from_config_map(&data(&[("verifier-public-key-b", junk), good[1]])).unwrap_err();
            assert!(error.to_string().contains("verifier-public-key-b"), "{error}");
        }
    }

    fn config_map(name: &str, annotated: bool, data: Value) -> Manifest {
        let annotations: &[(&str, &str)] = if annotated { &[(VERIFICATION_ANNOTATION, "")] } else { &[] };
        Manifest {
            origin: Origin::Release,
            file: format!("{name}.yaml").into(),
            index_in_file: 0,
            id: ObjectId::new("", "ConfigMap", "ns", name),
            api_version: "v1".to_owned(),
            annotations: self::data(annotations),
            raw: serde_json::to_vec(&serde_json::json!({ "data": data })).unwrap().into(),
        }
    }

    #[test]
    fn first_annotated_config_map_of_a_release_is_used() {
        let key = Signer::new("one").public();
        let plain = config_map("a", false, serde_json::json!({}));
        let first = config_map("b", true, serde_json::json!({"verifier-public-key-b": key, "store-b": "file:///b"}));
        let second = config_map("c", true, serde_json::json!({"verifier-public-key-c": key, "store-c": "file:///c"}));
        let found = Config::from_manifests([&plain, &first, &second]).unwrap().unwrap();
        assert_eq!(found.keyrings.keys().collect::<Vec<_>>(), ["verifier-public-key-b"]);
        assert!(Config::from_manifests([&plain]).unwrap().is_none());
        let odd = config_map("d", true, serde_json::json!({"store-d": 7}));
        assert_eq!(Config::from_manifests([&odd]).unwrap_err(), VerifyError::ConfigShape);
    }
}
