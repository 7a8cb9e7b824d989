//! The MachineConfigNodes: what the annotations of nodes say, as objects for people and programs that read these. Nothing is decided
//! by them, so that they are written when nothing else is to be, and what passes quickly is not written at all.

use super::followed::{Followed, View};
use super::views::NodeView;
use super::writer::{Key, Writer};
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::machine_config::api::machine_config_node::{
    MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus,
};
use crate::machine_config::node_status::{is_at_rest, spec, status};
use crate::machine_config::rollout::PoolFacts;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What has lasted so long is told although more is to come.
const LASTING: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectView {
    version: String,
    generation: i64,
    spec: MachineConfigNodeSpec,
    status: MachineConfigNodeStatus,
}

impl View for ObjectView {
    type Object = MachineConfigNode;

    fn of(object: MachineConfigNode) -> Self {
        ObjectView {
            version: object.metadata.resource_version.unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            spec: object.spec,
            status: object.status.unwrap_or_default(),
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

fn kind() -> Kind {
    Kind::known("machineconfiguration.openshift.io", "v1", "MachineConfigNode", "machineconfignodes", false)
}

/// What was compared last for a node.
struct Compared {
    node: Arc<NodeView>,
    object: Option<Arc<ObjectView>>,
    pool: String,
    /// `None` if the object says everything.
    due: Option<Instant>,
}

pub(super) struct NodeObjects {
    live: Arc<Followed<ObjectView>>,
    compared: BTreeMap<String, Compared>,
}

impl NodeObjects {
    pub(super) fn new(clients: &Clients, changed: Arc<Notify>, stop: &CancellationToken) -> Self {
        let all = Selection::new(kind(), "", Selector::All);
        NodeObjects { live: Followed::start(clients, all, changed, stop.clone()), compared: BTreeMap::new() }
    }

    /// Writes what is due, and returns when something will be. A cluster without this kind goes without them.
    pub(super) fn update(
        &mut self,
        pools: &[PoolFacts],
        nodes: &BTreeMap<String, Arc<NodeView>>,
        (objects, writer): (&Objects, &Arc<Writer>),
        (seen, now): (Instant, Timestamp),
    ) -> Option<Instant> {
        let live = self.live.all()?;
        self.compared.retain(|name, _| nodes.contains_key(name));
        let mut next = None;
        for pool in pools {
            for name in pool.nodes.iter().filter(|node| node.is_managed()).map(|node| &node.name) {
                let Some(node) = nodes.get(name) else { continue };
                let object = live.get(name);
                let due = self.compare(pool, node, object, (seen, now));
                if due.is_none_or(|due| due > seen) {
                    next = next.into_iter().chain(due).min();
                } else if writer.has_room_for_marks() {
                    let wanted = Wanted::of(pool, node, object, now);
                    let (objects, live, node, object) =
                        (objects.clone(), self.live.clone(), node.clone(), object.cloned());
                    let write = async move { write(&objects, &live, &node, object.as_deref(), wanted).await };
                    writer.begin(Key::NodeObject(name.clone()), seen, Duration::ZERO, write);
                }
            }
        }
        next
    }

    /// When the object of the node is to be written. What has not changed since is not compared again.
    fn compare(
        &mut self,
        pool: &PoolFacts,
        node: &Arc<NodeView>,
        object: Option<&Arc<ObjectView>>,
        (seen, now): (Instant, Timestamp),
    ) -> Option<Instant> {
        let same = |compared: &&Compared| {
            let same_object = match (&compared.object, object) {
                (Some(before), Some(object)) => Arc::ptr_eq(before, object),
                (None, None) => true,
                _ => false,
            };
            same_object && Arc::ptr_eq(&compared.node, node) && compared.pool == pool.name
        };
        if let Some(compared) = self.compared.get(&node.facts.name).filter(same) {
            return compared.due;
        }
        let wanted = Wanted::of(pool, node, object, now);
        let due = match object {
            None => Some(seen),
            Some(object) if !wanted.differs(object) => None,
            Some(_) if is_at_rest(&wanted.status) => Some(seen),
            // What it says has to last from now on.
            Some(_) => Some(seen + LASTING),
        };
        let (node, pool) = (node.clone(), pool.name.clone());
        self.compared.insert(node.facts.name.clone(), Compared { node, object: object.cloned(), pool, due });
        due
    }
}

struct Wanted {
    spec: MachineConfigNodeSpec,
    status: MachineConfigNodeStatus,
}

impl Wanted {
    fn of(pool: &PoolFacts, node: &NodeView, object: Option<&Arc<ObjectView>>, now: Timestamp) -> Wanted {
        let before = object.map(|object| object.status.clone()).unwrap_or_default();
        let generation = object.map_or(1, |object| object.generation);
        let spec = spec(&node.facts, &pool.name);
        Wanted { status: status(&before, generation, (&node.facts, &node.drain), now), spec }
    }

    fn differs(&self, object: &ObjectView) -> bool {
        object.spec != self.spec || object.status != self.status
    }
}

/// First the spec, so that the status is that of the present generation. Two writes, because an API server takes the status of an
/// object through its subresource alone and everything else without it, and each update changes both.
async fn write(
    objects: &Objects,
    live: &Followed<ObjectView>,
    node: &NodeView,
    object: Option<&ObjectView>,
    Wanted { spec, mut status }: Wanted,
) -> Result<(), ApiError> {
    let name = &node.facts.name;
    let mut generation = object.map(|object| object.generation);
    if object.is_none() {
        let mut new = MachineConfigNode::new(name, spec);
        new.metadata.owner_references = Some(vec![owner(node)]);
        let created = objects.create(&kind(), "", &json!(new)).await?;
        generation = created.pointer("/metadata/generation").and_then(serde_json::Value::as_i64);
    } else if object.is_some_and(|object| object.spec != spec) {
        let patch = json!({"spec": spec});
        let changed: MachineConfigNode = objects.merge_patch(&kind(), "", name, &patch).await?;
        generation = changed.metadata.generation;
    }
    status.observed_generation = generation.unwrap_or_default();
    live.on_written(objects.merge_patch_status(&kind(), "", name, &json!({"status": status})).await?);
    Ok(())
}

/// It goes with its Node.
fn owner(node: &NodeView) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.facts.name.clone(),
        uid: node.uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }
}
