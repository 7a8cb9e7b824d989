//! The MachineConfigs that are made of KubeletConfigs and ContainerRuntimeConfigs, and what is said there of what has come of them.

use super::rendering::{Configs, Renderings, Updated};
use super::{Action, Seen, Sources, Turn};
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigPool};
use crate::machine_config::derived::{self, Generated, Kubelets, Source, SourceKind, generate, is_current};
use crate::machine_config::inputs::is_input;
use crate::machine_config::render::name;
use crate::machine_config::rollout::PoolFacts;
use crate::machine_config::views::ConfigView;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What has to exist besides what people have made.
pub(super) struct Needed {
    sources: Vec<Arc<Source>>,
    generated: Generated,
    /// Kinds that the cluster serves.
    served: Vec<SourceKind>,
}

/// Why it is not known what is needed.
pub(super) fn error(seen: &Seen) -> Option<String> {
    [&seen.kubelet_configs, &seen.runtime_configs].into_iter().find_map(|sources| match sources {
        Sources::Unknown(error) => error.clone(),
        Sources::Known(_) | Sources::NotServed => None,
    })
}

impl Needed {
    /// `None` until all sources are known. Those of a kind that the cluster does not serve do not exist; but what was made of them
    /// is left alone then, because a server that has just started does not serve every kind at once.
    pub(super) fn of(seen: &Seen, facts: &[PoolFacts], version: &str) -> Option<Needed> {
        let kinds =
            [(SourceKind::ContainerRuntime, &seen.runtime_configs), (SourceKind::Kubelet, &seen.kubelet_configs)];
        let mut sources: Vec<Arc<Source>> = Vec::new();
        let mut served = Vec::new();
        for (kind, found) in kinds {
            match found {
                Sources::Known(found) => {
                    sources.extend(found.iter().cloned());
                    served.push(kind);
                }
                Sources::NotServed => {}
                Sources::Unknown(_) => return None,
            }
        }
        let pools: Vec<&MachineConfigPool> = seen.pools.values().map(|pool| &*pool.0).collect();
        let of: Vec<&Source> = sources.iter().map(Arc::as_ref).collect();
        let kubelets = match sources.iter().any(|source| source.kind == SourceKind::Kubelet) {
            true => facts.iter().map(|facts| (facts.name.clone(), Kubelets::of(&facts.nodes))).collect(),
            false => BTreeMap::new(),
        };
        let live = seen.configs.values().map(|config| &*config.0);
        let generated = generate(&of, (&pools, &kubelets), live, version);
        Some(Needed { sources, generated, served })
    }

    fn outdated<'a>(&'a self, live: &'a Configs) -> impl Iterator<Item = &'a MachineConfig> {
        let is_outdated =
            |wanted: &&MachineConfig| live.get(name(wanted)).is_none_or(|live| !is_current(&live.0, wanted));
        self.generated.configs.iter().map(|(_, config)| config).filter(is_outdated)
    }

    fn unwanted<'a>(&'a self, live: &'a Configs) -> impl Iterator<Item = &'a MachineConfig> {
        let sources: Vec<&Source> = self.sources.iter().map(Arc::as_ref).collect();
        derived::unwanted(&sources, &self.generated, &self.served, live.values().map(|config| &*config.0)).into_iter()
    }

    /// The inputs of the pool are about to change: what would be rendered of them now is not what nodes should have.
    fn is_pending(&self, pool: &MachineConfigPool, live: &Configs) -> bool {
        self.outdated(live).any(|wanted| is_input(pool, wanted))
            || self.unwanted(live).any(|unwanted| is_input(pool, unwanted))
    }
}

impl Turn<'_> {
    /// Makes what is needed, and then renders the pools.
    pub(super) fn render(&mut self, renderings: &mut Renderings, facts: &[PoolFacts]) {
        let (seen, defaults) = (self.seen, &self.settings.defaults);
        renderings.take_in(seen);
        self.decision.overrides = renderings.depend_on_overrides();
        let Some(needed) = Needed::of(seen, facts, &defaults.controller_version) else { return };
        self.store(&needed);
        self.say(&needed);
        for pool in seen.pools.values().filter(|pool| !needed.is_pending(&pool.0, &seen.configs)) {
            match renderings.update(&pool.0, &seen.configs, defaults, self.now) {
                Updated::Rests { until } => self.again(Some(until)),
                Updated::Rendered { config, warnings } => {
                    self.act(Action::LogRendered { pool: pool.name().to_owned(), config, warnings });
                }
                Updated::Nothing => {}
            }
        }
    }

    /// Writes what differs, and removes what nothing is made of any more.
    fn store(&mut self, needed: &Needed) {
        let live = &self.seen.configs;
        for wanted in needed.outdated(live) {
            let config = joined(wanted.clone(), live.get(name(wanted)).map(AsRef::as_ref));
            self.act(Action::StoreConfig(Box::new(config)));
        }
        for unwanted in needed.unwanted(live) {
            let (name, uid) = (name(unwanted).to_owned(), unwanted.metadata.uid.clone().unwrap_or_default());
            self.act(Action::DeleteConfig { name, uid });
        }
    }

    /// Says at each object what has come of it, once that is stored.
    fn say(&mut self, needed: &Needed) {
        for (source, outcome) in needed.sources.iter().zip(&needed.generated.outcomes) {
            let waits = needed.outdated(&self.seen.configs).any(|config| made_of(config, source));
            let Some(status) = source.status(outcome, self.now).filter(|_| !waits) else { continue };
            let (kind, name, version) = (source.kind, source.name.clone(), source.version.clone());
            self.act(Action::WriteSourceStatus { kind, name, version, status });
        }
    }
}

fn made_of(config: &MachineConfig, source: &Source) -> bool {
    config.metadata.owner_references.iter().flatten().any(|owner| owner.uid == source.uid)
}

/// What takes the place of the one that exists. Labels and annotations that others have added stay.
fn joined(mut wanted: MachineConfig, live: Option<&ConfigView>) -> MachineConfig {
    let Some(live) = live.map(|live| &live.0.metadata) else { return wanted };
    let join = |live: Option<&BTreeMap<String, String>>, own: Option<BTreeMap<String, String>>| {
        let mut all = live.cloned().unwrap_or_default();
        all.extend(own.unwrap_or_default());
        Some(all)
    };
    wanted.metadata.labels = join(live.labels.as_ref(), wanted.metadata.labels);
    wanted.metadata.annotations = join(live.annotations.as_ref(), wanted.metadata.annotations);
    wanted.metadata.resource_version.clone_from(&live.resource_version);
    wanted
}
