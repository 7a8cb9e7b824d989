//! Renders the configuration of each pool when its inputs have come to rest, stores it, and makes it the pool's.

use super::followed::Followed;
use super::views::{ConfigView, NodeView, PoolView};
use crate::cluster::{ApiError, Kind, Objects};
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigPool, PoolConfiguration};
use crate::machine_config::inputs::is_input;
use crate::machine_config::reconcile;
use crate::machine_config::reconcile::{ReconcileError, StorageOverride};
use crate::machine_config::render::{Defaults, Rendered, generated_by, render};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whoever changes several MachineConfigs changes them one after the other. What lies in between is not what nodes should
/// have.
const REST: Duration = Duration::from_secs(1);
/// Whoever changes them all the time must not keep the pool from having any.
const LONGEST_REST: Duration = Duration::from_secs(10);
/// So many rendered MachineConfigs of a pool are kept besides those that are in use.
const KEPT: usize = 5;

pub(super) fn kind() -> Kind {
    Kind::known("machineconfiguration.openshift.io", "v1", "MachineConfig", "machineconfigs", false)
}

pub(super) fn pool_kind() -> Kind {
    Kind::known("machineconfiguration.openshift.io", "v1", "MachineConfigPool", "machineconfigpools", false)
}

pub(super) type Configs = BTreeMap<String, Arc<ConfigView>>;

/// What was rendered for a pool, and of what.
#[derive(Debug)]
pub(super) struct Output {
    pub rendered: Rendered,
    inputs: Vec<MachineConfig>,
}

/// The last rendering of a pool.
struct Rendering {
    /// The inputs, and since when they are so.
    inputs: Vec<Arc<ConfigView>>,
    since: Instant,
    /// Since when the outcome is not that of the inputs; `None` if it is.
    outdated: Option<Instant>,
    /// `None` until some inputs have come to rest.
    outcome: Option<Result<Arc<Output>, String>>,
}

/// Why the nodes of a pool cannot be taken to what was rendered.
struct Refused {
    /// The rendered configuration, and the one that the pool has.
    rendered: String,
    before: String,
    /// As it is without any override.
    error: ReconcileError,
}

/// The last refusal of each pool.
type Refusals = Arc<Mutex<BTreeMap<String, Refused>>>;

/// Which exceptions administrators have made, as far as that is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Overrides {
    /// They have not been read; the reason, if there is one.
    Unknown(Option<String>),
    Known(BTreeSet<StorageOverride>),
}

/// Whether a pool may have what was rendered for it.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Nodes have not been compared with it.
    Open,
    /// It depends on exceptions that have not been read yet.
    Waits,
    Refused(String),
    /// Only because of the exceptions.
    Exempted,
}

/// Whether the same is rendered of them: what else changes at a MachineConfig does not count.
fn is_same(before: &[Arc<ConfigView>], now: &[&Arc<ConfigView>]) -> bool {
    let labels = |config: &ConfigView| (config.0.metadata.labels.clone(), generated_by(&config.0).map(str::to_owned));
    let version = |config: &ConfigView| config.0.metadata.resource_version.clone();
    let same = |before: &ConfigView, now: &ConfigView| {
        let rendered = || before.0.spec == now.0.spec && labels(before) == labels(now);
        before.name() == now.name() && (version(before) == version(now) || rendered())
    };
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| same(before, now))
}

pub(super) struct Renderings {
    pools: BTreeMap<String, Rendering>,
    refused: Refusals,
    overrides: Overrides,
}

impl Default for Renderings {
    fn default() -> Self {
        Renderings { pools: BTreeMap::new(), refused: Refusals::default(), overrides: Overrides::Unknown(None) }
    }
}

impl Renderings {
    /// Forgets pools that are gone, and refusals of what is not to be published any more.
    pub(super) fn retain(&mut self, pools: &BTreeMap<String, Arc<PoolView>>) {
        self.pools.retain(|name, _| pools.contains_key(name));
        // Also while newer inputs come to rest.
        let rendered = |name: &str| {
            let last = self.pools.get(name)?.outcome.as_ref()?;
            last.as_ref().ok().map(|output| output.rendered.name.clone())
        };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|name, refused| {
            let before = pools.get(name).map(|pool| pool.0.spec.configuration.name.as_str());
            before == Some(refused.before.as_str()) && rendered(name).as_ref() == Some(&refused.rendered)
        });
    }

    /// Whether a pool is refused what an exception may allow, so that the exceptions have to be followed.
    pub(super) fn depends_on_overrides(&self) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.values().any(|refused| refused.error.may_be_exempted())
    }

    pub(super) fn set_overrides(&mut self, overrides: Overrides) {
        self.overrides = overrides;
    }

    fn verdict(&self, pool: &MachineConfigPool, output: &Output) -> Verdict {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |refused: &&Refused| {
            refused.rendered == output.rendered.name && refused.before == pool.spec.configuration.name
        };
        let Some(refused) = refused.get(name).filter(is_it) else { return Verdict::Open };
        match &self.overrides {
            Overrides::Unknown(None) if refused.error.may_be_exempted() => Verdict::Waits,
            Overrides::Unknown(Some(cause)) if refused.error.may_be_exempted() => {
                Verdict::Refused(format!("{}; which exceptions are allowed cannot be read: {cause}", refused.error))
            }
            Overrides::Unknown(_) => Verdict::Refused(refused.error.to_string()),
            Overrides::Known(overrides) => match refused.error.clone().without(overrides) {
                Some(error) => Verdict::Refused(error.to_string()),
                None => Verdict::Exempted,
            },
        }
    }

    /// Renders the pool anew if its inputs have changed and come to rest; returns when they will have.
    pub(super) fn update(
        &mut self,
        pool: &MachineConfigPool,
        configs: &Configs,
        defaults: &Defaults,
    ) -> Option<Instant> {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let selected: Vec<&Arc<ConfigView>> = configs.values().filter(|config| is_input(pool, &config.0)).collect();
        let now = Instant::now();
        let rendering = self.pools.entry(name.clone()).or_insert_with(|| Rendering {
            inputs: selected.iter().copied().cloned().collect(),
            since: now,
            outdated: Some(now),
            outcome: None,
        });
        if !is_same(&rendering.inputs, &selected) {
            rendering.since = now;
            rendering.outdated.get_or_insert(now);
        }
        rendering.inputs = selected.iter().copied().cloned().collect();
        let outdated = rendering.outdated?;
        let rested = (rendering.since + REST).min(outdated + LONGEST_REST);
        if rested > now {
            return Some(rested);
        }
        let inputs: Vec<MachineConfig> = selected.iter().map(|config| (*config.0).clone()).collect();
        let outcome = render(&name, &inputs, defaults);
        if let Ok(rendered) = &outcome {
            tracing::info!(pool = name, config = rendered.name, warnings = ?rendered.warnings, "rendered");
        }
        let outcome = outcome.map(|rendered| Arc::new(Output { rendered, inputs })).map_err(|e| e.to_string());
        (rendering.outcome, rendering.outdated) = (Some(outcome), None);
        None
    }

    /// What the pool should have.
    pub(super) fn output(&self, pool: &str) -> Option<Arc<Output>> {
        let rendering = self.pools.get(pool).filter(|rendering| rendering.outdated.is_none())?;
        rendering.outcome.as_ref()?.as_ref().ok().cloned()
    }

    /// Why the pool has no configuration of its inputs, those that came to rest last.
    pub(super) fn error(&self, pool: &MachineConfigPool) -> Option<String> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        match self.pools.get(name)?.outcome.as_ref()? {
            Err(error) => Some(error.clone()),
            Ok(output) => match self.verdict(pool, output) {
                Verdict::Refused(error) => Some(error),
                Verdict::Open | Verdict::Waits | Verdict::Exempted => None,
            },
        }
    }

    /// What is to be written so that the pool has its rendered configuration, if anything is.
    pub(super) fn publishing(&self, pool: &Arc<MachineConfigPool>, configs: &Configs) -> Option<Publishing> {
        let output = self.output(pool.metadata.name.as_deref()?)?;
        let exempted = match self.verdict(pool, &output) {
            Verdict::Refused(_) | Verdict::Waits => return None,
            Verdict::Exempted => true,
            Verdict::Open => false,
        };
        let live = configs.get(&output.rendered.name);
        let annotations = live.and_then(|live| live.0.metadata.annotations.as_ref());
        let annotated = annotations
            .is_some_and(|live| output.rendered.annotations.iter().all(|(key, value)| live.get(key) == Some(value)));
        let configuration =
            PoolConfiguration { name: output.rendered.name.clone(), source: output.rendered.source.clone() };
        let configured = pool.spec.configuration == configuration;
        let exists = live.is_some();
        let needed = !exists || !annotated || !configured;
        let refused = self.refused.clone();
        let pool = pool.clone();
        needed.then_some(Publishing { pool, output, exists, annotated, configured, configuration, exempted, refused })
    }
}

/// A rendered configuration on its way to its pool.
pub(super) struct Publishing {
    pool: Arc<MachineConfigPool>,
    output: Arc<Output>,
    exists: bool,
    annotated: bool,
    configured: bool,
    configuration: PoolConfiguration,
    /// Nodes have been compared with it, and an exception allows what they cannot follow.
    exempted: bool,
    refused: Refusals,
}

impl Publishing {
    /// First the MachineConfig, then the pool: what the pool names always exists.
    pub(super) async fn run(
        self,
        objects: Objects,
        configs: Arc<Followed<ConfigView>>,
        pools: Arc<Followed<PoolView>>,
    ) -> Result<(), ApiError> {
        let rendered = &self.output.rendered;
        if !self.configured && !self.exempted && self.is_refused(&objects).await? {
            return Ok(());
        }
        if !self.exists {
            let mut object = rendered.object();
            object.metadata.owner_references = Some(vec![self.owner()]);
            match objects.create(&kind(), "", &json!(object)).await {
                Ok(created) => told(&configs, created),
                // The watch has not told of it yet.
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        } else if !self.annotated {
            let patch = json!({"metadata": {"annotations": rendered.annotations}});
            configs.on_written(objects.merge_patch(&kind(), "", &rendered.name, &patch).await?);
        }
        if !self.configured {
            let name = self.pool.metadata.name.as_deref().unwrap_or_default();
            let patch = json!({
                "metadata": {"resourceVersion": self.pool.metadata.resource_version},
                "spec": {"configuration": self.configuration},
            });
            pools.on_written(objects.merge_patch(&pool_kind(), "", name, &patch).await?);
        }
        Ok(())
    }

    /// Whether running nodes cannot follow, which is remembered until the pool is to have something else.
    async fn is_refused(&self, objects: &Objects) -> Result<bool, ApiError> {
        let before = &self.pool.spec.configuration.name;
        let rendered = &self.output.rendered;
        if before.is_empty() || *before == rendered.name {
            return Ok(false);
        }
        // One that somebody has deleted says nothing.
        let Some(live) = objects.get(&kind(), "", before).await? else { return Ok(false) };
        let Ok(live) = serde_json::from_value::<MachineConfig>(live) else { return Ok(false) };
        let new = (rendered.name.as_str(), &rendered.spec);
        let Err(error) = reconcile::check((before, &live.spec), new, &self.output.inputs, &BTreeSet::new()) else {
            return Ok(false);
        };
        let name = self.pool.metadata.name.clone().unwrap_or_default();
        let refused = Refused { rendered: rendered.name.clone(), before: before.clone(), error };
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(name, refused);
        Ok(true)
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: "machineconfiguration.openshift.io/v1".to_owned(),
            kind: "MachineConfigPool".to_owned(),
            name: self.pool.metadata.name.clone().unwrap_or_default(),
            uid: self.pool.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

pub(super) fn told(configs: &Followed<ConfigView>, created: serde_json::Value) {
    if let Ok(created) = serde_json::from_value(created) {
        configs.on_written(created);
    }
}

/// Rendered MachineConfigs that nobody needs any more, by name and uid: no pool and no node has, should have or had one of
/// them lately.
pub(super) fn unused<'a>(
    configs: &'a Configs,
    pools: &BTreeMap<String, Arc<PoolView>>,
    nodes: &BTreeMap<String, Arc<NodeView>>,
) -> Vec<&'a ConfigView> {
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for pool in pools.values() {
        used.insert(&pool.0.spec.configuration.name);
        used.extend(pool.0.status.as_ref().map(|status| status.configuration.name.as_str()));
    }
    for node in nodes.values() {
        used.extend([node.facts.current.config.as_str(), node.facts.desired.config.as_str()]);
    }
    let mut by_pool: BTreeMap<&str, Vec<&ConfigView>> = BTreeMap::new();
    for config in configs.values() {
        if let Some(pool) = config.rendered_for().filter(|_| !used.contains(config.name())) {
            by_pool.entry(pool).or_default().push(config);
        }
    }
    let mut unused = Vec::new();
    for mut configs in by_pool.into_values() {
        configs
            .sort_by_key(|config| std::cmp::Reverse(config.0.metadata.creation_timestamp.clone().map(|time| time.0)));
        unused.extend(configs.into_iter().skip(KEPT));
    }
    unused
}

#[cfg(test)]
mod tests;
