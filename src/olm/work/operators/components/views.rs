//! What is kept of the objects that are followed for components alone.

use crate::cluster::followed::View;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::keys::label;
use crate::olm::api::operator::Operator;
use crate::olm::operator::object::{Live, Membership, conditions, fingerprint};
use crate::olm::work::operators::views::Belonging;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use serde_json::json;

/// An Operator object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OperatorView {
    pub live: Live,
}

impl View for OperatorView {
    type Object = Operator;

    fn of(object: Operator) -> Self {
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

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanView {
    version: String,
    pub membership: Belonging,
}

impl View for PlanView {
    type Object = InstallPlan;

    fn of(object: InstallPlan) -> Self {
        let conditions = || {
            let all = object.status.as_ref().map(|status| json!({"conditions": status.conditions}));
            conditions(all.as_ref())
        };
        let membership = Membership::of(&object.metadata, conditions);
        PlanView { version: object.metadata.resource_version.unwrap_or_default(), membership }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// Of a ConfigMap nothing but metadata is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConfigMapView {
    version: String,
    pub membership: Belonging,
}

impl View for ConfigMapView {
    type Object = PartialObjectMeta<ConfigMap>;

    fn of(object: PartialObjectMeta<ConfigMap>) -> Self {
        let membership = Membership::of(&object.metadata, Vec::new);
        ConfigMapView { version: object.metadata.resource_version.unwrap_or_default(), membership }
    }

    fn version(&self) -> &str {
        &self.version
    }
}
