//! Quoted text over several lines. YAML wants its continued lines to be indented further than the mapping around them, which
//! neither Go's decoder nor many generators of definitions care about. Blanks before such a line never belong to the text, so
//! that adding some changes nothing else.

use super::MAX_BYTES;
use saphyr_parser::{Parser, ScanError};

/// What the parser says of such a line.
const CAUSE: &str = "invalid indentation in quoted scalar";
/// Bytes that are parsed again for all texts of a document together: each is found by parsing what is before it.
const MAX_WORK: usize = 64 << 20;
/// Deepest indentation: each line of a text gets as much.
const MAX_INDENT: usize = 400;

/// The document with its quoted texts indented, if that is what is wrong with it, and if it can be done within the limits.
pub(super) fn indented(text: &str, error: &ScanError) -> Option<String> {
    if error.info() != CAUSE {
        return None;
    }
    let (mut text, mut error) = (text.to_owned(), error.clone());
    let mut work = 0;
    while error.info() == CAUSE {
        work += text.len();
        if work > MAX_WORK || text.len() > 2 * MAX_BYTES || error.marker().col() >= MAX_INDENT {
            return None;
        }
        let (start, _) = text.char_indices().nth(error.marker().index())?;
        let end = start + quoted(text.get(start..)?)?;
        let (quoted, blanks) = (text.get(start..end)?, error.marker().col() + 1);
        if text.len() + blanks * quoted.matches('\n').count() > 2 * MAX_BYTES {
            return None;
        }
        let lines = quoted.replace('\n', &format!("\n{}", " ".repeat(blanks)));
        text.replace_range(start..end, &lines);
        let next = Parser::new_from_str(&text).find_map(Result::err);
        match next {
            // The same text again: it is not the indentation.
            Some(next) if next.marker().index() <= error.marker().index() => return None,
            Some(next) => error = next,
            None => return Some(text),
        }
    }
    // What is wrong besides is told with its own line.
    Some(text)
}

/// Bytes of the quoted text that stands at the beginning.
fn quoted(text: &str) -> Option<usize> {
    let mut rest = text.char_indices();
    let (_, quote) = rest.next()?;
    while let Some((at, c)) = rest.next() {
        match c {
            '\\' if quote == '"' => drop(rest.next()),
            '\'' if quote == '\'' && rest.clone().next().is_some_and(|(_, next)| next == '\'') => drop(rest.next()),
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}
