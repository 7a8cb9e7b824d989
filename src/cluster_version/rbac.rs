//! Which rights the daemon needs to carry a cluster to a release, derived from the manifests: what `cvo rbac` prints, and
//! which of them are as good as `cluster-admin`.
//!
//! Reading is by kind, since a feed lists and watches all objects of a kind. Writing is by name as far as RBAC can express it:
//! the name of an object that is being created is not known to the authorizer. A role may be written only by who has
//! all that it grants, and a binding only by who has all that its role grants; so the daemon gets these rules too, and `bind`
//! or `escalate` only where the rules are not in the release.

mod daemon;
mod plural;
mod power;
mod roles;

pub(crate) use power::Powerful;
pub(crate) use roles::{Role, objects};

use crate::merge;
use crate::object::definition::DefinedKind;
use crate::object::manifest::Manifest;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Stands for every group, resource or verb.
const ALL: &str = "*";

/// One verb on one resource, or on one path of the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Right {
    /// Empty: in all namespaces, or of the whole cluster.
    pub namespace: String,
    pub group: String,
    /// Plural, with the subresource if any; a path of the server begins with `/`.
    pub resource: String,
    /// Empty: all names.
    pub name: String,
    pub verb: String,
}

impl Right {
    fn is_wide(&self) -> bool {
        [&self.group, &self.resource, &self.verb].into_iter().any(|part| part == ALL)
    }

    /// Whether whoever has this right has the other one too.
    fn covers(&self, other: &Right) -> bool {
        let is = |mine: &str, other: &str, any: &str| mine == any || mine == other;
        is(&self.namespace, &other.namespace, "")
            && is(&self.group, &other.group, ALL)
            && is(&self.resource, &other.resource, ALL)
            && is(&self.name, &other.name, "")
            && is(&self.verb, &other.verb, ALL)
    }
}

/// Rights, each with what it is needed for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights(BTreeMap<Right, BTreeSet<String>>);

impl Rights {
    /// What the daemon needs by itself, in this namespace and with a ClusterVersion of this name, and for these manifests: those
    /// of all releases that it applies.
    pub(crate) fn needed(namespace: &str, name: &str, manifests: &[Arc<Manifest>]) -> Rights {
        let mut rights = Rights::default();
        daemon::add(&mut rights, namespace, name);
        let release = Release::new(manifests);
        for manifest in manifests {
            release.add(&mut rights, manifest);
        }
        rights
    }

    fn add(&mut self, right: Right, cause: &str) {
        self.0.entry(right).or_default().insert(cause.to_owned());
    }

    fn add_verbs(&mut self, place: &Place<'_>, name: &str, verbs: &[&str], cause: &str) {
        for verb in verbs {
            let Place { namespace, group, resource } = place;
            let text = |text: &&str| (*text).to_owned();
            let right = Right {
                namespace: text(namespace),
                group: text(group),
                resource: text(resource),
                name: name.to_owned(),
                verb: text(verb),
            };
            self.add(right, cause);
        }
    }

    /// Those that no other one covers, with their causes.
    pub(crate) fn minimal(&self) -> impl Iterator<Item = (&Right, &BTreeSet<String>)> {
        let wide: Vec<&Right> = self.0.keys().filter(|right| right.is_wide()).collect();
        self.0.iter().filter(move |(right, _)| {
            let wider = |namespace: &str, name: &str| {
                let other = Right { namespace: namespace.to_owned(), name: name.to_owned(), ..(*right).clone() };
                other != **right && self.0.contains_key(&other)
            };
            let by_wide = wide.iter().any(|other| *other != *right && other.covers(right));
            !by_wide && !wider("", "") && !wider(&right.namespace, "") && !wider("", &right.name)
        })
    }

    /// Those that the other rights do not contain.
    pub(crate) fn beyond<'a>(&'a self, others: &'a Rights) -> impl Iterator<Item = &'a Right> {
        self.minimal().map(|(right, _)| right).filter(|right| !others.0.keys().any(|other| other.covers(right)))
    }
}

/// What a right is about, without its name and verb.
struct Place<'a> {
    namespace: &'a str,
    group: &'a str,
    resource: &'a str,
}

/// The manifests, and what is known of their kinds and roles.
struct Release {
    /// Plural by group and kind, of the kinds that a manifest defines.
    plurals: BTreeMap<(String, String), String>,
    /// Rules by kind, namespace and name of a role; absent if the control plane sets them.
    rules: BTreeMap<(String, String, String), Vec<Value>>,
}

impl Release {
    fn new(manifests: &[Arc<Manifest>]) -> Release {
        let mut release = Release { plurals: BTreeMap::new(), rules: BTreeMap::new() };
        for manifest in manifests {
            let id = &manifest.id;
            match (id.group.as_str(), id.kind.as_str()) {
                ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                    if let Ok(DefinedKind { group, kind, plural, .. }) = DefinedKind::of_manifest(manifest) {
                        release.plurals.insert((group, kind), plural);
                    }
                }
                (RBAC, "Role" | "ClusterRole") if manifest.delete() == Ok(false) => {
                    let object = manifest.object().unwrap_or_default();
                    if object.get("aggregationRule").is_none_or(Value::is_null) {
                        let key = (id.kind.clone(), id.namespace.clone(), id.name.clone());
                        // Two releases may grant different rules by it.
                        release.rules.entry(key).or_default().extend(list(&object, "rules").cloned());
                    }
                }
                _ => {}
            }
        }
        release
    }

    fn add(&self, rights: &mut Rights, manifest: &Manifest) {
        let id = &manifest.id;
        let cause = format!("{id} in {}", manifest.file);
        let defined = self.plurals.get(&(id.group.clone(), id.kind.clone()));
        let resource = defined.cloned().unwrap_or_else(|| plural::of(&id.kind));
        let place = |namespace| Place { namespace, group: &id.group, resource: &resource };
        rights.add_verbs(&place(""), "", &["list", "watch"], &cause);
        if manifest.delete() != Ok(false) {
            return rights.add_verbs(&place(&id.namespace), &id.name, &["get", "delete"], &cause);
        }
        rights.add_verbs(&place(&id.namespace), "", &["create"], &cause);
        rights.add_verbs(&place(&id.namespace), &id.name, &["get", "update"], &cause);
        if merge::is_applied(&id.group, &id.kind) {
            rights.add_verbs(&place(&id.namespace), &id.name, &["patch"], &cause);
        }
        if merge::may_be_replaced(&id.group, &id.kind) {
            rights.add_verbs(&place(&id.namespace), &id.name, &["delete"], &cause);
        }
        match (id.group.as_str(), id.kind.as_str()) {
            ("config.openshift.io", "ClusterOperator") => {
                let status = Place { namespace: "", group: &id.group, resource: "clusteroperators/status" };
                rights.add_verbs(&status, &id.name, &["update"], &cause);
            }
            (RBAC, "Role" | "ClusterRole") => self.add_role(rights, manifest, &cause),
            (RBAC, "RoleBinding" | "ClusterRoleBinding") => self.add_binding(rights, manifest, &cause),
            _ => {}
        }
    }

    fn add_role(&self, rights: &mut Rights, manifest: &Manifest, cause: &str) {
        let id = &manifest.id;
        match self.rules.get(&(id.kind.clone(), id.namespace.clone(), id.name.clone())) {
            Some(rules) => rules.iter().for_each(|rule| add_rule(rights, &id.namespace, rule, cause)),
            // The control plane gathers its rules from roles that are not known here.
            None => {
                let place = Place { namespace: &id.namespace, group: RBAC, resource: &plural::of(&id.kind) };
                rights.add_verbs(&place, &id.name, &["escalate"], cause);
            }
        }
    }

    fn add_binding(&self, rights: &mut Rights, manifest: &Manifest, cause: &str) {
        let namespace = &manifest.id.namespace;
        let object = manifest.object().unwrap_or_default();
        let text = |key: &str| object.pointer(&format!("/roleRef/{key}")).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let of_role = if kind == "Role" { namespace.as_str() } else { "" };
        match self.rules.get(&(kind.to_owned(), of_role.to_owned(), name.to_owned())) {
            Some(rules) => rules.iter().for_each(|rule| add_rule(rights, namespace, rule, cause)),
            None => {
                let place = Place { namespace, group: RBAC, resource: &plural::of(kind) };
                rights.add_verbs(&place, name, &["bind"], cause);
            }
        }
    }
}

/// The rights that a rule of a role grants.
fn add_rule(rights: &mut Rights, namespace: &str, rule: &Value, cause: &str) {
    let texts = |key: &str| list(rule, key).filter_map(Value::as_str).collect::<Vec<_>>();
    let verbs = texts("verbs");
    for resource in texts("nonResourceURLs") {
        rights.add_verbs(&Place { namespace: "", group: "", resource }, "", &verbs, cause);
    }
    let mut names = texts("resourceNames");
    if names.is_empty() {
        names.push("");
    }
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            for name in &names {
                rights.add_verbs(&Place { namespace, group, resource }, name, &verbs, cause);
            }
        }
    }
}

fn list<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
