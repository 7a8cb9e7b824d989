//! Checks the types of a configuration by the schema, and writes it in one way: without what is not set or unknown.

use super::schema::{CONFIG, Field, Key, Merging, Object, Shape};
use super::{IgnitionError, VERSION, kind};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The configuration as version 3.5.0, and a warning for each field that version 3.`minor` does not have.
pub(super) fn normalize(value: &Value, minor: u64) -> Result<(Value, Vec<String>), IgnitionError> {
    let mut normalizer = Normalizer { minor, warnings: Vec::new() };
    let mut value = normalizer.object(&CONFIG, value, "")?;
    if let Some(ignition) = value.get_mut("ignition").and_then(Value::as_object_mut) {
        ignition.insert("version".to_owned(), Value::from(VERSION));
    }
    Ok((Value::Object(value), normalizer.warnings))
}

struct Normalizer {
    minor: u64,
    warnings: Vec<String>,
}

impl Normalizer {
    /// `None` for what is not set. The recursion is as deep as the schema, whatever the value is.
    fn value(&mut self, shape: &Shape, value: &Value, place: &str) -> Result<Option<Value>, IgnitionError> {
        let expected = match (shape, value) {
            (_, Value::Null) => return Ok(None),
            (Shape::Text, Value::String(_)) | (Shape::Flag, Value::Bool(_)) => return Ok(Some(value.clone())),
            (Shape::Integer, Value::Number(number)) if number.is_i64() => return Ok(Some(value.clone())),
            (Shape::Object(object), Value::Object(_)) => {
                let fields = self.object(object, value, place)?;
                return Ok((!fields.is_empty()).then_some(Value::Object(fields)));
            }
            (Shape::List(key, shape), Value::Array(entries)) => {
                let entries = self.list(*key, shape, entries, place)?;
                return Ok((!entries.is_empty()).then_some(Value::Array(entries)));
            }
            (Shape::Text, _) => "text",
            (Shape::Integer, _) => "an integer",
            (Shape::Flag, _) => "true or false",
            (Shape::Object(_), _) => "an object",
            (Shape::List(..), _) => "a list",
        };
        Err(IgnitionError::Type { field: place.to_owned(), found: kind(value), expected })
    }

    fn object(&mut self, object: &Object, value: &Value, place: &str) -> Result<Map<String, Value>, IgnitionError> {
        let Value::Object(given) = value else {
            return Err(IgnitionError::Type { field: place.to_owned(), found: kind(value), expected: "an object" });
        };
        for name in given.keys() {
            self.warn_if_unknown(object.fields.iter().find(|field| field.name == *name), &join(place, name));
        }
        let mut fields = Map::new();
        let minor = self.minor;
        for field in object.fields.iter().filter(|field| field.since <= minor) {
            let place = join(place, field.name);
            let value = given.get(field.name).map_or(Ok(None), |value| self.value(&field.shape, value, &place))?;
            match value {
                Some(value) => drop(fields.insert(field.name.to_owned(), value)),
                None if field.required => return Err(IgnitionError::Missing { field: place }),
                None => {}
            }
        }
        if let Merging::SharedKeys(lists) = object.merging {
            shared_keys(object, &fields, lists, place)?;
        }
        Ok(fields)
    }

    fn warn_if_unknown(&mut self, field: Option<&Field>, place: &str) {
        match field {
            None => self.warnings.push(format!("{place} is ignored: Ignition has no such field; correct its name")),
            Some(field) if field.since > self.minor => self.warnings.push(format!(
                "{place} is ignored: Ignition has it since version 3.{}.0; write that in ignition.version",
                field.since
            )),
            Some(_) => {}
        }
    }

    fn list(&mut self, key: Key, shape: &Shape, given: &[Value], place: &str) -> Result<Vec<Value>, IgnitionError> {
        let (mut entries, mut keys) = (Vec::with_capacity(given.len()), BTreeSet::new());
        for (at, value) in given.iter().enumerate() {
            let own = key.of(value);
            let entry = match &own {
                Some(own) if !matches!(key, Key::Text) => format!("{place}[{own}]"),
                _ => format!("{place}[{at}]"),
            };
            let value = match (shape, value) {
                (Shape::Object(object), _) => Value::Object(self.object(object, value, &entry)?),
                (_, Value::Null) => return Err(IgnitionError::Missing { field: entry }),
                _ => match self.value(shape, value, &entry)? {
                    Some(value) => value,
                    None => return Err(IgnitionError::Missing { field: entry }),
                },
            };
            match own {
                Some(own) if !keys.insert(own.clone()) => match key {
                    Key::Text => continue,
                    _ => return Err(IgnitionError::Duplicate { field: place.to_owned(), key: own }),
                },
                _ => entries.push(value),
            }
        }
        Ok(entries)
    }
}

/// Fails if two of these lists have an entry with the same key.
fn shared_keys(object: &Object, fields: &Map<String, Value>, lists: &[&str], place: &str) -> Result<(), IgnitionError> {
    let mut keys = BTreeSet::new();
    for field in object.fields.iter().filter(|field| lists.contains(&field.name)) {
        let Shape::List(key, _) = field.shape else { continue };
        for own in fields.get(field.name).and_then(Value::as_array).into_iter().flatten().filter_map(|e| key.of(e)) {
            if !keys.insert(own.clone()) {
                let field = if place.is_empty() { lists.join(", ") } else { format!("{place} ({})", lists.join(", ")) };
                return Err(IgnitionError::Duplicate { field, key: own });
            }
        }
    }
    Ok(())
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}
