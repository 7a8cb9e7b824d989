//! Runs a Job of a retrieval and waits for it by watching the Job and its pods. Reports what a container waits for, and
//! fails at once where waiting cannot help.

use super::job_spec::DEADLINE_SECONDS;
use crate::cluster::watcher::{self, Event, Selection, Selector};
use crate::cluster::{ApiError, Kind, Objects};
use crate::object::metadata;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long after its deadline the end of a Job may come, because its pods are given time to terminate.
const GRACE: Duration = Duration::from_secs(120);
/// How long the pod of a complete Job may stay unseen.
const POD_LOST: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("Job {name}: {cause}")]
    Failed { name: String, cause: String },
    #[error("Job {0}: cancelled")]
    Stopped(String),
}

fn kind() -> Kind {
    Kind::known("batch", "v1", "Job", "jobs", true)
}

/// Runs Jobs in one namespace.
pub(crate) struct JobRunner<'a> {
    pub objects: &'a Objects,
    pub client: &'a Client,
    pub namespace: &'a str,
    /// Gets what a running Job waits for.
    pub report: &'a (dyn Fn(&str) + Send + Sync),
    pub stop: &'a CancellationToken,
}

impl JobRunner<'_> {
    /// Runs a Job to its end, or waits for one of the same name that an earlier process created. Returns the termination
    /// message of its container.
    pub(crate) async fn run(&self, job: &Job) -> Result<String, JobError> {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let uid = self.create(name, job).await?;
        (self.report)(&running(name, self.namespace));
        let limit = Duration::from_secs(DEADLINE_SECONDS.into()) + GRACE;
        let outcome = tokio::time::timeout(limit, self.wait(name, &uid)).await.unwrap_or_else(|_| {
            Err(failed(name, format!("its end was not seen within {} s; it will be run again", limit.as_secs())))
        });
        if !matches!(outcome, Err(JobError::Stopped(_))) {
            self.clean_up(name).await;
        }
        outcome
    }

    async fn wait(&self, name: &str, uid: &str) -> Result<String, JobError> {
        let by_job = Selector::Labels(format!("batch.kubernetes.io/job-name={name}"));
        let mut jobs = self.watch::<Job>(kind(), Selector::Name(name.to_owned()));
        let pod = Kind::pod();
        let mut events = self.events::<Pod>(pod, by_job);
        let mut pods = Pods::of(uid);
        let (mut complete, mut told) = (false, String::new());
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return Err(JobError::Stopped(name.to_owned())),
                Some(job) = jobs.next() => match job.as_ref().map(finished) {
                    // Its deadline and its pods are deleted with it, so no other event would ever come.
                    None => return Err(failed(name, "was deleted before its end was seen; it will be run again")),
                    Some(None) => {}
                    Some(Some(Ok(()))) => complete = true,
                    Some(Some(Err(cause))) => {
                        return Err(failed(name, format!("{cause}{}{}", problems(pods.seen()), not_started(pods.seen()))));
                    }
                },
                Some(event) = events.next() => {
                    if let Some(cause) = pods.on(event).and_then(permanent_failure) {
                        return Err(failed(name, cause));
                    }
                    if let Some(text) = news(&mut told, name, self.namespace, problems(pods.seen())) {
                        (self.report)(&text);
                    }
                }
                () = tokio::time::sleep(POD_LOST), if complete => {
                    return Err(failed(name, "is complete, but its pod was deleted before it was seen; it will be run again"));
                }
            }
            if complete && let Some(message) = pods.seen().find_map(success) {
                return Ok(message);
            }
        }
    }

    /// Deletes a finished Job: its result is on disk, or its error in the condition.
    async fn clean_up(&self, name: &str) {
        let kind = kind();
        let deleted = async {
            if let Some(live) = self.objects.get(&kind, self.namespace, name).await? {
                self.objects.delete(&kind, self.namespace, name, metadata::uid(&live)).await?;
            }
            Ok::<(), ApiError>(())
        };
        if let Err(error) = deleted.await {
            tracing::debug!(%error, "cannot delete a finished Job");
        }
    }

    /// Creates the Job, or takes one over that is running or complete. One that failed before is replaced, and so is one that
    /// somebody else has created under this name: it could run anything, and what it says would be believed. Returns its uid.
    async fn create(&self, name: &str, job: &Job) -> Result<String, JobError> {
        let kind = kind();
        let desired = serde_json::to_value(job).map_err(|e| failed(name, e.to_string()))?;
        for _ in 0..3 {
            if let Some(live) = self.objects.get(&kind, self.namespace, name).await? {
                let uid = metadata::uid(&live).to_owned();
                let job: Option<Job> = serde_json::from_value(live.clone()).ok();
                let failed = job.as_ref().is_none_or(|job| matches!(finished(job), Some(Err(_))));
                let goes_on = !failed && job.is_some_and(|job| job.metadata.deletion_timestamp.is_none());
                if goes_on && self.is_ours(&desired, &live).await? {
                    return Ok(uid);
                }
                self.objects.delete(&kind, self.namespace, name, &uid).await?;
            }
            match self.objects.create(&kind, self.namespace, &desired).await {
                Ok(created) => return Ok(metadata::uid(&created).to_owned()),
                Err(e) if e.is_already_exists() => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(failed(name, "an earlier Job of this name is not removed: delete it"))
    }

    /// Whether the Job is the one that we would create: the server is asked what it makes of that.
    async fn is_ours(&self, desired: &Value, live: &Value) -> Result<bool, JobError> {
        let mut other = desired.clone();
        // A dry run of a name that exists is refused. Names are cut, because they may be at their limit.
        if let Some(name) = other.pointer_mut("/metadata/name") {
            let short: String = name.as_str().unwrap_or_default().chars().take(50).collect();
            *name = format!("{}-expected", short.trim_end_matches(['-', '.'])).into();
        }
        let expected = self.objects.defaulted(&kind(), self.namespace, &other).await?;
        let ours = specification(&expected) == specification(live);
        if !ours {
            let (name, namespace) = (metadata::name(live), self.namespace);
            let object = format!("Job {namespace}/{name}");
            tracing::warn!(object, "a Job of this name is not what this process would create; replacing it");
        }
        Ok(ours)
    }

    /// The objects that the watch finds, as they change; `None` when one was deleted, or none exists.
    fn watch<T>(&self, kind: Kind, selector: Selector) -> BoxStream<'static, Option<T>>
    where
        T: Clone + serde::de::DeserializeOwned + Send + 'static,
    {
        let mut listed = 0;
        let change = move |event| std::future::ready(change(event, &mut listed));
        self.events(kind, selector).filter_map(change).boxed()
    }

    fn events<T>(&self, kind: Kind, selector: Selector) -> BoxStream<'static, Event<T>>
    where
        T: Clone + serde::de::DeserializeOwned + Send + 'static,
    {
        let selection = Selection::new(kind, self.namespace, selector);
        let events = watcher::events(self.client.clone(), selection).filter_map(|event| {
            let failed = |error: &ApiError| tracing::debug!(%error, "watch of a retrieval failed; trying again");
            std::future::ready(event.inspect_err(failed).ok())
        });
        events.boxed()
    }
}

/// While an image is pulled there is nothing else to report, so say where to look.
fn running(name: &str, namespace: &str) -> String {
    format!("Job {name} in namespace {namespace} is running")
}

/// What is to be told of a Job whose pods have these problems, unless they are those that were told last.
fn news(told: &mut String, name: &str, namespace: &str, problems: String) -> Option<String> {
    if *told == problems {
        return None;
    }
    *told = problems;
    Some(if told.is_empty() { running(name, namespace) } else { format!("Job {name}{told}") })
}

/// The pods of one Job. One that is gone is still told of until there is another one: its Job may have failed because of it,
/// which is known a moment later. One that has done its work is kept for its message.
#[derive(Default)]
struct Pods {
    /// The uid of the Job. Anybody can give a pod its label.
    job: String,
    /// By name.
    seen: BTreeMap<String, Pod>,
    /// Of those seen.
    gone: BTreeSet<String>,
    /// In the list that is being read.
    listed: BTreeSet<String>,
}

impl Pods {
    fn of(job: &str) -> Pods {
        Pods { job: job.to_owned(), ..Pods::default() }
    }

    fn seen(&self) -> impl Iterator<Item = &Pod> {
        self.seen.values()
    }

    /// Takes an event in; the pod that it shows, if it belongs to the Job.
    fn on(&mut self, event: Event<Pod>) -> Option<&Pod> {
        let pod = match event {
            Event::Apply(pod) | Event::InitApply(pod) if belongs(&pod, &self.job) => pod,
            Event::Apply(_) | Event::InitApply(_) => return None,
            Event::Delete(pod) => {
                self.gone.extend(pod.metadata.name.filter(|name| self.seen.contains_key(name)));
                return None;
            }
            Event::Init => {
                self.listed.clear();
                return None;
            }
            Event::InitDone => {
                self.gone.extend(self.seen.keys().filter(|name| !self.listed.contains(*name)).cloned());
                self.forget_gone();
                return None;
            }
        };
        let name = pod.metadata.name.clone().unwrap_or_default();
        self.gone.remove(&name);
        self.listed.insert(name.clone());
        self.seen.insert(name.clone(), pod);
        self.forget_gone();
        self.seen.get(&name)
    }

    fn forget_gone(&mut self) {
        let Pods { seen, gone, .. } = self;
        if seen.keys().any(|name| !gone.contains(name)) {
            seen.retain(|name, pod| !gone.contains(name) || success(pod).is_some());
            gone.retain(|name| seen.contains_key(name));
        }
    }
}

/// What a Job does, without what the server adds for each one.
fn specification(job: &Value) -> Value {
    const OF_EACH: [&str; 4] =
        ["controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"];
    let mut specification = job.get("spec").cloned().unwrap_or_default();
    if let Some(fields) = specification.as_object_mut() {
        fields.remove("selector");
    }
    if let Some(labels) = specification.pointer_mut("/template/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|label, _| !OF_EACH.contains(&label.as_str()));
    }
    specification
}

fn failed(name: &str, cause: impl Into<String>) -> JobError {
    JobError::Failed { name: name.to_owned(), cause: cause.into() }
}

/// What an event means: an object, that it was deleted, or nothing yet. `listed` counts the objects of the current list.
fn change<T>(event: Event<T>, listed: &mut usize) -> Option<Option<T>> {
    match event {
        Event::Apply(object) => Some(Some(object)),
        Event::Delete(_) => Some(None),
        Event::Init => {
            *listed = 0;
            None
        }
        Event::InitApply(object) => {
            *listed += 1;
            Some(Some(object))
        }
        Event::InitDone => (*listed == 0).then_some(None),
    }
}

/// Whether the Job has ended, and how.
fn finished(job: &Job) -> Option<Result<(), String>> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is = |type_: &str| conditions.iter().find(|c| c.type_ == type_ && c.status == "True");
    if is("Complete").is_some() {
        return Some(Ok(()));
    }
    // FailureTarget is set when the failure is decided, Failed only when all pods have ended, which a kubelet that waits
    // for a registry may never report.
    let failed = is("FailureTarget").or_else(|| is("Failed"))?;
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    Some(Err(format!("{}: {}", text(&failed.reason), text(&failed.message))))
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|s| s.init_container_statuses.as_ref()).into_iter().flatten();
    init.chain(status.and_then(|s| s.container_statuses.as_ref()).into_iter().flatten())
}

fn belongs(pod: &Pod, job: &str) -> bool {
    let owners = pod.metadata.owner_references.as_ref().into_iter().flatten();
    owners.into_iter().any(|owner| owner.uid == job && owner.controller == Some(true))
}

/// The termination message of a main container that succeeded.
fn success(pod: &Pod) -> Option<String> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let terminated = containers.first()?.state.as_ref()?.terminated.as_ref()?;
    (terminated.exit_code == 0).then(|| terminated.message.clone().unwrap_or_default())
}

/// Reasons of a container that has not started yet, or whose image is being pulled.
const NOT_YET: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// What containers wait for, or why they failed.
fn problems<'a>(pods: impl Iterator<Item = &'a Pod>) -> String {
    let mut text = String::new();
    for status in pods.flat_map(statuses) {
        let Some(state) = &status.state else { continue };
        let (reason, message) = match (&state.waiting, &state.terminated) {
            (Some(w), _) if !NOT_YET.contains(&w.reason.as_deref().unwrap_or_default()) => (&w.reason, &w.message),
            (_, Some(t)) if t.exit_code != 0 => (&t.reason, &t.message),
            _ => continue,
        };
        let (reason, message) = (reason.as_deref().unwrap_or_default(), message.as_deref().unwrap_or_default());
        text.push_str(&format!("; container {}: {reason}: {}", status.name, message.trim()));
    }
    text
}

/// The container that had not started when its Job ended, if any: the only sign of a registry that never answers.
fn not_started<'a>(mut pods: impl Iterator<Item = &'a Pod>) -> String {
    let stuck = pods.find_map(|pod| {
        statuses(pod).find_map(|status| {
            let reason = status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
            NOT_YET.contains(&reason).then_some((&status.name, reason, &status.image))
        })
    });
    stuck.map_or_else(String::new, |(name, reason, image)| {
        format!("; container {name} had not started ({reason}): does the registry of {image} answer the node?")
    })
}

/// Why waiting cannot help: the image does not exist, or policy forbids it.
fn permanent_failure(pod: &Pod) -> Option<String> {
    statuses(pod).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().unwrap_or_default();
        let message = waiting.message.as_deref().unwrap_or_default();
        let unknown = ["ErrImagePull", "ImagePullBackOff"].contains(&reason)
            && ["manifest unknown", "not found", "name unknown"].iter().any(|t| message.to_lowercase().contains(t));
        let fatal = unknown || reason == "SignatureValidationFailed" || reason == "InvalidImageName";
        fatal.then(|| format!("container {} cannot start: {reason}: {message}", status.name))
    })
}

#[cfg(test)]
mod tests;
