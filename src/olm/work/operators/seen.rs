//! All that is followed, as it is at one moment.

use super::live::Live;
use super::roles::Roles;
use super::views::{
    AccountView, ComponentView, ConditionView, ConfigView, CsvView, DefinitionView, DeploymentView, GroupView,
    NamespaceView, ProxyView, ServiceView, SubscriberView,
};
use crate::cluster::followed::Views;
use crate::olm::operator::component::Kind;
use crate::olm::work::follow::id;

type Id = (String, String);

/// Views by names, with the namespace before them where there is one.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub csvs: Views<CsvView>,
    pub groups: Views<GroupView>,
    pub conditions: Views<ConditionView>,
    /// Objects that cannot be read.
    pub unread_csvs: Vec<Id>,
    pub has_unread_groups: bool,
    pub configs: Views<ConfigView>,
    pub namespaces: Views<NamespaceView>,
    pub deployments: Views<DeploymentView>,
    pub definitions: Views<DefinitionView>,
    pub api_services: Views<ServiceView>,
    pub accounts: Views<AccountView>,
    pub roles: Roles,
    pub subscribers: Views<SubscriberView>,
    pub proxies: Views<ProxyView>,
    pub services: Views<ComponentView<{ Kind::Service as usize }>>,
    pub mutating: Views<ComponentView<{ Kind::MutatingWebhookConfiguration as usize }>>,
    pub validating: Views<ComponentView<{ Kind::ValidatingWebhookConfiguration as usize }>>,
}

impl Seen {
    /// `None` before everything is known: something could be taken for missing.
    pub(crate) fn of(live: &Live) -> Option<Seen> {
        live.secrets.all()?;
        Some(Seen {
            csvs: live.csvs.all()?,
            groups: live.groups.all()?,
            conditions: live.conditions.all()?,
            unread_csvs: live.csvs.undecodable().into_keys().map(|name| id(&name)).collect(),
            has_unread_groups: !live.groups.undecodable().is_empty(),
            configs: if live.configs.is_absent() { Views::default() } else { live.configs.all()? },
            namespaces: live.namespaces.all()?,
            deployments: live.deployments.all()?,
            definitions: live.definitions.all()?,
            api_services: live.api_services.all()?,
            accounts: live.accounts.all()?,
            roles: Roles {
                roles: live.roles.all()?,
                bindings: live.bindings.all()?,
                cluster_roles: live.cluster_roles.all()?,
                cluster_bindings: live.cluster_bindings.all()?,
            },
            subscribers: live.subscribers.all()?,
            // Until it is known whether there is one, no pod begins that would have to be replaced.
            proxies: if live.proxies.is_absent() { Views::default() } else { live.proxies.all()? },
            services: live.services.all()?,
            mutating: live.mutating.all()?,
            validating: live.validating.all()?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cluster::followed::View;
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// Adds an object of this name, with the namespace before it where there is one.
    pub(in crate::olm::work::operators) fn put<V: View>(views: &mut Views<V>, name: &str, mut object: Value) {
        let (namespace, own) = id(name);
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["name"] = json!(own);
        Arc::make_mut(views).insert(name.to_owned(), Arc::new(V::of(serde_json::from_value(object).unwrap())));
    }
}
