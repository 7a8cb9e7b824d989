//! The desired state of an object: its manifest and everything else that it depends on. It is what is created if the object is absent,
//! and compared with it otherwise.

use super::inject::{ClusterConfiguration, InjectError, Source};
use super::metadata::{Owner, controller, prepare};
use super::{Manager, MergeError, Schemas, Step, configuration, initial, is_applied, job, step};
use crate::object::manifest::Manifest;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Why a manifest has no desired object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DesiredError {
    #[error("{object} in {file} cannot be decoded: {cause}; load the release again")]
    Unreadable { object: String, file: String, cause: serde_json::Error },
    #[error(transparent)]
    Inject(#[from] InjectError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
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

/// One manifest and all that its object depends on, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    pub manifest: Arc<Manifest>,
    pub owner: Option<Owner>,
    /// Under whose name it is written.
    pub manager: Manager,
    pub configuration: ClusterConfiguration,
    /// A Deployment that somebody has scaled to zero stays so.
    pub may_be_stopped: bool,
    /// The defaults of its kind, where they are known.
    pub schemas: Arc<Schemas>,
}

impl Desired {
    /// Differs if the desired content differs; only within this process.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.manifest.raw.hash(&mut hasher);
        self.owner.hash(&mut hasher);
        Source::of(&self.manifest).into_iter().for_each(|source| self.configuration.part(source).hash(&mut hasher));
        self.may_be_stopped.hash(&mut hasher);
        hasher.finish()
    }

    /// The object as it would be created.
    fn object(&self) -> Result<Value, DesiredError> {
        desired(&self.manifest, self.owner.as_ref(), &self.configuration)
    }

    /// Whether it is written by server-side apply. An object that is only created is not, since it is never written again.
    pub(crate) fn is_applied(&self) -> bool {
        is_applied(&self.manifest.id.group, &self.manifest.id.kind) && !self.manifest.create_only()
    }

    /// The JSON of the object to create.
    pub(crate) fn created(&self) -> Result<Vec<u8>, DesiredError> {
        Ok(serde_json::to_vec(&initial(self.object()?))?)
    }

    /// The configuration to apply.
    pub(crate) fn configuration(&self, live: Option<&Value>) -> Result<Box<RawValue>, DesiredError> {
        Ok(to_raw_value(&configuration(live, self.object()?, self.manager))?)
    }

    /// What to do, given the live object.
    pub(crate) fn step(&self, live: Option<&Value>) -> Result<Step, DesiredError> {
        let replicas = live.and_then(|live| live.pointer("/spec/replicas"));
        let stopped = self.may_be_stopped && replicas == Some(&Value::from(0));
        step(live, &self.manifest, self.manager, &|| self.schemas.of(&self.manifest), || {
            let mut object = self.object()?;
            if let Some(replicas) = object.pointer_mut("/spec/replicas").filter(|_| stopped) {
                *replicas = Value::from(0);
            }
            Ok(object)
        })
    }

    /// The controller of the live object, as `kind name`, where that is another than the owner and the owner does not share.
    pub(crate) fn other_controller(&self, live: &Value) -> Option<String> {
        let owner = self.owner.as_ref().filter(|owner| !owner.shares)?;
        let text = |reference: &Value, key: &str| super::ownership::text(reference, key).to_owned();
        let other = controller(live).filter(|reference| text(reference, "uid") != owner.uid)?;
        Some(format!("{} {}", text(other, "kind"), text(other, "name")))
    }
}
