//! Whether an object fits the structural schema of a CustomResourceDefinition. Rules in CEL and formats of text are not judged: the
//! server asks for them only when an object changes.

use regex::Regex;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;

/// Faults of one object that are told.
const MOST: usize = 3;

/// An `openAPIV3Schema`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schema(Value);

impl Schema {
    pub(crate) fn new(schema: Value) -> Schema {
        Schema(schema)
    }

    /// What does not fit, as `field: why`; nothing for an object that fits.
    pub(crate) fn faults(&self, object: &Value) -> Vec<String> {
        let mut check = Check { faults: Vec::new(), patterns: RefCell::default() };
        check.value(&self.0, object, "");
        check.faults
    }
}

struct Check {
    faults: Vec<String>,
    /// Compiled; `None` for what is no pattern here.
    patterns: RefCell<HashMap<String, Option<Regex>>>,
}

impl Check {
    fn add(&mut self, path: &str, why: String) {
        if self.faults.len() < MOST {
            let path = if path.is_empty() { "object" } else { path.trim_start_matches('.') };
            self.faults.push(format!("{path}: {why}"));
        }
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(rules) = schema.as_object() else { return };
        if self.faults.len() >= MOST || value.is_null() && is_set(rules, "nullable") {
            return;
        }
        if !is_of_type(rules, value) {
            let expected = rules.get("type").and_then(Value::as_str).unwrap_or("integer or string");
            return self.add(path, format!("must be {expected}"));
        }
        if let Some(allowed) = rules.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
            self.add(path, format!("must be one of {}", names.join(", ")));
        }
        match value {
            Value::Object(members) => self.object(rules, members, path),
            Value::Array(elements) => self.array(rules, elements, path),
            Value::String(text) => self.text(rules, text, path),
            Value::Number(_) => self.number(rules, value, path),
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(rules, value, path);
    }

    fn object(&mut self, rules: &Map<String, Value>, members: &Map<String, Value>, path: &str) {
        let properties = rules.get("properties").and_then(Value::as_object);
        let has_default =
            |name: &str| properties.and_then(|all| all.get(name)).is_some_and(|it| it.get("default").is_some());
        for name in texts(rules, "required").filter(|name| !members.contains_key(*name) && !has_default(name)) {
            self.add(&format!("{path}.{name}"), "is required".to_owned());
        }
        self.bounds(rules, ("minProperties", "maxProperties"), (members.len(), "members"), path);
        for (name, member) in members {
            // The server keeps these itself.
            if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                continue;
            }
            let place = format!("{path}.{name}");
            match (properties.and_then(|all| all.get(name)), rules.get("additionalProperties")) {
                (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => self.value(schema, member, &place),
                _ => {}
            }
        }
    }

    fn array(&mut self, rules: &Map<String, Value>, elements: &[Value], path: &str) {
        self.bounds(rules, ("minItems", "maxItems"), (elements.len(), "elements"), path);
        let is_doubled = |(at, it): (usize, &Value)| elements.iter().take(at).any(|before| before == it);
        if is_set(rules, "uniqueItems") && elements.iter().enumerate().any(is_doubled) {
            self.add(path, "has the same element twice".to_owned());
        }
        if let Some(schema) = rules.get("items") {
            for (at, element) in elements.iter().enumerate() {
                self.value(schema, element, &format!("{path}[{at}]"));
            }
        }
    }

    fn text(&mut self, rules: &Map<String, Value>, text: &str, path: &str) {
        self.bounds(rules, ("minLength", "maxLength"), (text.chars().count(), "characters"), path);
        if let Some(pattern) = rules.get("pattern").and_then(Value::as_str)
            && !self.matches(pattern, text)
        {
            self.add(path, format!("must match {pattern}"));
        }
    }

    /// A pattern that cannot be read here is no verdict.
    fn matches(&self, pattern: &str, text: &str) -> bool {
        let mut patterns = self.patterns.borrow_mut();
        let compiled = patterns.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok());
        compiled.as_ref().is_none_or(|compiled| compiled.is_match(text))
    }

    fn number(&mut self, rules: &Map<String, Value>, value: &Value, path: &str) {
        let Some(number) = value.as_f64() else { return };
        let limit = |key: &str| rules.get(key).and_then(Value::as_f64);
        if let Some(least) = limit("minimum") {
            let exclusive = is_set(rules, "exclusiveMinimum");
            if number < least || exclusive && number <= least {
                self.add(path, format!("must be {} {least}", if exclusive { "more than" } else { "at least" }));
            }
        }
        if let Some(most) = limit("maximum") {
            let exclusive = is_set(rules, "exclusiveMaximum");
            if number > most || exclusive && number >= most {
                self.add(path, format!("must be {} {most}", if exclusive { "less than" } else { "at most" }));
            }
        }
        if let Some(unit) = limit("multipleOf").filter(|unit| *unit > 0.0) {
            let rest = (number / unit).fract().abs();
            if rest > 1e-9 && rest < 1.0 - 1e-9 {
                self.add(path, format!("must be a multiple of {unit}"));
            }
        }
    }

    fn bounds(&mut self, rules: &Map<String, Value>, keys: (&str, &str), (size, of): (usize, &str), path: &str) {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let limit = |key: &str| rules.get(key).and_then(Value::as_u64);
        if let Some(least) = limit(keys.0).filter(|least| size < *least) {
            self.add(path, format!("must have at least {least} {of}"));
        }
        if let Some(most) = limit(keys.1).filter(|most| size > *most) {
            self.add(path, format!("must have at most {most} {of}"));
        }
    }

    fn combined(&mut self, rules: &Map<String, Value>, value: &Value, path: &str) {
        let list = |key: &str| rules.get(key).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.value(schema, value, path);
        }
        let fitting = |schemas: &[Value]| schemas.iter().filter(|schema| fits(schema, value)).count();
        if list("anyOf").is_some_and(|schemas| fitting(schemas) == 0) {
            self.add(path, "fits none of the schemas of anyOf".to_owned());
        }
        if list("oneOf").is_some_and(|schemas| fitting(schemas) != 1) {
            self.add(path, "does not fit exactly one of the schemas of oneOf".to_owned());
        }
        if rules.get("not").is_some_and(|schema| fits(schema, value)) {
            self.add(path, "fits the schema of not".to_owned());
        }
    }
}

fn fits(schema: &Value, value: &Value) -> bool {
    let mut check = Check { faults: Vec::new(), patterns: RefCell::default() };
    // Not the root, whose metadata is left out.
    check.value(schema, value, ".");
    check.faults.is_empty()
}

fn is_set(rules: &Map<String, Value>, key: &str) -> bool {
    rules.get(key).and_then(Value::as_bool) == Some(true)
}

fn texts<'a>(rules: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    rules.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn is_of_type(rules: &Map<String, Value>, value: &Value) -> bool {
    let is_integer = || value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    if is_set(rules, "x-kubernetes-int-or-string") {
        return value.is_string() || is_integer();
    }
    match rules.get("type").and_then(Value::as_str) {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => is_integer(),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
