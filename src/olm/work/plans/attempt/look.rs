//! What a step would write, found without writing: the live object, and what the server says of the change.

use super::problem::Problem;
use super::{Attempt, SERVED};
use crate::cluster::{ApiError, Kind, Objects};
use crate::merge::Outcome;
use crate::olm::bundle::CSV;
use crate::olm::plan::definition::{self, Risk};
use crate::olm::plan::step::{self, Action, Context, Item};
use crate::olm::plan::together::Together;
use crate::olm::work::plans::existing;
use crate::olm::work::plans::live::definition_kind;
use crate::process::events::Notice;
use serde_json::Value;

/// A step, and what there is of it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub item: Item,
    /// `None` for a kind that the plan itself defines, and for one that an optional step can do without.
    pub kind: Option<Kind>,
    pub live: Option<Value>,
}

/// Whether it is being deleted: what is written to it goes with it.
pub(super) fn is_going(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some()
}

/// The object of a step as it is wanted.
pub(super) fn wanted(
    attempt: &Attempt,
    together: &Together,
    (item, kind): (&Item, &Kind),
    owner: Option<&str>,
    live: Option<&Value>,
) -> Value {
    let (namespace, plan) = attempt.id();
    together.wanted(
        item,
        live,
        Context { namespace, plan, owner, namespaced: kind.namespaced, scoped: !attempt.account.is_empty() },
    )
}

impl Attempt {
    /// Looks at a step before anything is written. All that is wrong with it is told.
    pub(super) async fn look(
        &self,
        mut item: Item,
        together: &Together,
        scoped: &Objects,
    ) -> Result<Found, Vec<Problem>> {
        let (namespace, _) = self.id();
        let problem = |error: ApiError| vec![Problem::of_api(&error)];
        let Some(kind) = self.kind(&item).await.map_err(problem)? else {
            if item.optional || together.defines(&item) {
                return Ok(Found { item, kind: None, live: None });
            }
            return Err(vec![Problem::unknown_kind(&item)]);
        };
        let mut live = self.objects.get(&kind, namespace, &item.name).await.map_err(problem)?;
        if item.action == Action::Define && live.as_ref().is_some_and(is_going) {
            self.until_gone(&item.name).await;
            live = self.objects.get(&kind, namespace, &item.name).await.map_err(problem)?;
        }
        if live.as_ref().is_some_and(is_going) {
            return Err(vec![Problem::going()]);
        }
        match &live {
            None if item.action == Action::Copy => {
                let secret = self.objects.get(&kind, &self.own_namespace, &item.name).await.map_err(problem)?;
                let missing = || {
                    let (namespace, name) = (&self.own_namespace, &item.name);
                    vec![Problem::new(format!("there is no Secret {namespace}/{name} to copy; create it"))]
                };
                item.object = step::copied(&secret.ok_or_else(missing)?);
            }
            None if item.is(CSV) => {
                if let Some(conflict) = together.owner_conflict(&item, namespace) {
                    return Err(vec![Problem::new(conflict)]);
                }
            }
            _ => {}
        }
        let owner = together.known.iter().find(|csv| csv.namespace == namespace && csv.name == item.resolving);
        let owner = owner.map(|csv| csv.uid.as_str());
        let desired = wanted(self, together, (&item, &kind), owner, live.as_ref());
        if let (Action::Define, Some(live)) = (item.action, &live) {
            self.check_definition(live, &desired, &item, together).await?;
        }
        let dry = self.writes(&item, scoped).dry_run();
        self.try_out((&item, &dry), &kind, live.as_ref(), &desired, together).await?;
        Ok(Found { item, kind: Some(kind), live })
    }

    /// Until a definition that is being deleted is gone, or for a moment.
    async fn until_gone(&self, name: &str) {
        let mut changed = self.live.definitions.subscribe();
        let gone = async { while self.live.definitions.get(name).is_some() && changed.changed().await.is_ok() {} };
        // What takes longer is told.
        let _ = tokio::time::timeout(SERVED, gone).await;
    }

    /// What the server says of the write.
    async fn try_out(
        &self,
        (item, dry): (&Item, &Objects),
        kind: &Kind,
        live: Option<&Value>,
        desired: &Value,
        together: &Together,
    ) -> Result<(), Vec<Problem>> {
        let (namespace, _) = self.id();
        let answer = match live {
            None => dry.create(kind, namespace, desired).await,
            Some(live) => match step::merged(item, live, desired) {
                Err(error) => return Err(vec![Problem::new(error.to_string())]),
                // The server cannot be asked what comes of two requests.
                Ok(Outcome::Same | Outcome::Replace { .. }) => return Ok(()),
                Ok(Outcome::Changed { object, .. }) => dry.replace(kind, namespace, &item.name, &object).await,
            },
        };
        match answer {
            Err(error) if error.is_no_verdict(together.brings_role(&item.object)) => {
                tracing::debug!(object = item.name, %error, "the API server cannot say what would become of a step");
                Ok(())
            }
            Err(error) => Err(vec![self.failed(&error)]),
            Ok(_) => Ok(()),
        }
    }

    /// Whether anything would be lost by the change of a definition.
    async fn check_definition(
        &self,
        live: &Value,
        new: &Value,
        item: &Item,
        together: &Together,
    ) -> Result<(), Vec<Problem>> {
        if let Some(text) = together.shared(item, (live, new), self.id().0) {
            self.tell(Notice::new(true, "SharedDefinition", &text), item.place);
        }
        let mut risks = definition::risks(live, new);
        let stricter = definition::stricter(live, new);
        if definition::is_converted(&item.object) || definition::is_converted(new) {
            if !stricter.is_empty() {
                let name = &item.name;
                let note = format!("objects of {name} are not compared with its new schema: a webhook converts them");
                self.tell(Notice::new(true, "CRDValidation", &note), item.place);
            }
        } else {
            for (version, schema) in stricter {
                let invalid = existing::invalid(&self.objects, live, &version, &schema).await;
                match invalid.map_err(|error| vec![Problem::of_api(&error)])? {
                    (invalid, _) if invalid.is_empty() => {}
                    (invalid, is_all) => {
                        let text = definition::too_restrictive(&item.name, &version, &invalid, is_all);
                        risks.push(Risk { text, may_be_taken: true });
                    }
                }
            }
        }
        let (taken, refused) = together.judged(&item.name, live, risks);
        for risk in taken {
            self.tell(Notice::new(true, "CRDValidation", &risk.text), item.place);
        }
        if refused.is_empty() { Ok(()) } else { Err(refused.into_iter().map(|risk| Problem::new(risk.text)).collect()) }
    }

    /// The kind of a step, if the server serves it.
    pub(super) async fn kind(&self, item: &Item) -> Result<Option<Kind>, ApiError> {
        if item.action == Action::Define {
            return Ok(Some(definition_kind()));
        }
        match self.kinds.get(&item.api_version, &item.kind) {
            Some(kind) => Ok(Some(kind)),
            None => self.kinds.look_up(self.objects.client(), &item.api_version, &item.kind).await,
        }
    }
}
