//! The desired object of a manifest: what is created if the object is absent, and compared with it otherwise.

use super::inject::{ClusterConfiguration, InjectError};
use super::job;
use super::metadata::{Owner, prepare};
use crate::payload::Manifest;
use serde_json::Value;

/// Why a manifest has no desired object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DesiredError {
    #[error("{object} in {file} cannot be decoded: {cause}; load the release again")]
    Unreadable { object: String, file: String, cause: serde_json::Error },
    #[error(transparent)]
    Inject(#[from] InjectError),
}

/// The object of the manifest with the cluster's configuration injected, an owner reference, and no status. A Job says what
/// it is created from. Of `configuration` it only depends on the sources that `Source::of` returns.
pub(crate) fn desired(
    manifest: &Manifest,
    owner: Option<&Owner>,
    configuration: &ClusterConfiguration,
) -> Result<Value, DesiredError> {
    let mut object = manifest.object().map_err(|cause| DesiredError::Unreadable {
        object: manifest.id.to_string(),
        file: manifest.file.to_string(),
        cause,
    })?;
    configuration.inject(manifest, &mut object)?;
    if (manifest.id.group.as_str(), manifest.id.kind.as_str()) == ("batch", "Job") {
        job::record(&mut object);
    }
    Ok(prepare(object, owner, manifest.create_only()))
}
