//! What is kept for OperatorGroups besides their operators: labels of their namespaces, the APIs that they provide with the roles for them,
//! and the copies of their members.

use super::known::{Known, Namespace};
use super::perform::Perform;
use super::planned::Planned;
use super::settled::fingerprint;
use super::views::Csv;
use super::{OperatorController, served};
use crate::olm::api::cluster_service_version::Phase;
use crate::olm::api::olm_config;
use crate::olm::operator::component::{self, Id, Kind};
use crate::olm::operator::copies::{self, Course, Rules, Source, Targets};
use crate::olm::operator::tenancy::{Tenancy, Tenant, Verdict};
use crate::olm::operator::{self, labels, roles};
use crate::process::events::Notice;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// So many namespaces are labelled at once.
const AT_ONCE: usize = 32;
/// The reason of the event of an operator that is not copied.
const NOT_COPIED: &str = olm_config::DISABLED_COPIED_CSVS;

impl<'a> Namespace<'a> {
    /// Its groups, with their members.
    pub(super) fn tenants(&'a self) -> impl Iterator<Item = Tenant<'a>> {
        let is_alone = self.groups.len() == 1;
        self.groups.iter().map(move |group| {
            let members = self.csvs.values().filter(|csv| is_alone && operator::is_member(csv, &self.groups));
            Tenant { group, members: members.copied().collect(), is_whole: is_alone && self.is_whole }
        })
    }
}

impl OperatorController {
    /// What the groups mean for one of its members.
    pub(super) fn tenant<'a>(
        &self,
        known: &'a Known,
        (namespace, csv): (&Namespace<'_>, &Csv),
        tenancy: &Tenancy<'_>,
    ) -> operator::Tenant<'a> {
        let group = namespace.groups.first();
        let apis = group.map_or(Verdict::Free, |group| tenancy.verdict(group, csv));
        let original = (namespace.name.to_owned(), csv.metadata.name.clone().unwrap_or_default());
        let targets = group.filter(|group| !group.is_global()).map(|group| group.targets.iter()).into_iter().flatten();
        operator::Tenant { apis, namespaces: known.labels(), copies: self.copies.uids(&original, targets) }
    }

    pub(super) fn bring_groups(
        &self,
        known: &Known,
        namespaces: &[Namespace<'_>],
        (tenancy, served): (&Tenancy<'_>, &served::Kinds),
        perform: &Perform<'_>,
    ) {
        let groups = || namespaces.iter().flat_map(|it| &it.groups);
        let patches = labels::patches(groups(), known.labels(), known.has_all_groups());
        patches.into_iter().take(AT_ONCE).for_each(|(name, patch)| perform.namespace(name, patch));
        for group in groups() {
            if let Some(patch) = tenancy.patch(group) {
                perform.group_metadata(group.object, patch);
            }
        }
        self.bring_roles(known, namespaces, (tenancy, served), perform);
    }

    /// The ClusterRoles of APIs, and those of groups.
    fn bring_roles(
        &self,
        known: &Known,
        namespaces: &[Namespace<'_>],
        (tenancy, served): (&Tenancy<'_>, &served::Kinds),
        perform: &Perform<'_>,
    ) {
        let world = known.world(served);
        let mut apis: BTreeMap<roles::Api, &str> = BTreeMap::new();
        for namespace in namespaces {
            let [group] = namespace.groups.as_slice() else { continue };
            let runs = |csv: &&&Csv| csv.status.as_ref().is_some_and(|status| status.phase == Phase::Succeeded);
            for api in namespace
                .csvs
                .values()
                .filter(runs)
                .flat_map(|csv| roles::provided(csv, |it| world.defined(it), |it| world.answered(it)))
            {
                apis.entry(api).or_insert(group.id().1);
            }
        }
        let mut kept = BTreeSet::new();
        let mut whats = BTreeSet::new();
        for (api, group) in &apis {
            let what = format!("{api:?}");
            whats.insert(what.clone());
            self.bring_settled(known, (what, fingerprint(group)), || roles::of_api(api, group), perform);
        }
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let all = || namespaces.iter().flat_map(|namespace| &namespace.groups);
        all().for_each(|group| *names.entry(group.id().1).or_default() += 1);
        for group in all().filter(|group| group.object.metadata.deletion_timestamp.is_none()) {
            let provided = tenancy.apis(group);
            let (of, name) = group.id();
            let is_only = names.get(name) == Some(&1);
            let has_second = |second: &str| is_only && !known.has_other_role(second);
            let seconds: Vec<bool> =
                ["admin", "edit", "view"].map(|level| has_second(&format!("{name}-{level}"))).into();
            let what = format!("{of}/{name}");
            whats.insert(what.clone());
            let from = fingerprint(&(&provided, seconds));
            let ids =
                self.bring_settled(known, (what, from), || roles::of_group(group, &provided, has_second), perform);
            kept.extend(ids);
        }
        self.settled.retain(|what| whats.contains(what));
        if known.has_all_groups() {
            let surplus = known.components().of_kind(roles::GROUP_KIND);
            let surplus = surplus.filter(|id| id.kind == Kind::ClusterRole && !kept.contains(*id)).cloned();
            let writes = component::writes(Vec::new(), surplus, known.components()).unwrap_or_default();
            writes.into_iter().for_each(|write| perform.component(write));
        }
    }

    /// Objects that are compared only where something has changed. Returns which they are.
    fn bring_settled(
        &self,
        known: &Known,
        (what, from): (String, u64),
        objects: impl FnOnce() -> Vec<serde_json::Value>,
        perform: &Perform<'_>,
    ) -> Vec<Id> {
        if let Some(ids) = self.settled.ids(&what, from, known.components()) {
            return ids;
        }
        let objects = objects();
        let ids = objects.iter().filter_map(Id::of).collect();
        match component::writes(objects.clone(), [], known.components()) {
            Ok(writes) if writes.is_empty() => self.settled.settle(what, from, &objects, known.components()),
            Ok(writes) => writes.into_iter().for_each(|write| perform.component(write)),
            Err(error) => tracing::warn!(%error, "the roles of an API or a group cannot be written"),
        }
        ids
    }

    /// The copies of all operators, and what OLMConfig says of them.
    /// Returns when to look again although nothing has changed.
    pub(super) fn bring_copies(&mut self, known: &Known, at: Instant, now: Timestamp) -> Option<Timestamp> {
        let config = known.config();
        let features = config.and_then(|config| config.spec.features.as_ref());
        let disabled = features.and_then(|features| features.disable_copied_csvs).unwrap_or_default();
        let rules = Rules { disabled, protected: self.settings.protected.clone() };
        let next = match &self.planned {
            Some(planned) if planned.holds(known, &rules, now) => planned.next(),
            _ => {
                let sources = known.csvs().filter_map(|csv| Some((csv, Source::of(csv, now)?)));
                self.tell_not_copied(sources, &rules);
                let (plan, planned) = Planned::of(known, rules, now);
                let next = planned.next();
                self.copies.set(plan);
                self.planned = Some(planned);
                next
            }
        };
        let Some((config, outstanding)) = config.zip(self.copies.outstanding()) else { return next };
        let before = config.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        if let Some(conditions) = copies::conditions(before, (disabled, outstanding), now) {
            self.perform(at).config(config, &conditions);
        }
        next
    }

    /// Each operator that is not copied any more is told of once.
    fn tell_not_copied<'a>(&mut self, sources: impl Iterator<Item = (&'a Csv, Source)>, rules: &Rules) {
        if !rules.disabled {
            self.not_copied = Some(BTreeSet::new());
            return;
        }
        // Those that were not copied when the process began have been told of.
        let before = self.not_copied.take();
        let mut told = BTreeSet::new();
        for (csv, source) in
            sources.filter(|(_, source)| source.targets == Targets::All && source.course == Course::Copied)
        {
            let key = (source.namespace.clone(), source.name.clone());
            let is_new = before.as_ref().is_none_or(|before| !before.contains(&source.uid));
            told.insert(source.uid);
            if is_new && (before.is_some() || self.copies.has(&key)) {
                let note = format!("CSV copying disabled for {}/{}", key.0, key.1);
                self.events.publish_about(Notice::new(true, NOT_COPIED, &note), super::perform::reference(csv));
            }
        }
        self.not_copied = Some(told);
    }
}
