//! Whether a value is as a schema wants it, as far as our schemas go.

use serde_json::Value;
use std::collections::BTreeSet;

const OPAQUE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// What is wrong with a value, and which fields it has.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) faults: Vec<String>,
    pub(super) fields: BTreeSet<String>,
}

impl Seen {
    pub(super) fn of(schema: &Value, value: &Value) -> Seen {
        let mut seen = Seen::default();
        seen.add(schema, value, "");
        seen
    }

    fn add(&mut self, schema: &Value, value: &Value, at: &str) {
        if !has_type(schema, value) {
            self.faults.push(format!("{at}: {value} is no {}", schema["type"]));
        }
        if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
            self.faults.push(format!("{at}: {value} is not one of {}", schema["enum"]));
        }
        if schema["format"] == "date-time" && value.as_str().is_none_or(|it| it.parse::<jiff::Timestamp>().is_err()) {
            self.faults.push(format!("{at}: {value} is no time"));
        }
        if schema["anyOf"].as_array().is_some_and(|branches| !branches.iter().any(|it| is_branch(it, value))) {
            self.faults.push(format!("{at}: {value} has the wrong fields"));
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| value.get(*name).is_none()) {
            self.faults.push(format!("{at}.{name} is missing"));
        }
        for (name, inner) in value.as_object().into_iter().flatten() {
            self.field(schema, name, inner, &format!("{at}.{name}"));
        }
        for item in value.as_array().into_iter().flatten() {
            self.add(&schema["items"], item, &format!("{at}[]"));
        }
    }

    fn field(&mut self, schema: &Value, name: &str, value: &Value, at: &str) {
        if let Some(property) = schema["properties"].get(name) {
            self.fields.insert(at.to_owned());
            // Its schema is that of all objects.
            if at != ".metadata" {
                self.add(property, value, at);
            }
        } else if let Some(any) = schema.get("additionalProperties") {
            self.add(any, value, &format!("{at}{{}}"));
        } else if schema[OPAQUE] != true {
            self.faults.push(format!("{at} is unknown"));
        }
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema[INT_OR_STRING] == true {
        return value.is_i64() || value.is_string();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        _ => false,
    }
}

fn is_branch(branch: &Value, value: &Value) -> bool {
    let fields = value.as_object();
    let required = branch["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let most = branch["maxProperties"].as_u64();
    required.into_iter().all(|name| value.get(name).is_some())
        && most.is_none_or(|most| fields.is_none_or(|fields| fields.len() as u64 <= most))
        && (branch.get("type").is_none() || has_type(branch, value))
}

/// All fields below a schema.
pub(super) fn fields(schema: &Value) -> BTreeSet<String> {
    let mut into = BTreeSet::new();
    collect(schema, "", &mut into);
    into
}

fn collect(schema: &Value, at: &str, into: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}.{name}");
        into.insert(path.clone());
        collect(property, &path, into);
    }
    if let Some(items) = schema.get("items") {
        collect(items, &format!("{at}[]"), into);
    }
}

/// In what one schema differs from another one, as `path: keyword`. What our schema leaves open is one difference, and so is a field
/// that only one of them has. Descriptions do not count, and neither do rules, which are compared by their verdicts.
pub(super) fn differences(ours: &Value, theirs: &Value) -> BTreeSet<String> {
    let mut into = BTreeSet::new();
    compare(ours, theirs, "", &mut into);
    into
}

fn compare(ours: &Value, theirs: &Value, at: &str, into: &mut BTreeSet<String>) {
    const INNER: [&str; 5] = ["properties", "items", "additionalProperties", "description", "x-kubernetes-validations"];
    let keywords =
        |of: &Value| -> BTreeSet<String> { of.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect() };
    for keyword in keywords(ours).union(&keywords(theirs)).filter(|keyword| !INNER.contains(&keyword.as_str())) {
        if sorted(&ours[keyword]) != sorted(&theirs[keyword]) {
            into.insert(format!("{at}: {keyword}"));
        }
    }
    let open = ours[OPAQUE] == true && theirs[OPAQUE] != true;
    let properties = |of: &Value| keywords(&of["properties"]);
    for name in properties(ours).union(&properties(theirs)) {
        let path = format!("{at}.{name}");
        match (ours["properties"].get(name), theirs["properties"].get(name)) {
            (Some(ours), Some(theirs)) => compare(ours, theirs, &path, into),
            (None, _) => into.extend((!open).then(|| format!("{path}: only theirs"))),
            (_, None) => into.extend([format!("{path}: only ours")]),
        }
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        match (ours.get(keyword), theirs.get(keyword)) {
            (Some(ours), Some(theirs)) => compare(ours, theirs, &format!("{at}{mark}"), into),
            (None, None) => {}
            (None, Some(_)) if open => {}
            _ => into.extend([format!("{at}: {keyword}")]),
        }
    }
}

/// The order of names counts for nothing.
fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(items) = value.as_array_mut() {
        items.sort_by_key(Value::to_string);
    }
    value
}
