//! One object on its way: what the index knows decides which request is needed, if any (architecture §3 step 5).

use super::wanted::Want;
use super::{Applier, Obstacle, namespace_id};
use crate::cluster::index::View;
use crate::cluster::objects::{Cause, FIELD_MANAGER, Removed};
use crate::cluster::partial_object::PartialObject;
use crate::cluster::{ApiError, CachedState, Kind};
use crate::gate;
use crate::merge::{Left, Step};
use crate::payload::ObjectId;
use crate::rollout::Applied;
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};

/// Read-merge-write rounds before a conflict counts as an error.
const ROUNDS: usize = 4;

/// The uids of an object's owners.
fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    references.filter_map(|reference| reference.get("uid")?.as_str())
}

fn is_going(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some()
}

fn finalizers(live: &Value) -> Vec<String> {
    let list = live.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn uid(live: &Value) -> &str {
    live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// One manifest on its way.
pub(super) struct One<'a> {
    pub applier: &'a Applier,
    pub kind: &'a Kind,
    pub id: &'a ObjectId,
    pub want: Want<'a>,
}

impl One<'_> {
    /// Does what is needed. State comes from the cluster, as the index knows it, not from what was done before: what
    /// was interrupted goes on, and what has reappeared is deleted again (§9.3 C4).
    pub async fn apply(&self) -> Result<Applied, Obstacle> {
        let (index, id) = (&self.applier.index, self.id);
        let delete = self.want.manifest.delete() == Ok(true);
        let mut last = None;
        for _ in 0..ROUNDS {
            let live = match index.lookup(id, self.want.fingerprint) {
                CachedState::AsDesired => return Ok(Applied::Left),
                CachedState::Absent if delete => return Ok(Applied::Left),
                CachedState::Absent => match self.create().await? {
                    Some(applied) => return Ok(applied),
                    None => continue,
                },
                // Read while another manifest had it in another version of its kind.
                CachedState::Differs(live) if !self.reads(&live) => {
                    index.invalidate(id);
                    continue;
                }
                CachedState::Differs(live) => live,
                CachedState::Unknown => match self.applier.objects.get(self.kind, &id.namespace, &id.name).await? {
                    Some(live) => Arc::new(live),
                    None => {
                        index.record_read(id, None, None, None);
                        continue;
                    }
                },
            };
            match self.settle(&live).await {
                Ok(applied) => return Ok(applied),
                Err(Obstacle::Api(error)) if error.is_conflict() || error.is_not_found() => {
                    index.invalidate(id);
                    last = Some(error);
                }
                Err(other) => return Err(other),
            }
        }
        Err(last.map_or_else(|| Obstacle::Manifest("appears and disappears".to_owned()), Obstacle::Api))
    }

    /// Whether the object is in the version that the manifest is in.
    fn reads(&self, live: &Value) -> bool {
        live.get("apiVersion").and_then(Value::as_str).is_none_or(|version| version == self.kind.api_version())
    }

    /// POST. `None`: somebody else was faster; look again.
    async fn create(&self) -> Result<Option<Applied>, Obstacle> {
        self.namespace_is_there()?;
        let (index, id) = (&self.applier.index, self.id);
        let Some(body) = self.initial()? else { return Ok(Some(Applied::Left)) };
        index.hold_events(id);
        let created = self.applier.objects.create_raw(self.kind, &id.namespace, &id.name, body).await;
        if created.is_ok() || created.as_ref().is_err_and(ApiError::is_already_exists) {
            self.applier.feeds.wrote(self.kind);
        }
        let operator = self.kind.group == "config.openshift.io" && self.kind.kind == "ClusterOperator";
        let outcome = match created {
            Ok(object) => {
                if self.kind.kind == "CustomResourceDefinition" {
                    self.applier.born.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
                }
                let partial = PartialObject::read(&object);
                index.record_write(id, partial.revision(), self.want.fingerprint, partial.view(id));
                index.release_events(id);
                if operator {
                    self.announce_related(serde_json::from_str(object.get()).unwrap_or_default()).await;
                }
                return Ok(Some(Applied::Created));
            }
            Err(error) if error.is_already_exists() => {
                index.invalidate(id);
                Ok(None)
            }
            Err(error) if error.is_not_found() => Err(self.not_found(&error)),
            Err(error) => Err(error.into()),
        };
        index.release_events(id);
        outcome
    }

    /// The object to POST, or `None` if there is nothing to create. Decoded it is many times as large, so none is kept
    /// while a request is under way.
    fn initial(&self) -> Result<Option<Vec<u8>>, Obstacle> {
        let Step::Create(object) = self.want.step(None)? else { return Ok(None) };
        serde_json::to_vec(&object).map(Some).map_err(|e| Obstacle::Manifest(e.to_string()))
    }

    /// A new ClusterOperator says what it is about before its operator runs, for those who gather data (§6.1 P). Its
    /// operator may be faster, and knows better.
    async fn announce_related(&self, mut fresh: Value) {
        let object = self.want.manifest.object().unwrap_or_default();
        let Some(related) = object.pointer("/status/relatedObjects").cloned() else { return };
        if let Some(map) = fresh.as_object_mut() {
            map.insert("status".into(), json!({ "relatedObjects": related }));
        }
        if let Err(error) = self.applier.objects.replace_status(self.kind, "", &self.id.name, &fresh).await {
            tracing::debug!(%error, "related objects not announced; the operator will");
        }
    }

    fn not_found(&self, error: &ApiError) -> Obstacle {
        let message = match &error.cause {
            Cause::Server { message, .. } => message.as_str(),
            _ => "",
        };
        // As in `namespaces "a" not found`; of a kind that is not served the server says no name.
        if self.kind.namespaced && message.starts_with("namespaces ") {
            Obstacle::NamespaceMissing(self.id.namespace.clone())
        } else {
            Obstacle::KindNotServed
        }
    }

    /// A namespace that the release itself brings is waited for instead of being run into.
    fn namespace_is_there(&self) -> Result<(), Obstacle> {
        let namespace = namespace_id(&self.id.namespace);
        if self.kind.namespaced && self.applier.index.view(&namespace) == View::Absent {
            return Err(Obstacle::NamespaceMissing(self.id.namespace.clone()));
        }
        Ok(())
    }

    /// Brings an object that is there to what is wanted.
    async fn settle(&self, live: &Value) -> Result<Applied, Obstacle> {
        let step = self.want.step(Some(live))?;
        if let Step::Change { object, .. } | Step::Replace { object, .. } = &step
            && owners(object).any(|uid| !owners(live).any(|held| held == uid))
        {
            self.owner_is_there().await?;
        }
        match step {
            Step::Leave(Left::Going) => {
                self.applier.index.record_read(self.id, Some(live.clone()), None, None);
                Ok(Applied::Left)
            }
            Step::Change { .. } if self.applier.kept.is_known(self.id, self.want.fingerprint, live) => {
                self.saw(live.clone());
                Ok(Applied::Left)
            }
            Step::Change { object, fields } => self.change(live, &object, fields).await,
            Step::Replace { object, fields } => self.replace(live, &object, fields).await,
            Step::Delete => self.delete(live).await.map(|_| Applied::Deleted),
            Step::Leave(_) | Step::Create(_) => {
                self.saw(live.clone());
                Ok(Applied::Left)
            }
        }
    }

    /// PUT.
    async fn change(&self, live: &Value, object: &Value, fields: Vec<String>) -> Result<Applied, Obstacle> {
        let (index, id) = (&self.applier.index, self.id);
        index.hold_events(id);
        let written = self.applier.objects.replace(self.kind, &id.namespace, &id.name, object).await;
        let written = written.map(|answer| {
            match self.want.step(Some(&answer)) {
                Ok(Step::Change { fields, .. }) => {
                    self.applier.kept.remember(id, self.want.fingerprint, &answer, fields);
                }
                _ => self.applier.kept.forget(id),
            }
            self.saw(answer);
        });
        index.release_events(id);
        written?;
        Ok(Applied::Updated { fields, by: last_writer(live) })
    }

    /// DELETE and, once the old object is gone, POST. Whoever is interrupted in between finds it absent and creates it.
    async fn replace(&self, live: &Value, object: &Value, fields: Vec<String>) -> Result<Applied, Obstacle> {
        let (index, id) = (&self.applier.index, self.id);
        if is_going(live) || self.delete(live).await? == Removed::Going {
            index.record_read(id, Some(live.clone()), None, None);
            return Err(Obstacle::Going(finalizers(live)));
        }
        index.hold_events(id);
        let created = self.applier.objects.create(self.kind, &id.namespace, object).await;
        let created = created.map(|answer| self.saw(answer));
        index.release_events(id);
        match created {
            // Somebody was faster: look again.
            Err(error) if error.is_already_exists() => index.invalidate(id),
            created => created?,
        }
        Ok(Applied::Updated { fields, by: last_writer(live) })
    }

    /// DELETE of exactly the object that was looked at.
    async fn delete(&self, live: &Value) -> Result<Removed, Obstacle> {
        let (index, id) = (&self.applier.index, self.id);
        index.hold_events(id);
        let removed = self.applier.objects.delete(self.kind, &id.namespace, &id.name, uid(live)).await;
        if matches!(removed, Ok(Removed::Gone)) {
            index.record_read(id, None, None, None);
        }
        index.release_events(id);
        Ok(removed?)
    }

    /// Who deletes the ClusterVersion and keeps the rest (`--cascade=orphan`) has the garbage collector take the owner
    /// references away. Giving them back would have it take the objects: so whoever is about to add one looks first.
    async fn owner_is_there(&self) -> Result<(), Obstacle> {
        let Some(owner) = &self.want.owner else { return Ok(()) };
        let live = self.applier.objects.get(&Kind::cluster_version(), "", &owner.name).await?;
        let stays = |live: &Value| uid(live) == owner.uid && live.pointer("/metadata/deletionTimestamp").is_none();
        if live.as_ref().is_some_and(stays) { Ok(()) } else { Err(Obstacle::OwnerGone) }
    }

    fn saw(&self, live: Value) {
        let view = gate::gated(&self.id.group, &self.id.kind).then(|| gate::view(&live));
        self.applier.index.record_read(self.id, Some(live), Some(self.want.fingerprint), view);
    }
}

/// The field manager other than ours that wrote the object last, by its managedFields.
fn last_writer(live: &Value) -> Option<String> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let others = entries.iter().filter(|e| text(e, "manager") != FIELD_MANAGER && text(e, "subresource").is_empty());
    others.max_by_key(|e| text(e, "time")).map(|e| text(e, "manager"))
}
