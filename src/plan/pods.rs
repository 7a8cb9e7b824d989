//! Why a pod does not work: from its conditions, the states of its containers and its last events.

use super::trouble::Trouble;
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

/// What a person can do, by the reason of a waiting container, of a condition, of an end or of an event.
pub(crate) const STEPS: [(&[&str], &str); 13] = [
    (
        &["ErrImagePull", "ImagePullBackOff", "ImageInspectError", "ErrImageNeverPull", "RegistryUnavailable"],
        "Make the image pullable from the node: its name and digest, the registry and a mirror of it, the pull secret, the proxy",
    ),
    (&["InvalidImageName"], "Correct the name of the image in the manifest, and publish a release that has it right"),
    (
        &["OOMKilled"],
        "Raise the memory limit of the container, or find out why it needs more than before: kubectl logs --previous",
    ),
    (
        &["CrashLoopBackOff", "Error", "Completed", "StartError", "ContainerCannotRun", "RunContainerError"],
        "Read why it ends: kubectl logs --previous of the pod; roll the component back if the new version is at fault",
    ),
    (
        &["CreateContainerConfigError", "CreateContainerError"],
        "Create the ConfigMap or Secret that the message names, or its key",
    ),
    (
        &["Unschedulable", "FailedScheduling", "SchedulingGated"],
        "Make room: a node with the labels, the tolerated taints and the free resources that the message asks for, or fewer other pods",
    ),
    (
        &["FailedMount", "FailedAttachVolume", "FailedMapVolume"],
        "Create the volume, ConfigMap or Secret that cannot be mounted",
    ),
    (
        &["FailedCreatePodSandBox", "NetworkNotReady"],
        "Look at the network plugin and the container runtime of the node",
    ),
    (
        &["Unhealthy", "ContainersNotReady"],
        "Find out why its probe fails: kubectl describe and kubectl logs of the pod",
    ),
    (
        &["Evicted", "Preempting", "Preempted"],
        "Make room on the node: it lacks memory or disk, or more important pods took it",
    ),
    (&["NodeLost", "NodeAffinity", "NodeShutdown", "Terminated"], "Bring the node back, or remove it from the cluster"),
    (
        &["FailedCreate", "ReplicaFailure"],
        "Let the pods be created: a quota, a webhook, a missing service account or the pod security of the namespace forbids it",
    ),
    (
        &["Deleting"],
        "Find out what keeps the pod from ending: its node, a finalizer, or a container that ignores being told to stop",
    ),
];

/// For a reason that nobody knows.
const STEP: &str = "Look at the pod: kubectl describe, and kubectl logs";

pub(crate) fn next_step(reason: &str) -> &'static str {
    STEPS.iter().find(|(reasons, _)| reasons.contains(&reason)).map_or(STEP, |(_, step)| step)
}

/// A pod that has not ended this long after the time that it was given does not end by itself.
const OVERDUE: SignedDuration = SignedDuration::from_secs(30);

/// What is wrong with a pod. `None`: it works, or it is being started or ended and nothing is wrong yet. `events`: of its namespace.
pub(crate) fn trouble(pod: &Pod, events: &[Event], now: Timestamp) -> Option<Trouble> {
    let name = |text: &Option<String>| text.clone().unwrap_or_default();
    let object = format!("pod {}/{}", name(&pod.metadata.namespace), name(&pod.metadata.name));
    let (reason, message) = cause(pod, events, now)?;
    let message = if message.is_empty() { reason.clone() } else { format!("{reason}: {message}") };
    Some(Trouble { object, message, next_step: next_step(&reason).to_owned() })
}

/// Reason and message.
fn cause(pod: &Pod, events: &[Event], now: Timestamp) -> Option<(String, String)> {
    let status = pod.status.clone().unwrap_or_default();
    // The time by which it is to have ended. Until then what it says is about its end.
    if let Some(end) = &pod.metadata.deletion_timestamp {
        let overdue = now.duration_since(end.0) > OVERDUE;
        return overdue.then(|| ("Deleting".to_owned(), format!("it was to have ended at {}, and has not", end.0)));
    }
    let condition = |type_: &str| {
        let found = status.conditions.iter().flatten().find(|it| it.type_ == type_ && it.status == "False");
        found.map(|it| (it.reason.clone().unwrap_or_default(), it.message.clone().unwrap_or_default()))
    };
    if status.phase.as_deref() == Some("Failed")
        && let Some(reason) = &status.reason
    {
        return Some((reason.clone(), status.message.unwrap_or_default()));
    }
    if let Some(unscheduled) = condition("PodScheduled") {
        return Some(unscheduled);
    }
    let containers =
        || status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    if let Some(cause) = containers().find_map(of_container) {
        return Some(cause);
    }
    let ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    if ready || status.phase.as_deref() == Some("Succeeded") {
        return None;
    }
    let last = last_warning(pod, events);
    last.map(|event| (event.reason.clone().unwrap_or_default(), event.message.clone().unwrap_or_default())).or_else(
        || {
            let restarted = containers().any(|container| container.restart_count > 0);
            condition("Ready").filter(|_| restarted)
        },
    )
}

/// A container that cannot begin, or ended and should not have.
fn of_container(container: &ContainerStatus) -> Option<(String, String)> {
    let ended = |state: &Option<ContainerState>| state.as_ref().and_then(|state| state.terminated.clone());
    let bad = |end: &ContainerStateTerminated| end.exit_code != 0;
    let name = format!("container {}", container.name);
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
                Some((reason, format!("{name} has ended {} times, last with {}", container.restart_count, how(&end))))
            }
            _ => Some((reason, format!("{name}: {text}"))),
        };
    }
    let end = ended(&container.state).filter(bad)?;
    let reason = end.reason.clone().unwrap_or_else(|| "Error".to_owned());
    let times = container.restart_count + 1;
    let often = if times > 1 { format!("{times} times, last ") } else { String::new() };
    Some((reason, format!("{name} has ended {often}with {}", how(&end))))
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

fn time(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or(event.event_time.as_ref().map(|time| time.0)).or(event
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0))
}

#[cfg(test)]
mod tests;
