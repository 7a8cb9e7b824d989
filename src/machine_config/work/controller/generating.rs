//! Stores the MachineConfigs that are made of KubeletConfigs and ContainerRuntimeConfigs, and says there what has come of them.

use super::followed::{Followed, View};
use super::rendering::{self, Configs};
use super::views::{ConfigView, PoolView};
use super::writer::{Key, Writer};
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigPool};
use crate::machine_config::api::node_config::{ContainerRuntimeConfig, KubeletConfig, NodeConfigStatus};
use crate::machine_config::derived;
use crate::machine_config::derived::{Generated, Kubelets, Source, SourceKind, generate, is_current};
use crate::machine_config::inputs::is_input;
use crate::machine_config::render::name;
use crate::machine_config::rollout::PoolFacts;
use jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, PartialEq)]
struct KubeletView(Arc<Source>);

impl View for KubeletView {
    type Object = KubeletConfig;

    fn of(object: KubeletConfig) -> Self {
        KubeletView(Arc::new(Source::of_kubelet(&object)))
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}

#[derive(Clone, Debug, PartialEq)]
struct RuntimeView(Arc<Source>);

impl View for RuntimeView {
    type Object = ContainerRuntimeConfig;

    fn of(object: ContainerRuntimeConfig) -> Self {
        RuntimeView(Arc::new(Source::of_runtime(&object)))
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}

pub(super) struct Generating {
    kubelet: Arc<Followed<KubeletView>>,
    runtime: Arc<Followed<RuntimeView>>,
}

/// What has to exist besides what people have made.
pub(super) struct Needed {
    sources: Vec<Arc<Source>>,
    generated: Generated,
    /// Kinds that the cluster serves.
    served: Vec<SourceKind>,
}

fn kind(source: SourceKind) -> Kind {
    Kind::known("machineconfiguration.openshift.io", "v1", source.kind(), source.plural(), false)
}

impl Generating {
    pub(super) fn new(clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> Self {
        let all = |source| Selection::new(kind(source), "", Selector::All);
        Generating {
            kubelet: Followed::start(clients, all(SourceKind::Kubelet), changed.clone(), stop.clone()),
            runtime: Followed::start(clients, all(SourceKind::ContainerRuntime), changed.clone(), stop.clone()),
        }
    }

    /// Why it is not known what is needed.
    pub(super) fn error(&self) -> Option<String> {
        let unknown = |known: bool, error: Option<String>| error.filter(|_| !known);
        unknown(self.kubelet.all().is_some() || self.kubelet.is_absent(), self.kubelet.error())
            .or_else(|| unknown(self.runtime.all().is_some() || self.runtime.is_absent(), self.runtime.error()))
    }

    /// `None` until all of them are known. Those of a kind that the cluster does not serve do not exist; but what was made of them is
    /// left alone then, because a server that has just started does not serve every kind at once.
    pub(super) fn needed(
        &self,
        (pools, facts): (&BTreeMap<String, Arc<PoolView>>, &[PoolFacts]),
        configs: &Configs,
        version: &str,
    ) -> Option<Needed> {
        let mut sources: Vec<Arc<Source>> = Vec::new();
        let mut served = Vec::new();
        match self.runtime.all() {
            Some(views) => {
                sources.extend(views.values().map(|view| view.0.clone()));
                served.push(SourceKind::ContainerRuntime);
            }
            None if !self.runtime.is_absent() => return None,
            None => {}
        }
        match self.kubelet.all() {
            Some(views) => {
                sources.extend(views.values().map(|view| view.0.clone()));
                served.push(SourceKind::Kubelet);
            }
            None if !self.kubelet.is_absent() => return None,
            None => {}
        }
        let pools: Vec<&MachineConfigPool> = pools.values().map(|pool| &*pool.0).collect();
        let of: Vec<&Source> = sources.iter().map(Arc::as_ref).collect();
        let kubelets = match sources.iter().any(|source| source.kind == SourceKind::Kubelet) {
            true => facts.iter().map(|facts| (facts.name.clone(), Kubelets::of(&facts.nodes))).collect(),
            false => BTreeMap::new(),
        };
        let generated = generate(&of, (&pools, &kubelets), configs.values().map(|config| &*config.0), version);
        Some(Needed { sources, generated, served })
    }

    /// Writes what differs, and removes what nothing is made of any more.
    pub(super) fn store(
        &self,
        needed: &Needed,
        (configs, live): (&Arc<Followed<ConfigView>>, &Configs),
        (objects, writer): (&Objects, &Arc<Writer>),
        seen: Instant,
    ) {
        for (_, wanted) in needed.outdated(live) {
            let (key, live) = (Key::Config(name(wanted).to_owned()), live.get(name(wanted)).cloned());
            let (objects, configs, wanted) = (objects.clone(), configs.clone(), wanted.clone());
            let write = async move { write(&objects, &configs, wanted, live.as_deref()).await };
            writer.begin(key, seen, Duration::ZERO, write);
        }
        for unwanted in needed.unwanted(live) {
            let (name, uid) = (name(unwanted).to_owned(), unwanted.metadata.uid.clone().unwrap_or_default());
            let objects = objects.clone();
            writer.begin(Key::Config(name.clone()), seen, Duration::from_secs(10), async move {
                objects.delete(&rendering::kind(), "", &name, &uid).await.map(|_| ())
            });
        }
    }

    /// Says at each object what has come of it, once that is stored.
    pub(super) fn say(
        &self,
        needed: &Needed,
        live: &Configs,
        (objects, writer): (&Objects, &Arc<Writer>),
        (seen, now): (Instant, Timestamp),
    ) {
        for (source, outcome) in needed.sources.iter().zip(&needed.generated.outcomes) {
            let waits = needed.outdated(live).any(|(_, config)| made_of(config, source));
            let Some(status) = source.status(outcome, now).filter(|_| !waits) else { continue };
            let key = Key::Source(source.kind.kind(), source.name.clone());
            let (objects, source) = (objects.clone(), source.clone());
            match source.kind {
                SourceKind::Kubelet => {
                    let followed = self.kubelet.clone();
                    writer.begin(
                        key,
                        seen,
                        Duration::ZERO,
                        async move { say(&objects, &followed, &source, status).await },
                    );
                }
                SourceKind::ContainerRuntime => {
                    let followed = self.runtime.clone();
                    writer.begin(
                        key,
                        seen,
                        Duration::ZERO,
                        async move { say(&objects, &followed, &source, status).await },
                    );
                }
            }
        }
    }
}

impl Needed {
    fn outdated<'a>(&'a self, live: &'a Configs) -> impl Iterator<Item = &'a (String, MachineConfig)> {
        let is_outdated = |(_, wanted): &&(String, MachineConfig)| {
            live.get(name(wanted)).is_none_or(|live| !is_current(&live.0, wanted))
        };
        self.generated.configs.iter().filter(is_outdated)
    }

    fn unwanted<'a>(&'a self, live: &'a Configs) -> impl Iterator<Item = &'a MachineConfig> {
        let sources: Vec<&Source> = self.sources.iter().map(Arc::as_ref).collect();
        derived::unwanted(&sources, &self.generated, &self.served, live.values().map(|config| &*config.0)).into_iter()
    }

    /// The inputs of the pool are about to change: what would be rendered of them now is not what nodes should have.
    pub(super) fn is_pending(&self, pool: &MachineConfigPool, live: &Configs) -> bool {
        self.outdated(live).any(|(_, wanted)| is_input(pool, wanted))
            || self.unwanted(live).any(|unwanted| is_input(pool, unwanted))
    }
}

fn made_of(config: &MachineConfig, source: &Source) -> bool {
    config.metadata.owner_references.iter().flatten().any(|owner| owner.uid == source.uid)
}

/// Labels and annotations that others have added stay.
async fn write(
    objects: &Objects,
    configs: &Followed<ConfigView>,
    mut wanted: MachineConfig,
    live: Option<&ConfigView>,
) -> Result<(), ApiError> {
    let name = name(&wanted).to_owned();
    tracing::info!(config = name, "MachineConfig is made anew");
    let written = match live {
        None => objects.create(&rendering::kind(), "", &json!(wanted)).await?,
        Some(live) => {
            let live = &live.0.metadata;
            let join = |live: Option<&BTreeMap<String, String>>, own: Option<BTreeMap<String, String>>| {
                let mut all = live.cloned().unwrap_or_default();
                all.extend(own.unwrap_or_default());
                Some(all)
            };
            wanted.metadata.labels = join(live.labels.as_ref(), wanted.metadata.labels);
            wanted.metadata.annotations = join(live.annotations.as_ref(), wanted.metadata.annotations);
            wanted.metadata.resource_version.clone_from(&live.resource_version);
            objects.replace(&rendering::kind(), "", &name, &json!(wanted)).await?
        }
    };
    rendering::told(configs, written);
    Ok(())
}

async fn say<V: View>(
    objects: &Objects,
    followed: &Followed<V>,
    source: &Source,
    status: NodeConfigStatus,
) -> Result<(), ApiError> {
    let patch = json!({"metadata": {"resourceVersion": source.version}, "status": status});
    followed.on_written(objects.merge_patch_status(&kind(source.kind), "", &source.name, &patch).await?);
    Ok(())
}
