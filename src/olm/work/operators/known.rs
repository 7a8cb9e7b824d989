//! What is known of the cluster at one moment.

use super::live::Live;
use super::made::Made;
use super::memory::Memory;
use super::roles::{Roles, is_same};
use super::served::{self, Natives};
use super::views::{ConditionView, ConfigView, Csv, CsvView, GroupView};
use crate::olm::api::olm_config::{self, OLMConfig};
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::operator::deployment::Live as LiveDeployment;
use crate::olm::operator::deployment::config::{Proxy, Subscriber};
use crate::olm::operator::group::{self, Namespaces};
use crate::olm::operator::requirements::{Account, ApiService, Definition, World};
use crate::olm::operator::rights::Rights;
use crate::olm::operator::roles::GROUP_KIND;
use crate::olm::operator::{Group, component};
use crate::olm::work::follow::{by_id, by_namespace, id};
use crate::olm::work::version::ServerVersion;
use std::collections::BTreeMap;
use std::sync::Arc;

type Id = (String, String);

pub(super) struct Known {
    csvs: BTreeMap<Id, Arc<CsvView>>,
    groups: BTreeMap<Id, Arc<GroupView>>,
    conditions: BTreeMap<Id, Arc<ConditionView>>,
    /// Those that cannot be read.
    unread_csvs: Vec<Id>,
    has_all_groups: bool,
    config: Option<Arc<ConfigView>>,
    /// Those that can be written into.
    namespaces: Namespaces,
    deployments: BTreeMap<Id, LiveDeployment>,
    subscribers: BTreeMap<String, Vec<Subscriber>>,
    proxy: Proxy,
    definitions: BTreeMap<String, Definition>,
    services: BTreeMap<String, ApiService>,
    accounts: BTreeMap<Id, Account>,
    roles: Roles,
    components: Arc<component::Known>,
    rights: Arc<Rights>,
    kubernetes: Result<semver::Version, String>,
}

/// A namespace with ClusterServiceVersions, OperatorGroups or OperatorConditions.
pub(super) struct Namespace<'a> {
    pub name: &'a str,
    pub csvs: BTreeMap<&'a str, &'a Csv>,
    pub groups: Vec<Group<'a>>,
    pub conditions: BTreeMap<&'a str, &'a OperatorCondition>,
    pub deployments: BTreeMap<String, LiveDeployment>,
    /// All of its ClusterServiceVersions can be read.
    pub is_whole: bool,
    pub subscribers: &'a [Subscriber],
}

impl Known {
    /// `None` before everything is known.
    pub(super) fn of(live: &Live, memory: &Memory, version: &ServerVersion) -> Option<Known> {
        let (csvs, groups, conditions) = (by_id(&live.csvs)?, by_id(&live.groups)?, by_id(&live.conditions)?);
        let version = version.known()?;
        let kubernetes = version.map(|version| version.number());
        let namespaces = live.namespaces.all()?.into_iter().filter(|(_, it)| it.is_active);
        let namespaces = namespaces.map(|(name, it)| (name, it.labels.clone())).collect();
        let configs = if live.configs.is_absent() { BTreeMap::new() } else { live.configs.all()? };
        let deployments = by_id(&live.deployments)?.into_iter().map(|(id, it)| {
            let kept = memory.kept(&id, &it.object);
            let (object, writers) = (it.object.clone(), it.writers.clone());
            (id, LiveDeployment { object, writers, scaled: it.scaled, kept })
        });
        let roles = Roles {
            roles: live.roles.all()?,
            bindings: live.bindings.all()?,
            cluster_roles: live.cluster_roles.all()?,
            cluster_bindings: live.cluster_bindings.all()?,
        };
        let api_services = live.api_services.all()?;
        let made = Made::of(live, &roles, &api_services)?;
        live.secrets.all()?;
        Some(Known {
            csvs,
            groups,
            conditions,
            unread_csvs: live.csvs.undecodable().into_keys().map(|name| id(&name)).collect(),
            has_all_groups: live.groups.undecodable().is_empty(),
            config: configs.get(olm_config::NAME).cloned(),
            namespaces,
            deployments: deployments.collect(),
            subscribers: by_namespace(&live.subscribers, |it| it.subscriber.clone())?,
            // Until it is known whether there is one, no pod begins that would have to be replaced.
            proxy: proxy(live)?,
            definitions: live.definitions.all()?.into_iter().map(|(name, it)| (name, it.definition.clone())).collect(),
            services: api_services.into_iter().map(|(name, it)| (name, it.service.clone())).collect(),
            accounts: by_id(&live.accounts)?.into_iter().map(|(id, it)| (id, it.account.clone())).collect(),
            rights: memory.rights(&roles),
            components: memory.components(&made),
            roles,
            kubernetes,
        })
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = Namespace<'_>> {
        let ids = self.csvs.keys().chain(self.groups.keys()).chain(self.conditions.keys());
        let names: std::collections::BTreeSet<&str> = ids.map(|(namespace, _)| namespace.as_str()).collect();
        names.into_iter().map(|name| self.namespace(name))
    }

    fn namespace<'a>(&'a self, name: &'a str) -> Namespace<'a> {
        let group = |(_, it): (&Id, &'a Arc<GroupView>)| Group {
            object: &it.0,
            targets: group::targets(&it.0.spec, &self.namespaces),
        };
        Namespace {
            name,
            csvs: within(&self.csvs, name).map(|((_, id), it)| (id.as_str(), &*it.0)).collect(),
            groups: within(&self.groups, name).map(group).collect(),
            conditions: within(&self.conditions, name).map(|((_, id), it)| (id.as_str(), &*it.0)).collect(),
            deployments: within(&self.deployments, name).map(|((_, id), it)| (id.clone(), it.clone())).collect(),
            is_whole: self.unread_csvs.iter().all(|(of, _)| of != name),
            subscribers: self.subscribers.get(name).map(Vec::as_slice).unwrap_or_default(),
        }
    }

    pub(super) fn world<'a>(&'a self, served: &'a served::Kinds) -> World<'a> {
        World {
            kubernetes: self.kubernetes.as_ref().map_err(String::as_str),
            definitions: &self.definitions,
            services: &self.services,
            served,
            accounts: &self.accounts,
            rights: &self.rights,
        }
    }

    pub(super) fn csvs(&self) -> impl Iterator<Item = &Csv> {
        self.csvs.values().map(|it| &*it.0)
    }

    pub(super) fn has_account(&self, namespace: &str, name: &str) -> bool {
        self.accounts.contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// Groups and versions of kinds that have to be served, whoever defines them.
    pub(super) fn natives(&self) -> Natives {
        let specs = self.csvs.values().map(|it| &it.0.spec);
        let natives = specs.clone().flat_map(|spec| &spec.native_apis).map(|it| (it.group.clone(), it.version.clone()));
        let required = specs.flat_map(|spec| &spec.api_service_definitions.required);
        natives.chain(required.map(|it| (it.group.clone(), it.version.clone()))).collect()
    }

    /// Differs where other kinds are served.
    pub(super) fn kinds_version(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        for (name, it) in &self.definitions {
            (name, &it.served, it.is_available).hash(&mut hasher);
        }
        for (name, it) in &self.services {
            (name, it.is_available).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Labels of namespaces that can be written into, by their names.
    pub(super) fn labels(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Whether there are no other groups than those that are known.
    pub(super) fn has_all_groups(&self) -> bool {
        self.has_all_groups
    }

    pub(super) fn csv_views(&self) -> &BTreeMap<Id, Arc<CsvView>> {
        &self.csvs
    }

    pub(super) fn unread_csvs(&self) -> &[Id] {
        &self.unread_csvs
    }

    pub(super) fn config(&self) -> Option<&OLMConfig> {
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

    pub(super) fn components(&self) -> &component::Known {
        &self.components
    }

    /// Whether all is the same that any namespace may depend on, be it of another one.
    pub(super) fn is_same_around(&self, other: &Known) -> bool {
        is_same(&self.groups, &other.groups)
            && self.namespaces == other.namespaces
            && self.definitions == other.definitions
            && self.services == other.services
            && self.accounts == other.accounts
            && Arc::ptr_eq(&self.rights, &other.rights)
            && Arc::ptr_eq(&self.components, &other.components)
            && self.proxy == other.proxy
            && self.kubernetes == other.kubernetes
    }

    /// Whether all is the same that a namespace alone depends on.
    pub(super) fn is_same_within(&self, other: &Known, namespace: &str) -> bool {
        fn same<V>(one: &BTreeMap<Id, V>, other: &BTreeMap<Id, V>, namespace: &str, is: fn(&V, &V) -> bool) -> bool {
            let (mut one, mut other) = (within(one, namespace), within(other, namespace));
            loop {
                match (one.next(), other.next()) {
                    (None, None) => return true,
                    (Some((id, one)), Some((of, other))) if id == of && is(one, other) => {}
                    _ => return false,
                }
            }
        }
        let is_deployment = |one: &LiveDeployment, other: &LiveDeployment| {
            Arc::ptr_eq(&one.object, &other.object) && one.kept == other.kept && one.scaled == other.scaled
        };
        same(&self.csvs, &other.csvs, namespace, Arc::ptr_eq)
            && same(&self.conditions, &other.conditions, namespace, Arc::ptr_eq)
            && same(&self.deployments, &other.deployments, namespace, is_deployment)
            && self.subscribers.get(namespace) == other.subscribers.get(namespace)
    }
}

/// `None` before it is known.
fn proxy(live: &Live) -> Option<Proxy> {
    if live.proxies.is_absent() {
        return Some(Proxy::default());
    }
    Some(live.proxies.all()?.get("cluster").map(|it| it.proxy.clone()).unwrap_or_default())
}

fn within<'a, V>(all: &'a BTreeMap<Id, V>, namespace: &'a str) -> impl Iterator<Item = (&'a Id, &'a V)> {
    let from = (namespace.to_owned(), String::new());
    all.range(from..).take_while(move |((of, _), _)| of == namespace)
}
