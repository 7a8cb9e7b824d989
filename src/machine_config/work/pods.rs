//! The pods of a node, and what becomes of each when the node is drained.

use crate::cluster::watcher::{Event, Selection, Selector, events};
use crate::cluster::{ApiError, Cause, Kind, Objects};
use crate::machine_config::drain::{DaemonSet, Fate, PodFacts};
use futures::Stream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use kube::Client;
use kube::api::{Api, ListParams};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The key of the taint of nodes that are cordoned.
const CORDONED: &str = "node.kubernetes.io/unschedulable";
/// A list that takes longer has failed.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// A pod that has to leave its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// What is lost with it.
    pub warning: Option<&'static str>,
    /// It has been told to end.
    pub terminating: bool,
}

/// Which pods have to leave, and what keeps that from being known of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub leaving: Vec<Leaving>,
    pub unknown: Vec<String>,
}

impl Survey {
    /// How many have to leave, or might have to.
    pub(crate) fn number(&self) -> usize {
        self.leaving.len() + self.unknown.len()
    }
}

/// The pods of a node as they are and as they change.
pub(crate) fn follow(client: Client, node: &str) -> impl Stream<Item = Result<Event<Pod>, ApiError>> + use<> {
    events(client, Selection::new(Kind::pod(), "", Selector::Fields(format!("spec.nodeName={node}"))))
}

/// The pods of a node as they are now.
pub(crate) async fn list(client: &Client, node: &str) -> Result<Vec<Pod>, ApiError> {
    let attempt = format!("list the pods of the node {node}");
    let pods: Api<Pod> = Api::all(client.clone());
    let fields = format!("spec.nodeName={node}");
    match tokio::time::timeout(LIST_TIMEOUT, pods.list(&ListParams::default().fields(&fields))).await {
        Ok(Ok(list)) => Ok(list.items),
        Ok(Err(error)) => Err(ApiError::of(&attempt, error)),
        Err(_) => Err(ApiError { attempt, cause: Cause::Timeout }),
    }
}

/// DaemonSets that have been looked up, by namespace and name.
pub(crate) type DaemonSets = HashMap<(String, String), DaemonSet>;

/// Looks up each DaemonSet that is not in `known` yet, once. `begun`: when the drain began.
pub(crate) async fn survey<'a>(
    objects: &Objects,
    pods: impl IntoIterator<Item = &'a Pod>,
    begun: Option<Timestamp>,
    known: &mut DaemonSets,
) -> Survey {
    // What cannot be looked up is tried again next time.
    known.retain(|_, found| !matches!(found, DaemonSet::Unknown(_)));
    let mut survey = Survey::default();
    for pod in pods {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let daemon_set = match owner.filter(|owner| owner.kind == "DaemonSet" && owner.api_version == "apps/v1") {
            None => None,
            Some(owner) => {
                let key = (namespace.clone(), owner.name.clone());
                let found = match known.get(&key) {
                    Some(found) => found.clone(),
                    None => find(objects, &key).await,
                };
                known.insert(key, found.clone());
                Some(found)
            }
        };
        match facts(pod, owner.is_some(), daemon_set, begun).fate() {
            Fate::Stays => {}
            Fate::Unknown(cause) => survey.unknown.push(format!("pod {namespace}/{name}: {cause}")),
            Fate::Goes { warning } => survey.leaving.push(Leaving {
                namespace,
                name,
                uid: pod.metadata.uid.clone().unwrap_or_default(),
                labels: pod.metadata.labels.clone().unwrap_or_default(),
                warning,
                terminating: pod.metadata.deletion_timestamp.is_some(),
            }),
        }
    }
    survey
}

async fn find(objects: &Objects, (namespace, name): &(String, String)) -> DaemonSet {
    match objects.get(&Kind::known("apps", "v1", "DaemonSet", "daemonsets", true), namespace, name).await {
        Ok(Some(_)) => DaemonSet::Exists,
        Ok(None) => DaemonSet::Gone,
        Err(error) => DaemonSet::Unknown(error.to_string()),
    }
}

fn facts(pod: &Pod, controlled: bool, daemon_set: Option<DaemonSet>, begun: Option<Timestamp>) -> PodFacts {
    let annotations = pod.metadata.annotations.as_ref();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    // Both are whole seconds. One that came a moment before would be evicted a second time if it came back in that second,
    // and a program that is told to end while it is being started may not notice.
    let later = created.zip(begun).is_some_and(|(created, begun)| created >= begun);
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    PodFacts {
        mirror: annotations.is_some_and(|annotations| annotations.contains_key("kubernetes.io/config.mirror")),
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        controlled,
        daemon_set,
        empty_dir: volumes.into_iter().any(|volume| volume.empty_dir.is_some()),
        came_back: later && tolerations.into_iter().any(tolerates_cordon),
    }
}

fn tolerates_cordon(toleration: &Toleration) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let effect = matches!(text(&toleration.effect).as_str(), "" | "NoSchedule");
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key = text(&toleration.key);
    let matches = (key == CORDONED && (exists || text(&toleration.value).is_empty())) || (key.is_empty() && exists);
    effect && matches
}

#[cfg(test)]
mod tests;
