//! What is done for the Subscriptions of a namespace: which operators are looked for, what is fetched and planned for them, and what
//! their status says.

pub(crate) mod deprecation;
pub(crate) mod forecast;
pub(crate) mod installed;
pub(crate) mod plan;
pub(crate) mod review;
pub(crate) mod status;
pub(crate) mod why_not;

use crate::olm::api::install_plan::InstallPlanPhase;
use crate::olm::api::keys::annotation;
use crate::olm::api::subscription::{Approval, Subscription, SubscriptionStatus};
use crate::olm::bundle::Bundle;
use crate::olm::catalog::served::Content;
use crate::olm::resolve::answer::{Answer, Id, New, Outcome, Part, answer};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::resolve::world::{Catalog, World};
use crate::olm::resolve::{operator::Operator, world};
use crate::olm::solve::Limits;
use installed::{Csv, InstalledError, counting, operator, waits};
use jiff::{SignedDuration, Timestamp};
use plan::{Group, NewPlan, Plan};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A catalog as Subscriptions see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visible {
    pub uid: String,
    pub resource_version: String,
    pub priority: i64,
    /// `None` as long as this process has not looked at it yet.
    pub health: Option<Result<(), String>>,
    /// It is there if the catalog is healthy.
    pub content: Option<Arc<Content>>,
}

impl Visible {
    /// Whether Subscriptions would see no difference.
    pub(crate) fn is_same(&self, other: &Visible) -> bool {
        let contents = match (&self.content, &other.content) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        contents && (&self.uid, self.priority, &self.health) == (&other.uid, other.priority, &other.health)
    }
}

/// What is known of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    pub namespace: &'a str,
    /// By name.
    pub subscriptions: &'a [Arc<Subscription>],
    pub csvs: &'a [Arc<Csv>],
    pub groups: &'a [Arc<Group>],
    pub plans: &'a [Arc<Plan>],
    /// All of the cluster.
    pub catalogs: &'a BTreeMap<Id, Visible>,
    /// The namespace whose catalogs all others see.
    pub global: &'a str,
}

/// A catalog with its priority and its content.
type Offered = (Id, i64, Arc<Content>);

/// What an answer is made of. The same inputs have the same answer.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    namespace: String,
    catalogs: Vec<Offered>,
    installed: Vec<Arc<Csv>>,
    subscriptions: Vec<world::Subscription>,
}

impl PartialEq for Inputs {
    fn eq(&self, other: &Inputs) -> bool {
        let same = |(one, other): (&Offered, &Offered)| {
            (&one.0, one.1) == (&other.0, other.1) && Arc::ptr_eq(&one.2, &other.2)
        };
        self.subscriptions == other.subscriptions
            && self.installed == other.installed
            && self.catalogs.len() == other.catalogs.len()
            && self.catalogs.iter().zip(&other.catalogs).all(same)
    }
}

/// Whether an answer is looked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Gate {
    Open(Inputs),
    /// What is in the way.
    Closed(String),
    /// Not before something has ended that is under way.
    Waiting,
}

/// The content of a bundle that is to be installed.
#[derive(Clone, Debug)]
pub(crate) enum Unpacked {
    Done(Arc<Bundle>),
    Pending(String),
    /// Why, and whether the bundle itself is wrong.
    Failed {
        cause: String,
        of_content: bool,
    },
}

/// A bundle whose content is needed, and what the group of its namespace says of fetching it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub new: New,
    /// Zero for as long as it takes; the limit of the process without it.
    pub timeout: Option<SignedDuration>,
    /// The pause before it is tried again.
    pub retry: Option<SignedDuration>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// Statuses that are others than before, by the place of the Subscription.
    pub statuses: Vec<(usize, SubscriptionStatus)>,
    /// Bundles whose content is needed.
    pub wanted: Vec<Wanted>,
    pub create: Option<NewPlan>,
    /// Plans that nobody has approved, and whose place another one takes.
    pub superseded: Vec<Arc<Plan>>,
}

/// Where a Subscription stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Standing<'a> {
    /// The newest ClusterServiceVersion that was chosen for it; empty if there is none.
    pub current: String,
    /// The one that exists.
    pub installed: String,
    pub plan: Option<&'a Plan>,
    /// Its status names a plan that does not exist.
    pub plan_is_missing: bool,
}

impl<'a> Facts<'a> {
    /// The only group of the namespace.
    fn group(&self) -> Result<&'a Group, String> {
        match self.groups {
            [only] => Ok(only),
            several => Err(format!("found {} operatorGroups, expected 1", several.len())),
        }
    }

    /// The catalogs that the namespace sees.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (&'a Id, &'a Visible)> {
        let excluded = self.groups.iter().any(|group| group.excludes_global);
        let (own, global) = (self.namespace, self.global);
        self.catalogs.iter().filter(move |(id, _)| id.0 == own || id.0 == global && !excluded)
    }

    fn csv(&self, name: &str) -> Option<&'a Csv> {
        let found = self.csvs.iter().find(|csv| csv.name == name && !csv.is_copy && !csv.is_deleted);
        found.map(|csv| &**csv)
    }

    /// The plans that were made for the Subscription, or that have made it, the newest first.
    fn plans_of(&self, subscription: &Subscription) -> Vec<&'a Plan> {
        let metadata = &subscription.metadata;
        let made_by = metadata.annotations.as_ref().and_then(|all| all.get(annotation::GENERATED_BY));
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let is_for = |plan: &&Plan| plan.owners.contains(uid) || made_by == Some(&plan.name);
        let mut plans: Vec<&Plan> = self.plans.iter().map(|plan| &**plan).filter(is_for).collect();
        plans.sort_by_key(|plan| Reverse((plan.generation, &plan.name)));
        plans
    }

    pub(crate) fn standing(&self, subscription: &Subscription) -> Standing<'a> {
        let before = subscription.status.as_ref();
        let (before_current, before_installed) =
            before.map(|it| (it.current_csv.as_str(), it.installed_csv.as_str())).unwrap_or_default();
        let named = before.and_then(|it| it.install_plan_ref.as_ref()?.name.as_deref());
        let plans = self.plans_of(subscription);
        let plan = plans.first().copied();
        let is_missing = named.is_some_and(|name| self.plans.iter().all(|plan| plan.name != name));
        let planned = plans.iter().find_map(|plan| plan.packages.get(&subscription.spec.name)).map(String::as_str);
        // Whoever deletes a plan before it is carried out wants another choice.
        let kept = if is_missing && self.csv(before_current).is_none() { "" } else { before_current };
        let current = planned.unwrap_or(kept);
        let exists = |name: &str| self.csv(name).is_some();
        let installed = [current, before_installed].into_iter().find(|name| exists(name)).unwrap_or_default();
        Standing {
            current: current.to_owned(),
            installed: installed.to_owned(),
            plan,
            plan_is_missing: is_missing && plan.is_none(),
        }
    }

    /// Whether an answer can be looked for, and from what.
    pub(crate) fn gate(&self) -> Gate {
        if self.subscriptions.is_empty() || self.visible().any(|(_, catalog)| catalog.health.is_none()) {
            return Gate::Waiting;
        }
        let group = match self.group() {
            Ok(group) => group,
            Err(cause) => return Gate::Closed(cause),
        };
        let sick = self.visible().filter_map(|((namespace, name), it)| {
            let cause = it.health.as_ref()?.as_ref().err()?;
            Some(format!("error using catalogsource {namespace}/{name}: {cause}"))
        });
        let sick: Vec<String> = sick.collect();
        if !sick.is_empty() {
            return Gate::Closed(sick.join("; "));
        }
        if self.plans.iter().any(|plan| plan.is_running()) {
            return Gate::Waiting;
        }
        match self.inputs(group) {
            Ok(inputs) => Gate::Open(inputs),
            Err(error) => Gate::Closed(error.to_string()),
        }
    }

    fn inputs(&self, group: &Group) -> Result<Inputs, InstalledError> {
        let installed = counting(self.namespace, self.csvs, group.fail_forward)?;
        let catalogs = self.visible().filter_map(|(id, it)| Some((id.clone(), it.priority, it.content.clone()?)));
        let subscriptions = self.subscriptions.iter().map(|it| {
            let standing = self.standing(it);
            world::Subscription {
                name: it.metadata.name.clone().unwrap_or_default(),
                package: it.spec.name.clone(),
                channel: it.spec.channel.clone(),
                catalog: (it.spec.source_namespace.clone(), it.spec.source.clone()),
                starting_csv: it.spec.starting_csv.clone(),
                waits: waits(self.csv(&standing.installed)),
                installed_csv: standing.installed,
            }
        });
        Ok(Inputs {
            namespace: self.namespace.to_owned(),
            catalogs: catalogs.collect(),
            installed: installed.into_iter().cloned().collect(),
            subscriptions: subscriptions.collect(),
        })
    }

    /// `found`: the answer for the inputs of the gate. `unpacked`: what is known of the content of a bundle.
    pub(crate) fn decide(
        &self,
        gate: &Gate,
        found: Option<&Result<Answer, String>>,
        unpacked: &dyn Fn(&New) -> Unpacked,
        now: Timestamp,
    ) -> Decision {
        let mut decision = Decision::default();
        let mut trouble = status::Trouble::default();
        if let (Gate::Open(_), Some(Ok(answer))) = (gate, found) {
            self.plan(answer, unpacked, &mut decision, &mut trouble);
        }
        for (at, subscription) in self.subscriptions.iter().enumerate() {
            let said = status::Said { facts: self, subscription, gate, found, trouble: &trouble, now };
            decision.statuses.extend(said.changed().map(|status| (at, status)));
        }
        decision
    }

    /// One plan for all that is to be installed, unless it is there.
    fn plan(
        &self,
        answer: &Answer,
        unpacked: &dyn Fn(&New) -> Unpacked,
        decision: &mut Decision,
        trouble: &mut status::Trouble,
    ) {
        let is_whole = answer.parts.iter().all(|part| matches!(part.outcome, Outcome::Install(_)));
        let mut new: Vec<New> = answer.parts.iter().flat_map(Part::installs).cloned().collect();
        new.sort_by(|one, other| one.name.cmp(&other.name));
        let names: BTreeSet<&str> = new.iter().map(|it| it.name.as_str()).collect();
        let is_same = |plan: &Plan| plan.csvs.iter().map(String::as_str).eq(names.iter().copied());
        let open = self.plans.iter().filter(|plan| plan.is_open() && self.is_ours(plan));
        let (same, others): (Vec<&Arc<Plan>>, Vec<&Arc<Plan>>) = open.partition(|plan| is_same(plan));
        // A version that was asked for by name stays as long as nothing is installed.
        if others.iter().any(|plan| self.subscriptions.iter().any(|it| self.pins(it, plan))) {
            return;
        }
        let newest = self.plans.iter().filter(|plan| self.is_ours(plan)).max_by_key(|plan| plan.generation);
        let has_failed = newest.is_some_and(|plan| plan.phase == InstallPlanPhase::Failed && is_same(plan));
        if new.is_empty() && is_whole || same.iter().any(|plan| !plan.is_empty) {
            decision.superseded = others.into_iter().cloned().collect();
            return;
        }
        // What has to go before it can come again has not gone yet.
        let is_going = |it: &New| self.csvs.iter().any(|csv| csv.is_deleted && csv.name == it.name);
        if new.is_empty() || has_failed || new.iter().any(is_going) {
            return;
        }
        let mut bundles = Vec::new();
        for it in &new {
            match unpacked(it) {
                Unpacked::Done(bundle) => bundles.push((it.clone(), bundle)),
                Unpacked::Pending(text) => trouble.pending.push(text),
                Unpacked::Failed { cause, of_content } => trouble.failed.push((cause, of_content)),
            }
        }
        let (timeout, retry) = self.groups.first().map(|it| (it.unpack_timeout, it.unpack_retry)).unwrap_or_default();
        decision.wanted = new.into_iter().map(|new| Wanted { new, timeout, retry }).collect();
        // There is one that can be approved at any time.
        match (trouble.is_none(), others.is_empty()) {
            (false, _) => {}
            (true, false) => decision.superseded = others.into_iter().cloned().collect(),
            (true, true) => decision.create = Some(self.new_plan(bundles, same.first().map(|plan| &***plan))),
        }
    }

    /// Whether the plan was made for a Subscription of the namespace.
    fn is_ours(&self, plan: &Plan) -> bool {
        self.subscriptions.iter().any(|it| it.metadata.uid.as_ref().is_some_and(|uid| plan.owners.contains(uid)))
    }

    fn pins(&self, subscription: &Subscription, plan: &Plan) -> bool {
        let wanted = &subscription.spec.starting_csv;
        !wanted.is_empty() && plan.csvs.contains(wanted) && self.standing(subscription).installed.is_empty()
    }

    /// `begun`: the same plan, of which the status is still to be written.
    fn new_plan(&self, bundles: Vec<(New, Arc<Bundle>)>, begun: Option<&Plan>) -> NewPlan {
        let manual = self.subscriptions.iter().any(|it| it.spec.install_plan_approval == Some(Approval::Manual));
        let last = self.plans.iter().map(|plan| plan.generation).max().unwrap_or_default();
        NewPlan {
            namespace: self.namespace.to_owned(),
            begun: begun.map(|plan| plan.name.clone()),
            generation: begun.map_or(last + 1, |plan| plan.generation),
            approval: if manual { Approval::Manual } else { Approval::Automatic },
            owners: self.subscriptions.to_vec(),
            account: self.groups.first().and_then(|group| group.account.clone()),
            bundles,
        }
    }
}

impl Inputs {
    /// What is to be installed; it may take seconds. An error says what of the namespace cannot be read.
    pub(crate) fn answer(&self, cluster: &ClusterVersions, limits: &Limits) -> Result<Answer, String> {
        Ok(answer(&self.world(cluster)?, limits))
    }

    fn world(&self, cluster: &ClusterVersions) -> Result<World, String> {
        let installed: Vec<(&str, &str)> =
            self.subscriptions.iter().map(|it| (it.package.as_str(), it.installed_csv.as_str())).collect();
        let operators = self.installed.iter().map(|csv| operator(&self.namespace, csv, &installed, cluster));
        let operators: Result<Vec<Operator>, InstalledError> = operators.collect();
        let catalog = |((namespace, name), priority, content): &Offered| {
            Catalog::new((namespace, name), *priority, content.clone(), cluster)
        };
        Ok(World {
            namespace: self.namespace.clone(),
            catalogs: self.catalogs.iter().map(catalog).collect(),
            installed: operators.map_err(|error| error.to_string())?.into_iter().map(Arc::new).collect(),
            subscriptions: self.subscriptions.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
