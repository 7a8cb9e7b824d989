//! Credentials for registries as docker and podman write them: a JSON file with `auths`, in which the longest path
//! prefix of the repository wins.

use base64::Engine;
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The credentials file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("credentials file {}: {cause} (expected: a file as `docker login` or `podman login` writes it, {{\"auths\": {{\"REGISTRY\": {{\"auth\": \"…\"}}}}}})", path.display())]
pub(crate) struct CredentialsError {
    pub path: PathBuf,
    pub cause: String,
}

/// Credentials by registry or path in it. The default has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    /// `registry[:port][/path]` without scheme.
    by_prefix: BTreeMap<String, RegistryAuth>,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "lowercase")]
#[derive(Default)]
struct Entry {
    /// Base64 of `user:password`.
    auth: String,
    username: String,
    password: String,
    registrytoken: String,
}

impl Credentials {
    /// Reads `given`, else `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`. Without any of these there are no
    /// credentials.
    pub(crate) fn find(given: Option<&Path>) -> Result<Credentials, CredentialsError> {
        let usual = || {
            let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
            let folder = folder.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker")));
            folder.map(|f| f.join("config.json")).filter(|f| f.exists())
        };
        let Some(path) = given.map(Path::to_path_buf).or_else(usual) else { return Ok(Credentials::default()) };
        let wrong = |cause: String| CredentialsError { path: path.clone(), cause };
        let bytes = std::fs::read(&path).map_err(|e| wrong(e.to_string()))?;
        Credentials::parse(&bytes).map_err(wrong)
    }

    /// Parses the content of such a file. Entries without credentials, which a credential helper keeps, are skipped.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Credentials, String> {
        let config: DockerConfig = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        let mut by_prefix = BTreeMap::new();
        for (key, entry) in config.auths {
            if let Some(auth) = entry.decode().map_err(|cause| format!("entry {key:?}: {cause}"))? {
                by_prefix.insert(prefix(&key), auth);
            }
        }
        Ok(Credentials { by_prefix })
    }

    /// The credentials for `repository` (a path) at `registry`.
    pub(crate) fn of(&self, registry: &str, repository: &str) -> RegistryAuth {
        let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
        let whole = format!("{registry}/{repository}");
        let mut prefix = whole.as_str();
        loop {
            if let Some(auth) = self.by_prefix.get(prefix) {
                return auth.clone();
            }
            match prefix.rsplit_once('/') {
                Some((shorter, _)) => prefix = shorter,
                None => return RegistryAuth::Anonymous,
            }
        }
    }
}

impl Entry {
    fn decode(self) -> Result<Option<RegistryAuth>, String> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(RegistryAuth::Bearer(self.registrytoken)));
        }
        if self.auth.is_empty() {
            let known = !self.username.is_empty();
            return Ok(known.then_some(RegistryAuth::Basic(self.username, self.password)));
        }
        let engine = base64::engine::general_purpose::STANDARD;
        let decoded = engine.decode(self.auth.trim()).map_err(|e| format!("auth is not base64: {e}"))?;
        let text = String::from_utf8(decoded).map_err(|_| "auth is not text".to_string())?;
        let (user, password) = text.split_once(':').ok_or("auth is not USER:PASSWORD in base64")?;
        Ok(Some(RegistryAuth::Basic(user.into(), password.trim_end_matches('\0').into())))
    }
}

/// Older tools write URLs as keys: `https://index.docker.io/v1/`. Behind a path it is the name of a repository.
fn prefix(key: &str) -> String {
    let key = key.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let host = key.strip_suffix("/v1").or(key.strip_suffix("/v2")).filter(|host| !host.contains('/'));
    let key = host.unwrap_or(key);
    match key.strip_prefix("index.docker.io") {
        Some(rest) => format!("docker.io{rest}"),
        None => key.to_string(),
    }
}

#[cfg(test)]
mod tests;
