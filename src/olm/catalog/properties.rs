//! Properties of bundles, packages and channels: a type and any JSON. Those whose meaning is known must have its shape.

use super::fault::{Reason, short};
use super::fields::{FieldError, Fields, compact};
use crate::object::yaml;
use crate::olm::names::property::{GVK, GVK_REQUIRED, METADATA, OBJECT, PACKAGE, PACKAGE_REQUIRED};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A property that was located.
#[derive(Debug)]
pub(super) struct Property<'a> {
    pub kind: Cow<'a, str>,
    pub value: &'a RawValue,
}

/// Identity of a bundle, from its property [`PACKAGE`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Identity<'a> {
    pub package: Cow<'a, str>,
    pub version: Cow<'a, str>,
    /// Tells rebuilds of one version apart. Empty if there is none.
    pub release: Cow<'a, str>,
}

impl<'a> Property<'a> {
    /// The properties of a blob. What is none is added to the reasons.
    pub(super) fn all(fields: &Fields<'a>, reasons: &mut Vec<Reason>) -> Vec<Property<'a>> {
        let mut read = || -> Result<_, Reason> {
            let list = fields.list("properties")?;
            let read = list.iter().enumerate().map(|(index, value)| Property::read(index, value));
            Ok(read.filter_map(|property| property.map_err(|reason| reasons.push(reason)).ok()).collect())
        };
        match read() {
            Ok(properties) => properties,
            Err(reason) => {
                reasons.push(reason);
                Vec::new()
            }
        }
    }

    fn read(index: usize, value: &'a RawValue) -> Result<Self, Reason> {
        let fields = Fields::of(value, &format!("properties[{index}]"))?;
        let kind = fields.text("type").map_err(|error| {
            let field = format!("properties[{index}].{}", error.field);
            FieldError { field, ..error }
        })?;
        let value = fields.raw("value").ok_or(match fields.raw("property") {
            Some(_) => Reason::NestedProperty { index },
            None => Reason::PropertyWithoutValue { index },
        })?;
        let property = Property { kind, value };
        property.check().map_err(|error| within(index, &property.kind, &error))?;
        Ok(property)
    }

    /// Whether the value has the shape of its type.
    fn check(&self) -> Result<(), FieldError> {
        let texts: &[&str] = match self.kind.as_ref() {
            PACKAGE => &["packageName", "version", "release"],
            GVK | GVK_REQUIRED => &["group", "version", "kind"],
            PACKAGE_REQUIRED => &["packageName", "versionRange"],
            METADATA => &[],
            OBJECT => &["data"],
            _ => return Ok(()),
        };
        let fields = self.fields()?;
        for name in texts {
            let text = fields.text(name)?;
            if self.kind == OBJECT {
                let object = base64(&text).and_then(|bytes| check_object(&bytes));
                object.map_err(|cause| FieldError { field: (*name).to_owned(), cause })?;
            }
        }
        Ok(())
    }

    /// Members of the value. `null` has none.
    pub(super) fn fields(&self) -> Result<Fields<'a>, FieldError> {
        if self.value.get() == "null" { Ok(Fields::default()) } else { Fields::of(self.value, "value") }
    }

    pub(super) fn identity(&self) -> Identity<'a> {
        // Their types are known to be right.
        let fields = self.fields().unwrap_or_default();
        let text = |name| fields.text(name).unwrap_or_default();
        Identity { package: text("packageName"), version: text("version"), release: text("release") }
    }

    /// The value without blanks between its parts.
    pub(super) fn compact(&self) -> Cow<'a, str> {
        let json = self.value.get();
        if json.bytes().any(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
            let mut out = String::with_capacity(json.len());
            compact(json, &mut out);
            Cow::Owned(out)
        } else {
            Cow::Borrowed(json)
        }
    }
}

fn within(index: usize, kind: &str, error: &FieldError) -> Reason {
    Reason::Property { index, kind: short(kind), cause: error.to_string() }
}

/// Decodes base64 as Go does, which passes over ends of lines.
pub(super) fn base64(text: &str) -> Result<Vec<u8>, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let lines = text.bytes().any(|byte| matches!(byte, b'\n' | b'\r'));
    let text = if lines { Cow::Owned(text.replace(['\n', '\r'], "")) } else { Cow::Borrowed(text) };
    STANDARD.decode(text.as_bytes()).map_err(|error| format!("it is not base64: {error}"))
}

/// Whether the bytes are a manifest, in JSON or YAML.
fn check_object(bytes: &[u8]) -> Result<(), String> {
    let json = serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    let yaml = || yaml::documents(bytes).map(drop).map_err(|error| format!("it is no manifest: {error}"));
    if json { Ok(()) } else { yaml() }
}
