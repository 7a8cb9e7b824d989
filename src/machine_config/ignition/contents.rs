//! Contents of files: `data:` URLs, optionally compressed.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256, Sha512};
use std::io::Read;

/// Number of bytes that a file may have when it is decoded. A MachineConfig has at most 1.5 MiB, compressed or not.
pub const MAX_FILE_BYTES: usize = 32 << 20;

/// Why contents cannot be decoded. Messages complete a sentence that begins with the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentsError {
    #[error(
        "has the scheme {0:?}, and a node must not need the network for its files; put the contents in a data: URL"
    )]
    Scheme(String),
    #[error("is not a data: URL; write data:,TEXT or data:;base64,TEXT")]
    NotAUrl,
    #[error(
        "has a % at byte {0} after the comma that is not followed by two hexadecimal digits; write %25 for the character itself"
    )]
    Percent(usize),
    #[error("cannot be decoded from base64: {0}; encode the contents again")]
    Base64(String),
    #[error("has the compression {0:?}, and only gzip is supported; compress with gzip, or leave compression out")]
    Compression(String),
    #[error("cannot be decompressed: {0}; compress the contents again, or leave compression out")]
    Gzip(String),
    #[error("has more than {} MiB when it is decoded; keep large files in an image", MAX_FILE_BYTES >> 20)]
    TooLarge,
    #[error("has a hash that is neither sha256- nor sha512- with hexadecimal digits; correct verification.hash")]
    Hash,
    #[error("has not the hash of verification.hash; correct the hash or the contents")]
    OtherHash,
}

/// Some encoders write no padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes a source; an empty one has empty contents.
pub(super) fn decode(source: &str, compression: &str) -> Result<Vec<u8>, ContentsError> {
    let is_compressed = match compression {
        "" => false,
        "gzip" => true,
        other => return Err(ContentsError::Compression(other.to_owned())),
    };
    if source.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = data(source)?;
    let bytes = if is_compressed { decompress(&bytes)? } else { bytes };
    if bytes.len() > MAX_FILE_BYTES { Err(ContentsError::TooLarge) } else { Ok(bytes) }
}

/// Whether the bytes have this hash.
pub(super) fn verify(bytes: &[u8], hash: &str) -> Result<(), ContentsError> {
    let (expected, found) = match hash.split_once('-') {
        Some(("sha256", hex)) => (hex, Sha256::digest(bytes).to_vec()),
        Some(("sha512", hex)) => (hex, Sha512::digest(bytes).to_vec()),
        _ => return Err(ContentsError::Hash),
    };
    match hex::decode(expected) {
        Ok(expected) if expected == found => Ok(()),
        Ok(expected) if expected.len() == found.len() => Err(ContentsError::OtherHash),
        _ => Err(ContentsError::Hash),
    }
}

/// The bytes of a `data:` URL. Its media type and parameters other than `base64` do not matter.
fn data(source: &str) -> Result<Vec<u8>, ContentsError> {
    let (scheme, rest) = source.split_once(':').ok_or(ContentsError::NotAUrl)?;
    if !scheme.eq_ignore_ascii_case("data") {
        let is_scheme = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        return Err(if is_scheme { ContentsError::Scheme(scheme.to_owned()) } else { ContentsError::NotAUrl });
    }
    let (header, text) = rest.split_once(',').ok_or(ContentsError::NotAUrl)?;
    let bytes = percent_decode(text)?;
    if !header.rsplit(';').next().is_some_and(|last| header.contains(';') && last.trim() == "base64") {
        return Ok(bytes);
    }
    let bytes: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(bytes).map_err(|error| ContentsError::Base64(error.to_string()))
}

fn percent_decode(text: &str) -> Result<Vec<u8>, ContentsError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().enumerate();
    while let Some((at, byte)) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|(_, digit)| char::from(digit).to_digit(16));
        let (high, low) = (digit(), digit());
        let value = high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        bytes.push(value.ok_or(ContentsError::Percent(at + 1))?);
    }
    Ok(bytes)
}

fn decompress(bytes: &[u8]) -> Result<Vec<u8>, ContentsError> {
    let mut contents = Vec::new();
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    match MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut contents) {
        Ok(_) => Ok(contents),
        Err(error) => Err(ContentsError::Gzip(error.to_string())),
    }
}
