//! What would be installed in a namespace if it were otherwise, without touching it.

use super::installed::Csv;
use super::plan::{Group, Plan};
use super::{Facts, Gate, Visible};
use crate::olm::api::cluster_service_version::Phase;
use crate::olm::api::subscription::{Approval, Subscription, SubscriptionSpec, SubscriptionStatus};
use crate::olm::resolve::answer::{Answer, Id, New, Part};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use crate::olm::steps::{properties_annotation, subscription_name};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A namespace as it might be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hypothesis {
    pub namespace: String,
    /// The namespace whose catalogs all others see.
    pub global: String,
    pub subscriptions: Vec<Arc<Subscription>>,
    pub csvs: Vec<Arc<Csv>>,
    pub groups: Vec<Arc<Group>>,
    pub plans: Vec<Arc<Plan>>,
    pub catalogs: BTreeMap<Id, Visible>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    /// Why none is looked for.
    pub held: Option<String>,
    pub answer: Answer,
    /// Subscriptions that ask for an approval.
    pub manual: Vec<String>,
}

impl Round {
    /// All that is to be installed, by name.
    pub(crate) fn installs(&self) -> Vec<&New> {
        let mut new: Vec<&New> = self.answer.parts.iter().flat_map(Part::installs).collect();
        new.sort_by(|one, other| one.name.cmp(&other.name));
        new
    }
}

impl Hypothesis {
    /// As if somebody had subscribed to the package.
    pub(crate) fn subscribe(&mut self, (namespace, catalog): &Id, package: &str, channel: &str) {
        let spec = SubscriptionSpec {
            source: catalog.clone(),
            source_namespace: namespace.clone(),
            name: package.to_owned(),
            channel: channel.to_owned(),
            ..SubscriptionSpec::default()
        };
        self.add(Subscription::new(package, spec));
    }

    fn add(&mut self, mut subscription: Subscription) {
        subscription.metadata.namespace = Some(self.namespace.clone());
        // It is in no plan.
        subscription.metadata.uid = subscription.metadata.name.as_ref().map(|name| format!("new {name}"));
        self.subscriptions.push(Arc::new(subscription));
        self.subscriptions.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    }

    /// As if the Subscription were deleted; whether there is one of this name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|it| it.metadata.name.as_deref() != Some(name));
        self.subscriptions.len() != before
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            namespace: &self.namespace,
            subscriptions: &self.subscriptions,
            csvs: &self.csvs,
            groups: &self.groups,
            plans: &self.plans,
            catalogs: &self.catalogs,
            global: &self.global,
            refused: None,
        }
    }

    /// What would be installed now.
    pub(crate) fn round(&self, cluster: &ClusterVersions, limits: &Limits) -> Round {
        let (held, answer) = match self.facts().gate() {
            Gate::Open(inputs) => match inputs.answer(cluster, limits) {
                Ok(answer) => (None, answer),
                Err(cause) => (Some(cause), Answer::default()),
            },
            Gate::Closed(cause) => (Some(cause), Answer::default()),
            Gate::Waiting => (self.waits_for(), Answer::default()),
        };
        let manual = self.subscriptions.iter().filter(|it| it.spec.install_plan_approval == Some(Approval::Manual));
        Round { held, answer, manual: manual.filter_map(|it| it.metadata.name.clone()).collect() }
    }

    fn waits_for(&self) -> Option<String> {
        if self.subscriptions.is_empty() {
            return None;
        }
        let running = self.plans.iter().find(|plan| plan.is_running());
        Some(match running {
            Some(plan) => format!("InstallPlan {} is being carried out", plan.name),
            None => "not all catalogs have been read".to_owned(),
        })
    }

    /// Rounds until nothing is to be installed any more, as if each were carried out; `most` of them.
    pub(crate) fn rounds(mut self, cluster: &ClusterVersions, limits: &Limits, most: usize) -> Vec<Round> {
        let mut rounds = Vec::new();
        for _ in 0..most {
            let round = self.round(cluster, limits);
            let is_last = round.installs().is_empty();
            self.carry_out(&round);
            if !is_last || rounds.is_empty() || round.held.is_some() {
                rounds.push(round);
            }
            if is_last {
                break;
            }
        }
        rounds
    }

    fn carry_out(&mut self, round: &Round) {
        let new = round.installs();
        let gone: BTreeSet<&str> = new.iter().map(|it| it.replaces.as_str()).collect();
        self.csvs.retain(|csv| !gone.contains(csv.name.as_str()));
        for it in new {
            let properties = Some(properties_annotation(&it.properties));
            self.csvs.retain(|csv| csv.name != it.name);
            self.csvs.push(Arc::new(Csv {
                name: it.name.clone(),
                properties,
                phase: Phase::Succeeded,
                ..Csv::default()
            }));
            if it.subscriptions.is_empty() {
                let (namespace, catalog) = &it.catalog;
                let spec = SubscriptionSpec {
                    source: catalog.clone(),
                    source_namespace: namespace.clone(),
                    name: it.package.clone(),
                    channel: it.channel.clone(),
                    starting_csv: it.name.clone(),
                    ..SubscriptionSpec::default()
                };
                let name = subscription_name([&it.package, &it.channel, catalog, namespace]);
                let mut subscription = Subscription::new(&name, spec);
                subscription.status = Some(installed(&it.name));
                self.add(subscription);
            }
            for subscription in &mut self.subscriptions {
                if subscription.metadata.name.as_ref().is_some_and(|name| it.subscriptions.contains(name)) {
                    Arc::make_mut(subscription).status = Some(installed(&it.name));
                }
            }
        }
        // What they said is done.
        self.plans.clear();
    }
}

/// The status of a Subscription that has this installed.
fn installed(csv: &str) -> SubscriptionStatus {
    SubscriptionStatus {
        current_csv: csv.to_owned(),
        installed_csv: csv.to_owned(),
        installplan: None,
        install_plan_ref: None,
        install_plan_generation: None,
        state: Default::default(),
        reason: String::new(),
        last_updated: Time(Timestamp::UNIX_EPOCH),
        catalog_health: Vec::new(),
        conditions: Vec::new(),
    }
}
