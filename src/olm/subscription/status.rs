//! The status of a Subscription, derived anew from all that is known. Of the status before only times are kept, and what was found
//! while nothing is looked for.

use super::deprecation::deprecations;
use super::plan::Plan;
use super::{Facts, Gate, Standing};
use crate::error::shortened;
use crate::object::condition::ConditionStatus;
use crate::olm::api::API_VERSION;
use crate::olm::api::install_plan::InstallPlanPhase;
use crate::olm::api::subscription::{
    CatalogHealth, InstallPlanReference, State, Subscription, SubscriptionCondition, SubscriptionStatus, condition,
    reason,
};
use crate::olm::resolve::answer::{Answer, Failure, Outcome, Part};
use jiff::{Timestamp, Unit};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Bytes of the message of a condition.
const MESSAGE: usize = 32 << 10;

/// What is in the way of a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    /// Bundles that are being fetched.
    pub pending: Vec<String>,
    /// Bundles that cannot be fetched, and whether they themselves are wrong.
    pub failed: Vec<(String, bool)>,
    /// Why the API server does not take the plan.
    pub refused: Option<String>,
}

impl Trouble {
    pub(super) fn count(&self) -> usize {
        self.pending.len() + self.failed.len()
    }
}

/// What a status is made of.
pub(super) struct Said<'a> {
    pub facts: &'a Facts<'a>,
    pub subscription: &'a Subscription,
    pub gate: &'a Gate,
    pub found: Option<&'a Result<Answer, String>>,
    pub trouble: &'a Trouble,
    pub now: Timestamp,
}

/// Type, status, reason and message.
type Told = (&'static str, ConditionStatus, String, String);

impl Said<'_> {
    /// The status, if it is another one than before.
    pub(super) fn changed(&self) -> Option<SubscriptionStatus> {
        let before = self.subscription.status.as_ref();
        let mut status = self.status();
        if before.is_some_and(|before| {
            SubscriptionStatus { last_updated: before.last_updated.clone(), ..status.clone() } == *before
        }) {
            return None;
        }
        status.last_updated = self.time();
        Some(status)
    }

    fn time(&self) -> Time {
        Time(self.now.round(Unit::Second).unwrap_or(self.now))
    }

    fn before(&self) -> Option<&SubscriptionStatus> {
        self.subscription.status.as_ref()
    }

    fn status(&self) -> SubscriptionStatus {
        let standing = self.facts.standing(self.subscription);
        let (reference, old) = match standing.plan {
            Some(plan) => references(self.facts.namespace, plan),
            None if standing.current.is_empty() => (None, None),
            None => self.before().map(|it| (it.install_plan_ref.clone(), it.installplan.clone())).unwrap_or_default(),
        };
        let generation = standing.plan.map(|plan| plan.generation);
        let kept = || self.before().and_then(|it| it.install_plan_generation);
        SubscriptionStatus {
            state: self.state(&standing),
            // Kept without a plan: the next one is another one than what was deleted.
            install_plan_generation: generation.or_else(kept),
            install_plan_ref: reference,
            installplan: old,
            // Conditions have reasons; whoever has written this one has not made the state.
            reason: String::new(),
            catalog_health: self.catalog_health(),
            conditions: self.conditions(&standing),
            current_csv: standing.current,
            installed_csv: standing.installed,
            last_updated: self.time(),
        }
    }

    fn state(&self, standing: &Standing<'_>) -> State {
        let has_failed = standing.plan.is_some_and(|plan| plan.phase == InstallPlanPhase::Failed);
        let fail_forward = self.facts.groups.iter().any(|group| group.fail_forward);
        match standing.current.as_str() {
            "" => State::None,
            current if current == standing.installed => State::AtLatestKnown,
            _ if has_failed && fail_forward => State::UpgradeFailed,
            _ => State::UpgradePending,
        }
    }

    /// One entry for each catalog that the namespace sees. What is not known yet is as it was.
    fn catalog_health(&self) -> Vec<CatalogHealth> {
        let before = self.before().map(|it| it.catalog_health.as_slice()).unwrap_or_default();
        let entry = |((namespace, name), visible): (&(String, String), &super::Visible)| {
            let is_of = |it: &&CatalogHealth| {
                let reference = &it.catalog_source_ref;
                reference.name.as_ref() == Some(name) && reference.namespace.as_ref() == Some(namespace)
            };
            let known = before.iter().find(is_of);
            let Some(health) = &visible.health else { return known.cloned() };
            let healthy = health.is_ok();
            let is_same =
                |it: &&CatalogHealth| it.healthy == healthy && it.catalog_source_ref.uid.as_ref() == Some(&visible.uid);
            Some(known.filter(is_same).cloned().unwrap_or_else(|| CatalogHealth {
                catalog_source_ref: ObjectReference {
                    api_version: Some(API_VERSION.to_owned()),
                    kind: Some("CatalogSource".to_owned()),
                    namespace: Some(namespace.clone()),
                    name: Some(name.clone()),
                    uid: Some(visible.uid.clone()),
                    resource_version: Some(visible.resource_version.clone()),
                    ..ObjectReference::default()
                },
                last_updated: self.time(),
                healthy,
            }))
        };
        self.facts.visible().filter_map(entry).collect()
    }

    fn conditions(&self, standing: &Standing<'_>) -> Vec<SubscriptionCondition> {
        let before = self.before().map(|it| it.conditions.as_slice()).unwrap_or_default();
        let mut told: Vec<Told> = Vec::new();
        told.extend(self.catalogs().or_else(|| kept(before, condition::CATALOG_SOURCES_UNHEALTHY)));
        told.extend(self.resolution(before));
        told.extend(self.unpacking(before));
        told.extend(plan(standing));
        let is_true = |(type_, reason, message): (&'static str, &str, String)| {
            (type_, ConditionStatus::True, reason.to_owned(), message)
        };
        let id = (self.subscription.spec.source_namespace.clone(), self.subscription.spec.source.clone());
        if let Some(content) = self.facts.catalogs.get(&id).and_then(|it| it.content.as_ref()) {
            let mut bundles = vec![standing.installed.as_str()];
            bundles.extend((standing.current != standing.installed).then_some(standing.current.as_str()));
            let all = deprecations(&content.index, &self.subscription.spec, &bundles);
            told.extend(all.into_iter().map(|(type_, message)| is_true((type_, "", message))));
        }
        let condition = |(type_, status, reason, message): Told| {
            let known = before.iter().find(|it| it.type_ == type_ && it.status == status);
            let since = known.and_then(|it| it.last_transition_time.clone()).unwrap_or_else(|| self.time());
            SubscriptionCondition {
                type_: type_.to_owned(),
                status,
                reason,
                message: shortened(&message, MESSAGE).into_owned(),
                last_heartbeat_time: known.and_then(|it| it.last_heartbeat_time.clone()),
                last_transition_time: Some(since),
            }
        };
        told.into_iter().map(condition).collect()
    }

    /// Whether all catalogs are healthy; `None` before that is known.
    fn catalogs(&self) -> Option<Told> {
        let spec = &self.subscription.spec;
        let mut sick = Vec::new();
        let mut count = 0;
        let mut is_there = false;
        for ((namespace, name), visible) in self.facts.visible() {
            count += 1;
            let is_target = *namespace == spec.source_namespace && *name == spec.source;
            is_there |= is_target;
            match visible.health.as_ref()? {
                Ok(()) => {}
                // Clients look for how this begins.
                Err(cause) if is_target => {
                    sick.insert(0, format!("targeted catalogsource {namespace}/{name} unhealthy: {cause}"));
                }
                Err(cause) => sick.push(format!("catalogsource {namespace}/{name} unhealthy: {cause}")),
            }
        }
        if !is_there {
            sick.insert(0, format!("targeted catalogsource {}/{} missing", spec.source_namespace, spec.source));
        }
        let (status, reason, message) = match (count, sick.is_empty()) {
            (0, _) => {
                let message = format!("no catalog is visible here: {}", sick.join("; "));
                (ConditionStatus::True, reason::NO_CATALOG_SOURCES_FOUND, message)
            }
            (_, true) => {
                let message = "all available catalogsources are healthy".to_owned();
                (ConditionStatus::False, reason::ALL_CATALOG_SOURCES_HEALTHY, message)
            }
            (_, false) => (ConditionStatus::True, reason::UNHEALTHY_CATALOG_SOURCE_FOUND, sick.join("; ")),
        };
        Some((condition::CATALOG_SOURCES_UNHEALTHY, status, reason.to_owned(), message))
    }

    /// What is wrong with the answer. As long as none is looked for it is what it was.
    fn resolution(&self, before: &[SubscriptionCondition]) -> Option<Told> {
        let failed = |reason: &str, message: String| {
            Some((condition::RESOLUTION_FAILED, ConditionStatus::True, reason.to_owned(), message))
        };
        match (self.gate, self.found) {
            (Gate::Closed(cause), _) | (Gate::Open(_), Some(Err(cause))) => {
                failed(reason::ERROR_PREVENTED_RESOLUTION, cause.clone())
            }
            (Gate::Waiting, _) | (Gate::Open(_), None) => kept(before, condition::RESOLUTION_FAILED),
            (Gate::Open(_), Some(Ok(answer))) => match self.part(answer).map(|part| &part.outcome) {
                None | Some(Outcome::Install(_)) => None,
                Some(Outcome::Impossible(failure)) => {
                    failed(reason::CONSTRAINTS_NOT_SATISFIABLE, self.explanation(failure))
                }
                Some(Outcome::GaveUp) => failed(
                    reason::ERROR_PREVENTED_RESOLUTION,
                    "gave up: there are more combinations of versions than can be tried; subscribe to fewer packages in this \
                     namespace, or name channels"
                        .to_owned(),
                ),
            },
        }
    }

    fn part<'b>(&self, answer: &'b Answer) -> Option<&'b Part> {
        let name = self.subscription.metadata.name.as_deref().unwrap_or_default();
        answer.parts.iter().find(|part| part.subscriptions.contains(name))
    }

    /// Whole where the Subscription takes part in it; others are told where it stands.
    fn explanation(&self, failure: &Failure) -> String {
        let name = self.subscription.metadata.name.as_deref().unwrap_or_default();
        if failure.subscriptions.is_empty() || failure.subscriptions.contains(name) {
            return format!("{}\n{}", failure.message, failure.explanation);
        }
        let others = failure.subscriptions.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!(
            "constraints not satisfiable: what this Subscription needs depends on others that cannot be met; see the same condition \
             of {others}"
        )
    }

    fn unpacking(&self, before: &[SubscriptionCondition]) -> Vec<Told> {
        let types = [condition::BUNDLE_UNPACKING, condition::BUNDLE_UNPACK_FAILED];
        if !matches!((self.gate, self.found), (Gate::Open(_), Some(_))) {
            let stays = types.iter().filter(|_| matches!(self.gate, Gate::Open(_)));
            return stays.filter_map(|type_| kept(before, type_)).collect();
        }
        let Trouble { pending, failed, refused } = self.trouble;
        let told = |type_, reason: &str, message| vec![(type_, ConditionStatus::True, reason.to_owned(), message)];
        if let Some((_, of_content)) = failed.first() {
            let reason = if *of_content { reason::ERROR_PREVENTED_UNPACKING } else { reason::BUNDLE_UNPACK_FAILED };
            let texts: Vec<&str> = failed.iter().map(|(cause, _)| cause.as_str()).collect();
            let begin = if *of_content { "" } else { UNPACKING_FAILED };
            return told(condition::BUNDLE_UNPACK_FAILED, reason, format!("{begin}{}", texts.join("; ")));
        }
        if let Some(cause) = refused {
            return told(condition::BUNDLE_UNPACK_FAILED, reason::ENSURE_INSTALL_PLAN_FAILED, cause.clone());
        }
        match pending.is_empty() {
            true => Vec::new(),
            false => told(condition::BUNDLE_UNPACKING, reason::UNPACKING_IN_PROGRESS, pending.join("; ")),
        }
    }
}

/// What clients look for in the message.
const UNPACKING_FAILED: &str = "Bundle unpacking failed: ";

fn kept(before: &[SubscriptionCondition], type_: &'static str) -> Option<Told> {
    let known = before.iter().find(|it| it.type_ == type_)?;
    Some((type_, known.status, known.reason.clone(), known.message.clone()))
}

/// What is said of the newest plan.
fn plan(standing: &Standing<'_>) -> Option<Told> {
    let told = |type_, reason: String, message| Some((type_, ConditionStatus::True, reason, message));
    let Some(plan) = standing.plan else {
        let is_missing = standing.plan_is_missing && !standing.current.is_empty();
        let reason = reason::REFERENCED_INSTALL_PLAN_NOT_FOUND.to_owned();
        return is_missing.then(|| told(condition::INSTALL_PLAN_MISSING, reason, String::new())).flatten();
    };
    match &plan.phase {
        InstallPlanPhase::Complete => None,
        InstallPlanPhase::Failed => {
            let (reason, message) = plan.failure.clone().unwrap_or_default();
            let reason = if reason.is_empty() { reason::INSTALL_PLAN_FAILED.to_owned() } else { reason };
            told(condition::INSTALL_PLAN_FAILED, reason, message)
        }
        InstallPlanPhase::None => {
            told(condition::INSTALL_PLAN_PENDING, reason::INSTALL_PLAN_NOT_YET_RECONCILED.to_owned(), String::new())
        }
        other => {
            let reason = serde_json::to_value(other).ok();
            let reason = reason.and_then(|it| it.as_str().map(ToOwned::to_owned)).unwrap_or_default();
            let (_, message) = plan.failure.clone().unwrap_or_default();
            told(condition::INSTALL_PLAN_PENDING, reason, message)
        }
    }
}

fn references(namespace: &str, plan: &Plan) -> (Option<ObjectReference>, Option<InstallPlanReference>) {
    let reference = ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some("InstallPlan".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(plan.name.clone()),
        uid: Some(plan.uid.clone()),
        // It says which plan, and not in which state.
        resource_version: None,
        ..ObjectReference::default()
    };
    let old = InstallPlanReference {
        api_version: API_VERSION.to_owned(),
        kind: "InstallPlan".to_owned(),
        name: plan.name.clone(),
        uuid: plan.uid.clone(),
    };
    (Some(reference), Some(old))
}
