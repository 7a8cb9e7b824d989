//! Most fields of a Job cannot be changed, so that a Job with others is deleted and runs again. A webhook that rewrites the
//! pods of Jobs must not cause that: it would happen at every look. So a Job says what it was created from, and as long
//! as that is what the release asks for, whatever differs in it was changed on its way.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Hash of the spec that the Job was created from.
const CREATED_FROM: &str = "release.openshift.io/created-from-spec";
const POINTER: &str = "/metadata/annotations/release.openshift.io~1created-from-spec";

/// Fields that the API server does not let change.
pub(super) const IMMUTABLE: &[&str] = &[
    "spec.template",
    "spec.selector",
    "spec.manualSelector",
    "spec.completions",
    "spec.completionMode",
    "spec.podFailurePolicy",
    "spec.backoffLimitPerIndex",
    "spec.successPolicy",
    "spec.managedBy",
];

/// Adds what the Job is created from.
pub(super) fn record(job: &mut Value) {
    let spec = job.get("spec").map(Value::to_string).unwrap_or_default();
    let hash = Sha256::digest(spec.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    let annotations = job.get_mut("metadata").and_then(Value::as_object_mut);
    let annotations = annotations.map(|m| m.entry("annotations").or_insert_with(|| Value::Object(Default::default())));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert(CREATED_FROM.to_owned(), hash.into());
    }
}

/// The desired Job, with the immutable fields of a live one that was created from the same spec.
pub(super) fn keep_immutable<'a>(live: &Value, desired: &'a Value) -> Cow<'a, Value> {
    let same = desired.pointer(POINTER).is_some_and(|hash| live.pointer(POINTER) == Some(hash));
    if !same {
        return Cow::Borrowed(desired);
    }
    let mut kept = desired.clone();
    let Some(spec) = kept.get_mut("spec").and_then(Value::as_object_mut) else { return Cow::Borrowed(desired) };
    for field in IMMUTABLE.iter().filter_map(|path| path.strip_prefix("spec.")) {
        match live.get("spec").and_then(|spec| spec.get(field)) {
            Some(value) => drop(spec.insert(field.to_owned(), value.clone())),
            None => drop(spec.remove(field)),
        }
    }
    Cow::Owned(kept)
}
