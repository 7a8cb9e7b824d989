//! What a step would write, found without writing: the live object, and what the server says of the change.

use super::{Attempt, Problem};
use crate::cluster::{ApiError, Kind};
use crate::merge::Outcome;
use crate::olm::bundle::CSV;
use crate::olm::plan::definition::{self, Risk};
use crate::olm::plan::schema::Schema;
use crate::olm::plan::step::{self, Action, Context, Csv, Item};
use crate::olm::work::plans::live::definition_kind;
use crate::process::events::Notice;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A step, and what there is of it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub item: Item,
    /// `None` for a kind that the plan itself defines, and for one that an optional step can do without.
    pub kind: Option<Kind>,
    pub live: Option<Value>,
}

/// What the steps of a plan know of each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Together {
    /// Group and kind of what it defines.
    pub defined: BTreeSet<(String, String)>,
    /// Names of its roles.
    pub roles: BTreeSet<String>,
    /// ClusterServiceVersions that it creates.
    pub csvs: Vec<Arc<Csv>>,
    /// Those of the cluster.
    pub known: Vec<Arc<Csv>>,
}

impl Together {
    pub(super) fn of(items: &[Item], known: Vec<Arc<Csv>>) -> Together {
        let mut together = Together { known, ..Together::default() };
        for item in items {
            let text = |pointer: &str| item.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            if item.action == Action::Define {
                together.defined.insert((text("/spec/group").to_owned(), text("/spec/names/kind").to_owned()));
            } else if item.is(CSV) {
                together.csvs.push(Arc::new(Csv::read(&item.object)));
            } else if item.kind.ends_with("Role") {
                together.roles.insert(item.name.clone());
            }
        }
        together
    }

    /// Whether the installation of a ClusterServiceVersion says how objects of this definition are converted.
    fn is_converted(&self, definition: &str) -> bool {
        self.csvs.iter().chain(&self.known).any(|csv| csv.converted.contains(definition))
    }

    /// ClusterServiceVersions that own the definition.
    fn owners(&self, definition: &str) -> usize {
        self.known.iter().filter(|csv| !csv.is_deleted && csv.owned.contains(definition)).count()
    }

    /// Whether what the server says of a write only comes from what the plan has not brought yet.
    fn is_no_verdict(&self, item: &Item, error: &ApiError) -> bool {
        let role = item.object.pointer("/roleRef/name").and_then(Value::as_str);
        let is_of_role = role.is_some_and(|role| self.roles.contains(role));
        error.is_of_dry_run() || is_of_role && (error.is_not_found() || error.is_forbidden())
    }
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
    let desired = step::desired(item, Context { namespace, plan, owner, namespaced: kind.namespaced });
    match live {
        Some(live) if item.action == Action::Define && together.is_converted(&item.name) => {
            definition::with_live_conversion(live, desired)
        }
        _ => desired,
    }
}

impl Attempt {
    /// Looks at a step before anything is written. All that is wrong with it is told.
    pub(super) async fn look(&self, mut item: Item, together: &Together) -> Result<Found, Vec<Problem>> {
        let (namespace, _) = self.id();
        let problem = |error: ApiError| vec![Problem::of_api(&error)];
        let Some(kind) = self.kind(&item).await.map_err(problem)? else {
            if item.optional || together.defined.contains(&(item.group.clone(), item.kind.clone())) {
                return Ok(Found { item, kind: None, live: None });
            }
            return Err(vec![Problem::unknown_kind(&item)]);
        };
        let live = self.objects.get(&kind, namespace, &item.name).await.map_err(problem)?;
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
                let of_namespace: Vec<Arc<Csv>> =
                    together.known.iter().filter(|csv| csv.namespace == namespace).cloned().collect();
                if let Some(conflict) = step::owner_conflict(&Csv::read(&item.object), &of_namespace) {
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
        self.try_out(&item, &kind, live.as_ref(), &desired, together).await?;
        Ok(Found { item, kind: Some(kind), live })
    }

    /// What the server says of the write.
    async fn try_out(
        &self,
        item: &Item,
        kind: &Kind,
        live: Option<&Value>,
        desired: &Value,
        together: &Together,
    ) -> Result<(), Vec<Problem>> {
        let (namespace, _) = self.id();
        let dry = self.objects.dry_run();
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
            Err(error) if error.is_already_exists() || error.is_conflict() => Ok(()),
            Err(error) if together.is_no_verdict(item, &error) => {
                tracing::debug!(object = item.name, %error, "the API server cannot say what would become of a step");
                Ok(())
            }
            Err(error) => Err(vec![Problem::of_api(&error)]),
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
                let invalid = self.invalid(live, &version, &schema).await;
                match invalid.map_err(|error| vec![Problem::of_api(&error)])? {
                    (invalid, _) if invalid.is_empty() => {}
                    (invalid, is_all) => {
                        let text = definition::too_restrictive(&item.name, &version, &invalid, is_all);
                        risks.push(Risk { text, may_be_taken: true });
                    }
                }
            }
        }
        let are_taken = definition::is_lenient(live) && together.owners(&item.name) <= 1;
        let (taken, refused): (Vec<Risk>, Vec<Risk>) =
            risks.into_iter().partition(|risk| are_taken && risk.may_be_taken);
        for risk in taken {
            self.tell(Notice::new(true, "CRDValidation", &risk.text), item.place);
        }
        if refused.is_empty() { Ok(()) } else { Err(refused.into_iter().map(|risk| Problem::new(risk.text)).collect()) }
    }

    /// Objects of a version that do not fit, and whether these are all of them.
    async fn invalid(
        &self,
        definition: &Value,
        version: &str,
        schema: &Schema,
    ) -> Result<(Vec<String>, bool), ApiError> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, kind, plural) = (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"));
        let kind = Kind::known(group, version, kind, plural, text("/spec/scope") == "Namespaced");
        let (mut invalid, mut token) = (Vec::new(), None);
        loop {
            let page = self.objects.page(&kind, token).await?;
            for object in &page.items {
                let faults = schema.faults(object);
                if faults.is_empty() {
                    continue;
                }
                if invalid.len() == definition::EXAMPLES {
                    return Ok((invalid, false));
                }
                let text = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
                let namespace = text("namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
                let name = text("name").unwrap_or_default();
                invalid.push(format!("{namespace}{name}: {}", faults.join(", ")));
            }
            token = page.metadata.continue_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok((invalid, true));
            }
        }
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
