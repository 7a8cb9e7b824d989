//! Where a payload says whose signatures count (cluster-version §7.1): the first ConfigMap that is marked for it. What
//! its keys mean is the business of `verify`.

use super::manifest::{Manifest, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

const MARK: &str = "release.openshift.io/verification-config-map";

/// The marked ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationConfig {
    pub id: ObjectId,
    /// File it came from, for messages.
    pub file: Arc<str>,
    pub data: BTreeMap<String, String>,
}

/// Finds it in load order; `None` means that no signature can be verified.
pub fn verification_config(manifests: &[Arc<Manifest>]) -> Option<VerificationConfig> {
    let marked = |m: &&Arc<Manifest>| m.id.group.is_empty() && m.id.kind == "ConfigMap" && m.annotation(MARK).is_some();
    let manifest = manifests.iter().find(marked)?;
    // Loading has seen to it that data, if there, is a map of text.
    let object = manifest.object().ok()?;
    let data = object.get("data").and_then(|data| data.as_object()).into_iter().flatten();
    Some(VerificationConfig {
        id: manifest.id.clone(),
        file: Arc::clone(&manifest.file),
        data: data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
    })
}
