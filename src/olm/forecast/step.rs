//! What a step of a plan would write.

use super::known::{Key, Known};
use super::{Change, Forecast, Premise, Verb, definitions};
use crate::diff::field::{Field, fields};
use crate::merge::Outcome;
use crate::object::read::Read;
use crate::olm::bundle::CSV;
use crate::olm::plan::step::{self, Action, Context, Item};
use crate::olm::plan::together::Together;
use serde_json::Value;

/// Adds the change with its object to `found`, and what is to be said of it to the forecast.
pub(super) fn foretell(
    item: &Item,
    together: &Together,
    premise: &Premise<'_>,
    known: &Known,
    forecast: &mut Forecast,
    found: &mut Vec<(Change, Value)>,
) {
    let of = format!("{} {}", item.kind, item.name);
    let Some(namespaced) = scope(item, together, known) else {
        if !item.optional {
            forecast.held.push(format!(
                "{of}: the cluster does not serve {} of {}, and the plan does not bring it",
                item.kind, item.api_version
            ));
        }
        return;
    };
    let namespace = if namespaced { premise.namespace } else { "" };
    let key = Key::new((&item.group, &item.kind), namespace, &item.name);
    let live = match known.get(&key) {
        Read::Value(live) => Some(live),
        Read::Absent => None,
        Read::Failed(cause) => {
            forecast.unknown.push(format!("Whether {key} is created or changed: it could not be read: {cause}"));
            return;
        }
    };
    let change = |verb, fields| Change { verb, key: key.clone(), of: item.resolving.clone(), fields };
    let owner = owner(item, premise.namespace, together, known);
    let plan = premise.plan.metadata.name.as_deref().unwrap_or_default();
    let scoped = premise.groups.iter().any(|group| !group.spec.service_account_name.is_empty());
    let context = Context { namespace: premise.namespace, plan, owner: owner.as_deref(), namespaced, scoped };
    let desired = together.wanted(item, live.as_deref(), context);
    let Some(live) = live else {
        if item.is(CSV) {
            forecast.held.extend(together.owner_conflict(item, premise.namespace).map(|why| format!("{of}: {why}")));
        } else if item.action == Action::Define {
            definitions::created(item, forecast);
        }
        found.push((change(Verb::Create, Vec::new()), desired));
        return;
    };
    if item.action == Action::Define {
        let around = (together, premise.namespace);
        definitions::changed(item, (&live, &desired), around, premise.unfit, forecast);
    }
    let shown = |paths: Vec<String>, after: &Value| shown(item, premise.values, paths, (&live, after));
    match step::merged(item, &live, &desired) {
        Ok(Outcome::Same) => forecast.unchanged += 1,
        Ok(Outcome::Changed { object, fields }) => {
            found.push((change(Verb::Update, shown(fields, &object)), object));
        }
        Ok(Outcome::Replace { object, fields }) => {
            found.push((change(Verb::Replace, shown(fields, &object)), object));
        }
        Err(error) => forecast.held.push(format!("{of}: {error}")),
    }
}

/// Whether the object has a namespace. `None` for a kind that there will not be.
fn scope(item: &Item, together: &Together, known: &Known) -> Option<bool> {
    if item.action == Action::Define {
        return Some(false);
    }
    // What a plan brings itself is of operators, whose kinds nearly always have one.
    known.scope(item).or_else(|| together.defines(item).then_some(true))
}

/// uid of the ClusterServiceVersion of a step, which will have another one than that of any object if it is new.
fn owner(item: &Item, namespace: &str, together: &Together, known: &Known) -> Option<String> {
    if item.resolving.is_empty() || item.stage() < 2 {
        return None;
    }
    let key = Key::new(CSV, namespace, &item.resolving);
    let live = known.object(&key).and_then(|csv| csv.pointer("/metadata/uid")?.as_str().map(ToOwned::to_owned));
    let is_new = || together.csvs.iter().any(|csv| csv.name == item.resolving);
    live.or_else(|| is_new().then(|| format!("of the new {key}")))
}

/// Fields with their values, where these may be shown.
fn shown(item: &Item, values: bool, paths: Vec<String>, (before, after): (&Value, &Value)) -> Vec<Field> {
    match values && !item.is(("", "Secret")) {
        true => fields(paths, Some(before), Some(after)),
        false => fields(paths, None, None),
    }
}
