//! Text for a terminal or a file: colours, tables, and lines wrapped to the width.

use crate::diff::field::Field;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::borrow::Cow;
use std::io::IsTerminal;

/// How a text is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Columns; `usize::MAX` cuts and wraps nothing.
    pub width: usize,
    pub colours: bool,
    pub now: Timestamp,
}

/// Text is not wrapped to fewer columns, however narrow the terminal.
const NARROWEST: usize = 24;

/// Longer values of fields are cut to this many characters.
const VALUE: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    Strong,
    Good,
    Busy,
    Bad,
    Faint,
}

/// A cell and its colour. The text has no colour codes yet, because they would count as columns.
pub(crate) type Cell = (String, Colour);

/// The page for standard output.
pub(crate) fn page() -> Page {
    let width = terminal().map_or(usize::MAX, |terminal| terminal.0);
    Page { width, colours: colours(), now: Timestamp::now() }
}

/// Columns and rows of standard output, if it is a terminal.
pub(crate) fn terminal() -> Option<(usize, usize)> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    Some(size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into())))
}

/// Whether to use colours: on a terminal that has them, unless NO_COLOR is set (no-color.org).
pub(crate) fn colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    terminal().is_some() && !set("NO_COLOR") && !dumb
}

/// Aligned columns; the last one is wrapped within its column, or put on lines of its own if the page is too narrow.
pub(crate) fn table(page: &Page, out: &mut String, rows: &[Vec<Cell>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| columns_of(&cell.0)).max();
    let widths: Vec<usize> =
        (0..columns.saturating_sub(1)).map(|column| widest(column).unwrap_or_default() + 2).collect();
    let indent: usize = widths.iter().sum();
    for row in rows {
        let mut plain = String::new();
        let mut coloured = String::new();
        for ((cell, colour), width) in row.iter().zip(&widths) {
            let pad = " ".repeat(width.saturating_sub(columns_of(cell)));
            plain.push_str(cell);
            plain.push_str(&pad);
            coloured.push_str(&paint(page, cell, *colour));
            coloured.push_str(&pad);
        }
        let (last, colour) = row.last().map_or(("", Colour::Plain), |(cell, colour)| (cell.as_str(), *colour));
        let room = page.width.saturating_sub(indent);
        if room < NARROWEST.min(columns_of(last)) {
            // Too narrow for the last column: its cell goes below.
            line(page, out, plain.trim_end(), Colour::Plain);
            if !last.is_empty() {
                paragraph(page, out, "    ", last, colour);
            }
            continue;
        }
        let mut parts = wrap(last, room).into_iter();
        let first = parts.next().unwrap_or_default();
        out.push_str(format!("{coloured}{}", paint(page, &first, colour)).trim_end());
        out.push('\n');
        for part in parts {
            out.push_str(&" ".repeat(indent));
            out.push_str(&paint(page, &part, colour));
            out.push('\n');
        }
    }
}

/// One line, cut to the width. Leading newlines are written before the colour code.
pub(crate) fn line(page: &Page, out: &mut String, text: &str, colour: Colour) {
    let trimmed = text.trim_start_matches('\n');
    out.push_str(&"\n".repeat(text.len() - trimmed.len()));
    out.push_str(&paint(page, &cut(trimmed, page.width), colour));
    out.push('\n');
}

pub(crate) fn paragraph(page: &Page, out: &mut String, indent: &str, text: &str, colour: Colour) {
    for part in wrap(&clean(text), page.width.saturating_sub(indent.len()).max(NARROWEST)) {
        out.push_str(indent);
        out.push_str(&paint(page, &part, colour));
        out.push('\n');
    }
}

/// What a person can do about what was told before.
pub(crate) fn next_step(step: &str, page: &Page, out: &mut String) {
    if !step.is_empty() {
        paragraph(page, out, "  ", &format!("→ {step}"), Colour::Strong);
    }
}

/// A field with its value before and after the change.
pub(crate) fn field_text(field: &Field) -> String {
    let short = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => cut(text, VALUE),
        Some(other) => cut(&other.to_string(), VALUE),
    };
    if field.from.is_none() && field.to.is_none() {
        return field.path.clone();
    }
    format!("{}: {} → {}", field.path, short(&field.from), short(&field.to))
}

fn columns_of(text: &str) -> usize {
    text.chars().count()
}

pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns_of(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks lines between words, and words only if they are longer than the width.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = columns_of(&current);
        if used > 0 && used.saturating_add(1).saturating_add(word.len()) <= width {
            current.push(' ');
            current.extend(word);
            continue;
        }
        if used > 0 {
            lines.push(std::mem::take(&mut current));
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        current.extend(word);
    }
    if !current.is_empty() {
        lines.push(current);
    }
    lines
}

/// Replaces control characters by spaces: messages come from any client of the cluster, and could control the terminal.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

fn paint(page: &Page, text: &str, colour: Colour) -> String {
    let code = match colour {
        Colour::Plain => return text.to_owned(),
        _ if !page.colours || text.is_empty() => return text.to_owned(),
        Colour::Strong => "1",
        Colour::Good => "32",
        Colour::Busy => "33",
        Colour::Bad => "31",
        Colour::Faint => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Draws over the last frame: clears each line to its end, and the screen below. Lines that do not fit are counted; the
/// command without a watch shows them.
pub(crate) fn frame(text: &str, height: usize, command: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(1).max(1);
    let mut out = String::from("\u{1b}[H");
    let fits = if lines.len() > room { room.saturating_sub(1) } else { lines.len() };
    for line in lines.iter().take(fits) {
        out.push_str(line);
        out.push_str("\u{1b}[K\n");
    }
    if fits < lines.len() {
        out.push_str(&format!("… {} more lines ({command} shows all)\u{1b}[K\n", lines.len() - fits));
    }
    out.push_str("\u{1b}[J");
    out
}

/// A line of what is followed, with the time of day (UTC) in front.
pub(crate) fn dated(now: Timestamp, line: &str) -> String {
    format!("{}  {line}", now.strftime("%H:%M:%SZ"))
}

/// The duration in its two largest units; zero if the clocks disagree.
pub(crate) fn ago(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).max(SignedDuration::ZERO).as_secs();
    duration(u64::try_from(seconds).unwrap_or_default())
}

pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}
