//! The hash of a payload's content, which `status.versionHash` shows: FNV-1 with 64 bits, the form that clients know.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Hash of the concatenated parts, as 12 characters of padded URL-safe base64 of the big-endian value.
pub(crate) fn of<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> String {
    let mix = |hash: u64, byte: &u8| hash.wrapping_mul(PRIME) ^ u64::from(*byte);
    let hash = parts.into_iter().fold(OFFSET, |hash, part| part.as_ref().iter().fold(hash, mix));
    URL_SAFE.encode(hash.to_be_bytes())
}

#[cfg(test)]
mod tests;
