//! Reads the images of bundles through nodes: a pod says what is in one, and is removed. What another process has left behind is removed
//! as well, since nobody waits for it.

use super::Failure;
use crate::cluster::followed::{Followed, View};
use crate::cluster::watcher::Selector;
use crate::cluster::writer::Writer;
use crate::cluster::{Clients, Kind, Objects, task};
use crate::error::{CAUSE, shortened};
use crate::olm::api::keys::label;
use crate::olm::bundle::SourceFile;
use crate::olm::bundle::printed::{MAX_TEXT, read};
use crate::olm::source::pod::bundle::{CONTAINER, name};
use crate::olm::work::bundles::Source;
use crate::olm::work::catalogs::{Nodes, container_waits, not_scheduled};
use crate::olm::work::follow::Follow;
use crate::process::turns::due;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// Pods at the same time. Each has the program of this process on its node once more.
const PODS: usize = 2;
/// How long one may take, with its images: what does not even get onto a node keeps others waiting.
const LONGEST: Duration = Duration::from_secs(300);
/// Seconds that a pod gets to end which nobody needs any more.
const GRACE: u32 = 0;

/// How a pod fares that reads a bundle.
#[derive(Clone, Debug, PartialEq)]
struct PodView {
    version: String,
    uid: String,
    /// Of a catalog. Others with the same labels are those of other programs.
    is_ours: bool,
    terminating: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// With what keeps it from a node.
    Running(Option<String>),
    Done,
    Failed(String),
}

impl View for PodView {
    type Object = Pod;

    fn of(pod: Pod) -> Self {
        let metadata = &pod.metadata;
        let mut owners = metadata.owner_references.iter().flatten();
        PodView {
            version: metadata.resource_version.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            is_ours: owners.any(|owner| owner.kind == "CatalogSource"),
            terminating: metadata.deletion_timestamp.is_some(),
            state: state(&pod),
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

fn state(pod: &Pod) -> State {
    let Some(status) = &pod.status else { return State::Running(None) };
    match status.phase.as_deref() {
        Some("Succeeded") => State::Done,
        Some("Failed") => {
            let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
            let ended = containers.filter_map(|it| Some((&it.name, it.state.as_ref()?.terminated.as_ref()?)));
            let mut wrong = ended.filter(|(_, ended)| ended.exit_code != 0).map(|(name, ended)| {
                let told = ended.message.as_deref().or(ended.reason.as_deref()).unwrap_or_default().trim();
                format!("container {name} has ended with code {}: {told}", ended.exit_code)
            });
            let of_pod = status.message.clone().or(status.reason.clone());
            let text = wrong.next_back().or(of_pod).unwrap_or_else(|| "it has failed".to_owned());
            State::Failed(shortened(&text, CAUSE).into_owned())
        }
        // The kubelet tries again; this process does so as well, and tells meanwhile.
        _ => container_waits(pod).map_or_else(|| State::Running(not_scheduled(pod)), State::Failed),
    }
}

/// Reads bundles through nodes while the process holds the lease.
pub(crate) struct NodePods {
    objects: Objects,
    pods: Arc<Followed<PodView>>,
    places: Semaphore,
    /// Those that somebody waits for.
    wanted: Mutex<BTreeSet<Key>>,
    changed: Arc<Notify>,
}

impl fmt::Debug for NodePods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePods").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(String, String);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pod {}/{}", self.0, self.1)
    }
}

/// Somebody waits for this pod, until this is dropped.
struct Waiting<'a>(&'a NodePods, Key);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
        self.0.changed.notify_one();
    }
}

impl NodePods {
    /// Follows its pods until `stop`, and removes those that nobody waits for while `leading`.
    pub(crate) fn start(
        clients: &Clients,
        objects: Objects,
        leading: watch::Receiver<bool>,
        stop: &CancellationToken,
    ) -> Arc<NodePods> {
        let changed = Arc::<Notify>::default();
        let selector = Selector::Labels(format!("{}=true,{}", label::MANAGED, label::BUNDLE_UNPACK_REF));
        let pods = Follow { clients, changed: &changed, stop }.start(Kind::pod(), "", selector);
        let all = Arc::new(NodePods { objects, pods, places: Semaphore::new(PODS), wanted: Mutex::default(), changed });
        task::spawn("pods of bundles", stop, all.clone().remove_all(leading, stop.clone()));
        all
    }

    async fn remove_all(self: Arc<Self>, mut leading: watch::Receiver<bool>, stop: CancellationToken) {
        let writer = Writer::new(self.changed.clone());
        while !stop.is_cancelled() {
            let at = Instant::now();
            let leads = *leading.borrow_and_update();
            for (key, uid) in if leads { self.surplus() } else { Vec::new() } {
                let (objects, id) = (self.objects.clone(), key.clone());
                writer.begin(key, at, Duration::ZERO, async move {
                    objects.delete_within(&Kind::pod(), &id.0, &id.1, &uid, GRACE).await.map(drop)
                });
            }
            tokio::select! {
                () = due(&self.changed, writer.next(), &stop) => {}
                Ok(()) = leading.changed() => {}
            }
        }
        writer.end().await;
    }

    /// Those that nobody waits for.
    fn surplus(&self) -> Vec<(Key, String)> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.pods.all().unwrap_or_default();
        let all = all.iter().filter(|(_, pod)| pod.is_ours && !pod.terminating).map(|(name, pod)| {
            let (namespace, name) = crate::olm::work::follow::id(name);
            (Key(namespace, name), pod.uid.clone())
        });
        all.filter(|(key, _)| !wanted.contains(key)).collect()
    }

    /// The files of the bundle in the image of `source`.
    pub(super) async fn read(&self, source: &Source, nodes: &Nodes) -> Result<Vec<SourceFile>, Failure> {
        let Ok(_place) = self.places.acquire().await else {
            return Err(Failure::passing("the process ends".to_owned()));
        };
        let (namespace, catalog) = &source.catalog;
        let key = Key(namespace.clone(), name(catalog, &source.image, Timestamp::now().as_nanosecond()));
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        let waiting = Waiting(self, key);
        let Key(namespace, name) = &waiting.1;
        let mut changes = self.pods.subscribe();
        let pod = nodes.pod(name, &source.image);
        let made = self.objects.create(&Kind::pod(), namespace, &pod).await;
        self.pods.on_answer(made.map_err(|error| Failure::passing(error.to_string()))?);
        tracing::info!(bundle = source.name, pod = %waiting.1, "a pod reads the image of a bundle");
        let name_of_view = format!("{namespace}/{name}");
        let ended = async {
            loop {
                match self.pods.all().map(|all| all.get(&name_of_view).map(|pod| pod.state.clone())) {
                    Some(Some(State::Done)) => return Ok(()),
                    Some(Some(State::Failed(cause))) => return Err(cause),
                    Some(None) => return Err("somebody has deleted it".to_owned()),
                    Some(Some(State::Running(_))) | None => {}
                }
                if changes.changed().await.is_err() {
                    return Err("it is not followed any more".to_owned());
                }
            }
        };
        let failed = |cause: &str| Failure::passing(format!("{} reads it on a node, but {cause}", waiting.1));
        match tokio::time::timeout(LONGEST, ended).await {
            Ok(ended) => ended.map_err(|cause| failed(&cause))?,
            Err(_) => {
                let held = match self.pods.get(&name_of_view).map(|pod| pod.state.clone()) {
                    Some(State::Running(Some(cause))) => cause,
                    _ => "it has not ended".to_owned(),
                };
                return Err(failed(&format!("it takes longer than {LONGEST:?}: {held}")));
            }
        }
        let text = self.objects.log(namespace, name, CONTAINER, MAX_TEXT + 1).await;
        let text = text.map_err(|error| Failure::passing(error.to_string()))?;
        let files = tokio::task::spawn_blocking(move || read(&text).map_err(|error| error.to_string())).await;
        files.unwrap_or_else(|error| Err(error.to_string())).map_err(|cause| failed(&cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, owner: &str, more: Value) -> Pod {
        let owners = json!([{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "u"}]);
        let mut metadata = json!({"name": name, "namespace": "shop", "uid": name, "ownerReferences": owners});
        metadata.as_object_mut().unwrap().extend(more["metadata"].as_object().cloned().unwrap_or_default());
        serde_json::from_value(json!({"metadata": metadata, "status": more["status"]})).unwrap()
    }

    #[test]
    fn pod_that_reads_a_bundle_goes_on_until_it_has_ended_or_its_image_is_not_to_be_had() {
        let status = |phase: &str, list: &str, state: Value| {
            json!({"status": {"phase": phase, list: [{"name": "bundle", "image": "i", "imageID": "", "ready": false,
                "restartCount": 0, "state": state}]}})
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "not found"}});
        let ended = |code: i64| json!({"terminated": {"exitCode": code, "reason": "Error", "message": "no file\n"}});
        let no_node = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "no node"}]}});
        let failed = |text: &str| State::Failed(text.to_owned());
        for (of, expected) in [
            (json!({"status": {}}), State::Running(None)),
            (no_node, State::Running(Some("no node".to_owned()))),
            (status("Pending", "containerStatuses", waiting("ContainerCreating")), State::Running(None)),
            (status("Pending", "containerStatuses", waiting("ErrImagePull")), failed("ErrImagePull: not found")),
            (
                status("Pending", "initContainerStatuses", waiting("ImagePullBackOff")),
                failed("ImagePullBackOff: not found"),
            ),
            (status("Running", "containerStatuses", json!({"running": {}})), State::Running(None)),
            (status("Succeeded", "containerStatuses", ended(0)), State::Done),
            (
                status("Failed", "containerStatuses", ended(1)),
                failed("container bundle has ended with code 1: no file"),
            ),
            (json!({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}), failed("DeadlineExceeded")),
            (json!({"status": {"phase": "Failed"}}), failed("it has failed")),
        ] {
            assert_eq!(PodView::of(pod("a", "CatalogSource", of.clone())).state, expected, "{of}");
        }
    }

    #[tokio::test]
    async fn pods_that_nobody_waits_for_are_removed_and_those_of_other_programs_stay() {
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let pods = Followed::with([
            pod("wanted", "CatalogSource", Value::Null),
            pod("left", "CatalogSource", Value::Null),
            pod("of-a-job", "Job", Value::Null),
            pod("going", "CatalogSource", going),
        ]);
        let (client, _) =
            tower_test::mock::pair::<http::Request<kube::client::Body>, http::Response<kube::client::Body>>();
        let objects = Objects::reader(kube::Client::new(client, "default"));
        let all =
            NodePods { objects, pods, places: Semaphore::new(PODS), wanted: Mutex::default(), changed: Arc::default() };
        let key = Key("shop".to_owned(), "wanted".to_owned());
        all.wanted.lock().unwrap().insert(key.clone());
        let surplus = || all.surplus().into_iter().map(|(key, uid)| format!("{key} {uid}")).collect::<Vec<_>>();
        let waiting = Waiting(&all, key);
        assert_eq!(surplus(), ["Pod shop/left left"]);
        drop(waiting);
        assert_eq!(surplus(), ["Pod shop/left left", "Pod shop/wanted wanted"]);
    }
}
