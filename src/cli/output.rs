//! Writes results to standard output, and remarks to standard error.

use anyhow::Context;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Calls `write` with buffered standard output. If the reader is gone, as with `head`, the program ends without an error.
pub(crate) fn to_stdout(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.context("cannot write to standard output"),
    }
}

/// Writes a text to standard output without a newline.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    to_stdout(|out| out.write_all(text.as_bytes()))
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
