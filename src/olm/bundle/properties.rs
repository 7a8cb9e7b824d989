//! The properties of a bundle: what a resolver compares, as `{type, value}`. Some are derived from the ClusterServiceVersion
//! and the definitions, others are written by the author.

use super::csv::Csv;
use super::finding::{Check, Finding};
use super::metadata::{self, Declared};
use super::{Bundle, Object};
use crate::object::definition::defined_group;
use crate::olm::names::property::{
    CONSTRAINT, CONSTRAINT_SCOPE, GVK, GVK_REQUIRED, LABEL, LABEL_REQUIRED, METADATA, OBJECT, PACKAGE, PACKAGE_REQUIRED,
};
use crate::olm::resolve::constraint::scope::Scope;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Annotation of a ClusterServiceVersion: a JSON list of properties.
pub(crate) const ANNOTATION: &str = "olm.properties";

/// Keys in values are sorted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Property {
    #[serde(rename = "type")]
    pub kind: String,
    pub value: Value,
}

/// A property that the author wrote, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub property: Property,
    pub file: Arc<str>,
    pub line: usize,
    /// Such as `dependencies[0]`.
    pub place: String,
}

impl Written {
    fn of(declared: &Declared, property: Property) -> Self {
        let Declared { file, line, place, .. } = declared;
        Written { property, file: file.clone(), line: *line, place: place.clone() }
    }
}

impl Property {
    pub(crate) fn new(kind: &str, value: Value) -> Self {
        Property { kind: kind.to_owned(), value }
    }
}

impl Bundle {
    /// All properties but those that hold whole manifests, without duplicates and by type, then by their JSON.
    pub(crate) fn all_properties(&self) -> Vec<Property> {
        let mut all = self.derived();
        all.extend(self.dependencies.iter().chain(&self.properties).map(|it| it.property.clone()));
        let mut keyed: Vec<(String, String, Property)> =
            all.into_iter().map(|it| (it.kind.clone(), it.value.to_string(), it)).collect();
        keyed.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        keyed.dedup_by(|a, b| (&a.0, &a.1) == (&b.0, &b.1));
        keyed.into_iter().map(|(.., property)| property).collect()
    }

    /// What follows from the ClusterServiceVersion and the definitions. A package that the author names counts instead.
    fn derived(&self) -> Vec<Property> {
        let spec = &self.csv.spec;
        let mut found = Vec::new();
        if self.properties.iter().all(|it| it.property.kind != PACKAGE) {
            let mut value = json!({"packageName": self.annotations.package(), "version": spec.version});
            if let (false, Some(map)) = (spec.release.is_empty(), value.as_object_mut()) {
                map.insert("release".to_owned(), spec.release.clone().into());
            }
            found.push(Property::new(PACKAGE, value));
        }
        let provided = self.provided();
        found.extend(provided.iter().map(|(group, version, kind)| gvk(GVK, group, version, kind)));
        let definitions = spec.definitions.required.iter();
        found.extend(
            definitions.filter_map(|it| Some(gvk(GVK_REQUIRED, defined_group(&it.name)?, &it.version, &it.kind))),
        );
        let services = spec.api_services.required.iter();
        found.extend(services.map(|it| gvk(GVK_REQUIRED, &it.group, &it.version, &it.kind)));
        found
    }

    /// Group, version and kind of each API: the versions that the definitions serve, owned ones whose definition is not in the
    /// bundle, and owned APIServices.
    fn provided(&self) -> BTreeSet<(&str, &str, &str)> {
        let spec = &self.csv.spec;
        let mut found = BTreeSet::new();
        for it in &self.definitions {
            found.extend(it.served().map(|version| (it.group.as_str(), version, it.kind.as_str())));
        }
        for it in &spec.definitions.owned {
            let defined = self.definitions.iter().any(|definition| definition.name == it.name);
            found.extend(defined_group(&it.name).filter(|_| !defined).map(|group| (group, &*it.version, &*it.kind)));
        }
        found.extend(spec.api_services.owned.iter().map(|it| (&*it.group, &*it.version, &*it.kind)));
        found
    }
}

fn gvk(property: &str, group: &str, version: &str, kind: &str) -> Property {
    Property::new(property, json!({"group": group, "version": version, "kind": kind}))
}

/// Dependencies as the properties that they are in a catalog. One that is of no known type or lacks a part is an error in
/// `findings`.
pub(super) fn of_dependencies(declared: &[Declared], findings: &mut Vec<Finding>) -> Vec<Written> {
    let mut found = Vec::new();
    for it in declared {
        let (value, at) = (unquoted(it, findings), (&*it.file, it.line));
        match dependency(&it.kind, &value) {
            Ok(property) => found.push(Written::of(it, property)),
            Err(cause) => findings.push(Finding::error(Check::Dependency, at, &it.place, cause)),
        }
    }
    found
}

fn dependency(kind: &str, value: &Value) -> Result<Property, String> {
    match kind {
        GVK => {
            let [group, version, kind] = texts(value, ["group", "version", "kind"])?;
            Ok(gvk(GVK_REQUIRED, group, version, kind))
        }
        PACKAGE => {
            let [name, range] = texts(value, ["packageName", "version"])?;
            Ok(Property::new(PACKAGE_REQUIRED, json!({"packageName": name, "versionRange": range})))
        }
        LABEL => {
            let [label] = texts(value, ["label"])?;
            Ok(Property::new(LABEL_REQUIRED, json!({"label": label})))
        }
        CONSTRAINT if value.is_object() => Ok(Property::new(CONSTRAINT, value.clone())),
        CONSTRAINT => Err("the constraint must be a mapping, such as {failureMessage, all: {constraints}}".to_owned()),
        other => Err(format!(
            "{other:?} is no type of a dependency: there are {GVK}, {PACKAGE}, {LABEL} and {CONSTRAINT}. What only describes the \
             bundle belongs into metadata/properties.yaml"
        )),
    }
}

/// Properties as the author wrote them. One of a type that resolvers read, but without its parts, is an error in `findings`.
pub(super) fn of_properties(declared: &[Declared], findings: &mut Vec<Finding>) -> Vec<Written> {
    let mut found = Vec::new();
    for it in declared {
        let value = if known(&it.kind) { unquoted(it, findings) } else { it.value.clone() };
        match shape(&it.kind, &value) {
            Ok(()) => found.push(Written::of(it, Property { kind: it.kind.clone(), value })),
            Err(cause) => findings.push(Finding::error(Check::Property, (&it.file, it.line), &it.place, cause)),
        }
    }
    found
}

/// Those in the annotation of a ClusterServiceVersion.
pub(super) fn of_csv(csv: &Csv, object: &Object, findings: &mut Vec<Finding>) -> Vec<Written> {
    let Some(json) = csv.metadata.annotations.get(ANNOTATION) else { return Vec::new() };
    let (at, place) = ((&*object.file, object.line), format!("metadata.annotations.{ANNOTATION}"));
    match serde_json::from_str::<Vec<Value>>(json) {
        Ok(list) => {
            let declared = metadata::declared(at, &place, list, findings);
            of_properties(&declared, findings)
        }
        Err(error) => {
            let message = format!("it is no JSON list of {{type, value}}: {error}; correct it");
            findings.push(Finding::error(Check::Property, at, &place, message));
            Vec::new()
        }
    }
}

/// Whether resolvers read the value of this type as an object.
fn known(kind: &str) -> bool {
    matches!(kind, PACKAGE | PACKAGE_REQUIRED | GVK | GVK_REQUIRED | LABEL | LABEL_REQUIRED | CONSTRAINT)
}

/// Whether the value has what the type needs. Types that nobody knows have any value.
fn shape(kind: &str, value: &Value) -> Result<(), String> {
    match kind {
        PACKAGE => texts(value, ["packageName", "version"]).map(drop),
        PACKAGE_REQUIRED => texts(value, ["packageName", "versionRange"]).map(drop),
        GVK | GVK_REQUIRED => texts(value, ["group", "version", "kind"]).map(drop),
        LABEL | LABEL_REQUIRED => texts(value, ["label"]).map(drop),
        CONSTRAINT if !value.is_object() => Err("the constraint must be a mapping".to_owned()),
        CONSTRAINT_SCOPE => Scope::parse(value).map(drop),
        METADATA | OBJECT => Err(format!("{kind} is made of the manifests: remove the property")),
        _ => Ok(()),
    }
}

/// The texts under keys of a mapping, none of which may be missing or empty.
fn texts<'a, const N: usize>(value: &'a Value, keys: [&str; N]) -> Result<[&'a str; N], String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match keys.iter().find(|key| text(key).is_none()) {
        None => Ok(keys.map(|key| text(key).unwrap_or_default())),
        Some(key) => Err(format!("value.{key} must be set, as a text: write {{{}}}", keys.join(", "))),
    }
}

/// The value, or what is in it if it is JSON or YAML within a text.
fn unquoted(declared: &Declared, findings: &mut Vec<Finding>) -> Value {
    let Value::String(text) = &declared.value else { return declared.value.clone() };
    let inner = crate::object::yaml::documents(text.as_bytes()).ok().and_then(|mut documents| documents.pop());
    match inner.map(|document| document.value).filter(Value::is_object) {
        None => declared.value.clone(),
        Some(value) => {
            let message = "the value is a mapping within a text: write it as a mapping".to_owned();
            let place = (&*declared.file, declared.line);
            findings.push(Finding::warning(Check::MetadataFile, place, &declared.place, message));
            value
        }
    }
}
