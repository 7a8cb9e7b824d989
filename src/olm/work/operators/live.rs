//! What is kept current of the cluster all the time.

use super::views::{
    AccountView, BindingView, ComponentView, ConditionView, ConfigView, CsvView, DefinitionView, DeploymentView,
    GroupView, NamespaceView, ProxyView, RoleView, SecretView, ServiceView, SubscriberView,
};
use crate::cluster::followed::{Followed, View, Views};
use crate::cluster::watcher::Selector;
use crate::cluster::{Clients, Kind};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::label;
use crate::olm::api::olm_config::OLMConfig;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::operator::component;
use crate::olm::operator::definition::Definition;
use crate::olm::work::follow::{Follow, originals};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(crate) struct Live {
    /// Without those that have the label of copies.
    pub csvs: Arc<Followed<CsvView>>,
    pub groups: Arc<Followed<GroupView>>,
    pub conditions: Arc<Followed<ConditionView>>,
    pub configs: Arc<Followed<ConfigView>>,
    pub namespaces: Arc<Followed<NamespaceView>>,
    /// Those that were made here.
    pub deployments: Arc<Followed<DeploymentView>>,
    pub definitions: Arc<Followed<DefinitionView>>,
    pub api_services: Arc<Followed<ServiceView>>,
    pub accounts: Arc<Followed<AccountView>>,
    pub roles: Arc<Followed<RoleView<false>>>,
    pub bindings: Arc<Followed<BindingView<false>>>,
    pub cluster_roles: Arc<Followed<RoleView<true>>>,
    pub cluster_bindings: Arc<Followed<BindingView<true>>>,
    pub subscribers: Arc<Followed<SubscriberView>>,
    /// The only one has no other name than `cluster`.
    pub proxies: Arc<Followed<ProxyView>>,
    // Those that were made here.
    pub services: Arc<Followed<ComponentView<{ component::Kind::Service as usize }>>>,
    pub mutating: Arc<Followed<ComponentView<{ component::Kind::MutatingWebhookConfiguration as usize }>>>,
    pub validating: Arc<Followed<ComponentView<{ component::Kind::ValidatingWebhookConfiguration as usize }>>>,
    pub secrets: Arc<Followed<SecretView>>,
}

pub(super) fn csv_kind() -> Kind {
    Kind::of::<ClusterServiceVersion>(true)
}

pub(super) fn group_kind() -> Kind {
    Kind::of::<OperatorGroup>(true)
}

pub(super) fn condition_kind() -> Kind {
    Kind::of::<OperatorCondition>(true)
}

pub(super) fn config_kind() -> Kind {
    Kind::of::<OLMConfig>(false)
}

pub(super) fn namespace_kind() -> Kind {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

pub(super) fn deployment_kind() -> Kind {
    Kind::known("apps", "v1", "Deployment", "deployments", true)
}

pub(super) fn secret_kind() -> Kind {
    Kind::known("", "v1", "Secret", "secrets", true)
}

pub(super) fn definition_kind() -> Kind {
    Kind::of::<Definition>(false)
}

/// Of objects beside Deployments.
pub(super) fn component_kind(kind: component::Kind) -> Kind {
    let (group, name, plural) = kind.names();
    Kind::known(group, "v1", name, plural, kind.is_namespaced())
}

impl Live {
    pub(super) fn start(clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> Live {
        let follow = Follow { clients, changed, stop };
        let managed = || Selector::Labels(format!("{}=true", label::MANAGED));
        let proxies = Kind::known("config.openshift.io", "v1", "Proxy", "proxies", false);
        let kind = component_kind;
        let accounts = Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true);
        Live {
            csvs: follow.start_each(csv_kind(), "", originals()),
            groups: follow.start_each(group_kind(), "", Selector::All),
            conditions: follow.start_each(condition_kind(), "", Selector::All),
            configs: follow.start_each(config_kind(), "", Selector::All),
            namespaces: follow.start(namespace_kind(), "", Selector::All),
            deployments: follow.start(deployment_kind(), "", managed()),
            definitions: follow.start(definition_kind(), "", Selector::All),
            api_services: follow.start(kind(component::Kind::ApiService), "", Selector::All),
            accounts: follow.start(accounts, "", Selector::All),
            roles: follow.start(kind(component::Kind::Role), "", Selector::All),
            bindings: follow.start(kind(component::Kind::RoleBinding), "", Selector::All),
            cluster_roles: follow.start(kind(component::Kind::ClusterRole), "", Selector::All),
            cluster_bindings: follow.start(kind(component::Kind::ClusterRoleBinding), "", Selector::All),
            subscribers: follow.start_each(Kind::of::<Subscription>(true), "", Selector::All),
            proxies: follow.start(proxies, "", Selector::All),
            services: follow.start(kind(component::Kind::Service), "", managed()),
            mutating: follow.start(kind(component::Kind::MutatingWebhookConfiguration), "", managed()),
            validating: follow.start(kind(component::Kind::ValidatingWebhookConfiguration), "", managed()),
            secrets: follow.start_metadata(secret_kind(), managed()),
        }
    }

    /// ClusterServiceVersions that are no copies, once all are known.
    pub(super) fn originals(&self) -> Option<Views<CsvView>> {
        let mut csvs = self.csvs.all()?;
        if csvs.values().any(|it| it.0.is_copy()) {
            Arc::make_mut(&mut csvs).retain(|_, it| !it.0.is_copy());
        }
        Some(csvs)
    }

    /// Why what is to be known before anything is decided cannot be read, kind by kind.
    pub(super) fn unread(&self) -> Vec<String> {
        fn why<V: View>(followed: &Followed<V>) -> Option<String> {
            followed.error().filter(|_| !followed.is_ready())
        }
        let all = [
            why(&self.csvs),
            why(&self.groups),
            why(&self.conditions),
            why(&self.configs).filter(|_| !self.configs.is_absent()),
            why(&self.namespaces),
            why(&self.deployments),
            why(&self.definitions),
            why(&self.api_services),
            why(&self.accounts),
            why(&self.roles),
            why(&self.bindings),
            why(&self.cluster_roles),
            why(&self.cluster_bindings),
            why(&self.subscribers),
            why(&self.proxies).filter(|_| !self.proxies.is_absent()),
            why(&self.services),
            why(&self.mutating),
            why(&self.validating),
            why(&self.secrets),
        ];
        all.into_iter().flatten().collect()
    }

    /// Nothing is followed: who has made it tells of objects.
    pub(crate) fn detached() -> Live {
        Live {
            csvs: Followed::detached(),
            groups: Followed::detached(),
            conditions: Followed::detached(),
            configs: Followed::detached(),
            namespaces: Followed::detached(),
            deployments: Followed::detached(),
            definitions: Followed::detached(),
            api_services: Followed::detached(),
            accounts: Followed::detached(),
            roles: Followed::detached(),
            bindings: Followed::detached(),
            cluster_roles: Followed::detached(),
            cluster_bindings: Followed::detached(),
            subscribers: Followed::detached(),
            proxies: Followed::detached(),
            services: Followed::detached(),
            mutating: Followed::detached(),
            validating: Followed::detached(),
            secrets: Followed::detached(),
        }
    }

    /// An object as the API server has answered it.
    pub(crate) fn on_component(&self, kind: component::Kind, answer: Value) {
        match kind {
            component::Kind::Service => self.services.on_answer(answer),
            component::Kind::Role => self.roles.on_answer(answer),
            component::Kind::RoleBinding => self.bindings.on_answer(answer),
            component::Kind::ClusterRole => self.cluster_roles.on_answer(answer),
            component::Kind::ClusterRoleBinding => self.cluster_bindings.on_answer(answer),
            component::Kind::ApiService => self.api_services.on_answer(answer),
            component::Kind::MutatingWebhookConfiguration => self.mutating.on_answer(answer),
            component::Kind::ValidatingWebhookConfiguration => self.validating.on_answer(answer),
        }
    }
}
