//! Blobs as they are written: members in one order, as JSON or YAML, and blobs of a catalog in one order. The same catalog gives the
//! same bytes, in whatever files and forms it was.

use crate::olm::names::schema::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Value};

/// Members of blobs of known schemas, and of what is in them. Others follow by name.
const MEMBERS: &[&str] = &["schema", "name", "package", "image", "defaultChannel", "icon", "description", "entries"];
const ENTRY: &[&str] = &["name", "replaces", "skips", "skipRange", "reference", "message"];
const REFERENCE: &[&str] = &["schema", "name"];
const RELATED_IMAGE: &[&str] = &["name", "image"];

/// How blobs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
}

/// A text is no blob.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("the blob cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the blob cannot be written as YAML: {0}")]
    Yaml(#[from] serde_yaml::Error),
}

/// What sorts blobs: package by package, in each of them the package, its channels, bundles, what else there is, and deprecations; at
/// the end what belongs to no package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    of_none: bool,
    package: String,
    kind: u8,
    name: String,
}

impl Rank {
    pub(crate) fn of(schema: &str, package: &str, name: &str) -> Self {
        let (kind, name) = match schema {
            PACKAGE => (0, name),
            CHANNEL => (1, name),
            BUNDLE => (2, name),
            DEPRECATIONS => (4, ""),
            other => (3, other),
        };
        Rank { of_none: package.is_empty(), package: package.to_owned(), kind, name: name.to_owned() }
    }
}

/// The blob with a newline at its end; YAML with a separator before it.
pub(crate) fn written(json: &str, syntax: Syntax) -> Result<String, WriteError> {
    text(&serde_json::from_str(json)?, syntax)
}

/// The same of a blob that is decoded.
pub(crate) fn text(blob: &Map<String, Value>, syntax: Syntax) -> Result<String, WriteError> {
    let known = blob.iter().any(|(key, value)| {
        key.eq_ignore_ascii_case("schema")
            && [PACKAGE, CHANNEL, BUNDLE, DEPRECATIONS].iter().any(|schema| value == *schema)
    });
    let blob = Ordered { members: blob, order: if known { MEMBERS } else { &[] } };
    match syntax {
        Syntax::Json => {
            let mut out = Vec::new();
            let formatter = PrettyFormatter::with_indent(b"    ");
            blob.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))?;
            out.push(b'\n');
            Ok(String::from_utf8_lossy(&out).into_owned())
        }
        Syntax::Yaml => Ok(format!("---\n{}", serde_yaml::to_string(&blob)?)),
    }
}

/// An object whose members have an order. Names are known in any case and written as they are spelled there.
struct Ordered<'a> {
    members: &'a Map<String, Value>,
    /// If it is empty, nothing is known of the members.
    order: &'static [&'static str],
}

/// A list of objects whose members have an order.
struct List<'a>(&'a [Value], &'static [&'static str]);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let place = |key: &str| self.order.iter().position(|known| known.eq_ignore_ascii_case(key));
        let mut members: Vec<(usize, &str, &Value)> = Vec::with_capacity(self.members.len());
        for (key, value) in self.members {
            let place = place(key);
            let name = place.and_then(|place| self.order.get(place)).copied().unwrap_or(key);
            members.push((place.unwrap_or(usize::MAX), name, value));
        }
        members.sort_by_key(|(place, name, _)| (*place, *name));
        let mut map = to.serialize_map(Some(members.len()))?;
        for (_, name, value) in members {
            match (name, value) {
                _ if self.order.is_empty() => map.serialize_entry(name, value)?,
                ("entries", Value::Array(list)) => map.serialize_entry(name, &List(list, ENTRY))?,
                ("relatedImages", Value::Array(list)) => map.serialize_entry(name, &List(list, RELATED_IMAGE))?,
                ("reference", Value::Object(members)) => {
                    map.serialize_entry(name, &Ordered { members, order: REFERENCE })?;
                }
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        for item in self.0 {
            match item {
                Value::Object(members) => list.serialize_element(&Ordered { members, order: self.1 })?,
                other => list.serialize_element(other)?,
            }
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_one_order_in_blobs_and_in_their_entries() {
        let json = r#"{"x": 1, "entries": [{"skips": ["a.v0"], "name": "a.v1", "replaces": "a"}], "Package": "a", "name": "b",
            "schema": "olm.channel"}"#;
        let expected = "{\n    \"schema\": \"olm.channel\",\n    \"name\": \"b\",\n    \"package\": \"a\",\n    \"entries\": [\n        \
            {\n            \"name\": \"a.v1\",\n            \"replaces\": \"a\",\n            \"skips\": [\n                \"a.v0\"\n            \
            ]\n        }\n    ],\n    \"x\": 1\n}\n";
        assert_eq!(written(json, Syntax::Json).unwrap(), expected);
        let yaml = "---\nschema: olm.channel\nname: b\npackage: a\nentries:\n- name: a.v1\n  replaces: a\n  skips:\n  - a.v0\nx: 1\n";
        assert_eq!(written(json, Syntax::Yaml).unwrap(), yaml);
    }

    #[test]
    fn blob_of_an_unknown_schema_keeps_the_spelling_of_its_members() {
        let json = r#"{"schema": "x", "Name": "b", "entries": [{"b": 1, "a": 2}]}"#;
        let text = written(json, Syntax::Yaml).unwrap();
        assert_eq!(text, "---\nName: b\nentries:\n- a: 2\n  b: 1\nschema: x\n");
    }

    #[test]
    fn blobs_are_sorted_by_package_then_by_what_they_are() {
        let of = |text: &str| match text.split(' ').collect::<Vec<_>>()[..] {
            [schema, package, name] => Rank::of(schema, package.trim_matches('-'), name),
            _ => panic!("{text}"),
        };
        let sorted = [
            "olm.package a a",
            "olm.channel a alpha",
            "olm.channel a beta",
            "olm.bundle a a.v1",
            "olm.bundle a a.v2",
            "io.example a x",
            "olm.deprecations a -",
            "olm.package b b",
            "io.example - x",
        ];
        assert!(sorted.map(of).is_sorted_by(|one, next| one < next));
    }
}
