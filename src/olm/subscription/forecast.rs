//! What would be installed in a namespace if it were otherwise, without touching it.

use super::installed::Csv;
use super::plan::{Group, NewPlan, Plan};
use super::{Facts, Gate, Unpacked, Visible};
use crate::olm::api::cluster_service_version::Phase;
use crate::olm::api::subscription::{Approval, Subscription, SubscriptionSpec, SubscriptionStatus};
use crate::olm::resolve::answer::{Answer, Id, New, Outcome, Part};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use crate::olm::steps::{properties_annotation, subscription_name};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What uids of Subscriptions begin with that do not exist.
const NEW: &str = "new ";

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

/// What is said where the search for an answer has ended without one.
pub(crate) const GAVE_UP: &str = "gave up: there are more combinations of versions than can be tried";

impl Round {
    /// For programs.
    pub(crate) fn told(&self) -> Value {
        let new = |it: &New| {
            json!({"name": it.name, "package": it.package, "channel": it.channel, "replaces": it.replaces, "image": it.image,
                "catalog": {"namespace": it.catalog.0, "name": it.catalog.1}, "subscriptions": it.subscriptions,
                "reasons": it.reasons})
        };
        let failures = self.answer.parts.iter().filter_map(|part| match &part.outcome {
            Outcome::Install(_) => None,
            Outcome::GaveUp => Some(json!({"subscriptions": part.subscriptions, "message": GAVE_UP})),
            Outcome::Impossible(failure) => Some(json!({"subscriptions": failure.subscriptions,
                "message": failure.message, "explanation": failure.explanation})),
        });
        json!({"held": self.held, "install": self.installs().into_iter().map(new).collect::<Vec<_>>(),
            "failures": failures.collect::<Vec<_>>(), "manual": self.manual})
    }

    /// All that is to be installed, by name.
    pub(crate) fn installs(&self) -> Vec<&New> {
        let mut new: Vec<&New> = self.answer.parts.iter().flat_map(Part::installs).collect();
        new.sort_by(|one, other| one.name.cmp(&other.name));
        new
    }
}

impl Hypothesis {
    /// As if somebody had subscribed to the package.
    pub(crate) fn subscribe(&mut self, catalog: &Id, package: &str, channel: &str) {
        self.subscribe_from(catalog, package, channel, "");
    }

    /// The same, beginning with a version.
    pub(crate) fn subscribe_from(
        &mut self,
        (namespace, catalog): &Id,
        package: &str,
        channel: &str,
        starting_csv: &str,
    ) {
        let spec = SubscriptionSpec {
            source: catalog.clone(),
            source_namespace: namespace.clone(),
            name: package.to_owned(),
            channel: channel.to_owned(),
            starting_csv: starting_csv.to_owned(),
            ..SubscriptionSpec::default()
        };
        self.add(Subscription::new(package, spec));
    }

    fn add(&mut self, mut subscription: Subscription) {
        subscription.metadata.namespace = Some(self.namespace.clone());
        // It is in no plan.
        subscription.metadata.uid = subscription.metadata.name.as_ref().map(|name| format!("{NEW}{name}"));
        self.subscriptions.push(Arc::new(subscription));
        self.subscriptions.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    }

    /// The Subscription of this name.
    pub(crate) fn subscription(&self, name: &str) -> Option<&Arc<Subscription>> {
        self.subscriptions.iter().find(|it| it.metadata.name.as_deref() == Some(name))
    }

    /// Whether it has Subscriptions that do not exist.
    pub(crate) fn is_supposed(&self) -> bool {
        let mut uids = self.subscriptions.iter().filter_map(|it| it.metadata.uid.as_deref());
        uids.any(|uid| uid.starts_with(NEW))
    }

    /// As if the Subscription were deleted; whether there is one of this name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|it| it.metadata.name.as_deref() != Some(name));
        self.subscriptions.len() != before
    }

    pub(super) fn facts(&self) -> Facts<'_> {
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
    pub(crate) fn rounds(self, cluster: &ClusterVersions, limits: &Limits, most: usize) -> Vec<Round> {
        let mut rounds = Rounds::of(self, most);
        std::iter::from_fn(|| rounds.next(cluster, limits)).collect()
    }

    /// What is done for the answer of a round. `unpacked`: what is known of the content of a bundle.
    pub(crate) fn planned(&self, round: &Round, unpacked: &dyn Fn(&New) -> Unpacked) -> Planned {
        let facts = self.facts();
        let found = Ok(round.answer.clone());
        let decision = facts.decide(&facts.gate(), Some(&found), unpacked, Timestamp::UNIX_EPOCH);
        let superseded = decision.superseded.iter().map(|plan| plan.name.clone()).collect();
        let wanted = decision.wanted.into_iter().map(|wanted| wanted.new).collect();
        let per_operator = self.groups.iter().any(|group| group.per_operator);
        let parts = &round.answer.parts;
        let components: Vec<&[Part]> = if per_operator { parts.chunks(1).collect() } else { vec![parts] };
        let kept: Vec<PlannedPlan> = components
            .into_iter()
            .map(|parts| parts.iter().flat_map(Part::installs).map(|new| new.name.as_str()).collect::<BTreeSet<_>>())
            .filter(|names| decision.create.iter().all(|new| !new.csvs().eq(names.iter().copied())))
            .filter_map(|names| self.kept(&names))
            .collect();
        let plans = decision.create.into_iter().map(|new| PlannedPlan::New(Box::new(new))).chain(kept).collect();
        Planned { wanted, superseded, plans }
    }

    /// Why no plan with these versions is made; `None` if there are none.
    fn kept(&self, names: &BTreeSet<&str>) -> Option<PlannedPlan> {
        let is_same = |plan: &&Arc<Plan>| plan.csvs.iter().map(String::as_str).eq(names.iter().copied());
        let newest = self.plans.iter().filter(is_same).max_by_key(|plan| plan.generation);
        if names.is_empty() {
            return None;
        }
        Some(match newest.map(|plan| &**plan) {
            Some(plan) if plan.is_open() && !plan.is_empty => PlannedPlan::Exists(plan.name.clone()),
            Some(Plan { name, failure: Some((_, cause)), .. }) => PlannedPlan::Held(format!(
                "InstallPlan {name} with the same versions has failed, and there is no other one as long as the answer is the same: \
                 {cause}"
            )),
            _ => PlannedPlan::Held(
                "what is there has to go, or to be approved or deleted, before another plan is made".to_owned(),
            ),
        })
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

/// What is done for an answer.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Bundles whose content is needed.
    pub wanted: Vec<New>,
    /// Names of plans that nobody has approved, and whose place another one takes.
    pub superseded: Vec<String>,
    /// One for each part that has plans of its own, without those of which nothing is to be installed.
    pub plans: Vec<PlannedPlan>,
}

#[derive(Debug)]
pub(crate) enum PlannedPlan {
    New(Box<NewPlan>),
    /// One of this name, which waits for an approval.
    Exists(String),
    /// Why there is none.
    Held(String),
}

/// Rounds that follow each other, as if each were carried out.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The namespace before the round that was looked at last.
    pub now: Hypothesis,
    last: Option<Round>,
    left: usize,
    is_first: bool,
}

impl Rounds {
    /// `most` of them.
    pub(crate) fn of(now: Hypothesis, most: usize) -> Rounds {
        Rounds { now, last: None, left: most, is_first: true }
    }

    /// The next one, until nothing is to be installed any more.
    pub(crate) fn next(&mut self, cluster: &ClusterVersions, limits: &Limits) -> Option<Round> {
        if let Some(last) = self.last.take() {
            self.now.carry_out(&last);
        }
        self.left = self.left.checked_sub(1)?;
        let round = self.now.round(cluster, limits);
        let is_last = round.installs().is_empty();
        if is_last {
            self.left = 0;
        } else {
            self.last = Some(round.clone());
        }
        let is_first = std::mem::replace(&mut self.is_first, false);
        (!is_last || is_first || round.held.is_some()).then_some(round)
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
