//! What the objects that an update waits for wait for themselves: their owners are followed down to the pods.

use super::Operators;
use super::view::View;
use crate::cluster_version::forecast::drained;
use crate::diagnosis::Trouble;
use crate::diagnosis::pods;
use crate::diagnosis::pods::Detail;
use crate::object::cluster_operator::ClusterOperator;
use crate::object::read::Read;
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
/// A Job that failed for good longer ago says nothing about an operator that is waited for now. Events stay for as long.
const PAST: SignedDuration = SignedDuration::from_hours(1);

/// What was read of a namespace.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    /// All of its pods were read.
    pub complete: bool,
    pub pods: Vec<Pod>,
    pub events: Vec<Event>,
    pub deployments: Vec<Deployment>,
    pub replica_sets: Vec<ReplicaSet>,
    pub daemon_sets: Vec<DaemonSet>,
    pub stateful_sets: Vec<StatefulSet>,
    pub jobs: Vec<Job>,
}

/// Kind, namespace and name of what is waited for and of operators that are not well, in the order in which it is shown.
pub(super) fn awaited(view: &View) -> Vec<(String, String, String)> {
    let waits = view.components.iter().flat_map(|component| &component.waiting);
    let waits = waits.map(|it| (it.kind.clone(), it.namespace.clone(), it.name.clone()));
    let operators = view.operators.iter().map(|it| ("ClusterOperator".to_owned(), String::new(), it.name.clone()));
    let mut seen = BTreeSet::new();
    waits.chain(operators).filter(|object| seen.insert(object.clone())).collect()
}

/// The same with the time since when, where that is known.
pub(super) fn since(view: &View) -> Vec<(String, Option<Timestamp>)> {
    let waits = view.components.iter().flat_map(|component| &component.waiting);
    let waits = waits.map(|it| (format!("{} {}/{}", it.kind, it.namespace, it.name), it.since));
    let operators = view.operators.iter().map(|it| (format!("ClusterOperator /{}", it.name), it.since));
    waits.chain(operators).collect()
}

/// Looks behind what is waited for. What cannot be read is a remark.
pub(super) async fn gather(
    client: &Client,
    view: &View,
    operators: &Operators,
    all: bool,
    now: Timestamp,
    remarks: &mut Vec<String>,
) -> Vec<Detail> {
    let (objects, causes) = if all { MANY } else { FEW };
    let listed = if let Read::Value(listed) = operators { listed.as_slice() } else { &[] };
    let mut read: BTreeMap<String, Namespace> = BTreeMap::new();
    let mut details = Vec::new();
    for (kind, namespace, name) in awaited(view).into_iter().take(objects) {
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let mut found = Vec::new();
        for (namespace, only) in places(&kind, &namespace, &name, listed) {
            if !read.contains_key(&namespace) {
                let known = namespace_of(client, &namespace, remarks).await;
                read.insert(namespace.clone(), known);
            }
            found.extend(read.get(&namespace).into_iter().flat_map(|known| known.troubles(only.as_ref(), now)));
        }
        let mut seen = BTreeSet::new();
        found.retain(|trouble| seen.insert(trouble.clone()));
        let unwell = view.operators.iter().any(|operator| operator.name == name);
        // What its related objects are is not known if it could not be read.
        let unread = matches!(operators, Read::Failed(_));
        let told = kind == "ClusterOperator" && !unwell && !unread && (all || is_late(view, &name, now));
        if found.is_empty() && told {
            let namespaces = places(&kind, &namespace, &name, listed).into_iter().map(|(namespace, _)| namespace);
            let known = namespaces.filter_map(|namespace| Some((namespace.clone(), read.get(&namespace)?)));
            found.push(silent(&name, &known.collect::<Vec<_>>()));
        }
        let more = found.len().saturating_sub(causes);
        found.truncate(causes);
        if !found.is_empty() {
            details.push(Detail { object: format!("{kind} {place}{name}"), causes: found, more });
        }
    }
    details
}

/// What is to be said of objects that are waited for and were not looked behind.
pub(super) fn left_out(view: &View, all: bool) -> Option<String> {
    let (objects, _) = if all { MANY } else { FEW };
    let count = awaited(view).len();
    let more = if all { String::new() } else { format!(": cvo status --details looks behind {}", MANY.0) };
    let text = format!("Only the first {objects} of {count} objects that are waited for were looked behind{more}");
    (count > objects).then_some(text)
}

/// Whether it is waited for longer than an operator needs that has nothing to do.
fn is_late(view: &View, operator: &str, now: Timestamp) -> bool {
    let mut waits = view.components.iter().flat_map(|component| &component.waiting);
    let since = waits.find(|it| it.kind == "ClusterOperator" && it.name == operator).and_then(|it| it.since);
    since.is_some_and(|since| now.duration_since(since) >= LATE)
}

/// An operator behind which nothing was found that does not work.
pub(super) fn silent(operator: &str, namespaces: &[(String, &Namespace)]) -> Trouble {
    let object = format!("clusteroperator {operator}");
    let told = |message: String, next_step: String| Trouble { object: object.clone(), message, next_step };
    let names = |of: &dyn Fn(&Namespace) -> bool| -> Vec<&str> {
        namespaces.iter().filter(|(_, known)| of(known)).map(|(name, _)| name.as_str()).collect()
    };
    if namespaces.is_empty() {
        let message = "it names no related objects, so it is not known which pods belong to it".to_owned();
        return told(
            message,
            format!("Find the operator that reports it, and read its log: kubectl describe {object}"),
        );
    }
    let unread = names(&|known| !known.complete);
    if let [first, ..] = unread.as_slice() {
        let message =
            format!("why it does not report cannot be told: not all pods in {} could be read", unread.join(", "));
        return told(message, format!("Look with the rights to read pods: kubectl -n {first} get pods"));
    }
    let off = namespaces.iter().flat_map(|(_, known)| known.switched_off()).next();
    if let Some((namespace, name)) = off {
        let message = format!("deployment {namespace}/{name} is scaled to 0, so that nothing of it runs");
        return told(
            message,
            format!("kubectl -n {namespace} scale deployment {name} --replicas=1, unless that is on purpose"),
        );
    }
    let running = |known: &Namespace| known.pods.iter().filter(|pod| !pods::has_ended(pod)).count();
    let unready = |known: &Namespace| known.unready().count();
    let count: usize = namespaces.iter().map(|(_, known)| running(known)).sum();
    let all = names(&|_| true).join(", ");
    if let [first, ..] = names(&|known| unready(known) > 0).as_slice() {
        let unready: usize = namespaces.iter().map(|(_, known)| unready(known)).sum();
        let are = if unready == 1 { "is" } else { "are" };
        return told(
            format!("{unready} of {count} pods in {all} {are} not ready"),
            format!("Find out what they wait for: kubectl -n {first} get pods"),
        );
    }
    if count == 0 {
        let first = names(&|_| true).first().copied().unwrap_or_default().to_owned();
        return told(
            format!("there are no pods in {all}: nothing runs that could report"),
            format!(
                "Find out what should run there, and who removed it: kubectl -n {first} get deployments,daemonsets,events"
            ),
        );
    }
    let work =
        if count == 1 { format!("the only pod in {all} works") } else { format!("all {count} pods in {all} work") };
    told(
        format!("{work}; the operator has not reported yet what is waited for"),
        format!("Read the log of the operator: {}", log_of(namespaces)),
    )
}

/// The command that shows the log of the operator whose namespaces these are.
fn log_of(namespaces: &[(String, &Namespace)]) -> String {
    let deployments = namespaces.iter().flat_map(|(_, known)| known.deployments.iter());
    let deployments: Vec<&ObjectMeta> = deployments.map(|it| &it.metadata).collect();
    let own = deployments.iter().find(|it| it.name.as_deref().is_some_and(|name| name.contains("operator")));
    match own.or(deployments.first()) {
        Some(it) => {
            let (namespace, name) =
                (it.namespace.as_deref().unwrap_or_default(), it.name.as_deref().unwrap_or_default());
            format!("kubectl -n {namespace} logs deployment/{name}")
        }
        None => {
            let first = namespaces.first().map_or("", |(name, _)| name.as_str());
            format!("kubectl -n {first} get pods, then kubectl logs")
        }
    }
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
    drained::namespaces(related.unwrap_or_default()).into_iter().map(|namespace| (namespace, None)).collect()
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
    let complete = pods.as_ref().is_ok_and(|list| list.metadata.continue_.as_ref().is_none_or(String::is_empty));
    Namespace {
        complete,
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
    pub(super) fn troubles(&self, only: Option<&Workload>, now: Timestamp) -> Vec<Trouble> {
        // A Job that is waited for itself counts whenever it failed.
        let counts = |job: &Job| !is_complete(job) && (only.is_some() || !failed_before(job, now, PAST));
        let mut troubles: Vec<Trouble> = self
            .owners(only)
            .into_iter()
            .flat_map(|(owner, metadata)| self.of_owner(&owner, metadata, &counts))
            .collect();
        let pods = self.pods.iter().filter(|pod| only.is_none_or(|workload| self.belongs(pod, workload)));
        let mut pods: Vec<&Pod> = pods.filter(|pod| !pods::has_ended(pod) || self.is_awaited(pod, &counts)).collect();
        // The newest show the present.
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)));
        troubles.extend(pods.into_iter().filter_map(|pod| pods::trouble(pod, &self.events, now)));
        troubles
    }

    /// Pods that run, or are to run, and are not ready.
    fn unready(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| !pods::has_ended(pod) && !pods::is_ready(pod))
    }

    /// Whether it matters that the pod has ended: its Job counts, or its owner has made no other pod since.
    fn is_awaited(&self, pod: &Pod, counts: &dyn Fn(&Job) -> bool) -> bool {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let Some(owner) = owners.find(|owner| owner.controller.unwrap_or(true)) else { return false };
        let named = |metadata: &ObjectMeta| metadata.name.as_deref() == Some(owner.name.as_str());
        let newer = || {
            let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let mut others = self.pods.iter().filter(|other| owned(&other.metadata, &owner.kind, &owner.name));
            others.any(|other| other.metadata.name != pod.metadata.name && created(other) >= created(pod))
        };
        match owner.kind.as_str() {
            "Job" => self.jobs.iter().any(|job| named(&job.metadata) && counts(job)),
            "ReplicaSet" => {
                let wants = |set: &ReplicaSet| set.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0));
                self.replica_sets.iter().any(|set| named(&set.metadata) && wants(set)) && !newer()
            }
            "DaemonSet" => self.daemon_sets.iter().any(|set| named(&set.metadata)) && !newer(),
            "StatefulSet" => self.stateful_sets.iter().any(|set| named(&set.metadata)) && !newer(),
            _ => false,
        }
    }

    /// Namespace and name of Deployments that are scaled to 0.
    fn switched_off(&self) -> impl Iterator<Item = (&str, &str)> {
        let off = self.deployments.iter().filter(|it| it.spec.as_ref().is_some_and(|spec| spec.replicas == Some(0)));
        off.filter_map(|it| Some((it.metadata.namespace.as_deref()?, it.metadata.name.as_deref()?)))
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
    fn of_owner(
        &self,
        (kind, name): &Workload,
        metadata: &ObjectMeta,
        counts: &dyn Fn(&Job) -> bool,
    ) -> Option<Trouble> {
        if kind == "Deployment" || !self.lacks_pods(kind, name, counts) {
            return None;
        }
        let event = pods::of_object(&self.events, metadata.uid.as_deref())?;
        let (reason, message) = (event.reason.clone().unwrap_or_default(), event.message.clone().unwrap_or_default());
        let (kind, namespace) = (kind.to_lowercase(), metadata.namespace.as_deref().unwrap_or_default());
        let object = format!("{kind} {namespace}/{name}");
        let next_step = pods::next_step(&reason, namespace, &kind, name);
        Some(Trouble { object, message: format!("{reason}: {message}"), next_step })
    }

    fn lacks_pods(&self, kind: &str, name: &str, counts: &dyn Fn(&Job) -> bool) -> bool {
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
                status.active.unwrap_or_default() == 0 && counts(job)
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

fn is_complete(job: &Job) -> bool {
    job.status.as_ref().is_some_and(|status| status.completion_time.is_some())
}

/// Whether it failed for good, longer than this ago.
fn failed_before(job: &Job, now: Timestamp, ago: SignedDuration) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failed = conditions.into_iter().find(|condition| condition.type_ == "Failed" && condition.status == "True");
    let since = failed.and_then(|condition| condition.last_transition_time.as_ref());
    since.is_some_and(|since| now.duration_since(since.0) > ago)
}

fn owned(metadata: &ObjectMeta, kind: &str, name: &str) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.kind == kind && owner.name == name)
}

#[cfg(test)]
mod tests;
