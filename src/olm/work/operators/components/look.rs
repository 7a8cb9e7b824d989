//! All that may be a component, at one moment.

use super::More;
use crate::cluster::Kind as ClusterKind;
use crate::cluster::followed::{Followed, View};
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::subscription::Subscription;
use crate::olm::components;
use crate::olm::operator::component;
use crate::olm::operator::object::{Found, Id, Kind, Membership, Owners, conditions, phase};
use crate::olm::work::follow::id;
use crate::olm::work::operators::live::{
    Live, component_kind, condition_kind, csv_kind, definition_kind, deployment_kind, namespace_kind, secret_kind,
};
use crate::olm::work::operators::views::Belonging;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Look {
    pub found: Found,
    /// Names of the Operator objects that Subscriptions ask for.
    pub subscribed: BTreeSet<String>,
    /// Labels that objects do not have although they belong to a ClusterServiceVersion that has them.
    pub lacking: BTreeMap<Id, BTreeSet<String>>,
}

impl Look {
    /// `None` before everything is known.
    pub(super) fn of(live: &Live, more: &More) -> Option<Look> {
        let csvs = live.originals()?;
        let mut look = Adding { owners: Owners::default(), found: Found::default(), lacking: BTreeMap::new() };
        csvs.values().for_each(|it| look.owners.add(&it.0.metadata));
        for (name, it) in &*csvs {
            look.add_component(
                Kind::ClusterServiceVersion,
                name,
                Membership::of(&it.0.metadata, || phase(it.0.status.as_ref())).as_ref(),
            );
        }
        let subscribers = live.subscribers.all()?;
        let subscribed = subscribers.iter().map(|(name, it)| components::name(&it.subscriber.package, &id(name).0));
        let subscribed = subscribed.collect();
        for (name, it) in &*subscribers {
            look.add_component(Kind::Subscription, name, it.membership.as_ref());
        }
        for (name, it) in &*more.plans.all()? {
            look.add_component(Kind::InstallPlan, name, it.part.0.as_ref());
        }
        for (name, it) in &*live.namespaces.all()? {
            look.add_component(Kind::Namespace, name, it.membership.as_ref());
        }
        for (name, it) in &*live.conditions.all()? {
            let conditions = || conditions(Some(&json!(it.0.status)));
            look.add(Kind::OperatorCondition, name, Membership::of(&it.0.metadata, conditions).as_ref());
        }
        look.add_all(Kind::ConfigMap, &more.config_maps, |it| &it.part.0)?;
        look.add_all(Kind::Deployment, &live.deployments, |it| &it.membership)?;
        look.add_all(Kind::CustomResourceDefinition, &live.definitions, |it| &it.membership)?;
        look.add_all(Kind::ApiService, &live.api_services, |it| &it.membership)?;
        look.add_all(Kind::Secret, &live.secrets, |it| &it.membership)?;
        look.add_all(Kind::ServiceAccount, &live.accounts, |it| &it.membership)?;
        look.add_all(Kind::Role, &live.roles, |it| &it.membership)?;
        look.add_all(Kind::RoleBinding, &live.bindings, |it| &it.membership)?;
        look.add_all(Kind::ClusterRole, &live.cluster_roles, |it| &it.membership)?;
        look.add_all(Kind::ClusterRoleBinding, &live.cluster_bindings, |it| &it.membership)?;
        Some(Look { found: look.found, subscribed, lacking: look.lacking })
    }
}

struct Adding {
    owners: Owners,
    found: Found,
    lacking: BTreeMap<Id, BTreeSet<String>>,
}

impl Adding {
    /// Objects that belong to ClusterServiceVersions.
    fn add_all<V: View>(&mut self, kind: Kind, followed: &Followed<V>, of: impl Fn(&V) -> &Belonging) -> Option<()> {
        followed.all()?.iter().for_each(|(name, view)| self.add(kind, name, of(view).as_ref()));
        Some(())
    }

    fn add(&mut self, kind: Kind, name: &str, object: Option<&std::sync::Arc<Membership>>) {
        let Some(object) = object else { return };
        let lacking = self.owners.lacking(object);
        if !lacking.is_empty() {
            self.lacking.insert(named(kind, name), lacking);
        }
        self.add_component(kind, name, Some(object));
    }

    /// An object that others label.
    fn add_component(&mut self, kind: Kind, name: &str, object: Option<&std::sync::Arc<Membership>>) {
        let object = object.filter(|object| !object.keys.is_empty());
        object.into_iter().for_each(|object| self.found.add(&named(kind, name), object));
    }
}

fn named(kind: Kind, name: &str) -> Id {
    let (namespace, name) = id(name);
    Id { kind, namespace, name }
}

/// As the API server serves it.
pub(super) fn kind(kind: Kind) -> ClusterKind {
    match kind {
        Kind::ApiService => component_kind(component::Kind::ApiService),
        Kind::ClusterRole => component_kind(component::Kind::ClusterRole),
        Kind::ClusterRoleBinding => component_kind(component::Kind::ClusterRoleBinding),
        Kind::ClusterServiceVersion => csv_kind(),
        Kind::ConfigMap => ClusterKind::known("", "v1", "ConfigMap", "configmaps", true),
        Kind::CustomResourceDefinition => definition_kind(),
        Kind::Deployment => deployment_kind(),
        Kind::InstallPlan => ClusterKind::of::<InstallPlan>(true),
        Kind::Namespace => namespace_kind(),
        Kind::OperatorCondition => condition_kind(),
        Kind::Role => component_kind(component::Kind::Role),
        Kind::RoleBinding => component_kind(component::Kind::RoleBinding),
        Kind::Secret => secret_kind(),
        Kind::ServiceAccount => ClusterKind::known("", "v1", "ServiceAccount", "serviceaccounts", true),
        Kind::Subscription => ClusterKind::of::<Subscription>(true),
    }
}

/// What the API server has answered is known before its watch tells of it.
pub(super) fn on_answer(live: &Live, more: &More, kind: Kind, answer: Value) {
    match kind {
        Kind::ApiService => live.api_services.on_answer(answer),
        Kind::ClusterRole => live.cluster_roles.on_answer(answer),
        Kind::ClusterRoleBinding => live.cluster_bindings.on_answer(answer),
        Kind::ClusterServiceVersion => live.csvs.on_answer(answer),
        Kind::ConfigMap => more.config_maps.on_answer(answer),
        Kind::CustomResourceDefinition => live.definitions.on_answer(answer),
        Kind::Deployment => live.deployments.on_answer(answer),
        Kind::InstallPlan => more.plans.on_answer(answer),
        Kind::Namespace => live.namespaces.on_answer(answer),
        Kind::OperatorCondition => live.conditions.on_answer(answer),
        Kind::Role => live.roles.on_answer(answer),
        Kind::RoleBinding => live.bindings.on_answer(answer),
        Kind::Secret => live.secrets.on_answer(answer),
        Kind::ServiceAccount => live.accounts.on_answer(answer),
        Kind::Subscription => live.subscribers.on_answer(answer),
    }
}
