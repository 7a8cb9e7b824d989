//! What is kept for OperatorGroups besides their operators: labels of their namespaces, and the APIs that they provide with the roles for
//! them.

use super::{Act, Action, Around, Namespace};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase};
use crate::olm::operator::component::{self, Id, Kind};
use crate::olm::operator::settled::{Settled, fingerprint};
use crate::olm::operator::tenancy::Tenancy;
use crate::olm::operator::{labels, roles};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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
    let mut roles = Roles { around, settled, act, whats: BTreeSet::new() };
    roles.of_apis(namespaces);
    let kept = roles.of_groups(namespaces, tenancy);
    roles.end(&kept);
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
    fn of_apis(&mut self, namespaces: &[Namespace<'_>]) {
        let world = self.around.world;
        let mut apis: BTreeMap<roles::Api, &str> = BTreeMap::new();
        for namespace in namespaces {
            let [group] = namespace.groups.as_slice() else { continue };
            let runs = |csv: &&&ClusterServiceVersion| {
                csv.status.as_ref().is_some_and(|status| status.phase == Phase::Succeeded)
            };
            let of =
                |csv: &&ClusterServiceVersion| roles::provided(csv, |it| world.defined(it), |it| world.answered(it));
            for api in namespace.csvs.values().filter(runs).flat_map(of) {
                apis.entry(api).or_insert(group.id().1);
            }
        }
        for (api, group) in &apis {
            self.keep((format!("{api:?}"), fingerprint(group)), || roles::of_api(api, group));
        }
    }

    /// Returns which there are to be.
    fn of_groups(&mut self, namespaces: &[Namespace<'_>], tenancy: &Tenancy<'_>) -> BTreeSet<Id> {
        let mut kept = BTreeSet::new();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let all = || namespaces.iter().flat_map(|namespace| &namespace.groups);
        all().for_each(|group| *names.entry(group.id().1).or_default() += 1);
        let has_other_role = self.around.has_other_role;
        for group in all().filter(|group| group.object.metadata.deletion_timestamp.is_none()) {
            let provided = tenancy.apis(group);
            let (of, name) = group.id();
            let is_only = names.get(name) == Some(&1);
            let has_second = |second: &str| is_only && !has_other_role(second);
            let seconds: Vec<bool> =
                ["admin", "edit", "view"].map(|level| has_second(&format!("{name}-{level}"))).into();
            let from = fingerprint(&(&provided, seconds));
            kept.extend(self.keep((format!("{of}/{name}"), from), || roles::of_group(group, &provided, has_second)));
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
