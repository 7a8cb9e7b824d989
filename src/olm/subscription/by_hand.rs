//! InstallPlans that somebody has written by hand: they name ClusterServiceVersions, and get the steps that install these and what
//! they depend on. Nobody has subscribed, so no Subscription is made for any of it.

use super::plan::{NewPlan, Plan};
use super::{Facts, Gate, Unpacked, Wanted};
use crate::error::shortened;
use crate::olm::api::subscription::Approval;
use crate::olm::bundle::Bundle;
use crate::olm::resolve::answer::{Answer, New, Outcome, answer as resolved};
use crate::olm::resolve::operator::Operator;
use crate::olm::resolve::package::Package;
use crate::olm::resolve::world::{Subscription, World};
use crate::olm::solve::Limits;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names in one plan.
const MAX_NAMES: usize = 100;
/// Plans of a namespace that are looked at, the oldest first.
const MAX_PLANS: usize = 20;

/// Bytes of what is told of a plan.
const MAX_MESSAGE: usize = 16 << 10;

/// What is done for a plan that somebody has written.
#[derive(Debug, Default)]
pub(crate) struct ByHand {
    /// Bundles whose content is needed.
    pub wanted: Vec<Wanted>,
    /// Its steps are written.
    pub resolve: Option<NewPlan>,
    /// It cannot be resolved now; this is told.
    pub refuse: Option<String>,
}

impl<'a> Facts<'a> {
    /// Those that are still to be resolved.
    pub(crate) fn by_hand(&self) -> impl Iterator<Item = &'a Arc<Plan>> + use<'a> {
        self.plans.iter().filter(|plan| plan.is_by_hand()).take(MAX_PLANS)
    }

    /// Whether steps can be looked for, and from what. The group of the namespace is asked for when they are carried out.
    pub(crate) fn gate_by_hand(&self, plan: &Plan) -> Gate {
        if self.visible().any(|(_, catalog)| catalog.health.is_none()) {
            return Gate::Waiting;
        }
        if plan.csvs.len() > MAX_NAMES {
            return Gate::Closed(format!(
                "spec.clusterServiceVersionNames has {} names, and {MAX_NAMES} are the most: make several plans of it",
                plan.csvs.len()
            ));
        }
        let fail_forward = self.groups.iter().any(|group| group.fail_forward);
        match self.common_inputs(fail_forward) {
            Ok(inputs) if inputs.catalogs.is_empty() => Gate::Closed(
                "no catalog is visible in this namespace that has what spec.clusterServiceVersionNames asks for: create a \
                 CatalogSource here"
                    .to_owned(),
            ),
            Ok(inputs) => Gate::Open(super::Inputs { named: plan.csvs.iter().cloned().collect(), ..inputs }),
            Err(error) => Gate::Closed(error.to_string()),
        }
    }

    /// `found`: the answer for the inputs of the gate. `unpacked`: what is known of the content of a bundle.
    pub(crate) fn decide_by_hand(
        &self,
        plan: &Plan,
        gate: &Gate,
        found: Option<&Result<Answer, String>>,
        unpacked: &dyn Fn(&New) -> Unpacked,
    ) -> ByHand {
        let refuse = |cause: &str| {
            let cause = shortened(cause, MAX_MESSAGE);
            let is_told = plan.unresolved.as_deref() == Some(&*cause);
            ByHand { refuse: (!is_told).then(|| cause.into_owned()), ..ByHand::default() }
        };
        let answer = match (gate, found) {
            (Gate::Closed(cause), _) | (Gate::Open(_), Some(Err(cause))) => return refuse(cause),
            (Gate::Open(_), Some(Ok(answer))) => answer,
            (Gate::Waiting, _) | (Gate::Open(_), None) => return ByHand::default(),
        };
        let mut new: Vec<New> = Vec::new();
        for part in &answer.parts {
            match &part.outcome {
                Outcome::Install(all) => new.extend(all.iter().cloned()),
                Outcome::Impossible(failure) => {
                    return refuse(&format!("{}\n{}", failure.message, failure.explanation));
                }
                Outcome::GaveUp => return refuse("gave up: there are more combinations of versions than can be tried"),
            }
        }
        new.sort_by(|one, other| one.name.cmp(&other.name));
        let (mut bundles, mut failed) = (Vec::new(), Vec::new());
        for it in &new {
            match unpacked(it) {
                Unpacked::Done(bundle) => bundles.push((it.clone(), bundle)),
                Unpacked::Pending(_) => {}
                Unpacked::Failed { cause, .. } => failed.push(cause),
            }
        }
        let is_whole = bundles.len() == new.len();
        let (timeout, retry) = self.groups.first().map(|it| (it.unpack_timeout, it.unpack_retry)).unwrap_or_default();
        let wanted = new.into_iter().map(|new| Wanted { new, timeout, retry }).collect();
        let told = match self.refused {
            Some(cause) if is_whole => refuse(cause),
            _ if failed.is_empty() => ByHand::default(),
            _ => refuse(&failed.join("; ")),
        };
        // What was turned down is tried again once that is told.
        let resolve = (is_whole && told.refuse.is_none()).then(|| self.resolved(plan, bundles));
        ByHand { wanted, resolve, ..told }
    }

    fn resolved(&self, plan: &Plan, bundles: Vec<(New, Arc<Bundle>)>) -> NewPlan {
        NewPlan {
            namespace: self.namespace.to_owned(),
            begun: Some(plan.name.clone()),
            generation: plan.generation,
            // What it says stays.
            approval: Approval::default(),
            approved: plan.approved,
            by_hand: Some(plan.resource_version.clone()),
            owners: Vec::new(),
            account: self.groups.first().and_then(|group| group.account.clone()),
            existing: BTreeSet::new(),
            bundles,
        }
    }
}

/// As if somebody had subscribed to exactly these versions. An error says which cannot be installed here.
pub(super) fn answer(mut world: World, names: &[String], limits: &Limits) -> Result<Answer, String> {
    let mut packages: BTreeMap<String, Arc<Package>> = BTreeMap::new();
    let mut missing = Vec::new();
    world.subscriptions.clear();
    for name in names {
        match place(&world, name) {
            None => missing.push(name.as_str()),
            Some((catalog, package)) => {
                world.subscriptions.push(Subscription {
                    name: format!("{name} of the plan"),
                    package: package.name.clone(),
                    catalog,
                    starting_csv: name.clone(),
                    ..Subscription::default()
                });
                packages.insert(name.clone(), package);
            }
        }
    }
    if !missing.is_empty() {
        return Err(format!(
            "no catalog that this namespace sees has the ClusterServiceVersion {}: correct spec.clusterServiceVersionNames, or add \
             the catalog that has it",
            missing.join(", ")
        ));
    }
    let replaced = replaced(&mut world, &packages)?;
    let mut answer = resolved(&world, limits);
    for part in &mut answer.parts {
        let Outcome::Install(all) = &mut part.outcome else { continue };
        for new in all {
            if let Some(before) = replaced.get(&new.name) {
                new.replaces.clone_from(before);
            }
        }
    }
    Ok(answer)
}

/// The catalog and the package with a ClusterServiceVersion of this name: of several catalogs the one that is preferred.
fn place(world: &World, name: &str) -> Option<((String, String), Arc<Package>)> {
    let mut catalogs: Vec<_> = world.catalogs.iter().collect();
    catalogs.sort_by_key(|it| (Reverse(it.priority), it.namespace != world.namespace, &it.name, &it.namespace));
    catalogs.into_iter().find_map(|catalog| {
        let package = catalog.package_of(name)?;
        Some(((catalog.namespace.clone(), catalog.name.clone()), package))
    })
}

/// What is installed of the packages that are asked for goes: each version has to take the place of it. By the names of those versions.
fn replaced(world: &mut World, packages: &BTreeMap<String, Arc<Package>>) -> Result<BTreeMap<String, String>, String> {
    let mut replaced = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for (name, package) in packages {
        let before = |it: &&Arc<Operator>| it.package == package.name && it.name != *name;
        let entries = || package.channels.values().flatten().filter(|entry| entry.operator.name == *name);
        for installed in world.installed.iter().filter(before) {
            if !entries().any(|entry| entry.follows(installed)) {
                return Err(format!(
                    "{} of package {} is installed, and {name} does not take its place: name a version that does, or remove what \
                     is installed",
                    installed.name, package.name
                ));
            }
            replaced.insert(name.clone(), installed.name.clone());
        }
        gone.insert(package.name.clone());
    }
    world.installed.retain(|it| !gone.contains(&it.package) && !packages.contains_key(&it.name));
    Ok(replaced)
}
