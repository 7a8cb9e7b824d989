//! The Operator object: which objects are components of an operator, what its status says of them, and when it comes and goes.

use crate::object::condition::ConditionStatus;
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::{ClusterServiceVersionStatus, Phase};
use crate::olm::api::condition::UpdatedCondition;
use crate::olm::api::keys::annotation::INSTALLED_ALONGSIDE;
use crate::olm::api::keys::label;
use crate::olm::api::operator::{Component, Components, OperatorStatus};
use crate::olm::components::{key_of, keys, name_of};
use crate::olm::names::{is_object_name, label_value};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const CSV: &str = "ClusterServiceVersion";
/// Bytes of a status as JSON. API servers take at most 1.5 MiB unless they are configured otherwise, and whoever labels objects says how
/// many there are.
const MAX_STATUS: usize = 1_000_000;

/// Kinds whose objects are components, in the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ApiService,
    ClusterRole,
    ClusterRoleBinding,
    ClusterServiceVersion,
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    InstallPlan,
    Namespace,
    OperatorCondition,
    Role,
    RoleBinding,
    Secret,
    ServiceAccount,
    Subscription,
}

impl Kind {
    #[cfg(test)]
    pub(super) const ALL: [Kind; 15] = [
        Kind::ApiService,
        Kind::ClusterRole,
        Kind::ClusterRoleBinding,
        Kind::ClusterServiceVersion,
        Kind::ConfigMap,
        Kind::CustomResourceDefinition,
        Kind::Deployment,
        Kind::InstallPlan,
        Kind::Namespace,
        Kind::OperatorCondition,
        Kind::Role,
        Kind::RoleBinding,
        Kind::Secret,
        Kind::ServiceAccount,
        Kind::Subscription,
    ];

    /// apiVersion and name.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        const RBAC: &str = "rbac.authorization.k8s.io/v1";
        const OPERATORS: &str = "operators.coreos.com/v1alpha1";
        match self {
            Kind::ApiService => ("apiregistration.k8s.io/v1", "APIService"),
            Kind::ClusterRole => (RBAC, "ClusterRole"),
            Kind::ClusterRoleBinding => (RBAC, "ClusterRoleBinding"),
            Kind::ClusterServiceVersion => (OPERATORS, CSV),
            Kind::ConfigMap => ("v1", "ConfigMap"),
            Kind::CustomResourceDefinition => ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            Kind::Deployment => ("apps/v1", "Deployment"),
            Kind::InstallPlan => (OPERATORS, "InstallPlan"),
            Kind::Namespace => ("v1", "Namespace"),
            Kind::OperatorCondition => ("operators.coreos.com/v2", "OperatorCondition"),
            Kind::Role => (RBAC, "Role"),
            Kind::RoleBinding => (RBAC, "RoleBinding"),
            Kind::Secret => ("v1", "Secret"),
            Kind::ServiceAccount => ("v1", "ServiceAccount"),
            Kind::Subscription => (OPERATORS, "Subscription"),
        }
    }
}

/// In the order in which a status names components.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub kind: Kind,
    /// Empty where its kind has none.
    pub namespace: String,
    pub name: String,
}

/// What an object says of the operators that it belongs to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Membership {
    /// Of the labels by which it is a component.
    pub keys: BTreeSet<String>,
    /// uids of ClusterServiceVersions that own it.
    owners: Vec<String>,
    /// Namespaces and names, as labels have them, of ClusterServiceVersions that it was made for.
    made_for: Vec<(String, String)>,
    /// Of its status, if it is a component.
    pub conditions: Vec<UpdatedCondition>,
}

impl Membership {
    /// `None` for what has nothing to do with any operator, which is most of a cluster.
    pub(crate) fn of(
        metadata: &ObjectMeta,
        conditions: impl FnOnce() -> Vec<UpdatedCondition>,
    ) -> Option<Arc<Membership>> {
        let keys = keys(metadata.labels.as_ref());
        let (owners, made_for) = (owners(metadata), made_for(metadata));
        if keys.is_empty() && owners.is_empty() && made_for.is_empty() {
            return None;
        }
        let conditions = if keys.is_empty() { Vec::new() } else { conditions() };
        Some(Arc::new(Membership { keys, owners, made_for, conditions }))
    }
}

/// uids of the ClusterServiceVersions that own an object.
pub(crate) fn owners(metadata: &ObjectMeta) -> Vec<String> {
    let group = |api_version: &str| api_version.split_once('/').is_some_and(|(group, _)| group == GROUP);
    let owners = metadata.owner_references.iter().flatten();
    owners.filter(|it| it.kind == CSV && group(&it.api_version)).map(|it| it.uid.clone()).collect()
}

fn made_for(metadata: &ObjectMeta) -> Vec<(String, String)> {
    let label = |key: &str| Some(metadata.labels.as_ref()?.get(key)?.as_str());
    // There is one for each namespace that an operator works in, and its ClusterServiceVersion there is a copy as well.
    if label(label::COPIED_FROM).is_some() {
        return Vec::new();
    }
    let owner = (label(label::OWNER_KIND) == Some(CSV)).then(|| (label(label::OWNER_NAMESPACE), label(label::OWNER)));
    let owner = owner.and_then(|(namespace, name)| Some((namespace?.to_owned(), name?.to_owned())));
    let annotations = metadata.annotations.iter().flatten();
    let alongside = annotations.filter(|(key, _)| key.starts_with(INSTALLED_ALONGSIDE)).filter_map(|(_, csv)| {
        let (namespace, name) = csv.split_once('/')?;
        Some((namespace.to_owned(), label_value(name)))
    });
    owner.into_iter().chain(alongside).collect()
}

/// The keys of ClusterServiceVersions, which everything that belongs to them has too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    by_uid: BTreeMap<String, BTreeSet<String>>,
    by_name: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Owners {
    /// One that is being deleted owns nothing any more.
    pub(crate) fn add(&mut self, metadata: &ObjectMeta) {
        let keys = keys(metadata.labels.as_ref());
        if keys.is_empty() || metadata.deletion_timestamp.is_some() {
            return;
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let name = (text(&metadata.namespace), label_value(metadata.name.as_deref().unwrap_or_default()));
        self.by_name.insert(name, keys.clone());
        self.by_uid.insert(text(&metadata.uid), keys);
    }

    /// The keys that an object lacks.
    pub(crate) fn lacking(&self, object: &Membership) -> BTreeSet<String> {
        let by_uid = object.owners.iter().filter_map(|uid| self.by_uid.get(uid));
        let by_name = object.made_for.iter().filter_map(|name| self.by_name.get(name));
        by_uid.chain(by_name).flatten().filter(|key| !object.keys.contains(*key)).cloned().collect()
    }
}

/// Those of a status, as far as they have the form of one.
pub(crate) fn conditions(status: Option<&Value>) -> Vec<UpdatedCondition> {
    let all = status.and_then(|status| status.get("conditions")?.as_array()).into_iter().flatten();
    all.filter_map(|it| UpdatedCondition::deserialize(it).ok()).collect()
}

/// The phase of a ClusterServiceVersion as its only condition.
pub(crate) fn phase(status: Option<&ClusterServiceVersionStatus>) -> Vec<UpdatedCondition> {
    let Some(status) = status.filter(|status| status.phase != Phase::None) else { return Vec::new() };
    let phase = serde_json::to_value(&status.phase).ok();
    vec![UpdatedCondition {
        type_: phase.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
        status: ConditionStatus::True,
        last_update_time: status.last_update_time.clone(),
        last_transition_time: status.last_transition_time.clone(),
        reason: status.reason.clone(),
        message: status.message.clone(),
    }]
}

/// Components with their conditions, by the keys of their labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found(BTreeMap<String, BTreeMap<Id, Arc<Membership>>>);

impl Found {
    pub(crate) fn add(&mut self, id: &Id, object: &Arc<Membership>) {
        for key in &object.keys {
            self.0.entry(key.clone()).or_default().insert(id.clone(), object.clone());
        }
    }
}

/// An Operator object that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub uid: String,
    pub version: String,
    pub is_deleted: bool,
    /// It was made by this process or one like it.
    pub is_made: bool,
    /// Its status names components.
    pub has_components: bool,
    /// The fingerprint of its status.
    pub status: u64,
}

/// The same for the same status, as long as the process lives.
pub(crate) fn fingerprint(status: &OperatorStatus) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(status).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// What is written of an Operator object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    Create,
    Status(OperatorStatus),
    Delete,
}

/// By the name of the object. It is there as long as it has a component or a Subscription asks for it; one that somebody has written
/// himself, and that never had a component, is his. `subscribed`: names of the objects that Subscriptions ask for.
pub(crate) fn writes(
    found: &Found,
    subscribed: &BTreeSet<String>,
    live: &BTreeMap<String, Live>,
) -> BTreeMap<String, Write> {
    let named: BTreeSet<&str> = subscribed.iter().chain(live.keys()).map(String::as_str).collect();
    let known: BTreeSet<String> = named.iter().filter_map(|name| key_of(name)).collect();
    let others = found.0.keys().filter(|key| !known.contains(*key)).filter_map(|key| name_of(key));
    let names = named.iter().copied().chain(others);
    names.filter_map(|name| Some((name.to_owned(), write(name, found, subscribed, live.get(name))?))).collect()
}

fn write(name: &str, found: &Found, subscribed: &BTreeSet<String>, live: Option<&Live>) -> Option<Write> {
    let key = key_of(name)?;
    let components = found.0.get(&key);
    let is_wanted = components.is_some() || subscribed.contains(name);
    let Some(live) = live else {
        return (is_wanted && is_object_name(name)).then_some(Write::Create);
    };
    if live.is_deleted {
        return None;
    }
    if !is_wanted && (live.is_made || live.has_components) {
        return Some(Write::Delete);
    }
    let status = status(&key, components);
    (live.status != fingerprint(&status)).then_some(Write::Status(status))
}

/// What the status says of the components of a key.
fn status(key: &str, components: Option<&BTreeMap<Id, Arc<Membership>>>) -> OperatorStatus {
    let exists = LabelSelectorRequirement { key: key.to_owned(), operator: "Exists".to_owned(), ..Default::default() };
    let label_selector = LabelSelector { match_expressions: Some(vec![exists]), match_labels: None };
    let mut left = MAX_STATUS;
    let refs = components.into_iter().flatten().map(|(id, object)| component(id, object));
    let fits = |component: &Component| {
        let bytes = serde_json::to_string(component).map_or(usize::MAX, |text| text.len());
        left = left.saturating_sub(bytes);
        left > 0
    };
    OperatorStatus { components: Some(Components { label_selector, refs: refs.take_while(fits).collect() }) }
}

fn component(Id { kind, namespace, name }: &Id, object: &Membership) -> Component {
    let (api_version, kind) = kind.names();
    let reference = ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: (!namespace.is_empty()).then(|| namespace.clone()),
        name: Some(name.clone()),
        ..ObjectReference::default()
    };
    Component { reference, conditions: object.conditions.clone() }
}
