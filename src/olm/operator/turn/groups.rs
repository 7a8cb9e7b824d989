//! What is kept for OperatorGroups besides their operators: labels of their namespaces, and the APIs that they provide with the roles for
//! them. And what belongs to no version of any namespace goes.

use super::{Act, Action, Around, Namespace, orphans};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase};
use crate::olm::operator::Group;
use crate::olm::operator::apis::Apis;
use crate::olm::operator::component::{self, Id, Kind};
use crate::olm::operator::settled::{Settled, fingerprint};
use crate::olm::operator::tenancy::Tenancy;
use crate::olm::operator::{labels, roles};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// So many namespaces are labelled at once.
const AT_ONCE: usize = 32;

/// What is done for all groups. `settled`: what was found as it has to be before.
pub(crate) fn of_groups(
    namespaces: &[Namespace<'_>],
    tenancy: &Tenancy<'_>,
    around: Around<'_>,
    settled: &mut Settled,
    act: &mut Act<'_>,
) {
    let groups = || namespaces.iter().flat_map(|it| &it.groups);
    let patches = labels::patches(groups(), around.namespaces, around.has_all_groups);
    for (name, patch) in patches.into_iter().take(AT_ONCE) {
        act(Action::Namespace { name, patch });
    }
    for group in groups() {
        if let Some(patch) = tenancy.patch(group) {
            act(Action::Group { group: group.object, patch });
        }
    }
    orphans::end(namespaces, around, act);
    let apis = apis(namespaces, around);
    let providers = providers(namespaces, tenancy, around);
    let from = fingerprint(&(&apis, &providers, around.has_all_groups));
    // Most of what changes about operators is nothing to any role.
    if settled.is_whole(from, around.components) {
        return;
    }
    let mut acts = false;
    let act = &mut |action: Action<'_>| {
        acts = true;
        act(action);
    };
    let mut roles = Roles { around, settled, act, whats: BTreeSet::new() };
    roles.of_apis(&apis);
    let kept = roles.of_groups(&providers);
    roles.end(&kept);
    if !acts {
        settled.settle_whole(from, around.components);
    }
}

/// The APIs of operators that run, each with the name of a group that provides it.
fn apis<'a>(namespaces: &'a [Namespace<'a>], around: Around<'_>) -> BTreeMap<roles::Api, &'a str> {
    let world = around.world;
    let mut apis = BTreeMap::new();
    for namespace in namespaces {
        let [group] = namespace.groups.as_slice() else { continue };
        let runs =
            |csv: &&&ClusterServiceVersion| csv.status.as_ref().is_some_and(|status| status.phase == Phase::Succeeded);
        let of = |csv: &&ClusterServiceVersion| roles::provided(csv, |it| world.defined(it), |it| world.answered(it));
        for api in namespace.csvs.values().filter(runs).flat_map(of) {
            apis.entry(api).or_insert(group.id().1);
        }
    }
    apis
}

/// A group, and what its roles are made from.
struct Provider<'a> {
    group: &'a Group<'a>,
    apis: Apis,
    /// Their second names.
    seconds: Vec<String>,
}

impl Hash for Provider<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.group.id(), &self.apis, &self.seconds).hash(hasher);
    }
}

/// Groups that are not being deleted.
fn providers<'a>(namespaces: &'a [Namespace<'a>], tenancy: &Tenancy<'_>, around: Around<'_>) -> Vec<Provider<'a>> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let all = || namespaces.iter().flat_map(|namespace| &namespace.groups);
    all().for_each(|group| *names.entry(group.id().1).or_default() += 1);
    let of = |group: &'a Group<'a>| {
        let name = group.id().1;
        let is_only = names.get(name) == Some(&1);
        let mut seconds: Vec<String> = if is_only { roles::seconds(name).into() } else { Vec::new() };
        seconds.retain(|second| !(around.has_other_role)(second));
        Provider { group, apis: tenancy.apis(group), seconds }
    };
    all().filter(|group| group.object.metadata.deletion_timestamp.is_none()).map(of).collect()
}

/// The ClusterRoles of APIs, and those of groups.
struct Roles<'a, 's> {
    around: Around<'a>,
    settled: &'a mut Settled,
    act: &'a mut Act<'s>,
    /// What there are roles for.
    whats: BTreeSet<String>,
}

impl Roles<'_, '_> {
    fn of_apis(&mut self, apis: &BTreeMap<roles::Api, &str>) {
        for (api, group) in apis {
            self.keep((format!("{api:?}"), fingerprint(group)), || roles::of_api(api, group));
        }
    }

    /// Returns which there are to be.
    fn of_groups(&mut self, providers: &[Provider<'_>]) -> BTreeSet<Id> {
        let mut kept = BTreeSet::new();
        for provider in providers {
            let Provider { group, apis, seconds } = provider;
            let (of, name) = group.id();
            let objects = || roles::of_group(group, apis, |second| seconds.iter().any(|it| it == second));
            kept.extend(self.keep((format!("{of}/{name}"), fingerprint(provider)), objects));
        }
        kept
    }

    /// Objects that are compared only where something has changed. Returns which they are.
    fn keep(&mut self, (what, from): (String, u64), objects: impl FnOnce() -> Vec<Value>) -> Vec<Id> {
        self.whats.insert(what.clone());
        let components = self.around.components;
        if let Some(ids) = self.settled.ids(&what, from, components) {
            return ids;
        }
        let objects = objects();
        let ids = objects.iter().filter_map(Id::of).collect();
        match component::writes(objects.clone(), [], components) {
            Ok(writes) if writes.is_empty() => self.settled.settle(what, from, &objects, components),
            Ok(writes) => writes.into_iter().for_each(|write| (self.act)(Action::Component(write))),
            Err(error) => {
                (self.act)(Action::Impossible { what: "the roles of an API or a group cannot be written", error });
            }
        }
        ids
    }

    /// Roles of groups that are none of these go.
    fn end(self, kept: &BTreeSet<Id>) {
        let Roles { around, settled, act, whats } = self;
        settled.retain(|what| whats.contains(what));
        if around.has_all_groups {
            let surplus = around.components.of_kind(roles::GROUP_KIND);
            let surplus = surplus.filter(|id| id.kind == Kind::ClusterRole && !kept.contains(*id)).cloned();
            let writes = component::writes(Vec::new(), surplus, around.components).unwrap_or_default();
            writes.into_iter().for_each(|write| act(Action::Component(write)));
        }
    }
}
