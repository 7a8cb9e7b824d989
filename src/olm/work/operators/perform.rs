//! Writes what was decided.

use super::figures::OperatorFigures;
use super::known::Roles;
use super::live::{
    Live, binding_kind, cluster_binding_kind, cluster_role_kind, condition_kind, csv_kind, deployment_kind, group_kind,
    role_kind,
};
use super::rest;
use super::views::Csv;
use crate::cluster::followed::{Followed, View};
use crate::cluster::writer::Writer;
use crate::cluster::{ApiError, Kind, Objects};
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::{ClusterServiceVersionStatus, Phase};
use crate::olm::api::keys::label;
use crate::olm::api::operator_condition::{OperatorCondition, OperatorConditionStatus};
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::State;
use crate::olm::operator::deployment::{self, Live as LiveDeployment, Write};
use crate::olm::operator::rights::Rights;
use crate::process::events::{Events, Notice};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Id = (String, String);

/// So many changes of a Deployment may follow each other at once, within this time.
pub(super) const PATIENCE: u32 = 3;
pub(super) const WINDOW: Duration = Duration::from_secs(600);

/// What is written, one at a time for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Csv(Id),
    Deployment(Id),
    Group(Id),
    Condition(Id),
    ConditionStatus(Id),
    Role(Id),
    Binding(Id),
    ClusterRole(String),
    ClusterBinding(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Csv((namespace, name)) => write!(f, "ClusterServiceVersion {namespace}/{name}"),
            Key::Deployment((namespace, name)) => write!(f, "Deployment {namespace}/{name}"),
            Key::Group((namespace, name)) => write!(f, "OperatorGroup {namespace}/{name}"),
            Key::Condition((namespace, name)) => write!(f, "OperatorCondition {namespace}/{name}"),
            Key::ConditionStatus((namespace, name)) => write!(f, "status of OperatorCondition {namespace}/{name}"),
            Key::Role((namespace, name)) => write!(f, "Role {namespace}/{name}"),
            Key::Binding((namespace, name)) => write!(f, "RoleBinding {namespace}/{name}"),
            Key::ClusterRole(name) => write!(f, "ClusterRole {name}"),
            Key::ClusterBinding(name) => write!(f, "ClusterRoleBinding {name}"),
        }
    }
}

/// An object without a namespace that belongs to a ClusterServiceVersion.
pub(super) enum ClusterObject {
    Role { name: String, uid: String },
    Binding { name: String, uid: String },
}

/// What the process remembers of its writes. Without it, some would be done once more.
#[derive(Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    /// By Deployment: the hash of what was written, and which fields the API server has made different.
    kept: BTreeMap<Id, (String, Vec<String>)>,
    /// When a Deployment was changed lately.
    changes: BTreeMap<Id, Vec<Instant>>,
    /// Of these roles.
    rights: Option<(Roles, Arc<Rights>)>,
}

fn hash(object: &Value) -> Option<&str> {
    object.pointer("/metadata/labels")?.get(label::DEPLOYMENT_SPEC_HASH)?.as_str()
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kept(&self, id: &Id, object: &Value) -> Vec<String> {
        let remembered = self.lock();
        let kept = remembered.kept.get(id).filter(|(of, _)| hash(object) == Some(of.as_str()));
        kept.map(|(_, fields)| fields.clone()).unwrap_or_default()
    }

    /// The same as the last time as long as no role has changed.
    pub(super) fn rights(&self, roles: &Roles) -> Arc<Rights> {
        let mut remembered = self.lock();
        if let Some((of, rights)) = &remembered.rights
            && of.is_same(roles)
        {
            return rights.clone();
        }
        let rights = Arc::new(roles.rights());
        remembered.rights = Some((roles.clone(), rights.clone()));
        rights
    }

    fn on_written(&self, id: &Id, written: &Value, answer: &Value, at: Instant) {
        let fields = deployment::kept(written, answer);
        let mut remembered = self.lock();
        match hash(written).filter(|_| !fields.is_empty()) {
            Some(hash) => {
                tracing::info!(namespace = id.0, name = id.1, ?fields, "the API server keeps fields of a Deployment different");
                remembered.kept.insert(id.clone(), (hash.to_owned(), fields));
            }
            None => drop(remembered.kept.remove(id)),
        }
        let changes = remembered.changes.entry(id.clone()).or_default();
        changes.retain(|change| at.duration_since(*change) < WINDOW);
        changes.push(at);
    }

    /// How often it was changed lately.
    fn changes(&self, id: &Id, at: Instant) -> u32 {
        let remembered = self.lock();
        let changes = remembered.changes.get(id).into_iter().flatten();
        let lately = changes.filter(|change| at.duration_since(**change) < WINDOW).count();
        u32::try_from(lately).unwrap_or(u32::MAX)
    }
}

/// What it is written with.
pub(super) struct Perform<'a> {
    pub objects: &'a Objects,
    pub live: &'a Live,
    pub writer: &'a Arc<Writer<Key>>,
    pub memory: &'a Arc<Memory>,
    pub events: &'a Events,
    pub figures: &'a Arc<OperatorFigures>,
    /// When the objects were looked at.
    pub at: Instant,
}

fn id(object: &impl ResourceExt) -> Id {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn take<V: View>(followed: &Followed<V>, answer: Value) {
    if let Ok(object) = serde_json::from_value(answer) {
        followed.on_written(object);
    }
}

impl Perform<'_> {
    fn begin(&self, key: Key, write: impl Future<Output = Result<(), ApiError>> + Send + 'static) {
        self.writer.begin(key, self.at, Duration::ZERO, write);
    }

    pub(super) fn patch(&self, csv: &Csv, patch: Value) {
        let (id, objects, live) = (id(csv), self.objects.clone(), self.live.clone());
        self.begin(Key::Csv(id.clone()), async move {
            let answer = objects.merge_patch(&csv_kind(), &id.0, &id.1, &patch).await;
            take(&live.csvs, absent_is_done(answer)?);
            Ok(())
        });
    }

    pub(super) fn status(
        &self,
        csv: &Csv,
        state: Option<State>,
        status: ClusterServiceVersionStatus,
        is_replaced: bool,
    ) {
        let (id, objects, live) = (id(csv), self.objects.clone(), self.live.clone());
        let (events, figures) = (self.events.clone(), self.figures.clone());
        let before = csv.status.clone().unwrap_or_default();
        let notice = state.filter(|state| !state.is_told(&before)).map(|state| {
            tracing::info!(
                namespace = id.0, name = id.1, phase = ?state.phase, reason = state.reason, message = state.message,
                "a ClusterServiceVersion"
            );
            (Notice::new(state.phase == Phase::Failed, state.reason, &state.message), reference(csv))
        });
        let version = csv.metadata.resource_version.clone();
        let status = with_removals(&json!(before), json!(status));
        self.begin(Key::Csv(id.clone()), async move {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            let answer = objects.merge_patch_status(&csv_kind(), &id.0, &id.1, &patch).await;
            let answer = absent_is_done(answer)?;
            if !answer.is_null() {
                notice.into_iter().for_each(|(notice, about)| events.publish_about(notice, about));
                if is_replaced {
                    figures.on_upgrade();
                }
                take(&live.csvs, answer);
            }
            Ok(())
        });
    }

    pub(super) fn delete(&self, csv: &Csv) {
        let (id, objects) = (id(csv), self.objects.clone());
        let uid = csv.metadata.uid.clone().unwrap_or_default();
        self.begin(Key::Csv(id.clone()), async move {
            objects.delete(&csv_kind(), &id.0, &id.1, &uid).await.map(drop)
        });
    }

    pub(super) fn deployment(&self, csv: &Csv, write: Write) {
        let id = (csv.metadata.namespace.clone().unwrap_or_default(), write.name().to_owned());
        let (objects, live, memory) = (self.objects.clone(), self.live.clone(), self.memory.clone());
        let (of, at) = (id.clone(), self.at);
        // The write that is begun now is one more.
        let rest = rest(self.memory.changes(&id, self.at).saturating_add(1));
        self.writer.begin(Key::Deployment(id), self.at, rest, async move {
            let kind = deployment_kind();
            let (written, answer) = match write {
                Write::Create { object, .. } => match objects.create(&kind, &of.0, &object).await {
                    Err(error) if error.is_already_exists() => adopt(&objects, &of, &object).await?,
                    answer => (object, answer?),
                },
                Write::Replace { object, .. } => {
                    let answer = objects.replace(&kind, &of.0, &of.1, &object).await?;
                    (object, answer)
                }
                Write::Delete { uid, .. } => return objects.delete(&kind, &of.0, &of.1, &uid).await.map(drop),
            };
            memory.on_written(&of, &written, &answer, at);
            take(&live.deployments, answer);
            Ok(())
        });
    }

    pub(super) fn group(&self, group: &OperatorGroup, status: Value) {
        let (id, objects, live) = (id(group), self.objects.clone(), self.live.clone());
        let version = group.metadata.resource_version.clone();
        self.begin(Key::Group(id.clone()), async move {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            let answer = objects.merge_patch_status(&group_kind(), &id.0, &id.1, &patch).await;
            take(&live.groups, absent_is_done(answer)?);
            Ok(())
        });
    }

    /// Makes the OperatorCondition of a ClusterServiceVersion, or patches it.
    pub(super) fn condition(&self, csv: &Csv, exists: bool, object: Value) {
        let (id, objects, live) = (id(csv), self.objects.clone(), self.live.clone());
        self.begin(Key::Condition(id.clone()), async move {
            let answer = match exists {
                true => objects.merge_patch(&condition_kind(), &id.0, &id.1, &object).await?,
                false => objects.create(&condition_kind(), &id.0, &object).await?,
            };
            take(&live.conditions, answer);
            Ok(())
        });
    }

    pub(super) fn condition_status(&self, condition: &OperatorCondition, status: OperatorConditionStatus) {
        let (id, objects, live) = (id(condition), self.objects.clone(), self.live.clone());
        let version = condition.metadata.resource_version.clone();
        self.begin(Key::ConditionStatus(id.clone()), async move {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            let answer = objects.merge_patch_status(&condition_kind(), &id.0, &id.1, &patch).await;
            take(&live.conditions, absent_is_done(answer)?);
            Ok(())
        });
    }

    /// `exists`: it is there in another form.
    pub(super) fn role(&self, condition: &OperatorCondition, (exists, object): (bool, Value)) {
        let (id, objects, live) = (id(condition), self.objects.clone(), self.live.clone());
        self.begin(Key::Role(id.clone()), async move {
            take(&live.roles, put(&objects, &role_kind(), &id, (exists, &object)).await?);
            Ok(())
        });
    }

    pub(super) fn binding(&self, condition: &OperatorCondition, (exists, object): (bool, Value)) {
        let (id, objects, live) = (id(condition), self.objects.clone(), self.live.clone());
        self.begin(Key::Binding(id.clone()), async move {
            take(&live.bindings, put(&objects, &binding_kind(), &id, (exists, &object)).await?);
            Ok(())
        });
    }

    pub(super) fn cluster_object(&self, object: ClusterObject) {
        let objects = self.objects.clone();
        let (key, kind, name, uid) = match object {
            ClusterObject::Role { name, uid } => (Key::ClusterRole(name.clone()), cluster_role_kind(), name, uid),
            ClusterObject::Binding { name, uid } => {
                (Key::ClusterBinding(name.clone()), cluster_binding_kind(), name, uid)
            }
        };
        self.begin(key, async move { objects.delete(&kind, "", &name, &uid).await.map(drop) });
    }
}

fn reference(csv: &Csv) -> ObjectReference {
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

/// As a merge patch: what was there and is not any more is null.
fn with_removals(before: &Value, mut after: Value) -> Value {
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) {
        for key in before.keys() {
            after.entry(key.clone()).or_insert(Value::Null);
        }
    }
    after
}

async fn put(objects: &Objects, kind: &Kind, id: &Id, (exists, object): (bool, &Value)) -> Result<Value, ApiError> {
    match exists {
        true => objects.replace(kind, &id.0, &id.1, object).await,
        false => objects.create(kind, &id.0, object).await,
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
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_status_any_more_is_removed() {
        let before = json!({"phase": "Pending", "requirementStatus": [1], "message": "m"});
        let patch = with_removals(&before, json!({"phase": "Failed", "reason": "r"}));
        assert_eq!(patch, json!({"phase": "Failed", "reason": "r", "requirementStatus": null, "message": null}));
    }

    #[test]
    fn fields_that_the_server_makes_different_are_remembered_for_what_was_written_alone() {
        let object = |hash: &str, replicas: i64| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "a", "namespace": "n", "labels": {label::DEPLOYMENT_SPEC_HASH: hash}},
                "spec": {"replicas": replicas}})
        };
        let (memory, id, at) = (Memory::default(), ("n".to_owned(), "a".to_owned()), Instant::now());
        memory.on_written(&id, &object("x", 2), &object("x", 1), at);
        assert_eq!(memory.kept(&id, &object("x", 1)), ["spec.replicas"]);
        assert!(memory.kept(&id, &object("y", 1)).is_empty());
        memory.on_written(&id, &object("x", 2), &object("x", 2), at);
        assert!(memory.kept(&id, &object("x", 2)).is_empty());
        assert_eq!(memory.changes(&id, at), 2);
        assert_eq!(memory.changes(&id, at + WINDOW), 0);
    }
}
