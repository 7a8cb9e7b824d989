//! Documents decoded: what each of them says, or why nobody can tell. Takes most of the time that a catalog takes, and needs nothing
//! but the document, so several threads may do it.

use super::blobs::{Document, Form, MAX_DEPTH};
use super::fault::Reason;
use super::record::{Content, Record};
use crate::error::of_json;
use crate::object::yaml::{self, YamlError};
use serde_json::Value;

/// Size of a YAML document, in bytes. It is in memory three times: as text, as values and as JSON.
const MAX_YAML: usize = 8 << 20;
/// A larger text is not kept for the next document.
const KEPT: usize = 1 << 20;

/// What a document says.
#[derive(Debug)]
pub struct Decoded<'a> {
    /// Where it begins, from 1.
    pub(super) line: usize,
    /// `None` if it is empty.
    pub(super) record: Result<Option<Record<'a>>, Reason>,
}

/// What a blob says of itself, and all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blob<'a> {
    pub schema: &'a str,
    /// Of an `olm.package` its name. Empty if there is none.
    pub package: &'a str,
    pub name: &'a str,
    pub json: &'a str,
}

impl Decoded<'_> {
    /// The blob; `None` if the document is empty. An error says why nobody knows what it is.
    pub(crate) fn blob(&self) -> Result<Option<Blob<'_>>, &Reason> {
        let record = match &self.record {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            Err(reason) => return Err(reason),
        };
        match record.reasons.first() {
            Some(reason) if matches!(record.content, Content::None) => Err(reason),
            _ => {
                let Record { schema, package, name, json, .. } = record;
                Ok(Some(Blob { schema, package, name, json }))
            }
        }
    }
}

impl<'a> Document<'a> {
    /// Decodes the document. `json` holds what was YAML.
    pub fn decode(self, json: &'a mut Vec<u8>) -> Decoded<'a> {
        json.clear();
        json.shrink_to(KEPT);
        Decoded { line: self.line, record: self.record(json) }
    }

    fn record(self, json: &'a mut Vec<u8>) -> Result<Option<Record<'a>>, Reason> {
        let text = std::str::from_utf8(self.bytes).map_err(|error| {
            let before = self.bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = self.line + memchr::memchr_iter(b'\n', before).count();
            Reason::Yaml { cause: YamlError::NotText { line } }
        })?;
        let not_json = match self.form {
            Form::TooDeep => return Err(Reason::TooDeep { limit: MAX_DEPTH }),
            Form::Yaml => None,
            Form::Json => match Record::parse(text) {
                Ok(record) => return Ok(Some(record)),
                Err(error) => Some(error),
            },
        };
        if text.len() > MAX_YAML {
            return Err(Reason::TooLarge { limit: MAX_YAML });
        }
        let value = yaml::document(text, self.line).map_err(|cause| match not_json {
            None => Reason::Yaml { cause },
            Some(error) => {
                let line = self.line + error.line().saturating_sub(1);
                Reason::Neither { json: format!("line {line}: {}", of_json(&error)), yaml: Box::new(cause) }
            }
        })?;
        let found = match value.map(|document| document.value) {
            None => return Ok(None),
            Some(value @ Value::Object(_)) => return self.of_value(value, json).map(Some),
            Some(Value::Array(_)) => "a list",
            Some(Value::String(_)) => "a text",
            Some(Value::Number(_)) => "a number",
            Some(Value::Bool(_)) => "a boolean",
            Some(Value::Null) => "nothing",
        };
        Err(Reason::NotAnObject { found })
    }

    fn of_value(self, value: Value, json: &'a mut Vec<u8>) -> Result<Record<'a>, Reason> {
        let written = serde_json::to_writer(&mut *json, &value);
        // What is read from now on is the JSON.
        drop(value);
        let record = written.and_then(|()| Record::parse(std::str::from_utf8(json).unwrap_or_default()));
        record.map_err(|error| Reason::Yaml { cause: YamlError::Syntax { line: self.line, cause: of_json(&error) } })
    }
}

#[cfg(test)]
mod tests;
