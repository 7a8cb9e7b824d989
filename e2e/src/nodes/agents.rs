//! Agents of simulated nodes: they do to the annotations of a node what a real one does, and take a fixed time for it.

use std::{collections::BTreeSet, time::Duration};

use cvo::testing::api::machine_config::GROUP;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::until::changes;

/// How long an agent takes for what is not waiting for the controller.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Before it asks for the drain: the node still runs pods.
    pub stage: Duration,
    /// From the end of the drain to the restart.
    pub apply: Duration,
    /// The restart, and looking at the result.
    pub restart: Duration,
}

impl Times {
    pub fn total(&self) -> Duration {
        self.stage + self.apply + self.restart
    }
}

/// Plays the agents of all nodes until dropped. `times` are those of a node by its name.
pub async fn play(client: Client, times: impl Fn(&str) -> Times + Send + Sync + 'static) {
    let nodes: Api<Node> = Api::all(client);
    let (ended, mut ends) = mpsc::unbounded_channel::<String>();
    let mut states: std::collections::HashMap<String, watch::Sender<Node>> = std::collections::HashMap::new();
    let mut busy: BTreeSet<String> = BTreeSet::new();
    let mut changes = changes(nodes.clone(), watcher::Config::default());
    loop {
        let name = tokio::select! {
            node = changes.next() => {
                let Some(node) = node else { continue };
                let name = node.metadata.name.clone().unwrap_or_default();
                match states.get(&name) {
                    Some(state) => _ = state.send_replace(node),
                    None => _ = states.insert(name.clone(), watch::Sender::new(node)),
                }
                name
            }
            Some(name) = ends.recv() => {
                busy.remove(&name);
                name
            }
        };
        let Some(state) = states.get(&name).filter(|_| !busy.contains(&name)) else { continue };
        let node = state.borrow().clone();
        let (current, desired) = (annotation(&node, "currentConfig"), annotation(&node, "desiredConfig"));
        if !current.is_empty() && (desired.is_empty() || current == desired) {
            continue;
        }
        busy.insert(name.clone());
        let (nodes, state, ended, times) = (nodes.clone(), state.subscribe(), ended.clone(), times(&name));
        tokio::spawn(async move {
            if let Err(error) = update(&nodes, &name, state, times).await {
                println!("agent of {name}: {error}");
            }
            ended.send(name)
        });
    }
}

pub fn annotation(node: &Node, key: &str) -> String {
    let annotations = node.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(&format!("{GROUP}/{key}"))).cloned().unwrap_or_default()
}

async fn write<const N: usize>(nodes: &Api<Node>, name: &str, entries: [(&str, &str); N]) -> kube::Result<()> {
    let annotations: Value = entries.into_iter().map(|(key, value)| (format!("{GROUP}/{key}"), json!(value))).collect();
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    nodes.patch(name, &PatchParams::default(), &patch).await.map(|_| ())
}

/// From one configuration to the one that is desired when it begins.
async fn update(nodes: &Api<Node>, name: &str, mut node: watch::Receiver<Node>, times: Times) -> kube::Result<()> {
    if annotation(&node.borrow(), "currentConfig").is_empty() {
        let folder = ("kubeletConfigDir", "/etc/kubernetes/kubelet.conf.d");
        let first = [("currentConfig", "unconfigured"), ("desiredConfig", "unconfigured"), ("state", "Done"), folder];
        write(nodes, name, first).await?;
        _ = node.wait_for(|node| !annotation(node, "currentConfig").is_empty()).await;
        return Ok(());
    }
    let target = annotation(&node.borrow(), "desiredConfig");
    tokio::time::sleep(times.stage).await;
    let drain = format!("drain-{target}");
    let ask = [("state", "Working"), ("desiredDrain", &drain), ("desiredDrainId", &drain)];
    write(nodes, name, ask).await?;
    let answered = |asked: String| {
        move |node: &Node| {
            annotation(node, "lastAppliedDrain") == asked && annotation(node, "lastAppliedDrainId") == asked
        }
    };
    _ = node.wait_for(answered(drain)).await;
    tokio::time::sleep(times.apply).await;
    let now = Timestamp::now().to_string();
    write(nodes, name, [("post-config-action", "Rebooting"), ("rebootStarted", &now)]).await?;
    tokio::time::sleep(times.restart).await;
    let uncordon = format!("uncordon-{target}");
    let ask =
        [("post-config-action", ""), ("rebootStarted", ""), ("desiredDrain", &uncordon), ("desiredDrainId", &uncordon)];
    write(nodes, name, ask).await?;
    _ = node.wait_for(answered(uncordon)).await;
    write(nodes, name, [("currentConfig", &target), ("state", "Done"), ("reason", "")]).await?;
    _ = node.wait_for(|node| annotation(node, "currentConfig") == target).await;
    Ok(())
}
