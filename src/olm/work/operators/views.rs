//! What is kept of the objects that are followed.

use super::whole::Whole;
use crate::cluster::followed::View;
use crate::object::writers;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::olm_config::OLMConfig;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::operator::component;
use crate::olm::operator::definition::Definition as DefinitionObject;
use crate::olm::operator::deployment::config::{Proxy, Subscriber};
use crate::olm::operator::object::{Membership, conditions, owners};
use crate::olm::operator::requirements::{Account, ApiService, Definition};
use crate::olm::operator::rights::Rules;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceStatus;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Csv = ClusterServiceVersion;
/// Of an object that has to do with operators.
pub(crate) type Belonging = Option<Arc<Membership>>;

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
        pub(crate) struct $view(pub Arc<$object>);

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
    ConfigView of OLMConfig, without |_| {};
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
pub(crate) struct NamespaceView {
    version: String,
    pub labels: BTreeMap<String, String>,
    /// It is not being deleted.
    pub is_active: bool,
    pub membership: Belonging,
}

impl View for NamespaceView {
    type Object = Namespace;

    fn of(object: Namespace) -> Self {
        let (version, is_active) = (version(&object.metadata), object.metadata.deletion_timestamp.is_none());
        let membership = Membership::of(&object.metadata, || conditions(Some(&json!(object.status))));
        NamespaceView { version, is_active, membership, labels: object.metadata.labels.unwrap_or_default() }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// A Subscription as far as it counts for Deployments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubscriberView {
    version: String,
    pub subscriber: Subscriber,
    pub membership: Belonging,
}

impl View for SubscriberView {
    type Object = Subscription;

    fn of(object: Subscription) -> Self {
        let version = version(&object.metadata);
        let membership = Membership::of(&object.metadata, || conditions(Some(&json!(object.status))));
        let (current_csv, installed_csv) =
            object.status.map(|status| (status.current_csv, status.installed_csv)).unwrap_or_default();
        let name = object.metadata.name.unwrap_or_default();
        let (package, config) = (object.spec.name, object.spec.config);
        let subscriber = Subscriber { name, package, current_csv, installed_csv, config };
        SubscriberView { version, subscriber, membership }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// The proxy of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProxyView {
    version: String,
    pub proxy: Proxy,
}

impl View for ProxyView {
    type Object = Whole;

    fn of(object: Whole) -> Self {
        let version = version(&object.metadata);
        ProxyView { version, proxy: Proxy::of(&object.into_value(("config.openshift.io/v1", "Proxy"))) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeploymentView {
    version: String,
    pub object: Arc<Value>,
    pub writers: writers::Text,
    pub scaled: bool,
    pub membership: Belonging,
}

impl View for DeploymentView {
    type Object = Whole;

    fn of(object: Whole) -> Self {
        let (version, scaled) = (version(&object.metadata), object.is_scaled());
        let writers = object.writers();
        let membership = membership(&object);
        DeploymentView {
            version,
            writers,
            scaled,
            membership,
            object: Arc::new(object.into_value(("apps/v1", "Deployment"))),
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DefinitionView {
    version: String,
    pub definition: Definition,
    pub membership: Belonging,
}

impl View for DefinitionView {
    type Object = DefinitionObject;

    fn of(object: DefinitionObject) -> Self {
        let definition = object.required();
        let membership = Membership::of(&object.metadata, || object.conditions().to_vec());
        DefinitionView { version: version(&object.metadata), definition, membership }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServiceView {
    version: String,
    pub service: ApiService,
    pub made: Option<Arc<Value>>,
    pub membership: Belonging,
}

impl View for ServiceView {
    type Object = Whole;

    fn of(object: Whole) -> Self {
        let status: APIServiceStatus = object.field("status");
        let conditions = status.conditions.unwrap_or_default();
        let available = conditions.iter().find(|it| it.type_ == "Available");
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let message = available.map(|it| format!("{}: {}", text(&it.reason), text(&it.message)));
        let labels = serde_json::json!({"metadata": {"labels": object.metadata.labels}});
        let has_service = object.rest.get("spec").and_then(|spec| spec.get("service")).is_some_and(Value::is_object);
        let service = ApiService {
            uid: uid(&object.metadata),
            has_service,
            is_available: available.is_some_and(|it| it.status == "True"),
            message: message.unwrap_or_else(|| "the API server has not looked at it yet".to_owned()),
            since: available.and_then(|it| it.last_transition_time.as_ref()).map(|time| time.0),
            owner: component::Owner::of(&labels),
        };
        let version = version(&object.metadata);
        let membership = membership(&object);
        ServiceView { version, service, membership, made: made(component::Kind::ApiService, object) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// Of a Secret only metadata is kept, and nothing else is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SecretView {
    version: String,
    pub metadata: Arc<Value>,
    pub membership: Belonging,
}

impl View for SecretView {
    type Object = PartialObjectMeta<Secret>;

    fn of(object: PartialObjectMeta<Secret>) -> Self {
        let mut metadata = object.metadata;
        metadata.managed_fields = None;
        let version = version(&metadata);
        let membership = Membership::of(&metadata, Vec::new);
        SecretView { version, membership, metadata: Arc::new(serde_json::to_value(metadata).unwrap_or_default()) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AccountView {
    version: String,
    pub account: Account,
    pub membership: Belonging,
}

impl View for AccountView {
    type Object = ServiceAccount;

    fn of(object: ServiceAccount) -> Self {
        let account = Account { owners: owners(&object.metadata).into_iter().collect() };
        let membership = Membership::of(&object.metadata, Vec::new);
        AccountView { version: version(&object.metadata), account, membership }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

fn membership(object: &Whole) -> Belonging {
    Membership::of(&object.metadata, || conditions(object.rest.get("status")))
}

/// The object, where it was made for an operator or a group.
fn made(kind: component::Kind, object: Whole) -> Option<Arc<Value>> {
    let labels = object.metadata.labels.as_ref()?;
    let is_made = component::is_made(|key| labels.get(key).map(String::as_str));
    is_made.then(|| Arc::new(whole(kind, object)))
}

fn whole(kind: component::Kind, object: Whole) -> Value {
    let (group, name, _) = kind.names();
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    object.into_value((&version, name))
}

/// A Role or ClusterRole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoleView<const CLUSTER: bool> {
    version: String,
    pub rules: Rules,
    pub made: Option<Arc<Value>>,
    pub membership: Belonging,
}

impl<const CLUSTER: bool> View for RoleView<CLUSTER> {
    type Object = Whole;

    fn of(object: Whole) -> Self {
        let kind = if CLUSTER { component::Kind::ClusterRole } else { component::Kind::Role };
        let rules: Vec<PolicyRule> = object.field("rules");
        let (version, membership) = (version(&object.metadata), membership(&object));
        RoleView { version, rules: rules.into(), membership, made: made(kind, object) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BindingView<const CLUSTER: bool> {
    version: String,
    pub role: RoleRef,
    pub subjects: Vec<Subject>,
    pub made: Option<Arc<Value>>,
    pub membership: Belonging,
}

impl<const CLUSTER: bool> View for BindingView<CLUSTER> {
    type Object = Whole;

    fn of(object: Whole) -> Self {
        let kind = if CLUSTER { component::Kind::ClusterRoleBinding } else { component::Kind::RoleBinding };
        BindingView {
            version: version(&object.metadata),
            role: object.field("roleRef"),
            subjects: object.field("subjects"),
            membership: membership(&object),
            made: made(kind, object),
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// An object that was made for an operator or a group. `KIND`: its place in [`component::Kind::ALL`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComponentView<const KIND: usize> {
    version: String,
    pub object: Arc<Value>,
}

impl<const KIND: usize> View for ComponentView<KIND> {
    type Object = Whole;

    fn of(object: Whole) -> Self {
        let version = version(&object.metadata);
        let object = component::Kind::ALL.get(KIND).map(|kind| whole(*kind, object)).unwrap_or_default();
        ComponentView { version, object: Arc::new(object) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}
