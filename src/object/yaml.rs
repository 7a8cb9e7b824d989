//! Decodes YAML and JSON to JSON values as Kubernetes tools written in Go do: octal integers, `yes` and `on`, merge keys and
//! duplicate keys mean the same here. A YAML 1.2 parser would change file modes, for example. Exceeding a limit is an error.

mod build;
mod indent;
mod scalar;

use crate::error::of_json;
pub(crate) use build::Budget;
use serde_json::Value;

/// Size of a stream, in bytes. The largest of a known release has 1.5 MB.
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// Nesting of a value. Less than the 128 levels of serde_json, so that the JSON of what was loaded can be read again.
pub(crate) const MAX_DEPTH: usize = 120;
/// Nodes in a stream, each of which takes up to 320 bytes of memory. Aliases count each time they are used. The largest stream
/// of a known release has 17,000.
pub(crate) const MAX_NODES: usize = 100_000;
/// Bytes of text in a stream. Aliases count each time they are used.
pub(crate) const MAX_TEXT: usize = 16 << 20;
/// A stream is JSON if its first character is an opening brace within this many bytes.
const JSON_LOOKAHEAD: usize = 1024;

/// A document that is neither empty nor `null`.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Line of its first character, from 1.
    pub line: usize,
    pub value: Value,
}

/// Why a stream cannot be decoded. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    #[error("it has {bytes} bytes, more than the limit of {MAX_BYTES}; split it")]
    TooLarge { bytes: usize },
    #[error("line {line}: not UTF-8 text")]
    NotText { line: usize },
    #[error("line {line}: only blanks or a comment may follow the document separator ---, not {found:?}")]
    Separator { line: usize, found: String },
    #[error("line {line}: {cause}")]
    Syntax { line: usize, cause: String },
    #[error("line {line}: neither JSON (line {json_line}: {json}) nor YAML ({yaml})")]
    Neither { line: usize, json_line: usize, json: String, yaml: Box<YamlError> },
    #[error("line {line}: the tag {tag} does not fit {text:?}; correct the value or drop the tag")]
    Tag { line: usize, tag: String, text: String },
    #[error("line {line}: {found} cannot be the key of a mapping; a key must be text, a number or a boolean")]
    Key { line: usize, found: &'static str },
    #[error("line {line}: << takes a mapping or a list of mappings")]
    Merge { line: usize },
    #[error("line {line}: {text} cannot be written as JSON; quote it if it is meant as text")]
    NotANumber { line: usize, text: String },
    #[error("line {line}: nested deeper than {MAX_DEPTH} levels")]
    TooDeep { line: usize },
    #[error("line {line}: more than {MAX_NODES} values or {MAX_TEXT} bytes of text once aliases are expanded")]
    TooMuch { line: usize },
    #[error("line {line}: the alias refers to a value that contains it or does not exist")]
    Alias { line: usize },
}

impl YamlError {
    /// Replaces every line number by that of the template from which the text was rendered.
    pub fn relocate(&mut self, source: &dyn Fn(usize) -> usize) {
        match self {
            YamlError::TooLarge { .. } => {}
            YamlError::Neither { line, json_line, yaml, .. } => {
                *line = source(*line);
                *json_line = source(*json_line);
                yaml.relocate(source);
            }
            YamlError::NotText { line }
            | YamlError::Separator { line, .. }
            | YamlError::Syntax { line, .. }
            | YamlError::Tag { line, .. }
            | YamlError::Key { line, .. }
            | YamlError::Merge { line }
            | YamlError::NotANumber { line, .. }
            | YamlError::TooDeep { line }
            | YamlError::TooMuch { line }
            | YamlError::Alias { line } => *line = source(*line),
        }
    }
}

/// All documents of a stream in order, or the first error. Never panics; the limits above bound its memory.
pub fn documents(bytes: &[u8]) -> Result<Vec<Document>, YamlError> {
    documents_within(bytes, &mut Budget::default())
}

/// Like [`documents`], for callers that need to know how much of the budget was spent.
pub(crate) fn documents_within(bytes: &[u8], budget: &mut Budget) -> Result<Vec<Document>, YamlError> {
    if bytes.len() > MAX_BYTES {
        return Err(YamlError::TooLarge { bytes: bytes.len() });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| YamlError::NotText { line: 1 + newlines(bytes.get(..e.valid_up_to()).unwrap_or_default()) })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let head = text.as_bytes().get(..JSON_LOOKAHEAD).unwrap_or(text.as_bytes());
    if head.trim_ascii_start().starts_with(b"{") { json_stream(text, budget) } else { yaml_stream(text, 1, budget) }
}

/// The one document of a part of a stream that begins at line `first_line` of it, at a separator or not; `None` if it is empty or
/// `null`. The limits above count for this document alone, but for [`MAX_BYTES`], which the caller has to bound.
pub(crate) fn document(part: &str, first_line: usize) -> Result<Option<Document>, YamlError> {
    Ok(yaml_stream(part, first_line, &mut Budget::default())?.pop())
}

/// Splits the text at lines that start with `---` and takes the first document of each part, as Kubernetes does.
fn yaml_stream(text: &str, first_line: usize, budget: &mut Budget) -> Result<Vec<Document>, YamlError> {
    let mut found = Vec::new();
    let mut part_start = 0;
    let mut part_line = first_line;
    let mut at = 0;
    for (number, line) in (first_line..).zip(text.split_inclusive('\n')) {
        let next = at + line.len();
        if let Some(rest) = line.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(YamlError::Separator { line: number, found: rest.chars().take(60).collect() });
            }
            found.extend(build::first_document(text.get(part_start..at).unwrap_or_default(), part_line, budget)?);
            part_start = next;
            part_line = number + 1;
        }
        at = next;
    }
    found.extend(build::first_document(text.get(part_start..).unwrap_or_default(), part_line, budget)?);
    Ok(found)
}

/// Decodes concatenated JSON objects. If an error comes before a second object was decoded, the rest is tried as YAML, since
/// YAML may begin with a brace as well.
fn json_stream(text: &str, budget: &mut Budget) -> Result<Vec<Document>, YamlError> {
    // One of these stands before every value but the outermost, so their number bounds the number of values before any is
    // decoded. Those inside text are counted as well, hence twice the limit, which no manifest comes near.
    let marks = text.bytes().filter(|b| matches!(b, b',' | b'[' | b'{' | b':')).count();
    if marks > 2 * MAX_NODES {
        return Err(YamlError::TooMuch { line: 1 });
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut found = Vec::new();
    let (mut offset, mut line) = (0, 1);
    let mut decoded = 0;
    loop {
        let rest = text.get(offset..).unwrap_or_default();
        let gap = rest.len() - rest.trim_ascii_start().len();
        line += newlines(rest.as_bytes().get(..gap).unwrap_or_default());
        match stream.next() {
            None => return Ok(found),
            Some(Ok(mut value)) => {
                round_trip_floats(&mut value);
                let end = stream.byte_offset();
                if !value.is_null() {
                    found.push(Document { line, value });
                }
                decoded += 1;
                line += newlines(text.as_bytes().get(offset + gap..end).unwrap_or_default());
                offset = end;
            }
            Some(Err(json)) if decoded > 1 => {
                return Err(YamlError::Syntax { line: json.line().max(line), cause: of_json(&json) });
            }
            Some(Err(json)) => {
                let rest = text.get(offset + gap..).unwrap_or_default();
                return match yaml_stream(rest, line, budget) {
                    Ok(more) => {
                        found.extend(more);
                        Ok(found)
                    }
                    Err(yaml) => Err(YamlError::Neither {
                        line,
                        json_line: json.line().max(line),
                        json: format!("{} in column {}", of_json(&json), json.column()),
                        yaml: Box::new(yaml),
                    }),
                };
            }
        }
    }
}

/// Replaces every float by what it becomes when it is written as JSON and read again.
fn round_trip_floats(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(round_trip_floats),
        Value::Object(map) => map.values_mut().for_each(round_trip_floats),
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64() {
                *value = scalar::round_trip(float).into();
            }
        }
        _ => {}
    }
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b == b'\n').count()
}

#[cfg(test)]
mod tests;
