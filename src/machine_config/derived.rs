//! MachineConfigs made of KubeletConfigs and ContainerRuntimeConfigs: one for each pool that such an object selects.
//!
//! What they write is a file of its own in a folder whose files the kubelet or the container runtime merges in the order of
//! their names, so that several of them, and what a node has already, count together.

pub(crate) mod kubelet;
mod runtime;

use super::membership::selects;
use super::node::NodeFacts;
use super::render::name;
use crate::machine_config::api::machine_config::{
    GENERATED_BY, GROUP, MachineConfig, MachineConfigPool, MachineConfigSpec, PoolCondition, ROLE_LABEL,
};
use crate::machine_config::api::node_config::{ContainerRuntimeConfig, KubeletConfig, NodeConfigStatus};
use crate::object::condition::ConditionStatus;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// So many nodes are named.
const NAMED: usize = 5;
/// How many objects of a kind may select the same pool: the names of MachineConfigs end in a digit.
const MOST: usize = 10;
const FILE_MODE: u32 = 0o644;

/// What MachineConfigs are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    ContainerRuntime,
    Kubelet,
}

impl SourceKind {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            SourceKind::ContainerRuntime => "ContainerRuntimeConfig",
            SourceKind::Kubelet => "KubeletConfig",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            SourceKind::ContainerRuntime => "containerruntimeconfigs",
            SourceKind::Kubelet => "kubeletconfigs",
        }
    }

    /// How the names of what is made of it end.
    fn suffix(self) -> &'static str {
        match self {
            SourceKind::ContainerRuntime => "containerruntime",
            SourceKind::Kubelet => "kubelet",
        }
    }

    fn of(kind: &str) -> Option<SourceKind> {
        [SourceKind::ContainerRuntime, SourceKind::Kubelet].into_iter().find(|it| it.kind() == kind)
    }
}

/// An object that MachineConfigs are made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub kind: SourceKind,
    pub name: String,
    pub uid: String,
    pub version: String,
    created: Option<Timestamp>,
    generation: i64,
    selector: Option<LabelSelector>,
    status: NodeConfigStatus,
    /// The path of the file and its contents, or why there cannot be any.
    file: Result<(String, String), String>,
}

impl Source {
    pub(crate) fn of_kubelet(object: &KubeletConfig) -> Source {
        let selector = object.spec.machine_config_pool_selector.clone();
        Source::new(SourceKind::Kubelet, &object.metadata, selector, object.status.as_ref(), |name| {
            kubelet::file(name, &object.spec)
        })
    }

    pub(crate) fn of_runtime(object: &ContainerRuntimeConfig) -> Source {
        let selector = object.spec.machine_config_pool_selector.clone();
        Source::new(SourceKind::ContainerRuntime, &object.metadata, selector, object.status.as_ref(), |name| {
            runtime::file(name, object.spec.container_runtime_config.as_ref())
        })
    }

    fn new(
        kind: SourceKind,
        metadata: &ObjectMeta,
        selector: Option<LabelSelector>,
        status: Option<&NodeConfigStatus>,
        file: impl FnOnce(&str) -> Result<(String, String), String>,
    ) -> Source {
        let name = metadata.name.clone().unwrap_or_default();
        Source {
            kind,
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            generation: metadata.generation.unwrap_or_default(),
            selector,
            status: status.cloned().unwrap_or_default(),
            file: file(&name),
            name,
        }
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/v1"),
            kind: self.kind.kind().to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// The status that says what has come of it; `None` if it says so already.
    pub(crate) fn status(&self, outcome: &Result<String, String>, now: Timestamp) -> Option<NodeConfigStatus> {
        let (type_, message) = match outcome {
            Ok(remark) => ("Success", remark.clone()),
            Err(cause) => ("Failure", cause.clone()),
        };
        let last = self.status.conditions.last();
        let says = last.is_some_and(|last| last.type_ == type_ && last.message == message);
        if says && self.status.observed_generation == self.generation {
            return None;
        }
        let condition = PoolCondition {
            type_: type_.to_owned(),
            status: ConditionStatus::True,
            last_transition_time: Some(Time(now)),
            reason: if outcome.is_ok() { "Generated" } else { "Invalid" }.to_owned(),
            message,
        };
        Some(NodeConfigStatus { observed_generation: self.generation, conditions: vec![condition] })
    }
}

/// The object that a MachineConfig was made of, by kind and uid.
pub(crate) fn made_of(config: &MachineConfig) -> Option<(SourceKind, &str)> {
    let owner = config.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    Some((SourceKind::of(&owner.kind)?, owner.uid.as_str()))
}

/// What has to exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generated {
    /// With the names of the pools that they are made for.
    pub configs: Vec<(String, MachineConfig)>,
    /// What has come of each source, in their order; what remains to be said of one that was used, if anything does.
    pub outcomes: Vec<Result<String, String>>,
}

/// What the agents of a pool's nodes have told of their kubelets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kubelets {
    /// So many read the folder that is written to.
    reading: usize,
    /// Names of nodes whose kubelet does not.
    others: Vec<String>,
    /// Of so many that is not known.
    unknown: usize,
}

impl Kubelets {
    pub(crate) fn of(nodes: &[NodeFacts]) -> Kubelets {
        let mut kubelets = Kubelets::default();
        for node in nodes.iter().filter(|node| node.is_managed()) {
            match node.kubelet_config_dir.as_deref().map(|folder| folder.trim_end_matches('/')) {
                Some(kubelet::FOLDER) => kubelets.reading += 1,
                Some(_) => kubelets.others.push(node.name.clone()),
                None => kubelets.unknown += 1,
            }
        }
        kubelets
    }

    /// What is to be said of what is written for them. An error if nobody would read it: nodes would be restarted for nothing.
    fn judge(&self, pool: &str) -> Result<Option<String>, String> {
        let named = self.others.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = match self.others.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (folder, flag) = (kubelet::FOLDER, "--config-dir");
        match (self.reading, self.others.is_empty(), self.unknown) {
            (0, false, _) => Err(format!(
                "no kubelet of pool {pool} reads {folder}, so that its nodes would be drained and restarted for nothing: start the \
                 kubelets with {flag}={folder}, such as those of {named}{more}"
            )),
            (_, false, _) => Ok(Some(format!(
                "in pool {pool} the kubelets of {named}{more} do not read {folder}: start them with {flag}={folder}"
            ))),
            (0, true, 1..) => Ok(Some(format!(
                "not verified: no agent of pool {pool} has told whether its kubelet reads {folder}, as it does with {flag}={folder}"
            ))),
            (_, true, _) => Ok(None),
        }
    }
}

/// Makes the MachineConfigs of all sources. `kubelets`: those of the pools by their names. `live`: those that exist; what was made
/// of a source keeps its name. `version`: that of this controller.
pub(crate) fn generate<'a>(
    sources: &[&Source],
    (pools, kubelets): (&[&MachineConfigPool], &BTreeMap<String, Kubelets>),
    live: impl Iterator<Item = &'a MachineConfig> + Clone,
    version: &str,
) -> Generated {
    let mut order: Vec<(usize, &&Source)> = sources.iter().enumerate().collect();
    order.sort_by_key(|(_, source)| (source.kind, source.created, &source.name));
    let mut outcomes: BTreeMap<usize, Result<String, String>> = BTreeMap::new();
    let mut configs = Vec::new();
    let existing: BTreeMap<&str, &MachineConfig> = live.map(|config| (name(config), config)).collect();
    let uids: BTreeSet<&str> = sources.iter().map(|source| source.uid.as_str()).collect();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (index, source) in order {
        let outcome = of_source(source, (pools, kubelets), (&existing, &uids, &mut taken), version);
        let outcome = outcome.map(|(made, remark)| {
            configs.extend(made);
            remark
        });
        outcomes.insert(index, outcome);
    }
    Generated { configs, outcomes: outcomes.into_values().collect() }
}

type Names<'a> = (&'a BTreeMap<&'a str, &'a MachineConfig>, &'a BTreeSet<&'a str>, &'a mut BTreeSet<String>);

fn of_source(
    source: &Source,
    (pools, kubelets): (&[&MachineConfigPool], &BTreeMap<String, Kubelets>),
    (existing, uids, taken): Names<'_>,
    version: &str,
) -> Result<(Vec<(String, MachineConfig)>, String), String> {
    let labels = |pool: &&&MachineConfigPool| {
        selects(source.selector.as_ref(), &pool.metadata.labels.clone().unwrap_or_default())
    };
    let selected: Vec<&str> = pools.iter().filter(labels).filter_map(|pool| pool.metadata.name.as_deref()).collect();
    if selected.is_empty() {
        let selector = "spec.machineConfigPoolSelector";
        return Err(format!(
            "no MachineConfigPool has labels that {selector} selects: label one, or change the selector"
        ));
    }
    let (path, contents) = source.file.clone()?;
    let mut remarks = Vec::new();
    for pool in selected.iter().filter(|_| source.kind == SourceKind::Kubelet) {
        remarks.extend(kubelets.get(*pool).map(|kubelets| kubelets.judge(pool)).transpose()?.flatten());
    }
    let mut made = Vec::new();
    for pool in selected {
        let names = (0..MOST).map(|number| match number {
            0 => format!("99-{pool}-generated-{}", source.kind.suffix()),
            _ => format!("99-{pool}-generated-{}-{number}", source.kind.suffix()),
        });
        let names: Vec<String> = names.collect();
        let owner = |name: &String| existing.get(name.as_str()).map(|config| made_of(config).map(|(_, uid)| uid));
        let own = names.iter().find(|name| owner(name) == Some(Some(&source.uid)));
        // One whose source is gone is removed soon, and one that nothing was made of is somebody's.
        let free = |name: &&String| owner(name).is_none_or(|uid| uid.is_some_and(|uid| !uids.contains(uid)));
        let name = own.or_else(|| names.iter().find(|name| !taken.contains(*name) && free(name)));
        let Some(name) = name else {
            return Err(format!(
                "no name is free for the MachineConfig of pool {pool}: {} to {} all exist; merge some {}s into one",
                names.first().map_or("", String::as_str),
                names.last().map_or("", String::as_str),
                source.kind.kind()
            ));
        };
        taken.insert(name.clone());
        made.push((pool.to_owned(), config(name, pool, source, (&path, &contents), version)));
    }
    Ok((made, remarks.join("; ")))
}

fn config(name: &str, pool: &str, source: &Source, (path, contents): (&str, &str), version: &str) -> MachineConfig {
    let file = json!({
        "path": path, "mode": FILE_MODE, "overwrite": true,
        "contents": {"source": format!("data:;base64,{}", STANDARD.encode(contents))},
    });
    let ignition = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}});
    let mut config = MachineConfig::new(name, MachineConfigSpec { config: ignition, ..MachineConfigSpec::default() });
    config.metadata.labels = Some([(ROLE_LABEL.to_owned(), pool.to_owned())].into());
    config.metadata.annotations = Some([(GENERATED_BY.to_owned(), version.to_owned())].into());
    config.metadata.owner_references = Some(vec![source.owner()]);
    config
}

/// Whether a MachineConfig is what it should be, apart from what the API server and others add.
pub(crate) fn is_current(live: &MachineConfig, wanted: &MachineConfig) -> bool {
    let has = |live: Option<&BTreeMap<String, String>>, wanted: Option<&BTreeMap<String, String>>| {
        wanted.into_iter().flatten().all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
    };
    live.spec == wanted.spec
        && live.metadata.owner_references == wanted.metadata.owner_references
        && has(live.metadata.labels.as_ref(), wanted.metadata.labels.as_ref())
        && has(live.metadata.annotations.as_ref(), wanted.metadata.annotations.as_ref())
}

/// Those that were made of something that does not exist any more, or that selects their pool no longer. What cannot be made
/// anew at present keeps what was made of it before, and so does what was made of a kind that is not served at present.
pub(crate) fn unwanted<'a>(
    sources: &[&Source],
    generated: &Generated,
    served: &[SourceKind],
    live: impl Iterator<Item = &'a MachineConfig>,
) -> Vec<&'a MachineConfig> {
    let wanted: BTreeSet<&str> = generated.configs.iter().map(|(_, config)| name(config)).collect();
    let failed = sources.iter().zip(&generated.outcomes).filter(|(_, outcome)| outcome.is_err());
    let failed: BTreeSet<&str> = failed.map(|(source, _)| source.uid.as_str()).collect();
    live.filter(|config| {
        let of = made_of(config).filter(|_| config.metadata.deletion_timestamp.is_none());
        of.is_some_and(|(kind, uid)| served.contains(&kind) && !wanted.contains(name(config)) && !failed.contains(uid))
    })
    .collect()
}

#[cfg(test)]
mod tests;
