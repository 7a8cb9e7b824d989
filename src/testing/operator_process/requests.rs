//! What is written, as requests to whatever stands for the API server.

use super::OperatorProcess;
use crate::olm::api::olm_config;
use crate::olm::operator::component;
use crate::olm::operator::deployment::{self, written_hash};
use crate::olm::operator::serving::certificate;
use crate::olm::operator::turn::Action;
use crate::olm::permissions::hash;
use kube::ResourceExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// What is written of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Object,
    Status,
}

/// Why a request has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Somebody else was faster.
    Conflict,
    NotFound,
    Exists,
    /// It is turned down.
    Rejected(String),
    /// Nobody answers; it may have been done all the same.
    Away,
}

/// The API server. Kinds are known by their names alone.
pub trait Api {
    fn get(&mut self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, Failure>;
    fn create(&mut self, kind: &str, namespace: &str, object: &Value) -> Result<Value, Failure>;
    /// With the resourceVersion that the object has.
    fn replace(&mut self, kind: &str, namespace: &str, object: &Value, part: Part) -> Result<Value, Failure>;
    /// A merge patch.
    fn patch(&mut self, kind: &str, namespace: &str, name: &str, patch: (&Value, Part)) -> Result<Value, Failure>;
    fn delete(&mut self, kind: &str, namespace: &str, name: &str, uid: &str) -> Result<(), Failure>;
}

/// One write, which is under way until it is performed.
#[derive(Clone, Debug)]
pub struct Write {
    /// One at a time for each.
    pub key: String,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// A hash of what it is changed to, where it may be changed back by others.
    pub(super) to: Option<String>,
    pub(super) rest: Duration,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Patch(Value, Part),
    Create(Value),
    Delete(String),
    Deployment(deployment::Write),
    Component(component::Write),
    /// A certificate, by the authority that it has then.
    Certificate {
        object: Value,
        exists: bool,
        made: Option<String>,
    },
}

impl Write {
    fn new(label: &str, kind: &'static str, (namespace, name): (String, String), what: What) -> Write {
        let of = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        Write { key: format!("{label} {of}"), kind, namespace, name, to: None, rest: Duration::ZERO, what }
    }

    pub(super) fn of_config(patch: Value) -> Write {
        let id = (String::new(), olm_config::NAME.to_owned());
        Write::new("OLMConfig", "OLMConfig", id, What::Patch(patch, Part::Status))
    }

    pub(super) fn of_certificate(id: (String, String), object: Value, exists: bool, made: Option<String>) -> Write {
        Write::new("Secret", "Secret", id, What::Certificate { object, exists, made })
    }

    pub(super) fn of_left_over_secret(id: (String, String), uid: String) -> Write {
        Write::new("Secret", "Secret", id, What::Delete(uid))
    }

    /// Whether it deletes the object.
    pub fn deletes(&self) -> bool {
        matches!(
            self.what,
            What::Delete(_)
                | What::Deployment(deployment::Write::Delete { .. })
                | What::Component(component::Write::Delete { .. })
        )
    }

    /// What is there afterwards, or the patch of it; nothing where it is deleted.
    pub fn content(&self) -> Option<&Value> {
        match &self.what {
            What::Patch(object, _) | What::Create(object) | What::Certificate { object, .. } => Some(object),
            What::Delete(_) => None,
            What::Deployment(write) => write.object(),
            What::Component(write) => write.object(),
        }
    }

    /// Which fields differ, where that is known.
    pub fn fields(&self) -> &[String] {
        match &self.what {
            What::Deployment(deployment::Write::Replace { change, .. }) => &change.fields,
            What::Component(component::Write::Replace { fields, .. }) => fields,
            _ => &[],
        }
    }
}

fn id(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Adds the write of an action, or the step of a certificate.
pub(super) fn of(action: Action<'_>, writes: &mut Vec<Write>, steps: &mut Vec<(String, certificate::Step)>) {
    const CSV: &str = "ClusterServiceVersion";
    let patch = |kind: &'static str, id, patch, part| Write::new(kind, kind, id, What::Patch(patch, part));
    writes.push(match action {
        Action::Patch { csv, patch: it } => patch(CSV, id(csv), it, Part::Object),
        Action::Status { csv, patch: it, .. } => patch(CSV, id(csv), it, Part::Status),
        Action::Delete { csv } => Write::new(CSV, CSV, id(csv), What::Delete(csv.uid().unwrap_or_default())),
        Action::Deployment { csv, write, .. } => {
            let id = (csv.namespace().unwrap_or_default(), write.name().to_owned());
            let to = write.object().map(|object| written_hash(object).unwrap_or_default().to_owned());
            Write { to, ..Write::new("Deployment", "Deployment", id, What::Deployment(write)) }
        }
        Action::Component(write) => {
            let component::Id { kind, namespace, name } = write.id().clone();
            let (kind, to) = (kind.names().1, write.object().map(|object| hash(object, "")));
            Write { to, ..Write::new(kind, kind, (namespace, name), What::Component(write)) }
        }
        Action::Conversion(write) => {
            patch("CustomResourceDefinition", (String::new(), write.name), write.patch, Part::Object)
        }
        Action::Group { group, patch: it } => patch("OperatorGroup", id(group), it, Part::Object),
        Action::GroupStatus { group, patch: it } => patch("OperatorGroup", id(group), it, Part::Status),
        Action::Namespace { name, patch: it } => patch("Namespace", (String::new(), name), it, Part::Object),
        Action::Condition { csv, exists, object } => {
            let what = if exists { What::Patch(object, Part::Object) } else { What::Create(object) };
            Write::new("OperatorCondition", "OperatorCondition", id(csv), what)
        }
        Action::ConditionStatus { condition, patch } => {
            let what = What::Patch(patch, Part::Status);
            Write::new("status of OperatorCondition", "OperatorCondition", id(condition), what)
        }
        Action::Certificate { namespace, step } => return steps.push((namespace.to_owned(), step)),
        Action::Impossible { .. } => return,
    });
}

impl OperatorProcess {
    /// Performs a write that [`OperatorProcess::turn`] has begun.
    pub fn perform(&mut self, write: Write, api: &mut dyn Api, elapsed: Duration) -> Result<(), Failure> {
        let outcome = self.request(&write, api, elapsed);
        if write.kind == "Secret" && (outcome.is_err() || write.deletes()) {
            self.certificates.unread(&(write.namespace.clone(), write.name.clone()));
        }
        self.ended(&write.key, write.rest, &outcome, elapsed);
        outcome
    }

    fn request(&mut self, write: &Write, api: &mut dyn Api, elapsed: Duration) -> Result<(), Failure> {
        let Write { kind, namespace, name, .. } = write;
        match &write.what {
            What::Patch(patch, part) => match api.patch(kind, namespace, name, (patch, *part)) {
                Err(Failure::NotFound) if *kind != "OperatorCondition" || *part == Part::Status => {}
                answer => self.answered(kind, answer?),
            },
            What::Create(object) => {
                let answer = api.create(kind, namespace, object)?;
                self.answered(kind, answer);
            }
            What::Delete(uid) => api.delete(kind, namespace, name, uid)?,
            What::Deployment(it) => return self.deployment_written(write, it, api, elapsed),
            What::Component(it) => return self.component_written(write, it, api, elapsed),
            What::Certificate { object, exists, made } => {
                let answer = match exists {
                    false => api.create(kind, namespace, object)?,
                    true => api.patch(kind, namespace, name, (object, Part::Object))?,
                };
                self.certificates.written(&(namespace.clone(), name.clone()), &answer, made.as_deref());
                self.answered(kind, answer);
            }
        }
        Ok(())
    }

    fn deployment_written(
        &mut self,
        Write { key, namespace, name, to, .. }: &Write,
        write: &deployment::Write,
        api: &mut dyn Api,
        elapsed: Duration,
    ) -> Result<(), Failure> {
        const KIND: &str = "Deployment";
        let (written, answer, fields) = match write {
            deployment::Write::Delete { uid, .. } => return api.delete(KIND, namespace, name, uid),
            deployment::Write::Replace { object, change, .. } => {
                (object.clone(), api.replace(KIND, namespace, object, Part::Object)?, change.fields.clone())
            }
            deployment::Write::Create { object, .. } => match api.create(KIND, namespace, object) {
                Err(Failure::Exists) => {
                    let found = api.get(KIND, namespace, name)?.ok_or(Failure::Conflict)?;
                    let live = deployment::Live { object: Arc::new(found.clone()), ..deployment::Live::default() };
                    match deployment::change(object, &live).map_err(Failure::Rejected)? {
                        None => (object.clone(), found, Vec::new()),
                        Some((object, _)) => {
                            let answer = api.replace(KIND, namespace, &object, Part::Object)?;
                            (object, answer, Vec::new())
                        }
                    }
                }
                answer => (object.clone(), answer?, Vec::new()),
            },
        };
        self.memory.on_deployment(&(namespace.clone(), name.clone()), (&written, &answer));
        self.memory.on_written(key, to.as_deref().unwrap_or_default(), fields, self.began + elapsed);
        self.answered(KIND, answer);
        Ok(())
    }

    fn component_written(
        &mut self,
        Write { key, kind, namespace, name, to, .. }: &Write,
        write: &component::Write,
        api: &mut dyn Api,
        elapsed: Duration,
    ) -> Result<(), Failure> {
        let (answer, fields) = match write {
            component::Write::Delete { uid, .. } => return api.delete(kind, namespace, name, uid),
            component::Write::Replace { object, fields, .. } => {
                (api.replace(kind, namespace, object, Part::Object)?, fields.clone())
            }
            component::Write::Create { id, object } => match api.create(kind, namespace, object) {
                Err(Failure::Exists) => {
                    let found = api.get(kind, namespace, name)?.ok_or(Failure::Conflict)?;
                    let answer = match component::take_over(id, &found, object).map_err(Failure::Rejected)? {
                        Some(component::Write::Replace { object, .. }) => {
                            api.replace(kind, namespace, &object, Part::Object)?
                        }
                        Some(component::Write::Delete { uid, .. }) => {
                            api.delete(kind, namespace, name, &uid)?;
                            api.create(kind, namespace, object)?
                        }
                        Some(component::Write::Create { .. }) | None => found,
                    };
                    (answer, Vec::new())
                }
                answer => (answer?, Vec::new()),
            },
        };
        self.memory.on_written(key, to.as_deref().unwrap_or_default(), fields, self.began + elapsed);
        self.answered(kind, answer);
        Ok(())
    }
}
