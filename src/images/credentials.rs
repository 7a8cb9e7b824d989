//! Credentials for registries as kubelets read them from pull secrets and as docker and podman write them. Those of the longest path
//! come first, those of a source before those of the next one.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// As the kubelet reads it: padded or not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The form of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `{"auths": {"REGISTRY": {"auth": "…"}}}`: secrets of type `kubernetes.io/dockerconfigjson`, and the file of `podman login`.
    DockerConfigJson,
    /// `{"REGISTRY": {"auth": "…"}}`: secrets of type `kubernetes.io/dockercfg`.
    DockerCfg,
}

/// What is shown to a registry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Login {
    Password {
        user: String,
        password: String,
    },
    /// A bearer token.
    Token(String),
}

/// It may stand in a log, so it has no secret.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Login::Password { user, .. } => write!(f, "Password({user:?})"),
            Login::Token(_) => write!(f, "Token"),
        }
    }
}

/// A login for a part of a registry.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    /// `host[:port]`; a `*` in a part of the host stands for any text without a dot.
    host: String,
    /// The path, or its beginning; empty for all of the registry.
    path: String,
    pub login: Login,
    /// The secret or file, for people.
    pub origin: String,
}

/// A source of credentials cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {cause}")]
pub(crate) struct CredentialsError {
    pub origin: String,
    pub cause: String,
}

/// Sources of credentials in their order. The default has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyring {
    sources: Vec<Vec<Credential>>,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "lowercase")]
struct Entry {
    /// Base64 of `user:password`.
    auth: String,
    username: String,
    password: String,
    registrytoken: String,
}

/// The credentials in a Secret, in their forms.
pub(crate) fn of_secret(secret: &Value) -> Vec<(Format, Vec<u8>)> {
    let of = |key: &str| STANDARD.decode(secret.get("data")?.get(key)?.as_str()?).ok();
    let forms = [(Format::DockerConfigJson, ".dockerconfigjson"), (Format::DockerCfg, ".dockercfg")];
    forms.into_iter().filter_map(|(form, key)| Some((form, of(key)?))).collect()
}

impl Keyring {
    /// Adds a source behind all others. Entries without credentials, which a credential helper keeps, are skipped.
    pub(crate) fn add(&mut self, content: &[u8], format: Format, origin: &str) -> Result<(), CredentialsError> {
        let wrong = |cause: String| CredentialsError { origin: origin.to_owned(), cause };
        let entries = match format {
            Format::DockerConfigJson => serde_json::from_slice(content).map(|config: DockerConfig| config.auths),
            Format::DockerCfg => serde_json::from_slice(content),
        };
        let mut source = Vec::new();
        for (key, entry) in entries.map_err(|error| wrong(what_is_wrong(&error)))? {
            let login = entry.decode().map_err(|cause| wrong(format!("entry {key:?}: {cause}")))?;
            let (host, path) = place(&key);
            source.extend(login.map(|login| Credential { host, path, login, origin: origin.to_owned() }));
        }
        self.sources.push(source);
        Ok(())
    }

    /// The credentials for `repository` (a path) at `registry`, each once. They are tried one after the other until the registry
    /// accepts one.
    pub(crate) fn of(&self, registry: &str, repository: &str) -> Vec<&Credential> {
        let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
        let mut found: Vec<&Credential> = Vec::new();
        for source in &self.sources {
            let fits = |known: &&Credential| is_host(&known.host, registry) && is_below(&known.path, repository);
            let mut known: Vec<&Credential> = source.iter().filter(fits).collect();
            known.sort_by_key(|known| (Reverse(known.path.len()), known.host.contains('*')));
            for known in known {
                if found.iter().all(|other| other.login != known.login) {
                    found.push(known);
                }
            }
        }
        found
    }
}

impl Entry {
    fn decode(self) -> Result<Option<Login>, String> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(Login::Token(self.registrytoken)));
        }
        if self.auth.is_empty() {
            let known = !self.username.is_empty();
            return Ok(known.then_some(Login::Password { user: self.username, password: self.password }));
        }
        let encoded: String = self.auth.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let decoded = BASE64.decode(encoded).map_err(|e| format!("auth is not base64: {e}"))?;
        let text = String::from_utf8(decoded).map_err(|_| "auth is not text".to_owned())?;
        let (user, password) = text.split_once(':').ok_or("auth is not USER:PASSWORD in base64")?;
        Ok(Some(Login::Password { user: user.into(), password: password.trim_end_matches('\0').into() }))
    }
}

/// Without the text that is wrong, which may be a password.
fn what_is_wrong(error: &serde_json::Error) -> String {
    let what = if error.is_data() { "it does not have the form of a credentials file" } else { "it is not JSON" };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

/// Host and path. Older tools write URLs as keys: `https://index.docker.io/v1/`. A version of the API before the path is no part of it.
fn place(key: &str) -> (String, String) {
    let key = key.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let path = if matches!(first, "v1" | "v2") { rest } else { path };
    let host = if host == "index.docker.io" { "docker.io" } else { host };
    (host.to_ascii_lowercase(), path.to_owned())
}

/// A pattern has as many parts as the host, and the same port.
fn is_host(pattern: &str, registry: &str) -> bool {
    let registry = registry.to_ascii_lowercase();
    if !pattern.contains('*') {
        return pattern == registry;
    }
    let port = |text: &str| text.rsplit_once(':').map(|(_, port)| port.to_owned());
    let parts = |text: &str| text.split(['.', ':']).map(str::to_owned).collect::<Vec<_>>();
    let (pattern_parts, host_parts) = (parts(pattern), parts(&registry));
    port(pattern) == port(&registry)
        && pattern_parts.len() == host_parts.len()
        && pattern_parts.iter().zip(&host_parts).all(|(pattern, part)| is_like(pattern, part))
}

/// Whether the text is the pattern with any text in place of each `*`.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut left) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return left.is_empty() };
    for part in parts {
        // The nearest leaves the most for those that follow.
        let Some((_, rest)) = left.split_once(part) else { return false };
        left = rest;
    }
    left.ends_with(last)
}

/// Whether the path is this one or below it.
fn is_below(above: &str, path: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
