//! What is kept of the objects that Subscriptions are about.

use crate::cluster::followed::View;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, Plan};
use crate::olm::work::part::Reduced;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct SubscriptionView(pub Arc<Subscription>);

impl View for SubscriptionView {
    type Object = Subscription;

    fn of(mut object: Subscription) -> Self {
        object.metadata.managed_fields = None;
        SubscriptionView(Arc::new(object))
    }

    fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

/// Two states of a Subscription are the same if the server has not changed it in between.
impl PartialEq for SubscriptionView {
    fn eq(&self, other: &Self) -> bool {
        let key = |view: &Self| (view.0.metadata.uid.clone(), view.0.metadata.resource_version.clone());
        key(self) == key(other)
    }
}

impl Reduced for Csv {
    type Object = ClusterServiceVersion;

    fn reduced(object: &ClusterServiceVersion) -> Csv {
        Csv::of(object)
    }
}

impl Reduced for Group {
    type Object = OperatorGroup;

    fn reduced(object: &OperatorGroup) -> Group {
        Group::of(object)
    }
}

impl Reduced for Plan {
    type Object = InstallPlan;

    fn reduced(object: &InstallPlan) -> Plan {
        Plan::of(object)
    }
}
