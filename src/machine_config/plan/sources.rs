//! KubeletConfigs and ContainerRuntimeConfigs that are given: what the controller would make of them.

use super::{Cluster, Unselected};
use crate::machine_config::api::machine_config::MachineConfig;
use crate::machine_config::derived::{Kubelets, Source, SourceKind, generate, made_of, unwanted};
use crate::machine_config::render::name;
use std::collections::BTreeSet;

/// MachineConfigs with what is made of the given sources.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Those of the cluster, and all that are given.
    pub configs: Vec<MachineConfig>,
    /// Those that are given, or made of what is given.
    pub given: Vec<MachineConfig>,
    /// Sources of which nothing can be made, with the reasons.
    pub refused: Vec<Unselected>,
}

/// `configs`: those of the cluster with the given ones in place of those of the same name.
pub(super) fn made(
    cluster: &Cluster,
    configs: Vec<MachineConfig>,
    given: &[MachineConfig],
    sources: &[Source],
    version: &str,
) -> Made {
    let mut made = Made { configs, given: given.to_vec(), refused: Vec::new() };
    if sources.is_empty() {
        return made;
    }
    let id = |source: &Source| (source.kind, source.name.clone());
    let given: Vec<Source> = sources
        .iter()
        .map(|source| {
            let live = cluster.sources.iter().find(|live| id(live) == id(source));
            // One that does not exist yet has no uid, and needs one of its own here.
            let uid = live.map_or_else(|| format!("{}/{}", source.kind.kind(), source.name), |live| live.uid.clone());
            let mut source = source.clone();
            source.uid = uid;
            source
        })
        .collect();
    let others = cluster.sources.iter().filter(|live| given.iter().all(|given| id(given) != id(live)));
    let all: Vec<&Source> = others.chain(&given).collect();
    let pools: Vec<_> = cluster.pools.iter().collect();
    let (members, _) = super::members(&cluster.nodes, &cluster.pools);
    let kubelets = members.iter().map(|(pool, nodes)| (pool.clone(), Kubelets::of(nodes))).collect();
    let generated = generate(&all, (&pools, &kubelets), made.configs.iter(), version);
    let both = [SourceKind::ContainerRuntime, SourceKind::Kubelet];
    let gone = unwanted(&all, &generated, &both, made.configs.iter()).into_iter().map(name);
    let wanted = generated.configs.iter().map(|(_, config)| name(config));
    let replaced: BTreeSet<String> = gone.chain(wanted).map(str::to_owned).collect();
    made.configs.retain(|config| !replaced.contains(name(config)));
    let is_given = |uid: &str| given.iter().any(|given| given.uid == uid);
    for (_, config) in generated.configs {
        if made_of(&config).is_some_and(|(_, uid)| is_given(uid)) {
            made.given.push(config.clone());
        }
        made.configs.push(config);
    }
    let outcomes = all.iter().zip(&generated.outcomes).filter(|(source, _)| is_given(&source.uid));
    made.refused = outcomes
        .filter_map(|(source, outcome)| {
            let name = format!("{} {}", source.kind.kind(), source.name);
            Some(Unselected { name, message: outcome.as_ref().err()?.clone() })
        })
        .collect();
    made
}
