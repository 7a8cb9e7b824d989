//! What is kept current of the cluster for Subscriptions.

use super::views::{CsvView, GroupView, PlanView, SubscriptionView};
use crate::cluster::followed::{Followed, View};
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{Clients, Kind};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::keys::label;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(super) struct Live {
    pub subscriptions: Arc<Followed<SubscriptionView>>,
    /// Without copies.
    pub csvs: Arc<Followed<CsvView>>,
    pub groups: Arc<Followed<GroupView>>,
    pub plans: Arc<Followed<PlanView>>,
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
        fn follow<V: View>(
            (clients, changed, stop): (&Clients, &Arc<Notify>, &CancellationToken),
            kind: Kind,
            selector: Selector,
        ) -> Arc<Followed<V>> {
            Followed::start_each(clients, Selection::new(kind, "", selector), changed.clone(), stop)
        }
        let all = (clients, changed, stop);
        let originals = Selector::Labels(format!("!{}", label::COPIED_FROM));
        Live {
            subscriptions: follow(all, subscription_kind(), Selector::All),
            csvs: follow(all, csv_kind(), originals),
            groups: follow(all, Kind::of::<OperatorGroup>(true), Selector::All),
            plans: follow(all, plan_kind(), Selector::All),
        }
    }

    /// All objects by namespace, in the order of their names; `None` before all of them are known.
    pub(super) fn all(&self) -> Option<All> {
        Some(All {
            subscriptions: by_namespace(&self.subscriptions, |view| view.0.clone())?,
            csvs: by_namespace(&self.csvs, |view| view.part.clone())?,
            groups: by_namespace(&self.groups, |view| view.part.clone())?,
            plans: by_namespace(&self.plans, |view| view.part.clone())?,
        })
    }
}

type By<T> = BTreeMap<String, Vec<Arc<T>>>;

pub(super) struct All {
    pub subscriptions: By<Subscription>,
    pub csvs: By<crate::olm::subscription::installed::Csv>,
    pub groups: By<crate::olm::subscription::plan::Group>,
    pub plans: By<crate::olm::subscription::plan::Plan>,
}

fn by_namespace<V: View, T>(followed: &Followed<V>, part: impl Fn(&V) -> Arc<T>) -> Option<By<T>> {
    let mut all: By<T> = BTreeMap::new();
    for (name, view) in followed.all()? {
        let namespace = name.split_once('/').map_or("", |(namespace, _)| namespace);
        all.entry(namespace.to_owned()).or_default().push(part(&view));
    }
    Some(all)
}
