//! What each pool should have: its configuration is rendered when its inputs have come to rest, and becomes the pool's if running
//! nodes can be taken to it.

use super::{Action, RenderedConfig, Seen, Turn};
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigPool, PoolConfiguration};
use crate::machine_config::inputs::is_input;
use crate::machine_config::reconcile::{self, ReconcileError, StorageOverride};
use crate::machine_config::render::{Defaults, Rendered, generated_by, render};
use crate::machine_config::views::{ConfigView, NodeView, PoolView};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whoever changes several MachineConfigs changes them one after the other. What lies in between is not what nodes should
/// have.
const REST: SignedDuration = SignedDuration::from_secs(1);
/// Whoever changes them all the time must not keep the pool from having any.
const LONGEST_REST: SignedDuration = SignedDuration::from_secs(10);
/// So many rendered MachineConfigs of a pool are kept besides those that are in use.
const KEPT: usize = 5;

pub(super) type Configs = BTreeMap<String, Arc<ConfigView>>;

/// Which exceptions administrators have made, as far as that is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Overrides {
    /// They have not been read; the reason, if there is one.
    Unknown(Option<String>),
    Known(BTreeSet<StorageOverride>),
}

impl Default for Overrides {
    fn default() -> Self {
        Overrides::Unknown(None)
    }
}

/// A MachineConfig that was read with its content.
#[derive(Clone, Debug)]
pub struct Content {
    pub name: String,
    /// `None` if there is none, or none that can be understood.
    pub config: Option<Arc<MachineConfig>>,
}

/// What was rendered for a pool, and of what.
#[derive(Debug)]
struct Output {
    rendered: Rendered,
    inputs: Vec<MachineConfig>,
}

/// The last rendering of a pool.
#[derive(Debug)]
struct Rendering {
    /// The inputs, and since when they are so.
    inputs: Vec<Arc<ConfigView>>,
    since: Timestamp,
    /// Since when the outcome is not that of the inputs; `None` if it is.
    outdated: Option<Timestamp>,
    /// `None` until some inputs have come to rest.
    outcome: Option<Result<Arc<Output>, String>>,
}

/// Whether the nodes of a pool can be taken to what was rendered.
#[derive(Debug)]
struct Compared {
    /// The rendered configuration, and the one that the pool has.
    rendered: String,
    before: String,
    /// Why they cannot, without any override.
    error: Option<ReconcileError>,
}

/// Whether a pool may have what was rendered for it.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Nodes have not been compared with it.
    Open,
    /// It depends on exceptions that have not been read yet.
    Waits,
    Refused(String),
    /// If not by itself, then because of the exceptions.
    Allowed,
}

/// What came of looking at the inputs of a pool.
#[derive(Debug, PartialEq)]
pub(super) enum Updated {
    Nothing,
    /// They have changed lately.
    Rests {
        until: Timestamp,
    },
    Rendered {
        config: String,
        warnings: Vec<String>,
    },
}

/// Whether the same is rendered of them: what else changes at a MachineConfig does not count.
fn is_same(before: &[Arc<ConfigView>], now: &[&Arc<ConfigView>]) -> bool {
    let labels = |config: &ConfigView| (config.0.metadata.labels.clone(), generated_by(&config.0).map(str::to_owned));
    let same = |before: &ConfigView, now: &ConfigView| {
        let rendered = || before.0.spec == now.0.spec && labels(before) == labels(now);
        before.name() == now.name() && (before.version() == now.version() || rendered())
    };
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| same(before, now))
}

/// By the names of the pools.
#[derive(Debug, Default)]
pub(super) struct Renderings {
    pools: BTreeMap<String, Rendering>,
    compared: BTreeMap<String, Compared>,
}

impl Renderings {
    /// Forgets pools that are gone, and comparisons with what is not to be published any more; adds what was read for them.
    pub(super) fn take_in(&mut self, seen: &Seen) {
        self.pools.retain(|name, _| seen.pools.contains_key(name));
        let (pools, compared) = (&self.pools, &mut self.compared);
        // Also while newer inputs come to rest.
        let last = |name: &str| pools.get(name)?.outcome.as_ref()?.as_ref().ok();
        let before = |name: &str| seen.pools.get(name).map(|pool| pool.0.spec.configuration.name.as_str());
        for (name, content) in &seen.contents {
            if let Some(output) = last(name) {
                compared.insert(name.clone(), compare(output, content));
            }
        }
        compared.retain(|name, compared| {
            let rendered = last(name).map(|output| output.rendered.name.as_str());
            before(name) == Some(&compared.before) && rendered == Some(&compared.rendered)
        });
    }

    /// Whether a pool is refused what an exception may allow, so that the exceptions have to be followed.
    pub(super) fn depend_on_overrides(&self) -> bool {
        self.compared.values().filter_map(|compared| compared.error.as_ref()).any(ReconcileError::may_be_exempted)
    }

    fn verdict(&self, pool: &MachineConfigPool, output: &Output, overrides: &Overrides) -> Verdict {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let is_it = |compared: &&Compared| {
            compared.rendered == output.rendered.name && compared.before == pool.spec.configuration.name
        };
        let Some(compared) = self.compared.get(name).filter(is_it) else { return Verdict::Open };
        let Some(error) = &compared.error else { return Verdict::Allowed };
        match overrides {
            Overrides::Unknown(None) if error.may_be_exempted() => Verdict::Waits,
            Overrides::Unknown(Some(cause)) if error.may_be_exempted() => {
                Verdict::Refused(format!("{error}; which exceptions are allowed cannot be read: {cause}"))
            }
            Overrides::Unknown(_) => Verdict::Refused(error.to_string()),
            Overrides::Known(overrides) => match error.clone().without(overrides) {
                Some(error) => Verdict::Refused(error.to_string()),
                None => Verdict::Allowed,
            },
        }
    }

    /// Renders the pool anew if its inputs have changed and come to rest.
    pub(super) fn update(
        &mut self,
        pool: &MachineConfigPool,
        configs: &Configs,
        defaults: &Defaults,
        now: Timestamp,
    ) -> Updated {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let selected: Vec<&Arc<ConfigView>> = configs.values().filter(|config| is_input(pool, &config.0)).collect();
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
        let Some(outdated) = rendering.outdated else { return Updated::Nothing };
        // A clock that was set back makes them rest no longer.
        rendering.since = rendering.since.min(now);
        let outdated = *rendering.outdated.insert(outdated.min(now));
        let until = later(rendering.since, REST).min(later(outdated, LONGEST_REST));
        if until > now {
            return Updated::Rests { until };
        }
        let inputs: Vec<MachineConfig> = selected.iter().map(|config| (*config.0).clone()).collect();
        let outcome = render(&name, &inputs, defaults);
        let updated = outcome.as_ref().map_or(Updated::Nothing, |rendered| Updated::Rendered {
            config: rendered.name.clone(),
            warnings: rendered.warnings.clone(),
        });
        let outcome = outcome.map(|rendered| Arc::new(Output { rendered, inputs })).map_err(|e| e.to_string());
        (rendering.outcome, rendering.outdated) = (Some(outcome), None);
        updated
    }

    /// What the pool should have.
    fn output(&self, pool: &str) -> Option<&Arc<Output>> {
        let rendering = self.pools.get(pool).filter(|rendering| rendering.outdated.is_none())?;
        rendering.outcome.as_ref()?.as_ref().ok()
    }

    /// Why the pool has no configuration of its inputs, those that came to rest last.
    pub(super) fn error(&self, pool: &MachineConfigPool, overrides: &Overrides) -> Option<String> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        match self.pools.get(name)?.outcome.as_ref()? {
            Err(error) => Some(error.clone()),
            Ok(output) => match self.verdict(pool, output, overrides) {
                Verdict::Refused(error) => Some(error),
                Verdict::Open | Verdict::Waits | Verdict::Allowed => None,
            },
        }
    }

    /// What is to be done so that the pool has its rendered configuration, if anything is.
    fn publishing(&self, pool: &MachineConfigPool, configs: &Configs, overrides: &Overrides) -> Option<Action> {
        let name = pool.metadata.name.clone()?;
        let output = self.output(&name)?;
        let rendered = &output.rendered;
        let configuration = PoolConfiguration { name: rendered.name.clone(), source: rendered.source.clone() };
        let (before, configured) = (&pool.spec.configuration.name, pool.spec.configuration == configuration);
        match self.verdict(pool, output, overrides) {
            Verdict::Refused(_) | Verdict::Waits => return None,
            Verdict::Open if !configured && !before.is_empty() && *before != rendered.name => {
                return Some(Action::ReadConfig { pool: name, name: before.clone() });
            }
            Verdict::Open | Verdict::Allowed => {}
        }
        let annotate = || RenderedConfig::Annotate {
            name: rendered.name.clone(),
            patch: json!({"metadata": {"annotations": rendered.annotations}}),
        };
        let config = match configs.get(&rendered.name) {
            None => Some(RenderedConfig::Create(Box::new(owned_by(pool, rendered.object())))),
            Some(live) => (!is_annotated(&live.0, rendered)).then(annotate),
        };
        let version = &pool.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"configuration": configuration}});
        let patch = (!configured).then_some(patch);
        (config.is_some() || patch.is_some()).then_some(Action::Publish { pool: name, config, patch })
    }
}

impl Turn<'_> {
    /// Gives the pool what was rendered for it.
    pub(super) fn publish(&mut self, renderings: &Renderings, pool: &PoolView) {
        let action = renderings.publishing(&pool.0, &self.seen.configs, &self.seen.overrides);
        action.into_iter().for_each(|action| self.act(action));
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// A configuration that does not exist, since somebody has deleted it, says nothing.
fn compare(output: &Output, content: &Content) -> Compared {
    let (new, before) = (&output.rendered, &content.name);
    let check = |old: &Arc<MachineConfig>| {
        let (old, new) = ((before.as_str(), &old.spec), (new.name.as_str(), &new.spec));
        reconcile::check(old, new, &output.inputs, &BTreeSet::new()).err()
    };
    let error = content.config.as_ref().and_then(check);
    Compared { rendered: new.name.clone(), before: before.clone(), error }
}

fn is_annotated(live: &MachineConfig, rendered: &Rendered) -> bool {
    let annotations = live.metadata.annotations.as_ref();
    let has = |(key, value): (&String, &String)| annotations.is_some_and(|live| live.get(key) == Some(value));
    annotations.is_some() && rendered.annotations.iter().all(has)
}

fn owned_by(pool: &MachineConfigPool, mut config: MachineConfig) -> MachineConfig {
    config.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "machineconfiguration.openshift.io/v1".to_owned(),
        kind: "MachineConfigPool".to_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    config
}

/// Rendered MachineConfigs that nobody needs any more, by name and uid: no pool and no node has, should have or had one of
/// them lately, nor is a pool about to have it.
pub(super) fn unused<'a>(
    configs: &'a Configs,
    pools: &BTreeMap<String, Arc<PoolView>>,
    nodes: &BTreeMap<String, Arc<NodeView>>,
    renderings: &Renderings,
) -> Vec<&'a ConfigView> {
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for (name, pool) in pools {
        used.extend(renderings.output(name).map(|output| output.rendered.name.as_str()));
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
