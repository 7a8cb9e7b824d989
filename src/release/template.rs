//! Evaluates the part of Go's text/template that the orchestrator's manifests use: two fields, `index` on the images, string
//! literals, comments and whitespace trimming. Anything else is an error.

use crate::object::yaml::MAX_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// The variables of a template.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'a> {
    /// `.ReleaseImage`: pull spec of the release being loaded.
    pub release_image: &'a str,
    /// `.ClusterProfile`
    pub cluster_profile: &'a str,
    /// `.ExcludeManifests`: the identifier whose annotation excludes manifests, if any.
    pub exclude_manifests: &'a str,
    /// `index .Images "name"`
    pub images: &'a BTreeMap<String, String>,
}

/// An evaluated template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// Images that the template uses but the release does not have. As in Go, each evaluates to the empty string.
    pub missing_images: BTreeSet<String>,
    /// Maps lines of `text` to those of the template.
    pub lines: Lines,
}

/// Maps lines of an evaluated template to those of its source. The default maps every line to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// In the order of the text. Each step applies until the next one.
    steps: Vec<Step>,
    /// Newlines of the text so far.
    newlines: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// The first line of the text that it applies to.
    line: usize,
    source: usize,
    /// Lines of text come from as many lines of the source, those of an action all from the same line.
    text: bool,
}

impl Lines {
    /// The line of the source from which this line of the text comes. Both count from 1.
    pub fn source(&self, line: usize) -> usize {
        let next = self.steps.partition_point(|step| step.line <= line);
        match next.checked_sub(1).and_then(|last| self.steps.get(last)) {
            None => line,
            Some(step) if step.text => step.source + (line - step.line),
            Some(step) => step.source,
        }
    }
}

impl Rendered {
    /// Appends text of this source line, or the value of an action on it.
    fn push(&mut self, piece: &str, source: usize, text: bool) -> Result<(), TemplateError> {
        if piece.is_empty() {
            return Ok(());
        }
        // Checked before the piece is added, since a short template may repeat a long value many times.
        if self.text.len() + piece.len() > MAX_BYTES {
            return Err(TemplateError::TooLarge { line: source });
        }
        let next = self.lines.newlines + 1;
        let step = if self.text.is_empty() || self.text.ends_with('\n') {
            Step { line: next, source, text }
        } else {
            // The current line began with an earlier piece, so this one determines the next line.
            Step { line: next + 1, source: source + usize::from(text), text }
        };
        self.lines.steps.pop_if(|last| last.line == step.line);
        self.lines.steps.push(step);
        self.lines.newlines += newlines(piece);
        self.text.push_str(piece);
        Ok(())
    }
}

/// Why a template cannot be evaluated. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("line {line}: the action that begins with {{{{{start} is not closed by }}}}")]
    Open { line: usize, start: String },
    #[error(
        "line {line}: {{{{{expression}}}}} is not known; known are .ReleaseImage, .ClusterProfile, .ExcludeManifests, index .Images \"NAME\" and text in quotes"
    )]
    Unknown { line: usize, expression: String },
    #[error("line {line}: {literal} is not a valid string literal of Go")]
    Literal { line: usize, literal: String },
    #[error("line {line}: here the evaluated file exceeds the limit of {MAX_BYTES} bytes; split it")]
    TooLarge { line: usize },
}

/// Evaluates `source`.
pub fn render(source: &str, variables: &Variables<'_>) -> Result<Rendered, TemplateError> {
    let mut rendered = Rendered::default();
    let mut rest = source;
    let mut line = 1;
    let mut trim_next = false;
    loop {
        let (text, after) = match rest.split_once("{{") {
            Some((text, after)) => (text, Some(after)),
            None => (rest, None),
        };
        let kept = if trim_next { text.trim_start_matches(BLANKS) } else { text };
        let kept_from = line + newlines(text.get(..text.len() - kept.len()).unwrap_or_default());
        line += newlines(text);
        let Some(after) = after else {
            rendered.push(kept, kept_from, true)?;
            return Ok(rendered);
        };
        // A trim marker is a minus sign followed by whitespace, while {{-3}} is a number.
        let trim_before = after.strip_prefix('-').filter(|inner| inner.starts_with(BLANKS));
        let kept = if trim_before.is_some() { kept.trim_end_matches(BLANKS) } else { kept };
        rendered.push(kept, kept_from, true)?;
        let action = trim_before.unwrap_or(after);
        let Some(end) = end_of_action(action) else {
            return Err(TemplateError::Open { line, start: action.lines().next().unwrap_or_default().trim().into() });
        };
        let inside = action.get(..end).unwrap_or_default();
        let trimmed = inside.strip_suffix('-').filter(|inner| inner.ends_with(BLANKS));
        trim_next = trimmed.is_some();
        evaluate(trimmed.unwrap_or(inside), line, variables, &mut rendered)?;
        line += newlines(inside);
        rest = action.get(end + 2..).unwrap_or_default();
    }
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Offset of the `}}` that closes an action: the first one outside of literals and comments.
fn end_of_action(action: &str) -> Option<usize> {
    if let Some(comment) = action.trim_start_matches(BLANKS).strip_prefix("/*") {
        let end = action.len() - comment.len() + comment.find("*/")? + 2;
        return Some(end + action.get(end..)?.find("}}")?);
    }
    let mut quote = None;
    let mut escaped = false;
    let mut characters = action.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some('"' | '\'') if character == '\\' => escaped = true,
            Some(open) => {
                if character == open {
                    quote = None;
                }
            }
            None => match character {
                '"' | '`' | '\'' => quote = Some(character),
                '}' if characters.peek().is_some_and(|(_, next)| *next == '}') => return Some(at),
                _ => {}
            },
        }
    }
    None
}

fn evaluate(
    action: &str,
    line: usize,
    variables: &Variables<'_>,
    rendered: &mut Rendered,
) -> Result<(), TemplateError> {
    let expression = action.trim_matches(BLANKS);
    let unknown = || TemplateError::Unknown { line, expression: action.chars().take(200).collect() };
    match expression {
        ".ReleaseImage" => rendered.push(variables.release_image, line, false)?,
        ".ClusterProfile" => rendered.push(variables.cluster_profile, line, false)?,
        ".ExcludeManifests" => rendered.push(variables.exclude_manifests, line, false)?,
        comment if comment.starts_with("/*") && comment.ends_with("*/") => {}
        literal if literal.starts_with(['"', '`']) => {
            rendered.push(&text_literal(literal, line, unknown)?, line, false)?;
        }
        lookup => {
            let name = lookup
                .strip_prefix("index")
                .filter(|rest| rest.starts_with(BLANKS))
                .and_then(|rest| rest.trim_start_matches(BLANKS).strip_prefix(".Images"))
                .filter(|rest| rest.starts_with(BLANKS))
                .map(|rest| rest.trim_start_matches(BLANKS))
                .filter(|rest| rest.starts_with(['"', '`']))
                .ok_or_else(unknown)?;
            let name = text_literal(name, line, unknown)?;
            match variables.images.get(&name) {
                Some(image) => rendered.push(image, line, false)?,
                None => {
                    rendered.missing_images.insert(name);
                }
            }
        }
    }
    Ok(())
}

/// The value of a quoted or raw literal. If anything follows it, such as a pipe or an argument, the expression is unknown.
fn text_literal(source: &str, line: usize, unknown: impl Fn() -> TemplateError) -> Result<String, TemplateError> {
    let wrong = || TemplateError::Literal { line, literal: source.chars().take(200).collect() };
    if let Some(raw) = source.strip_prefix('`') {
        let (text, after) = raw.split_once('`').ok_or_else(wrong)?;
        // Go drops carriage returns in raw literals.
        return if after.is_empty() { Ok(text.replace('\r', "")) } else { Err(unknown()) };
    }
    let mut bytes = Vec::new();
    let mut rest = source.strip_prefix('"').ok_or_else(wrong)?.chars();
    loop {
        match rest.next().ok_or_else(wrong)? {
            '"' => break,
            '\n' => return Err(wrong()),
            '\\' => escape(&mut rest, &mut bytes).ok_or_else(wrong)?,
            plain => bytes.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    if !rest.as_str().is_empty() {
        return Err(unknown());
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Evaluates the escape after a backslash in a quoted literal. `None` if Go has no such escape.
fn escape(rest: &mut std::str::Chars<'_>, bytes: &mut Vec<u8>) -> Option<()> {
    let simple = match rest.next()? {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '"' => b'"',
        'x' => u8::try_from(digits(rest, 2, 16)?).ok()?,
        first @ '0'..='7' => u8::try_from(first.to_digit(8)? * 64 + digits(rest, 2, 8)?).ok()?,
        wide @ ('u' | 'U') => {
            let code = digits(rest, if wide == 'u' { 4 } else { 8 }, 16)?;
            bytes.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(());
        }
        _ => return None,
    };
    bytes.push(simple);
    Some(())
}

fn digits(rest: &mut std::str::Chars<'_>, count: u32, base: u32) -> Option<u32> {
    (0..count).try_fold(0u32, |value, _| value.checked_mul(base)?.checked_add(rest.next()?.to_digit(base)?))
}

#[cfg(test)]
mod tests;
