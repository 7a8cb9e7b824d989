//! The roles that a ClusterServiceVersion asks for: a ServiceAccount, and what it may do in the namespace and in the cluster.
//! Names are made of what they stand for, so that another version has others and the same one the same, also if another
//! program made them.

use crate::olm::api::cluster_service_version::{StrategyDetails, StrategyPermissions};
use crate::olm::api::keys::label;
use crate::olm::names::label_value;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha224};
use std::collections::BTreeMap;

/// The longest name of a generated role.
const MAX_NAME: usize = 63;
/// The account that every namespace has.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";
const RBAC: &str = "rbac.authorization.k8s.io";
const CSV: &str = "ClusterServiceVersion";

/// A rule with its members in the order in which hashes are made of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'a> {
    verbs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    api_groups: Option<&'a Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<&'a Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_names: Option<&'a Vec<String>>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Option::is_none")]
    non_resource_urls: Option<&'a Vec<String>>,
}

impl<'a> From<&'a PolicyRule> for Rule<'a> {
    fn from(rule: &'a PolicyRule) -> Self {
        fn some(list: &Option<Vec<String>>) -> Option<&Vec<String>> {
            list.as_ref().filter(|list| !list.is_empty())
        }
        Rule {
            verbs: &rule.verbs,
            api_groups: some(&rule.api_groups),
            resources: some(&rule.resources),
            resource_names: some(&rule.resource_names),
            non_resource_urls: some(&rule.non_resource_urls),
        }
    }
}

/// The parts of a name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    permission: Permission<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Permission<'a> {
    service_account_name: &'a str,
    rules: Vec<Rule<'a>>,
}

/// ServiceAccounts by name, each followed by its roles and bindings. They name their owner in labels; who creates them adds the
/// reference to it.
pub(crate) fn objects(csv: &str, namespace: &str, strategy: &StrategyDetails) -> Vec<Value> {
    let mut accounts: BTreeMap<&str, [Vec<Value>; 4]> = BTreeMap::new();
    for (permission, is_namespaced) in all(strategy) {
        let name = name(csv, namespace, permission, is_namespaced);
        let kind = if is_namespaced { "Role" } else { "ClusterRole" };
        let role = role((csv, namespace), permission, (kind, &name));
        let binding = binding((csv, namespace), permission, (kind, &name));
        let [roles, bindings, cluster_roles, cluster_bindings] =
            accounts.entry(&permission.service_account_name).or_default();
        let (of_roles, of_bindings) = if is_namespaced { (roles, bindings) } else { (cluster_roles, cluster_bindings) };
        of_roles.push(role);
        of_bindings.push(binding);
    }
    let with_account = accounts.into_iter().flat_map(|(account, objects)| {
        let own = (account != DEFAULT_ACCOUNT).then(|| {
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}})
        });
        own.into_iter().chain(objects.into_iter().flatten())
    });
    with_account.collect()
}

fn all(strategy: &StrategyDetails) -> impl Iterator<Item = (&StrategyPermissions, bool)> {
    let namespaced = strategy.permissions.iter().map(|it| (it, true));
    namespaced.chain(strategy.cluster_permissions.iter().map(|it| (it, false)))
}

fn name(csv: &str, namespace: &str, permission: &StrategyPermissions, is_namespaced: bool) -> String {
    let account = &permission.service_account_name;
    let parts = Named {
        name: csv,
        namespace: if is_namespaced { "" } else { namespace },
        permission: Permission { service_account_name: account, rules: rules(permission) },
    };
    let base = if is_namespaced { format!("{csv}-{account}") } else { csv.to_owned() };
    generated(&base, &hash(&parts, "\n"))
}

fn rules(permission: &StrategyPermissions) -> Vec<Rule<'_>> {
    permission.rules.iter().map(Rule::from).collect()
}

fn role(owner: (&str, &str), permission: &StrategyPermissions, (kind, name): (&str, &str)) -> Value {
    let labels = labels(owner, hash(&rules(permission), ""));
    let metadata = metadata(name, (kind == "Role").then_some(owner.1), &labels);
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": permission.rules})
}

fn metadata(name: &str, namespace: Option<&str>, labels: &BTreeMap<&'static str, String>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace, "labels": labels}),
        None => json!({"name": name, "labels": labels}),
    }
}

/// Gives a role of this kind to its account, under the same name.
fn binding(owner: (&str, &str), permission: &StrategyPermissions, (kind, name): (&str, &str)) -> Value {
    let reference = json!({"apiGroup": RBAC, "kind": kind, "name": name});
    let subject = json!({"kind": "ServiceAccount", "name": permission.service_account_name, "namespace": owner.1});
    let labels = labels(owner, hash(&json!({"RoleRef": reference, "Subjects": [subject]}), ""));
    let metadata = metadata(name, (kind == "Role").then_some(owner.1), &labels);
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": reference, "subjects": [subject]})
}

/// Of name and namespace of the owner, and the hash of what the object says.
fn labels((csv, namespace): (&str, &str), hash: String) -> BTreeMap<&'static str, String> {
    let owner = [(label::OWNER, csv), (label::OWNER_NAMESPACE, namespace), (label::OWNER_KIND, CSV)];
    let owner = owner.map(|(key, value)| (key, label_value(value)));
    owner.into_iter().chain([(label::PERMISSIONS_HASH, hash)]).collect()
}

/// The hash at the end of a name that is not too long.
fn generated(base: &str, hash: &str) -> String {
    let length = if base.len() + hash.len() > MAX_NAME { MAX_NAME.saturating_sub(hash.len() + 1) } else { base.len() };
    format!("{}-{hash}", base.get(..base.floor_char_boundary(length)).unwrap_or_default())
}

/// SHA-224 of the JSON and what ends it, as a number of base 62.
pub(crate) fn hash(value: &impl Serialize, end: &str) -> String {
    base_62(Sha224::digest(json(value) + end).as_slice())
}

/// The same of a text as it is.
pub(crate) fn text_hash(text: &str) -> String {
    base_62(Sha224::digest(text).as_slice())
}

/// A rule as text, in which others find it again.
pub(crate) fn rule_text(rule: &PolicyRule) -> String {
    json(&Rule::from(rule))
}

/// As Go writes it: three characters are escapes.
fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

fn base_62(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let (mut number, mut text) = (bytes.to_vec(), String::new());
    while number.iter().any(|byte| *byte != 0) {
        let mut rest = 0_u32;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            *byte = (value / 62).to_le_bytes()[0];
            rest = value % 62;
        }
        text.extend(DIGITS.get(rest as usize).map(|digit| char::from(*digit)));
    }
    if text.is_empty() { "0".to_owned() } else { text.chars().rev().collect() }
}

#[cfg(test)]
mod tests;
