//! Bytes that are kept for long and read seldom: deflated where that pays. Definitions are most of a release and shrink to
//! an eighth.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::borrow::Cow;
use std::sync::Arc;

/// Smaller ones are kept as they are: reading them often must cost nothing.
const FROM: usize = 8 << 10;

/// Cheap to clone. Equal and of equal hash where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    kept: Arc<[u8]>,
    /// Bytes before deflating; `None` where they are kept as they are.
    deflated: Option<usize>,
}

impl Packed {
    /// The bytes as they were given.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.deflated {
            None => Cow::Borrowed(&self.kept),
            // What this type deflated, it inflates; what it could not would be empty, which no reader takes.
            Some(length) => Cow::Owned(inflate(&self.kept, length).unwrap_or_default()),
        }
    }
}

impl From<&[u8]> for Packed {
    fn from(bytes: &[u8]) -> Self {
        match deflate(bytes).filter(|_| bytes.len() >= FROM) {
            Some(kept) => Packed { kept: kept.into(), deflated: Some(bytes.len()) },
            None => Packed { kept: bytes.into(), deflated: None },
        }
    }
}

impl From<Vec<u8>> for Packed {
    fn from(bytes: Vec<u8>) -> Self {
        Packed::from(bytes.as_slice())
    }
}

/// `None` where deflating makes nothing smaller.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn large_text_is_kept_small_and_comes_back() {
        let text = "description: what this field is about\n".repeat(4000).into_bytes();
        let packed = Packed::from(text.clone());
        assert!(packed.kept.len() < text.len() / 8, "{}", packed.kept.len());
        assert_eq!(packed.bytes().as_ref(), text);
        assert_eq!(packed, Packed::from(text));
        let small = Packed::from(&b"{}"[..]);
        assert!(matches!(small.bytes(), Cow::Borrowed(b"{}")));
    }

    proptest! {
        /// Random bytes do not shrink and are kept as they are.
        #[test]
        fn whatever_goes_in_comes_out(bytes in prop::collection::vec(any::<u8>(), 0..20_000), times in 1_usize..4) {
            let bytes = bytes.repeat(times);
            prop_assert_eq!(Packed::from(bytes.clone()).bytes().into_owned(), bytes);
        }
    }
}
