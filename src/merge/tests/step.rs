//! Manifests that are only created, and manifests that delete.

use super::*;
use crate::object::manifest::{Manifest, ObjectId, Origin};
use std::collections::BTreeMap;

const CREATE_ONLY: &str = "release.openshift.io/create-only";
const DELETE: &str = "release.openshift.io/delete";

fn decided(live: Option<&Value>, annotation: (&str, &str)) -> Result<Step, MergeError> {
    let (key, value) = annotation;
    let manifest = Manifest {
        origin: Origin::Release,
        file: "a.yaml".into(),
        index_in_file: 0,
        id: ObjectId::new("", "ConfigMap", "ns", "a"),
        api_version: "v1".into(),
        annotations: BTreeMap::from([(key.to_owned(), value.to_owned())]),
        raw: (&b"{}"[..]).into(),
    };
    step(live, &manifest, US, &|| None, || Ok(object("desired")))
}

fn object(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}, "data": {"a": data}})
}

#[test]
fn create_only_is_created_and_never_modified() {
    for value in ["true", "True", "TRUE"] {
        assert_eq!(decided(None, (CREATE_ONLY, value)), Ok(Step::Create(object("desired"))), "{value}");
        assert_eq!(
            decided(Some(&object("drifted")), (CREATE_ONLY, value)),
            Ok(Step::Skip(Skip::CreateOnly)),
            "{value}"
        );
    }
    let repaired = decided(Some(&object("drifted")), (CREATE_ONLY, "false"));
    assert!(matches!(repaired, Ok(Step::Change { .. })), "{repaired:?}");
}

/// An object that reappears is deleted again.
#[test]
fn deletion_depends_on_the_live_object() {
    let present = object("x");
    let mut terminating = present.clone();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let states = [
        (Some(&present), Step::Delete),
        (Some(&terminating), Step::Skip(Skip::Terminating)),
        (None, Step::Skip(Skip::Absent)),
        (Some(&present), Step::Delete),
    ];
    for (live, expected) in states {
        assert_eq!(decided(live, (DELETE, "true")), Ok(expected));
    }
}

/// It neither deletes nor applies the object.
#[test]
fn invalid_value_of_the_deletion_annotation_is_an_error() {
    for value in ["True", "false", "yes", ""] {
        for live in [None, Some(&object("x"))] {
            let error = decided(live, (DELETE, value)).unwrap_err().to_string();
            assert!(error.contains(DELETE), "{value}: {error}");
        }
    }
}
