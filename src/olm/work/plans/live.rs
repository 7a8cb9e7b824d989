//! What is kept current of the cluster for plans.

use super::views::{Account, PlanView, Served};
use crate::cluster::followed::Followed;
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{Clients, Kind};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::definition::Definition;
use crate::olm::plan::group::{self, Group};
use crate::olm::plan::step::Csv;
use crate::olm::work::follow::{Follow, by_namespace, originals};
use crate::olm::work::part::Part;
use k8s_openapi::api::core::v1::ServiceAccount;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(super) struct Live {
    clients: Arc<Clients>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    pub plans: Arc<Followed<PlanView>>,
    /// Without those that have the label of copies.
    pub csvs: Arc<Followed<Part<Csv>>>,
    pub groups: Arc<Followed<Part<Group>>>,
    pub definitions: Arc<Followed<Part<Served>>>,
    /// From the first group on that names an account.
    accounts: Arc<OnceLock<Arc<Followed<Part<Account>>>>>,
}

pub(super) fn csv_kind() -> Kind {
    Kind::of::<ClusterServiceVersion>(true)
}

pub(super) fn plan_kind() -> Kind {
    Kind::of::<InstallPlan>(true)
}

pub(super) fn definition_kind() -> Kind {
    Kind::of::<Definition>(false)
}

type By<T> = BTreeMap<String, Vec<T>>;

impl Live {
    pub(super) fn start(clients: &Arc<Clients>, changed: &Arc<Notify>, stop: &CancellationToken) -> Live {
        let follow = Follow { clients, changed, stop };
        Live {
            plans: follow.start_each(plan_kind(), "", Selector::All),
            csvs: follow.start_each(csv_kind(), "", originals()),
            groups: follow.start_each(Kind::of::<OperatorGroup>(true), "", Selector::All),
            definitions: follow.start_each(definition_kind(), "", Selector::All),
            accounts: Arc::default(),
            clients: clients.clone(),
            changed: changed.clone(),
            stop: stop.clone(),
        }
    }

    /// Plans and groups by namespace; `None` before everything is known.
    pub(super) fn all(&self) -> Option<(By<Arc<PlanView>>, By<Group>)> {
        let (_csvs, _definitions) = (self.csvs.all()?, self.definitions.all()?);
        let plans = by_namespace(&self.plans, Arc::clone)?;
        let groups = by_namespace(&self.groups, |group| (*group.part).clone())?;
        Some((plans, groups))
    }

    /// Of the account that the one group names.
    pub(super) fn account(&self, groups: &[Group]) -> group::Account {
        let [Group { namespace, account, .. }] = groups else { return group::Account::None };
        if account.is_empty() {
            return group::Account::None;
        }
        let accounts = self.accounts.get_or_init(|| {
            let kind = Kind::of::<ServiceAccount>(true);
            let all = Selection::new(kind, "", Selector::All);
            Followed::start(&self.clients, all, self.changed.clone(), self.stop.clone())
        });
        match accounts.all() {
            None => group::Account::NotKnownYet,
            Some(known) if known.contains_key(&format!("{namespace}/{account}")) => group::Account::Exists,
            Some(_) => group::Account::Missing,
        }
    }

    /// ClusterServiceVersions of all namespaces; copies are none.
    pub(super) fn csvs(&self) -> Vec<Arc<Csv>> {
        let all = self.csvs.all().unwrap_or_default();
        all.values().map(|csv| csv.part.clone()).filter(|csv| !csv.name.is_empty()).collect()
    }

    /// What is known of these definitions.
    pub(super) fn served(&self, name: &str) -> Served {
        self.definitions.get(name).map(|it| (*it.part).clone()).unwrap_or_default()
    }
}
