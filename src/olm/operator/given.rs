//! What an operator is given in other namespaces than its own. Its plan gives it Roles in its own namespace; these are copied to each
//! target, or become ClusterRoles where it works for all namespaces. So it never gets more elsewhere than it was given, and never
//! anything that its ClusterServiceVersion does not ask for: who edits a Role of its namespace gives nothing away elsewhere.

mod owned;

use super::component::{Id, Kind, Known, Owner};
use super::deployment::{labels, owner_reference};
use super::mode::ALL;
use super::rights::Rights;
use super::{Group, Tenant};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, StrategyPermissions};
use crate::olm::api::keys::label;
use k8s_openapi::api::rbac::v1::PolicyRule;
use owned::Owned;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const RBAC: &str = "rbac.authorization.k8s.io";

/// What it is given beside what it has in its own namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given {
    /// Permissions by their place in the strategy that it has in its own namespace by a Role of its own, and so in all targets.
    carried: BTreeSet<usize>,
    /// The targets that exist; an empty one for all namespaces.
    targets: Vec<String>,
    /// What is not there, or is there otherwise.
    pub(super) wanted: Vec<Value>,
    /// All that is wanted.
    kept: BTreeSet<Id>,
    pub(super) surplus: Vec<Id>,
    /// A target waits for the copy of the ClusterServiceVersion, which owns what is in there.
    waits: bool,
    /// The first target in which there can be no copy.
    taken: Option<String>,
}

impl Given {
    /// Everything is there, so that it can run.
    pub(super) fn is_complete(&self) -> bool {
        self.wanted.is_empty() && !self.waits
    }

    /// Why it will not be complete.
    pub(super) fn hindrance(&self) -> Option<String> {
        let target = self.taken.as_ref()?;
        Some(format!(
            "its rights in namespace {target} belong to a copy of this ClusterServiceVersion, and there is another one of the same name: \
             delete that, or let the OperatorGroups of both select other namespaces"
        ))
    }

    /// Where a permission has to be there for the operator to run: what its own Roles give is brought to the targets from here.
    pub(super) fn places<'a>(&'a self, permission: usize, own: &'a str) -> Vec<&'a str> {
        match self.carried.contains(&permission) {
            true => vec![own],
            false => self.targets.iter().map(String::as_str).collect(),
        }
    }

    fn want(&mut self, objects: [Value; 2], ids: [Id; 2], components: &Known) {
        for (object, id) in objects.into_iter().zip(ids) {
            if components.get(&id).is_none_or(|live| !is_as(live, &object)) {
                self.wanted.push(object);
            }
            self.kept.insert(id);
        }
    }
}

pub(super) fn look(
    csv: &ClusterServiceVersion,
    group: &Group<'_>,
    (tenant, components): (&Tenant<'_>, &Known),
    rights: &Rights,
) -> Given {
    let own = csv.metadata.namespace.as_deref().unwrap_or_default();
    let exists = |target: &&String| [ALL, own].contains(&target.as_str()) || tenant.namespaces.contains_key(*target);
    let targets: Vec<String> = group.targets.iter().filter(exists).cloned().collect();
    let mut given = Given { targets: targets.clone(), ..Given::default() };
    let permissions = csv.spec.install.spec.iter().flat_map(|strategy| strategy.permissions.iter().enumerate());
    let roles = Owned::of(csv, own, components);
    for (at, permission) in permissions {
        let Some(carried) = roles.carrying(permission) else { continue };
        given.carried.insert(at);
        let account = (own, permission.service_account_name.as_str());
        for target in targets.iter().filter(|target| target.as_str() != own) {
            let ids = carried.ids(target);
            // What others have given is enough, as long as nothing was made here.
            let is_made = ids.iter().any(|id| components.get(id).is_some());
            if !is_made && permission.rules.iter().all(|rule| rights.allow(account, target, rule)) {
                continue;
            }
            let owner = tenant.copies.uids.get(target);
            match target == ALL || owner.is_some() {
                true => given.want(carried.objects(csv, target, owner), ids, components),
                false => {
                    given.kept.extend(ids);
                    given.waits = true;
                    if tenant.copies.taken.contains(target) {
                        given.taken.get_or_insert_with(|| target.clone());
                    }
                }
            }
        }
    }
    let lifted = roles.names().flat_map(Carried::lifted);
    let is_ours = |id: &Id| components.get(id).is_some_and(|live| is_owned(live, csv));
    let copied = components.copied(Owner::csv(csv)).cloned();
    let surplus = lifted.filter(is_ours).chain(copied).filter(|id| !given.kept.contains(id));
    given.surplus = surplus.collect::<BTreeSet<Id>>().into_iter().collect();
    given
}

/// A permission, and names of the Role and RoleBinding by which its account has it.
struct Carried<'a> {
    permission: &'a StrategyPermissions,
    role: &'a str,
    binding: &'a str,
}

impl Carried<'_> {
    fn ids(&self, target: &str) -> [Id; 2] {
        let id = |kind, name: &str| Id { kind, namespace: target.to_owned(), name: name.to_owned() };
        match target {
            ALL => [id(Kind::ClusterRole, self.role), id(Kind::ClusterRoleBinding, self.binding)],
            _ => [id(Kind::Role, self.role), id(Kind::RoleBinding, self.binding)],
        }
    }

    /// What a Role or RoleBinding of this name is for all namespaces.
    fn lifted(name: &str) -> [Id; 2] {
        let id = |kind| Id { kind, namespace: String::new(), name: name.to_owned() };
        [id(Kind::ClusterRole), id(Kind::ClusterRoleBinding)]
    }

    /// `copy`: the uid of the copy of the ClusterServiceVersion in the target.
    fn objects(&self, csv: &ClusterServiceVersion, target: &str, copy: Option<&String>) -> [Value; 2] {
        let own = csv.metadata.namespace.as_deref().unwrap_or_default();
        let mut labels = labels(csv);
        let kind = if target == ALL { "ClusterRole" } else { "Role" };
        let mut rules: Vec<PolicyRule> = self.permission.rules.iter().map(normal).collect();
        let mut metadata = json!({});
        match copy {
            _ if target == ALL => rules.push(namespaces()),
            copy => {
                // There may be thousands of them.
                labels.retain(|key, _| !key.starts_with(label::COMPONENT_OF));
                labels.insert(label::OWNER_NAMESPACE.to_owned(), target.into());
                labels.insert(label::COPIED_FROM.to_owned(), own.into());
                let mut owner = owner_reference(csv);
                owner.as_object_mut().into_iter().for_each(|owner| drop(owner.insert("uid".to_owned(), json!(copy))));
                metadata = json!({"namespace": target, "ownerReferences": [owner]});
            }
        }
        let metadata = |name: &str| {
            let mut metadata = metadata.clone();
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("name".to_owned(), name.into());
                metadata.insert("labels".to_owned(), Value::Object(labels.clone()));
            }
            metadata
        };
        let subject = json!({"kind": "ServiceAccount", "name": self.permission.service_account_name, "namespace": own});
        [
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata(self.role), "rules": rules}),
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata(self.binding),
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": self.role}, "subjects": [subject]}),
        ]
    }
}

/// Whoever works for all namespaces has to know which ones there are.
fn namespaces() -> PolicyRule {
    PolicyRule {
        verbs: ["get", "list", "watch"].map(str::to_owned).into(),
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["namespaces".to_owned()]),
        resource_names: None,
        non_resource_urls: None,
    }
}

/// The API server keeps no empty lists.
fn normal(rule: &PolicyRule) -> PolicyRule {
    let some = |list: &Option<Vec<String>>| list.clone().filter(|list| !list.is_empty());
    PolicyRule {
        verbs: rule.verbs.clone(),
        api_groups: some(&rule.api_groups),
        resources: some(&rule.resources),
        resource_names: some(&rule.resource_names),
        non_resource_urls: some(&rule.non_resource_urls),
    }
}

fn rules(object: &Value) -> Vec<PolicyRule> {
    let rules = object.get("rules").cloned().and_then(|rules| serde_json::from_value::<Vec<PolicyRule>>(rules).ok());
    rules.unwrap_or_default().iter().map(normal).collect()
}

fn label_of<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// Whether its labels name this owner.
fn is_owned(object: &Value, csv: &ClusterServiceVersion) -> bool {
    Owner::of(object).is_some_and(|owner| owner == Owner::csv(csv))
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners.filter_map(|owner| owner.get("uid")?.as_str())
}

/// Whether an object has all that is wanted of it.
fn is_as(live: &Value, wanted: &Value) -> bool {
    let same = |key: &str| live.get(key) == wanted.get(key);
    let labels = wanted.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    rules(live) == rules(wanted)
        && ["roleRef", "subjects"].into_iter().all(same)
        && labels
            .into_iter()
            .all(|(key, value)| label_of(live, key) == value.as_str() || key.starts_with(label::COMPONENT_OF))
        && owners(wanted).all(|uid| owners(live).any(|it| it == uid))
}
