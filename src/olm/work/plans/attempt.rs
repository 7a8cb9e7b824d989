//! One attempt to carry out the steps of a plan that are left. What has been done by an earlier attempt is found as done.

mod look;
mod problem;
mod write;

use super::contents::Contents;
use super::live::Live;
use super::{Key, write_status};
use crate::cluster::{ApiError, Kinds, Objects};
use crate::olm::api::API_VERSION;
use crate::olm::api::install_plan::{InstallPlan, StepStatus};
use crate::olm::bundle::CSV;
use crate::olm::plan::reference;
use crate::olm::plan::step::{self, Action, Item};
use crate::olm::plan::together::Together;
use crate::olm::plan::{Outcome, after, is_final, is_waiting};
use crate::olm::work::catalogs::Figures;
use crate::olm::work::scoped::Accounts;
use crate::process::events::{Events, Notice};
use futures::StreamExt;
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use look::Found;
use problem::{Problem, together};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests side by side.
const AT_ONCE: usize = 8;
/// How long an attempt waits until definitions are served, so that the status is written once.
const SERVED: Duration = Duration::from_secs(2);
/// Until the next attempt after one that has failed.
const AGAIN: Duration = Duration::from_secs(5);
/// When plans are tried again.
#[derive(Debug, Default)]
pub(super) struct Retries(Mutex<BTreeMap<Key, Instant>>);

impl Retries {
    fn set(&self, key: Key, at: Option<Instant>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match at {
            Some(at) => all.insert(key, at),
            None => all.remove(&key),
        };
    }

    pub(super) fn rests(&self, key: &Key, now: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).is_some_and(|until| *until > now)
    }

    /// When the first one is tried again that rests at `now`, which may have passed meanwhile.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is not tried again at once has gone.
        all.retain(|_, at| *at + AGAIN > now);
        all.values().filter(|at| **at > now).min().copied()
    }
}

pub(super) struct Attempt {
    /// With the rights of this process.
    pub objects: Objects,
    pub accounts: Accounts,
    /// The account that the group names; empty for none.
    pub account: String,
    pub kinds: Arc<Kinds>,
    pub live: Live,
    pub events: Events,
    pub figures: Arc<Figures>,
    pub retries: Arc<Retries>,
    pub contents: Contents,
    pub plan: Arc<InstallPlan>,
    /// The namespace of the process.
    pub own_namespace: String,
    /// How long steps that fail are tried again.
    pub retried: SignedDuration,
}

impl Attempt {
    /// Namespace and name of the plan.
    pub(super) fn id(&self) -> (&str, &str) {
        let metadata = &self.plan.metadata;
        (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }

    /// Writes the status, if it changes.
    pub(super) async fn run(self, key: Key) -> Result<(), ApiError> {
        let outcome = match self.scoped().await {
            Ok(scoped) => self.carry_out(&scoped).await,
            Err(error) => Outcome { trouble: together(&[Problem::of_api(&error)]), ..Outcome::default() },
        };
        if let Some(trouble) = &outcome.trouble {
            tracing::info!(plan = %key, error = trouble.text, "steps of a plan cannot be carried out");
        }
        let status = self.plan.status.clone().unwrap_or_default();
        let (next, again) = after(&status, outcome, self.retried, Timestamp::now());
        self.retries.set(key, again.then(|| Instant::now() + AGAIN));
        if next == status { Ok(()) } else { write_status(self.objects, self.live, self.plan, next).await }
    }

    /// What writes all but definitions.
    async fn scoped(&self) -> Result<Objects, ApiError> {
        self.accounts.writing_as(&self.objects, self.id().0, &self.account).await
    }

    /// What writes a step. Definitions are of the whole cluster, and so are written with the rights of this process.
    fn writes<'a>(&'a self, item: &Item, scoped: &'a Objects) -> &'a Objects {
        if item.action == Action::Define { &self.objects } else { scoped }
    }

    /// Why a request of a step has failed.
    fn failed(&self, error: &ApiError) -> Problem {
        self.accounts.on_error(self.id().0, &self.account, error);
        Problem::of_api(error)
    }

    async fn carry_out(&self, scoped: &Objects) -> Outcome {
        let mut outcome = Outcome::default();
        let contents = self.contents.of(&self.objects, &self.plan).await;
        let (items, mut waiting, mut problems) = self.read(&contents, &mut outcome);
        // All of it is in the objects now.
        drop(contents);
        let mut together_all = Together::of(&items, self.live.csvs());
        let looked: Vec<_> = {
            let known = &together_all;
            let looks = items.into_iter().map(|item| async move {
                let of = (item.kind.clone(), item.name.clone());
                self.look(item, known, scoped).await.map_err(|all| (of, all))
            });
            stream::iter(looks).buffered(AT_ONCE).collect().await
        };
        let mut found = Vec::new();
        for one in looked {
            match one {
                Ok(one) => found.push(one),
                Err(((kind, name), all)) => problems.extend(all.into_iter().map(|it| it.of(&kind, &name))),
            }
        }
        if problems.is_empty() {
            problems = self.perform_all(found, &mut together_all, scoped, (&mut outcome, &mut waiting)).await;
        }
        if problems.is_empty() {
            problems = self.wait(&waiting, &mut outcome, SERVED).await;
        }
        outcome.trouble = together(&problems);
        outcome
    }

    /// The steps that are left, and those that wait until their definition is served.
    fn read(
        &self,
        contents: &reference::Found,
        outcome: &mut Outcome,
    ) -> (Vec<Item>, Vec<(usize, String)>, Vec<Problem>) {
        let (mut items, mut waiting, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let steps = self.plan.status.iter().flat_map(|status| &status.plan).enumerate();
        for (place, step) in steps.filter(|(_, step)| !is_final(&step.status)) {
            let resource = &step.resource;
            if is_waiting(step) {
                waiting.push((place, resource.name.clone()));
                continue;
            }
            match step::read(&self.plan, place, step, contents) {
                Ok(item) => items.push(item),
                Err(error) => {
                    if error.is_unsupported() {
                        outcome.steps.push((place, StepStatus::UnsupportedResource));
                    }
                    problems.push(Problem::of_step(&error).of(&resource.kind, &resource.name));
                }
            }
        }
        (items, waiting, problems)
    }

    /// Stage by stage: one that fails ends the attempt.
    async fn perform_all(
        &self,
        mut found: Vec<Found>,
        together: &mut Together,
        scoped: &Objects,
        (outcome, waiting): (&mut Outcome, &mut Vec<(usize, String)>),
    ) -> Vec<Problem> {
        let mut owners = BTreeMap::new();
        for stage in 0..3 {
            let (now, later): (Vec<Found>, Vec<Found>) = found.into_iter().partition(|it| it.item.stage() == stage);
            found = later;
            if now.iter().any(|it| it.kind.is_none() && !it.item.optional) {
                let problems = self.wait(waiting, outcome, SERVED).await;
                if !problems.is_empty() {
                    return problems;
                }
            }
            let (known, owned) = (&*together, &owners);
            let writes = now.into_iter().map(|it| async move {
                let (place, kind, name) = (it.item.place, it.item.kind.clone(), it.item.name.clone());
                let is_csv = it.item.is(CSV);
                let done = self.perform(it, known, owned, scoped).await;
                (place, (kind, name), is_csv, done)
            });
            let done: Vec<_> = stream::iter(writes).buffered(AT_ONCE).collect().await;
            let mut problems = Vec::new();
            for (place, (kind, name), is_csv, done) in done {
                match done {
                    Ok((status, uid)) => {
                        if is_csv {
                            owners.insert(name.clone(), uid);
                        }
                        if status == StepStatus::WaitingForApi {
                            waiting.push((place, name));
                        }
                        outcome.steps.push((place, status));
                    }
                    Err(problem) => problems.push(problem.of(&kind, &name)),
                }
            }
            if !problems.is_empty() {
                return problems;
            }
        }
        Vec::new()
    }

    /// Until definitions are served, or for so long.
    async fn wait(&self, waiting: &[(usize, String)], outcome: &mut Outcome, limit: Duration) -> Vec<Problem> {
        let mut changed = self.live.definitions.subscribe();
        let until = tokio::time::Instant::now() + limit;
        loop {
            let states: Vec<_> = waiting.iter().map(|(place, name)| (*place, name, self.live.served(name))).collect();
            let open = |it: &&(usize, &String, super::views::Served)| !it.2.is_served && it.2.refused.is_none();
            if states.iter().any(|it| open(&it)) && tokio::time::timeout_at(until, changed.changed()).await.is_ok() {
                continue;
            }
            let mut problems = Vec::new();
            for (place, name, served) in states {
                let status = if served.is_served { StepStatus::Created } else { StepStatus::WaitingForApi };
                outcome.steps.retain(|(other, _)| *other != place);
                outcome.steps.push((place, status));
                if let Some(refused) = served.refused {
                    let problem = Problem::new(format!("the API server does not accept its names: {refused}"));
                    problems.push(problem.of("CustomResourceDefinition", name));
                }
            }
            return problems;
        }
    }

    /// About a step.
    pub(super) fn tell(&self, notice: Notice, place: usize) {
        let metadata = &self.plan.metadata;
        let regarding = ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some("InstallPlan".to_owned()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            field_path: Some(format!("status.plan[{place}]")),
        };
        self.events.publish_about(notice, regarding);
    }
}
