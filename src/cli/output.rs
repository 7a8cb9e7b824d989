//! Writes results to standard output, and remarks to standard error.

use anyhow::Context;
use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whoever read standard output reads no more.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Whether there is nobody left to write for, which ends what would write for ever.
pub(crate) fn reader_is_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// Calls `write` with buffered standard output. That the reader is gone, as with `head`, is no error: the command ends as if
/// everything had been read, with its own exit code.
pub(crate) fn to_stdout(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            READER_IS_GONE.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written.context("cannot write to standard output"),
    }
}

/// Writes a text to standard output without a newline.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let text = if io::stdout().is_terminal() && !shows_utf8(variable) { in_ascii(text) } else { Cow::Borrowed(text) };
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Whether the terminal shows UTF-8, by the variables of the locale: the first that is set and not empty counts. Without any, most do.
fn shows_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    set.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// The signs of our own texts as others of the same width; names and messages stay as they are.
fn in_ascii(text: &str) -> Cow<'_, str> {
    const SIGNS: [(char, char); 4] = [('→', '>'), ('…', '~'), ('·', '-'), ('–', '-')];
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let sign = |c: char| SIGNS.iter().find(|(sign, _)| *sign == c).map_or(c, |(_, other)| *other);
    Cow::Owned(text.chars().map(sign).collect())
}

/// Writes a text and a newline to standard output.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    to_stdout(|out| writeln!(out, "{text}"))
}

/// Writes a line to standard error. An error is ignored: there is nowhere to report it.
pub(crate) fn remark(text: &str) {
    let _ignored = writeln!(io::stderr(), "{text}");
}

/// Rows in aligned columns, two spaces apart; the last column is not padded.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]], out: &mut impl Write) -> io::Result<()> {
    let mut widths = head.map(|title| title.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let head = head.map(str::to_owned);
    for row in std::iter::once(&head).chain(rows) {
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            if i + 1 == N {
                writeln!(out, "{cell}")?;
            } else {
                write!(out, "{cell:width$}  ")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
