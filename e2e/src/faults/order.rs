//! Whether an update kept its order, by the API server's own audit log: nothing of a stage may be written before the last
//! gate of the stages before it is open.
//!
//! The gate of a ClusterOperator opens at the earliest when a request of another user than the daemon arrives that writes
//! its status during the update; the gate of a workload when such a request arrives after the daemon wrote the workload.
//! The daemon's own Deployment has no gate: it is the hand-over.

use crate::harness::audit::Request;
use crate::simulator::requests::is_bookkeeping;
use cvo::testing::{
    api,
    graph::{self, Mode},
    payload::{Manifest, ObjectId, Payload},
};
use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
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
    /// Closed from the beginning of the update.
    Operator,
    /// Closed by a write.
    Workload,
}

/// What the log shows.
#[derive(Debug, Default)]
pub struct Findings {
    /// The daemon's writes to objects of the release.
    pub writes: usize,
    /// Gates that had to open and did.
    pub gates: usize,
    /// Stages that were written to.
    pub stages: BTreeSet<usize>,
    /// What breaks the rule.
    pub violations: Vec<String>,
}

impl Stages {
    /// Of a release, as an update applies it.
    pub fn of(payload: &Payload) -> Self {
        let own = ObjectId::new("apps", "Deployment", api::NAMESPACE, api::OWN_DEPLOYMENT);
        let graph = graph::build(&payload.manifests, Mode::Update, Some(&own));
        let mut members = BTreeMap::new();
        for node in graph.nodes() {
            for manifest in node.manifests.iter().filter_map(|position| payload.manifests.get(*position)) {
                let gate = if manifest.id == own { Gate::None } else { gate(manifest, &payload.release.version) };
                members.insert(key(manifest), Member { stage: node.stage, gate });
            }
        }
        Self { members }
    }

    /// Checks what was written since the update was requested. `log` has the requests of all users, in the order of arrival.
    pub fn check(&self, log: &[Request], daemon: &str, asked: Timestamp) -> Findings {
        let mut found = Findings::default();
        let since: Vec<&Request> = log.iter().filter(|request| request.at > asked).collect();
        // A request that was never answered may have been carried out.
        let done = |request: &&&Request| request.is_write() && request.code < 300;
        let ours = || since.iter().filter(done).filter(|request| request.user == daemon && !is_bookkeeping(request));
        let opened = self.gates(&since, daemon, &mut found);
        for write in ours() {
            let Some(member) = self.members.get(&of(write)) else {
                found.violations.push(format!(
                    "what was written is not in the release: {} {}",
                    write.verb,
                    write.object()
                ));
                continue;
            };
            found.writes += 1;
            found.stages.insert(member.stage);
            for (stage, gate, at) in &opened {
                if *stage < member.stage && *at > write.at {
                    found.violations.push(format!(
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
                None => found.violations.push(format!("the gate of {name} never opened")),
            }
        }
        opened
    }
}

fn gate(manifest: &Arc<Manifest>, version: &str) -> Gate {
    let object = manifest.object().unwrap_or_default();
    let versions = object.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    let reports = || versions.clone().any(|entry| entry.get("version").and_then(Value::as_str) == Some(version));
    match (manifest.id.group.as_str(), manifest.id.kind.as_str()) {
        _ if manifest.delete() != Ok(false) || manifest.create_only() => Gate::None,
        ("config.openshift.io", "ClusterOperator") if reports() => Gate::Operator,
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
    // The server puts the name of a Namespace into the field for the namespace as well.
    let namespace = if resource == "namespaces" { String::new() } else { namespace.clone() };
    (group.clone(), resource.clone(), namespace, name.clone())
}
