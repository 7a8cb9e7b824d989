//! A field that differs: its path, and its values before and after where they may be shown.

use serde::Serialize;
use serde_json::Value;

/// A field that the update changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Field {
    /// For example `spec.template.spec.containers[web].image`.
    pub path: String,
    /// The value before; absent if it is not shown or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The value after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// Fields that name an element of a list, in the order in which they are tried.
const NAMES: [&str; 6] = ["name", "key", "mountPath", "containerPort", "port", "uid"];

/// Fields with their values in the objects that are given.
pub(crate) fn fields(paths: Vec<String>, before: Option<&Value>, after: Option<&Value>) -> Vec<Field> {
    let value = |object: Option<&Value>, path: &str| object.and_then(|object| at(object, path)).cloned();
    paths.into_iter().map(|path| Field { from: value(before, &path), to: value(after, &path), path }).collect()
}

/// The value at a path as `merge` writes it: names after dots; positions, names of elements or keys in brackets.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = object;
    let mut rest = path;
    while !rest.is_empty() {
        let part;
        if let Some(inner) = rest.strip_prefix('[') {
            (part, rest) = inner.split_once(']')?;
        } else {
            let from = rest.strip_prefix('.').unwrap_or(rest);
            let end = from.find(['.', '[']).unwrap_or(from.len());
            (part, rest) = from.split_at(end);
        }
        value = match value {
            Value::Object(map) => map.get(part)?,
            Value::Array(list) => element(list, part)?,
            _ => return None,
        };
    }
    Some(value)
}

fn element<'a>(list: &'a [Value], part: &str) -> Option<&'a Value> {
    let is = |value: &Value, key: &str| match value.get(key) {
        Some(Value::String(text)) => text == part,
        Some(Value::Number(number)) => number.to_string() == part,
        _ => false,
    };
    let named = NAMES.iter().find_map(|key| list.iter().find(|value| is(value, key)));
    named.or_else(|| list.get(part.parse::<usize>().ok()?))
}

#[cfg(test)]
mod tests;
