//! What is kept current of the cluster all the time.

use super::settings::Settings;
use super::views::{
    AccountView, ApiView, CatalogPodView, DefaultsView, HubView, NamespaceView, OperatorView, PodView, PolicyView,
    ServiceView, SliceView, SourceView,
};
use crate::cluster::followed::{Followed, View};
use crate::cluster::watcher::Selector;
use crate::cluster::{Clients, Kind};
use crate::object::cluster_operator::ClusterOperator;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::operator_hub::{self, OperatorHub};
use crate::olm::api::package_manifest;
use crate::olm::endpoints;
use crate::olm::source::hub;
use crate::olm::work::follow::{Follow, by_id};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The label of the pods of this process, and its value.
const PODS: &str = "app=olm-operator";

#[derive(Clone)]
pub(super) struct Live {
    pub sources: Arc<Followed<SourceView>>,
    pub services: Arc<Followed<ServiceView>>,
    pub slices: Arc<Followed<SliceView>>,
    /// Of this process.
    pub pods: Arc<Followed<PodView>>,
    /// What is made for catalogs that pods serve.
    pub catalog_pods: Arc<Followed<CatalogPodView>>,
    pub accounts: Arc<Followed<AccountView>>,
    pub policies: Arc<Followed<PolicyView>>,
    pub namespaces: Arc<Followed<NamespaceView>>,
    pub hub: Arc<Followed<HubView>>,
    pub defaults: Arc<Followed<DefaultsView>>,
    pub packages: Arc<Followed<ApiView>>,
    /// By their names.
    pub operators: BTreeMap<String, Arc<Followed<OperatorView>>>,
}

pub(super) fn source_kind() -> Kind {
    Kind::of::<CatalogSource>(true)
}

pub(super) fn hub_kind() -> Kind {
    Kind::of::<OperatorHub>(false)
}

pub(super) fn operator_kind() -> Kind {
    Kind::of::<ClusterOperator>(false)
}

pub(super) fn service_kind() -> Kind {
    Kind::known("", "v1", "Service", "services", true)
}

pub(super) fn slice_kind() -> Kind {
    Kind::known("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true)
}

pub(super) fn account_kind() -> Kind {
    Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true)
}

pub(super) fn policy_kind() -> Kind {
    Kind::known("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true)
}

impl Live {
    pub(super) fn start(
        settings: &Settings,
        clients: &Clients,
        changed: &Arc<Notify>,
        stop: &CancellationToken,
    ) -> Live {
        let labelled = || Selector::Labels(endpoints::selector());
        let follow = Follow { clients, changed, stop };
        let name = |name: &str| Selector::Name(name.to_owned());
        let api = Kind::known("apiregistration.k8s.io", "v1", "APIService", "apiservices", false);
        let api_name = format!("{}.{}", package_manifest::VERSION, package_manifest::GROUP);
        Live {
            sources: follow.start_each(source_kind(), "", Selector::All),
            services: follow.start(service_kind(), "", labelled()),
            slices: follow.start(slice_kind(), "", labelled()),
            catalog_pods: follow.start(Kind::pod(), "", labelled()),
            accounts: follow.start(account_kind(), "", labelled()),
            policies: follow.start(policy_kind(), "", labelled()),
            namespaces: follow.start(Kind::known("", "v1", "Namespace", "namespaces", false), "", Selector::All),
            pods: follow.start(Kind::pod(), &settings.namespace, Selector::Labels(PODS.to_owned())),
            hub: follow.start(hub_kind(), "", name(operator_hub::NAME)),
            defaults: follow.start_each(Kind::config_map(), &settings.global_namespace, name(hub::CONFIG_MAP)),
            packages: follow.start(api, "", name(&api_name)),
            operators: settings
                .operators
                .names()
                .map(|operator| (operator.to_owned(), follow.start(operator_kind(), "", name(operator))))
                .collect(),
        }
    }
}

impl Live {
    /// The kinds of the platform that the server does not have; `None` before that is known.
    pub(super) fn missing(&self) -> Option<BTreeSet<String>> {
        let hub = all(&self.hub).map(|_| (self.hub.is_absent(), hub_kind().kind))?;
        let operators = self.operators.values();
        let operators = operators.map(|it| all(it).map(|_| (it.is_absent(), operator_kind().kind)));
        let all: Vec<(bool, String)> = operators.collect::<Option<_>>()?;
        Some(all.into_iter().chain([hub]).filter_map(|(absent, kind)| absent.then_some(kind)).collect())
    }
}

/// All views of a kind by namespace and name. A kind that the server does not have has none; `None` before that is known.
pub(super) fn all<V: View>(followed: &Followed<V>) -> Option<BTreeMap<(String, String), Arc<V>>> {
    known(followed).or_else(|| followed.is_absent().then(BTreeMap::new))
}

/// The same, but `None` as long as the server does not have the kind.
pub(super) fn known<V: View>(followed: &Followed<V>) -> Option<BTreeMap<(String, String), Arc<V>>> {
    by_id(followed)
}

/// The only view; `Some(None)` if there is none, or no such kind.
pub(super) fn only<V: View>(followed: &Followed<V>) -> Option<Option<Arc<V>>> {
    Some(all(followed)?.into_values().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_that_is_not_served_is_not_taken_for_one_without_objects_where_that_matters() {
        let absent = Followed::<SourceView>::absent();
        assert_eq!(all(&absent).map(|all| all.len()), Some(0));
        assert!(known(&absent).is_none());
        let empty = Followed::<SourceView>::with([]);
        assert_eq!(known(&empty).map(|all| all.len()), Some(0));
    }
}
