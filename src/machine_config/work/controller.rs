//! The controller of node configuration: renders the configuration of each pool, tells nodes to take it, drains them, and
//! says how far all that is. The agents of the nodes do the rest; the only way between both is the nodes' annotations.

mod approvals;
mod draining;
mod etcd;
mod figures;
pub(crate) mod followed;
mod generating;
mod node_objects;
mod notices;
mod overrides;
mod rendering;
mod reporting;
pub(crate) mod views;
mod writer;

use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::machine_config::api::machine_config::{CONTROLLER_MANAGER, MachineConfigPool};
use crate::machine_config::approval;
use crate::machine_config::changes::downloads;
use crate::machine_config::drain::{Drain, MANAGER as DRAIN_MANAGER, Request, Step, step};
use crate::machine_config::estimate::Learned;
use crate::machine_config::facts::pool_facts;
use crate::machine_config::membership::{MASTER, Membership, without_pool};
use crate::machine_config::node::{NodeFacts, said};
use crate::machine_config::quorum::at_risk;
use crate::machine_config::render::Defaults;
use crate::machine_config::rollout::{PoolFacts, Round, rounds};
use crate::machine_config::writes;
use crate::process::events::Events;
use crate::process::prometheus::Querier;
use crate::serve::health::Heartbeat;
use approvals::Approvals;
use draining::Drains;
use etcd::EtcdMembers;
pub(crate) use figures::Figures;
use followed::{Followed, View as _};
use generating::Generating;
use jiff::Timestamp;
use node_objects::NodeObjects;
use notices::Notices;
use overrides::FollowedOverrides;
use rendering::Renderings;
use reporting::Reporting;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use views::{ConfigView, NodeView, PoolView};
use writer::{Key, Writer};

/// What the release and the command line say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
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

pub(crate) struct MachineConfigController {
    settings: Settings,
    objects: Objects,
    changed: Arc<Notify>,
    nodes: Arc<Followed<NodeView>>,
    pools: Arc<Followed<PoolView>>,
    configs: Arc<Followed<ConfigView>>,
    generating: Generating,
    renderings: Renderings,
    overrides: FollowedOverrides,
    drains: Drains,
    approvals: Approvals,
    etcd: EtcdMembers,
    /// How long nodes take, by the name of their pool.
    learned: BTreeMap<String, Learned>,
    writer: Arc<Writer>,
    reporting: Reporting,
    notices: Notices,
    /// `None` if they are not wanted.
    node_objects: Option<NodeObjects>,
}

fn node_kind() -> Kind {
    Kind::known("", "v1", "Node", "nodes", false)
}

/// The cluster as it is seen at one moment.
struct Seen {
    at: Instant,
    nodes: BTreeMap<String, Arc<NodeView>>,
    pools: BTreeMap<String, Arc<PoolView>>,
    configs: BTreeMap<String, Arc<ConfigView>>,
    /// In the order of `pools`.
    facts: Vec<PoolFacts>,
    /// Nodes that two pools of people claim, with the names of these.
    overlapping: Vec<(String, Vec<String>)>,
    /// What is to be said of nodes that no pool selects.
    without_pool: Vec<String>,
}

impl MachineConfigController {
    pub(crate) fn new(
        settings: Settings,
        querier: Querier,
        clients: &Arc<Clients>,
        (objects, events): (Objects, Events),
        stop: &CancellationToken,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let all = |kind| Selection::new(kind, "", Selector::All);
        MachineConfigController {
            nodes: Followed::start(clients, all(node_kind()), changed.clone(), stop.clone()),
            pools: Followed::start(clients, all(rendering::pool_kind()), changed.clone(), stop.clone()),
            configs: Followed::start(clients, all(rendering::kind()), changed.clone(), stop.clone()),
            generating: Generating::new(clients, &changed, stop),
            renderings: Renderings::default(),
            overrides: FollowedOverrides::new(clients.clone(), changed.clone(), stop.clone()),
            drains: Drains::new(clients.clone(), objects.clone(), changed.clone(), stop.clone()),
            approvals: Approvals::new(querier, changed.clone(), stop.clone()),
            etcd: EtcdMembers::new(clients.clone(), changed.clone(), stop.clone()),
            learned: BTreeMap::new(),
            writer: Writer::new(changed.clone()),
            reporting: Reporting::new(clients, changed.clone(), stop),
            notices: Notices::new(events),
            node_objects: settings.node_objects.then(|| NodeObjects::new(clients, changed.clone(), stop)),
            settings,
            objects,
            changed,
        }
    }

    /// Runs until `stop`, and answers whoever asks whether it does.
    pub(crate) async fn run(mut self, heartbeat: Arc<Heartbeat>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let deadline = self.tick(Timestamp::now());
            wait(&self.changed, deadline, &heartbeat, &stop).await;
        }
        self.writer.end().await;
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn tick(&mut self, now: Timestamp) -> Option<Instant> {
        let mut seen = self.look(now)?;
        self.etcd.add(&seen.pools, &mut seen.facts);
        let mut deadlines: Vec<Instant> = Vec::new();
        deadlines.extend(self.render(&seen, now));
        self.ask(&seen);
        self.learn(&seen, now);
        let rounds = rounds(&seen.facts, self.settings.ceiling, now);
        for ((pool, facts), round) in seen.pools.values().zip(&seen.facts).zip(&rounds) {
            self.publish(&pool.0, &seen);
            self.claim(seen.at, &pool.0, facts, round);
            self.tell(&seen, facts, round);
            self.record(seen.at, pool, facts);
            deadlines.extend(round.again.map(|again| until(again, now)));
        }
        self.drain(&seen, now);
        for (facts, round) in seen.facts.iter().zip(&rounds) {
            self.mark(&seen, facts, round, now);
        }
        self.collect(&seen);
        deadlines.extend(self.report(&seen, &rounds, now));
        self.notices.of_pools(&seen.pools, &rounds);
        self.notices.of_operator(self.reporting.seen());
        deadlines.extend(self.notices.of_nodes(&seen.nodes, now).map(|next| until(next, now)));
        if let Some(node_objects) = &mut self.node_objects {
            let by = (&self.objects, &self.writer);
            deadlines.extend(node_objects.update(&seen.facts, &seen.nodes, by, (seen.at, now)));
        }
        deadlines.extend(self.writer.next());
        deadlines.into_iter().min()
    }

    fn look(&self, now: Timestamp) -> Option<Seen> {
        let at = Instant::now();
        let (nodes, pools, configs) = (self.nodes.all()?, self.pools.all()?, self.configs.all()?);
        let objects: Vec<MachineConfigPool> = pools.values().map(|pool| (*pool.0).clone()).collect();
        let mut members: BTreeMap<String, Vec<NodeFacts>> = BTreeMap::new();
        let (mut overlapping, mut left) = (Vec::new(), Vec::new());
        for (name, node) in &nodes {
            match Membership::of(&node.labels, &objects) {
                Membership::Member { pool, .. } => members.entry(pool).or_default().push(node.facts.clone()),
                Membership::Overlapping(pools) => overlapping.push((name.clone(), pools)),
                Membership::Unmanaged => left.push((name.as_str(), &node.labels)),
            }
        }
        let without_pool = without_pool(left, &objects);
        let last: Vec<String> = self.settings.node.iter().cloned().collect();
        let facts = pools.iter().map(|(name, pool)| {
            let answer = self.approvals.answer(name, pool.query());
            pool_facts(&pool.0, members.remove(name).unwrap_or_default(), &answer, &last, now)
        });
        let facts = facts.collect();
        Some(Seen { at, facts, overlapping, without_pool, pools, configs, nodes })
    }

    /// Returns when there is something to be rendered that has not come to rest yet.
    fn render(&mut self, seen: &Seen, now: Timestamp) -> Option<Instant> {
        self.renderings.retain(&seen.pools);
        self.renderings.set_overrides(self.overrides.current(self.renderings.depends_on_overrides()));
        let defaults = &self.settings.defaults;
        let pools = (&seen.pools, seen.facts.as_slice());
        let needed = self.generating.needed(pools, &seen.configs, &defaults.controller_version)?;
        let by = (&self.objects, &self.writer);
        self.generating.store(&needed, (&self.configs, &seen.configs), by, seen.at);
        self.generating.say(&needed, &seen.configs, by, (seen.at, now));
        let ready = seen.pools.values().filter(|pool| !needed.is_pending(&pool.0, &seen.configs));
        ready.filter_map(|pool| self.renderings.update(&pool.0, &seen.configs, defaults)).min()
    }

    fn publish(&self, pool: &Arc<MachineConfigPool>, seen: &Seen) {
        let Some(publishing) = self.renderings.publishing(pool, &seen.configs) else { return };
        let write = publishing.run(self.objects.clone(), self.configs.clone(), self.pools.clone());
        self.writer.begin(pool_key(pool), seen.at, Duration::ZERO, write);
    }

    /// Asks the queries of the pools whose rollout is under way, and no others.
    fn ask(&mut self, seen: &Seen) {
        let pools = seen.pools.values().zip(&seen.facts).filter(|(_, facts)| approval::is_needed(facts));
        let queries = pools.filter_map(|(pool, facts)| {
            let query = pool.query()?;
            Some((facts.name.clone(), (query.to_owned(), approval::recorded(pool.annotations(), query))))
        });
        self.approvals.ask(queries.collect());
    }

    fn learn(&mut self, seen: &Seen, now: Timestamp) {
        self.learned.retain(|pool, _| seen.pools.contains_key(pool));
        for (pool, facts) in seen.pools.values().zip(&seen.facts) {
            let learned = self.learned.entry(facts.name.clone()).or_insert_with(|| Learned::of(pool.annotations()));
            learned.look(&facts.nodes, now);
        }
    }

    /// What the next process has to know of the pool's query.
    fn record(&self, seen: Instant, pool: &PoolView, facts: &PoolFacts) {
        let query = pool.query().filter(|_| approval::is_needed(facts));
        let answer = self.approvals.answer(&facts.name, query);
        let Some(patch) = approval::record(pool.version(), pool.annotations(), query, &answer) else { return };
        self.write_pool(seen, &pool.0, patch);
    }

    fn write_pool(&self, seen: Instant, pool: &MachineConfigPool, patch: Value) {
        let (objects, pools) = (self.objects.clone(), self.pools.clone());
        let name = pool.metadata.name.clone().unwrap_or_default();
        self.writer.begin(pool_key(pool), seen, Duration::ZERO, async move {
            pools.on_written(objects.merge_patch(&rendering::pool_kind(), "", &name, &patch).await?);
            Ok(())
        });
    }

    fn claim(&self, seen: Instant, pool: &Arc<MachineConfigPool>, facts: &PoolFacts, round: &Round) {
        let version = pool.metadata.resource_version.as_deref().unwrap_or_default();
        let durations = self.learned.get(&facts.name).and_then(Learned::record);
        let Some(patch) = writes::claims(version, facts, round, durations) else { return };
        self.write_pool(seen, pool, patch);
    }

    fn tell(&self, seen: &Seen, facts: &PoolFacts, round: &Round) {
        let topology = self.settings.topology.as_deref();
        for name in &round.begin {
            let Some(node) = seen.nodes.get(name) else { continue };
            let claim = facts.claimed.get(name);
            let about = (&node.facts, node.taints.as_slice());
            self.write_node(seen.at, name, writes::tell(&node.version, about, &facts.target, claim, topology));
        }
    }

    /// Marks nodes that wait, and remembers when others were done. A thousand of such writes must not keep any node from going on.
    fn mark(&self, seen: &Seen, facts: &PoolFacts, round: &Round, now: Timestamp) {
        if facts.paused || facts.target.config.is_empty() {
            return;
        }
        let remembers_end =
            !facts.soak.is_zero() || seen.pools.get(&facts.name).is_some_and(|pool| pool.query().is_some());
        for node in facts.nodes.iter().filter(|node| node.is_managed()) {
            let Some(view) = seen.nodes.get(&node.name) else { continue };
            // Whoever tells a node removes the taint in the same write.
            let next = [&round.begin, &round.claim].iter().any(|names| names.contains(&node.name))
                || facts.claimed.contains_key(&node.name);
            let waits = node.desired != facts.target && !next;
            if waits != writes::waits(&view.taints) && !next {
                self.write_mark(seen.at, &node.name, writes::taint(&view.version, &view.taints, waits));
            } else if remembers_end && node.is_at(&facts.target) && node.done_since.is_none() {
                self.write_mark(seen.at, &node.name, writes::done_since(&view.version, now));
            } else if let Some(config) = self.stage_ahead(seen, facts, round, node).filter(|_| !next) {
                self.write_mark(seen.at, &node.name, writes::stage_ahead(&view.version, config.as_deref()));
            }
        }
    }

    /// What the node is to prepare for before its turn comes; `None` if the annotation is as it should be.
    fn stage_ahead(&self, seen: &Seen, facts: &PoolFacts, round: &Round, node: &NodeFacts) -> Option<Option<String>> {
        let (asked, target) = (node.stage_ahead.as_ref(), &facts.target.config);
        let spec = |name: &str| seen.configs.get(name).map(|config| &config.0.spec);
        let downloads = || spec(&node.current.config).zip(spec(target)).is_some_and(|(old, new)| downloads(old, new));
        let waits = node.desired != facts.target;
        match asked {
            Some(asked) if asked == target && waits => None,
            _ if waits && round.next.contains(&node.name) && downloads() => Some(Some(target.clone())),
            Some(_) => Some(None),
            None => None,
        }
    }

    fn write_mark(&self, seen: Instant, name: &str, patch: Value) {
        if self.writer.has_room_for_marks() {
            self.write_node(seen, name, patch);
        }
    }

    fn write_node(&self, seen: Instant, name: &str, patch: Value) {
        self.write_node_as(CONTROLLER_MANAGER, seen, name, patch);
    }

    /// As a field manager of its own, so that the API server keeps when that was.
    fn begin_drain(&self, seen: Instant, name: &str, patch: Value) {
        self.write_node_as(DRAIN_MANAGER, seen, name, patch);
    }

    fn write_node_as(&self, manager: &'static str, seen: Instant, name: &str, patch: Value) {
        let (objects, nodes, node) = (self.objects.clone(), self.nodes.clone(), name.to_owned());
        self.writer.begin(Key::Node(name.to_owned()), seen, Duration::ZERO, async move {
            nodes.on_written(objects.merge_patch_as(manager, &node_kind(), "", &node, &patch).await?);
            Ok(())
        });
    }

    fn drain(&mut self, seen: &Seen, now: Timestamp) {
        let mut draining = BTreeSet::new();
        for (name, node) in &seen.nodes {
            let mut facts = node.drain.clone();
            facts.pods = self.drains.pods(node);
            let asked = facts.asked.clone().unwrap_or_default();
            match step(&facts) {
                Step::Nothing if node.will_ask() => {
                    draining.insert(name.clone());
                    self.drains.prepare(name);
                }
                Step::Nothing => {}
                Step::ForgetCordon => self.write_node(seen.at, name, writes::not_cordoned(&node.version)),
                Step::Cordon => {
                    let config = asked.split_once('-').map_or("", |(_, config)| config);
                    self.begin_drain(seen.at, name, writes::cordon(&node.version, config, now));
                }
                Step::Evict => {
                    draining.insert(name.clone());
                    self.drains.begin(node, node.draining.unwrap_or(Drain { started: now, failed: None }));
                    if node.draining.is_none() {
                        self.begin_drain(seen.at, name, writes::drain_started(&node.version, now));
                    }
                }
                Step::Answer { uncordon } => {
                    let uncordons = matches!(Request::parse(&asked), Ok(Request::Uncordon(_)));
                    if !uncordons {
                        // Until the answer is written pods may come back.
                        draining.insert(name.clone());
                    }
                    let done = uncordons.then_some(now);
                    let id = facts.asked_id.as_ref();
                    self.write_node(seen.at, name, writes::answer(&node.version, &asked, id, uncordon, done));
                }
                Step::Refuse(cause) => {
                    let cause = said(&cause);
                    if node.facts.drain_blocked.as_ref() != Some(&cause) {
                        self.write_node(seen.at, name, writes::drain_blocked(Some(&cause), None));
                    }
                }
            }
        }
        self.drains.retain(&draining);
    }

    /// Removes rendered configurations that nobody needs any more.
    fn collect(&self, seen: &Seen) {
        for config in rendering::unused(&seen.configs, &seen.pools, &seen.nodes) {
            let (objects, name) = (self.objects.clone(), config.name().to_owned());
            let uid = config.0.metadata.uid.clone().unwrap_or_default();
            let key = Key::Config(name.clone());
            self.writer.begin(key, seen.at, Duration::from_secs(10), async move {
                objects.delete(&rendering::kind(), "", &name, &uid).await.map(|_| ())
            });
        }
    }

    /// Returns when something is to be written that cannot be written yet.
    fn report(&mut self, seen: &Seen, rounds: &[Round], now: Timestamp) -> Option<Instant> {
        let mut summaries = Vec::new();
        let quorum = quorum(&seen.facts);
        let mut deadline = None;
        for ((pool, facts), round) in seen.pools.values().zip(&seen.facts).zip(rounds) {
            let error = self.renderings.error(&pool.0).or_else(|| self.generating.error());
            let remaining = self.learned.get(&facts.name).and_then(|learned| learned.remaining(facts, round, now));
            let quorum = quorum.clone().filter(|_| facts.name == MASTER);
            let told = (error.as_deref(), remaining);
            let status = reporting::pool_status(&pool.0, facts, round, told, quorum, now);
            let rendered = seen.configs.get(&pool.0.spec.configuration.name);
            summaries.push(reporting::summary(&pool.0, facts, &status, rendered, remaining, &self.settings));
            if pool.0.status.as_ref() == Some(&status) {
                continue;
            }
            match self.reporting.may_report(&facts.name) {
                Ok(()) => self.write_status(seen.at, &pool.0, &status),
                Err(later) => deadline = deadline.into_iter().chain([later]).min(),
            }
        }
        let overlaps = seen.overlapping.iter().map(|(node, pools)| {
            format!("node {node} is selected by the pools {}: change their nodeSelectors", pools.join(" and "))
        });
        let overlaps: Vec<String> = overlaps.collect();
        let facts = (summaries, overlaps, seen.without_pool.clone());
        let errors: BTreeMap<String, String> = self.writer.failures().into_iter().collect();
        self.reporting.operator(&self.settings, facts, &errors, (&self.objects, &self.writer), now);
        deadline
    }

    fn write_status(&mut self, seen: Instant, pool: &Arc<MachineConfigPool>, status: &impl serde::Serialize) {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let patch = serde_json::json!({
            "metadata": {"resourceVersion": pool.metadata.resource_version}, "status": status,
        });
        let (objects, pools, reported) = (self.objects.clone(), self.pools.clone(), self.reporting.reported(&name));
        self.writer.begin(pool_key(pool), seen, Duration::ZERO, async move {
            pools.on_written(objects.merge_patch_status(&rendering::pool_kind(), "", &name, &patch).await?);
            reported();
            Ok::<(), ApiError>(())
        });
    }
}

/// Why etcd could lose its quorum while the control plane's nodes are updated.
fn quorum(pools: &[PoolFacts]) -> Option<String> {
    let nodes = |name: &str| pools.iter().filter(|pool| pool.name == name).map(|pool| pool.nodes.len()).sum();
    let master = pools.iter().find(|pool| pool.name == MASTER)?;
    at_risk(master.max_unavailable.as_ref(), nodes)
}

fn pool_key(pool: &MachineConfigPool) -> Key {
    Key::Pool(pool.metadata.name.clone().unwrap_or_default())
}

/// Until something has changed, or is due.
async fn wait(changed: &Notify, deadline: Option<Instant>, heartbeat: &Heartbeat, stop: &CancellationToken) {
    let pause = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => std::future::pending().await,
        }
    };
    let mut pause = std::pin::pin!(pause);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed.notified() => return,
            () = &mut pause => return,
            () = heartbeat.asked() => heartbeat.answer(),
        }
    }
}

fn until(time: Timestamp, now: Timestamp) -> Instant {
    Instant::now() + Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_asks_while_nothing_happens_is_answered() {
        let (changed, heartbeat, stop) = (Notify::new(), Heartbeat::default(), CancellationToken::new());
        let asking = async {
            for _ in 0..3 {
                // Before the loop has begun there is nobody to answer.
                while heartbeat.check().await != Ok("ok") {
                    tokio::task::yield_now().await;
                }
            }
            changed.notify_one();
        };
        let both = async { tokio::join!(wait(&changed, None, &heartbeat, &stop), asking) };
        tokio::time::timeout(Duration::from_secs(20), both).await.expect("it answers, and ends when something changes");
    }
}
