//! Who has written an object and its fields, by its managedFields. What was removed is in none of them, and the inside of an atomic
//! list or map neither.

use serde::Serialize;
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries that are kept as text: as values they take more room than the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(Arc<str>);

impl Text {
    /// In the form of the API.
    pub(crate) fn of(entries: &impl Serialize) -> Text {
        Text(serde_json::to_string(entries).unwrap_or_default().into())
    }

    pub(crate) fn read(&self) -> Vec<Value> {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// The entries of an object, in the form of the API.
pub(crate) fn entries(object: &Value) -> &[Value] {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Those of other field managers that do not only write a subresource, the latest first.
fn of_others<'a>(entries: &'a [Value], own: &str) -> Vec<&'a Value> {
    let others = entries.iter().filter(|it| text(it, "manager") != own && text(it, "subresource").is_empty());
    let mut others: Vec<&Value> = others.rev().collect();
    others.sort_by_key(|it| Reverse(text(it, "time")));
    others
}

/// The field manager other than `own` that wrote the object last.
pub(crate) fn last<'a>(entries: &'a [Value], own: &str) -> Option<&'a str> {
    of_others(entries, own).first().map(|it| text(it, "manager"))
}

/// The field manager other than `own` that set a field last, such as `spec.template.spec.containers[web].image` or
/// `metadata.labels[example.com/tier]`.
pub(crate) fn of_field<'a>(entries: &'a [Value], own: &str, field: &str) -> Option<&'a str> {
    let path = segments(field);
    let has = |entry: &&Value| entry.get("fieldsV1").and_then(Value::as_object).is_some_and(|set| has(set, &path));
    of_others(entries, own).into_iter().find(has).map(|it| text(it, "manager"))
}

/// The names in the path of a field.
fn segments(field: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), field);
    while !rest.is_empty() {
        let (segment, after) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').unwrap_or((inside, "")),
            None => {
                rest = rest.strip_prefix('.').unwrap_or(rest);
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                rest.split_at_checked(end).unwrap_or((rest, ""))
            }
        };
        all.push(segment);
        rest = after;
    }
    all
}

/// Whether a field set has this place, or the list or map that has it and is owned as a whole.
fn has(set: &Map<String, Value>, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    let is_element =
        |key: &str| element(key).is_some_and(|fields| fields.values().any(|it| it.as_str() == Some(first)));
    let below = set.get(&format!("f:{first}"));
    let below = below.or_else(|| set.iter().find(|(key, _)| is_element(key)).map(|(_, below)| below));
    match below.and_then(Value::as_object) {
        Some(below) => below.is_empty() || has(below, rest),
        // By their position elements cannot be told apart.
        None => first.parse::<usize>().is_ok(),
    }
}

/// The fields by which a key of a field set tells an element of a list from the others.
fn element(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

/// A place in an object: what one manager has set there, and what others have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place<'a> {
    own: Vec<&'a Map<String, Value>>,
    others: Vec<&'a Map<String, Value>>,
}

impl<'a> Place<'a> {
    /// The object itself.
    pub(crate) fn new(entries: &'a [Value], own: &str) -> Place<'a> {
        let mut place = Place::default();
        for entry in entries.iter().filter(|it| text(it, "subresource").is_empty()) {
            let to = if text(entry, "manager") == own { &mut place.own } else { &mut place.others };
            to.extend(entry.get("fieldsV1").and_then(Value::as_object));
        }
        place
    }

    /// The manager has set something there.
    pub(crate) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Others have.
    pub(crate) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Others have set something there, and the manager nothing.
    pub(crate) fn is_of_others(&self) -> bool {
        self.has_others() && !self.has_own()
    }

    pub(crate) fn field(&self, name: &str) -> Place<'a> {
        let key = format!("f:{name}");
        let of = |sets: &[&'a Map<String, Value>]| sets.iter().filter_map(|set| set.get(&key)?.as_object()).collect();
        Place { own: of(&self.own), others: of(&self.others) }
    }

    /// The elements of a list, by the JSON of the value in the field by which the list tells them apart.
    pub(crate) fn elements(&self, name: &str) -> BTreeMap<String, Place<'a>> {
        let mut all: BTreeMap<String, Place<'a>> = BTreeMap::new();
        for (sets, is_own) in [(&self.own, true), (&self.others, false)] {
            for (key, below) in sets.iter().flat_map(|set| set.iter()) {
                let Some(value) = element(key).and_then(|fields| fields.get(name).map(Value::to_string)) else {
                    continue;
                };
                let place = all.entry(value).or_default();
                let to = if is_own { &mut place.own } else { &mut place.others };
                to.extend(below.as_object());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, time: &str, subresource: &str, fields: Value) -> Value {
        json!({"manager": manager, "time": time, "operation": "Update", "subresource": subresource, "fieldsV1": fields})
    }

    fn written() -> Value {
        let container = |fields: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": fields}}}}});
        json!({"metadata": {"managedFields": [
            entry("us", "2026-01-09T00:00:00Z", "", container(json!({".": {}, "f:name": {}, "f:resources": {"f:limits": {}}}))),
            entry("policy", "2026-01-03T00:00:00Z", "", container(json!({"f:image": {}, "f:env": {"k:{\"name\":\"A\"}": {}}}))),
            entry("editor", "2026-01-02T00:00:00Z", "", container(json!({"f:image": {}, "f:args": {}}))),
            entry("labels", "2026-01-01T00:00:00Z", "", json!({"f:metadata": {"f:labels": {"f:example.com/tier": {}}}})),
            entry("controller", "2026-01-08T00:00:00Z", "status", json!({"f:spec": {"f:replicas": {}}})),
        ]}})
    }

    #[test]
    fn writer_of_a_field_is_the_last_other_one_that_has_set_it() {
        let object = written();
        let entries = entries(&object);
        assert_eq!(last(entries, "us"), Some("policy"));
        let container = "spec.template.spec.containers[web]";
        for (field, writer) in [
            (format!("{container}.image"), Some("policy")),
            (format!("{container}.args"), Some("editor")),
            (format!("{container}.args[1]"), Some("editor")),
            (format!("{container}.env[0].value"), Some("policy")),
            (format!("{container}.resources.limits.cpu"), None),
            (format!("{container}.command"), None),
            ("spec.template.spec.containers[other].image".to_owned(), None),
            ("metadata.labels[example.com/tier]".to_owned(), Some("labels")),
            ("metadata.labels[example.com/other]".to_owned(), None),
            ("spec.replicas".to_owned(), None),
        ] {
            assert_eq!(of_field(entries, "us", &field), writer, "{field}");
        }
    }

    #[test]
    fn place_of_others_is_one_in_which_the_manager_has_set_nothing() {
        let object = written();
        let container =
            Place::new(entries(&object), "us").field("spec").field("template").field("spec").field("containers");
        let elements = container.elements("name");
        assert_eq!(elements.keys().collect::<Vec<_>>(), ["\"web\""]);
        let container = &elements["\"web\""];
        assert!(!container.is_of_others(), "both have set something");
        let of_others =
            ["image", "args", "env", "name", "resources", "command"].map(|it| container.field(it).is_of_others());
        assert_eq!(of_others, [true, true, true, false, false, false]);
        assert!(!Place::new(entries(&json!({})), "us").is_of_others());
    }
}
