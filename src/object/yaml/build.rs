//! Builds one JSON value from parser events. Resolves merge keys, duplicate keys and aliases within a budget.

use super::scalar::{self, Resolved};
use super::{Document, MAX_DEPTH, MAX_NODES, MAX_TEXT, YamlError, indent};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The nodes and bytes of text that a stream may still have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    nodes: usize,
    text: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { nodes: MAX_NODES, text: MAX_TEXT }
    }
}

impl Budget {
    /// Values and bytes of text so far. Aliases count each time they were used.
    pub(crate) fn spent(&self) -> usize {
        (MAX_NODES - self.nodes) + (MAX_TEXT - self.text)
    }

    fn spend(&mut self, nodes: usize, text: usize, line: usize) -> Result<(), YamlError> {
        match (self.nodes.checked_sub(nodes), self.text.checked_sub(text)) {
            (Some(nodes), Some(text)) => {
                self.nodes = nodes;
                self.text = text;
                Ok(())
            }
            _ => Err(YamlError::TooMuch { line }),
        }
    }
}

/// A value and the budget that a copy of it needs.
#[derive(Clone, Debug)]
struct Node {
    value: Value,
    nodes: usize,
    text: usize,
    /// 0 for a scalar.
    height: usize,
}

impl Node {
    fn new(value: Value, text: usize) -> Self {
        Node { value, nodes: 1, text, height: 0 }
    }

    fn add_child(&mut self, child: &Node) {
        self.nodes = self.nodes.saturating_add(child.nodes);
        self.text = self.text.saturating_add(child.text);
        self.height = self.height.max(child.height + 1);
    }
}

/// The first document of `part`, which begins at line `first_line` of the stream; `None` if it is empty or `null`.
pub(super) fn first_document(
    part: &str,
    first_line: usize,
    budget: &mut Budget,
) -> Result<Option<Document>, YamlError> {
    // Go's reader ends the last line with a newline as well.
    let ended = if part.ends_with('\n') { Cow::Borrowed(part) } else { Cow::Owned(format!("{part}\n")) };
    let before = *budget;
    let (found, error) = of_text(&ended, first_line, budget);
    match error.and_then(|error| indent::indented(&ended, &error)) {
        None => found,
        Some(text) => {
            *budget = before;
            of_text(&text, first_line, budget).0
        }
    }
}

/// The first document, and what the parser found wrong.
fn of_text(
    text: &str,
    first_line: usize,
    budget: &mut Budget,
) -> (Result<Option<Document>, YamlError>, Option<ScanError>) {
    let mut builder = Builder {
        events: Parser::new_from_str(text),
        budget,
        anchors: BTreeMap::new(),
        before: first_line.saturating_sub(1),
        error: None,
    };
    (builder.document(), builder.error)
}

struct Builder<'text, 'budget> {
    events: Parser<'text, StrInput<'text>>,
    budget: &'budget mut Budget,
    /// Only complete values, so that an alias inside its own anchor finds nothing.
    anchors: BTreeMap<usize, Node>,
    /// Number of lines of the stream before the part.
    before: usize,
    /// What the parser ended with.
    error: Option<ScanError>,
}

impl<'text> Builder<'text, '_> {
    fn document(&mut self) -> Result<Option<Document>, YamlError> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(None),
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                event => {
                    let line = self.line(span);
                    let value = self.node(event, span, 0)?.value;
                    // Content after the value belongs to the same document, unless the document was ended.
                    match self.next()? {
                        (Event::DocumentEnd | Event::StreamEnd, _) => {}
                        (_, span) => {
                            let cause = "there is content after the end of the document's value".to_owned();
                            return Err(YamlError::Syntax { line: self.line(span), cause });
                        }
                    }
                    return Ok((!value.is_null()).then_some(Document { line, value }));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'text>, Span), YamlError> {
        match self.events.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let told = self.syntax(&error);
                self.error = Some(error);
                Err(told)
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn line(&self, span: Span) -> usize {
        self.before + span.start.line().max(1)
    }

    fn syntax(&self, error: &ScanError) -> YamlError {
        YamlError::Syntax { line: self.before + error.marker().line().max(1), cause: error.info().to_owned() }
    }

    /// Builds the node that starts with `event`. `depth` is the number of lists and mappings around it.
    fn node(&mut self, event: Event<'text>, span: Span, depth: usize) -> Result<Node, YamlError> {
        let line = self.line(span);
        if depth > MAX_DEPTH {
            return Err(YamlError::TooDeep { line });
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (self.scalar(&text, style, tag.as_deref(), line)?, anchor),
            Event::SequenceStart(anchor, _) => (self.sequence(line, depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.mapping(line, depth)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, line),
            _ => return Err(YamlError::Syntax { line, cause: "a value was expected here".to_owned() }),
        };
        // The check above covers the nodes that were parsed; the height of what aliases added is only known here.
        if depth + node.height > MAX_DEPTH {
            return Err(YamlError::TooDeep { line });
        }
        if anchor > 0 {
            // The copy that is stored for aliases takes memory as well.
            self.budget.spend(node.nodes, node.text, line)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Node, YamlError> {
        let target = self.anchors.get(&anchor).ok_or(YamlError::Alias { line })?;
        self.budget.spend(target.nodes, target.text, line)?;
        Ok(target.clone())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Node, YamlError> {
        self.budget.spend(1, text.len(), line)?;
        match scalar::resolve(text, style == ScalarStyle::Plain, tag) {
            Resolved::Value(value) => Ok(Node::new(value, text.len())),
            Resolved::NotANumber => Err(YamlError::NotANumber { line, text: text.to_owned() }),
            Resolved::TagMismatch(tag) => Err(YamlError::Tag { line, tag, text: text.chars().take(60).collect() }),
        }
    }

    fn sequence(&mut self, line: usize, depth: usize) -> Result<Node, YamlError> {
        self.budget.spend(1, 0, line)?;
        let mut list = Vec::new();
        let mut node = Node::new(Value::Null, 0);
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => break,
                (event, span) => {
                    let child = self.node(event, span, depth + 1)?;
                    node.add_child(&child);
                    list.push(child.value);
                }
            }
        }
        node.value = Value::Array(list);
        Ok(node)
    }

    fn mapping(&mut self, line: usize, depth: usize) -> Result<Node, YamlError> {
        self.budget.spend(1, 0, line)?;
        let mut map = Map::new();
        let mut node = Node::new(Value::Null, 0);
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let line = self.line(span);
            let merge = is_merge(&event);
            let key = self.node(event, span, depth + 1)?;
            let (event, span) = self.next()?;
            let child = self.node(event, span, depth + 1)?;
            node.add_child(&child);
            if merge {
                merge_into(&mut map, child.value, line)?;
            } else {
                let key = scalar::key(key.value).map_err(|found| YamlError::Key { line, found })?;
                node.nodes = node.nodes.saturating_add(1);
                node.text = node.text.saturating_add(key.len());
                map.insert(key, child.value);
            }
        }
        node.value = Value::Object(map);
        Ok(node)
    }
}

fn is_merge(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(text, style, _, tag) if text == "<<" => match tag {
            None => *style == ScalarStyle::Plain,
            Some(tag) => tag.is_yaml_core_schema() && tag.suffix == "merge",
        },
        _ => false,
    }
}

/// Merges at the position of the merge key: it overwrites keys before it, and keys after it overwrite it. In a list of
/// mappings the first one wins.
fn merge_into(map: &mut Map<String, Value>, from: Value, line: usize) -> Result<(), YamlError> {
    let sources = match from {
        Value::Array(list) => list,
        single => vec![single],
    };
    for source in sources.into_iter().rev() {
        match source {
            Value::Object(source) => map.extend(source),
            _ => return Err(YamlError::Merge { line }),
        }
    }
    Ok(())
}
