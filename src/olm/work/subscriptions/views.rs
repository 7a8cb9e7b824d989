//! What is kept of the objects that Subscriptions are about.

use crate::cluster::followed::View;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, Plan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

fn version(metadata: &ObjectMeta) -> String {
    metadata.resource_version.clone().unwrap_or_default()
}

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

/// What counts of an object, and its resourceVersion. Changes of what does not count are none.
macro_rules! reduced {
    ($($view:ident of $object:ident is $part:ident)+) => {$(
        #[derive(Clone, Debug)]
        pub(super) struct $view {
            version: String,
            pub part: Arc<$part>,
        }

        impl View for $view {
            type Object = $object;

            fn of(object: $object) -> Self {
                $view { version: version(&object.metadata), part: Arc::new($part::of(&object)) }
            }

            fn version(&self) -> &str {
                &self.version
            }
        }

        impl PartialEq for $view {
            fn eq(&self, other: &Self) -> bool {
                self.part == other.part
            }
        }
    )+};
}

reduced! {
    CsvView of ClusterServiceVersion is Csv
    GroupView of OperatorGroup is Group
    PlanView of InstallPlan is Plan
}
