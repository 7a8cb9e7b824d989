//! The Roles and RoleBindings of an operator in its own namespace.

use super::{Carried, is_owned, label_of, normal, owners, rules};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, StrategyPermissions};
use crate::olm::api::keys::label;
use crate::olm::operator::component::{Kind, Known, Owner};
use serde_json::Value;

/// Those that the ClusterServiceVersion owns.
pub(super) struct Owned<'a> {
    own: &'a str,
    /// By name.
    roles: Vec<(&'a str, &'a Value)>,
    bindings: Vec<(&'a str, &'a Value)>,
}

impl<'a> Owned<'a> {
    pub(super) fn of(csv: &'a ClusterServiceVersion, own: &'a str, components: &'a Known) -> Owned<'a> {
        let uid = csv.metadata.uid.as_deref().unwrap_or_default();
        let (mut roles, mut bindings) = (Vec::new(), Vec::new());
        // What has been given for all namespaces already was given by somebody who may.
        let is_given = |name: &str| {
            let ids = Carried::lifted(name);
            ids.iter().all(|id| components.get(id).is_some_and(|live| is_owned(live, csv)))
        };
        for (id, object) in components.of_owner(&Owner::csv(csv)).filter(|(id, _)| id.namespace == own) {
            if owners(object).any(|owner| owner == uid) {
                match id.kind {
                    Kind::Role if label_of(object, label::FOR_TARGETS) != Some("true") && !is_given(&id.name) => {}
                    Kind::Role => roles.push((id.name.as_str(), object)),
                    Kind::RoleBinding => bindings.push((id.name.as_str(), object)),
                    _ => {}
                }
            }
        }
        Owned { own, roles, bindings }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.roles.iter().chain(&self.bindings).map(|(name, _)| *name)
    }

    /// The Role with exactly these rules that is bound to the account of the permission.
    pub(super) fn carrying<'b>(&'b self, permission: &'b StrategyPermissions) -> Option<Carried<'b>> {
        let wanted: Vec<_> = permission.rules.iter().map(normal).collect();
        let account = permission.service_account_name.as_str();
        let is_bound = |binding: &Value, role: &str| {
            let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str);
            let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
            let is_account = |it: &Value| {
                let text = |key: &str| it.get(key).and_then(Value::as_str).unwrap_or_default();
                text("kind") == "ServiceAccount"
                    && text("name") == account
                    && ["", self.own].contains(&text("namespace"))
            };
            (text("/roleRef/kind"), text("/roleRef/name")) == (Some("Role"), Some(role)) && { subjects }.any(is_account)
        };
        self.roles.iter().filter(|(_, role)| rules(role) == wanted).find_map(|(role, _)| {
            let (binding, _) = self.bindings.iter().find(|(_, binding)| is_bound(binding, role))?;
            Some(Carried { permission, role, binding })
        })
    }
}
