//! What follows from the views of each kind alone: it is made anew only where that kind has changed.

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
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

type Id = (String, String);
/// Which fields of a Deployment the API server keeps different from what was written.
type KeptFields<'a> = dyn Fn(&Id, &Value) -> Vec<String> + 'a;
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
    /// `version`: how often what `kept` says has changed.
    pub(super) fn of(&mut self, seen: &Seen, (kept, version): (&KeptFields<'_>, u64)) -> Derived {
        let (before, at, mut made) = self.0.take().unwrap_or_default();
        renew(&mut made.csvs, (&before.csvs, &seen.csvs), |views| {
            by_id(views, |it| (!it.0.is_copy()).then(|| it.clone()))
        });
        renew(&mut made.unlabelled, (&before.csvs, &seen.csvs), unlabelled);
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
        if at != version || !Arc::ptr_eq(&before.deployments, &seen.deployments) {
            made.deployments = deployments(&seen.deployments, kept);
        }
        self.0 = Some((seen.clone(), version, made.clone()));
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

fn unlabelled(views: &Views<CsvView>) -> Arc<Vec<Arc<CsvView>>> {
    Arc::new(views.values().filter(|it| it.0.unlabelled_copy_of().is_some()).cloned().collect())
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

fn deployments(views: &Views<DeploymentView>, kept: &KeptFields<'_>) -> ById<LiveDeployment> {
    let live = |(name, it): (&String, &Arc<DeploymentView>)| {
        let id = id(name);
        let kept = kept(&id, &it.object);
        (id, LiveDeployment { object: it.object.clone(), writers: it.writers.clone(), scaled: it.scaled, kept })
    };
    Arc::new(views.iter().map(live).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::work::operators::seen::tests::put;
    use serde_json::json;

    fn none(_: &Id, _: &Value) -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn what_follows_from_a_kind_is_made_anew_where_it_has_changed_and_nowhere_else() {
        let (mut last, mut seen) = (Last::default(), Seen::default());
        put(&mut seen.csvs, "shop/a", json!({"spec": {}}));
        put(&mut seen.groups, "shop/g", json!({"spec": {}}));
        put(&mut seen.accounts, "shop/a", json!({}));
        put(&mut seen.deployments, "shop/a", json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
        let first = last.of(&seen, (&none, 0));
        put(&mut seen.accounts, "shop/b", json!({}));
        let second = last.of(&seen, (&none, 0));
        assert!(Arc::ptr_eq(&first.csvs, &second.csvs) && Arc::ptr_eq(&first.groups, &second.groups));
        assert!(Arc::ptr_eq(&first.deployments, &second.deployments));
        assert_eq!([first.accounts.len(), second.accounts.len()], [1, 2]);
        // What the process remembers of Deployments is another matter than what they are.
        let kept = |_: &Id, _: &Value| vec!["spec.replicas".to_owned()];
        let third = last.of(&seen, (&kept, 1));
        assert!(Arc::ptr_eq(&second.accounts, &third.accounts));
        let of = |derived: &Derived| derived.deployments[&("shop".to_owned(), "a".to_owned())].kept.clone();
        assert_eq!([of(&second), of(&third)], [vec![], vec!["spec.replicas".to_owned()]]);
    }
}
