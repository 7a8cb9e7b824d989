//! The operators of the components, played by watches: each reports on its ClusterOperator that it runs the version
//! of its Deployment, as soon as that is rolled out, unless the test holds it back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use cvo::api::ClusterOperator;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio::{sync::Notify, task::JoinHandle};

use super::release::COMPONENTS;

/// A gate that the crew opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub component: String,
    pub version: String,
    /// Just before the report was sent: nothing that waits for it can have happened earlier.
    pub at: Timestamp,
}

#[derive(Debug, Default)]
struct Shared {
    held: Mutex<BTreeSet<String>>,
    opened: Mutex<Vec<Opened>>,
    nudge: Notify,
}

/// Ends with the value.
#[derive(Debug)]
pub struct Crew {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What an operator would report: available from when its first pods run, the version when the rollout is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Report {
    version: Option<String>,
}

impl Crew {
    /// Starts to watch. The ClusterOperator kind must be served.
    pub fn start(client: Client) -> Self {
        let shared = Arc::new(Shared::default());
        let task = tokio::spawn(play(client, shared.clone()));
        Self { shared, task }
    }

    /// From now on the component keeps to what it has reported.
    pub fn hold(&self, component: &str) {
        self.shared.held.lock().unwrap().insert(component.to_owned());
    }

    /// The component reports again, at once.
    pub fn release(&self, component: &str) {
        self.shared.held.lock().unwrap().remove(component);
        self.shared.nudge.notify_one();
    }

    /// All gates opened so far, in order.
    pub fn opened(&self) -> Vec<Opened> {
        self.shared.opened.lock().unwrap().clone()
    }
}

async fn play(client: Client, shared: Arc<Shared>) {
    let operators: Api<ClusterOperator> = Api::all(client.clone());
    let deployments: Api<Deployment> = Api::all(client.clone());
    let mut seen_operators = watcher(operators.clone(), watcher::Config::default()).default_backoff().boxed();
    let mut seen_deployments = watcher(deployments, watcher::Config::default()).default_backoff().boxed();
    let mut rolled_out: BTreeMap<String, String> = BTreeMap::new();
    let mut reported: BTreeMap<String, Report> = BTreeMap::new();
    loop {
        tokio::select! {
            event = seen_operators.next() => match event {
                Some(Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) => {
                    reported.insert(object.metadata.name.clone().unwrap_or_default(), report_of(&object));
                }
                Some(Ok(watcher::Event::Delete(object))) => {
                    reported.remove(&object.metadata.name.unwrap_or_default());
                }
                _ => continue,
            },
            event = seen_deployments.next() => match event {
                Some(Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) => {
                    let Some(version) = version_when_rolled_out(&object) else { continue };
                    rolled_out.insert(object.metadata.name.unwrap_or_default(), version);
                }
                _ => continue,
            },
            () = shared.nudge.notified() => {}
        }
        for (_, component) in COMPONENTS {
            let wanted = Report { version: rolled_out.get(component).cloned() };
            let held = shared.held.lock().unwrap().contains(component);
            let there = reported.get(component);
            if held || wanted.version.is_none() || there.is_none() || there == Some(&wanted) {
                continue;
            }
            let at = Timestamp::now();
            if write(&operators, component, &wanted).await {
                let version = wanted.version.clone().unwrap_or_default();
                shared.opened.lock().unwrap().push(Opened { component: component.to_owned(), version, at });
                reported.insert(component.to_owned(), wanted);
            }
        }
    }
}

fn report_of(object: &ClusterOperator) -> Report {
    let conditions = object.status.iter().flat_map(|status| &status.conditions).count();
    let versions = object.status.iter().flat_map(|status| &status.versions);
    // Without conditions the versions are not a report of ours.
    Report { version: versions.map(|v| v.version.clone()).next().filter(|_| conditions > 0) }
}

/// Written by a merge patch; a lost race shows in the next event.
async fn write(operators: &Api<ClusterOperator>, component: &str, report: &Report) -> bool {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "AsExpected", "message": "played", "lastTransitionTime": now});
    let status = json!({"status": {
        "conditions": [condition("Available", "True"), condition("Progressing", "False"), condition("Degraded", "False")],
        "versions": [{"name": "operator", "version": report.version}],
    }});
    operators.patch_status(component, &PatchParams::default(), &Patch::Merge(&status)).await.is_ok()
}

fn version_when_rolled_out(object: &Deployment) -> Option<String> {
    let (spec, status) = (object.spec.as_ref()?, object.status.as_ref()?);
    let wanted = spec.replicas.unwrap_or(1);
    let counts = [status.replicas, status.updated_replicas, status.available_replicas];
    let complete =
        status.observed_generation >= object.metadata.generation && counts.iter().all(|c| *c == Some(wanted));
    let containers = &spec.template.spec.as_ref()?.containers;
    let variables = containers.iter().flat_map(|c| c.env.iter().flatten());
    let version = variables.into_iter().find(|v| v.name == "RELEASE_VERSION").and_then(|v| v.value.clone());
    version.filter(|_| complete)
}
