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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn subscription_is_another_one_with_another_version_or_uid() {
        let view = |uid: &str, version: &str, channel: &str| {
            let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"name": "ink", "uid": uid, "resourceVersion": version, "generation": 1,
                    "managedFields": [{"manager": "somebody"}]},
                "spec": {"name": "ink", "channel": channel, "source": "main", "sourceNamespace": "shop"}});
            SubscriptionView::of(serde_json::from_value(object).unwrap())
        };
        assert_eq!(view("a", "7", "stable"), view("a", "7", "stable"));
        assert_ne!(view("a", "7", "stable"), view("a", "8", "stable"), "its status may have changed");
        assert_ne!(view("a", "7", "stable"), view("b", "7", "stable"));
        assert_eq!(view("a", "7", "stable").version(), "7");
        assert_eq!(view("a", "7", "stable").0.metadata.managed_fields, None);
    }
}
