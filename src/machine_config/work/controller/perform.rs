//! Performs what was decided: each write in a task of its own.

use super::live::{Live, config_kind, node_kind, node_object_kind, operator_kind, pool_kind, source_kind};
use crate::cluster::followed::Followed;
use crate::cluster::writer::Writer;
use crate::cluster::{ApiError, Objects};
use crate::machine_config::api::machine_config::MachineConfig;
use crate::machine_config::api::machine_config_node::{MachineConfigNode, MachineConfigNodeStatus};
use crate::machine_config::api::node_config::NodeConfigStatus;
use crate::machine_config::decide::{Action, Content, Key, NodeObjectSpec, RenderedConfig};
use crate::machine_config::derived::SourceKind;
use crate::machine_config::operator::NAME;
use crate::machine_config::render::name;
use crate::machine_config::views::ConfigView;
use crate::object::cluster_operator::{ClusterOperator, ClusterOperatorStatus};
use crate::process::events::{self, Events};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the ClusterOperator rests after it was written.
const OPERATOR_PERIOD: Duration = Duration::from_secs(1);
/// What is deleted may be seen for a while.
const DELETION: Duration = Duration::from_secs(10);

pub(super) struct Performer {
    objects: Objects,
    live: Live,
    writer: Arc<Writer<Key>>,
    events: Events,
    results: Results,
}

/// What has come of actions besides what objects show, by the name of the pool.
#[derive(Clone, Default)]
struct Results {
    contents: Arc<Mutex<BTreeMap<String, Content>>>,
    /// When the status was written last.
    reported: Arc<Mutex<BTreeMap<String, Instant>>>,
}

impl Performer {
    pub(super) fn new(objects: Objects, live: Live, writer: Arc<Writer<Key>>, events: Events) -> Performer {
        Performer { objects, live, writer, events, results: Results::default() }
    }

    /// The MachineConfigs that were read since this was asked last.
    pub(super) fn contents(&self) -> BTreeMap<String, Content> {
        std::mem::take(&mut self.results.contents.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long ago the status of each pool was written.
    pub(super) fn reported(&self) -> BTreeMap<String, SignedDuration> {
        let reported = self.results.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let ago = |at: &Instant| SignedDuration::try_from(at.elapsed()).unwrap_or(SignedDuration::MAX);
        reported.iter().map(|(name, at)| (name.clone(), ago(at))).collect()
    }

    /// Begins what was decided by what was seen then.
    pub(super) fn begin(&self, action: Action, seen: Instant) {
        let pause = match &action {
            Action::DeleteConfig { .. } => DELETION,
            Action::WriteOperatorStatus { .. } => OPERATOR_PERIOD,
            _ => Duration::ZERO,
        };
        match (action.key(), action) {
            (Some(key), action) => {
                let write = write(self.objects.clone(), self.live.clone(), self.results.clone(), action);
                self.writer.begin(key, seen, pause, write);
            }
            (None, Action::Notify(notice, about)) => {
                let notice = events::Notice::new(notice.warning, notice.reason, &notice.note);
                self.events.publish_of(notice, &about.api_version, about.kind, &about.name, about.uid);
            }
            (None, Action::LogRendered { pool, config, warnings }) => {
                tracing::info!(pool, config, ?warnings, "rendered");
            }
            (None, _) => {}
        }
    }
}

async fn write(objects: Objects, live: Live, results: Results, action: Action) -> Result<(), ApiError> {
    match action {
        Action::WriteNode { name, manager, patch } => {
            live.nodes.on_written(objects.merge_patch_as(manager, &node_kind(), "", &name, &patch).await?);
        }
        Action::WritePool { name, patch } => {
            live.pools.on_written(objects.merge_patch(&pool_kind(), "", &name, &patch).await?);
        }
        Action::WritePoolStatus { name, version, status } => {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            live.pools.on_written(objects.merge_patch_status(&pool_kind(), "", &name, &patch).await?);
            results.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Instant::now());
        }
        Action::ReadConfig { pool, name } => {
            let object = objects.get(&config_kind(), "", &name).await?;
            let config = object.and_then(|object| serde_json::from_value::<MachineConfig>(object).ok());
            let content = Content { name, config: config.map(Arc::new) };
            results.contents.lock().unwrap_or_else(PoisonError::into_inner).insert(pool, content);
        }
        Action::Publish { pool, config, patch } => {
            if let Some(config) = config {
                write_rendered(&objects, &live.configs, config).await?;
            }
            if let Some(patch) = patch {
                live.pools.on_written(objects.merge_patch(&pool_kind(), "", &pool, &patch).await?);
            }
        }
        Action::StoreConfig(config) => store(&objects, &live.configs, &config).await?,
        Action::DeleteConfig { name, uid } => _ = objects.delete(&config_kind(), "", &name, &uid).await?,
        Action::WriteSourceStatus { kind, name, version, status } => {
            say(&objects, &live, kind, (&name, &version), status).await?;
        }
        Action::WriteNodeObject { name, spec, status } => {
            write_node_object(&objects, &live, &name, spec, status).await?;
        }
        Action::WriteOperatorStatus { version, status } => write_operator(&objects, &live, version, &status).await?,
        Action::LogRendered { .. } | Action::Notify(..) => {}
    }
    Ok(())
}

async fn write_rendered(
    objects: &Objects,
    configs: &Followed<ConfigView>,
    config: RenderedConfig,
) -> Result<(), ApiError> {
    match config {
        RenderedConfig::Create(config) => match objects.create(&config_kind(), "", &json!(config)).await {
            Ok(created) => on_created(configs, created),
            // The watch has not told of it yet.
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error),
        },
        RenderedConfig::Annotate { name, patch } => {
            configs.on_written(objects.merge_patch(&config_kind(), "", &name, &patch).await?);
        }
    }
    Ok(())
}

fn on_created(configs: &Followed<ConfigView>, created: Value) {
    if let Ok(created) = serde_json::from_value(created) {
        configs.on_written(created);
    }
}

async fn store(objects: &Objects, configs: &Followed<ConfigView>, config: &MachineConfig) -> Result<(), ApiError> {
    tracing::info!(config = name(config), "MachineConfig is made anew");
    let written = match &config.metadata.resource_version {
        None => objects.create(&config_kind(), "", &json!(config)).await?,
        Some(_) => objects.replace(&config_kind(), "", name(config), &json!(config)).await?,
    };
    on_created(configs, written);
    Ok(())
}

/// Says at an object what has come of it.
async fn say(
    objects: &Objects,
    live: &Live,
    kind: SourceKind,
    (name, version): (&str, &str),
    status: NodeConfigStatus,
) -> Result<(), ApiError> {
    let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
    match kind {
        SourceKind::Kubelet => {
            live.kubelet.on_written(objects.merge_patch_status(&source_kind(kind), "", name, &patch).await?);
        }
        SourceKind::ContainerRuntime => {
            live.runtime.on_written(objects.merge_patch_status(&source_kind(kind), "", name, &patch).await?);
        }
    }
    Ok(())
}

/// First the spec, so that the status is that of the present generation. Two writes, because an API server takes the status of an
/// object through its subresource alone and everything else without it, and each update changes both.
async fn write_node_object(
    objects: &Objects,
    live: &Live,
    name: &str,
    spec: NodeObjectSpec,
    mut status: MachineConfigNodeStatus,
) -> Result<(), ApiError> {
    let generation = match spec {
        NodeObjectSpec::Create(new) => {
            let created = objects.create(&node_object_kind(), "", &json!(new)).await?;
            created.pointer("/metadata/generation").and_then(Value::as_i64)
        }
        NodeObjectSpec::Change(spec) => {
            let patch = json!({"spec": spec});
            let changed: MachineConfigNode = objects.merge_patch(&node_object_kind(), "", name, &patch).await?;
            changed.metadata.generation
        }
        NodeObjectSpec::Same { generation } => Some(generation),
    };
    status.observed_generation = generation.unwrap_or_default();
    let written = objects.merge_patch_status(&node_object_kind(), "", name, &json!({"status": status})).await?;
    if let Some(followed) = &live.node_objects {
        followed.on_written(written);
    }
    Ok(())
}

async fn write_operator(
    objects: &Objects,
    live: &Live,
    version: Option<String>,
    status: &ClusterOperatorStatus,
) -> Result<(), ApiError> {
    if version.is_none() {
        let object = json!(ClusterOperator::new(NAME, Default::default()));
        if let Err(error) = objects.create(&operator_kind(), "", &object).await
            && !error.is_already_exists()
        {
            return Err(error);
        }
    }
    let metadata = version.map_or_else(|| json!({}), |version| json!({"resourceVersion": version}));
    let patch = json!({"metadata": metadata, "status": status});
    live.operator.on_written(objects.merge_patch_status(&operator_kind(), "", NAME, &patch).await?);
    Ok(())
}
