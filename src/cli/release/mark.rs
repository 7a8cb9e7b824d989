//! Says of objects in which clusters they take part.

use crate::object::manifest::Manifest;
use serde_json::{Value, json};

pub(super) const INCLUDE: &str = "include.release.openshift.io/";
/// The profile of clusters that do not say which one they have.
pub(super) const DEFAULT_PROFILE: &str = "self-managed-high-availability";

/// Whether a manifest takes part in some cluster.
pub(super) fn is_marked(manifest: &Manifest) -> bool {
    manifest.annotations.keys().any(|key| key.starts_with(INCLUDE))
}

/// Adds the annotation of the profile, unless there is one of any profile.
pub(super) fn mark(object: &mut Value, profile: &str) {
    let Some(metadata) = object.as_object_mut().map(|it| it.entry("metadata").or_insert_with(|| json!({}))) else {
        return;
    };
    let annotations = metadata.as_object_mut().map(|it| it.entry("annotations").or_insert_with(|| json!({})));
    if let Some(annotations) = annotations {
        if annotations.is_null() {
            *annotations = json!({});
        }
        let annotations = annotations.as_object_mut();
        if let Some(annotations) = annotations.filter(|it| !it.keys().any(|key| key.starts_with(INCLUDE))) {
            annotations.insert(format!("{INCLUDE}{profile}"), json!("true"));
        }
    }
}

/// The objects of a file, with those marked that are not. JSON is YAML, and says the same to every reader.
pub(super) fn marked(manifests: &[impl AsRef<Manifest>], profile: &str) -> Result<String, String> {
    let mut text = String::new();
    for manifest in manifests {
        let mut object = manifest.as_ref().object().map_err(|error| error.to_string())?;
        mark(&mut object, profile);
        let object = serde_json::to_string_pretty(&object).map_err(|error| error.to_string())?;
        text.push_str(&format!("---\n{object}\n"));
    }
    Ok(text)
}
