//! What the API server has of a pool, its nodes and its MachineConfigs, and what becomes of it when controllers write.
//!
//! A decision must not delete what is used, must not move pods away from a node that is not cordoned, and must begin one write
//! at most for each object. A node is told only what was made, after it was claimed, and then neither waits nor prepares for
//! anything any more; one that somebody else has cordoned is neither taken for the controller's own nor uncordoned. A write that
//! is not outdated changes something. A pool is not given what its nodes cannot follow.

use super::controller::{Begun, Controller, Nodes};
use super::machine::Machine;
use super::objects::{Outcome, patch_pool};
use super::tally::Tally;
use anyhow::{Context, bail, ensure};
use cvo::testing::api::machine_config::{
    GROUP, MachineConfig, MachineConfigPool, MachineConfigPoolSpec, MachineConfigSpec, annotation as key,
};
use cvo::testing::pools::decide::{Action, Content, Decision, Overrides, Pods, RenderedConfig, Seen, Settings};
use cvo::testing::pools::node::Target;
use cvo::testing::pools::reconcile::StorageOverride;
use cvo::testing::pools::render;
use cvo::testing::pools::views::{ConfigView, NodeView, PoolView};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pool, and the label of its nodes and of what it is rendered of.
pub const POOL: &str = "worker";
const LABEL: &str = "node-role.kubernetes.io/worker";
/// The MachineConfig that administrators change.
const INPUT: &str = "50-input";
/// The taint of nodes that wait for their turn.
const WAITING: &str = "UpdateInProgress";
/// More writes than this are never under way at the same time.
const MOST: usize = 32;
/// Rendered MachineConfigs that are kept although nobody has them.
const KEPT: usize = 5;

pub struct Cluster {
    pub settings: Settings,
    pub nodes: Vec<Machine>,
    views: Nodes,
    pool: MachineConfigPool,
    pool_view: Arc<PoolView>,
    configs: BTreeMap<String, Arc<MachineConfig>>,
    config_views: BTreeMap<String, Arc<ConfigView>>,
    /// MachineConfigs that were deleted. Whoever has decided that a while ago may take away what the pool has again; it is made
    /// anew then.
    deleted: BTreeSet<String>,
    /// Which changes of storage administrators allow.
    pub overrides: Overrides,
    /// How often anything has changed.
    pub revision: u64,
    /// What the pool is to have of each configuration.
    targets: BTreeMap<usize, Target>,
    number: usize,
}

/// The configuration of this number: some have another operating system, and some have disks, which running nodes cannot be given.
fn input(number: usize) -> MachineConfigSpec {
    let storage = match has_disks(number) {
        true => json!({"disks": [{"device": "/dev/sdb", "wipeTable": true}]}),
        false => json!({}),
    };
    MachineConfigSpec {
        config: json!({"ignition": {"version": "3.5.0"}, "storage": storage}),
        os_image_url: format!("registry.invalid/os@sha256:{}", number % 3),
        kernel_arguments: vec![format!("number={number}")],
        ..MachineConfigSpec::default()
    }
}

pub fn has_disks(number: usize) -> bool {
    number % 8 == 5
}

fn name_of(config: &MachineConfig) -> &str {
    config.metadata.name.as_deref().unwrap_or_default()
}

fn disks(config: &MachineConfig) -> Option<&Value> {
    config.spec.config.pointer("/storage/disks")
}

fn at(name: &str) -> anyhow::Result<usize> {
    name.strip_prefix('n').and_then(|number| number.parse().ok()).with_context(|| format!("no node: {name}"))
}

impl Cluster {
    /// One without nodes, whose pool has no configuration yet.
    pub fn new(settings: Settings, max_unavailable: IntOrString, soak: SignedDuration) -> Self {
        let labels = |key: &str| LabelSelector {
            match_labels: Some([(key.to_owned(), String::new())].into()),
            ..LabelSelector::default()
        };
        let spec = MachineConfigPoolSpec {
            node_selector: Some(labels(LABEL)),
            machine_config_selector: Some(labels(LABEL)),
            max_unavailable: Some(max_unavailable),
            ..MachineConfigPoolSpec::default()
        };
        let mut pool = MachineConfigPool::new(POOL, spec);
        let soak = (!soak.is_zero()).then(|| (format!("{GROUP}/soak"), format!("{soak:#}")));
        pool.metadata.annotations = Some(soak.into_iter().collect());
        let mut cluster = Cluster {
            settings,
            nodes: Vec::new(),
            views: Nodes::new(),
            pool_view: Arc::new(PoolView::of(pool.clone())),
            pool,
            configs: BTreeMap::new(),
            config_views: BTreeMap::new(),
            deleted: BTreeSet::new(),
            overrides: Overrides::Known(BTreeSet::new()),
            revision: 0,
            targets: BTreeMap::new(),
            number: 0,
        };
        cluster.change_pool(|_| {});
        cluster.configure(0);
        cluster
    }

    /// Nodes that have the configuration of the pool.
    pub fn add_node(&mut self, created: Timestamp, zone: Option<String>) {
        let name = format!("n{}", self.nodes.len());
        let machine = Machine::new(&name, LABEL, &self.pool.spec.configuration.name, created, zone);
        self.views.insert(name, machine.view().clone());
        self.nodes.push(machine);
        self.revision += 1;
    }

    /// Something happens to a node.
    pub fn change<T>(&mut self, at: usize, change: impl FnOnce(&mut Machine) -> T) -> Option<T> {
        let machine = self.nodes.get_mut(at)?;
        let result = change(machine);
        if let Some(view) = self.views.get_mut(&machine.view().facts.name)
            && !Arc::ptr_eq(view, machine.view())
        {
            *view = machine.view().clone();
            self.revision += 1;
        }
        Some(result)
    }

    /// The same for all nodes that are so.
    pub fn change_all(&mut self, wanted: impl Fn(&Machine) -> bool, change: impl Fn(&mut Machine)) {
        for at in 0..self.nodes.len() {
            if self.nodes.get(at).is_some_and(&wanted) {
                self.change(at, &change);
            }
        }
    }

    fn change_pool(&mut self, change: impl FnOnce(&mut MachineConfigPool)) {
        change(&mut self.pool);
        self.revision += 1;
        self.pool.metadata.resource_version = Some(self.revision.to_string());
        self.pool_view = Arc::new(PoolView::of(self.pool.clone()));
    }

    pub fn pause(&mut self, paused: bool) {
        if self.pool.spec.paused != paused {
            self.change_pool(|pool| pool.spec.paused = paused);
        }
    }

    pub fn is_paused(&self) -> bool {
        self.pool.spec.paused
    }

    /// The pool is to have the configuration of this number.
    pub fn configure(&mut self, number: usize) {
        let mut config = MachineConfig::new(INPUT, input(number));
        config.metadata.labels = Some([(LABEL.to_owned(), String::new())].into());
        if !self.targets.contains_key(&number) {
            let rendered = render::render(POOL, std::slice::from_ref(&config), &self.settings.defaults);
            let name = rendered.map(|rendered| rendered.name).unwrap_or_default();
            self.targets.insert(number, Target::new(&name));
        }
        self.number = number;
        self.store(config, Timestamp::UNIX_EPOCH);
    }

    fn store(&mut self, mut config: MachineConfig, now: Timestamp) {
        self.revision += 1;
        let version = self.revision.to_string();
        config.metadata.resource_version = Some(version.clone());
        config.metadata.uid.get_or_insert(version);
        config.metadata.creation_timestamp.get_or_insert(Time(now));
        let name = name_of(&config).to_owned();
        self.config_views.insert(name.clone(), Arc::new(ConfigView::of(config.clone())));
        self.configs.insert(name, Arc::new(config));
    }

    /// What the pool is to have by the last word of administrators, and what it is to be rendered as.
    pub fn target(&self) -> Target {
        self.targets.get(&self.number).cloned().unwrap_or_default()
    }

    pub fn is_configured(&self) -> bool {
        self.pool.spec.configuration.name == self.target().config
    }

    /// Whether the nodes of the pool have disks that others have not.
    pub fn has_disks(&self) -> bool {
        let of_pool = |target: &Target| target.config == self.pool.spec.configuration.name;
        self.targets.iter().any(|(number, target)| has_disks(*number) && of_pool(target))
    }

    pub fn seen(&self, controller: &mut Controller, now: Timestamp) -> Seen {
        let reported = controller.reported.map(|at| (POOL.to_owned(), now.duration_since(at)));
        let mut seen = Seen::default();
        seen.nodes.clone_from(&self.views);
        seen.pools.insert(POOL.to_owned(), self.pool_view.clone());
        seen.configs.clone_from(&self.config_views);
        seen.contents = std::mem::take(&mut controller.contents);
        seen.overrides = controller.overrides(&self.overrides);
        seen.pods = controller.pods(&self.views);
        seen.reported.extend(reported);
        seen.room = controller.room();
        seen
    }

    /// What must be true of each decision.
    pub fn check(seen: &Seen, decision: &Decision) -> anyhow::Result<()> {
        for (name, pods) in &decision.pods {
            let cordoned = seen.nodes.get(name).is_some_and(|node| node.facts.unschedulable);
            ensure!(cordoned || !matches!(pods, Pods::Evict(_)), "pods leave node {name}, which is not cordoned");
        }
        let mut keys = seen.room.busy.clone();
        for action in &decision.actions {
            if let Some(key) = action.key() {
                ensure!(keys.insert(key), "it is being written already: {action:?}");
            }
            if let Action::WriteNode { name, patch, .. } = action {
                ensure!(!tells(patch) || may_be_told(seen, name), "node {name} is told and was not claimed");
            }
            if let Action::DeleteConfig { name, .. } = action {
                let of_pool = |pool: &Arc<PoolView>| pool.0.spec.configuration.name == *name;
                let of_node =
                    |node: &Arc<NodeView>| node.facts.current.config == *name || node.facts.desired.config == *name;
                let used = seen.pools.values().any(of_pool) || seen.nodes.values().any(of_node);
                ensure!(!used, "{name} is deleted and used");
                ensure!(
                    !decision.actions.iter().any(|other| gives(other, name)),
                    "{name} is deleted and given to the pool"
                );
            }
        }
        let begun = keys.len();
        ensure!(begun <= seen.room.under_way.max(MOST) + 1, "{begun} writes are under way");
        Ok(())
    }

    /// A write arrives; returns the number of the node that it is about.
    pub fn land(
        &mut self,
        controller: &mut Controller,
        begun: Begun,
        tally: &mut Tally,
        now: Timestamp,
    ) -> anyhow::Result<Option<usize>> {
        controller.woken = true;
        let Begun { action, version, overrides } = begun;
        match action {
            Action::WriteNode { name, patch, .. } => {
                let written = self.write_node(&name, &patch, version.as_deref(), tally);
                return written.with_context(|| format!("{name}: {patch}")).map(Some);
            }
            Action::WritePool { patch, .. } => {
                self.write_pool(&patch, &overrides, tally)?;
            }
            Action::WritePoolStatus { version, status, .. } => {
                if self.pool.metadata.resource_version.as_ref() == Some(&version) {
                    ensure!(self.pool.status.as_ref() != Some(&status), "nothing changes: {status:?}");
                    self.change_pool(|pool| pool.status = Some(status));
                    controller.reported = Some(now);
                }
            }
            Action::ReadConfig { pool, name } => {
                let config = self.configs.get(&name).cloned();
                controller.contents.insert(pool, Content { name, config });
            }
            Action::Publish { config, patch, .. } => {
                match config {
                    Some(RenderedConfig::Create(config)) if !self.configs.contains_key(name_of(&config)) => {
                        self.store(*config, now);
                    }
                    Some(RenderedConfig::Create(_)) | None => {}
                    Some(RenderedConfig::Annotate { .. }) => bail!("nobody else annotates what is rendered"),
                }
                patch.map(|patch| self.write_pool(&patch, &overrides, tally)).transpose()?;
            }
            Action::DeleteConfig { name, uid } => {
                if self.configs.get(&name).is_some_and(|config| config.metadata.uid.as_ref() == Some(&uid)) {
                    self.configs.remove(&name);
                    self.config_views.remove(&name);
                    self.deleted.insert(name);
                    self.revision += 1;
                    tally.collected += 1;
                }
            }
            other => bail!("nothing like that is expected: {other:?}"),
        }
        Ok(None)
    }

    /// Some pods leave the node; returns how many are left.
    pub fn evict(&mut self, name: &str, number: usize) -> anyhow::Result<usize> {
        let node = self.nodes.get_mut(at(name)?).context("no such node")?;
        node.pods = node.pods.saturating_sub(number);
        Ok(node.pods)
    }

    fn write_node(
        &mut self,
        name: &str,
        patch: &Value,
        seen: Option<&str>,
        tally: &mut Tally,
    ) -> anyhow::Result<usize> {
        let at = at(name)?;
        let before = self.views.get(name).cloned().context("no such node")?;
        let outcome = self.change(at, |machine| machine.patch(patch)).context("no such node")??;
        let node = self.views.get(name).cloned().context("no such node")?;
        match outcome {
            Outcome::Refused => {
                tally.refused += 1;
                return Ok(at);
            }
            Outcome::Same => {
                ensure!(seen != Some(&before.version), "nothing changes");
                return Ok(at);
            }
            Outcome::Changed => {}
        }
        let waits = |node: &NodeView| node.taints.iter().any(|taint| taint.key == WAITING);
        let (was, is) = (&before.facts, &node.facts);
        if was.desired != is.desired || was.told_for != is.told_for {
            tally.told += 1;
            ensure!(self.is_made(&is.desired.config), "it is told what was never made");
            ensure!(!waits(&node) && is.stage_ahead.is_none(), "it is told, and still waits or prepares");
        }
        let foreign = was.unschedulable && !was.cordoned_for_update;
        ensure!(!foreign || is.unschedulable && !is.cordoned_for_update, "somebody else has cordoned it");
        tally.marked += usize::from(waits(&node) && !waits(&before));
        tally.prepared += usize::from(is.stage_ahead.is_some() && was.stage_ahead != is.stage_ahead);
        Ok(at)
    }

    fn write_pool(&mut self, patch: &Value, overrides: &Overrides, tally: &mut Tally) -> anyhow::Result<()> {
        let before = self.pool.spec.configuration.name.clone();
        let mut pool = self.pool.clone();
        match patch_pool(&mut pool, patch)? {
            Outcome::Refused => tally.refused += 1,
            Outcome::Same => bail!("nothing changes: {patch}"),
            Outcome::Changed => self.change_pool(|place| *place = pool),
        }
        let name = &self.pool.spec.configuration.name;
        ensure!(self.is_made(name), "the pool is given what was never made: {name}");
        if let Some((before, config)) = self.configs.get(&before).zip(self.configs.get(name))
            && disks(before) != disks(config)
        {
            let exempted = |known: &BTreeSet<StorageOverride>| known.contains(&StorageOverride::Disks);
            ensure!(
                matches!(overrides, Overrides::Known(known) if exempted(known)),
                "nodes cannot be taken from {} to {name}",
                name_of(before)
            );
            tally.exempted += 1;
        }
        Ok(())
    }

    fn is_made(&self, config: &str) -> bool {
        self.configs.contains_key(config) || self.deleted.contains(config)
    }

    /// What is left over when everything is at rest.
    pub fn leftovers(&self) -> anyhow::Result<()> {
        for node in self.views.values() {
            let name = &node.facts.name;
            ensure!(!node.taints.iter().any(|taint| taint.key == WAITING), "node {name} still waits");
            ensure!(node.facts.stage_ahead.is_none(), "node {name} still prepares for something");
        }
        let claimed = claimed(&self.pool);
        ensure!(claimed.is_none(), "still claimed: {claimed:?}");
        ensure!(self.configs.contains_key(&self.pool.spec.configuration.name), "the pool has what does not exist");
        let rendered = self.configs.keys().filter(|name| *name != INPUT).count();
        ensure!(rendered <= KEPT + 1, "{rendered} rendered MachineConfigs are left");
        let status = self.pool.status.clone().unwrap_or_default();
        let updated = usize::try_from(status.updated_machine_count).ok();
        ensure!(updated == Some(self.nodes.len()), "the status is outdated: {status:?}");
        Ok(())
    }
}

/// Whether it tells a node what to take.
fn tells(patch: &Value) -> bool {
    let annotations = patch.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.is_some_and(|annotations| annotations.contains_key(&format!("{GROUP}/{}", key::DESIRED_CONFIG)))
}

/// It has been claimed, or an update of it is under way.
fn may_be_told(seen: &Seen, node: &str) -> bool {
    let under_way = seen.nodes.get(node).is_some_and(|node| node.facts.is_changing() || node.facts.is_failing());
    let names = |pool: &Arc<PoolView>| claimed(&pool.0).is_some_and(|claims| claims.contains(&format!("{node:?}:")));
    under_way || seen.pools.values().any(names)
}

fn claimed(pool: &MachineConfigPool) -> Option<&String> {
    pool.metadata.annotations.as_ref()?.get(&format!("{GROUP}/claimed"))
}

/// Whether it makes this the configuration of a pool.
fn gives(action: &Action, name: &str) -> bool {
    let Action::Publish { patch: Some(patch), .. } = action else { return false };
    patch.pointer("/spec/configuration/name").and_then(Value::as_str) == Some(name)
}
