//! The ConfigMap of a payload that configures signature verification: the first one in load order with the annotation.
//! `verify` reads its keys.

use super::manifest::{Manifest, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

const ANNOTATION: &str = "release.openshift.io/verification-config-map";

/// The ConfigMap with the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationConfig {
    pub id: ObjectId,
    /// File that contains it, for messages.
    pub file: Arc<str>,
    pub data: BTreeMap<String, String>,
}

/// Finds the ConfigMap. `None` means that no signature can be verified.
pub fn verification_config(manifests: &[Arc<Manifest>]) -> Option<VerificationConfig> {
    let annotated =
        |m: &&Arc<Manifest>| m.id.group.is_empty() && m.id.kind == "ConfigMap" && m.annotation(ANNOTATION).is_some();
    let manifest = manifests.iter().find(annotated)?;
    // Loading refuses a ConfigMap whose data is not a map of text.
    let object = manifest.object().ok()?;
    let data = object.get("data").and_then(|data| data.as_object()).into_iter().flatten();
    Some(VerificationConfig {
        id: manifest.id.clone(),
        file: Arc::clone(&manifest.file),
        data: data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
    })
}
