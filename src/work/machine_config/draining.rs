//! Moves the pods of a node away: one task for each node that is drained, so that none waits for another.

use super::views::NodeView;
use crate::cluster::watcher::Event;
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::pools::drain::{ATTEMPT, Delay, Drain, EVICTION_RETRY};
use crate::pools::writes;
use crate::work::pods::{self, Leaving};
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A drain that evictions are refused for so long is told of.
const TOLD_AFTER: Duration = Duration::from_secs(10);
/// So many pods are named.
const NAMED: usize = 5;

/// The drains that are under way.
pub(super) struct Drains {
    clients: Arc<Clients>,
    objects: Objects,
    changed: Arc<Notify>,
    stop: CancellationToken,
    tasks: BTreeMap<String, Task>,
}

struct Task {
    /// The request with its id: another one is another drain.
    request: (String, Option<String>),
    state: Arc<Mutex<Option<usize>>>,
    stop: CancellationToken,
}

impl Drains {
    pub(super) fn new(clients: Arc<Clients>, objects: Objects, changed: Arc<Notify>, stop: CancellationToken) -> Self {
        Drains { clients, objects, changed, stop, tasks: BTreeMap::new() }
    }

    /// How many pods still have to go, as far as that is known for this request.
    pub(super) fn pods(&self, node: &NodeView) -> Option<usize> {
        let task = self.tasks.get(&node.facts.name).filter(|task| task.request == request(node))?;
        *task.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to drain the node, unless that is under way.
    pub(super) fn begin(&mut self, node: &NodeView, drain: Drain) {
        let request = request(node);
        if self.tasks.get(&node.facts.name).is_some_and(|task| task.request == request) {
            return;
        }
        let Ok(client) = self.clients.for_watch() else { return };
        let stop = self.stop.child_token();
        let state = Arc::new(Mutex::new(None));
        let name = node.facts.name.clone();
        let run = Run {
            pods: pods::follow(client, &name).boxed(),
            node: name.clone(),
            objects: self.objects.clone(),
            changed: self.changed.clone(),
            state: state.clone(),
            present: BTreeMap::new(),
            complete: false,
            retry: HashMap::new(),
            refused: BTreeMap::new(),
            drain,
            attempt: None,
            told: node.facts.drain_blocked.clone(),
        };
        let until = stop.clone();
        tokio::spawn(async move { until.run_until_cancelled(run.run()).await });
        if let Some(before) = self.tasks.insert(name, Task { request, state, stop }) {
            before.stop.cancel();
        }
    }

    /// Ends the drains of all nodes but these.
    pub(super) fn retain(&mut self, wanted: &BTreeSet<String>) {
        self.tasks.retain(|name, task| {
            let keep = wanted.contains(name);
            if !keep {
                task.stop.cancel();
            }
            keep
        });
    }
}

fn request(node: &NodeView) -> (String, Option<String>) {
    (node.drain.asked.clone().unwrap_or_default(), node.drain.asked_id.clone())
}

type PodKey = (String, String);

struct Run {
    node: String,
    objects: Objects,
    changed: Arc<Notify>,
    state: Arc<Mutex<Option<usize>>>,
    pods: BoxStream<'static, Result<Event<Pod>, ApiError>>,
    present: BTreeMap<PodKey, Pod>,
    /// All pods that exist are known.
    complete: bool,
    /// When the eviction of a pod may be tried again, by uid.
    retry: HashMap<String, Instant>,
    /// Since when a pod could not be evicted, and why.
    refused: BTreeMap<PodKey, (Instant, String)>,
    drain: Drain,
    /// When the present attempt began.
    attempt: Option<Instant>,
    told: Option<String>,
}

impl Run {
    async fn run(mut self) {
        loop {
            let deadline = if self.complete { self.step().await } else { None };
            let event = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline.into(), self.pods.next()).await,
                None => Ok(self.pods.next().await),
            };
            if let Ok(Some(event)) = event {
                self.on_event(event);
                // What is there already belongs together.
                while let Some(Some(event)) = futures::FutureExt::now_or_never(self.pods.next()) {
                    self.on_event(event);
                }
            }
        }
    }

    fn on_event(&mut self, event: Result<Event<Pod>, ApiError>) {
        let key = |pod: &Pod| {
            (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default())
        };
        match event {
            Ok(Event::Init) => {
                self.present.clear();
                self.complete = false;
            }
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                self.present.insert(key(&pod), pod);
            }
            Ok(Event::InitDone) => self.complete = true,
            Ok(Event::Delete(pod)) => {
                self.present.remove(&key(&pod));
            }
            Err(error) => tracing::warn!(node = self.node, %error, "trying again"),
        }
    }

    /// Does what is due, and returns when there is more to do although no pod has changed.
    async fn step(&mut self) -> Option<Instant> {
        let survey = pods::survey(&self.objects, self.present.values(), Some(self.drain.started)).await;
        let number = survey.number();
        let before = self.state.lock().unwrap_or_else(PoisonError::into_inner).replace(number);
        if before != Some(number) {
            self.changed.notify_one();
        }
        self.refused.retain(|(namespace, name), _| {
            survey.leaving.iter().any(|pod| (&pod.namespace, &pod.name) == (namespace, name))
        });
        if number == 0 {
            return None;
        }
        let (now, clock) = (Timestamp::now(), Instant::now());
        let next = self.drain.next_attempt(now);
        if next > now {
            let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default();
            return Some(clock + wait);
        }
        let begun = *self.attempt.get_or_insert(clock);
        let limit = begun + Duration::try_from(ATTEMPT).unwrap_or_default();
        if clock >= limit {
            self.on_vain_attempt(&survey.leaving, &survey.unknown, now).await;
            return Some(clock);
        }
        let due: Vec<&Leaving> = survey
            .leaving
            .iter()
            .filter(|pod| !pod.terminating && self.retry.get(&pod.uid).is_none_or(|until| *until <= clock))
            .collect();
        for pod in &due {
            if let Some(warning) = pod.warning {
                tracing::info!(node = self.node, pod = format!("{}/{}", pod.namespace, pod.name), warning, "evicting");
            }
        }
        let objects = &self.objects;
        let evictions = due.iter().map(|pod| objects.evict(&pod.namespace, &pod.name, &pod.uid));
        let outcomes = futures::future::join_all(evictions).await;
        let outcomes: Vec<(Leaving, Result<(), ApiError>)> = due.into_iter().cloned().zip(outcomes).collect();
        let again = Instant::now() + Duration::try_from(EVICTION_RETRY).unwrap_or_default();
        for (pod, outcome) in outcomes {
            self.retry.insert(pod.uid.clone(), again);
            let key = (pod.namespace.clone(), pod.name.clone());
            match outcome {
                Ok(()) => _ = self.refused.remove(&key),
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let since = self.refused.get(&key).map_or_else(Instant::now, |(since, _)| *since);
                    self.refused.insert(key, (since, refusal(&self.objects, &pod, &error).await));
                }
            }
        }
        self.tell_blocked().await;
        let told = self.refused.values().map(|(since, _)| *since + TOLD_AFTER).filter(|time| *time > clock).min();
        [Some(again), Some(limit), told].into_iter().flatten().min()
    }

    /// Says which pods keep the node from being drained, once that has lasted.
    async fn tell_blocked(&mut self) {
        let lasting = self.refused.iter().filter(|(_, (since, _))| since.elapsed() >= TOLD_AFTER);
        let texts: Vec<&str> = lasting.map(|(_, (_, text))| text.as_str()).collect();
        if texts.is_empty() {
            return;
        }
        let text = listed(&texts);
        if self.told.as_ref() != Some(&text) && tell(&self.objects, &self.node, &text, None).await {
            self.told = Some(text);
        }
    }

    async fn on_vain_attempt(&mut self, leaving: &[Leaving], unknown: &[String], now: Timestamp) {
        let ending = |pod: &Leaving| match self.refused.get(&(pod.namespace.clone(), pod.name.clone())) {
            Some((_, text)) => text.clone(),
            None => format!("pod {}/{} has been told to end and has not", pod.namespace, pod.name),
        };
        let texts: Vec<String> = leaving.iter().map(ending).chain(unknown.iter().cloned()).collect();
        let text = listed(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        self.drain.failed = Some(now);
        self.attempt = None;
        let delay = self.drain.delay(now);
        tracing::warn!(node = self.node, pods = text, ?delay, "not drained yet");
        if delay > Delay::Usual {
            let since = self.drain.started;
            tracing::warn!(node = self.node, %since, "draining takes long");
        }
        if tell(&self.objects, &self.node, &text, Some(now)).await {
            self.told = Some(text);
        }
    }
}

/// Says at the node what keeps it from being drained.
async fn tell(objects: &Objects, node: &str, text: &str, failed: Option<Timestamp>) -> bool {
    let patch = writes::drain_blocked(Some(text), failed);
    let kind = Kind::known("", "v1", "Node", "nodes", false);
    let written = objects.merge_patch::<serde::de::IgnoredAny>(&kind, "", node, &patch).await;
    if let Err(error) = &written {
        tracing::warn!(%error, "nobody is told why the node is not drained");
    }
    written.is_ok()
}

fn listed(texts: &[&str]) -> String {
    let mut text = texts.iter().take(NAMED).copied().collect::<Vec<_>>().join("; ");
    if texts.len() > NAMED {
        text.push_str(&format!("; and {} more", texts.len() - NAMED));
    }
    text
}

/// Why a pod cannot be evicted, with the budget that forbids it.
async fn refusal(objects: &Objects, pod: &Leaving, error: &ApiError) -> String {
    let Leaving { namespace, name, .. } = pod;
    if !error.is_too_many_requests() {
        return format!("pod {namespace}/{name}: {error}");
    }
    match budgets(objects, pod).await {
        Ok(budgets) if !budgets.is_empty() => {
            format!("pod {namespace}/{name} is kept by {}", budgets.join(" and "))
        }
        Ok(_) | Err(_) => format!("pod {namespace}/{name}: {error}"),
    }
}

/// The PodDisruptionBudgets that cover the pod, with what each demands and has.
async fn budgets(objects: &Objects, pod: &Leaving) -> Result<Vec<String>, ApiError> {
    let pods = pods::kind();
    let Some(live) = objects.get(&pods, &pod.namespace, &pod.name).await? else { return Ok(Vec::new()) };
    let labels: BTreeMap<String, String> =
        serde_json::from_value(live.pointer("/metadata/labels").cloned().unwrap_or_default()).unwrap_or_default();
    let kind = Kind::known("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true);
    let budgets = objects.list_in(&kind, &pod.namespace).await?;
    Ok(crate::pools::budgets::covering(&budgets, &labels))
}
