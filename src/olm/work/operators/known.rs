//! What is known of the cluster at one moment.

use super::derived::{ById, Derived};
use super::made::Made;
use super::memory::Memory;
use super::roles::{Roles, is_same};
use super::seen::Seen;
use super::served::{self, Natives};
use super::views::{ConfigView, Csv, CsvView, GroupView};
use crate::olm::api::olm_config::{self, OLMConfig};
use crate::olm::operator::deployment::Live as LiveDeployment;
use crate::olm::operator::deployment::config::Proxy;
use crate::olm::operator::differing::differing;
use crate::olm::operator::group::{self, Namespaces};
use crate::olm::operator::requirements::World;
use crate::olm::operator::rights::Rights;
use crate::olm::operator::roles::GROUP_KIND;
use crate::olm::operator::serving;
use crate::olm::operator::tenancy::is_same_for_groups;
use crate::olm::operator::turn::Namespace;
use crate::olm::operator::{Group, component};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Id = (String, String);

pub(crate) struct Known {
    derived: Derived,
    /// Those that cannot be read.
    unread_csvs: Vec<Id>,
    has_all_groups: bool,
    config: Option<Arc<ConfigView>>,
    proxy: Proxy,
    roles: Roles,
    components: Arc<component::Known>,
    rights: Arc<Rights>,
    kubernetes: Result<semver::Version, String>,
}

impl Known {
    /// `version`: of the API server.
    pub(crate) fn of(seen: Seen, memory: &Memory, version: Result<semver::Version, String>) -> Known {
        Known {
            derived: memory.derived(&seen),
            proxy: seen.proxies.get("cluster").map(|it| it.proxy.clone()).unwrap_or_default(),
            rights: memory.rights(&seen.roles),
            components: memory.components(&Made::of(&seen)),
            config: seen.configs.get(olm_config::NAME).cloned(),
            unread_csvs: seen.unread_csvs,
            has_all_groups: !seen.has_unread_groups,
            roles: seen.roles,
            kubernetes: version,
        }
    }

    /// Of namespaces with ClusterServiceVersions, OperatorGroups or OperatorConditions.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let ids = self.derived.csvs.keys().chain(self.derived.groups.keys()).chain(self.derived.conditions.keys());
        ids.map(|(namespace, _)| namespace.as_str()).collect()
    }

    pub(super) fn namespace<'a>(&'a self, name: &'a str) -> Namespace<'a> {
        let group = |(_, it): (&Id, &'a Arc<GroupView>)| Group {
            object: &it.0,
            targets: group::targets(&it.0.spec, &self.derived.namespaces),
        };
        Namespace {
            name,
            csvs: within(&self.derived.csvs, name).map(|((_, id), it)| (id.as_str(), &*it.0)).collect(),
            groups: within(&self.derived.groups, name).map(group).collect(),
            conditions: within(&self.derived.conditions, name).map(|((_, id), it)| (id.as_str(), &*it.0)).collect(),
            deployments: within(&self.derived.deployments, name).map(|((_, id), it)| (id.as_str(), it)).collect(),
            is_whole: self.unread_csvs.iter().all(|(of, _)| of != name),
            subscribers: self.derived.subscribers.get(name).map(Vec::as_slice).unwrap_or_default(),
        }
    }

    pub(super) fn world<'a>(&'a self, served: &'a served::Kinds) -> World<'a> {
        World {
            kubernetes: self.kubernetes.as_ref().map_err(String::as_str),
            definitions: &self.derived.definitions,
            services: &self.derived.services,
            served,
            accounts: &self.derived.accounts,
            rights: &self.rights,
        }
    }

    pub(crate) fn csvs(&self) -> impl Iterator<Item = &Csv> {
        self.derived.csvs.values().map(|it| &*it.0)
    }

    /// The Secrets with certificates that count, by namespace and name, each with the hosts that its certificate is for.
    pub(crate) fn secrets(&self) -> BTreeMap<Id, Vec<String>> {
        serving::secrets(self.csvs(), &self.components)
    }

    pub(super) fn unlabelled_copies(&self) -> impl Iterator<Item = &Csv> {
        self.derived.unlabelled.iter().map(|it| &*it.0)
    }

    /// Groups and versions of kinds that have to be served, whoever defines them.
    pub(crate) fn natives(&self) -> Natives {
        let specs = self.derived.csvs.values().map(|it| &it.0.spec);
        let natives = specs.clone().flat_map(|spec| &spec.native_apis).map(|it| (it.group.clone(), it.version.clone()));
        let required = specs.flat_map(|spec| &spec.api_service_definitions.required);
        natives.chain(required.map(|it| (it.group.clone(), it.version.clone()))).collect()
    }

    /// Differs where other kinds are served.
    pub(crate) fn kinds_version(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        for (name, it) in &*self.derived.definitions {
            (name, &it.served, it.is_available).hash(&mut hasher);
        }
        for (name, it) in &*self.derived.services {
            (name, it.is_available).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Labels of namespaces that can be written into, by their names.
    pub(crate) fn labels(&self) -> &Namespaces {
        &self.derived.namespaces
    }

    /// Whether there are no other groups than those that are known.
    pub(super) fn has_all_groups(&self) -> bool {
        self.has_all_groups
    }

    pub(crate) fn csv_views(&self) -> &ById<Arc<CsvView>> {
        &self.derived.csvs
    }

    pub(crate) fn unread_csvs(&self) -> &[Id] {
        &self.unread_csvs
    }

    /// Whether operators for all namespaces are not copied.
    pub(crate) fn has_no_copies(&self) -> bool {
        self.config().is_some_and(|config| config.spec.disables_copies())
    }

    pub(crate) fn config(&self) -> Option<&OLMConfig> {
        self.config.as_ref().map(|it| &*it.0)
    }

    /// Whether there is a ClusterRole of this name that belongs to no group.
    pub(super) fn has_other_role(&self, name: &str) -> bool {
        let id = component::Id { kind: component::Kind::ClusterRole, namespace: String::new(), name: name.to_owned() };
        self.roles.cluster_roles.contains_key(name)
            && self.components.owner(&id).is_none_or(|owner| owner.kind != GROUP_KIND)
    }

    pub(super) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(super) fn components(&self) -> &Arc<component::Known> {
        &self.components
    }

    /// Whether all is the same that any namespace may depend on, be it of another one.
    pub(super) fn is_same_around(&self, other: &Known) -> bool {
        is_same(&self.derived.groups, &other.derived.groups)
            && self.derived.namespaces == other.derived.namespaces
            && self.derived.definitions == other.derived.definitions
            && self.derived.services == other.derived.services
            && self.proxy == other.proxy
            && self.kubernetes == other.kubernetes
    }

    /// Whether all is the same that is decided on for all groups together, where that around is the same.
    pub(super) fn has_same_groups(&self, other: &Known) -> bool {
        let is_same_csv =
            |one: &Arc<CsvView>, other: &Arc<CsvView>| Arc::ptr_eq(one, other) || is_same_for_groups(&one.0, &other.0);
        self.unread_csvs == other.unread_csvs
            && self.has_all_groups == other.has_all_groups
            && is_same(&self.roles.cluster_roles, &other.roles.cluster_roles)
            && Arc::ptr_eq(&self.components, &other.components)
            && differing(&self.derived.csvs, &other.derived.csvs, is_same_csv).next().is_none()
    }

    /// Namespaces in which, or for whose operators, accounts, rights and objects are others; `None` where that may be all of them.
    pub(super) fn touched(&self, other: &Known) -> Option<BTreeSet<String>> {
        let accounts = differing(&self.derived.accounts, &other.derived.accounts, |one, other| one == other);
        let mut touched: BTreeSet<String> = accounts.map(|((namespace, _), _)| namespace.clone()).collect();
        touched.extend(self.rights.touched(&other.rights)?);
        touched.extend(self.components.touched(&other.components)?);
        Some(touched)
    }

    /// Namespaces in which something is different that they alone depend on.
    pub(super) fn changed(&self, other: &Known) -> BTreeSet<String> {
        fn of<'a, V>(one: &'a ById<V>, other: &'a ById<V>, is: fn(&V, &V) -> bool) -> impl Iterator<Item = &'a String> {
            differing(one, other, is).map(|((namespace, _), _)| namespace)
        }
        let is_deployment = |one: &LiveDeployment, other: &LiveDeployment| {
            Arc::ptr_eq(&one.object, &other.object) && one.kept == other.kept && one.scaled == other.scaled
        };
        let (one, other) = (&self.derived, &other.derived);
        let csvs = of(&one.csvs, &other.csvs, Arc::ptr_eq);
        let conditions = of(&one.conditions, &other.conditions, Arc::ptr_eq);
        let deployments = of(&one.deployments, &other.deployments, is_deployment);
        let subscribers = differing(&one.subscribers, &other.subscribers, |one, other| one == other);
        let all = csvs.chain(conditions).chain(deployments).chain(subscribers.map(|(namespace, _)| namespace));
        all.cloned().collect()
    }
}

fn within<'a, V>(all: &'a BTreeMap<Id, V>, namespace: &'a str) -> impl Iterator<Item = (&'a Id, &'a V)> {
    let from = (namespace.to_owned(), String::new());
    all.range(from..).take_while(move |((of, _), _)| of == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::work::operators::seen::tests::put;
    use serde_json::{Value, json};

    fn known(seen: &Seen) -> Known {
        Known::of(seen.clone(), &Memory::default(), Ok(semver::Version::new(1, 33, 2)))
    }

    fn definition(served: bool, established: &str) -> Value {
        let conditions =
            json!([{"type": "Established", "status": established}, {"type": "NamesAccepted", "status": "True"}]);
        json!({"spec": {"versions": [{"name": "v1", "served": served}]}, "status": {"conditions": conditions}})
    }

    fn api(available: &str) -> Value {
        json!({"status": {"conditions": [{"type": "Available", "status": available}]}})
    }

    /// What it is called, and how it is made.
    type Change = (&'static str, fn(&mut Seen));

    /// Nothing else tells that the API server serves other kinds: then it is asked again.
    #[test]
    fn kinds_may_be_others_once_a_definition_or_an_api_has_changed() {
        const DEFINITION: &str = "widgets.example.com";
        const API: &str = "v1.gears.example.com";
        let version_after = |change: fn(&mut Seen)| {
            let mut seen = Seen::default();
            put(&mut seen.definitions, DEFINITION, definition(true, "True"));
            put(&mut seen.api_services, API, api("True"));
            change(&mut seen);
            known(&seen).kinds_version()
        };
        let before = version_after(|_| {});
        let changes: [Change; 6] = [
            ("a version is not served", |it| put(&mut it.definitions, DEFINITION, definition(false, "True"))),
            ("a definition is not established", |it| put(&mut it.definitions, DEFINITION, definition(true, "False"))),
            ("another definition", |it| put(&mut it.definitions, "toys.example.com", definition(true, "True"))),
            ("a definition that goes", |it| drop(Arc::make_mut(&mut it.definitions).remove(DEFINITION))),
            ("an API that is away", |it| put(&mut it.api_services, API, api("False"))),
            ("an API that goes", |it| drop(Arc::make_mut(&mut it.api_services).remove(API))),
        ];
        for (what, change) in changes {
            assert_ne!(version_after(change), before, "{what}");
        }
        let others: [Change; 2] = [
            ("the same again", |it| put(&mut it.definitions, DEFINITION, definition(true, "True"))),
            ("a version of an operator", |it| put(&mut it.csvs, "shop/a", json!({"spec": {}}))),
        ];
        for (what, change) in others {
            assert_eq!(version_after(change), before, "{what}");
        }
    }

    #[test]
    fn kinds_are_asked_for_that_operators_require_of_others() {
        let mut seen = Seen::default();
        let native = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
        let api = json!([{"group": "gears.example.com", "version": "v2", "kind": "Gear", "name": "gears"}]);
        put(&mut seen.csvs, "shop/a", json!({"spec": {"nativeAPIs": native}}));
        put(&mut seen.csvs, "mall/b", json!({"spec": {"apiservicedefinitions": {"required": api, "owned": []}}}));
        let expected = [("apps", "v1"), ("gears.example.com", "v2")];
        let expected = expected.map(|(group, version)| (group.to_owned(), version.to_owned()));
        assert_eq!(known(&seen).natives(), Natives::from(expected));
    }
}
