//! What carrying out an InstallPlan would write, object by object and without writing: by the functions of the controllers, over
//! what was read of the cluster. What one round would write is known to the next.

mod definitions;
mod installation;
pub(crate) mod known;
mod required;
pub(crate) mod restore;
pub(crate) mod rights;
mod step;
pub(crate) mod users;

use crate::diff::field::Field;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::keys::label;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::bundle::CSV;
use crate::olm::operator::deployment::config::Subscriber;
use crate::olm::plan::group::{self, Account};
use crate::olm::plan::reference::Found;
use crate::olm::plan::step::{Action, Item, StepError};
use crate::olm::plan::together::Together;
pub(crate) use definitions::stricter;
use known::{Key, Known};
use rights::NewRights;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verb {
    Create,
    Update,
    /// It is deleted and created again.
    Replace,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Change {
    pub verb: Verb,
    #[serde(flatten)]
    pub key: Key,
    /// The ClusterServiceVersion that it belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Those that differ from what is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// Whether a CustomResourceDefinition may become what a bundle wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DefinitionVerdict {
    pub name: String,
    /// What was found about it.
    pub findings: Vec<String>,
    /// Risks that its annotation says are taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<String>,
    /// Why it may not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Forecast {
    /// In the order in which they are written.
    pub changes: Vec<Change>,
    /// Objects of the plan that are as they should be.
    pub unchanged: usize,
    pub rights: Vec<NewRights>,
    pub definitions: Vec<DefinitionVerdict>,
    /// What will keep the plan, or the operators in it, from going on until somebody does something.
    pub held: Vec<String>,
    /// What could not be found out.
    pub unknown: Vec<String>,
    /// What the API server can be asked about.
    #[serde(skip)]
    pub trials: Vec<Trial>,
}

/// An object that would be created or updated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trial {
    pub is_new: bool,
    pub api_version: String,
    pub key: Key,
    pub object: Value,
    /// It refers to something that the plan itself brings, so that a server who does not know or allow that has said nothing.
    pub refers: bool,
}

/// Objects of a version of a definition that do not fit its new schema, and whether these are all of them; or why that could not be
/// read. By name and version.
pub(crate) type Unfit = BTreeMap<(String, String), Result<(Vec<String>, bool), String>>;

/// What a forecast is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Premise<'a> {
    pub namespace: &'a str,
    /// With its steps.
    pub plan: &'a InstallPlan,
    /// What the steps refer to.
    pub contents: &'a Found,
    /// It does not exist yet.
    pub is_new: bool,
    /// Names of plans whose place it takes.
    pub superseded: &'a [String],
    /// Those of the namespace.
    pub groups: &'a [OperatorGroup],
    /// Those of all other namespaces, as far as they could be read.
    pub others: &'a [OperatorGroup],
    /// Subscriptions of the namespace, with what they have chosen.
    pub subscribers: &'a [Subscriber],
    pub unfit: &'a Unfit,
    /// The version of the API server, or why it is not known.
    pub kubernetes: Result<&'a semver::Version, &'a str>,
    /// Whether fields are shown with their values. Those of Secrets never are.
    pub values: bool,
}

/// A step with what can be read of it.
pub(crate) type ReadStep = Result<Item, (String, StepError)>;

impl Forecast {
    /// With what follows.
    pub(crate) fn extend(&mut self, next: Forecast) {
        self.changes.extend(next.changes);
        self.unchanged += next.unchanged;
        self.rights.extend(next.rights);
        self.definitions.extend(next.definitions);
        self.held.extend(next.held);
        self.trials.extend(next.trials);
        self.unknown.extend(next.unknown.into_iter().filter(|it| !self.unknown.contains(it)).collect::<Vec<_>>());
    }
}

/// The steps of a plan as they are carried out. `contents`: what they refer to.
pub(crate) fn steps(plan: &InstallPlan, contents: &Found) -> Vec<ReadStep> {
    let steps = plan.status.iter().flat_map(|status| &status.plan).enumerate();
    let read = |(place, step): (usize, &crate::olm::api::install_plan::Step)| {
        crate::olm::plan::step::read(plan, place, step, contents)
            .map_err(|error| (format!("{} {}", step.resource.kind, step.resource.name), error))
    };
    steps.map(read).collect()
}

/// apiVersion and kind of all steps, which have to be known before objects are looked for.
pub(crate) fn kinds(steps: &[ReadStep]) -> BTreeSet<(String, String)> {
    let own = steps.iter().flatten().map(|item| (item.api_version.clone(), item.kind.clone()));
    let csvs = steps.iter().flatten().filter(|item| item.is(CSV)).filter_map(installation::typed);
    own.chain(csvs.flat_map(|csv| required::kinds(&csv).collect::<Vec<_>>())).collect()
}

/// The objects that a forecast of these steps needs, each with its apiVersion.
pub(crate) fn looked_at(steps: &[ReadStep], namespace: &str, known: &Known) -> BTreeSet<(String, Key)> {
    let mut all = BTreeSet::new();
    for item in steps.iter().flatten() {
        let scope = if item.action == Action::Define { Some(false) } else { known.scope(item) };
        let Some(namespaced) = scope else { continue };
        let own = if namespaced { namespace } else { "" };
        all.insert((item.api_version.clone(), Key::new((&item.group, &item.kind), own, &item.name)));
        if item.is(CSV) {
            all.extend(installation::looked_at(item, namespace));
        }
    }
    all
}

/// The ClusterServiceVersions whose place these steps take.
pub(crate) fn replaced(steps: &[ReadStep]) -> BTreeSet<&str> {
    let csvs = steps.iter().flatten().filter(|item| item.is(CSV));
    let replaced = csvs.filter_map(|item| item.object.pointer("/spec/replaces")?.as_str());
    replaced.filter(|name| !name.is_empty()).collect()
}

/// The selector of what belongs to a ClusterServiceVersion and has no namespace.
pub(crate) fn belonging(csv: &str, namespace: &str) -> String {
    format!("{}={csv},{}={namespace},{}={}", label::OWNER, label::OWNER_NAMESPACE, label::OWNER_KIND, CSV.1)
}

/// Foretells one plan. `known` is afterwards what the cluster would be.
pub(crate) fn forecast(premise: &Premise<'_>, known: &mut Known) -> Forecast {
    let mut forecast = Forecast::default();
    let groups: Vec<group::Group> = premise.groups.iter().map(group::Group::of).collect();
    let account = match groups.as_slice() {
        [only] if !only.account.is_empty() => Account::Exists,
        _ => Account::None,
    };
    forecast.held.extend(group::check(&groups, account).err().map(|refused| refused.to_string()));
    for name in premise.superseded {
        forecast.changes.push(plan_change(Verb::Delete, premise.namespace, name));
    }
    if premise.is_new {
        let name = premise.plan.metadata.name.as_deref().unwrap_or_default();
        forecast.changes.push(plan_change(Verb::Create, premise.namespace, name));
    }
    let (mut items, mut refused) = (Vec::new(), Vec::new());
    for step in steps(premise.plan, premise.contents) {
        match step {
            Ok(item) => items.push(item),
            Err((of, error)) => refused.push(format!("{of}: {error}")),
        }
    }
    let together = Together::of(&items, known.csvs());
    items.sort_by_key(Item::stage);
    forecast.held.extend(refused);
    let mut found = Vec::new();
    for item in &items {
        step::foretell(item, &together, premise, known, &mut forecast, &mut found);
    }
    rights::add(&items, known, &mut forecast);
    // A plan with a step that is refused writes nothing.
    if !forecast.held.is_empty() {
        return forecast;
    }
    for (change, object) in found {
        forecast.trials.extend(trial(&change, &object, together.brings_role(&object)));
        known.write(&change, object);
        forecast.changes.push(change);
    }
    let mut installed = BTreeSet::new();
    for item in items.iter().filter(|item| item.is(CSV)) {
        if installation::foretell(&item.name, premise, known, &mut forecast) {
            installed.insert(item.name.clone());
        }
    }
    users::foretell(&installed, premise, known, &mut forecast);
    forecast
}

/// `refers`: it refers to what is not there yet.
fn trial(change: &Change, object: &Value, refers: bool) -> Option<Trial> {
    let is_new = match change.verb {
        Verb::Create => true,
        Verb::Update => false,
        // The server cannot be asked what comes of two requests.
        Verb::Replace | Verb::Delete => return None,
    };
    let api_version = object.get("apiVersion")?.as_str()?.to_owned();
    let mut object = object.clone();
    // Whose owner is new has no uid to name yet, which says nothing of the object.
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| owner.get("uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty()));
    }
    Some(Trial { is_new, api_version, key: change.key.clone(), object, refers })
}

fn plan_change(verb: Verb, namespace: &str, name: &str) -> Change {
    let key = Key::new((crate::olm::api::GROUP, "InstallPlan"), namespace, name);
    Change { verb, key, of: String::new(), fields: Vec::new() }
}

#[cfg(test)]
mod tests;
