//! Sets fields in a YAML text and keeps its layout, comments and order of keys.
//!
//! The text is edited at the positions that the parser reports and then decoded again. If the result is not the desired one,
//! because of anchors or an unforeseen layout, the whole document is written as JSON instead.

use crate::object::yaml;
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Value};
use std::ops::Range;

/// Sets fields, which are text or lists of text, in the map `under`, which is created if needed, and ends the text with a
/// newline. `None` if the text is not a single document for which `applies` is true, or if nothing changes.
pub(super) fn set(text: &str, applies: fn(&Value) -> bool, under: &str, fields: &[(&str, Value)]) -> Option<String> {
    let document = only(text).filter(applies)?;
    let desired = with(&document, under, fields);
    let edited = if desired == document {
        Some(text.to_owned())
    } else {
        tree(text).and_then(|root| edit(text, &root, under, fields))
    };
    let ended = edited.map(|edited| if edited.ends_with('\n') { edited } else { format!("{edited}\n") });
    let correct = ended.filter(|text| only(text).as_ref() == Some(&desired));
    let new = correct.unwrap_or_else(|| format!("{desired}\n"));
    (new != text).then_some(new)
}

/// The document, if there is exactly one.
fn only(text: &str) -> Option<Value> {
    let mut documents = yaml::documents(text.as_bytes()).ok()?;
    let document = documents.pop()?.value;
    documents.is_empty().then_some(document)
}

fn with(document: &Value, under: &str, fields: &[(&str, Value)]) -> Value {
    let mut desired = document.clone();
    if let Some(root) = desired.as_object_mut() {
        let map = root.entry(under).or_insert_with(|| Value::Object(Map::new()));
        if !map.is_object() {
            *map = Value::Object(Map::new());
        }
        for (name, value) in fields {
            if let Some(map) = map.as_object_mut() {
                map.insert((*name).to_owned(), value.clone());
            }
        }
    }
    desired
}

/// A value and its range in bytes. The end is computed here, since the parser includes whitespace and a comment after a
/// closing bracket or quote.
struct Node {
    range: Range<usize>,
    shape: Shape,
}

enum Shape {
    /// A scalar, an alias, or nothing.
    Text,
    FlowList,
    BlockList,
    FlowMap(Vec<Entry>),
    BlockMap(Vec<Entry>),
}

struct Entry {
    key: String,
    key_range: Range<usize>,
    value: Node,
}

/// The document as ranges of its text.
fn tree(text: &str) -> Option<Node> {
    let mut offsets: Vec<usize> = text.char_indices().map(|(offset, _)| offset).collect();
    offsets.push(text.len());
    let mut reader = Reader { text, offsets, events: Parser::new_from_str(text) };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (event, span) => return reader.node(event, span),
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    /// The byte offset of each character, and of the end.
    offsets: Vec<usize>,
    events: Parser<'t, StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<(Event<'t>, Span)> {
        self.events.next_event()?.ok()
    }

    fn range(&self, span: Span) -> Option<Range<usize>> {
        Some(*self.offsets.get(span.start.index())?..*self.offsets.get(span.end.index())?)
    }

    /// Recursion is bounded, since [`only`] has decoded the text within the limits of the decoder.
    fn node(&mut self, event: Event<'t>, span: Span) -> Option<Node> {
        let mut range = self.range(span)?;
        let shape = match event {
            Event::Scalar(_, style, ..) => {
                if matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted) {
                    range.end = self.closing_quote(&range)?;
                }
                Shape::Text
            }
            Event::Alias(_) => Shape::Text,
            Event::SequenceStart(..) => {
                let flow = self.text.get(range.clone())?.trim_end().ends_with('[');
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, span) => {
                            if flow {
                                range.end = self.range(span)?.start + 1;
                            }
                            break;
                        }
                        (event, span) => range.end = self.node(event, span)?.range.end,
                    }
                }
                if flow { Shape::FlowList } else { Shape::BlockList }
            }
            Event::MappingStart(..) => {
                let flow = self.text.get(range.clone())?.trim_end().ends_with('{');
                let entries = self.entries(flow, &mut range)?;
                if flow { Shape::FlowMap(entries) } else { Shape::BlockMap(entries) }
            }
            _ => return None,
        };
        Some(Node { range, shape })
    }

    fn entries(&mut self, flow: bool, range: &mut Range<usize>) -> Option<Vec<Entry>> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                if flow {
                    range.end = self.range(span)?.start + 1;
                }
                return Some(entries);
            }
            let key = if let Event::Scalar(text, ..) = &event { text.to_string() } else { String::new() };
            let key_range = self.node(event, span)?.range;
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            range.end = value.range.end.max(key_range.end);
            entries.push(Entry { key, key_range, value });
        }
    }

    fn closing_quote(&self, range: &Range<usize>) -> Option<usize> {
        let text = self.text.get(range.start..)?;
        let at = text.find(['"', '\''])?;
        let quote = text.get(at..)?.chars().next()?;
        let mut skip = false;
        let mut chars = text.char_indices().skip_while(|(offset, _)| *offset <= at).peekable();
        while let Some((offset, c)) = chars.next() {
            match c {
                _ if skip => skip = false,
                '\\' if quote == '"' => skip = true,
                '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => skip = true,
                c if c == quote => return Some(range.start + offset + 1),
                _ => {}
            }
        }
        None
    }
}

/// The style of new text.
#[derive(Clone, Copy)]
enum Style {
    /// Over several lines, its keys at this column.
    Block(usize),
    /// On one line.
    Flow,
    /// On one line, as the whole document, which may be JSON and then stays so.
    Json,
}

/// The new value of a key.
#[derive(Clone, Copy)]
enum New<'a> {
    Field(&'a Value),
    Map(&'a [(&'a str, Value)]),
}

impl New<'_> {
    /// The text after the colon.
    fn written(self, style: Style) -> String {
        match (self, style) {
            (New::Field(Value::Array(list)), Style::Block(column)) if !list.is_empty() => {
                let indent = " ".repeat(column);
                list.iter().map(|item| format!("\n{indent}- {}", word(item))).collect()
            }
            (New::Field(Value::Array(list)), Style::Flow) => {
                format!(" [{}]", list.iter().map(word).collect::<Vec<_>>().join(", "))
            }
            (New::Field(value @ Value::String(_)), Style::Block(_) | Style::Flow) => format!(" {}", word(value)),
            // JSON is valid YAML.
            (New::Field(value), _) => format!(" {value}"),
            (New::Map(fields), Style::Flow | Style::Json) => {
                let write = |(name, value): &(&str, Value)| style.entry(name, New::Field(value));
                format!(" {{{}}}", fields.iter().map(write).collect::<Vec<_>>().join(", "))
            }
            (New::Map(fields), Style::Block(column)) => {
                let (inner, indent) = (Style::Block(column + 2), " ".repeat(column + 2));
                let write =
                    |(name, value): &(&str, Value)| format!("\n{indent}{name}:{}", New::Field(value).written(inner));
                fields.iter().map(write).collect()
            }
        }
    }
}

impl Style {
    fn entry(self, key: &str, new: New) -> String {
        let quote = if matches!(self, Style::Json) { "\"" } else { "" };
        format!("{quote}{key}{quote}:{}", new.written(self))
    }
}

/// A range and its new text.
type Edit = (Range<usize>, String);

fn edit(text: &str, root: &Node, under: &str, fields: &[(&str, Value)]) -> Option<String> {
    let flow = if matches!(root.shape, Shape::FlowMap(_)) { Style::Json } else { Style::Flow };
    let mut edits = Vec::new();
    match root.entry(under) {
        None => edits.push(missing(text, root, &[(under, New::Map(fields))], flow)?),
        Some(entry) if entry.value.entries().is_none() => {
            edits.push(replaced(text, root, entry, New::Map(fields), flow)?);
        }
        Some(Entry { value: map, .. }) => {
            let mut absent = Vec::new();
            for (name, value) in fields {
                match map.entry(name) {
                    Some(field) => edits.push(replaced(text, map, field, New::Field(value), flow)?),
                    None => absent.push((*name, New::Field(value))),
                }
            }
            if !absent.is_empty() {
                edits.push(missing(text, map, &absent, flow)?);
            }
        }
    }
    // From the end, so that the ranges of the remaining edits stay valid.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut edited = text.to_owned();
    for (range, new) in edits {
        edited.get(range.clone())?;
        edited.replace_range(range, &new);
    }
    Some(edited)
}

impl Node {
    fn entries(&self) -> Option<&[Entry]> {
        match &self.shape {
            Shape::FlowMap(entries) | Shape::BlockMap(entries) => Some(entries),
            _ => None,
        }
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|entry| entry.key == key)
    }

    /// The style of a map's entries; `flow` if they are on one line.
    fn style(&self, text: &str, flow: Style) -> Option<Style> {
        let Shape::BlockMap(entries) = &self.shape else { return Some(flow) };
        let start = entries.first()?.key_range.start;
        let line = text.get(..start)?.rfind('\n').map_or(0, |newline| newline + 1);
        Some(Style::Block(text.get(line..start)?.chars().count()))
    }
}

/// A new value for an entry of `map`.
fn replaced(text: &str, map: &Node, entry: &Entry, new: New, flow: Style) -> Option<Edit> {
    let colon = entry.key_range.end + text.get(entry.key_range.end..)?.find(':')? + 1;
    let style = match entry.value.shape {
        // A list on one line stays on one line.
        Shape::FlowList => flow,
        _ => map.style(text, flow)?,
    };
    Some((colon..entry.value.range.end.max(colon), new.written(style)))
}

/// New entries at the end of `map`.
fn missing(text: &str, map: &Node, new: &[(&str, New)], flow: Style) -> Option<Edit> {
    let entries = map.entries()?;
    let end = map.range.end;
    let style = map.style(text, flow)?;
    let Style::Block(column) = style else {
        let last = entries.last().map(|last| last.value.range.end.max(last.key_range.end));
        let at = last.or(end.checked_sub(1))?;
        let separator = if entries.is_empty() { "" } else { ", " };
        let written: Vec<_> = new.iter().map(|(key, new)| style.entry(key, *new)).collect();
        return Some((at..at, format!("{separator}{}", written.join(", "))));
    };
    let indent = " ".repeat(column);
    let written: Vec<_> = new.iter().map(|(key, new)| format!("{indent}{key}:{}", new.written(style))).collect();
    let written = written.join("\n");
    // The range of a block scalar ends at the start of the next line.
    let at = match text.get(end..)?.find('\n') {
        _ if text.get(..end)?.ends_with('\n') => end,
        Some(newline) => end + newline + 1,
        None => return Some((text.len()..text.len(), format!("\n{written}"))),
    };
    Some((at..at, format!("{written}\n")))
}

/// The value without quotes if it cannot be read as anything but text.
fn word(value: &Value) -> String {
    let plain = |text: &&str| {
        let name = text.starts_with(|c: char| c.is_ascii_uppercase()) && (text.len() > 5 || text.contains('_'));
        name && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    value.as_str().filter(plain).map_or_else(|| value.to_string(), str::to_owned)
}
