//! Notes which containers of the daemons end by themselves: kubelet starts them again, and the test would go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::ensure;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, runtime::watcher};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::{until::changes, workspace};

/// The status of a process that was ended by SIGKILL.
const KILLED: i32 = 137;

/// Watches until it is dropped.
#[derive(Debug)]
pub(super) struct Restarts {
    /// What is known of each container that was started again, by its name.
    seen: Arc<Mutex<BTreeMap<String, String>>>,
    _watching: Vec<AbortOnDropHandle<()>>,
}

impl Restarts {
    pub(super) fn watch(client: &Client) -> anyhow::Result<Self> {
        let seen = Arc::<Mutex<BTreeMap<String, String>>>::default();
        let watching = namespaces()?.into_iter().map(|namespace| {
            let pods = Api::namespaced(client.clone(), &namespace);
            AbortOnDropHandle::new(tokio::spawn(follow(pods, seen.clone())))
        });
        Ok(Self { _watching: watching.collect(), seen })
    }

    /// An error if a container has ended by itself.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let seen = lock(&self.seen);
        ensure!(seen.is_empty(), "containers ended by themselves and were started again: {seen:#?}");
        Ok(())
    }
}

/// The namespaces of the project's components, in which its programs run for as long as the cluster does.
fn namespaces() -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for folder in fs::read_dir(workspace::root().join("manifests"))? {
        for file in fs::read_dir(folder?.path())? {
            let text = fs::read_to_string(file?.path())?;
            for document in serde_yaml::Deserializer::from_str(&text) {
                let object = Value::deserialize(document)?;
                if object.get("kind").is_some_and(|kind| kind == "Namespace") {
                    names.extend(object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned));
                }
            }
        }
    }
    Ok(names)
}

async fn follow(pods: Api<Pod>, seen: Arc<Mutex<BTreeMap<String, String>>>) {
    let mut pods = changes(pods, watcher::Config::default());
    while let Some(pod) = pods.next().await {
        let found = restarted(&pod);
        lock(&seen).extend(found);
    }
}

fn lock(seen: &Mutex<BTreeMap<String, String>>) -> MutexGuard<'_, BTreeMap<String, String>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Containers that run for as long as their pod and ended by themselves, and how. Those that somebody killed did not: with the
/// node, whose restart is played by that, or by a test.
fn restarted(pod: &Pod) -> Vec<(String, String)> {
    let always = pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref().unwrap_or("Always") == "Always");
    let statuses = pod.status.iter().flat_map(|status| &status.container_statuses).flatten();
    let again = statuses.filter(|status| always && status.restart_count > 0);
    let named = again.filter_map(|status| {
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let killed = last.is_some_and(|end| end.exit_code == KILLED && end.reason.as_deref() != Some("OOMKilled"));
        let how = format!("{} times, last: {last:?}", status.restart_count);
        (!killed).then(|| (format!("{}/{}", pod.name_any(), status.name), how))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn components_of_the_project_say_where_they_run() {
        let names = namespaces().unwrap();
        for name in ["openshift-cluster-version", "openshift-machine-config-operator"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
    }

    #[test]
    fn container_that_was_started_again_is_named_with_its_end() {
        let pod = |policy: &str, count: i32, code: i32, reason: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "p"},
                "spec": {"restartPolicy": policy, "containers": []},
                "status": {"containerStatuses": [{
                    "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": count,
                    "lastState": {"terminated": {"exitCode": code, "reason": reason}},
                }]},
            }))
            .unwrap()
        };
        let found = restarted(&pod("Always", 1, 101, "Error"));
        assert_eq!(found.len(), 1);
        assert!(found[0].0 == "p/c" && found[0].1.contains("101"), "{found:?}");
        assert_eq!(restarted(&pod("Always", 1, KILLED, "OOMKilled")).len(), 1);
        for fine in
            [pod("Always", 0, 101, "Error"), pod("OnFailure", 1, 101, "Error"), pod("Always", 1, KILLED, "Error")]
        {
            assert_eq!(restarted(&fine), Vec::new());
        }
    }
}
