//! Renders the configuration of each pool when its inputs have come to rest, stores it, and makes it the pool's.

use super::followed::Followed;
use super::views::{ConfigView, NodeView, PoolView};
use crate::api::machine_config::{MachineConfig, MachineConfigPool, PoolConfiguration};
use crate::cluster::{ApiError, Kind, Objects};
use crate::pools::inputs::is_input;
use crate::pools::reconcile;
use crate::pools::render::{Defaults, Rendered, render};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whoever changes several MachineConfigs changes them one after the other. What lies in between is not what nodes should
/// have.
const REST: Duration = Duration::from_secs(1);
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
    /// Names and versions of the inputs, and since when they are so.
    inputs: Vec<(String, String)>,
    since: Instant,
    /// `None` until these inputs have come to rest.
    outcome: Option<Result<Arc<Output>, String>>,
}

#[derive(Default)]
pub(super) struct Renderings {
    pools: BTreeMap<String, Rendering>,
    /// Why nodes cannot be taken to what was rendered, by its name and what they have.
    refused: Arc<Mutex<BTreeMap<(String, String), String>>>,
}

impl Renderings {
    /// Renders the pool anew if its inputs have changed and come to rest; returns when they will have.
    pub(super) fn update(
        &mut self,
        pool: &MachineConfigPool,
        configs: &Configs,
        defaults: &Defaults,
    ) -> Option<Instant> {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let selected: Vec<&Arc<ConfigView>> = configs.values().filter(|config| is_input(pool, &config.0)).collect();
        let version = |config: &ConfigView| config.0.metadata.resource_version.clone().unwrap_or_default();
        let inputs: Vec<(String, String)> =
            selected.iter().map(|config| (config.name().to_owned(), version(config))).collect();
        let now = Instant::now();
        let rendering = self.pools.entry(name.clone()).or_insert_with(|| Rendering {
            inputs: inputs.clone(),
            since: now,
            outcome: None,
        });
        if rendering.inputs != inputs {
            *rendering = Rendering { inputs, since: now, outcome: None };
        }
        if rendering.outcome.is_some() {
            return None;
        }
        let rested = rendering.since + REST;
        if rested > now {
            return Some(rested);
        }
        let inputs: Vec<MachineConfig> = selected.iter().map(|config| (*config.0).clone()).collect();
        let outcome = render(&name, &inputs, defaults);
        if let Ok(rendered) = &outcome {
            tracing::info!(pool = name, config = rendered.name, warnings = ?rendered.warnings, "rendered");
        }
        let outcome = outcome.map(|rendered| Arc::new(Output { rendered, inputs })).map_err(|e| e.to_string());
        rendering.outcome = Some(outcome);
        None
    }

    /// What the pool should have.
    pub(super) fn output(&self, pool: &str) -> Option<Arc<Output>> {
        self.pools.get(pool)?.outcome.as_ref()?.as_ref().ok().cloned()
    }

    /// Why the pool has no configuration of its present inputs.
    pub(super) fn error(&self, pool: &MachineConfigPool) -> Option<String> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        match self.pools.get(name)?.outcome.as_ref()? {
            Err(error) => Some(error.clone()),
            Ok(output) => {
                let key = (output.rendered.name.clone(), pool.spec.configuration.name.clone());
                self.refused.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
            }
        }
    }

    /// What is to be written so that the pool has its rendered configuration, if anything is.
    pub(super) fn publishing(&self, pool: &Arc<MachineConfigPool>, configs: &Configs) -> Option<Publishing> {
        let output = self.output(pool.metadata.name.as_deref()?)?;
        if self.error(pool).is_some() {
            return None;
        }
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
        needed.then_some(Publishing { pool, output, exists, annotated, configured, configuration, refused })
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
    refused: Arc<Mutex<BTreeMap<(String, String), String>>>,
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
        if !self.configured && self.is_refused(&objects).await? {
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

    /// Whether running nodes cannot follow, which is remembered.
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
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.clear();
        refused.insert((rendered.name.clone(), before.clone()), error.to_string());
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
