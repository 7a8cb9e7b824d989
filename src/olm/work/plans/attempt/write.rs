//! What a step writes: its object is created or changed, by as many requests as it takes.

use super::Attempt;
use super::look::{Found, is_going, wanted};
use super::problem::Problem;
use crate::cluster::{ApiError, Kind, Objects, Warnings};
use crate::merge::Outcome as Merged;
use crate::olm::api::install_plan::StepStatus;
use crate::olm::plan::step::{self, Action, Item};
use crate::olm::plan::together::Together;
use crate::olm::work::plans::live::csv_kind;
use crate::process::events::Notice;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// Attempts to read, merge and write one object.
const WRITES: usize = 4;

impl Attempt {
    /// Brings one object about. Returns what its step becomes, and the uid of the object.
    pub(super) async fn perform(
        &self,
        found: Found,
        together: &Together,
        owners: &BTreeMap<String, String>,
        scoped: &Objects,
    ) -> Result<(StepStatus, String), Problem> {
        let Found { item, kind, mut live } = found;
        let api = |error: ApiError| Problem::of_api(&error);
        let known = match kind {
            Some(kind) => Some(kind),
            None => self.kind(&item).await.map_err(api)?,
        };
        let Some(kind) = known else {
            return if item.optional {
                Ok((StepStatus::NotCreated, String::new()))
            } else {
                Err(Problem::unknown_kind(&item))
            };
        };
        let owner = self.owner(&item, owners).await?;
        let (namespace, _) = self.id();
        let warnings = Warnings::default();
        let objects = self.writes(&item, scoped).telling(&warnings);
        let mut last = None;
        for _ in 0..WRITES {
            let desired = wanted(self, together, (&item, &kind), owner.as_deref(), live.as_ref());
            match write(&objects, &kind, namespace, &item, live.as_ref(), &desired).await? {
                Ok((status, object)) => {
                    self.warn(&item, &warnings);
                    if live.as_ref().and_then(version) != version(&object) {
                        self.tell_of_rights(&item);
                    }
                    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
                    return Ok((self.status(&item, status), uid.to_owned()));
                }
                Err(error)
                    if error.is_already_exists() || error.is_conflict() || error.is_not_found() && live.is_some() =>
                {
                    last = Some(error);
                    live = self.objects.get(&kind, namespace, &item.name).await.map_err(api)?;
                }
                Err(error) => {
                    if error.is_not_found() {
                        self.kinds.forget(&kind);
                    }
                    return Err(self.failed(&error));
                }
            }
        }
        Err(last.as_ref().map_or_else(|| Problem::new("it keeps changing".to_owned()), Problem::of_api))
    }

    /// A definition that is not served yet is waited for, also one that was created before.
    fn status(&self, item: &Item, status: StepStatus) -> StepStatus {
        let waits =
            item.action == Action::Define && (status == StepStatus::Created || !self.live.served(&item.name).is_served);
        if waits { StepStatus::WaitingForApi } else { status }
    }

    /// uid of the ClusterServiceVersion of a step.
    async fn owner(&self, item: &Item, owners: &BTreeMap<String, String>) -> Result<Option<String>, Problem> {
        if item.resolving.is_empty() || item.stage() < 2 {
            return Ok(None);
        }
        if let Some(uid) = owners.get(&item.resolving) {
            return Ok(Some(uid.clone()));
        }
        let (namespace, _) = self.id();
        let csv = self.objects.get(&csv_kind(), namespace, &item.resolving).await;
        let csv = csv.map_err(|error| Problem::of_api(&error))?;
        let uid = csv.as_ref().and_then(|csv| csv.pointer("/metadata/uid")?.as_str());
        let missing = || {
            let csv = &item.resolving;
            Problem::new(format!(
                "its ClusterServiceVersion {csv} does not exist; whoever deleted it has to create it again"
            ))
        };
        uid.map(|uid| Some(uid.to_owned())).ok_or_else(missing)
    }

    /// Who may define kinds may do so for the whole cluster. An account that may not gets it all the same, which is to be known.
    fn tell_of_rights(&self, item: &Item) {
        if item.action == Action::Define && !self.account.is_empty() {
            let (name, account) = (&item.name, &self.account);
            let note = format!(
                "CustomResourceDefinition {name} was written with the rights of this controller, not with those of ServiceAccount \
                 {account} that the OperatorGroup names: kinds are of the whole cluster"
            );
            self.tell(Notice::new(false, "DefinitionOfCluster", &note), item.place);
        }
    }

    fn warn(&self, item: &Item, warnings: &Warnings) {
        let texts = std::mem::take(&mut *warnings.lock().unwrap_or_else(PoisonError::into_inner));
        for text in texts {
            self.figures.count_plan_warning();
            let note = format!("{} {}: {text}", item.kind, item.name);
            self.tell(Notice::new(true, "AppliedWithWarnings", &note), item.place);
        }
    }
}

fn version(object: &Value) -> Option<&str> {
    object.pointer("/metadata/resourceVersion")?.as_str()
}

/// One write; none if the object is as wanted. The inner error is one that another look at the object may help with.
async fn write(
    objects: &Objects,
    kind: &Kind,
    namespace: &str,
    item: &Item,
    live: Option<&Value>,
    desired: &Value,
) -> Result<Result<(StepStatus, Value), ApiError>, Problem> {
    let Some(live) = live else {
        let created = objects.create(kind, namespace, desired).await;
        return Ok(created.map(|object| (StepStatus::Created, object)));
    };
    if is_going(live) {
        return Err(Problem::going());
    }
    let merged = step::merged(item, live, desired).map_err(|error| Problem::new(error.to_string()))?;
    Ok(match merged {
        Merged::Same => Ok((StepStatus::Present, live.clone())),
        Merged::Changed { object, .. } => {
            let written = objects.replace(kind, namespace, &item.name, &object).await;
            written.map(|object| (StepStatus::Present, object))
        }
        Merged::Replace { object, .. } => {
            let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
            match objects.delete(kind, namespace, &item.name, uid).await {
                Ok(_) => objects.create(kind, namespace, &object).await.map(|object| (StepStatus::Present, object)),
                Err(error) => Err(error),
            }
        }
    })
}
