//! All roles and bindings of the cluster.

use super::views::{BindingView, RoleView};
use crate::olm::operator::rights::{Binding, Rights};
use std::collections::BTreeMap;
use std::sync::Arc;

type Views<V> = BTreeMap<String, Arc<V>>;

/// By name, with the namespace before it.
#[derive(Clone, Default)]
pub(super) struct Roles {
    pub roles: Views<RoleView<false>>,
    pub bindings: Views<BindingView<false>>,
    pub cluster_roles: Views<RoleView<true>>,
    pub cluster_bindings: Views<BindingView<true>>,
}

/// An object without a namespace that belongs to a ClusterServiceVersion.
pub(super) enum ClusterObject {
    Role { name: String, uid: String },
    Binding { name: String, uid: String },
}

impl Roles {
    /// Whether these are the same objects.
    pub(super) fn is_same(&self, other: &Roles) -> bool {
        fn same<V>(one: &Views<V>, other: &Views<V>) -> bool {
            one.len() == other.len() && one.values().zip(other.values()).all(|(one, other)| Arc::ptr_eq(one, other))
        }
        same(&self.roles, &other.roles)
            && same(&self.bindings, &other.bindings)
            && same(&self.cluster_roles, &other.cluster_roles)
            && same(&self.cluster_bindings, &other.cluster_bindings)
    }

    pub(super) fn rights(&self) -> Rights {
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
