//! The verification ConfigMap of the running release: the keyrings that must have signed, and the stores of signatures.

use super::keyring::Keyring;
use super::{Digest, VerifyError};
use crate::object::manifest::Manifest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Annotation of the ConfigMap that configures verification. Its value does not matter.
pub(crate) const VERIFICATION_ANNOTATION: &str = "release.openshift.io/verification-config-map";

const KEYRING_PREFIX: &str = "verifier-public-key-";
const STORE_PREFIX: &str = "store-";
/// A registry or repository that every signed image must be of.
const IDENTITY: &str = "identity-prefix";

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

/// Keyrings and stores; at least one of each in the configuration of a release.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// By their key in the ConfigMap.
    pub(super) keyrings: BTreeMap<String, Keyring>,
    pub stores: Vec<Store>,
    /// The registry or repository that signed images must be of; any if absent.
    pub identity: Option<String>,
}

impl Config {
    /// Reads `data` of the ConfigMap. An invalid keyring or URL is an error, since ignoring it would weaken verification
    /// unnoticed. Other keys are ignored.
    pub fn from_config_map(data: &BTreeMap<String, String>) -> Result<Self, VerifyError> {
        let mut config = Config::default();
        for (name, value) in data {
            if name.starts_with(KEYRING_PREFIX) {
                let added = config.add_keyring(name, value.as_bytes());
                added.map_err(|cause| VerifyError::Keyring { name: name.clone(), cause })?;
            } else if name.starts_with(STORE_PREFIX) {
                let store = Store::parse(value).map_err(|cause| VerifyError::StoreUrl {
                    name: name.clone(),
                    url: value.trim().to_owned(),
                    cause,
                })?;
                config.stores.push(store);
            } else if name == IDENTITY {
                config.identity = Some(identity(value)?);
            }
        }
        match (config.keyrings.is_empty(), config.stores.is_empty()) {
            (true, _) => Err(VerifyError::NoKeyring),
            (_, true) => Err(VerifyError::NoStore),
            _ => Ok(config),
        }
    }

    /// Adds a keyring of armored public keys. The error is the cause only.
    pub(crate) fn add_keyring(&mut self, name: &str, armored: &[u8]) -> Result<(), String> {
        self.keyrings.insert(name.to_owned(), Keyring::parse(armored)?);
        Ok(())
    }

    /// The keyrings of another configuration as well, and its demand on the identity.
    pub(crate) fn take_over(&mut self, other: Config) {
        self.keyrings.extend(other.keyrings);
        self.identity = other.identity.or(self.identity.take());
    }

    pub(crate) fn keyring_names(&self) -> impl Iterator<Item = &str> {
        self.keyrings.keys().map(String::as_str)
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

/// An empty one would demand nothing, which whoever writes the key does not mean.
fn identity(value: &str) -> Result<String, VerifyError> {
    let prefix = value.trim().trim_end_matches('/');
    let well_formed = !prefix.is_empty() && !prefix.contains(char::is_whitespace) && !prefix.contains("://");
    if well_formed { Ok(prefix.to_owned()) } else { Err(VerifyError::Identity(value.to_owned())) }
}

#[cfg(test)]
mod tests;
