//! The MachineConfigNodes: what the annotations of nodes say, as objects for people and programs that read these. Nothing is decided
//! by them, so that they are written when nothing else is to be, and what passes quickly is not written at all.

use super::{Action, NodeObjectSpec, Turn};
use crate::machine_config::api::machine_config_node::{
    MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus,
};
use crate::machine_config::node_status::{is_at_rest, spec, status};
use crate::machine_config::rollout::PoolFacts;
use crate::machine_config::views::{NodeObjectView, NodeView};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What has lasted so long is told although more is to come.
const LASTING: SignedDuration = SignedDuration::from_secs(10);

/// By the names of the nodes.
pub(super) type ComparedObjects = BTreeMap<String, Compared>;

/// What was compared last for a node.
#[derive(Debug)]
pub(super) struct Compared {
    node: Arc<NodeView>,
    object: Option<Arc<NodeObjectView>>,
    pool: String,
    /// `None` if the object says everything.
    due: Option<Timestamp>,
}

impl Turn<'_> {
    /// Writes what is due. A cluster without this kind goes without them.
    pub(super) fn write_node_objects(&mut self, compared: &mut ComparedObjects, pools: &[PoolFacts]) {
        let Some(live) = &self.seen.node_objects else { return };
        let (nodes, now) = (&self.seen.nodes, self.now);
        compared.retain(|name, _| nodes.contains_key(name));
        for pool in pools {
            for name in pool.nodes.iter().filter(|node| node.is_managed()).map(|node| &node.name) {
                let Some(node) = nodes.get(name) else { continue };
                let object = live.get(name);
                let due = compare(compared, pool, node, object, now);
                if due.is_none_or(|due| due > now) {
                    self.again(due);
                } else if self.room.has_room_for_marks() {
                    let wanted = Wanted::of(pool, node, object, now);
                    self.act(wanted.write(node, object.map(AsRef::as_ref)));
                }
            }
        }
    }
}

/// When the object of the node is to be written. What has not changed since is not compared again.
fn compare(
    compared: &mut ComparedObjects,
    pool: &PoolFacts,
    node: &Arc<NodeView>,
    object: Option<&Arc<NodeObjectView>>,
    now: Timestamp,
) -> Option<Timestamp> {
    let same = |compared: &&mut Compared| {
        let same_object = match (&compared.object, object) {
            (Some(before), Some(object)) => Arc::ptr_eq(before, object),
            (None, None) => true,
            _ => false,
        };
        same_object && Arc::ptr_eq(&compared.node, node) && compared.pool == pool.name
    };
    let lasting = now.checked_add(LASTING).unwrap_or(now);
    if let Some(compared) = compared.get_mut(&node.facts.name).filter(same) {
        // A clock that was set back makes nothing later.
        compared.due = compared.due.map(|due| due.min(lasting));
        return compared.due;
    }
    let wanted = Wanted::of(pool, node, object, now);
    let due = match object {
        None => Some(now),
        Some(object) if !wanted.differs(object) => None,
        Some(_) if is_at_rest(&wanted.status) => Some(now),
        // What it says has to last from now on.
        Some(_) => Some(lasting),
    };
    let (node, pool) = (node.clone(), pool.name.clone());
    compared.insert(node.facts.name.clone(), Compared { node, object: object.cloned(), pool, due });
    due
}

struct Wanted {
    spec: MachineConfigNodeSpec,
    status: MachineConfigNodeStatus,
}

impl Wanted {
    fn of(pool: &PoolFacts, node: &NodeView, object: Option<&Arc<NodeObjectView>>, now: Timestamp) -> Wanted {
        let before = object.map(|object| object.status.clone()).unwrap_or_default();
        let generation = object.map_or(1, |object| object.generation);
        let spec = spec(&node.facts, &pool.name);
        Wanted { status: status(&before, generation, (&node.facts, &node.drain), now), spec }
    }

    fn differs(&self, object: &NodeObjectView) -> bool {
        object.spec != self.spec || object.status != self.status
    }

    fn write(self, node: &NodeView, object: Option<&NodeObjectView>) -> Action {
        let Wanted { spec, status } = self;
        let name = node.facts.name.clone();
        let spec = match object {
            None => {
                let mut new = MachineConfigNode::new(&name, spec);
                new.metadata.owner_references = Some(vec![owner(node)]);
                NodeObjectSpec::Create(Box::new(new))
            }
            Some(object) if object.spec != spec => NodeObjectSpec::Change(spec),
            Some(object) => NodeObjectSpec::Same { generation: object.generation },
        };
        Action::WriteNodeObject { name, spec, status }
    }
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
