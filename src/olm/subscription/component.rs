//! Which plans are made of an answer, and which are given up: one for all of it, or one for each part that has nothing to do with the
//! others.

use super::plan::{NewPlan, Plan};
use super::{Decision, Facts, Unpacked, Wanted, status};
use crate::olm::api::install_plan::InstallPlanPhase;
use crate::olm::api::subscription::{Approval, Subscription};
use crate::olm::bundle::Bundle;
use crate::olm::resolve::answer::{Answer, New, Outcome, Part};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Facts<'_> {
    /// One plan for all that is to be installed, or one for each part of the answer, unless it is there.
    pub(super) fn plan(
        &self,
        answer: &Answer,
        unpacked: &dyn Fn(&New) -> Unpacked,
        decision: &mut Decision,
        trouble: &mut status::Trouble,
    ) {
        if self.groups.iter().any(|group| group.per_operator) {
            for part in &answer.parts {
                self.plan_component(&Component::of(self, std::slice::from_ref(part)), unpacked, decision, trouble);
            }
        } else {
            self.plan_component(&Component::of(self, &answer.parts), unpacked, decision, trouble);
        }
    }

    fn plan_component(
        &self,
        component: &Component,
        unpacked: &dyn Fn(&New) -> Unpacked,
        decision: &mut Decision,
        trouble: &mut status::Trouble,
    ) {
        let new = &component.new;
        let names: BTreeSet<&str> = new.iter().map(|it| it.name.as_str()).collect();
        let is_same = |plan: &Plan| plan.csvs.iter().map(String::as_str).eq(names.iter().copied());
        let ours: Vec<&Arc<Plan>> = self.plans.iter().filter(|plan| component.has(plan)).collect();
        let open = ours.iter().copied().filter(|plan| plan.is_open());
        let (same, others): (Vec<&Arc<Plan>>, Vec<&Arc<Plan>>) = open.partition(|plan| is_same(plan));
        // A version that was asked for by name stays as long as nothing is installed.
        let is_pinned = |plan: &Plan| component.subscriptions.iter().any(|it| self.pins(it, plan));
        if ours.iter().any(|plan| plan.is_running()) || others.iter().any(|plan| is_pinned(plan)) {
            return;
        }
        let newest = ours.iter().max_by_key(|plan| plan.generation);
        let has_failed = newest.is_some_and(|plan| plan.phase == InstallPlanPhase::Failed && is_same(plan));
        if new.is_empty() && component.is_whole || same.iter().any(|plan| !plan.is_empty) {
            decision.superseded.extend(others.into_iter().cloned());
            return;
        }
        // What has to go before it can come again has not gone yet.
        let is_going = |it: &New| self.csvs.iter().any(|csv| csv.is_deleted && csv.name == it.name);
        if new.is_empty() || has_failed || new.iter().any(is_going) {
            return;
        }
        let before = trouble.count();
        let bundles = self.unpack(new, unpacked, decision, trouble);
        // There is one that can be approved at any time.
        match (trouble.count() == before, others.is_empty()) {
            (false, _) => {}
            (true, false) => decision.superseded.extend(others.into_iter().cloned()),
            (true, true) => {
                let created = decision.create.iter().map(|it| it.generation);
                let last = self.plans.iter().map(|plan| plan.generation).chain(created).chain(self.deleted_plans());
                let generation = last.max().unwrap_or_default() + 1;
                let begun = same.first().map(|plan| &***plan);
                decision.create.push(self.new_plan(component, bundles, begun, generation));
                trouble.refused = self.refused.map(ToOwned::to_owned);
            }
        }
    }

    /// Generations of plans that Subscriptions had, and that may be deleted.
    fn deleted_plans(&self) -> impl Iterator<Item = i64> {
        self.subscriptions.iter().filter_map(|it| it.status.as_ref()?.install_plan_generation)
    }

    /// The bundles that are there. The others are wanted.
    fn unpack(
        &self,
        new: &[New],
        unpacked: &dyn Fn(&New) -> Unpacked,
        decision: &mut Decision,
        trouble: &mut status::Trouble,
    ) -> Vec<(New, Arc<Bundle>)> {
        let mut bundles = Vec::new();
        for it in new {
            match unpacked(it) {
                Unpacked::Done(bundle) => bundles.push((it.clone(), bundle)),
                Unpacked::Pending(text) => trouble.pending.push(text),
                Unpacked::Failed { cause, of_content } => trouble.failed.push((cause, of_content)),
            }
        }
        let (timeout, retry) = self.groups.first().map(|it| (it.unpack_timeout, it.unpack_retry)).unwrap_or_default();
        decision.wanted.extend(new.iter().map(|new| Wanted { new: new.clone(), timeout, retry }));
        bundles
    }

    fn pins(&self, subscription: &Subscription, plan: &Plan) -> bool {
        let wanted = &subscription.spec.starting_csv;
        !wanted.is_empty() && plan.csvs.contains(wanted) && self.standing(subscription).installed.is_empty()
    }

    /// `begun`: the same plan, of which the status is still to be written.
    fn new_plan(
        &self,
        component: &Component,
        bundles: Vec<(New, Arc<Bundle>)>,
        begun: Option<&Plan>,
        generation: i64,
    ) -> NewPlan {
        let is_manual = |it: &Arc<Subscription>| it.spec.install_plan_approval == Some(Approval::Manual);
        let manual = component.subscriptions.iter().any(is_manual);
        NewPlan {
            namespace: self.namespace.to_owned(),
            begun: begun.map(|plan| plan.name.clone()),
            generation: begun.map_or(generation, |plan| plan.generation),
            approval: if manual { Approval::Manual } else { Approval::Automatic },
            approved: !manual,
            by_hand: None,
            owners: component.subscriptions.clone(),
            account: self.groups.first().and_then(|group| group.account.clone()),
            existing: bundles.iter().map(|(new, _)| &new.name).filter(|it| self.csv(it).is_some()).cloned().collect(),
            bundles,
        }
    }
}

/// What shares a plan.
struct Component {
    subscriptions: Vec<Arc<Subscription>>,
    /// What is to be installed, by name.
    new: Vec<New>,
    /// There is an answer for all of it.
    is_whole: bool,
}

impl Component {
    fn of(facts: &Facts<'_>, parts: &[Part]) -> Component {
        let names: BTreeSet<&str> = parts.iter().flat_map(|it| &it.subscriptions).map(String::as_str).collect();
        let is_of = |it: &&Arc<Subscription>| it.metadata.name.as_deref().is_some_and(|name| names.contains(name));
        let mut new: Vec<New> = parts.iter().flat_map(Part::installs).cloned().collect();
        new.sort_by(|one, other| one.name.cmp(&other.name));
        Component {
            subscriptions: facts.subscriptions.iter().filter(is_of).cloned().collect(),
            new,
            is_whole: parts.iter().all(|part| matches!(part.outcome, Outcome::Install(_))),
        }
    }

    /// Whether the plan was made for one of the Subscriptions.
    fn has(&self, plan: &Plan) -> bool {
        self.subscriptions.iter().any(|it| it.metadata.uid.as_ref().is_some_and(|uid| plan.owners.contains(uid)))
    }
}
