//! What is kept of the objects that are followed.

use super::whole::WholeDeployment;
use crate::cluster::followed::View;
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::label;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::definition::Definition as DefinitionObject;
use crate::olm::operator::requirements::{Account, ApiService, Definition};
use crate::olm::operator::rights::Rules;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Csv = ClusterServiceVersion;

fn version(metadata: &ObjectMeta) -> String {
    metadata.resource_version.clone().unwrap_or_default()
}

fn uid(metadata: &ObjectMeta) -> String {
    metadata.uid.clone().unwrap_or_default()
}

/// Objects whose every change counts.
macro_rules! whole {
    ($($view:ident of $object:ident, without $drop:expr;)+) => {$(
        #[derive(Clone, Debug)]
        pub(super) struct $view(pub Arc<$object>);

        impl View for $view {
            type Object = $object;

            fn of(mut object: $object) -> Self {
                object.metadata.managed_fields = None;
                let drop: fn(&mut $object) = $drop;
                drop(&mut object);
                $view(Arc::new(object))
            }

            fn version(&self) -> &str {
                self.0.metadata.resource_version.as_deref().unwrap_or_default()
            }
        }

        impl PartialEq for $view {
            fn eq(&self, other: &Self) -> bool {
                let key = |view: &Self| (view.0.metadata.uid.clone(), view.0.metadata.resource_version.clone());
                key(self) == key(other)
            }
        }
    )+};
}

whole! {
    CsvView of ClusterServiceVersion, without for_people;
    GroupView of OperatorGroup, without |_| {};
    ConditionView of OperatorCondition, without |_| {};
}

/// What is only shown to people may be far larger than all the rest.
fn for_people(csv: &mut ClusterServiceVersion) {
    let spec = &mut csv.spec;
    spec.description.clear();
    spec.keywords.clear();
    spec.icon.clear();
    spec.links.clear();
    spec.maintainers.clear();
    let definitions = &mut spec.custom_resource_definitions;
    definitions.owned.iter_mut().chain(&mut definitions.required).for_each(|it| {
        it.description.clear();
        it.descriptors = Default::default();
    });
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct NamespaceView {
    version: String,
    pub labels: BTreeMap<String, String>,
}

impl View for NamespaceView {
    type Object = Namespace;

    fn of(object: Namespace) -> Self {
        NamespaceView { version: version(&object.metadata), labels: object.metadata.labels.unwrap_or_default() }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeploymentView {
    version: String,
    pub object: Arc<Value>,
    pub writers: Arc<Vec<Value>>,
    pub scaled: bool,
}

impl View for DeploymentView {
    type Object = WholeDeployment;

    fn of(object: WholeDeployment) -> Self {
        let (version, scaled) = (version(&object.metadata), object.is_scaled());
        let writers = Arc::new(object.writers());
        DeploymentView { version, writers, scaled, object: Arc::new(object.into_value()) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DefinitionView {
    version: String,
    pub definition: Definition,
}

impl View for DefinitionView {
    type Object = DefinitionObject;

    fn of(object: DefinitionObject) -> Self {
        let definition = object.required();
        DefinitionView { version: version(&object.metadata), definition }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceView {
    version: String,
    pub service: ApiService,
}

impl View for ServiceView {
    type Object = APIService;

    fn of(object: APIService) -> Self {
        let conditions = object.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_available = conditions.iter().any(|it| it.type_ == "Available" && it.status == "True");
        let service = ApiService { uid: uid(&object.metadata), is_available };
        ServiceView { version: version(&object.metadata), service }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct AccountView {
    version: String,
    pub account: Account,
}

impl View for AccountView {
    type Object = ServiceAccount;

    fn of(object: ServiceAccount) -> Self {
        let is_csv = |it: &&OwnerReference| {
            it.kind == "ClusterServiceVersion"
                && it.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
        };
        let owners = object.metadata.owner_references.iter().flatten().filter(is_csv).map(|it| it.uid.clone());
        AccountView { version: version(&object.metadata), account: Account { owners: owners.collect() } }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// Of an object that has no namespace and belongs to a ClusterServiceVersion: namespace and name of that.
fn owner(metadata: &ObjectMeta) -> Option<(String, String)> {
    let label = |key: &str| metadata.labels.as_ref()?.get(key).cloned();
    (label(label::OWNER_KIND)? == "ClusterServiceVersion")
        .then(|| Some((label(label::OWNER_NAMESPACE)?, label(label::OWNER)?)))
        .flatten()
}

/// A Role or ClusterRole.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RoleView<const CLUSTER: bool> {
    version: String,
    pub uid: String,
    pub owner: Option<(String, String)>,
    pub owners: Vec<OwnerReference>,
    pub rules: Rules,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BindingView<const CLUSTER: bool> {
    version: String,
    pub uid: String,
    pub owner: Option<(String, String)>,
    pub owners: Vec<OwnerReference>,
    pub role: RoleRef,
    pub subjects: Vec<Subject>,
}

macro_rules! rights {
    ($($role:ident $binding:ident $cluster:literal)+) => {$(
        impl View for RoleView<$cluster> {
            type Object = $role;

            fn of(object: $role) -> Self {
                let metadata = object.metadata;
                RoleView {
                    version: version(&metadata),
                    uid: uid(&metadata),
                    owner: owner(&metadata),
                    owners: metadata.owner_references.unwrap_or_default(),
                    rules: object.rules.unwrap_or_default().into(),
                }
            }

            fn version(&self) -> &str {
                &self.version
            }
        }

        impl View for BindingView<$cluster> {
            type Object = $binding;

            fn of(object: $binding) -> Self {
                let metadata = object.metadata;
                BindingView {
                    version: version(&metadata),
                    uid: uid(&metadata),
                    owner: owner(&metadata),
                    owners: metadata.owner_references.unwrap_or_default(),
                    role: object.role_ref,
                    subjects: object.subjects.unwrap_or_default(),
                }
            }

            fn version(&self) -> &str {
                &self.version
            }
        }
    )+};
}

rights! { Role RoleBinding false ClusterRole ClusterRoleBinding true }
