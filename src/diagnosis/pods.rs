//! Why a pod does not work: from its conditions, the states of its containers and its last events.

use crate::diagnosis::Trouble;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Event, Pod};
use serde::{Deserialize, Serialize};

/// An object that is waited for, and what is found behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    /// `Kind namespace/name`.
    pub object: String,
    pub causes: Vec<Trouble>,
    /// Causes that are not told.
    pub more: usize,
}

/// What shows more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Describe,
    Logs,
}

/// What a person can do, by the reason of a waiting container, of a condition, of an end or of an event; and where to look.
pub(crate) const STEPS: [(&[&str], &str, Look); 13] = [
    (
        &["ErrImagePull", "ImagePullBackOff", "ImageInspectError", "ErrImageNeverPull", "RegistryUnavailable"],
        "Make the image pullable from the node: its name and digest, the registry and a mirror of it, the pull secret, the proxy",
        Look::Describe,
    ),
    (
        &["InvalidImageName"],
        "Correct the name of the image in the manifest, and publish a release that has it right",
        Look::Describe,
    ),
    (&["OOMKilled"], "Raise the memory limit of the container, or find out why it needs more than before", Look::Logs),
    (
        &["CrashLoopBackOff", "Error", "Completed", "StartError", "ContainerCannotRun", "RunContainerError"],
        "Read why it ends, and roll the component back if the new version is at fault",
        Look::Logs,
    ),
    (
        &["CreateContainerConfigError", "CreateContainerError"],
        "Create the ConfigMap or Secret that the message names, or its key",
        Look::Describe,
    ),
    (
        &["Unschedulable", "FailedScheduling", "SchedulingGated"],
        "Make room: a node with the labels, the tolerated taints and the free resources that the message asks for, or fewer other pods",
        Look::Describe,
    ),
    (
        &["FailedMount", "FailedAttachVolume", "FailedMapVolume"],
        "Create the volume, ConfigMap or Secret that cannot be mounted",
        Look::Describe,
    ),
    (
        &["FailedCreatePodSandBox", "NetworkNotReady"],
        "Look at the network plugin and the container runtime of the node",
        Look::Describe,
    ),
    (&["Unhealthy", "ContainersNotReady"], "Find out why its probe fails", Look::Logs),
    (
        &["Evicted", "Preempting", "Preempted"],
        "Make room on the node: it lacks memory or disk, or more important pods took it",
        Look::Describe,
    ),
    (
        &["NodeLost", "NodeNotReady", "NotBegun", "NodeAffinity", "NodeShutdown", "Terminated"],
        "Bring the node back, or remove it from the cluster",
        Look::Describe,
    ),
    (
        &["FailedCreate", "ReplicaFailure"],
        "Let the pods be created: a quota, a webhook, a missing service account or the pod security of the namespace forbids it",
        Look::Describe,
    ),
    (
        &["Deleting"],
        "Find out what keeps the pod from ending: its node, a finalizer, or a container that ignores being told to stop",
        Look::Describe,
    ),
];

/// For a reason that nobody knows.
const STEP: (&str, Look) = ("Look at what it says", Look::Describe);

fn step(reason: &str) -> (&'static str, Look) {
    STEPS.iter().find(|(reasons, ..)| reasons.contains(&reason)).map_or(STEP, |(_, step, look)| (*step, *look))
}

/// For a reason that an event or a condition of the object `kind name` gives, with the command that shows more.
pub(crate) fn next_step(reason: &str, namespace: &str, kind: &str, name: &str) -> String {
    format!("{}: kubectl -n {namespace} describe {kind} {name}", step(reason).0)
}

/// Why a pod does not work.
pub(crate) struct Cause {
    pub reason: String,
    pub message: String,
    /// The container, and whether it has run before, so that there is a previous log.
    container: Option<(String, bool)>,
}

impl From<(String, String)> for Cause {
    fn from((reason, message): (String, String)) -> Cause {
        Cause { reason, message, container: None }
    }
}

impl Cause {
    fn next_step(&self, namespace: &str, pod: &str) -> String {
        let (text, look) = step(&self.reason);
        match (look, &self.container) {
            (Look::Logs, Some((container, previous))) => {
                let previous = if *previous { " --previous" } else { "" };
                format!("{text}: kubectl -n {namespace} logs {pod} -c {container}{previous}")
            }
            (Look::Logs, None) => format!(
                "{text}: kubectl -n {namespace} describe pod {pod}; kubectl -n {namespace} logs {pod} --all-containers"
            ),
            (Look::Describe, _) => format!("{text}: kubectl -n {namespace} describe pod {pod}"),
        }
    }
}

/// A pod that has not ended this long after the time that it was given does not end by itself.
const OVERDUE: SignedDuration = SignedDuration::from_secs(30);
/// A kubelet says at once that it has begun with a pod.
const BEGINS: SignedDuration = SignedDuration::from_secs(30);

/// What is wrong with a pod. `None`: it works, or it is being started or ended and nothing is wrong yet. `events`: of its namespace.
pub(crate) fn trouble(pod: &Pod, events: &[Event], now: Timestamp) -> Option<Trouble> {
    let name = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (name(&pod.metadata.namespace), name(&pod.metadata.name));
    let cause = cause(pod, events, now)?;
    let next_step = cause.next_step(&namespace, &name);
    let Cause { reason, message, .. } = cause;
    let message = if message.is_empty() { reason } else { format!("{reason}: {message}") };
    Some(Trouble { object: format!("pod {namespace}/{name}"), message, next_step })
}

/// Reason and message of what is wrong with a pod.
pub(crate) fn cause(pod: &Pod, events: &[Event], now: Timestamp) -> Option<Cause> {
    let status = pod.status.clone().unwrap_or_default();
    // The time by which it is to have ended. Until then what it says is about its end.
    if let Some(end) = &pod.metadata.deletion_timestamp {
        let overdue = now.duration_since(end.0) > OVERDUE;
        let message = format!("it was to have ended at {}, and has not", end.0);
        return overdue.then(|| ("Deleting".to_owned(), message).into());
    }
    let condition = |type_: &str| {
        let found = status.conditions.iter().flatten().find(|it| it.type_ == type_ && it.status == "False");
        found.map(|it| (it.reason.clone().unwrap_or_default(), it.message.clone().unwrap_or_default()))
    };
    if status.phase.as_deref() == Some("Failed")
        && let Some(reason) = &status.reason
    {
        return Some((reason.clone(), status.message.unwrap_or_default()).into());
    }
    if let Some(unscheduled) = condition("PodScheduled") {
        return Some(unscheduled.into());
    }
    let containers =
        || status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    if let Some(cause) = containers().find_map(of_container) {
        return Some(cause);
    }
    if is_ready(pod) || status.phase.as_deref() == Some("Succeeded") {
        return None;
    }
    let last = last_warning(pod, events);
    let last = last.map(|event| (event.reason.clone().unwrap_or_default(), event.message.clone().unwrap_or_default()));
    let restarted = || containers().any(|container| container.restart_count > 0);
    let unready = || condition("Ready").filter(|_| restarted());
    let unready_container = containers().find(|container| !container.ready).map(|it| (it.name.clone(), false));
    let told = last.or_else(unready);
    told.map(|(reason, message)| Cause { reason, message, container: unready_container })
        .or_else(|| not_begun(pod, now))
}

/// It has been given to a node, whose kubelet has not even said that it knows of it.
fn not_begun(pod: &Pod, now: Timestamp) -> Option<Cause> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    let status = pod.status.as_ref().filter(|status| status.start_time.is_none())?;
    let scheduled = status.conditions.iter().flatten().find(|it| it.type_ == "PodScheduled" && it.status == "True")?;
    let since = scheduled.last_transition_time.as_ref()?.0;
    let message = format!("node {node} has had it since {since}, and has not begun with it: it may not be Ready");
    (now.duration_since(since) > BEGINS).then(|| ("NotBegun".to_owned(), message).into())
}

/// A container that cannot begin, or ended and should not have.
fn of_container(container: &ContainerStatus) -> Option<Cause> {
    let ended = |state: &Option<ContainerState>| state.as_ref().and_then(|state| state.terminated.clone());
    let bad = |end: &ContainerStateTerminated| end.exit_code != 0;
    let name = format!("container {}", container.name);
    let before = ended(&container.last_state).is_some();
    let cause = |reason, message| Some(Cause { reason, message, container: Some((container.name.clone(), before)) });
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    if let Some(waiting) = waiting {
        let reason = waiting.reason.clone().unwrap_or_default();
        let text = waiting.message.clone().unwrap_or_default();
        return match (reason.as_str(), ended(&container.last_state)) {
            // It is being started.
            ("ContainerCreating" | "PodInitializing" | "", _) => None,
            ("CrashLoopBackOff", Some(end)) => {
                let out_of_memory = end.reason.as_deref() == Some("OOMKilled");
                let reason = if out_of_memory { "OOMKilled".to_owned() } else { reason };
                cause(reason, format!("{name} has ended {} times, last with {}", container.restart_count, how(&end)))
            }
            _ => cause(reason, format!("{name}: {text}")),
        };
    }
    let end = ended(&container.state).filter(bad)?;
    let reason = end.reason.clone().unwrap_or_else(|| "Error".to_owned());
    let times = container.restart_count + 1;
    let often = if times > 1 { format!("{times} times, last ") } else { String::new() };
    let at = end.finished_at.as_ref().map(|at| format!("at {} ", at.0)).unwrap_or_default();
    cause(reason, format!("{name} has ended {often}{at}with {}", how(&end)))
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// It has ended and is not started again: what it says may be about the past.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn how(end: &ContainerStateTerminated) -> String {
    let message = end.message.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let message = message.map(|text| format!(": {text}")).unwrap_or_default();
    let reason = end.reason.as_deref().filter(|reason| *reason != "Error").map(|reason| format!(" ({reason})"));
    format!("exit code {}{}{message}", end.exit_code, reason.unwrap_or_default())
}

/// The newest warning about a pod.
fn last_warning<'a>(pod: &Pod, events: &'a [Event]) -> Option<&'a Event> {
    of_object(events, pod.metadata.uid.as_deref())
}

/// The newest warning about the object with this uid.
pub(crate) fn of_object<'a>(events: &'a [Event], uid: Option<&str>) -> Option<&'a Event> {
    let is = |event: &&Event| event.type_.as_deref() == Some("Warning") && event.involved_object.uid.as_deref() == uid;
    events.iter().filter(is).max_by_key(|event| time(event))
}

/// When the event was seen last.
pub(crate) fn time(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or(event.event_time.as_ref().map(|time| time.0)).or(event
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0))
}

#[cfg(test)]
mod tests;
