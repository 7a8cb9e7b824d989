//! Writing results to standard output, and remarks to standard error.

use anyhow::Context;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Lets `write` write to standard output, buffered. A reader that has gone, like `head`, ends the program without
/// complaint.
pub fn to_stdout(write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.context("cannot write to standard output"),
    }
}

/// Writes a text to standard output as it is, as [`to_stdout`] does.
pub fn say(text: &str) -> anyhow::Result<()> {
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Writes a text and the end of a line.
pub fn line(text: &str) -> anyhow::Result<()> {
    to_stdout(|out| writeln!(out, "{text}"))
}

/// Writes a line to standard error. That nobody can read it is no reason to fail, and there is nowhere to say so.
pub fn remark(text: &str) {
    let _unheard = writeln!(io::stderr(), "{text}");
}

/// Rows as columns that stand under each other, two spaces apart; the last one is as wide as it is.
pub fn table<const N: usize>(head: [&str; N], rows: &[[String; N]], out: &mut impl Write) -> io::Result<()> {
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
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows =
            [["a".to_owned(), "long".to_owned(), "x".to_owned()], ["ä".repeat(3), "b".to_owned(), String::new()]];
        let mut out = Vec::new();
        table(["1", "2", "three"], &rows, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "1    2     three\na    long  x\näää  b     \n");
    }
}
