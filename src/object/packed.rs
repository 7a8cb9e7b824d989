//! Bytes that stay in memory for long and are seldom read, compressed if they are large. CustomResourceDefinitions are most
//! of a release and shrink to an eighth.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::borrow::Cow;
use std::sync::Arc;

/// Smaller values are not compressed, so that reading them costs nothing.
const MIN_SIZE: usize = 8 << 10;

/// Cheap to clone. Two values are equal, with equal hashes, if their bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    stored: Arc<[u8]>,
    /// Length before compression; `None` if the bytes are not compressed.
    deflated: Option<usize>,
}

impl Packed {
    /// The original bytes.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.deflated {
            None => Cow::Borrowed(&self.stored),
            // Cannot fail, since this type compressed the bytes. If it did, the decoders would refuse the empty result.
            Some(length) => Cow::Owned(inflate(&self.stored, length).unwrap_or_default()),
        }
    }

    /// Bytes that it takes in memory.
    pub fn stored_length(&self) -> usize {
        self.stored.len()
    }
}

impl From<&[u8]> for Packed {
    fn from(bytes: &[u8]) -> Self {
        match deflate(bytes).filter(|_| bytes.len() >= MIN_SIZE) {
            Some(stored) => Packed { stored: stored.into(), deflated: Some(bytes.len()) },
            None => Packed { stored: bytes.into(), deflated: None },
        }
    }
}

impl From<Vec<u8>> for Packed {
    fn from(bytes: Vec<u8>) -> Self {
        Packed::from(bytes.as_slice())
    }
}

/// `None` if the result is not smaller than the input, which is the size of the buffer.
fn deflate(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let ended = Compress::new(Compression::fast(), false).compress_vec(bytes, &mut out, FlushCompress::Finish);
    matches!(ended, Ok(Status::StreamEnd)).then_some(out)
}

fn inflate(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(length);
    let ended = Decompress::new(false).decompress_vec(bytes, &mut out, FlushDecompress::Finish);
    (matches!(ended, Ok(Status::StreamEnd)) && out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests;
