//! What the controller of node configuration does next, as a function of what it sees, what it remembers and the time. It
//! renders the configuration of each pool, tells nodes to take it, drains them, and says how far all that is.

mod etcd;
mod generating;
mod marks;
mod members;
mod node_objects;
mod node_steps;
mod notices;
mod rendering;
mod report;
mod room;

use super::approval;
use super::derived::{Source, SourceKind};
use super::drain::Drain;
use super::estimate::Learned;
use super::holds::Answer;
use super::render::Defaults;
use super::rollout::etcd::EtcdPod;
use super::rollout::{PoolFacts, Round, rounds};
use super::views::{ConfigView, NodeObjectView, NodeView, OperatorView, PoolView};
use super::writes;
use crate::machine_config::api::machine_config::{CONTROLLER_MANAGER, MachineConfig, MachineConfigPoolStatus};
use crate::machine_config::api::machine_config_node::{
    MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus,
};
use crate::machine_config::api::node_config::NodeConfigStatus;
use crate::object::cluster_operator::ClusterOperatorStatus;
use jiff::{SignedDuration, Timestamp};
use members::Members;
use node_objects::ComparedObjects;
use notices::SeenLast;
pub(crate) use notices::{About, Notice};
use rendering::Renderings;
pub use rendering::{Content, Overrides};
pub use room::{Key, Room};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the release and the command line say.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The release that this process belongs to, and its own image.
    pub version: String,
    pub image: String,
    pub defaults: Defaults,
    /// The node that this process runs on, which is updated after the others of its pool.
    pub node: Option<String>,
    /// How many nodes of all pools together may be unavailable.
    pub ceiling: Option<usize>,
    /// `SingleReplica` if nobody could take the pods of the control plane's node.
    pub topology: Option<String>,
    /// Whether MachineConfigNodes are written.
    pub node_objects: bool,
}

/// The cluster as it is seen at one moment. Objects are kept by their names.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub nodes: BTreeMap<String, Arc<NodeView>>,
    pub pools: BTreeMap<String, Arc<PoolView>>,
    pub configs: BTreeMap<String, Arc<ConfigView>>,
    /// What came of [`Action::ReadConfig`], by the name of the pool. Each is given once.
    pub contents: BTreeMap<String, Content>,
    /// Which changes of storage administrators allow.
    pub overrides: Overrides,
    /// What is known of the queries that the pools have.
    pub answers: BTreeMap<String, Answer>,
    /// How many pods still have to go of nodes that are drained, as far as that is known for what the node asks for.
    pub pods: BTreeMap<String, usize>,
    /// How long ago the status of each pool was written.
    pub reported: BTreeMap<String, SignedDuration>,
    pub room: Room,
    /// Writes that fail again and again: of what, and why.
    pub failures: BTreeMap<String, String>,
    pub(crate) kubelet_configs: Sources,
    pub(crate) runtime_configs: Sources,
    pub(crate) etcd: EtcdPods,
    /// MachineConfigNodes; `None` if they are not wanted, not served or not known yet.
    pub(crate) node_objects: Option<BTreeMap<String, Arc<NodeObjectView>>>,
    /// `None` until it is known whether it exists.
    pub(crate) operator: Option<Option<Arc<OperatorView>>>,
}

/// The objects of a kind that MachineConfigs are made of.
#[derive(Clone, Debug, Default)]
pub(crate) enum Sources {
    Known(Vec<Arc<Source>>),
    #[default]
    NotServed,
    /// They have not been read; the reason, if there is one.
    Unknown(Option<String>),
}

/// The pods of etcd.
#[derive(Clone, Debug, Default)]
pub(crate) struct EtcdPods {
    /// `None` until all are known, and while they are not followed.
    pub known: Option<Vec<Arc<EtcdPod>>>,
    /// Why they cannot be read at present.
    pub error: Option<String>,
}

/// What is remembered from one turn to the next. Whoever begins with nothing begins to learn and to tell anew, and does no
/// harm.
#[derive(Debug, Default)]
pub struct Remembered {
    renderings: Renderings,
    /// Nodes with etcd that are or were restarted, and the version that their pod had then.
    restarted: BTreeMap<String, String>,
    /// How long nodes take, by the name of their pool.
    learned: BTreeMap<String, Learned>,
    node_objects: ComparedObjects,
    seen_last: SeenLast,
}

/// One thing to do. Patches are JSON merge patches, based on the resourceVersion that was seen where that matters.
#[derive(Clone, Debug)]
pub enum Action {
    WriteNode {
        name: String,
        manager: &'static str,
        patch: Value,
    },
    WritePool {
        name: String,
        patch: Value,
    },
    WritePoolStatus {
        name: String,
        version: String,
        status: MachineConfigPoolStatus,
    },
    /// Read the content of a rendered MachineConfig, so that it can be compared with what the pool is to have.
    ReadConfig {
        pool: String,
        name: String,
    },
    /// Give a pool what was rendered for it: first the MachineConfig, then the pool, so that what a pool names always exists.
    Publish {
        pool: String,
        config: Option<RenderedConfig>,
        patch: Option<Value>,
    },
    /// Store a MachineConfig that was made of something: in place of one where it has a resourceVersion.
    StoreConfig(Box<MachineConfig>),
    DeleteConfig {
        name: String,
        uid: String,
    },
    WriteSourceStatus {
        kind: SourceKind,
        name: String,
        version: String,
        status: NodeConfigStatus,
    },
    WriteNodeObject {
        name: String,
        spec: NodeObjectSpec,
        status: MachineConfigNodeStatus,
    },
    WriteOperatorStatus {
        /// The resourceVersion; `None` if it has to be created first.
        version: Option<String>,
        status: ClusterOperatorStatus,
    },
    /// Say in the log that a configuration was rendered.
    LogRendered {
        pool: String,
        config: String,
        warnings: Vec<String>,
    },
    /// Publish an event.
    Notify(Notice, About),
}

/// A rendered MachineConfig that is not as it should be.
#[derive(Clone, Debug)]
pub enum RenderedConfig {
    Create(Box<MachineConfig>),
    Annotate { name: String, patch: Value },
}

/// The spec of a MachineConfigNode, which is written before its status.
#[derive(Clone, Debug)]
pub enum NodeObjectSpec {
    Create(Box<MachineConfigNode>),
    Change(MachineConfigNodeSpec),
    /// It is as it should be, in this generation.
    Same {
        generation: i64,
    },
}

impl Action {
    /// What is written, or kept from being written meanwhile.
    pub fn key(&self) -> Option<Key> {
        Some(match self {
            Action::WriteNode { name, .. } => Key::Node(name.clone()),
            Action::WritePool { name, .. }
            | Action::WritePoolStatus { name, .. }
            | Action::ReadConfig { pool: name, .. }
            | Action::Publish { pool: name, .. } => Key::Pool(name.clone()),
            Action::StoreConfig(config) => Key::Config(super::render::name(config).to_owned()),
            Action::DeleteConfig { name, .. } => Key::Config(name.clone()),
            Action::WriteSourceStatus { kind, name, .. } => Key::Source(kind.kind(), name.clone()),
            Action::WriteNodeObject { name, .. } => Key::NodeObject(name.clone()),
            Action::WriteOperatorStatus { .. } => Key::Operator,
            Action::LogRendered { .. } | Action::Notify(..) => return None,
        })
    }
}

/// What is done about the pods of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// What is under way goes on until the answer to the node is written: pods may come back before.
    Keep,
    /// They are followed, because the node is drained soon: it takes a moment until all of them are known.
    Follow,
    Evict(Drain),
}

/// What is to be done. Of what is followed or asked, nothing else is from now on.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// Each can be begun: there is room for all of them, and one at most for each object.
    pub actions: Vec<Action>,
    /// By the name of the node.
    pub pods: BTreeMap<String, Pods>,
    /// The queries of pools, each with what an earlier process has found out about it.
    pub queries: BTreeMap<String, (String, Answer)>,
    /// Whether the pods of etcd are followed.
    pub etcd: bool,
    /// Whether it is followed which changes of storage administrators allow.
    pub overrides: bool,
    /// When to decide again although nothing has changed.
    pub next: Option<Timestamp>,
}

/// One decision as it is made.
struct Turn<'a> {
    settings: &'a Settings,
    seen: &'a Seen,
    now: Timestamp,
    room: Room,
    decision: Decision,
}

/// What is done first comes first: of two writes of one object the second is left for the next turn.
pub fn decide(settings: &Settings, remembered: &mut Remembered, seen: &Seen, now: Timestamp) -> Decision {
    let mut members = Members::of(settings, seen, now);
    let mut turn = Turn { settings, seen, now, room: seen.room.clone(), decision: Decision::default() };
    turn.decision.etcd = etcd::add(&mut remembered.restarted, seen, &mut members.pools);
    let pools = members.pools.as_slice();
    turn.render(&mut remembered.renderings, pools);
    turn.ask(pools);
    learn(&mut remembered.learned, seen, pools, now);
    let rounds = rounds(pools, settings.ceiling, now);
    for ((pool, facts), round) in seen.pools.values().zip(pools).zip(&rounds) {
        turn.publish(&remembered.renderings, pool);
        turn.claim(pool, facts, round, remembered.learned.get(&facts.name));
        turn.tell(facts, round);
        turn.record(pool, facts);
        turn.again(round.again);
    }
    turn.step_nodes();
    for (facts, round) in pools.iter().zip(&rounds) {
        turn.mark(facts, round);
    }
    turn.collect(&remembered.renderings);
    turn.report(remembered, &members, &rounds);
    turn.notify(&mut remembered.seen_last, &rounds);
    turn.write_node_objects(&mut remembered.node_objects, pools);
    turn.decision
}

fn learn(learned: &mut BTreeMap<String, Learned>, seen: &Seen, pools: &[PoolFacts], now: Timestamp) {
    learned.retain(|pool, _| seen.pools.contains_key(pool));
    for (pool, facts) in seen.pools.values().zip(pools) {
        let learned = learned.entry(facts.name.clone()).or_insert_with(|| Learned::of(pool.annotations()));
        learned.look(&facts.nodes, now);
    }
}

impl Turn<'_> {
    /// Does it if there is room for it.
    fn act(&mut self, action: Action) {
        if action.key().is_none_or(|key| self.room.take(key)) {
            self.decision.actions.push(action);
        }
    }

    fn write_node(&mut self, name: &str, patch: Value) {
        self.act(Action::WriteNode { name: name.to_owned(), manager: CONTROLLER_MANAGER, patch });
    }

    fn write_pool(&mut self, name: &str, patch: Value) {
        self.act(Action::WritePool { name: name.to_owned(), patch });
    }

    fn again(&mut self, at: Option<Timestamp>) {
        self.decision.next = self.decision.next.into_iter().chain(at).min();
    }

    /// Asks the queries of the pools whose rollout is under way, and no others.
    fn ask(&mut self, pools: &[PoolFacts]) {
        let pools = self.seen.pools.values().zip(pools).filter(|(_, facts)| approval::is_needed(facts));
        let queries = pools.filter_map(|(pool, facts)| {
            let query = pool.query()?;
            Some((facts.name.clone(), (query.to_owned(), approval::recorded(pool.annotations(), query))))
        });
        self.decision.queries = queries.collect();
    }

    fn claim(&mut self, pool: &PoolView, facts: &PoolFacts, round: &Round, learned: Option<&Learned>) {
        let durations = learned.and_then(Learned::record);
        if let Some(patch) = writes::claims(pool.version(), facts, round, durations) {
            self.write_pool(&facts.name, patch);
        }
    }

    fn tell(&mut self, facts: &PoolFacts, round: &Round) {
        let topology = self.settings.topology.as_deref();
        for name in &round.begin {
            let Some(node) = self.seen.nodes.get(name) else { continue };
            let claim = facts.claimed.get(name);
            let about = (&node.facts, node.taints.as_slice());
            self.write_node(name, writes::tell(&node.version, about, &facts.target, claim, topology));
        }
    }

    /// What the next process has to know of the pool's query.
    fn record(&mut self, pool: &PoolView, facts: &PoolFacts) {
        let query = pool.query().filter(|_| approval::is_needed(facts));
        let answer = self.seen.answers.get(&facts.name).filter(|_| query.is_some()).cloned().unwrap_or_default();
        if let Some(patch) = approval::record(pool.version(), pool.annotations(), query, &answer) {
            self.write_pool(&facts.name, patch);
        }
    }

    /// Removes rendered configurations that nobody needs any more.
    fn collect(&mut self, renderings: &Renderings) {
        for config in rendering::unused(&self.seen.configs, &self.seen.pools, &self.seen.nodes, renderings) {
            let uid = config.0.metadata.uid.clone().unwrap_or_default();
            self.act(Action::DeleteConfig { name: config.name().to_owned(), uid });
        }
    }
}

#[cfg(test)]
mod tests;
