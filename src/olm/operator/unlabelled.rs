//! Objects that another implementation has made for operators without the label by which watches select what was made for them.

use crate::olm::api::keys::label;
use crate::olm::operator::object::owners;
use crate::olm::operator::roles::GROUP_KIND;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

const CSV: &str = "ClusterServiceVersion";

/// A merge patch by which an object gets the label; `None` where it has the label with any value, was not made for an operator or a group,
/// or is being deleted. Labels or a reference name its owner. Exactly the object with this uid is patched.
pub(crate) fn patch(metadata: &ObjectMeta) -> Option<Value> {
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    let is_named = label(label::OWNER).is_some()
        && label(label::OWNER_NAMESPACE).is_some()
        && label(label::OWNER_KIND).is_some_and(|kind| [CSV, GROUP_KIND].contains(&kind));
    let is_made = is_named || !owners(metadata).is_empty();
    let lacks_it = label(label::MANAGED).is_none() && metadata.deletion_timestamp.is_none();
    (is_made && lacks_it).then(|| json!({"metadata": {"uid": metadata.uid, "labels": {label::MANAGED: "true"}}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(metadata: Value) -> Option<Value> {
        patch(&serde_json::from_value(metadata).unwrap())
    }

    fn owner(api_version: &str, kind: &str) -> Value {
        json!([{"apiVersion": api_version, "kind": kind, "name": "a.v1", "uid": "o"}])
    }

    fn labels(kind: &str) -> Value {
        json!({"olm.owner": "a.v1", "olm.owner.namespace": "shop", "olm.owner.kind": kind})
    }

    #[test]
    fn what_names_an_operator_or_a_group_as_its_owner_gets_the_label() {
        let expected = json!({"metadata": {"uid": "u", "labels": {"olm.managed": "true"}}});
        for metadata in [
            json!({"uid": "u", "labels": labels("ClusterServiceVersion")}),
            json!({"uid": "u", "labels": labels("OperatorGroup")}),
            json!({"uid": "u", "ownerReferences": owner("operators.coreos.com/v1alpha1", "ClusterServiceVersion")}),
        ] {
            assert_eq!(patched(metadata.clone()), Some(expected.clone()), "{metadata}");
        }
    }

    #[test]
    fn nothing_else_gets_it() {
        let mut has_it = labels("ClusterServiceVersion");
        has_it["olm.managed"] = json!("false");
        let mut going = json!({"uid": "u", "labels": labels("ClusterServiceVersion")});
        going["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for metadata in [
            json!({"uid": "u"}),
            json!({"uid": "u", "labels": has_it}),
            going,
            // It belongs to catalogs, and to others.
            json!({"uid": "u", "labels": labels("CatalogSource")}),
            json!({"uid": "u", "labels": {"olm.owner.kind": "ClusterServiceVersion"}}),
            json!({"uid": "u", "ownerReferences": owner("operators.coreos.com/v1alpha1", "CatalogSource")}),
            json!({"uid": "u", "ownerReferences": owner("example.com/v1", "ClusterServiceVersion")}),
        ] {
            assert_eq!(patched(metadata.clone()), None, "{metadata}");
        }
    }
}
