//! One attempt to carry out the steps of a plan that are left. What has been done by an earlier attempt is found as done.

mod look;

use super::contents::Contents;
use super::live::{Live, csv_kind};
use super::{Key, write_status};
use crate::cluster::{ApiError, Kind, Kinds, Objects, Warnings};
use crate::error::{listed, shortened};
use crate::merge::Outcome as Merged;
use crate::olm::api::API_VERSION;
use crate::olm::api::install_plan::{InstallPlan, StepStatus};
use crate::olm::bundle::CSV;
use crate::olm::plan::reference;
use crate::olm::plan::step::{self, Action, Item};
use crate::olm::plan::together::Together;
use crate::olm::plan::{Outcome, Trouble, after, is_final, is_waiting};
use crate::olm::work::catalogs::Figures;
use crate::process::events::{Events, Notice};
use futures::StreamExt;
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use look::{Found, wanted};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests side by side.
const AT_ONCE: usize = 8;
/// How long an attempt waits until definitions are served, so that the status is written once.
const SERVED: Duration = Duration::from_secs(2);
/// Until the next attempt after one that has failed.
const AGAIN: Duration = Duration::from_secs(5);
/// Attempts to read, merge and write one object.
const WRITES: usize = 4;
/// Bytes of what is said of all steps together, and of one.
const MESSAGE: usize = 32 << 10;
const ONE: usize = 8 << 10;

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

    pub(super) fn next(&self) -> Option<Instant> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // One that is not tried again at once has gone.
        all.retain(|_, at| *at + AGAIN > now);
        all.values().filter(|at| **at > now).min().copied()
    }
}

/// What is wrong with a step.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    text: String,
    is_forbidden: bool,
}

impl Problem {
    pub(super) fn new(text: String) -> Problem {
        Problem { text, is_forbidden: false }
    }

    pub(super) fn of_api(error: &ApiError) -> Problem {
        Problem { text: error.whole(), is_forbidden: error.is_forbidden() }
    }

    pub(super) fn unknown_kind(item: &Item) -> Problem {
        let (version, kind) = (&item.api_version, &item.kind);
        Problem::new(format!(
            "GroupVersionKind {version}, Kind={kind} not found on the cluster; the API may have been removed from this version of \
             Kubernetes, or what defines it is to be installed first"
        ))
    }

    fn of(mut self, kind: &str, name: &str) -> Problem {
        self.text = format!("{kind} {name}: {}", shortened(&self.text, ONE));
        self
    }
}

fn together(problems: &[Problem]) -> Option<Trouble> {
    let texts: Vec<&str> = problems.iter().map(|it| it.text.as_str()).collect();
    let rest = |count: usize| format!("and {count} more");
    let text = match texts.as_slice() {
        [] => return None,
        [one] => (*one).to_owned(),
        all => format!("{} steps cannot be carried out: {}", all.len(), listed(all, "; ", MESSAGE, rest)),
    };
    Some(Trouble { text, is_forbidden: problems.iter().all(|it| it.is_forbidden) })
}

pub(super) struct Attempt {
    pub objects: Objects,
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
        let outcome = self.carry_out().await;
        if let Some(trouble) = &outcome.trouble {
            tracing::info!(plan = %key, error = trouble.text, "steps of a plan cannot be carried out");
        }
        let status = self.plan.status.clone().unwrap_or_default();
        let (next, again) = after(&status, outcome, self.retried, Timestamp::now());
        self.retries.set(key, again.then(|| Instant::now() + AGAIN));
        if next == status { Ok(()) } else { write_status(self.objects, self.live, self.plan, next).await }
    }

    async fn carry_out(&self) -> Outcome {
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
                self.look(item, known).await.map_err(|all| (of, all))
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
            problems = self.perform_all(found, &mut together_all, (&mut outcome, &mut waiting)).await;
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
                    problems.push(Problem::new(error.to_string()).of(&resource.kind, &resource.name));
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
                let done = self.perform(it, known, owned).await;
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

    /// Brings one object about. Returns what its step becomes, and the uid of the object.
    async fn perform(
        &self,
        found: Found,
        together: &Together,
        owners: &BTreeMap<String, String>,
    ) -> Result<(StepStatus, String), Problem> {
        let Found { item, kind, mut live } = found;
        let api = |error: ApiError| Problem::of_api(&error);
        let known = match kind {
            Some(kind) => Some(kind),
            None => self.kind(&item).await.map_err(api)?,
        };
        let Some(kind) = known else {
            return if item.optional {
                Ok((StepStatus::NotCreated, String::new()))
            } else {
                Err(Problem::unknown_kind(&item))
            };
        };
        let owner = self.owner(&item, owners).await?;
        let (namespace, _) = self.id();
        let warnings = Warnings::default();
        let objects = self.objects.telling(&warnings);
        let mut last = None;
        for _ in 0..WRITES {
            let desired = wanted(self, together, (&item, &kind), owner.as_deref(), live.as_ref());
            match write(&objects, &kind, namespace, &item, live.as_ref(), &desired).await? {
                Ok((status, object)) => {
                    self.warn(&item, &warnings);
                    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
                    return Ok((self.status(&item, status), uid.to_owned()));
                }
                Err(error)
                    if error.is_already_exists() || error.is_conflict() || error.is_not_found() && live.is_some() =>
                {
                    last = Some(error);
                    live = self.objects.get(&kind, namespace, &item.name).await.map_err(api)?;
                }
                Err(error) => {
                    if error.is_not_found() {
                        self.kinds.forget(&kind);
                    }
                    return Err(Problem::of_api(&error));
                }
            }
        }
        Err(last.as_ref().map_or_else(|| Problem::new("it keeps changing".to_owned()), Problem::of_api))
    }

    /// A definition that is not served yet is waited for, also one that was created before.
    fn status(&self, item: &Item, status: StepStatus) -> StepStatus {
        let waits =
            item.action == Action::Define && (status == StepStatus::Created || !self.live.served(&item.name).is_served);
        if waits { StepStatus::WaitingForApi } else { status }
    }

    /// uid of the ClusterServiceVersion of a step.
    async fn owner(&self, item: &Item, owners: &BTreeMap<String, String>) -> Result<Option<String>, Problem> {
        if item.resolving.is_empty() || item.stage() < 2 {
            return Ok(None);
        }
        if let Some(uid) = owners.get(&item.resolving) {
            return Ok(Some(uid.clone()));
        }
        let (namespace, _) = self.id();
        let csv = self.objects.get(&csv_kind(), namespace, &item.resolving).await;
        let csv = csv.map_err(|error| Problem::of_api(&error))?;
        let uid = csv.as_ref().and_then(|csv| csv.pointer("/metadata/uid")?.as_str());
        let missing = || {
            let csv = &item.resolving;
            Problem::new(format!(
                "its ClusterServiceVersion {csv} does not exist; whoever deleted it has to create it again"
            ))
        };
        uid.map(|uid| Some(uid.to_owned())).ok_or_else(missing)
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

    fn warn(&self, item: &Item, warnings: &Warnings) {
        let texts = std::mem::take(&mut *warnings.lock().unwrap_or_else(PoisonError::into_inner));
        for text in texts {
            self.figures.count_plan_warning();
            let note = format!("{} {}: {text}", item.kind, item.name);
            self.tell(Notice::new(true, "AppliedWithWarnings", &note), item.place);
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

/// One write; none if the object is as wanted. The inner error is one that another look at the object may help with.
async fn write(
    objects: &Objects,
    kind: &Kind,
    namespace: &str,
    item: &Item,
    live: Option<&Value>,
    desired: &Value,
) -> Result<Result<(StepStatus, Value), ApiError>, Problem> {
    let Some(live) = live else {
        let created = objects.create(kind, namespace, desired).await;
        return Ok(created.map(|object| (StepStatus::Created, object)));
    };
    let merged = step::merged(item, live, desired).map_err(|error| Problem::new(error.to_string()))?;
    Ok(match merged {
        Merged::Same => Ok((StepStatus::Present, live.clone())),
        Merged::Changed { object, .. } => {
            let written = objects.replace(kind, namespace, &item.name, &object).await;
            written.map(|object| (StepStatus::Present, object))
        }
        Merged::Replace { object, .. } => {
            let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
            match objects.delete(kind, namespace, &item.name, uid).await {
                Ok(_) => objects.create(kind, namespace, &object).await.map(|object| (StepStatus::Present, object)),
                Err(error) => Err(error),
            }
        }
    })
}
