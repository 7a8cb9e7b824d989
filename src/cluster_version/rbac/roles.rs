//! Rights as rules of roles, and the objects that grant them.

use super::{RBAC, Right, Rights};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Of the roles and their bindings.
const NAME: &str = "cluster-version-operator-release";
/// The service account of the daemon.
const ACCOUNT: &str = "cluster-version-operator";

/// The rules of one namespace, or of the whole cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Role {
    /// Empty: a ClusterRole.
    pub namespace: String,
    pub rules: Vec<Rule>,
}

/// A rule of a role, as the API has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "BTreeSet::is_empty")]
    pub paths: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_names: BTreeSet<String>,
    pub verbs: BTreeSet<String>,
}

type Words = BTreeSet<String>;

impl Rights {
    /// As few rules as say the same, by namespace.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let mut roles: BTreeMap<&str, BTreeMap<(&str, &str, &str), Words>> = BTreeMap::new();
        for (Right { namespace, group, resource, name, verb }, _) in self.minimal() {
            let verbs = roles.entry(namespace).or_default().entry((group, resource, name)).or_default();
            verbs.insert(verb.clone());
        }
        let role = |(namespace, verbs): (&str, _)| Role { namespace: namespace.to_owned(), rules: rules(verbs) };
        roles.into_iter().map(role).collect()
    }
}

/// The rules for verbs by group, resource and name: one for all names with the same verbs, and for all resources of a
/// group with the same names and verbs.
fn rules(verbs: BTreeMap<(&str, &str, &str), Words>) -> Vec<Rule> {
    // A rule without names counts for all of them, so that is kept apart.
    let mut names: BTreeMap<(&str, &str, bool, Words), Words> = BTreeMap::new();
    for ((group, resource, name), verbs) in verbs {
        let names = names.entry((group, resource, name.is_empty(), verbs)).or_default();
        names.extend((!name.is_empty()).then(|| name.to_owned()));
    }
    let mut resources: BTreeMap<(&str, bool, Words, Words), Words> = BTreeMap::new();
    for ((group, resource, _, verbs), names) in names {
        let key = (group, resource.starts_with('/'), names, verbs);
        resources.entry(key).or_default().insert(resource.to_owned());
    }
    let rule = |((group, is_path, resource_names, verbs), resources): ((&str, bool, Words, Words), Words)| match is_path
    {
        true => Rule { paths: resources, verbs, ..Rule::default() },
        false => Rule { api_groups: vec![group.to_owned()], resources, resource_names, verbs, ..Rule::default() },
    };
    resources.into_iter().map(rule).collect()
}

/// The objects that grant the roles to the daemon in its namespace, in the order in which they can be applied: a role needs its
/// namespace.
pub(crate) fn objects(roles: &[Role], own: &str) -> Vec<Value> {
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": own}]);
    let namespaced = roles.iter().filter(|role| !role.namespace.is_empty());
    let namespaces =
        namespaced.map(|role| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": role.namespace}}));
    let granted = roles.iter().flat_map(|role| {
        let prefix = if role.namespace.is_empty() { "Cluster" } else { "" };
        let mut metadata = json!({"name": NAME, "annotations": {
            "kubernetes.io/description": "What the cluster version operator needs for the releases that it was made for."}});
        if let Some(map) = metadata.as_object_mut().filter(|_| !role.namespace.is_empty()) {
            map.insert("namespace".into(), role.namespace.clone().into());
        }
        let api = format!("{RBAC}/v1");
        let kind = format!("{prefix}Role");
        let reference = json!({"apiGroup": RBAC, "kind": kind, "name": NAME});
        [
            json!({"apiVersion": api, "kind": kind, "metadata": metadata, "rules": role.rules}),
            json!({"apiVersion": api, "kind": format!("{kind}Binding"), "metadata": metadata, "roleRef": reference,
                "subjects": subjects}),
        ]
    });
    namespaces.chain(granted).collect()
}
