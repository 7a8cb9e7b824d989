//! Whether an update kept its order, by the API server's own audit log: nothing of a stage was written before the last
//! gate of the stages before it was opened (payload-and-apply §3.3, §9.5).
//!
//! A ClusterOperator's gate opens when somebody else than the daemon writes its status in the update, a workload's when
//! somebody does after the daemon wrote the workload. Not before that request arrived, that is: the earliest moment.
//! The daemon's own Deployment is no gate but the hand-over.

use super::release::taking_part;
use crate::harness::audit::Request;
use cvo::{
    api,
    graph::{self, Mode},
    payload::{Manifest, ObjectId},
};
use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

/// Group, resource, namespace, name.
type Key = (String, String, String, String);

/// The stages of one release.
#[derive(Debug)]
pub struct Stages {
    members: BTreeMap<Key, Member>,
}

#[derive(Debug)]
struct Member {
    stage: usize,
    gate: Gate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    None,
    /// Closed from when the update begins.
    Operator,
    /// Closed by a write.
    Workload,
}

/// What the log says.
#[derive(Debug, Default)]
pub struct Findings {
    /// The daemon's writes to what is in the release.
    pub writes: usize,
    /// Gates that had to open, and did.
    pub gates: usize,
    /// Stages that were written to.
    pub stages: BTreeSet<usize>,
    /// What breaks the rule.
    pub wrong: Vec<String>,
}

impl Stages {
    /// Of the release in that folder (with `manifests/` and `release-manifests/`), as an update walks it.
    pub fn of(folder: &Path, image: &str) -> anyhow::Result<Self> {
        let payload = taking_part(folder, image)?;
        let own = ObjectId::new("apps", "Deployment", api::NAMESPACE, api::OWN_DEPLOYMENT);
        let graph = graph::build(&payload.manifests, Mode::Update, Some(&own));
        let mut members = BTreeMap::new();
        for node in graph.nodes() {
            for manifest in node.manifests.iter().filter_map(|position| payload.manifests.get(*position)) {
                let gate = if manifest.id == own { Gate::None } else { gate(manifest, &payload.release.version) };
                members.insert(key(manifest), Member { stage: node.stage, gate });
            }
        }
        Ok(Self { members })
    }

    /// Judges what was written since the update was asked for. `log` is everybody's, in the order of arrival.
    pub fn judge(&self, log: &[Request], daemon: &str, asked: Timestamp) -> Findings {
        let mut found = Findings::default();
        let since: Vec<&Request> = log.iter().filter(|request| request.at > asked).collect();
        // One that was never answered may have been carried out.
        let done = |request: &&&Request| request.is_write() && request.code < 300;
        let ours = || since.iter().filter(done).filter(|request| request.user == daemon && !request.is_bookkeeping());
        let opened = self.gates(&since, daemon, &mut found);
        for write in ours() {
            let Some(member) = self.members.get(&of(write)) else {
                found.wrong.push(format!(
                    "the release does not have what was written: {} {}",
                    write.verb,
                    write.object()
                ));
                continue;
            };
            found.writes += 1;
            found.stages.insert(member.stage);
            for (stage, gate, at) in &opened {
                if *stage < member.stage && *at > write.at {
                    found.wrong.push(format!(
                        "{} {} of stage {} was written at {}, before the gate of {gate} in stage {stage} opened at {at}",
                        write.verb,
                        write.object(),
                        member.stage,
                        write.at,
                    ));
                }
            }
        }
        found.gates = opened.len();
        found
    }

    /// Stage, name, and the earliest moment of each gate that had to open.
    fn gates(&self, since: &[&Request], daemon: &str, found: &mut Findings) -> Vec<(usize, String, Timestamp)> {
        let mut opened = Vec::new();
        for (key, member) in &self.members {
            let of_it =
                || since.iter().filter(|request| request.is_write() && request.code < 300 && of(request) == *key);
            let closed = match member.gate {
                Gate::None => None,
                Gate::Operator => Some(Timestamp::MIN),
                Gate::Workload => of_it().find(|r| r.user == daemon && r.subresource.is_empty()).map(|r| r.at),
            };
            let Some(closed) = closed else { continue };
            let opens = |r: &&&Request| r.user != daemon && r.subresource == "status" && r.at > closed;
            let name = format!("{} {}/{}", key.1, key.2, key.3);
            match of_it().find(opens) {
                Some(request) => opened.push((member.stage, name, request.at)),
                None => found.wrong.push(format!("the gate of {name} never opened")),
            }
        }
        opened
    }
}

fn gate(manifest: &Arc<Manifest>, version: &str) -> Gate {
    let object = manifest.object().unwrap_or_default();
    let versions = object.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    let asks = || versions.clone().any(|entry| entry.get("version").and_then(Value::as_str) == Some(version));
    match (manifest.id.group.as_str(), manifest.id.kind.as_str()) {
        _ if manifest.delete() != Ok(false) || manifest.create_only() => Gate::None,
        ("config.openshift.io", "ClusterOperator") if asks() => Gate::Operator,
        ("apps", "Deployment" | "DaemonSet") | ("batch", "Job") => Gate::Workload,
        _ => Gate::None,
    }
}

fn key(manifest: &Arc<Manifest>) -> Key {
    let id = &manifest.id;
    let version = manifest.api_version.rsplit('/').next().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&id.group, version, &id.kind));
    (id.group.clone(), resource.plural, id.namespace.clone(), id.name.clone())
}

fn of(request: &Request) -> Key {
    let Request { group, resource, namespace, name, .. } = request;
    // The server calls a Namespace its own namespace.
    let namespace = if resource == "namespaces" { String::new() } else { namespace.clone() };
    (group.clone(), resource.clone(), namespace, name.clone())
}
