//! Going back to what a plan has installed: what has come since goes first, since no ClusterServiceVersion takes the place of one that
//! follows it.

use super::installation::end;
use super::known::{Key, Known};
use super::{Change, Forecast, Premise, ReadStep, Verb, forecast, steps};
use crate::olm::bundle::CSV;
use crate::olm::operator::deployment::config::Subscriber;
use crate::olm::plan::step::Csv;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The ClusterServiceVersions of a namespace that have come since, each with the one of the plan that it follows.
pub(crate) type Since = BTreeMap<String, String>;

/// Those that take the place of one of the plan, directly or through others, or own a definition that it owns.
pub(crate) fn since(steps: &[ReadStep], namespace: &str, known: &Known) -> Since {
    let own: Vec<Csv> =
        steps.iter().flatten().filter(|item| item.is(CSV)).map(|item| Csv::read(&item.object)).collect();
    let is_own = |name: &str| own.iter().any(|csv| csv.name == name);
    let here = known.csvs().into_iter().filter(|csv| csv.namespace == namespace && !is_own(&csv.name));
    let here: Vec<Arc<Csv>> = here.collect();
    let mut since = Since::new();
    for csv in &here {
        // What it owns tells also where those in between are gone.
        let origin = own.iter().find(|it| it.name == csv.replaces || !it.owned.is_disjoint(&csv.owned));
        since.extend(origin.map(|it| (csv.name.clone(), it.name.clone())));
    }
    loop {
        let next = here.iter().filter(|csv| !since.contains_key(&csv.name));
        let next: Since = next.filter_map(|csv| Some((csv.name.clone(), since.get(&csv.replaces)?.clone()))).collect();
        if next.is_empty() {
            return since;
        }
        since.extend(next);
    }
}

/// The objects that belong to what has come since and are not part of the plan, each with its apiVersion.
pub(crate) fn looked_at(since: &Since, namespace: &str, known: &Known) -> Vec<(String, Key)> {
    let csvs = since.keys().filter_map(|name| known.object(&Key::new(CSV, namespace, name)));
    let deployments = csvs.flat_map(|csv| {
        let all = csv.pointer("/spec/install/spec/deployments").and_then(Value::as_array).cloned();
        all.unwrap_or_default()
    });
    let names = deployments.filter_map(|it| it.get("name")?.as_str().map(ToOwned::to_owned));
    names.map(|name| ("apps/v1".to_owned(), Key::new(("apps", "Deployment"), namespace, &name))).collect()
}

/// Subscriptions as they would have to be: they ask for the versions of the plan.
pub(crate) fn subscribers(all: &[Subscriber], since: &Since) -> Vec<Subscriber> {
    let of = |it: &Subscriber| match since.get(&it.installed_csv).or_else(|| since.get(&it.current_csv)) {
        Some(origin) => Subscriber { current_csv: origin.clone(), installed_csv: String::new(), ..it.clone() },
        None => it.clone(),
    };
    all.iter().map(of).collect()
}

/// Foretells that what has come since is deleted and the plan is carried out once more. `known` is afterwards what the cluster would be.
pub(crate) fn restored(premise: &Premise<'_>, since: &Since, known: &mut Known) -> Forecast {
    let mut gone: BTreeMap<Key, Change> = BTreeMap::new();
    let key = |name: &str| Key::new(CSV, premise.namespace, name);
    let kept: BTreeSet<String> = steps(premise.plan, premise.contents)
        .iter()
        .flatten()
        .filter(|item| item.is(CSV))
        .map(|item| item.name.clone())
        .collect();
    let uid = |object: &Value| object.pointer("/metadata/uid").and_then(Value::as_str).map(ToOwned::to_owned);
    let mut uids = BTreeSet::new();
    for name in since.keys() {
        let Some(csv) = known.object(&key(name)) else { continue };
        uids.extend(uid(&csv));
        let Ok(typed) = serde_json::from_value((*csv).clone()) else { continue };
        let ends = end(&typed, premise.namespace, known);
        gone.extend(
            ends.into_iter().map(|(it, _)| it).filter(|it| !kept.contains(&it.of)).map(|it| (it.key.clone(), it)),
        );
    }
    let others = known.all(CSV).filter(|(key, _)| key.namespace == premise.namespace && !since.contains_key(&key.name));
    let left: BTreeSet<String> = others.filter_map(|(_, object)| uid(object)).collect();
    // By the garbage collector, one after the other.
    loop {
        let more = known.owned_by(&uids, &left).into_iter().filter(|(key, _)| !gone.contains_key(key));
        let more: Vec<(Key, String)> = more.collect();
        if more.is_empty() {
            break;
        }
        uids.extend(more.iter().filter_map(|(key, _)| known.object(key).and_then(|object| uid(&object))));
        let deleted =
            |(key, of): (Key, String)| (key.clone(), Change { verb: Verb::Delete, key, of, fields: Vec::new() });
        gone.extend(more.into_iter().map(deleted));
    }
    for change in gone.values() {
        known.write(change, Value::Null);
    }
    let mut forecast = forecast(premise, known);
    let mut changes = std::mem::take(&mut forecast.changes);
    for change in &mut changes {
        if change.verb == Verb::Create && gone.remove(&change.key).is_some() {
            change.verb = Verb::Replace;
        }
    }
    // Whether the plan can be carried out again is to be known before anything is deleted.
    forecast.changes = gone.into_values().chain(changes).collect();
    if !forecast.held.is_empty() {
        forecast.changes.clear();
    }
    forecast
}
