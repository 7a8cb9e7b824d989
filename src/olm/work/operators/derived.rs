//! What follows from the views of each kind alone: it is made anew only where that kind has changed.

use super::memory::Memory;
use super::seen::Seen;
use super::views::{
    AccountView, ConditionView, CsvView, DefinitionView, DeploymentView, GroupView, NamespaceView, ServiceView,
    SubscriberView,
};
use crate::cluster::followed::{View, Views};
use crate::olm::operator::deployment::Live as LiveDeployment;
use crate::olm::operator::deployment::config::Subscriber;
use crate::olm::operator::group::Namespaces;
use crate::olm::operator::requirements::{Account, ApiService, Definition};
use crate::olm::work::follow::id;
use std::collections::BTreeMap;
use std::sync::Arc;

type Id = (String, String);
/// By namespace and name. Whoever has them shares them with the next turns in which the kind is the same.
pub(super) type ById<V> = Arc<BTreeMap<Id, V>>;

/// Of each kind.
#[derive(Clone, Default)]
pub(super) struct Derived {
    /// No copies.
    pub csvs: ById<Arc<CsvView>>,
    /// Copies that lack the label by which they are known.
    pub unlabelled: Arc<Vec<Arc<CsvView>>>,
    pub groups: ById<Arc<GroupView>>,
    pub conditions: ById<Arc<ConditionView>>,
    /// Those that can be written into.
    pub namespaces: Arc<Namespaces>,
    pub deployments: ById<LiveDeployment>,
    pub subscribers: Arc<BTreeMap<String, Vec<Subscriber>>>,
    pub definitions: Arc<BTreeMap<String, Definition>>,
    pub services: Arc<BTreeMap<String, ApiService>>,
    pub accounts: ById<Account>,
}

/// What was made last, and of what.
#[derive(Default)]
pub(super) struct Last(Option<(Seen, u64, Derived)>);

impl Last {
    /// `kept`: which version of what the process remembers of Deployments `memory` has.
    pub(super) fn of(&mut self, seen: &Seen, (memory, kept): (&Memory, u64)) -> Derived {
        let (before, was_kept, mut made) = self.0.take().unwrap_or_default();
        if !Arc::ptr_eq(&before.csvs, &seen.csvs) {
            made.csvs = by_id(&seen.csvs, |it| (!it.0.is_copy()).then(|| it.clone()));
            made.unlabelled =
                Arc::new(seen.csvs.values().filter(|it| it.0.unlabelled_copy_of().is_some()).cloned().collect());
        }
        renew(&mut made.groups, (&before.groups, &seen.groups), |views| by_id(views, |it| Some(it.clone())));
        renew(&mut made.conditions, (&before.conditions, &seen.conditions), |views| {
            by_id(views, |it| Some(it.clone()))
        });
        renew(&mut made.namespaces, (&before.namespaces, &seen.namespaces), writable);
        renew(&mut made.subscribers, (&before.subscribers, &seen.subscribers), by_namespace);
        renew(&mut made.definitions, (&before.definitions, &seen.definitions), |views: &Views<DefinitionView>| {
            Arc::new(views.iter().map(|(name, it)| (name.clone(), it.definition.clone())).collect())
        });
        renew(&mut made.services, (&before.api_services, &seen.api_services), |views: &Views<ServiceView>| {
            Arc::new(views.iter().map(|(name, it)| (name.clone(), it.service.clone())).collect())
        });
        renew(&mut made.accounts, (&before.accounts, &seen.accounts), |views: &Views<AccountView>| {
            by_id(views, |it| Some(it.account.clone()))
        });
        if was_kept != kept || !Arc::ptr_eq(&before.deployments, &seen.deployments) {
            made.deployments = deployments(&seen.deployments, memory);
        }
        self.0 = Some((seen.clone(), kept, made.clone()));
        made
    }
}

fn renew<V, T>(made: &mut T, (before, views): (&Views<V>, &Views<V>), make: impl FnOnce(&Views<V>) -> T) {
    if !Arc::ptr_eq(before, views) {
        *made = make(views);
    }
}

fn by_id<V: View, T>(views: &Views<V>, of: impl Fn(&Arc<V>) -> Option<T>) -> ById<T> {
    Arc::new(views.iter().filter_map(|(name, view)| Some((id(name), of(view)?))).collect())
}

fn writable(views: &Views<NamespaceView>) -> Arc<Namespaces> {
    let active = views.iter().filter(|(_, it)| it.is_active);
    Arc::new(active.map(|(name, it)| (name.clone(), it.labels.clone())).collect())
}

fn by_namespace(views: &Views<SubscriberView>) -> Arc<BTreeMap<String, Vec<Subscriber>>> {
    let mut all: BTreeMap<String, Vec<Subscriber>> = BTreeMap::new();
    for (name, it) in &**views {
        all.entry(id(name).0).or_default().push(it.subscriber.clone());
    }
    Arc::new(all)
}

fn deployments(views: &Views<DeploymentView>, memory: &Memory) -> ById<LiveDeployment> {
    let live = |(name, it): (&String, &Arc<DeploymentView>)| {
        let id = id(name);
        let kept = memory.kept(&id, &it.object);
        (id, LiveDeployment { object: it.object.clone(), writers: it.writers.clone(), scaled: it.scaled, kept })
    };
    Arc::new(views.iter().map(live).collect())
}
