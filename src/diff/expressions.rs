//! Which API server takes the CEL expressions of a manifest. A server refuses a new expression with a function that the
//! minor version before its own did not have, so that it can be rolled back; so a function that came with Kubernetes 1.N can
//! be used from 1.N+1 on.

use serde_json::Value;
use std::collections::BTreeMap;

/// The minor version of Kubernetes 1.x from which on new expressions may use a function, as global function or macro of
/// that name, as method, or as a namespace before a dot. What 1.30 takes is not in the table.
const FUNCTIONS: [(u64, Place, &[&str]); 7] = [
    (31, Place::Global, &["ip", "isIP", "cidr", "isCIDR"]),
    (32, Place::Namespace, &["format"]),
    (32, Place::Method, &["fieldSelector", "labelSelector"]),
    (33, Place::Method, &["existsOne", "transformList", "transformMap", "transformMapEntry"]),
    (34, Place::Global, &["semver", "isSemver"]),
    (35, Place::Namespace, &["lists"]),
    (35, Place::Method, &["distinct", "flatten", "reverse", "slice", "sort", "sortBy"]),
];
/// Comprehensions that take two variables, and so three arguments, from this minor version on.
const TWO_VARIABLES: (u64, [&str; 3]) = (33, ["all", "exists", "exists_one"]);

/// `selectableFields` of a version of a CustomResourceDefinition; a server before ignores them.
pub(crate) const SELECTABLE_FIELDS: u64 = 31;

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Global,
    Method,
    Namespace,
}

/// The functions in an object's expressions that need a server of a minor version after `server`, and which.
pub(crate) fn too_new(object: &Value, server: u64) -> BTreeMap<String, u64> {
    let needed = expressions(object).into_iter().flat_map(functions);
    needed.filter(|(_, minor)| *minor > server).collect()
}

/// Whether the object defines selectable fields.
pub(crate) fn has_selectable_fields(object: &Value) -> bool {
    let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    kind(object) == "CustomResourceDefinition"
        && versions.filter_map(|version| version.get("selectableFields")?.as_array()).any(|fields| !fields.is_empty())
}

fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// All CEL expressions of a definition or an admission object.
fn expressions(object: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    match kind(object) {
        "CustomResourceDefinition" => collect(object, &["rule", "messageExpression"], false, &mut found),
        "ValidatingAdmissionPolicy"
        | "MutatingAdmissionPolicy"
        | "ValidatingWebhookConfiguration"
        | "MutatingWebhookConfiguration" => {
            collect(object, &["expression", "messageExpression", "valueExpression"], true, &mut found);
        }
        _ => {}
    }
    found
}

/// In a schema the names of properties may be anything, so there only members of `x-kubernetes-validations` count.
fn collect<'a>(value: &'a Value, names: &[&str], counts: bool, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, names, counts, found)),
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if counts && names.contains(&name.as_str()) => found.push(text),
                    _ => collect(member, names, counts || name == "x-kubernetes-validations", found),
                }
            }
        }
        _ => {}
    }
}

/// The functions of an expression that are in the table, as one would write them.
fn functions(expression: &str) -> Vec<(String, u64)> {
    let tokens = tokens(expression);
    let token = |position: usize| tokens.get(position).copied().unwrap_or_default();
    let mut found = Vec::new();
    for (position, name) in tokens.iter().enumerate() {
        let after_dot = position.checked_sub(1).is_some_and(|before| token(before) == ".");
        let place = match (after_dot, token(position + 1)) {
            (false, "(") => Place::Global,
            (true, "(") => Place::Method,
            (false, ".") => Place::Namespace,
            _ => continue,
        };
        let entry = FUNCTIONS.iter().find(|(_, of, names)| *of == place && names.contains(name));
        if let Some((minor, ..)) = entry {
            let method = if place == Place::Namespace { format!(".{}", token(position + 2)) } else { String::new() };
            found.push((format!("{name}{method}"), *minor));
        }
        let (minor, comprehensions) = TWO_VARIABLES;
        if place == Place::Method && comprehensions.contains(name) && arguments(&tokens, position + 1) == 3 {
            found.push((format!("{name} with two variables"), minor));
        }
    }
    found
}

/// The number of arguments in the parentheses that open at this position.
fn arguments(tokens: &[&str], open: usize) -> usize {
    let (mut depth, mut commas) = (0, 0);
    for token in tokens.iter().skip(open) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 1 => break,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 1 => commas += 1,
            _ => {}
        }
    }
    commas + 1
}

/// Names and single characters; of a string literal only its opening quote, of a comment nothing.
fn tokens(expression: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '"' | '\'' => literal(rest, tokens.last().is_some_and(|before: &&str| is_raw(before))),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, next) = rest.split_at_checked(length).unwrap_or((rest, ""));
        match first {
            '"' | '\'' => tokens.push("\""),
            '/' if length > 1 => {}
            _ => tokens.push(token),
        }
        rest = next.trim_start();
    }
    tokens
}

/// A prefix after which a backslash in the literal has no meaning.
fn is_raw(prefix: &str) -> bool {
    matches!(prefix, "r" | "R" | "br" | "rb" | "bR" | "Rb" | "Br" | "rB" | "BR" | "RB")
}

/// The length of the string literal that the text begins with.
fn literal(text: &str, raw: bool) -> usize {
    let one = text.get(..1).unwrap_or_default();
    let three = one.repeat(3);
    let quotes = if text.starts_with(&three) { three.as_str() } else { one };
    let mut at = quotes.len();
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(quotes) {
            return at + quotes.len();
        }
        let mut characters = rest.chars();
        let first = characters.next().map_or(1, char::len_utf8);
        let escaped = if rest.starts_with('\\') && !raw { characters.next().map_or(0, char::len_utf8) } else { 0 };
        at += first + escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests;
