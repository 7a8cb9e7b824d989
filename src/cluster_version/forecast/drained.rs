//! Whether nodes that pools are updating explain that an operator is not available: its pods had to leave them. Then the update
//! waits, and nothing has failed.

use crate::diagnosis::pods;
use crate::diagnosis::pods::time;
use crate::machine_config::summary::NodeSummary;
use crate::object::cluster_operator::{OperatorReport, RelatedObject};
use crate::object::condition::ConditionStatus;
use crate::object::condition::find;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes explain no longer than this that an operator is not available. A pod that left a node runs on another one within a minute or
/// two, also with a large image to pull; and where there is no other node, most machines are back from their restart by then.
/// Whatever takes longer has to be looked at.
pub(crate) const LIMIT: SignedDuration = SignedDuration::from_mins(5);
/// How long an operator may take to notice that its pods work again, and what creates pods to replace one that has left.
const NOTICING: SignedDuration = SignedDuration::from_secs(30);
/// Times of the API are in whole seconds, and come from several clocks.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// Reasons that a node gives which drains or restarts. Any other says that the pod itself is at fault.
const OF_NODES: [&str; 19] = [
    "Completed",
    "ContainerStatusUnknown",
    "ContainersNotReady",
    "ContainersNotInitialized",
    "Deleting",
    "Error",
    "Evicted",
    "FailedCreatePodSandBox",
    "NetworkNotReady",
    "NodeAffinity",
    "NodeLost",
    "NodeNotReady",
    "NodeShutdown",
    "NotBegun",
    "Preempted",
    "Preempting",
    "Terminated",
    "Unknown",
    "Unschedulable",
];
/// Reasons of warnings about pods that say that the pod itself is at fault. Many others are usual when a pod begins.
const OF_PODS: [&str; 2] = ["BackOff", "Failed"];

/// What is known of an operator that is not available.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Away<'a> {
    pub report: &'a OperatorReport,
    /// All pods and events in its namespaces.
    pub pods: &'a [Pod],
    pub events: &'a [Event],
    /// Those nodes of the cluster that [`updating`] names.
    pub nodes: &'a BTreeSet<String>,
    pub now: Timestamp,
}

/// The nodes that explain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Explained {
    pub nodes: BTreeSet<String>,
    /// When to look again although nothing has changed.
    pub until: Timestamp,
}

/// Whether it says that it is available.
pub(crate) fn is_available(report: &OperatorReport) -> bool {
    find(&report.conditions, "Available").is_some_and(|it| it.status == ConditionStatus::True)
}

/// Since when the operator has not been available; `None` if it says anything else. A time in the future comes from another clock.
pub(crate) fn since(report: &OperatorReport, now: Timestamp) -> Option<Timestamp> {
    said(report).map(|said| said.min(now))
}

/// The same by the operator's clock.
fn said(report: &OperatorReport) -> Option<Timestamp> {
    let available = find(&report.conditions, "Available").filter(|it| it.status == ConditionStatus::False);
    available.map(|it| it.last_transition_time.0)
}

/// Of these nodes those that their pool has told to take another configuration, or had told at that time, by name.
pub(crate) fn updating(nodes: &[NodeSummary], since: Timestamp) -> BTreeSet<String> {
    // Since then it may have been uncordoned, and its pods come back.
    let at_that_time = |node: &&NodeSummary| node.updating || node.updated.is_some_and(|done| done >= before(since));
    nodes.iter().filter(at_that_time).map(|node| node.name.clone()).collect()
}

/// The namespaces in which an operator has pods.
pub(crate) fn namespaces(related: &[RelatedObject]) -> BTreeSet<String> {
    let namespaces = related.iter().filter_map(|object| match object.resource.as_str() {
        "namespaces" => Some(object.name.clone()),
        "deployments" | "daemonsets" | "statefulsets" | "jobs" | "pods" => Some(object.namespace.clone()),
        _ => None,
    });
    namespaces.filter(|namespace| !namespace.is_empty()).collect()
}

fn before(time: Timestamp) -> Timestamp {
    time.checked_sub(SLACK).unwrap_or(Timestamp::MIN)
}

fn after(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// The nodes, if every pod that the operator lacks was on one of them, and nothing else is wrong; otherwise what is.
pub(crate) fn explained(away: &Away<'_>) -> Result<Explained, String> {
    let Away { report, pods, events, nodes, now } = *away;
    let said = said(report).ok_or("it does not say since when it is not available")?;
    let since = said.min(now);
    let end = after(since, LIMIT);
    if now >= end {
        return Err(format!("it has not been available for {} min", LIMIT.as_mins()));
    }
    if let Some(degraded) = find(&report.conditions, "Degraded").filter(|it| it.status == ConditionStatus::True) {
        return Err(format!("it is degraded: {}", degraded.reason));
    }
    if let Some(event) = events.iter().find(|event| no_pod_is_created(event, now)) {
        return Err(format!("no pod is created: {}", event.message.clone().unwrap_or_default()));
    }
    let mut kills = Kills::new(events, pods, nodes, since);
    let mut lost: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut lose = |node: &str, at: Timestamp| {
        let first = lost.entry(node.to_owned()).or_insert(at);
        *first = at.min(*first);
    };
    for pod in pods.iter().filter(|pod| !is_finished(pod) && readiness(pod).is_none_or(|(ready, _)| !ready)) {
        let name = name(pod);
        if let Some(fault) = fault(pod, events, now) {
            return Err(format!("pod {name}: {fault}"));
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        match node.filter(|node| nodes.contains(*node)) {
            // It may have taken the place of one there that had to leave before.
            Some(node) => {
                let left = kills.first_of_predecessors(pod, node);
                lose(node, [unready_since(pod), left].into_iter().flatten().min().unwrap_or(said));
            }
            // Another one takes its place.
            None if pod.metadata.deletion_timestamp.is_some() => {}
            None => match kills.of_predecessor(pod) {
                Some(kill) => lose(&kill.node, kill.left(pod)),
                None => return Err(format!("pod {name} is not ready, and was on none of the nodes that are updated")),
            },
        }
    }
    if let Some(first) = lost.values().min() {
        if before(*first) > said {
            return Err("it was not available before its pods had to leave a node".to_owned());
        }
        return Ok(Explained { nodes: lost.into_keys().collect(), until: end });
    }
    let noticed = lately(pods, &kills, nodes, said);
    let last = noticed.iter().map(|(_, at)| *at).max().map(|last| after(last, NOTICING));
    match last.filter(|until| *until > now) {
        Some(until) => {
            Ok(Explained { nodes: noticed.into_iter().map(|(node, _)| node).collect(), until: until.min(end) })
        }
        None => Err("all of its pods are ready".to_owned()),
    }
}

/// Nodes that the operator lacked pods of when it became unavailable although it lacks none now, and the time of the last change there.
fn lately(pods: &[Pod], kills: &Kills, nodes: &BTreeSet<String>, since: Timestamp) -> Vec<(String, Timestamp)> {
    let back = pods.iter().filter_map(|pod| {
        let node = pod.spec.as_ref()?.node_name.clone().filter(|node| nodes.contains(node))?;
        let (_, at) = readiness(pod).filter(|(ready, at)| *ready && *at >= before(since))?;
        Some((node, at))
    });
    let killed = kills.all.iter().filter(|kill| before(kill.at) <= since);
    back.chain(killed.map(|kill| (kill.node.clone(), kill.at))).collect()
}

/// A pod that was ended on one of the nodes, or is being ended.
struct Kill {
    uid: String,
    pod: String,
    node: String,
    at: Timestamp,
    /// A pod that takes the place of this one has been found.
    replaced: bool,
}

struct Kills {
    all: Vec<Kill>,
}

impl Kills {
    fn new(events: &[Event], pods: &[Pod], nodes: &BTreeSet<String>, since: Timestamp) -> Kills {
        let lately = |at: &Timestamp| after(*at, LIMIT) >= since;
        let kill = |event: &Event| {
            let object = &event.involved_object;
            let host = event.source.as_ref().and_then(|source| source.host.clone());
            let node = host.or(event.reporting_instance.clone()).filter(|node| nodes.contains(node))?;
            let is = event.reason.as_deref() == Some("Killing") && object.kind.as_deref() == Some("Pod");
            let at = time(event).filter(|at| is && lately(at))?;
            Some(Kill { uid: object.uid.clone()?, pod: object.name.clone()?, node, at, replaced: false })
        };
        // Whoever replaces a pod does so once it is told to end, which may be before its node says that it ends it.
        let told = |pod: &Pod| {
            let node = pod.spec.as_ref()?.node_name.clone().filter(|node| nodes.contains(node))?;
            let at = told_to_end(pod).filter(lately)?;
            Some(Kill { uid: pod.metadata.uid.clone()?, pod: pod.metadata.name.clone()?, node, at, replaced: false })
        };
        let mut all: Vec<Kill> = events.iter().filter_map(kill).chain(pods.iter().filter_map(told)).collect();
        // There is one event for each container of a pod.
        all.sort_by(|a, b| (&a.uid, a.at).cmp(&(&b.uid, b.at)));
        all.dedup_by(|a, b| a.uid == b.uid);
        Kills { all }
    }

    /// Finds a pod that this one takes the place of, each once: one of the same ReplicaSet, or of the same name.
    fn of_predecessor(&mut self, pod: &Pod) -> Option<&Kill> {
        let found = self.all.iter_mut().find(|kill| !kill.replaced && kill.is_of_predecessor(pod))?;
        found.replaced = true;
        Some(found)
    }

    /// When the first of those ended on this node that it may have taken the place of.
    fn first_of_predecessors(&self, pod: &Pod, node: &str) -> Option<Timestamp> {
        let there = self.all.iter().filter(|kill| kill.node == node && kill.is_of_predecessor(pod));
        there.map(|kill| kill.left(pod)).min()
    }
}

impl Kill {
    /// When the predecessor of this pod had to leave. A node that has much to do tells late that it ends a container; then whoever
    /// replaces the pod has created this one before.
    fn left(&self, pod: &Pod) -> Timestamp {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let created = created.filter(|created| after(*created, NOTICING) >= self.at);
        created.map_or(self.at, |created| created.min(self.at))
    }

    fn is_of_predecessor(&self, pod: &Pod) -> bool {
        let metadata = &pod.metadata;
        let mut owners = metadata.owner_references.iter().flatten();
        let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else { return false };
        let same_name = metadata.name.as_ref() == Some(&self.pod);
        let same_owner = self.pod.rsplit_once('-').is_some_and(|(set, _)| set == owner.name);
        let other = metadata.uid.as_ref() != Some(&self.uid);
        other && if owner.kind == "ReplicaSet" { same_owner } else { same_name }
    }
}

fn name(pod: &Pod) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text(&pod.metadata.namespace), text(&pod.metadata.name))
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether it is ready, and since when.
fn readiness(pod: &Pod) -> Option<(bool, Timestamp)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let ending = pod.metadata.deletion_timestamp.is_some();
    Some((ready.status == "True" && !ending, ready.last_transition_time.as_ref()?.0))
}

/// Since when a pod has not been ready that is not.
fn unready_since(pod: &Pod) -> Option<Timestamp> {
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let ready = pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    let since = ready.filter(|ready| ready.status != "True").and_then(|ready| ready.last_transition_time.as_ref());
    // One that was told to end is still ready for a moment.
    [since.map(|time| time.0), told_to_end(pod)].into_iter().flatten().min().or(created)
}

/// When a pod was told to end.
fn told_to_end(pod: &Pod) -> Option<Timestamp> {
    let end = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
    Some(end.checked_sub(grace).unwrap_or(end))
}

/// Why a pod does not work, if no node explains that.
fn fault(pod: &Pod, events: &[Event], now: Timestamp) -> Option<String> {
    let of_state = pods::cause(pod, &[], now)
        .map(|cause| (cause.reason, cause.message))
        .filter(|(reason, _)| !OF_NODES.contains(&reason.as_str()));
    let of_event = || {
        // Of one that is to end they are about what it was.
        let pod = Some(pod).filter(|pod| pod.metadata.deletion_timestamp.is_none())?;
        let event = pods::of_object(events, pod.metadata.uid.as_deref())?;
        let (reason, message) = (event.reason.as_deref()?, event.message.as_deref().unwrap_or_default());
        // A volume of another kind may still be attached to the node that the pod has left.
        let missing = reason == "FailedMount" && message.contains("not found");
        (missing || OF_PODS.contains(&reason)).then(|| (reason.to_owned(), message.to_owned()))
    };
    of_state.or_else(of_event).map(|(reason, message)| format!("{reason}: {message}"))
}

/// The server refuses the pods of a workload, by a quota or a webhook.
fn no_pod_is_created(event: &Event, now: Timestamp) -> bool {
    let failed = event.reason.as_deref() == Some("FailedCreate") && event.type_.as_deref() == Some("Warning");
    failed && time(event).is_some_and(|at| now.duration_since(at) < NOTICING)
}

#[cfg(test)]
mod tests;
