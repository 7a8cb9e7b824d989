//! The credentials file of docker and podman.

use crate::images::credentials::{Credential, Format, Keyring, Login};
use oci_client::secrets::RegistryAuth;
use std::path::{Path, PathBuf};

/// The credentials file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("credentials file {}: {cause} (expected: a file as `docker login` or `podman login` writes it, {{\"auths\": {{\"REGISTRY\": {{\"auth\": \"…\"}}}}}})", path.display())]
pub(crate) struct FileError {
    pub path: PathBuf,
    pub cause: String,
}

/// Reads `given`, else `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`. Without any of these there are no credentials.
pub(crate) fn find(given: Option<&Path>) -> Result<Keyring, FileError> {
    let usual = || {
        let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker")));
        folder.map(|f| f.join("config.json")).filter(|f| f.exists())
    };
    let mut keyring = Keyring::default();
    let Some(path) = given.map(Path::to_path_buf).or_else(usual) else { return Ok(keyring) };
    let wrong = |cause: String| FileError { path: path.clone(), cause };
    let bytes = std::fs::read(&path).map_err(|e| wrong(e.to_string()))?;
    let added = keyring.add(&bytes, Format::DockerConfigJson, &path.display().to_string());
    added.map_err(|error| wrong(error.cause))?;
    Ok(keyring)
}

/// The first of them, for the client library.
pub(super) fn first(logins: &[Credential]) -> RegistryAuth {
    match logins.first().map(|known| known.login.clone()) {
        None => RegistryAuth::Anonymous,
        Some(Login::Password { user, password }) => RegistryAuth::Basic(user, password),
        Some(Login::Token(token)) => RegistryAuth::Bearer(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, r#"{"auths": {"quay.io": {"auth": "%%"}}}"#).unwrap();
        let message = find(Some(&path)).unwrap_err().to_string();
        for words in ["config.json", "quay.io", "base64"] {
            assert!(message.contains(words), "{message}");
        }
        let message = find(Some(&dir.path().join("absent"))).unwrap_err().to_string();
        assert!(message.contains("absent"), "{message}");
    }
}
