//! What one manifest needs, by what is there: create-only and deletion (payload-and-apply §5.2, §5.11). State comes from
//! the cluster alone, so that every mode and a process that begins anew decide alike.

use super::*;
use crate::payload::{Manifest, ObjectId, Origin};
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
    step(live, &manifest, || Ok(object("wanted")))
}

fn object(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}, "data": {"a": data}})
}

/// §10.23: created where it is not there, left alone whatever it has become.
#[test]
fn create_only_is_created_and_never_modified() {
    for value in ["true", "True", "TRUE"] {
        assert_eq!(decided(None, (CREATE_ONLY, value)), Ok(Step::Create(object("wanted"))), "{value}");
        assert_eq!(
            decided(Some(&object("drifted")), (CREATE_ONLY, value)),
            Ok(Step::Leave(Left::CreateOnly)),
            "{value}"
        );
    }
    let repaired = decided(Some(&object("drifted")), (CREATE_ONLY, "false"));
    assert!(matches!(repaired, Ok(Step::Change { .. })), "{repaired:?}");
}

/// §10.23: deleted when it is there, waited for while it goes, done when it is gone, deleted again when it is back.
#[test]
fn deletion_goes_by_what_is_there() {
    let there = object("x");
    let mut going = there.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let story = [
        (Some(&there), Step::Delete),
        (Some(&going), Step::Leave(Left::Going)),
        (None, Step::Leave(Left::Gone)),
        (Some(&there), Step::Delete),
    ];
    for (live, expected) in story {
        assert_eq!(decided(live, (DELETE, "true")), Ok(expected));
    }
}

/// §10.23: any other value deletes nothing and applies nothing.
#[test]
fn an_invalid_value_for_deletion_is_an_error() {
    for value in ["True", "false", "yes", ""] {
        for live in [None, Some(&object("x"))] {
            let error = decided(live, (DELETE, value)).unwrap_err().to_string();
            assert!(error.contains(DELETE), "{value}: {error}");
        }
    }
}
