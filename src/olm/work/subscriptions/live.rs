//! What is kept current of the cluster for Subscriptions.

use super::views::SubscriptionView;
use crate::cluster::followed::Followed;
use crate::cluster::watcher::Selector;
use crate::cluster::{Clients, Kind};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, Plan};
use crate::olm::work::follow::{Follow, by_namespace, originals};
use crate::olm::work::part::Part;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(super) struct Live {
    pub subscriptions: Arc<Followed<SubscriptionView>>,
    /// Without those that have the label of copies.
    pub csvs: Arc<Followed<Part<Csv>>>,
    pub groups: Arc<Followed<Part<Group>>>,
    pub plans: Arc<Followed<Part<Plan>>>,
}

pub(super) fn subscription_kind() -> Kind {
    Kind::of::<Subscription>(true)
}

pub(super) fn csv_kind() -> Kind {
    Kind::of::<ClusterServiceVersion>(true)
}

pub(super) fn plan_kind() -> Kind {
    Kind::of::<InstallPlan>(true)
}

impl Live {
    pub(super) fn start(clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> Live {
        let follow = Follow { clients, changed, stop };
        Live {
            subscriptions: follow.start_each(subscription_kind(), "", Selector::All),
            csvs: follow.start_each(csv_kind(), "", originals()),
            groups: follow.start_each(Kind::of::<OperatorGroup>(true), "", Selector::All),
            plans: follow.start_each(plan_kind(), "", Selector::All),
        }
    }

    /// All objects by namespace, in the order of their names; `None` before all of them are known.
    pub(super) fn all(&self) -> Option<All> {
        let mut csvs = by_namespace(&self.csvs, |view| view.part.clone())?;
        csvs.values_mut().for_each(|all| all.retain(|csv| !csv.is_copy));
        Some(All {
            subscriptions: by_namespace(&self.subscriptions, |view| view.0.clone())?,
            csvs,
            groups: by_namespace(&self.groups, |view| view.part.clone())?,
            plans: by_namespace(&self.plans, |view| view.part.clone())?,
        })
    }
}

type By<T> = BTreeMap<String, Vec<Arc<T>>>;

pub(super) struct All {
    pub subscriptions: By<Subscription>,
    pub csvs: By<Csv>,
    pub groups: By<Group>,
    pub plans: By<Plan>,
}
