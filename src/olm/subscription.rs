//! What is done for the Subscriptions of a namespace: which operators are looked for, what is fetched and planned for them, and what
//! their status says.

mod by_hand;
mod changes;
mod component;
pub(crate) mod deprecation;
pub(crate) mod forecast;
pub(crate) mod installed;
pub(crate) mod labels;
pub(crate) mod news;
pub(crate) mod plan;
pub(crate) mod review;
pub(crate) mod status;
pub(crate) mod why_not;

use crate::olm::api::keys::annotation;
use crate::olm::api::subscription::{Subscription, SubscriptionStatus};
use crate::olm::bundle::Bundle;
use crate::olm::catalog::served::Content;
use crate::olm::resolve::answer::{Answer, Id, New, answer};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::resolve::world::{Catalog, World};
use crate::olm::resolve::{operator::Operator, world};
use crate::olm::solve::Limits;
pub(crate) use by_hand::ByHand;
use installed::{Csv, InstalledError, counting, operator, waits};
use jiff::{SignedDuration, Timestamp};
use plan::{Group, NewPlan, Plan};
use std::cmp::Reverse;
use std::collections::BTreeMap;
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
    /// Why the API server does not take the plan that is to be made or, of one that somebody has written, its steps.
    pub refused: Option<&'a str>,
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
    /// ClusterServiceVersions that are asked for by name, instead of by Subscriptions.
    named: Vec<String>,
}

impl PartialEq for Inputs {
    fn eq(&self, other: &Inputs) -> bool {
        let same = |(one, other): (&Offered, &Offered)| {
            (&one.0, one.1) == (&other.0, other.1) && Arc::ptr_eq(&one.2, &other.2)
        };
        self.subscriptions == other.subscriptions
            && self.named == other.named
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
    /// Plans that are to be made, one after the other.
    pub create: Vec<NewPlan>,
    /// Plans that nobody has approved, and whose place another one takes.
    pub superseded: Vec<Arc<Plan>>,
}

impl Decision {
    pub(crate) fn is_nothing(&self) -> bool {
        self.statuses.is_empty() && self.wanted.is_empty() && self.create.is_empty() && self.superseded.is_empty()
    }
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
        // Whoever sees the name of a plan sees with it which version was chosen.
        let plan = plans.iter().find(|plan| !plan.is_unwritten()).copied();
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
            plan_is_missing: is_missing && plans.is_empty(),
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
        // Where operators have plans of their own, each waits for its own alone.
        if self.plans.iter().any(|plan| plan.is_running() && !(group.per_operator && self.is_ours(plan))) {
            return Gate::Waiting;
        }
        match self.inputs(group) {
            Ok(inputs) => Gate::Open(inputs),
            Err(error) => Gate::Closed(error.to_string()),
        }
    }

    /// What the namespace has and sees, without a question.
    fn common_inputs(&self, fail_forward: bool) -> Result<Inputs, InstalledError> {
        let installed = counting(self.namespace, self.csvs, fail_forward)?;
        let catalogs = self.visible().filter_map(|(id, it)| Some((id.clone(), it.priority, it.content.clone()?)));
        Ok(Inputs {
            namespace: self.namespace.to_owned(),
            catalogs: catalogs.collect(),
            installed: installed.into_iter().cloned().collect(),
            subscriptions: Vec::new(),
            named: Vec::new(),
        })
    }

    fn inputs(&self, group: &Group) -> Result<Inputs, InstalledError> {
        let subscriptions = self.subscriptions.iter().map(|it| {
            let standing = self.standing(it);
            world::Subscription {
                name: it.metadata.name.clone().unwrap_or_default(),
                package: it.spec.name.clone(),
                channel: it.spec.channel.clone(),
                catalog: (it.spec.source_namespace.clone(), it.spec.source.clone()),
                other_catalogs: takes_other_catalogs(it),
                starting_csv: it.spec.starting_csv.clone(),
                waits: waits(self.csv(&standing.installed)),
                installed_csv: standing.installed,
            }
        });
        Ok(Inputs { subscriptions: subscriptions.collect(), ..self.common_inputs(group.fail_forward)? })
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

    /// Whether the plan was made for a Subscription of the namespace.
    fn is_ours(&self, plan: &Plan) -> bool {
        self.subscriptions.iter().any(|it| it.metadata.uid.as_ref().is_some_and(|uid| plan.owners.contains(uid)))
    }
}

/// Whether other catalogs may stand in for the one that it names.
fn takes_other_catalogs(subscription: &Subscription) -> bool {
    let annotations = subscription.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(annotation::OTHER_CATALOGS)).is_some_and(|text| text == "true")
}

impl Inputs {
    /// What is to be installed; it may take seconds. An error says what of the namespace cannot be read.
    pub(crate) fn answer(&self, cluster: &ClusterVersions, limits: &Limits) -> Result<Answer, String> {
        let world = self.world(cluster)?;
        if self.named.is_empty() { Ok(answer(&world, limits)) } else { by_hand::answer(world, &self.named, limits) }
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
