//! One object: what the index knows of it decides which request is needed, if any.

use super::Cluster;
use super::error::ApplyError;
use crate::cluster::access;
use crate::cluster::index::View;
use crate::cluster::objects::Removed;
use crate::cluster::revision::Revision;
use crate::cluster::{ApiError, CachedState, Cause, Kind, Objects};
use crate::gate;
use crate::merge::{self, Applied, Desired, Skip, Step};
use crate::object::manifest::ObjectId;
use crate::object::metadata;
use crate::object::writers;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Attempts to read, merge and write before a conflict counts as an error.
const ATTEMPTS: usize = 4;

/// Identity of a namespace.
pub(crate) fn namespace_id(name: &str) -> ObjectId {
    ObjectId::new("", "Namespace", "", name)
}

/// The uids of an object's owners.
fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    references.filter_map(|reference| reference.get("uid")?.as_str())
}

fn finalizers(live: &Value) -> Vec<String> {
    let list = live.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) struct ObjectApply<'a> {
    pub cluster: &'a Cluster,
    pub writer: &'a Objects,
    pub kind: &'a Kind,
    pub id: &'a ObjectId,
    pub desired: &'a Desired,
    pub fingerprint: u64,
}

impl ObjectApply<'_> {
    /// Decides by the state of the cluster, as the index knows it, and not by what was done before: so an interrupted
    /// replacement is completed, and an object that reappears is deleted again.
    pub(crate) async fn run(&self) -> Result<Applied, ApplyError> {
        let (index, id) = (&self.cluster.index, self.id);
        let delete = self.desired.manifest.delete().map_err(|e| ApplyError::Manifest(e.to_string()))?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let live = match index.lookup(id, self.fingerprint) {
                CachedState::AsDesired => return Ok(Applied::Unchanged),
                CachedState::Absent if delete => return Ok(Applied::Unchanged),
                CachedState::Absent => match self.create().await? {
                    Some(applied) => return Ok(applied),
                    None => continue,
                },
                // The feed of another version of the kind has read it, for another manifest.
                CachedState::Differs(live) if !self.is_in_version(&live) => {
                    index.invalidate(id);
                    continue;
                }
                CachedState::Differs(live) => live,
                CachedState::Unknown => match self.cluster.objects.get(self.kind, &id.namespace, &id.name).await? {
                    Some(live) => Arc::new(live),
                    None => {
                        index.record_read(id, None, None, None);
                        continue;
                    }
                },
            };
            match self.apply_to(&live).await {
                Ok(applied) => return Ok(applied),
                Err(ApplyError::Api(error))
                    if error.is_conflict() || error.is_not_found() || error.is_already_exists() =>
                {
                    index.invalidate(id);
                    last = Some(error);
                }
                Err(other) => return Err(other),
            }
        }
        Err(last.map_or(ApplyError::Unsteady, ApplyError::Api))
    }

    /// Whether the object is in the API version of the manifest.
    fn is_in_version(&self, live: &Value) -> bool {
        live.get("apiVersion").and_then(Value::as_str).is_none_or(|version| version == self.kind.api_version())
    }

    /// POST. `None`: another client has created it meanwhile, so it has to be read.
    async fn create(&self) -> Result<Option<Applied>, ApplyError> {
        self.check_namespace()?;
        let (index, id) = (&self.cluster.index, self.id);
        index.hold_events(id);
        let created = self.write_new().await;
        // The answer to an apply of a new object is a conflict.
        let exists = |error: &ApiError| error.is_already_exists() || error.is_conflict();
        if created.is_ok() || matches!(&created, Err(ApplyError::Api(error)) if exists(error)) {
            self.cluster.feeds.on_write(self.kind);
        }
        let outcome = match created {
            Ok(object) => {
                let view = gate::observe_json(id, object.get());
                self.cluster.server_keeps.forget(id);
                index.record_write(id, Revision::read(&object), self.fingerprint, view);
                index.release_events(id);
                self.write_status(&object).await;
                return Ok(Some(Applied::Created));
            }
            Err(ApplyError::Api(error)) if exists(&error) => {
                index.invalidate(id);
                Ok(None)
            }
            Err(ApplyError::Api(error)) if error.is_not_found() => Err(self.not_found(error)),
            // Nothing is created before the namespace is gone, and then it is created first.
            Err(ApplyError::Api(error)) if error.is_namespace_terminating() => {
                Err(ApplyError::NamespaceTerminating(id.namespace.clone()))
            }
            Err(error) => Err(error),
        };
        index.release_events(id);
        outcome
    }

    /// Writes an object that does not exist. Its JSON is made before the request: the decoded object is many times as large,
    /// and would be kept until the server answers.
    async fn write_new(&self) -> Result<Box<RawValue>, ApplyError> {
        let (objects, ObjectId { namespace, name, .. }) = (self.writer, self.id);
        if self.desired.is_applied() {
            let configuration = self.desired.configuration(None)?;
            match objects.apply(self.kind, namespace, name, configuration).await {
                Err(error) if error.cannot_apply() => self.warn_of(&error),
                applied => return Ok(applied?),
            }
        }
        let body = self.desired.created()?;
        Ok(objects.create_raw(self.kind, namespace, name, body).await?)
    }

    fn warn_of(&self, error: &ApiError) {
        tracing::warn!(object = %self.id, %error, "written as a whole instead, so that fields that a later release drops stay");
    }

    /// The status of an object that was just created. A conflict means that its controller has written one already.
    async fn write_status(&self, created: &RawValue) {
        let Some(status) = merge::initial_status(&self.desired.manifest) else { return };
        let mut fresh: Value = serde_json::from_str(created.get()).unwrap_or_default();
        if let Some(map) = fresh.as_object_mut() {
            map.insert("status".into(), status);
        }
        let ObjectId { namespace, name, .. } = self.id;
        if let Err(error) = self.writer.replace_status(self.kind, namespace, name, &fresh).await {
            tracing::debug!(object = %self.id, %error, "initial status not written; its controller will write one");
        }
    }

    fn not_found(&self, error: ApiError) -> ApplyError {
        let message = match &error.cause {
            Cause::Server { message, .. } => message.as_str(),
            _ => "",
        };
        // The server says `namespaces "a" not found`, but names nothing if it does not serve the kind.
        if self.kind.namespaced && message.starts_with("namespaces ") {
            ApplyError::NamespaceMissing(self.id.namespace.clone())
        } else {
            ApplyError::KindGone(error)
        }
    }

    /// The POST would only fail without its namespace.
    fn check_namespace(&self) -> Result<(), ApplyError> {
        let namespace = namespace_id(&self.id.namespace);
        if self.kind.namespaced && self.cluster.index.view(&namespace) == View::Absent {
            return Err(ApplyError::NamespaceMissing(self.id.namespace.clone()));
        }
        Ok(())
    }

    /// Brings an existing object to its desired state.
    async fn apply_to(&self, live: &Value) -> Result<Applied, ApplyError> {
        if let Some(controller) = self.desired.other_controller(live) {
            self.cluster.index.record_read(self.id, Some(live.clone()), None, gate::observe(self.id, live));
            return Err(ApplyError::OtherController(controller));
        }
        let step = self.desired.step(Some(live))?;
        if let Step::Change { object, .. } | Step::Replace { object, .. } = &step
            && owners(object).any(|uid| !owners(live).any(|held| held == uid))
        {
            self.check_owner().await?;
        }
        match step {
            // Kept for the next look, since it does not have the desired state.
            Step::Skip(Skip::Terminating) => {
                self.cluster.index.record_read(self.id, Some(live.clone()), None, None);
                Ok(Applied::Unchanged)
            }
            Step::Change { .. } if self.cluster.server_keeps.is_known(self.id, self.fingerprint, live) => {
                self.record(live.clone());
                Ok(Applied::Unchanged)
            }
            Step::Change { object, fields } => self.change(live, &object, fields).await,
            Step::Replace { object, fields } => self.replace(live, &object, fields).await,
            Step::Delete => self.delete(live).await.map(|_| Applied::Deleted),
            Step::Skip(_) | Step::Create(_) => {
                self.cluster.server_keeps.forget(self.id);
                self.record(live.clone());
                Ok(Applied::Unchanged)
            }
        }
    }

    /// Brings the object to its desired state by writing it.
    async fn change(&self, live: &Value, object: &Value, fields: Vec<String>) -> Result<Applied, ApplyError> {
        let (index, id) = (&self.cluster.index, self.id);
        index.hold_events(id);
        let written = self.write(live, object).await.map(|answer| {
            let in_vain = match self.desired.step(Some(&answer)) {
                Ok(Step::Change { fields, .. }) => {
                    self.cluster.server_keeps.remember(id, self.fingerprint, &answer, &fields)
                }
                _ => {
                    self.cluster.server_keeps.forget(id);
                    false
                }
            };
            self.record(answer);
            in_vain
        });
        index.release_events(id);
        if written? { Ok(Applied::Unchanged) } else { Ok(Applied::Updated { fields, by: self.last_writer(live) }) }
    }

    /// PUT of `object`, or apply, and the answer.
    async fn write(&self, live: &Value, object: &Value) -> Result<Value, ApplyError> {
        if self.desired.is_applied() {
            match self.apply(live).await {
                Err(ApplyError::Api(error)) if error.cannot_apply() => self.warn_of(&error),
                applied => return applied,
            }
            if object == live {
                return Ok(live.clone());
            }
        }
        Ok(self.put(object).await?)
    }

    async fn put(&self, object: &Value) -> Result<Value, ApiError> {
        self.writer.replace(self.kind, &self.id.namespace, &self.id.name, object).await
    }

    /// Applies, and takes the object over from an orchestrator that has written it by plain updates if it still has fields
    /// that the manifest lacks. Not before the first apply, which fails if the server cannot apply the manifest at all.
    async fn apply(&self, live: &Value) -> Result<Value, ApplyError> {
        let applied = self.apply_once(live).await?;
        if !matches!(self.desired.step(Some(&applied)), Ok(Step::Change { .. })) {
            return Ok(applied);
        }
        let Some(taken_over) = merge::taken_over(&applied, self.desired.manager) else { return Ok(applied) };
        self.apply_once(&self.put(&taken_over).await?).await
    }

    async fn apply_once(&self, live: &Value) -> Result<Value, ApplyError> {
        let configuration = self.desired.configuration(Some(live))?;
        let answer = self.writer.apply(self.kind, &self.id.namespace, &self.id.name, configuration).await?;
        serde_json::from_str(answer.get()).map_err(|error| {
            let attempt = format!("read the answer to the apply of {}", self.id);
            ApplyError::Api(ApiError { attempt, cause: Cause::Answer(error.to_string()) })
        })
    }

    /// DELETE and, once the old object is gone, POST. If this is interrupted in between, the next attempt finds the object
    /// absent and creates it.
    async fn replace(&self, live: &Value, object: &Value, fields: Vec<String>) -> Result<Applied, ApplyError> {
        let (index, id) = (&self.cluster.index, self.id);
        if let Some(user) = self.bound(live).await? {
            return Err(ApplyError::OwnRights(user));
        }
        if metadata::is_terminating(live) || self.delete(live).await? == Removed::Terminating {
            index.record_read(id, Some(live.clone()), None, None);
            return Err(ApplyError::Terminating(finalizers(live)));
        }
        index.hold_events(id);
        let created = self.writer.create(self.kind, &id.namespace, object).await;
        let created = created.map(|answer| {
            self.cluster.server_keeps.forget(id);
            self.record(answer);
        });
        index.release_events(id);
        // If another client was faster, its object is looked at like any other.
        created?;
        Ok(Applied::Updated { fields, by: self.last_writer(live) })
    }

    /// Who the writer is, if the object is a binding that gives it rights: without that binding it might not be allowed to
    /// create it again, nor to say so.
    async fn bound(&self, live: &Value) -> Result<Option<String>, ApiError> {
        let subjects = live.get("subjects").and_then(Value::as_array).filter(|subjects| !subjects.is_empty());
        let (Some(subjects), "rbac.authorization.k8s.io") = (subjects, self.id.group.as_str()) else { return Ok(None) };
        let (user, groups) = access::identity(self.writer.client()).await?;
        let is_us = |subject: &Value| {
            let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
            match text("kind") {
                "ServiceAccount" => format!("system:serviceaccount:{}:{}", text("namespace"), text("name")) == user,
                "Group" => groups.iter().any(|group| group == text("name")),
                _ => text("name") == user,
            }
        };
        Ok(subjects.iter().any(is_us).then_some(user))
    }

    /// DELETE of exactly the object that was read.
    async fn delete(&self, live: &Value) -> Result<Removed, ApplyError> {
        let (index, id) = (&self.cluster.index, self.id);
        index.hold_events(id);
        let removed = self.writer.delete(self.kind, &id.namespace, &id.name, metadata::uid(live)).await;
        if matches!(removed, Ok(Removed::Gone)) {
            index.record_read(id, None, None, None);
        }
        index.release_events(id);
        Ok(removed?)
    }

    /// When the owner is deleted with `--cascade=orphan`, the garbage collector removes the owner references to it. If one were
    /// added again, it would delete that object: so the owner is read before a reference is added.
    async fn check_owner(&self) -> Result<(), ApplyError> {
        let Some(owner) = &self.desired.owner else { return Ok(()) };
        let live = self.cluster.objects.get(&Kind::of_owner(owner), &self.id.namespace, &owner.name).await?;
        let same = |live: &Value| metadata::uid(live) == owner.uid && !metadata::is_terminating(live);
        if live.as_ref().is_some_and(same) { Ok(()) } else { Err(ApplyError::OwnerGone) }
    }

    /// The field manager other than ours that wrote the object last, by its managedFields.
    fn last_writer(&self, live: &Value) -> Option<String> {
        writers::last(writers::entries(live), self.desired.manager.name).map(str::to_owned)
    }

    fn record(&self, live: Value) {
        let view = gate::observe(self.id, &live);
        self.cluster.index.record_read(self.id, Some(live), Some(self.fingerprint), view);
    }
}
