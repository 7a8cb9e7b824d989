//! What is kept current of the cluster all the time.

use super::views::{
    AccountView, BindingView, ConditionView, CsvView, DefinitionView, DeploymentView, GroupView, NamespaceView,
    RoleView, ServiceView,
};
use crate::cluster::followed::Followed;
use crate::cluster::watcher::Selector;
use crate::cluster::{Clients, Kind};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::label;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::definition::Definition;
use crate::olm::work::follow::{Follow, originals};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(super) struct Live {
    /// Without copies.
    pub csvs: Arc<Followed<CsvView>>,
    pub groups: Arc<Followed<GroupView>>,
    pub conditions: Arc<Followed<ConditionView>>,
    pub namespaces: Arc<Followed<NamespaceView>>,
    /// Those that were made here.
    pub deployments: Arc<Followed<DeploymentView>>,
    pub definitions: Arc<Followed<DefinitionView>>,
    pub services: Arc<Followed<ServiceView>>,
    pub accounts: Arc<Followed<AccountView>>,
    pub roles: Arc<Followed<RoleView<false>>>,
    pub bindings: Arc<Followed<BindingView<false>>>,
    pub cluster_roles: Arc<Followed<RoleView<true>>>,
    pub cluster_bindings: Arc<Followed<BindingView<true>>>,
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

pub(super) fn deployment_kind() -> Kind {
    Kind::known("apps", "v1", "Deployment", "deployments", true)
}

fn rbac(kind: &str, plural: &str, namespaced: bool) -> Kind {
    Kind::known("rbac.authorization.k8s.io", "v1", kind, plural, namespaced)
}

pub(super) fn role_kind() -> Kind {
    rbac("Role", "roles", true)
}

pub(super) fn binding_kind() -> Kind {
    rbac("RoleBinding", "rolebindings", true)
}

pub(super) fn cluster_role_kind() -> Kind {
    rbac("ClusterRole", "clusterroles", false)
}

pub(super) fn cluster_binding_kind() -> Kind {
    rbac("ClusterRoleBinding", "clusterrolebindings", false)
}

impl Live {
    pub(super) fn start(clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> Live {
        let follow = Follow { clients, changed, stop };
        let managed = Selector::Labels(format!("{}=true", label::MANAGED));
        let definitions = Kind::of::<Definition>(false);
        let services = Kind::known("apiregistration.k8s.io", "v1", "APIService", "apiservices", false);
        let accounts = Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true);
        Live {
            csvs: follow.start_each(csv_kind(), "", originals()),
            groups: follow.start_each(group_kind(), "", Selector::All),
            conditions: follow.start_each(condition_kind(), "", Selector::All),
            namespaces: follow.start(Kind::known("", "v1", "Namespace", "namespaces", false), "", Selector::All),
            deployments: follow.start(deployment_kind(), "", managed),
            definitions: follow.start(definitions, "", Selector::All),
            services: follow.start(services, "", Selector::All),
            accounts: follow.start(accounts, "", Selector::All),
            roles: follow.start(role_kind(), "", Selector::All),
            bindings: follow.start(binding_kind(), "", Selector::All),
            cluster_roles: follow.start(cluster_role_kind(), "", Selector::All),
            cluster_bindings: follow.start(cluster_binding_kind(), "", Selector::All),
        }
    }
}
