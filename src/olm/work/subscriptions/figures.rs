//! What metrics tell of Subscriptions and InstallPlans.

use super::live::Live;
use crate::metrics::summary::Summary;
use crate::olm::api::subscription::{Approval, Subscription};
use crate::olm::metrics::SubscriptionLabels;
use crate::process::durations::Durations;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Is asked at each scrape.
#[derive(Default)]
pub(crate) struct SubscriptionFigures {
    live: OnceLock<Live>,
    looks: Mutex<Looks>,
    resolutions: Arc<Resolutions>,
}

/// By namespace and name: the resourceVersion that was looked at last, and how often there was another one.
type Looks = BTreeMap<(String, String), (String, u64)>;

/// How long looking for answers took.
#[derive(Default)]
pub(super) struct Resolutions {
    succeeded: Mutex<Durations>,
    failed: Mutex<Durations>,
}

impl Resolutions {
    pub(super) fn add(&self, succeeded: bool, took: Duration) {
        let of = if succeeded { &self.succeeded } else { &self.failed };
        of.lock().unwrap_or_else(PoisonError::into_inner).add(took, Instant::now());
    }

    fn summaries(&self) -> Vec<(&'static str, Summary)> {
        let now = Instant::now();
        let both = [("succeeded", &self.succeeded), ("failed", &self.failed)];
        let summary = |of: &Mutex<Durations>| of.lock().unwrap_or_else(PoisonError::into_inner).summary(now);
        both.into_iter().map(|(outcome, of)| (outcome, summary(of))).filter(|(_, it)| it.count > 0).collect()
    }
}

impl SubscriptionFigures {
    pub(super) fn show(&self, live: Live) {
        let _first = self.live.set(live);
    }

    pub(super) fn resolutions(&self) -> Arc<Resolutions> {
        self.resolutions.clone()
    }

    /// All Subscriptions are looked at, by namespace.
    pub(super) fn on_look(&self, all: &BTreeMap<String, Vec<Arc<Subscription>>>) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        *looks = looked(std::mem::take(&mut looks), all);
    }

    /// How often Subscriptions were looked at because they had changed, by what they say now.
    pub(crate) fn syncs(&self) -> BTreeMap<SubscriptionLabels, u64> {
        let known = self.live.get().and_then(|live| live.subscriptions.all()).unwrap_or_default();
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        counted(&looks, known.values().map(|view| &*view.0))
    }

    /// How long it took to find what is to be installed in a namespace, by outcome.
    pub(crate) fn durations(&self) -> Vec<(&'static str, Summary)> {
        self.resolutions.summaries()
    }

    /// How many Subscriptions and InstallPlans there are; `None` before all of them are known.
    pub(crate) fn counts(&self) -> Option<(usize, usize)> {
        let live = self.live.get()?;
        Some((live.subscriptions.all()?.len(), live.plans.all()?.len()))
    }

    /// `namespace/name` of Subscriptions and InstallPlans that do not have the form of their kind.
    pub(crate) fn undecodable(&self) -> Vec<(&'static str, String)> {
        let Some(live) = self.live.get() else { return Vec::new() };
        let subscriptions = live.subscriptions.undecodable().into_keys().map(|name| ("Subscription", name));
        subscriptions.chain(live.plans.undecodable().into_keys().map(|name| ("InstallPlan", name))).collect()
    }
}

fn key(subscription: &Subscription) -> (String, String) {
    let metadata = &subscription.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Those that are gone are forgotten.
fn looked(mut before: Looks, all: &BTreeMap<String, Vec<Arc<Subscription>>>) -> Looks {
    let look = |subscription: &Arc<Subscription>| {
        let version = subscription.metadata.resource_version.clone().unwrap_or_default();
        let key = key(subscription);
        let (known, count) = before.remove(&key).unwrap_or_default();
        let count = if known == version { count } else { count + 1 };
        (key, (version, count))
    };
    all.values().flatten().map(look).collect()
}

/// Names are those within namespaces, so that Subscriptions of several can say the same.
fn counted<'a>(looks: &Looks, all: impl Iterator<Item = &'a Subscription>) -> BTreeMap<SubscriptionLabels, u64> {
    let mut counts = BTreeMap::new();
    for subscription in all {
        let key = key(subscription);
        let Some((_, count)) = looks.get(&key) else { continue };
        let (spec, status) = (&subscription.spec, subscription.status.as_ref());
        let labels = SubscriptionLabels {
            name: key.1,
            installed: status.map(|status| status.installed_csv.clone()).unwrap_or_default(),
            channel: spec.channel.clone(),
            package: spec.name.clone(),
            approval: match &spec.install_plan_approval {
                Some(Approval::Manual) => "Manual".to_owned(),
                Some(Approval::Other(text)) => text.clone(),
                Some(Approval::Automatic) | None => "Automatic".to_owned(),
            },
        };
        *counts.entry(labels).or_default() += count;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all(versions: &[(&str, &str)]) -> BTreeMap<String, Vec<Arc<Subscription>>> {
        let of = |(namespace, version): &(&str, &str)| {
            let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"name": "ink", "namespace": namespace, "resourceVersion": version},
                "spec": {"name": "ink", "channel": "stable", "source": "main", "sourceNamespace": "shop"},
                "status": {"installedCSV": "ink.v1", "lastUpdated": "1970-01-01T00:00:00Z"}});
            (namespace.to_string(), vec![Arc::new(serde_json::from_value(object).unwrap())])
        };
        versions.iter().map(of).collect()
    }

    #[test]
    fn durations_are_told_by_outcome_once_there_are_any() {
        let figures = SubscriptionFigures::default();
        let told = || figures.durations().into_iter().map(|(outcome, it)| (outcome, it.count)).collect::<Vec<_>>();
        assert_eq!(told(), []);
        figures.resolutions().add(false, Duration::from_millis(3));
        assert_eq!(told(), [("failed", 1)]);
        figures.resolutions().add(true, Duration::from_millis(3));
        figures.resolutions().add(true, Duration::from_millis(5));
        assert_eq!(told(), [("succeeded", 2), ("failed", 1)]);
    }

    #[test]
    fn changed_subscription_is_counted_and_one_that_is_gone_is_forgotten() {
        let first = looked(Looks::new(), &all(&[("a", "1"), ("b", "1")]));
        let second = looked(first, &all(&[("a", "1"), ("b", "2")]));
        let samples = |looks: &Looks, now: &BTreeMap<String, Vec<Arc<Subscription>>>| -> Vec<(String, u64)> {
            let counts = counted(looks, now.values().flatten().map(|it| &**it));
            counts
                .into_iter()
                .map(|(labels, count)| (format!("{} {}", labels.installed, labels.approval), count))
                .collect()
        };
        // Two namespaces that say the same are one series.
        let expected = |count| vec![("ink.v1 Automatic".to_owned(), count)];
        assert_eq!(samples(&second, &all(&[("a", "1"), ("b", "2")])), expected(3));
        let other = looked(second.clone(), &all(&[("a", "1"), ("b", "3")]));
        assert_eq!(samples(&other, &all(&[("a", "1"), ("b", "3")])), expected(4));
        let third = looked(second, &all(&[("b", "2")]));
        assert_eq!(samples(&third, &all(&[("a", "1"), ("b", "2")])), expected(2));
    }
}
