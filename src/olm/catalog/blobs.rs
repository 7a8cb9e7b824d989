//! Splits a stream into its documents, JSON objects and YAML documents in any mixture, in one buffer that is no larger than the
//! largest of them. What a document says is decoded elsewhere, so that another thread can do it.

mod scan;

use scan::Scan;
use std::io::{self, Read};

/// Size of a document, in bytes. The largest of a known catalog has 1 MB.
pub(crate) const MAX_DOCUMENT: usize = 16 << 20;
/// Nesting of a document, so that its parts can be decoded later.
pub(crate) const MAX_DEPTH: usize = crate::object::yaml::MAX_DEPTH;
/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// A buffer that had to be larger is not kept.
const KEPT: usize = 4 * CHUNK;
/// So many objects are looked for up to the end of the stream. The others end where the next line begins with a brace.
const MAX_UNCLOSED: usize = 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const SEPARATOR: &[u8] = b"---";

/// The documents of a stream.
#[derive(Debug)]
pub struct Blobs<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where in the buffer the rest begins, which was not returned yet.
    start: usize,
    /// Line of the rest, from 1.
    line: usize,
    /// Bytes of the stream before the rest.
    offset: u64,
    /// There is nothing more to read.
    ended: bool,
    /// Objects that were not closed up to the end of the stream.
    unclosed: usize,
}

/// A document, in the form that it seems to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    pub bytes: &'a [u8],
    pub form: Form,
    /// Where it begins, from 1.
    pub line: usize,
    /// Where it begins in the stream, in bytes.
    pub offset: u64,
}

impl Document<'_> {
    /// The same document with its bytes in a buffer of the caller.
    pub fn copy(self, into: &mut Vec<u8>) -> Document<'_> {
        into.clear();
        into.shrink_to(KEPT);
        into.extend_from_slice(self.bytes);
        Document { bytes: into, form: self.form, line: self.line, offset: self.offset }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It begins with a brace. It may still be YAML, which has objects in braces, too.
    Json,
    /// The same, nested deeper than [`MAX_DEPTH`] levels.
    TooDeep,
    Yaml,
}

/// Why the rest of a stream is not read.
#[derive(Debug, thiserror::Error)]
pub enum BlobsError {
    #[error(transparent)]
    Io(io::Error),
    /// The document that begins in this line is larger than [`MAX_DOCUMENT`].
    #[error("the document in line {line} is larger than {MAX_DOCUMENT} bytes")]
    TooLarge { line: usize },
}

impl<R: Read> Blobs<R> {
    pub fn new(input: R) -> Self {
        Blobs { input, buffer: Vec::new(), start: 0, line: 1, offset: 0, ended: false, unclosed: 0 }
    }

    /// The next document; `None` at the end. After an error there is nothing more.
    pub fn next_document(&mut self) -> Result<Option<Document<'_>>, BlobsError> {
        if self.buffer.capacity() > KEPT && self.rest().len() <= CHUNK {
            self.compact();
            self.buffer.shrink_to(KEPT);
        }
        self.skip()?;
        let (form, length) = match self.rest().first() {
            None => return Ok(None),
            Some(b'{') => self.object()?,
            Some(_) => (Form::Yaml, self.yaml(false)?),
        };
        let (line, offset, start) = (self.line, self.offset, self.start);
        self.advance(length);
        let bytes = self.buffer.get(start..start + length).unwrap_or_default();
        Ok(Some(Document { bytes, form, line, offset }))
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn advance(&mut self, length: usize) {
        let passed = self.rest().get(..length).unwrap_or_default();
        let (lines, bytes) = (memchr::memchr_iter(b'\n', passed).count(), passed.len());
        self.line += lines;
        self.offset += bytes as u64;
        self.start += bytes;
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.start = 0;
    }

    /// Reads more behind the rest. `false` if there is nothing more.
    fn fill(&mut self) -> Result<bool, BlobsError> {
        if self.rest().len() > MAX_DOCUMENT {
            self.ended = true;
            self.buffer = Vec::new();
            self.start = 0;
            return Err(BlobsError::TooLarge { line: self.line });
        }
        if !self.ended {
            self.compact();
            match self.input.by_ref().take(CHUNK as u64).read_to_end(&mut self.buffer) {
                Ok(read) => self.ended = read == 0,
                Err(error) => {
                    self.ended = true;
                    self.buffer.clear();
                    return Err(BlobsError::Io(error));
                }
            }
        }
        Ok(!self.ended)
    }

    /// A byte of the rest; `None` behind its end.
    fn peek(&mut self, at: usize) -> Result<Option<u8>, BlobsError> {
        while self.rest().len() <= at && self.fill()? {}
        Ok(self.rest().get(at).copied())
    }

    /// Whether the rest has these bytes at a place.
    fn has(&mut self, at: usize, bytes: &[u8]) -> Result<bool, BlobsError> {
        self.peek(at + bytes.len() - 1)?;
        Ok(self.rest().get(at..).is_some_and(|rest| rest.starts_with(bytes)))
    }

    /// Passes over blank lines and separators, to the beginning of a line with YAML, or to a brace.
    fn skip(&mut self) -> Result<(), BlobsError> {
        if self.offset == 0 && self.has(0, BYTE_ORDER_MARK)? {
            self.advance(BYTE_ORDER_MARK.len());
        }
        loop {
            let mut indent = 0;
            while let Some(b' ' | b'\t' | b'\r') = self.peek(indent)? {
                indent += 1;
            }
            match self.peek(indent)? {
                Some(b'\n') => self.advance(indent + 1),
                None | Some(b'{') => {
                    self.advance(indent);
                    return Ok(());
                }
                Some(_) if indent == 0 && self.has(0, SEPARATOR)? && self.separator()? => {}
                Some(_) => return Ok(()),
            }
        }
    }

    /// Passes over the separator with which the rest begins. `false` if something follows it in its line, so that it is none.
    fn separator(&mut self) -> Result<bool, BlobsError> {
        let end = self.line_end(SEPARATOR.len())?;
        let behind = self.rest().get(SEPARATOR.len()..end).unwrap_or_default().trim_ascii();
        let blank = behind.first().is_none_or(|byte| *byte == b'#');
        if blank {
            self.advance(end);
        }
        Ok(blank)
    }

    /// The end of the line in which a place of the rest is, behind its newline.
    fn line_end(&mut self, mut from: usize) -> Result<usize, BlobsError> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', self.rest().get(from..).unwrap_or_default()) {
                return Ok(from + at + 1);
            }
            from = self.rest().len();
            if !self.fill()? {
                return Ok(from);
            }
        }
    }

    /// The form and length of what begins with a brace.
    fn object(&mut self) -> Result<(Form, usize), BlobsError> {
        let limit = if self.unclosed < MAX_UNCLOSED { None } else { Some(self.yaml(true)?) };
        let (mut scan, mut passed) = (Scan::default(), 0);
        let closed = loop {
            let rest = self.rest();
            let known = rest.get(..limit.unwrap_or(rest.len())).unwrap_or_default();
            if let Some(more) = scan.feed(known.get(passed..).unwrap_or_default()) {
                break Some(passed + more);
            }
            passed = known.len();
            if limit.is_some() || !self.fill()? {
                break None;
            }
        };
        let Some(end) = closed else {
            self.unclosed += 1;
            return Ok((Form::Json, limit.map_or_else(|| self.yaml(true), Ok)?));
        };
        if scan.deepest > MAX_DEPTH {
            return Ok((Form::TooDeep, end));
        }
        let mut behind = end;
        while let Some(b' ' | b'\t' | b'\r') = self.peek(behind)? {
            behind += 1;
        }
        // A value of YAML may have braces that are none in JSON, and goes on behind them.
        match self.peek(behind)? {
            None | Some(b'\n' | b'{' | b'#') => Ok((Form::Json, end)),
            Some(_) => Ok((Form::Json, self.yaml(true)?)),
        }
    }

    /// The length of the YAML with which the rest begins: up to a line that begins with a separator, and if asked for up to one that
    /// begins with a brace, so that an object with too few or too many braces spoils no other.
    fn yaml(&mut self, to_brace: bool) -> Result<usize, BlobsError> {
        let mut end = 0;
        loop {
            end = self.line_end(end)?;
            match self.peek(end)? {
                None => return Ok(end),
                Some(b'{') if to_brace => return Ok(end),
                Some(b'-') if self.has(end, SEPARATOR)? => return Ok(end),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
