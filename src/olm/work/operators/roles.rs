//! All roles and bindings of the cluster.

use super::views::{BindingView, RoleView};
use crate::cluster::followed::Views;
use crate::olm::operator::rights::{Binding, Rights};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By name, with the namespace before it.
#[derive(Clone, Default)]
pub(crate) struct Roles {
    pub roles: Views<RoleView<false>>,
    pub bindings: Views<BindingView<false>>,
    pub cluster_roles: Views<RoleView<true>>,
    pub cluster_bindings: Views<BindingView<true>>,
}

/// Whether these are the same objects.
pub(crate) fn is_same<K, V>(one: &Arc<BTreeMap<K, Arc<V>>>, other: &Arc<BTreeMap<K, Arc<V>>>) -> bool {
    let is_each = || one.values().zip(other.values()).all(|(one, other)| Arc::ptr_eq(one, other));
    Arc::ptr_eq(one, other) || one.len() == other.len() && is_each()
}

impl Roles {
    /// Whether these are the same objects.
    pub(crate) fn is_same(&self, other: &Roles) -> bool {
        is_same(&self.roles, &other.roles)
            && is_same(&self.bindings, &other.bindings)
            && is_same(&self.cluster_roles, &other.cluster_roles)
            && is_same(&self.cluster_bindings, &other.cluster_bindings)
    }

    /// Those that were made for operators and groups.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Arc<Value>> {
        let roles = self.roles.values().filter_map(|it| it.made.as_ref());
        let bindings = self.bindings.values().filter_map(|it| it.made.as_ref());
        let cluster_roles = self.cluster_roles.values().filter_map(|it| it.made.as_ref());
        let cluster_bindings = self.cluster_bindings.values().filter_map(|it| it.made.as_ref());
        roles.chain(bindings).chain(cluster_roles).chain(cluster_bindings)
    }

    pub(crate) fn rights(&self) -> Rights {
        let namespaced = self.bindings.iter().map(|(name, it)| Binding {
            namespace: name.split_once('/').map_or("", |(namespace, _)| namespace),
            role: &it.role,
            subjects: &it.subjects,
        });
        let everywhere =
            self.cluster_bindings.values().map(|it| Binding { namespace: "", role: &it.role, subjects: &it.subjects });
        Rights::new(namespaced.chain(everywhere), |namespace, name| match namespace {
            "" => self.cluster_roles.get(name).map(|it| it.rules.clone()),
            _ => self.roles.get(&format!("{namespace}/{name}")).map(|it| it.rules.clone()),
        })
    }
}
