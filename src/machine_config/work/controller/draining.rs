//! Moves the pods of a node away: one task for each node that is drained, so that none waits for another.

use crate::cluster::followed::Followed;
use crate::cluster::task;
use crate::cluster::watcher::{Event, Selection, Selector};
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::machine_config::decide::Pods;
use crate::machine_config::drain::{ATTEMPT, Delay, Drain, EVICTION_RETRY};
use crate::machine_config::views::NodeView;
use crate::machine_config::work::pods::{self, DaemonSets, Leaving};
use crate::machine_config::writes;
use crate::object::budgets::Budget;
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// A drain that evictions are refused for so long is told of.
const TOLD_AFTER: Duration = Duration::from_secs(10);
/// So many pods are named.
const NAMED: usize = 5;

/// The drains that are under way.
pub(super) struct Drains {
    clients: Arc<Clients>,
    objects: Objects,
    budgets: Arc<Followed<Budget>>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    tasks: BTreeMap<String, Task>,
}

struct Task {
    /// The request with its id: another one is another drain. `None` as long as the pods are only followed.
    request: Option<(String, Option<String>)>,
    /// When the drain began, by the API server.
    since: Option<Timestamp>,
    begin: watch::Sender<Option<Begun>>,
    state: Arc<Mutex<Option<usize>>>,
    stop: CancellationToken,
}

/// What the task of a node has to know to evict pods.
#[derive(Clone, Debug)]
struct Begun {
    drain: Drain,
    /// When it began, by the API server; `None` until that has told.
    since: Option<Timestamp>,
    /// What has been told of it already.
    told: Option<String>,
}

impl Drains {
    pub(super) fn new(clients: Arc<Clients>, objects: Objects, changed: Arc<Notify>, stop: CancellationToken) -> Self {
        let budgets = Kind::known("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true);
        let everywhere = Selection::new(budgets, "", Selector::All);
        let budgets = Followed::start(&clients, everywhere, Arc::default(), stop.clone());
        Drains { clients, objects, budgets, changed, stop, tasks: BTreeMap::new() }
    }

    /// How many pods still have to go, as far as that is known for this request.
    pub(super) fn pods(&self, node: &NodeView) -> Option<usize> {
        let task = self.tasks.get(&node.facts.name).filter(|task| task.request == Some(request(node)))?;
        *task.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this is done about the pods of nodes, and nothing else.
    pub(super) fn set(&mut self, wanted: &BTreeMap<String, Pods>, nodes: &BTreeMap<String, Arc<NodeView>>) {
        for (name, pods) in wanted {
            match (pods, nodes.get(name)) {
                (Pods::Follow, _) if !self.tasks.contains_key(name) => self.start(name),
                (Pods::Evict(drain), Some(node)) => self.begin(node, *drain),
                (Pods::Keep | Pods::Follow | Pods::Evict(_), _) => {}
            }
        }
        self.tasks.retain(|name, task| {
            let keep = wanted.contains_key(name);
            if !keep {
                task.stop.cancel();
            }
            keep
        });
    }

    /// Begins to drain the node, unless that is under way.
    fn begin(&mut self, node: &NodeView, drain: Drain) {
        let (name, request) = (&node.facts.name, request(node));
        match self.tasks.get(name).map(|task| (task.request.as_ref(), task.since)) {
            Some((Some(known), since)) if *known == request && since == node.begun => return,
            Some((Some(known), _)) if *known == request => {}
            Some((None, _)) => {}
            Some((Some(_), _)) | None => self.start(name),
        }
        if let Some(task) = self.tasks.get_mut(name) {
            (task.request, task.since) = (Some(request), node.begun);
            let told = node.facts.drain_blocked.clone();
            task.begin.send_replace(Some(Begun { drain, since: node.begun, told }));
        }
    }

    fn start(&mut self, name: &str) {
        let Ok(client) = self.clients.for_watch() else { return };
        let stop = self.stop.child_token();
        let state = Arc::new(Mutex::new(None));
        let (begin, begun) = watch::channel(None);
        let run = Run {
            pods: pods::follow(client, name).boxed(),
            node: name.to_owned(),
            objects: self.objects.clone(),
            budgets: self.budgets.clone(),
            budgets_changed: self.budgets.subscribe(),
            changed: self.changed.clone(),
            state: state.clone(),
            present: BTreeMap::new(),
            daemon_sets: DaemonSets::new(),
            complete: false,
            unread: None,
            retry: HashMap::new(),
            refused: BTreeMap::new(),
            begun,
            drain: None,
            since: None,
            attempt: None,
            told: None,
        };
        let until = stop.clone();
        let running = task::guarded("drain", &self.stop, async move { until.run_until_cancelled(run.run()).await });
        tokio::spawn(running.instrument(tracing::info_span!("drain", node = name)));
        if let Some(before) =
            self.tasks.insert(name.to_owned(), Task { request: None, since: None, begin, state, stop })
        {
            before.stop.cancel();
        }
    }
}

fn request(node: &NodeView) -> (String, Option<String>) {
    (node.drain.asked.clone().unwrap_or_default(), node.drain.asked_id.clone())
}

type PodKey = (String, String);

/// A pod that could not be evicted.
struct Refusal {
    since: Instant,
    text: String,
    /// The resourceVersions of the budgets that kept it.
    budgets: Vec<String>,
}

struct Run {
    node: String,
    objects: Objects,
    budgets: Arc<Followed<Budget>>,
    budgets_changed: watch::Receiver<()>,
    changed: Arc<Notify>,
    state: Arc<Mutex<Option<usize>>>,
    pods: BoxStream<'static, Result<Event<Pod>, ApiError>>,
    present: BTreeMap<PodKey, Pod>,
    /// Those of the present attempt.
    daemon_sets: DaemonSets,
    /// All pods that exist are known.
    complete: bool,
    /// Why they cannot be read at present, and since when.
    unread: Option<(Instant, String)>,
    /// When the eviction of a pod may be tried again although nothing tells that it would be granted, by uid.
    retry: HashMap<String, Instant>,
    refused: BTreeMap<PodKey, Refusal>,
    begun: watch::Receiver<Option<Begun>>,
    /// `None` until the node is to be drained.
    drain: Option<Drain>,
    /// When it began, by the API server.
    since: Option<Timestamp>,
    /// When the present attempt began.
    attempt: Option<Instant>,
    told: Option<String>,
}

impl Run {
    async fn run(mut self) {
        loop {
            let deadline = match self.drain {
                Some(drain) if self.complete => self.step(drain).await,
                Some(_) => self.tell_unread().await,
                None => None,
            };
            let pause = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(event) = self.pods.next() => {
                    self.on_event(event);
                    // What is there already belongs together.
                    while let Some(Some(event)) = futures::FutureExt::now_or_never(self.pods.next()) {
                        self.on_event(event);
                    }
                    self.on_budgets();
                }
                Ok(()) = self.budgets_changed.changed() => self.on_budgets(),
                Ok(()) = self.begun.changed() => self.on_begun(),
                () = pause => {}
            }
        }
    }

    fn on_begun(&mut self) {
        let Some(Begun { drain, since, told }) = self.begun.borrow_and_update().clone() else { return };
        self.since = since;
        if self.drain.is_none() {
            (self.drain, self.told) = (Some(drain), told);
        }
    }

    /// A pod is tried again at once when the budgets that kept it have changed and let it go, or no longer cover it.
    fn on_budgets(&mut self) {
        let budgets = self.budgets.all().unwrap_or_default();
        for (key, refusal) in self.refused.iter().filter(|(_, refusal)| !refusal.budgets.is_empty()) {
            let Some(pod) = self.present.get(key) else { continue };
            let covering = covering(&budgets, &key.0, pod.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()));
            if covering.iter().all(|budget| budget.allows()) && versions(&covering) != refusal.budgets {
                self.retry.remove(pod.metadata.uid.as_deref().unwrap_or_default());
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
            Ok(Event::InitDone) => (self.complete, self.unread) = (true, None),
            Ok(Event::Delete(pod)) => {
                self.present.remove(&key(&pod));
            }
            Err(error) => {
                tracing::warn!(node = self.node, %error, "the pods of the node are not followed; trying again");
                let since = self.unread.take().map_or_else(Instant::now, |(since, _)| since);
                self.unread = Some((since, format!("the pods of the node are not known: {error}")));
            }
        }
    }

    /// Does what is due, and returns when there is more to do although no pod has changed.
    async fn step(&mut self, drain: Drain) -> Option<Instant> {
        let known = &mut self.daemon_sets;
        let survey = pods::survey(&self.objects, self.present.values(), self.since, known).await;
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
        // Those that have been told to end are not asked again.
        let evictable: Vec<&Leaving> = survey.leaving.iter().filter(|pod| !pod.terminating).collect();
        self.retry.retain(|uid, _| evictable.iter().any(|pod| pod.uid == *uid));
        let is_due = |pod: &&&Leaving| self.retry.get(&pod.uid).is_none_or(|until| *until <= clock);
        let due: Vec<Leaving> = evictable.iter().filter(is_due).map(|pod| (*pod).clone()).collect();
        // Nothing tells when the rest can be looked up.
        let retry = Duration::try_from(EVICTION_RETRY).unwrap_or_default();
        let unknown = (!survey.unknown.is_empty()).then(|| clock + retry);
        let paused = clock + until(drain.next_attempt(now), now);
        // What has changed since for some pod ends the pause for that pod.
        if self.attempt.is_none() && due.is_empty() && paused > clock {
            return [Some(paused), unknown].into_iter().flatten().min();
        }
        let limit = *self.attempt.get_or_insert(clock) + Duration::try_from(ATTEMPT).unwrap_or_default();
        if clock >= limit {
            self.on_vain_attempt(drain, &survey.leaving, &survey.unknown, now).await;
            return Some(clock);
        }
        self.evict(due).await;
        self.tell_blocked().await;
        let again = evictable.iter().map(|pod| self.retry.get(&pod.uid).copied().unwrap_or(clock)).min();
        let told = self.refused.values().map(|refusal| refusal.since + TOLD_AFTER).filter(|time| *time > clock).min();
        [again, unknown, Some(limit), told].into_iter().flatten().min()
    }

    /// Evicts the pods side by side.
    async fn evict(&mut self, pods: Vec<Leaving>) {
        if pods.is_empty() {
            return;
        }
        for pod in &pods {
            if let Some(warning) = pod.warning {
                tracing::info!(node = self.node, pod = format!("{}/{}", pod.namespace, pod.name), warning, "evicting");
            }
        }
        // As they are before the answers: one that changes from now on may let a pod go that was refused.
        let budgets = self.budgets.all().unwrap_or_default();
        let covering: Vec<_> = pods.iter().map(|pod| covering(&budgets, &pod.namespace, &pod.labels)).collect();
        let objects = &self.objects;
        let evictions = pods.iter().map(|pod| objects.evict(&pod.namespace, &pod.name, &pod.uid));
        let outcomes = futures::future::join_all(evictions).await;
        let again = Instant::now() + Duration::try_from(EVICTION_RETRY).unwrap_or_default();
        for ((pod, covering), outcome) in pods.into_iter().zip(covering).zip(outcomes) {
            self.retry.insert(pod.uid.clone(), again);
            let key = (pod.namespace.clone(), pod.name.clone());
            match outcome {
                Ok(()) => _ = self.refused.remove(&key),
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let since = self.refused.get(&key).map_or_else(Instant::now, |refusal| refusal.since);
                    let (text, budgets) = (refusal(&pod, &covering, &error), versions(&covering));
                    self.refused.insert(key, Refusal { since, text, budgets });
                }
            }
        }
        self.on_budgets();
    }

    /// Says why nothing is done, once that has lasted; returns when it will have. The watch goes on trying, and each error is
    /// an event.
    async fn tell_unread(&mut self) -> Option<Instant> {
        let (since, text) = self.unread.clone()?;
        let due = since + TOLD_AFTER;
        if due > Instant::now() {
            return Some(due);
        }
        if self.told.as_ref() != Some(&text) && tell(&self.objects, &self.node, &text, None).await {
            self.told = Some(text);
        }
        None
    }

    /// Says which pods keep the node from being drained, once that has lasted.
    async fn tell_blocked(&mut self) {
        let lasting = self.refused.values().filter(|refusal| refusal.since.elapsed() >= TOLD_AFTER);
        let texts: Vec<&str> = lasting.map(|refusal| refusal.text.as_str()).collect();
        if texts.is_empty() {
            return;
        }
        let text = listed(&texts);
        if self.told.as_ref() != Some(&text) && tell(&self.objects, &self.node, &text, None).await {
            self.told = Some(text);
        }
    }

    async fn on_vain_attempt(&mut self, drain: Drain, leaving: &[Leaving], unknown: &[String], now: Timestamp) {
        let ending = |pod: &Leaving| match self.refused.get(&(pod.namespace.clone(), pod.name.clone())) {
            Some(refusal) => refusal.text.clone(),
            None => format!("pod {}/{} has been told to end and has not", pod.namespace, pod.name),
        };
        // What is known of the pods may be old.
        let unread = self.unread.iter().map(|(_, text)| text.clone());
        let texts: Vec<String> = unread.chain(leaving.iter().map(ending)).chain(unknown.iter().cloned()).collect();
        let text = listed(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let drain = Drain { failed: Some(now), ..drain };
        self.drain = Some(drain);
        self.attempt = None;
        self.daemon_sets.clear();
        let again = Instant::now() + until(drain.next_attempt(now), now);
        self.retry.extend(leaving.iter().map(|pod| (pod.uid.clone(), again)));
        let delay = drain.delay(now);
        tracing::warn!(node = self.node, pods = text, ?delay, "not drained yet");
        if delay > Delay::Usual {
            let since = drain.started;
            tracing::warn!(node = self.node, %since, "draining takes long");
        }
        if tell(&self.objects, &self.node, &text, Some(now)).await {
            self.told = Some(text);
        }
    }
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
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

/// The budgets that cover a pod.
fn covering(
    budgets: &BTreeMap<String, Arc<Budget>>,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Vec<Arc<Budget>> {
    budgets.values().filter(|budget| budget.covers(namespace, labels)).cloned().collect()
}

fn versions(budgets: &[Arc<Budget>]) -> Vec<String> {
    budgets.iter().map(|budget| budget.version().to_owned()).collect()
}

/// Why a pod cannot be evicted, with the budgets that forbid it.
fn refusal(pod: &Leaving, covering: &[Arc<Budget>], error: &ApiError) -> String {
    let Leaving { namespace, name, .. } = pod;
    if !error.is_too_many_requests() || covering.is_empty() {
        return format!("pod {namespace}/{name}: {error}");
    }
    // The one that refused may have been changed since.
    let refusing: Vec<_> = covering.iter().filter(|budget| !budget.allows()).collect();
    let texts: Vec<String> = match refusing.is_empty() {
        true => covering.iter().map(|budget| budget.to_string()).collect(),
        false => refusing.iter().map(|budget| budget.to_string()).collect(),
    };
    format!("pod {namespace}/{name} is kept by {}", texts.join(" and "))
}

#[cfg(test)]
mod tests;
