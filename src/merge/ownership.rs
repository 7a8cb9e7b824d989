//! Which fields of an object a former release has set, by its managedFields: those that an entry of our field manager has,
//! no other entry has, and the manifest lacks. They are removed by the next server-side apply (see [`super::apply`]).
//!
//! The inside of an atomic list or map is in no entry. Who owns it owns all of it, but for the defaults of the kind.

use super::equal;
use super::metadata::group;
use super::rule::Rule;
use super::schema::Schema;
use super::walk::{At, Merged, Walk};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Under which name a process writes the objects of a release.
#[derive(Clone, Copy, Debug)]
pub struct Manager {
    /// The field manager.
    pub name: &'static str,
    /// What another process may have written under the same name by updates. It is its own: no manifest has set it, unless
    /// the object was applied with it.
    pub of_others: &'static [OfOthers],
}

/// Fields that another process writes.
#[derive(Clone, Copy, Debug)]
pub enum OfOthers {
    /// The annotations of a domain, on whichever object.
    Annotations(&'static str),
    /// A field of a kind.
    Field {
        /// The group of the kind.
        group: &'static str,
        /// The kind.
        kind: &'static str,
        /// The keys of field sets that lead to it, such as `f:spec`.
        path: &'static [&'static str],
    },
}

impl OfOthers {
    /// Where the field set of this object has such fields.
    fn places<'a>(self, object: &Value, set: &'a Map<String, Value>) -> Vec<Vec<&'a str>> {
        match self {
            Self::Annotations(of) => {
                let annotations = set.get("f:metadata").and_then(|set| set.get("f:annotations")?.as_object());
                let domain = |key: &str| key.strip_prefix("f:")?.split_once('/').map(|(domain, _)| domain == of);
                let keys = annotations.into_iter().flat_map(Map::keys).filter(|key| domain(key) == Some(true));
                keys.map(|key| vec!["f:metadata", "f:annotations", key.as_str()]).collect()
            }
            Self::Field { group: of, kind, path } => {
                let is_of_kind = text(object, "kind") == kind && group(text(object, "apiVersion")) == of;
                Vec::from_iter(Some(path.to_vec()).filter(|path| is_of_kind && has(set, path)))
            }
        }
    }
}

impl Manager {
    /// Whether this is an entry of ours of managedFields, and not one of the status.
    pub(super) fn owns(&self, entry: &Value) -> bool {
        text(entry, "manager") == self.name && text(entry, "subresource").is_empty()
    }

    /// Where the field set of this object has fields that another process writes.
    pub(super) fn places_of_others<'a>(&self, object: &Value, set: &'a Map<String, Value>) -> Vec<Vec<&'a str>> {
        self.of_others.iter().flat_map(|fields| fields.places(object, set)).collect()
    }
}

/// Whether a field set has this place.
fn has(set: &Map<String, Value>, path: &[&str]) -> bool {
    let mut set = Some(set);
    path.iter().all(|key| {
        let below = set.and_then(|set| set.get(*key));
        set = below.and_then(Value::as_object);
        below.is_some()
    })
}

/// Reads the defaults of the kind, if they are known.
pub(crate) type ReadSchema<'a> = &'a dyn Fn() -> Option<Arc<Schema>>;

/// Fields of metadata that an object loses with the manifest.
pub(super) const METADATA: [&str; 2] = ["f:labels", "f:annotations"];

/// The same place in several field sets (FieldsV1). A key is `f:` and a name, `k:` and the key fields of an element, `v:`
/// and an element, or `.` for the place itself.
type Nodes<'a> = Vec<&'a Map<String, Value>>;

fn below<'a>(nodes: &Nodes<'a>, key: &str) -> Nodes<'a> {
    nodes.iter().filter_map(|node| node.get(key)?.as_object()).collect()
}

fn keys<'a>(nodes: &Nodes<'a>) -> BTreeSet<&'a str> {
    let keys = nodes.iter().flat_map(|node| node.keys());
    keys.map(String::as_str).filter(|key| *key != ".").collect()
}

pub(super) fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The entries of managedFields that have a field set.
fn entries(live: &Value) -> impl Iterator<Item = (&Value, &Map<String, Value>)> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| Some((entry, entry.get("fieldsV1")?.as_object()?)))
}

/// The field sets of our manager, and those of all others.
fn sets<'a>(live: &'a Value, manager: Manager) -> (Nodes<'a>, Nodes<'a>) {
    let (mut ours, mut others) = (Nodes::new(), Nodes::new());
    for (entry, set) in entries(live) {
        if text(entry, "manager") != manager.name {
            others.push(set);
        } else if manager.owns(entry) {
            ours.push(set);
        }
    }
    (ours, others)
}

/// The paths of what another process has written under our name: what is its own and no apply of ours has set.
fn of_others(live: &Value, manager: Manager) -> BTreeSet<String> {
    let ours = |operation: &'static str| {
        let ours = entries(live).filter(move |(entry, _)| manager.owns(entry) && text(entry, "operation") == operation);
        ours.map(|(_, set)| set)
    };
    let places = ours("Update").flat_map(|set| manager.places_of_others(live, set));
    let places = places.filter(|path| !ours("Apply").any(|set| has(set, path)));
    places.map(|path| path.into_iter().fold(String::new(), |path, key| named(&path, key))).collect()
}

/// The element of a list, or the field of a map, that a key of a field set names.
fn child<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match key.split_at_checked(2)? {
        ("f:", name) => value.get(name).filter(|value| !value.is_null()),
        _ => value.as_array()?.iter().find(|element| is_named(element, key)),
    }
}

fn child_mut<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match key.split_at_checked(2)? {
        ("f:", name) => value.get_mut(name),
        _ => value.as_array_mut()?.iter_mut().find(|element| is_named(element, key)),
    }
}

/// Whether the key of a field set names this element. A manifest may omit key fields that have a default.
fn is_named(element: &Value, key: &str) -> bool {
    match key.split_at_checked(2) {
        Some(("v:", value)) => serde_json::from_str::<Value>(value).is_ok_and(|value| equal::json(element, &value)),
        Some(("k:", fields)) => serde_json::from_str::<Map<String, Value>>(fields).is_ok_and(|fields| {
            let mut set = fields.iter().filter_map(|(name, value)| Some((element.get(name)?, value))).peekable();
            set.peek().is_some() && set.all(|(a, b)| equal::json(a, b))
        }),
        _ => false,
    }
}

/// Whether `field` is one of the key fields of this element.
fn is_key_field(element: &str, field: &str) -> bool {
    let (Some(fields), Some(name)) = (element.strip_prefix("k:"), field.strip_prefix("f:")) else { return false };
    serde_json::from_str::<Map<String, Value>>(fields).is_ok_and(|fields| fields.contains_key(name))
}

fn is_element(key: &str) -> bool {
    key.starts_with("k:") || key.starts_with("v:")
}

/// The paths of fields that only our manager owns and the manifest does not set.
pub(super) fn dropped(
    live: &Value,
    desired: &Value,
    manager: Manager,
    typed: bool,
    schema: ReadSchema<'_>,
) -> Vec<String> {
    let (ours, others) = sets(live, manager);
    let spared = of_others(live, manager);
    let compare = |filled: &Value| {
        let mut search = Search { typed, spared: &spared, dropped: Vec::new(), surplus: Vec::new() };
        for key in keys(&ours).into_iter().filter(|key| *key != "f:status") {
            let (ours, others) = (below(&ours, key), below(&others, key));
            let Some(live) = child(live, key) else { continue };
            let place = Place { live, desired: child(desired, key), filled: child(filled, key) };
            if key == "f:metadata" {
                for part in METADATA {
                    let path = format!("metadata.{}", &part[2..]);
                    if let Some(place) = place.child(part) {
                        search.visit(&below(&ours, part), &below(&others, part), place, &path, part);
                    }
                }
            } else {
                search.visit(&ours, &others, place, &named("", key), key);
            }
        }
        search
    };
    let found = compare(desired);
    if found.dropped.is_empty() && found.surplus.is_empty() {
        return Vec::new();
    }
    let Some(schema) = schema() else { return found.dropped };
    let mut filled = desired.clone();
    schema.fill(&mut filled);
    let mut found = compare(&filled);
    found.dropped.append(&mut found.surplus);
    found.dropped
}

/// A path as [`At`] writes it.
fn named(path: &str, key: &str) -> String {
    let (kind, name) = key.split_at_checked(2).unwrap_or_default();
    let fields = || serde_json::from_str::<Value>(name).unwrap_or_default();
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match kind {
        "k:" => {
            let fields = fields();
            let values: Vec<String> = fields.as_object().into_iter().flatten().map(|(_, value)| plain(value)).collect();
            format!("{path}[{}]", values.join(","))
        }
        "v:" => format!("{path}[{}]", plain(&fields())),
        _ if name.contains(['.', '/', '[']) => format!("{path}[{name}]"),
        _ if path.is_empty() => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

/// The same place in the live object, in the manifest, and in the manifest with defaults.
#[derive(Clone, Copy)]
struct Place<'a> {
    live: &'a Value,
    desired: Option<&'a Value>,
    filled: Option<&'a Value>,
}

impl<'a> Place<'a> {
    /// `None` if the live object has nothing there.
    fn child(self, key: &str) -> Option<Place<'a>> {
        let of = |value: Option<&'a Value>| value.and_then(|value| child(value, key));
        Some(Place { live: child(self.live, key)?, desired: of(self.desired), filled: of(self.filled) })
    }
}

struct Search<'a> {
    typed: bool,
    /// Paths that are not ours.
    spared: &'a BTreeSet<String>,
    /// Fields that the manifest does not set.
    dropped: Vec<String>,
    /// Atomic lists and maps with content that the manifest lacks.
    surplus: Vec<String>,
}

impl Search<'_> {
    /// `last` is the key that has led here.
    fn visit(&mut self, ours: &Nodes<'_>, others: &Nodes<'_>, place: Place<'_>, path: &str, last: &str) {
        let keys = keys(ours);
        if keys.is_empty() && others.is_empty() {
            self.compare(place, path);
        }
        for key in keys {
            // Key fields come and go with their element, also where the manifest leaves them to a default.
            if place.desired.is_some() && is_key_field(last, key) {
                continue;
            }
            let path = named(path, key);
            if let Some(child) = place.child(key).filter(|_| !self.spared.contains(&path)) {
                self.visit(&below(ours, key), &below(others, key), child, &path, key);
            }
        }
    }

    /// A field whose inside is in no field set. An empty map in the manifest is not compared: it owns nothing in a map that
    /// is not atomic.
    fn compare(&mut self, place: Place<'_>, path: &str) {
        match (place.desired, place.filled) {
            (None, Some(default)) if self.is_same(place.live, default) => {}
            (None, _) => self.dropped.push(path.to_owned()),
            (Some(Value::Array(_)), Some(filled)) if !self.is_same(place.live, filled) => {
                self.surplus.push(path.to_owned());
            }
            (Some(Value::Object(desired)), Some(filled))
                if !desired.is_empty() && !self.is_same(place.live, filled) =>
            {
                self.surplus.push(path.to_owned());
            }
            (Some(_), _) => {}
        }
    }

    fn is_same(&self, live: &Value, desired: &Value) -> bool {
        is_same(Rule::Exact, live, desired, self.typed)
    }
}

fn is_same(rule: Rule, live: &Value, desired: &Value, typed: bool) -> bool {
    Walk::new(typed).value(rule, live, desired, &At::ROOT) == Merged::Keep
}

/// The manifest with the elements that other managers have added to its keyed lists, in the order of the live object. Lists
/// are compared as a whole otherwise.
pub(super) fn keep_elements_of_others<'a>(live: &Value, desired: &'a Value, manager: Manager) -> Cow<'a, Value> {
    let (ours, others) = sets(live, manager);
    let mut adapted = Cow::Borrowed(desired);
    let both: Nodes<'_> = ours.iter().chain(&others).copied().collect();
    for key in keys(&both).into_iter().filter(|key| !["f:metadata", "f:status"].contains(key)) {
        let (ours, others) = (below(&ours, key), below(&others, key));
        let Some(live) = child(live, key).filter(|_| has_elements(&ours) || has_elements(&others)) else { continue };
        if let Some(desired) = adapted.to_mut().get_mut(&key[2..]) {
            adapt(&ours, &others, live, desired);
        }
    }
    adapted
}

/// The manifest with the lists that other managers own as a whole as they are, where they have all that the manifest sets:
/// an apply would replace them.
pub(super) fn keep_lists_of_others(live: &Value, desired: &mut Value, manager: Manager, typed: bool) {
    let (_, others) = sets(live, manager);
    for key in keys(&others).into_iter().filter(|key| !["f:metadata", "f:status"].contains(key)) {
        keep_lists(&below(&others, key), live, desired, key, typed);
    }
}

fn keep_lists(others: &Nodes<'_>, live: &Value, desired: &mut Value, key: &str, typed: bool) {
    let (Some(live), Some(desired)) = (child(live, key), child_mut(desired, key)) else { return };
    let keys = keys(others);
    if keys.is_empty() && live.is_array() && is_same(Rule::Deep, live, desired, typed) {
        *desired = live.clone();
    }
    keys.into_iter().for_each(|key| keep_lists(&below(others, key), live, desired, key, typed));
}

/// Whether there is a keyed list somewhere below.
fn has_elements(nodes: &Nodes<'_>) -> bool {
    nodes
        .iter()
        .flat_map(|node| node.iter())
        .any(|(key, value)| is_element(key) || value.as_object().is_some_and(|map| has_elements(&vec![map])))
}

fn adapt(ours: &Nodes<'_>, others: &Nodes<'_>, live: &Value, desired: &mut Value) {
    let both: Nodes<'_> = ours.iter().chain(others).copied().collect();
    let keys = keys(&both);
    match (live, desired) {
        (Value::Object(_), Value::Object(desired)) => {
            for key in keys {
                let live = child(live, key);
                if let (Some(live), Some(desired)) = (live, key.get(2..).and_then(|name| desired.get_mut(name))) {
                    adapt(&below(ours, key), &below(others, key), live, desired);
                }
            }
        }
        (Value::Array(live), Value::Array(desired)) if keys.iter().any(|key| is_element(key)) => {
            let mut rest = std::mem::take(desired);
            for element in live {
                let key = keys.iter().copied().find(|key| is_named(element, key));
                let wanted = key.and_then(|key| rest.iter().position(|wanted| is_named(wanted, key)));
                match (key, wanted) {
                    (Some(key), Some(position)) => {
                        let mut wanted = rest.remove(position);
                        adapt(&below(ours, key), &below(others, key), element, &mut wanted);
                        desired.push(wanted);
                    }
                    (Some(key), None) if below(others, key).is_empty() => {}
                    // An element of nobody stays too, since an apply does not remove it.
                    _ => desired.push(element.clone()),
                }
            }
            desired.append(&mut rest);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
