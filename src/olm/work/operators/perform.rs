//! Writes what was decided.

use super::figures::OperatorFigures;
use super::live::{
    Live, component_kind, condition_kind, config_kind, csv_kind, definition_kind, deployment_kind, group_kind,
    namespace_kind,
};
use super::memory::Memory;
use super::views::Csv;
use crate::cluster::objects::Removed;
use crate::cluster::writer::Writer;
use crate::cluster::{ApiError, Kind, Objects};
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::Phase;
use crate::olm::api::olm_config::OLMConfig;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::deployment::{self, CONTESTED, Change, Live as LiveDeployment, Write};
use crate::olm::operator::serving::conversion;
use crate::olm::operator::turn::Action;
use crate::olm::operator::{State, component};
use crate::olm::permissions::hash;
use crate::olm::work::scoped::Accounts;
use crate::process::events::{Events, Notice};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Id = (String, String);

/// What is written, one at a time for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Csv(Id),
    Deployment(Id),
    Group(Id),
    Namespace(String),
    Config(String),
    Condition(Id),
    ConditionStatus(Id),
    Component(component::Id),
    Secret(Id),
    Conversion(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Csv((namespace, name)) => write!(f, "ClusterServiceVersion {namespace}/{name}"),
            Key::Deployment((namespace, name)) => write!(f, "Deployment {namespace}/{name}"),
            Key::Group((namespace, name)) => write!(f, "OperatorGroup {namespace}/{name}"),
            Key::Namespace(name) => write!(f, "Namespace {name}"),
            Key::Config(name) => write!(f, "OLMConfig {name}"),
            Key::Condition((namespace, name)) => write!(f, "OperatorCondition {namespace}/{name}"),
            Key::ConditionStatus((namespace, name)) => write!(f, "status of OperatorCondition {namespace}/{name}"),
            Key::Component(id) => write!(f, "{id}"),
            Key::Secret((namespace, name)) => write!(f, "Secret {namespace}/{name}"),
            Key::Conversion(name) => write!(f, "CustomResourceDefinition {name}"),
        }
    }
}

/// Whether it is written whatever a single operator is like, by the name of its key: that it fails concerns all of them.
pub(super) fn is_of_all(key: &str) -> bool {
    let kind = key.strip_prefix("status of ").unwrap_or(key).split(' ').next().unwrap_or_default();
    ["ClusterServiceVersion", "OperatorGroup", "Namespace", "OLMConfig", "OperatorCondition"].contains(&kind)
}

/// What it is written with.
pub(super) struct Perform<'a> {
    pub objects: &'a Objects,
    pub live: &'a Live,
    pub writer: &'a Arc<Writer<Key>>,
    pub memory: &'a Arc<Memory>,
    pub accounts: &'a Accounts,
    pub events: &'a Events,
    pub figures: &'a Arc<OperatorFigures>,
    /// When the objects were looked at.
    pub at: Instant,
}

/// What is patched, and how.
enum Part {
    Object(Value),
    Status(Value),
}

fn id(object: &impl ResourceExt) -> Id {
    (object.namespace().unwrap_or_default(), object.name_any())
}

impl Perform<'_> {
    pub(super) fn begin(&self, key: Key, write: impl Future<Output = Result<(), ApiError>> + Send + 'static) {
        self.writer.begin(key, self.at, Duration::ZERO, write);
    }

    /// A merge patch. An object that has been deleted meanwhile needs nothing.
    fn patched(&self, key: Key, (kind, (namespace, name)): (Kind, Id), patch: Part, on_answer: fn(&Live, Value)) {
        let (objects, live) = (self.objects.clone(), self.live.clone());
        self.begin(key, async move {
            let answer = match patch {
                Part::Object(patch) => objects.merge_patch(&kind, &namespace, &name, &patch).await,
                Part::Status(patch) => objects.merge_patch_status(&kind, &namespace, &name, &patch).await,
            };
            on_answer(&live, absent_is_done(answer)?);
            Ok(())
        });
    }

    /// How long an object rests after it was written. `to`: a hash of what it becomes; `None` where it is deleted.
    fn rest(&self, key: &Key, to: Option<&str>) -> Duration {
        to.map_or(Duration::ZERO, |to| self.memory.rest(&key.to_string(), to, self.at))
    }

    /// Certificates are made and kept elsewhere.
    pub(super) fn act(&self, action: Action<'_>) {
        match action {
            Action::Patch { csv, patch } => self.patch(csv, patch),
            Action::Status { csv, states, patch, is_replaced } => self.status(csv, states, patch, is_replaced),
            Action::Delete { csv } => self.delete(csv),
            Action::Deployment { csv, write, account } => self.deployment(csv, write, account),
            Action::Component(write) => self.component(write),
            Action::Conversion(write) => self.conversion(write),
            Action::Group { group, patch } => self.group(group, Part::Object(patch)),
            Action::GroupStatus { group, patch } => self.group(group, Part::Status(patch)),
            Action::Namespace { name, patch } => self.namespace(name, patch),
            Action::Condition { csv, exists, object } => self.condition(csv, exists, object),
            Action::ConditionStatus { condition, patch } => self.condition_status(condition, patch),
            Action::Impossible { what, error } => tracing::warn!(%error, "{what}"),
            Action::Certificate { .. } => {}
        }
    }

    fn patch(&self, csv: &Csv, patch: Value) {
        self.patched(Key::Csv(id(csv)), (csv_kind(), id(csv)), Part::Object(patch), |live, it| live.csvs.on_answer(it));
    }

    fn status(&self, csv: &Csv, states: Vec<State>, patch: Value, is_replaced: bool) {
        let (id, objects, live) = (id(csv), self.objects.clone(), self.live.clone());
        let (events, figures) = (self.events.clone(), self.figures.clone());
        let before = csv.status.clone().unwrap_or_default();
        let about = reference(csv);
        // The first one may say with other words what has been told.
        let told = states.first().is_some_and(|state| state.is_told(&before));
        self.begin(Key::Csv(id.clone()), async move {
            let answer = objects.merge_patch_status(&csv_kind(), &id.0, &id.1, &patch).await;
            let answer = absent_is_done(answer)?;
            if !answer.is_null() {
                states.iter().skip(usize::from(told)).for_each(|state| tell(&id, state, &events, about.clone()));
                if is_replaced {
                    figures.on_upgrade();
                }
                live.csvs.on_answer(answer);
            }
            Ok(())
        });
    }

    fn delete(&self, csv: &Csv) {
        let (id, objects, live) = (id(csv), self.objects.clone(), self.live.clone());
        let (uid, version) = (csv.metadata.uid.clone().unwrap_or_default(), csv.resource_version().unwrap_or_default());
        self.begin(Key::Csv(id.clone()), async move {
            if objects.delete(&csv_kind(), &id.0, &id.1, &uid).await? == Removed::Gone {
                live.csvs.on_deleted(&format!("{}/{}", id.0, id.1), &version);
            }
            Ok(())
        });
    }

    /// `account`: that whose rights count; empty for those of this process.
    fn deployment(&self, csv: &Csv, write: Write, account: &str) {
        let id = (csv.metadata.namespace.clone().unwrap_or_default(), write.name().to_owned());
        let (objects, live, memory) = (self.objects.clone(), self.live.clone(), self.memory.clone());
        let (of, at, events, about) = (id.clone(), self.at, self.events.clone(), reference(csv));
        let (accounts, account) = (self.accounts.clone(), account.to_owned());
        let key = Key::Deployment(id);
        let to = write.object().map(|object| deployment::written_hash(object).unwrap_or_default().to_owned());
        let (named, rest) = (key.to_string(), self.rest(&key, to.as_deref()));
        self.writer.begin(key, self.at, rest, async move {
            let objects = accounts.writing_as(&objects, &of.0, &account).await?;
            let done = put_deployment(&objects, &of, write).await;
            let done = done.inspect_err(|error| accounts.on_error(&of.0, &account, error))?;
            let Some((written, answer, Change { fields, by })) = done else { return Ok(()) };
            memory.on_deployment(&of, (&written, &answer));
            let contested = memory.on_written(&named, &to.unwrap_or_default(), fields, at);
            if !contested.is_empty() {
                let note = Change { fields: contested, by }.contest(&of.0, &of.1);
                tracing::warn!(namespace = of.0, name = of.1, note, "a Deployment is changed again and again");
                events.publish_about(Notice::new(true, CONTESTED, &note), about);
            }
            live.deployments.on_answer(answer);
            Ok(())
        });
    }

    fn group(&self, group: &OperatorGroup, patch: Part) {
        self.patched(Key::Group(id(group)), (group_kind(), id(group)), patch, |live, it| live.groups.on_answer(it));
    }

    fn namespace(&self, name: String, patch: Value) {
        let (key, of) = (Key::Namespace(name.clone()), (namespace_kind(), (String::new(), name)));
        self.patched(key, of, Part::Object(patch), |live, it| live.namespaces.on_answer(it));
    }

    pub(super) fn config(&self, config: &OLMConfig, conditions: &[Condition]) {
        let patch = Part::Status(json!({"metadata": {"resourceVersion": config.metadata.resource_version},
            "status": {"conditions": conditions}}));
        let of = (config_kind(), id(config));
        self.patched(Key::Config(config.name_any()), of, patch, |live, it| live.configs.on_answer(it));
    }

    /// Makes the OperatorCondition of a ClusterServiceVersion, or patches it.
    fn condition(&self, csv: &Csv, exists: bool, object: Value) {
        let (id, objects, live) = (id(csv), self.objects.clone(), self.live.clone());
        self.begin(Key::Condition(id.clone()), async move {
            let answer = match exists {
                true => objects.merge_patch(&condition_kind(), &id.0, &id.1, &object).await?,
                false => objects.create(&condition_kind(), &id.0, &object).await?,
            };
            live.conditions.on_answer(answer);
            Ok(())
        });
    }

    fn condition_status(&self, condition: &OperatorCondition, patch: Value) {
        let (key, of) = (Key::ConditionStatus(id(condition)), (condition_kind(), id(condition)));
        self.patched(key, of, Part::Status(patch), |live, it| live.conditions.on_answer(it));
    }

    /// How the objects of a definition are converted.
    fn conversion(&self, conversion::Write { name, patch }: conversion::Write) {
        let (key, of) = (Key::Conversion(name.clone()), (definition_kind(), (String::new(), name)));
        self.patched(key, of, Part::Object(patch), |live, it| live.definitions.on_answer(it));
    }

    /// An object beside Deployments.
    fn component(&self, write: component::Write) {
        let (objects, live, memory, at) = (self.objects.clone(), self.live.clone(), self.memory.clone(), self.at);
        let key = Key::Component(write.id().clone());
        let to = write.object().map(|object| hash(object, ""));
        let (named, rest) = (key.to_string(), self.rest(&key, to.as_deref()));
        self.writer.begin(key, at, rest, async move {
            let kind = component_kind(write.id().kind);
            let (id, answer, fields) = match write {
                component::Write::Create { id, object } => {
                    let answer = match objects.create(&kind, &id.namespace, &object).await {
                        Err(error) if error.is_already_exists() => take_over(&objects, &kind, &id, &object).await?,
                        answer => answer?,
                    };
                    (id, answer, Vec::new())
                }
                component::Write::Replace { id, object, fields } => {
                    let answer = objects.replace(&kind, &id.namespace, &id.name, &object).await?;
                    (id, answer, fields)
                }
                component::Write::Delete { id, uid } => {
                    return objects.delete(&kind, &id.namespace, &id.name, &uid).await.map(drop);
                }
            };
            let fields = memory.on_written(&named, &to.unwrap_or_default(), fields, at);
            if !fields.is_empty() {
                tracing::warn!(object = named, ?fields, "an object is changed again and again by somebody else");
            }
            live.on_component(id.kind, answer);
            Ok(())
        });
    }
}

fn tell((namespace, name): &Id, state: &State, events: &Events, about: ObjectReference) {
    let State { phase, reason, message } = state;
    tracing::info!(namespace, name, ?phase, reason, message, "a ClusterServiceVersion");
    events.publish_about(notice(state), about);
}

fn notice(State { phase, reason, message }: &State) -> Notice {
    Notice::new(*phase == Phase::Failed, reason, message)
}

pub(super) fn reference(csv: &Csv) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!("{GROUP}/v1alpha1")),
        kind: Some("ClusterServiceVersion".to_owned()),
        name: csv.metadata.name.clone(),
        namespace: csv.metadata.namespace.clone(),
        uid: csv.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// An object that has been deleted meanwhile needs nothing: then the answer is null.
fn absent_is_done(answer: Result<Value, ApiError>) -> Result<Value, ApiError> {
    match answer {
        Err(error) if error.is_not_found() => Ok(Value::Null),
        answer => answer,
    }
}

/// What was written, the answer, and what it differed in; `None` where it is gone.
async fn put_deployment(objects: &Objects, id: &Id, write: Write) -> Result<Option<(Value, Value, Change)>, ApiError> {
    let kind = deployment_kind();
    match write {
        Write::Create { object, .. } => {
            let (written, answer) = match objects.create(&kind, &id.0, &object).await {
                Err(error) if error.is_already_exists() => adopt(objects, id, &object).await?,
                answer => (object, answer?),
            };
            Ok(Some((written, answer, Change::default())))
        }
        Write::Replace { object, change, .. } => {
            let answer = objects.replace(&kind, &id.0, &id.1, &object).await?;
            Ok(Some((object, answer, change)))
        }
        Write::Delete { uid, .. } => objects.delete(&kind, &id.0, &id.1, &uid).await.map(|_| None),
    }
}

/// There is an object by this name, which does not have the label by which those of operators are known.
async fn take_over(objects: &Objects, kind: &Kind, id: &component::Id, wanted: &Value) -> Result<Value, ApiError> {
    let Some(found) = objects.get(kind, &id.namespace, &id.name).await? else {
        return objects.create(kind, &id.namespace, wanted).await;
    };
    let cause = |message: String| ApiError {
        attempt: format!("take over {id}"),
        cause: crate::cluster::Cause::Server { code: 409, reason: "AlreadyExists".to_owned(), message },
    };
    match component::take_over(id, &found, wanted).map_err(cause)? {
        Some(component::Write::Replace { object, .. }) => objects.replace(kind, &id.namespace, &id.name, &object).await,
        Some(component::Write::Delete { uid, .. }) => {
            objects.delete(kind, &id.namespace, &id.name, &uid).await?;
            objects.create(kind, &id.namespace, wanted).await
        }
        Some(component::Write::Create { .. }) | None => Ok(found),
    }
}

/// There is a Deployment by this name, which does not have the label by which those of operators are known. Returns what was
/// written, and the answer.
async fn adopt(objects: &Objects, id: &Id, desired: &Value) -> Result<(Value, Value), ApiError> {
    let kind = deployment_kind();
    let Some(found) = objects.get(&kind, &id.0, &id.1).await? else {
        let answer = objects.create(&kind, &id.0, desired).await?;
        return Ok((desired.clone(), answer));
    };
    let live = LiveDeployment { object: Arc::new(found), ..LiveDeployment::default() };
    let cause = |message: String| ApiError {
        attempt: format!("take over Deployment {}/{}", id.0, id.1),
        cause: crate::cluster::Cause::Server { code: 409, reason: "AlreadyExists".to_owned(), message },
    };
    match deployment::change(desired, &live).map_err(cause)? {
        None => Ok((desired.clone(), (*live.object).clone())),
        Some((object, _)) => {
            let answer = objects.replace(&kind, &id.0, &id.1, &object).await?;
            Ok((object, answer))
        }
    }
}

#[cfg(test)]
mod tests;
