//! The two Jobs of a retrieval and how they are waited for: by watching the Job and its pods, telling what a container
//! waits for, and failing at once where waiting cannot help (payload-and-apply §7.4).

use super::Retriever;
use crate::api::Release;
use crate::cluster::{ApiError, Kind, WatchBackoff};
use crate::updates::Target;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A pull may be slow; a Job that takes longer has failed.
const DEADLINE_SECONDS: u32 = 600;
/// One that nobody waits for any more, because something else was asked for meanwhile, is removed this long after its end.
const KEPT_SECONDS: u32 = 3600;
/// How long after its deadline a Job's end may stay out of sight: pods are given time to end.
const GRACE: Duration = Duration::from_secs(120);
/// How long a complete Job's pod may stay out of sight.
const POD_LOST: Duration = Duration::from_secs(20);
/// Label of everything that retrieves payloads.
const LABEL: &str = "retrieve-openshift-release";

#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("Job {name}: {cause}")]
    Failed { name: String, cause: String },
    #[error("Job {0}: no longer wanted")]
    Stopped(String),
}

fn kind() -> Kind {
    Kind::known("batch", "v1", "Job", "jobs", true)
}

/// `version-<version>-<hash>` with what a name may not hold replaced, at most 63 characters.
pub fn name(prefix: &str, version: &str, image: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let version: String = version.to_lowercase().chars().map(allowed).take(53 - prefix.len()).collect();
    let hash: String = hex::encode(Sha256::digest(image.as_bytes())).chars().take(8).collect();
    let parts = [prefix, version.trim_matches(['-', '.']), &hash];
    parts.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join("-")
}

/// Copies the target's manifests to the node with the binary of the running image; nothing of the target is executed.
pub fn retrieval(r: &Retriever, target: &Target, node: &str, host_path: &str, folder: &str, keep: &[&str]) -> Value {
    let to = format!("/payloads/{folder}");
    let mut command = vec!["/tool/cvo", "payload", "copy", "--to", &to];
    for keep in keep {
        command.extend(["--keep", keep]);
    }
    let install = ["/usr/bin/cvo", "payload", "install-tool", "--to", "/tool/cvo"];
    let tool = json!({"name": "tool", "mountPath": "/tool"});
    let payloads = json!({"name": "payloads", "mountPath": "/payloads"});
    let pod = json!({
        "serviceAccountName": "update-payload",
        "automountServiceAccountToken": false,
        "initContainers": [container("tool", &r.own.release.image, &install, json!([tool]), json!([]))],
        "containers": [container("payload", &target.release.image, &command, json!([tool, payloads]), json!([]))],
        "volumes": [
            {"name": "tool", "emptyDir": {}},
            {"name": "payloads", "hostPath": {"path": host_path, "type": "DirectoryOrCreate"}},
        ],
    });
    job(&name("version", &target.release.version, &target.release.image), &r.namespace, node, pod)
}

/// Runs the target's own binary, which loads its payload, reads the API and writes nothing.
pub fn preflight(r: &Retriever, release: &Release, node: &str) -> Value {
    let image = format!("--release-image={}", release.image);
    let excluded = r.exclude_manifests.as_deref().unwrap_or_default();
    let env = json!([
        {"name": "CLUSTER_PROFILE", "value": r.profile},
        {"name": "EXCLUDE_MANIFESTS", "value": excluded},
    ]);
    let command = ["/usr/bin/cvo", "preflight", &image];
    let pod = json!({
        "serviceAccountName": "cluster-version-operator",
        "containers": [container("preflight", &release.image, &command, json!([]), env)],
    });
    job(&name("preflight", &release.version, &release.image), &r.namespace, node, pod)
}

fn container(name: &str, image: &str, command: &[&str], mounts: Value, env: Value) -> Value {
    json!({
        "name": name, "image": image, "command": command, "volumeMounts": mounts, "env": env,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false},
        "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
    })
}

fn job(name: &str, namespace: &str, node: &str, mut pod: Value) -> Value {
    let labels = json!({"k8s-app": LABEL});
    if let Some(map) = pod.as_object_mut() {
        // On this very node, whatever its taints: the daemon reads the result from its disk. On the host's network,
        // because the pod network is something that an update may have to mend.
        map.insert("nodeName".into(), node.into());
        map.insert("tolerations".into(), json!([{"operator": "Exists"}]));
        map.insert("hostNetwork".into(), true.into());
        map.insert("dnsPolicy".into(), "Default".into());
        map.insert("restartPolicy".into(), "Never".into());
        map.insert("priorityClassName".into(), "system-cluster-critical".into());
    }
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "backoffLimit": 2, "activeDeadlineSeconds": DEADLINE_SECONDS, "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// Runs a Job to its end, or takes up one of the same name that a predecessor started. Returns what its container said.
pub async fn run(
    retriever: &Retriever,
    spec: Value,
    tell: &(dyn Fn(&str) + Send + Sync),
    stop: &CancellationToken,
) -> Result<String, JobError> {
    let name = spec.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    begin(retriever, &name, &spec).await?;
    // An image on its way gives no sign of itself: whoever asks why nothing moves is to know where to look.
    tell(&format!("Job {name} in namespace {} is under way", retriever.namespace));
    let limit = Duration::from_secs(DEADLINE_SECONDS.into()) + GRACE;
    let outcome = tokio::time::timeout(limit, follow(retriever, &name, tell, stop)).await.unwrap_or_else(|_| {
        let cause = format!("nothing was heard of its end for {} s; it will be run again", limit.as_secs());
        Err(JobError::Failed { name: name.clone(), cause })
    });
    if !matches!(outcome, Err(JobError::Stopped(_))) {
        clean_up(retriever, &name).await;
    }
    outcome
}

async fn follow(
    retriever: &Retriever,
    name: &str,
    tell: &(dyn Fn(&str) + Send + Sync),
    stop: &CancellationToken,
) -> Result<String, JobError> {
    let failed = |cause: String| JobError::Failed { name: name.to_owned(), cause };
    let by_name = watcher::Config::default().timeout(280).fields(&format!("metadata.name={name}"));
    let by_job = watcher::Config::default().timeout(280).labels(&format!("batch.kubernetes.io/job-name={name}"));
    let mut jobs = watched::<Job>(retriever, by_name);
    // Of one that goes the Job tells.
    let mut pods = watched::<Pod>(retriever, by_job).filter_map(std::future::ready);
    let mut seen: BTreeMap<String, Pod> = BTreeMap::new();
    let mut complete = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Err(JobError::Stopped(name.to_owned())),
            Some(job) = jobs.next() => match job.as_ref().map(finished) {
                // Its deadline and its pods have gone with it: nothing more would ever come.
                None => return Err(failed("is gone before its end was seen; it will be run again".into())),
                Some(None) => {}
                Some(Some(Ok(()))) => complete = true,
                Some(Some(Err(cause))) => {
                    return Err(failed(format!("{cause}{}{}", troubles(seen.values()), not_started(seen.values()))));
                }
            },
            Some(pod) = pods.next() => {
                if let Some(cause) = hopeless(&pod) {
                    return Err(failed(cause));
                }
                seen.insert(pod.metadata.name.clone().unwrap_or_default(), pod);
                let text = troubles(seen.values());
                if !text.is_empty() {
                    tell(&format!("Job {name}{text}"));
                }
            }
            () = tokio::time::sleep(POD_LOST), if complete => {
                return Err(failed("is complete, but its pod is gone before it was seen; it will be run again".into()));
            }
        }
        if complete && let Some(message) = seen.values().find_map(success) {
            return Ok(message);
        }
    }
}

/// Its result is on disk, or its error in the condition: the object has served its purpose.
async fn clean_up(retriever: &Retriever, name: &str) {
    let (kind, namespace) = (kind(), &retriever.namespace);
    let cleaned = async {
        if let Some(live) = retriever.objects.get(&kind, namespace, name).await? {
            retriever.objects.delete(&kind, namespace, name, uid(&live)).await?;
        }
        Ok::<(), ApiError>(())
    };
    if let Err(error) = cleaned.await {
        tracing::debug!(%error, "finished Job stays");
    }
}

fn uid(live: &Value) -> &str {
    live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// Creates the Job; one that failed before is replaced, one that is under way or complete is taken up.
async fn begin(retriever: &Retriever, name: &str, spec: &Value) -> Result<(), JobError> {
    let (kind, namespace) = (kind(), &retriever.namespace);
    for _ in 0..3 {
        if let Some(live) = retriever.objects.get(&kind, namespace, name).await? {
            let job: Option<Job> = serde_json::from_value(live.clone()).ok();
            let failed = job.as_ref().is_none_or(|job| matches!(finished(job), Some(Err(_))));
            if !failed && live.pointer("/metadata/deletionTimestamp").is_none() {
                return Ok(());
            }
            retriever.objects.delete(&kind, namespace, name, uid(&live)).await?;
        }
        match retriever.objects.create(&kind, namespace, spec).await {
            Ok(_) => return Ok(()),
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(e.into()),
        }
    }
    let cause = "an earlier Job of this name does not go away: delete it".to_owned();
    Err(JobError::Failed { name: name.to_owned(), cause })
}

/// The objects that the watch finds, as they change; `None` when one has gone, or none is there.
fn watched<K>(retriever: &Retriever, config: watcher::Config) -> BoxStream<'static, Option<K>>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(retriever.clients.call.clone(), &retriever.namespace);
    let mut listed = 0;
    let events = watcher(api, config).backoff(WatchBackoff::default()).filter_map(move |event| {
        let seen = match event {
            Ok(event) => found(event, &mut listed),
            Err(error) => {
                tracing::debug!(%error, "watch of a retrieval failed; trying again");
                None
            }
        };
        std::future::ready(seen)
    });
    events.boxed()
}

/// What an event tells: an object, that it has gone, or nothing yet. `listed`: how many the list under way has.
fn found<K>(event: watcher::Event<K>, listed: &mut usize) -> Option<Option<K>> {
    match event {
        watcher::Event::Apply(object) => Some(Some(object)),
        watcher::Event::Delete(_) => Some(None),
        watcher::Event::Init => {
            *listed = 0;
            None
        }
        watcher::Event::InitApply(object) => {
            *listed += 1;
            Some(Some(object))
        }
        watcher::Event::InitDone => (*listed == 0).then_some(None),
    }
}

fn finished(job: &Job) -> Option<Result<(), String>> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is = |type_: &str| conditions.iter().find(|c| c.type_ == type_ && c.status == "True");
    if is("Complete").is_some() {
        return Some(Ok(()));
    }
    // The first is said when it is decided, the second when its pods have ended: a kubelet that waits for a registry may
    // never end one.
    let failed = is("FailureTarget").or_else(|| is("Failed"))?;
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    Some(Err(format!("{}: {}", text(&failed.reason), text(&failed.message))))
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|s| s.init_container_statuses.as_ref()).into_iter().flatten();
    init.chain(status.and_then(|s| s.container_statuses.as_ref()).into_iter().flatten())
}

/// What a main container said when it ended well.
fn success(pod: &Pod) -> Option<String> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let terminated = containers.first()?.state.as_ref()?.terminated.as_ref()?;
    (terminated.exit_code == 0).then(|| terminated.message.clone().unwrap_or_default())
}

/// What a container says of itself before its turn, and while its image is pulled.
const NOT_YET: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// What containers wait for or died of.
fn troubles<'a>(pods: impl Iterator<Item = &'a Pod>) -> String {
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

/// The container whose turn it was when its Job ended, if it had not started: nothing else tells of a registry that never
/// answers.
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

/// Waiting cannot help: the image does not exist, or policy forbids it.
fn hopeless(pod: &Pod) -> Option<String> {
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
mod tests {
    use super::*;

    #[test]
    fn job_names_are_valid_and_short() {
        for version in ["1.0.1", "4.20.0-0.nightly-2025-01-01-000000+BUILD_x", "", &"9".repeat(90)] {
            let name = name("version", version, "r@sha256:00");
            assert!(name.len() <= 63 && name.starts_with("version-"), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c)), "{name}");
        }
        assert_ne!(name("version", "1", "a"), name("version", "1", "b"));
    }

    #[test]
    fn a_job_ends_and_goes_away_without_us() {
        let job = job("version-1", "ns", "node", json!({}));
        assert!(job["spec"]["activeDeadlineSeconds"].as_u64() > Some(0));
        assert!(job["spec"]["ttlSecondsAfterFinished"].as_u64() > Some(0), "{job}");
    }

    /// §10.27: whoever waits for what is gone would wait for ever.
    #[test]
    fn a_job_that_is_gone_is_told_of_whether_or_not_its_end_was_watched() {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        let told = |events: Vec<watcher::Event<u8>>| {
            let mut listed = 0;
            events.into_iter().filter_map(|event| found(event, &mut listed)).collect::<Vec<_>>()
        };
        assert_eq!(told(vec![Init, InitApply(1), InitDone, Apply(2), Delete(2)]), [Some(1), Some(2), None]);
        assert_eq!(told(vec![Init, InitApply(1), InitDone, Init, InitDone]), [Some(1), None], "gone between two lists");
    }

    #[test]
    fn a_job_has_failed_when_that_is_decided_not_when_its_pods_have_ended() {
        let job = |type_: &str| -> Job {
            let condition = json!({"type": type_, "status": "True", "reason": "DeadlineExceeded", "message": "late"});
            serde_json::from_value(json!({"status": {"conditions": [condition]}})).unwrap()
        };
        assert_eq!(finished(&job("FailureTarget")), Some(Err("DeadlineExceeded: late".into())));
        assert_eq!(finished(&job("Failed")), Some(Err("DeadlineExceeded: late".into())));
        assert_eq!(finished(&job("SuccessCriteriaMet")), None, "its container may not have said anything yet");
        assert_eq!(finished(&job("Complete")), Some(Ok(())));
    }

    #[test]
    fn an_image_that_does_not_exist_fails_at_once_and_a_slow_one_does_not() {
        let pod = |reason: &str, message: &str| -> Pod {
            serde_json::from_value(json!({"status": {"containerStatuses": [{"name": "payload", "image": "",
                "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": message}}}]}}))
            .unwrap()
        };
        assert!(hopeless(&pod("ErrImagePull", "r@sha256:0: not found")).unwrap().contains("payload"));
        let slow = pod("ErrImagePull", "dial tcp: connection refused");
        assert!(hopeless(&slow).is_none());
        assert!(troubles([&slow].into_iter()).contains("connection refused"));
        let starting = pod("ContainerCreating", "");
        assert_eq!(troubles([&starting].into_iter()), "");
        assert!(not_started([&starting].into_iter()).contains("container payload had not started (ContainerCreating)"));
        assert_eq!(not_started([&slow].into_iter()), "", "its trouble is told already");
    }
}
