//! What others have added to a Deployment, and what they have tuned: it stays. The ClusterServiceVersion says what it names, and no more.
//!
//! The label with the hash of its content tells which content was written. As long as that is the wanted one, whatever else is there has
//! come from others: from clients, or from admission webhooks, whose changes managedFields give to the client that has written. Where
//! another content is to be written, what is only there by others stays, and what was written for the version before goes.

use super::{Live, written_hash};
use crate::object::writers::Place;
use crate::olm::api::MANAGER;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What may be added to a part of a Deployment.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Nothing: it is one thing, and whoever names it names all of it.
    Whole,
    /// Never taken over: it follows from another field.
    Derived,
    /// Fields. Those that are not listed are whole.
    Fields(&'static [(&'static str, Part)]),
    /// Elements that are told apart by a field.
    Elements(&'static str, &'static Part),
    /// Quantities. They are added, and where both have one, that of others counts once the content has been written.
    Quantities,
}

/// Metadata and what else is not listed is kept by the rules of the merge.
const DEPLOYMENT: Part = Part::Fields(&[("metadata", Part::Derived), ("status", Part::Derived), ("spec", SPEC)]);
const SPEC: Part = Part::Fields(&[("selector", Part::Derived), ("template", TEMPLATE)]);
const TEMPLATE: Part = Part::Fields(&[("metadata", Part::Derived), ("spec", POD)]);
const POD: Part = Part::Fields(&[
    ("containers", Part::Elements("name", &CONTAINER)),
    ("initContainers", Part::Elements("name", &CONTAINER)),
    ("volumes", Part::Elements("name", &Part::Whole)),
    ("securityContext", Part::Fields(&[])),
    ("affinity", Part::Fields(&[])),
    // The old name of `serviceAccountName`.
    ("serviceAccount", Part::Derived),
]);
const CONTAINER: Part = Part::Fields(&[
    ("env", Part::Elements("name", &Part::Whole)),
    ("volumeMounts", Part::Elements("mountPath", &Part::Whole)),
    ("volumeDevices", Part::Elements("devicePath", &Part::Whole)),
    ("ports", Part::Elements("containerPort", &Part::Whole)),
    ("securityContext", Part::Fields(&[])),
    ("resources", Part::Fields(&[("limits", Part::Quantities), ("requests", Part::Quantities)])),
]);

/// The Deployment as it is wanted, with what stays of the one that there is: then that is no difference.
pub(super) fn kept(mut desired: Value, live: &Live) -> Value {
    let is_written = written_hash(&desired).is_some_and(|wanted| written_hash(&live.object) == Some(wanted));
    let entries = live.writers.read();
    let place = Place::new(&entries, MANAGER);
    add(&DEPLOYMENT, &mut desired, &live.object, &place, is_written);
    desired
}

/// The Deployment that there is without what was written for the version before and is not wanted any more, wherever it is: the merge
/// knows some fields of pods and no others. `desired`: with what stays.
pub(super) fn without_former(desired: &Value, live: &Live) -> Value {
    let mut object = (*live.object).clone();
    if written_hash(desired) != written_hash(&live.object) {
        leave(&DEPLOYMENT, &mut object, desired, &Place::new(&live.writers.read(), MANAGER));
    }
    object
}

fn leave(part: &Part, live: &mut Value, desired: &Value, place: &Place<'_>) {
    match (part, live, desired) {
        (Part::Fields(fields), Value::Object(live), Value::Object(desired)) => live.retain(|key, value| {
            let part = fields.iter().find(|(name, _)| name == key).map_or(&Part::Whole, |(_, part)| part);
            let place = place.field(key);
            match (part, desired.get(key).filter(|it| !it.is_null())) {
                (Part::Derived, _) => true,
                (_, None) => !place.has_own(),
                (part, Some(desired)) => {
                    leave(part, value, desired, &place);
                    true
                }
            }
        }),
        (Part::Whole, Value::Object(live), Value::Object(desired)) if place.has_own() && !place.has_others() => {
            live.retain(|key, _| desired.contains_key(key));
        }
        (Part::Elements(name, part), Value::Array(live), Value::Array(desired)) => {
            let places = place.elements(name);
            live.retain_mut(|element| {
                let Some(id) = element.get(*name).cloned() else { return true };
                let place = places.get(&id.to_string()).cloned().unwrap_or_default();
                match desired.iter().find(|it| it.get(*name) == Some(&id)) {
                    None => !place.has_own(),
                    Some(wanted) => {
                        leave(part, element, wanted, &place);
                        true
                    }
                }
            });
        }
        _ => {}
    }
}

/// `is_written`: this content has been written.
fn add(part: &Part, desired: &mut Value, live: &Value, place: &Place<'_>, is_written: bool) {
    match (part, desired, live) {
        (Part::Fields(fields), Value::Object(desired), Value::Object(live)) => {
            for (key, value) in live {
                let part = fields.iter().find(|(name, _)| name == key).map_or(&Part::Whole, |(_, part)| part);
                add_field(part, (desired, key), value, &place.field(key), is_written);
            }
        }
        (Part::Quantities, Value::Object(desired), Value::Object(live)) => {
            for (key, value) in live {
                let is_named = desired.get(key).is_some_and(|it| !it.is_null());
                if is_written || !is_named && place.field(key).is_of_others() {
                    desired.insert(key.clone(), value.clone());
                }
            }
        }
        (Part::Elements(name, part), Value::Array(desired), Value::Array(live)) => {
            let elements = Elements { name, part, place, is_written };
            *desired = elements.with(std::mem::take(desired), live);
        }
        _ => {}
    }
}

fn add_field(
    part: &Part,
    (desired, key): (&mut Map<String, Value>, &str),
    live: &Value,
    place: &Place<'_>,
    is_written: bool,
) {
    let known = desired.get_mut(key).filter(|it| !it.is_null());
    let empty = match (part, known) {
        (Part::Derived, _) => return,
        (_, Some(known)) => return add(part, known, live, place, is_written),
        (Part::Whole, None) if is_written || place.is_of_others() => live.clone(),
        (Part::Whole, None) => return,
        (Part::Elements(..), None) => Value::Array(Vec::new()),
        (Part::Fields(_) | Part::Quantities, None) => Value::Object(Map::new()),
    };
    let mut added = empty;
    add(part, &mut added, live, place, is_written);
    let is_empty = added.as_array().is_some_and(Vec::is_empty) || added.as_object().is_some_and(Map::is_empty);
    if !is_empty {
        desired.insert(key.to_owned(), added);
    }
}

/// A list whose elements are told apart by a field.
struct Elements<'a> {
    name: &'static str,
    part: &'a Part,
    place: &'a Place<'a>,
    is_written: bool,
}

impl Elements<'_> {
    /// What is wanted with what stays of the list that there is, in the order of that unless what is wanted has another one.
    fn with(&self, desired: Vec<Value>, live: &[Value]) -> Vec<Value> {
        let name = |element: &Value| element.get(self.name).map(Value::to_string);
        let wanted: BTreeSet<String> = desired.iter().filter_map(name).collect();
        let there: BTreeSet<String> = live.iter().filter_map(name).collect();
        if wanted.len() < desired.len() || there.len() < live.len() {
            // Then it cannot be said which one is meant.
            return desired;
        }
        let places = self.place.elements(self.name);
        let mut desired: BTreeMap<String, (usize, Value)> =
            desired.into_iter().enumerate().filter_map(|(at, it)| Some((name(&it)?, (at, it)))).collect();
        let mut list: Vec<(usize, Value)> = Vec::new();
        for element in live {
            let name = name(element).unwrap_or_default();
            let place = places.get(&name).cloned().unwrap_or_default();
            match desired.remove(&name) {
                Some((at, mut wanted)) => {
                    add(self.part, &mut wanted, element, &place, self.is_written);
                    list.push((at, wanted));
                }
                None if self.is_written || place.is_of_others() => list.push((usize::MAX, element.clone())),
                None => {}
            }
        }
        let mut missing: Vec<(usize, Value)> = desired.into_values().collect();
        missing.sort_by_key(|(at, _)| *at);
        list.extend(missing);
        let wanted = list.iter().map(|(at, _)| *at).filter(|at| *at != usize::MAX);
        if !wanted.is_sorted() {
            list.sort_by_key(|(at, _)| *at);
        }
        list.into_iter().map(|(_, element)| element).collect()
    }
}
