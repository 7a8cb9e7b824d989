//! What the objects that an update waits for wait for themselves: their owners are followed down to the pods.

use super::view::View;
use crate::api::ClusterOperator;
use crate::plan::pods::Detail;
use crate::plan::{Trouble, pods};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ListParams};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Objects that are looked into, and causes that are told of each, without `--details`.
const FEW: (usize, usize) = (5, 1);
/// The same with it.
const MANY: (usize, usize) = (50, 10);
/// Most objects of a kind that are read of a namespace.
const PAGE: u32 = 500;
/// An operator that is waited for longer than this is told of even if its pods work.
const LATE: SignedDuration = SignedDuration::from_secs(30);

/// What was read of a namespace.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    pub pods: Vec<Pod>,
    pub events: Vec<Event>,
    deployments: Vec<Deployment>,
    replica_sets: Vec<ReplicaSet>,
    daemon_sets: Vec<DaemonSet>,
    stateful_sets: Vec<StatefulSet>,
    jobs: Vec<Job>,
}

/// Kind, namespace and name of what is waited for and of operators that are not well, in the order in which it is shown.
pub(super) fn awaited(view: &View) -> Vec<(String, String, String)> {
    let waits = view.components.iter().flat_map(|component| &component.waiting);
    let waits = waits.map(|it| (it.kind.clone(), it.namespace.clone(), it.name.clone()));
    let operators = view.operators.iter().map(|it| ("ClusterOperator".to_owned(), String::new(), it.name.clone()));
    let mut seen = BTreeSet::new();
    waits.chain(operators).filter(|object| seen.insert(object.clone())).collect()
}

/// Looks behind what is waited for. What cannot be read is a remark.
pub(super) async fn gather(
    client: &Client,
    view: &View,
    operators: &[ClusterOperator],
    all: bool,
    now: Timestamp,
    remarks: &mut Vec<String>,
) -> Vec<Detail> {
    let (objects, causes) = if all { MANY } else { FEW };
    let mut read: BTreeMap<String, Namespace> = BTreeMap::new();
    let mut details = Vec::new();
    for (kind, namespace, name) in awaited(view).into_iter().take(objects) {
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let mut found = Vec::new();
        for (namespace, only) in places(&kind, &namespace, &name, operators) {
            if !read.contains_key(&namespace) {
                let known = namespace_of(client, &namespace, remarks).await;
                read.insert(namespace.clone(), known);
            }
            found.extend(read.get(&namespace).into_iter().flat_map(|known| known.troubles(only.as_ref(), now)));
        }
        let mut seen = BTreeSet::new();
        found.retain(|trouble| seen.insert(trouble.clone()));
        let unwell = view.operators.iter().any(|operator| operator.name == name);
        if found.is_empty() && kind == "ClusterOperator" && !unwell && (all || is_late(view, &name, now)) {
            found.push(silent(&name, &places(&kind, &namespace, &name, operators)));
        }
        let more = found.len().saturating_sub(causes);
        found.truncate(causes);
        if !found.is_empty() {
            details.push(Detail { object: format!("{kind} {place}{name}"), causes: found, more });
        }
    }
    details
}

/// Whether it is waited for longer than an operator needs that has nothing to do.
fn is_late(view: &View, operator: &str, now: Timestamp) -> bool {
    let mut waits = view.components.iter().flat_map(|component| &component.waiting);
    let since = waits.find(|it| it.kind == "ClusterOperator" && it.name == operator).and_then(|it| it.since);
    since.is_some_and(|since| now.duration_since(since) >= LATE)
}

/// An operator whose pods all work.
fn silent(operator: &str, places: &[(String, Option<Workload>)]) -> Trouble {
    let namespaces: Vec<&str> = places.iter().map(|(namespace, _)| namespace.as_str()).collect();
    let (message, next_step) = if namespaces.is_empty() {
        let message = "it names no related objects, so it is not known which pods belong to it";
        (message.to_owned(), format!("Find the operator that reports clusteroperator {operator}, and read its log"))
    } else {
        let namespaces = namespaces.join(", ");
        let message = format!("all pods in {namespaces} work; the operator has not reported yet what is waited for");
        (message, format!("Read the log of the operator: kubectl logs of its Deployment in {namespaces}"))
    };
    Trouble { object: format!("clusteroperator {operator}"), message, next_step }
}

/// A workload by kind and name.
type Workload = (String, String);

/// The namespaces to look into, and the workload there if it is only one.
fn places(kind: &str, namespace: &str, name: &str, operators: &[ClusterOperator]) -> Vec<(String, Option<Workload>)> {
    if matches!(kind, "Deployment" | "DaemonSet" | "StatefulSet" | "Job") {
        return vec![(namespace.to_owned(), Some((kind.to_owned(), name.to_owned())))];
    }
    let operator = operators.iter().find(|it| kind == "ClusterOperator" && it.metadata.name.as_deref() == Some(name));
    let related =
        operator.and_then(|operator| operator.status.as_ref()).map(|status| status.related_objects.as_slice());
    let namespaces = related.unwrap_or_default().iter().filter_map(|object| match object.resource.as_str() {
        "namespaces" => Some(object.name.clone()),
        "deployments" | "daemonsets" | "statefulsets" | "jobs" | "pods" => Some(object.namespace.clone()),
        _ => None,
    });
    let namespaces: BTreeSet<String> = namespaces.filter(|namespace| !namespace.is_empty()).collect();
    namespaces.into_iter().map(|namespace| (namespace, None)).collect()
}

/// Reads what pods are about in a namespace.
pub(super) async fn namespace_of(client: &Client, namespace: &str, remarks: &mut Vec<String>) -> Namespace {
    let params = ListParams::default().limit(PAGE);
    let api = |client: &Client| client.clone();
    let pods: Api<Pod> = Api::namespaced(api(client), namespace);
    let events: Api<Event> = Api::namespaced(api(client), namespace);
    let deployments: Api<Deployment> = Api::namespaced(api(client), namespace);
    let replica_sets: Api<ReplicaSet> = Api::namespaced(api(client), namespace);
    let daemon_sets: Api<DaemonSet> = Api::namespaced(api(client), namespace);
    let stateful_sets: Api<StatefulSet> = Api::namespaced(api(client), namespace);
    let jobs: Api<Job> = Api::namespaced(api(client), namespace);
    let (pods, events, deployments, replica_sets, daemon_sets, stateful_sets, jobs) = tokio::join!(
        pods.list(&params),
        events.list(&params),
        deployments.list(&params),
        replica_sets.list(&params),
        daemon_sets.list(&params),
        stateful_sets.list(&params),
        jobs.list(&params),
    );
    let mut taken = Taken { namespace, remarks };
    Namespace {
        pods: taken.items("pods", pods),
        events: taken.items("events", events),
        deployments: taken.items("Deployments", deployments),
        replica_sets: taken.items("ReplicaSets", replica_sets),
        daemon_sets: taken.items("DaemonSets", daemon_sets),
        stateful_sets: taken.items("StatefulSets", stateful_sets),
        jobs: taken.items("Jobs", jobs),
    }
}

struct Taken<'a> {
    namespace: &'a str,
    remarks: &'a mut Vec<String>,
}

impl Taken<'_> {
    fn items<K: Clone + Debug>(&mut self, what: &str, list: kube::Result<kube::core::ObjectList<K>>) -> Vec<K> {
        match list {
            Ok(list) => {
                if list.metadata.continue_.is_some_and(|token| !token.is_empty()) {
                    self.remarks
                        .push(format!("Only the first {PAGE} {what} of namespace {} were read", self.namespace));
                }
                list.items
            }
            Err(error) => {
                self.remarks.push(format!("The {what} of namespace {} cannot be read: {error}", self.namespace));
                Vec::new()
            }
        }
    }
}

impl Namespace {
    /// What is wrong with the pods of one workload, or of all.
    fn troubles(&self, only: Option<&Workload>, now: Timestamp) -> Vec<Trouble> {
        let mut troubles: Vec<Trouble> =
            self.owners(only).into_iter().flat_map(|(owner, metadata)| self.of_owner(&owner, metadata)).collect();
        let pods = self.pods.iter().filter(|pod| only.is_none_or(|workload| self.belongs(pod, workload)));
        troubles.extend(pods.filter_map(|pod| pods::trouble(pod, &self.events, now)));
        troubles
    }

    /// The objects that make pods, or ReplicaSets.
    fn owners(&self, only: Option<&Workload>) -> Vec<(Workload, &ObjectMeta)> {
        let named = |kind: &str, metadata: &ObjectMeta| (kind.to_owned(), metadata.name.clone().unwrap_or_default());
        let deployments = self.deployments.iter().map(|it| (named("Deployment", &it.metadata), &it.metadata));
        let daemon_sets = self.daemon_sets.iter().map(|it| (named("DaemonSet", &it.metadata), &it.metadata));
        let stateful_sets = self.stateful_sets.iter().map(|it| (named("StatefulSet", &it.metadata), &it.metadata));
        let jobs = self.jobs.iter().map(|it| (named("Job", &it.metadata), &it.metadata));
        // Old ReplicaSets say nothing about the present.
        let live =
            self.replica_sets.iter().filter(|set| set.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0)));
        let sets = live.map(|it| (named("ReplicaSet", &it.metadata), &it.metadata));
        let all = deployments.chain(daemon_sets).chain(stateful_sets).chain(jobs).chain(sets);
        all.filter(|(owner, metadata)| only.is_none_or(|it| it == owner || owned(metadata, &it.0, &it.1))).collect()
    }

    /// Why an owner cannot make pods: only while it lacks some, because events stay for an hour.
    fn of_owner(&self, (kind, name): &Workload, metadata: &ObjectMeta) -> Option<Trouble> {
        if kind == "Deployment" || !self.lacks_pods(kind, name) {
            return None;
        }
        let event = pods::of_object(&self.events, metadata.uid.as_deref())?;
        let (reason, message) = (event.reason.clone().unwrap_or_default(), event.message.clone().unwrap_or_default());
        let object = format!("{} {}/{name}", kind.to_lowercase(), metadata.namespace.as_deref().unwrap_or_default());
        let next_step = pods::next_step(&reason).to_owned();
        Some(Trouble { object, message: format!("{reason}: {message}"), next_step })
    }

    fn lacks_pods(&self, kind: &str, name: &str) -> bool {
        let named = |metadata: &ObjectMeta| metadata.name.as_deref() == Some(name);
        match kind {
            "ReplicaSet" => self.replica_sets.iter().filter(|it| named(&it.metadata)).any(|set| {
                let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                set.status.as_ref().map_or(0, |status| status.replicas) < wanted
            }),
            "DaemonSet" => self.daemon_sets.iter().filter(|it| named(&it.metadata)).any(|set| {
                set.status.as_ref().is_none_or(|it| it.current_number_scheduled < it.desired_number_scheduled)
            }),
            "StatefulSet" => self.stateful_sets.iter().filter(|it| named(&it.metadata)).any(|set| {
                let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                set.status.as_ref().map_or(0, |status| status.replicas) < wanted
            }),
            _ => self.jobs.iter().filter(|it| named(&it.metadata)).any(|job| {
                let status = job.status.clone().unwrap_or_default();
                status.active.unwrap_or_default() == 0 && status.completion_time.is_none()
            }),
        }
    }

    /// Whether the pod is one of the workload's, through a ReplicaSet for those of Deployments.
    fn belongs(&self, pod: &Pod, (kind, name): &Workload) -> bool {
        if kind != "Deployment" {
            return owned(&pod.metadata, kind, name);
        }
        let sets = self.replica_sets.iter().filter(|set| owned(&set.metadata, kind, name));
        sets.filter_map(|set| set.metadata.name.as_deref()).any(|set| owned(&pod.metadata, "ReplicaSet", set))
    }
}

fn owned(metadata: &ObjectMeta, kind: &str, name: &str) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.kind == kind && owner.name == name)
}

#[cfg(test)]
mod tests;
