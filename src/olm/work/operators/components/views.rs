//! What is kept of the objects that are followed for components alone.

use crate::cluster::followed::View;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::keys::label;
use crate::olm::api::operator::{Operator, OperatorStatus};
use crate::olm::operator::object::{Live, Membership, conditions, fingerprint};
use crate::olm::work::operators::views::Belonging;
use crate::olm::work::part::Reduced;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::Deserialize;
use serde_json::json;

/// An Operator object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OperatorView {
    pub live: Live,
}

/// An Operator as it is read: its spec says nothing, and is missing from those that people write.
#[derive(Resource, Clone, Deserialize)]
#[resource(inherit = "Operator")]
pub(super) struct Read {
    metadata: ObjectMeta,
    status: Option<OperatorStatus>,
}

impl View for OperatorView {
    type Object = Read;

    fn of(object: Read) -> Self {
        let (metadata, status) = (object.metadata, object.status.unwrap_or_default());
        let is_managed = metadata.labels.as_ref().and_then(|labels| labels.get(label::MANAGED));
        let live = Live {
            uid: metadata.uid.unwrap_or_default(),
            version: metadata.resource_version.unwrap_or_default(),
            is_deleted: metadata.deletion_timestamp.is_some(),
            is_made: is_managed.is_some_and(|value| value == "true"),
            has_components: status.components.as_ref().is_some_and(|it| !it.refs.is_empty()),
            status: fingerprint(&status),
        };
        OperatorView { live }
    }

    fn version(&self) -> &str {
        &self.live.version
    }
}

/// How an InstallPlan belongs to operators.
#[derive(Debug, PartialEq)]
pub(super) struct PlanMembership(pub Belonging);

impl Reduced for PlanMembership {
    type Object = InstallPlan;

    fn reduced(object: &InstallPlan) -> Self {
        let conditions = || {
            let all = object.status.as_ref().map(|status| json!({"conditions": status.conditions}));
            conditions(all.as_ref())
        };
        PlanMembership(Membership::of(&object.metadata, conditions))
    }
}

/// The same of a ConfigMap, of which nothing but metadata is asked for.
#[derive(Debug, PartialEq)]
pub(super) struct ConfigMapMembership(pub Belonging);

impl Reduced for ConfigMapMembership {
    type Object = PartialObjectMeta<ConfigMap>;

    fn reduced(object: &PartialObjectMeta<ConfigMap>) -> Self {
        ConfigMapMembership(Membership::of(&object.metadata, Vec::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_that_somebody_writes_without_a_spec_is_read() {
        let written = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "Operator",
            "metadata": {"name": "etcd.team", "uid": "7", "resourceVersion": "3"},
        });
        let read: Read = serde_json::from_value(written).unwrap();
        let view = OperatorView::of(read);
        assert_eq!((&*view.live.uid, view.version(), view.live.has_components), ("7", "3", false));
    }
}
