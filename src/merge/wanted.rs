//! From a manifest to the object the cluster is to have: what is created where nothing is, and compared with what is.

use super::inject::{ClusterConfiguration, InjectError};
use super::metadata::{Owner, prepare};
use crate::payload::Manifest;
use serde_json::Value;

/// Why there is no such object.
#[derive(Debug, thiserror::Error)]
pub enum WantedError {
    #[error("{object} in {file} cannot be read: {cause}; load the release again")]
    Unreadable { object: String, file: String, cause: serde_json::Error },
    #[error(transparent)]
    Inject(#[from] InjectError),
}

/// The manifest's object as this cluster is to have it: with what is injected (payload-and-apply §5.10), owned (§5.5),
/// without status. Depends on nothing but its arguments, of `configuration` only on what `Source::of` names.
pub fn wanted(
    manifest: &Manifest,
    owner: Option<&Owner>,
    configuration: &ClusterConfiguration,
) -> Result<Value, WantedError> {
    let mut object = manifest.object().map_err(|cause| WantedError::Unreadable {
        object: manifest.id.to_string(),
        file: manifest.file.to_string(),
        cause,
    })?;
    configuration.inject(manifest, &mut object)?;
    Ok(prepare(object, owner, manifest.create_only()))
}
