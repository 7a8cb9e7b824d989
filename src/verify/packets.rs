//! Converts a signature to the form that the OpenPGP library accepts.
//!
//! Real signatures are compressed and have indeterminate or partial lengths. Those written by Go begin with a partial chunk
//! of less than the 512 bytes that RFC 9580 requires, which the library refuses. Therefore the packets are read here: one
//! layer of compression is removed, up to a size limit, and every packet gets a definite length. Packets that do not belong
//! in a signed message are refused.

use super::MAX_SIGNATURE_BYTES;
use flate2::read::{DeflateDecoder, ZlibDecoder};
use std::io::Read;

/// Size of a message after decompression, in bytes. Real ones have about 1 KiB.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// Limits the number of public-key operations for one message.
const MAX_PACKETS: usize = 24;

/// Packet tags of RFC 9580.
const SIGNATURE: u8 = 2;
const ONE_PASS_SIGNATURE: u8 = 4;
const COMPRESSED: u8 = 8;
const MARKER: u8 = 10;
const LITERAL: u8 = 11;

/// Why bytes are not a signed message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PacketError {
    #[error("it has {0} bytes, more than the limit of {MAX_SIGNATURE_BYTES}")]
    TooLarge(usize),
    #[error("it is empty")]
    Empty,
    #[error("it is ASCII-armored; store it in binary form (gpg --dearmor)")]
    Armored,
    #[error("it is not an OpenPGP message: no packet begins at byte {0}")]
    NoPacket(usize),
    #[error("the packet with tag {0} is truncated")]
    Truncated(u8),
    #[error("the packet with tag {0} has a partial or indeterminate length, which only packets with content may have")]
    Streamed(u8),
    #[error("a signed message cannot have a packet with tag {0}")]
    Tag(u8),
    #[error("it has more than {MAX_PACKETS} packets")]
    TooMany,
    #[error("compression algorithm {0} is not supported, only ZIP and ZLIB are")]
    Compression(u8),
    #[error("its compressed content cannot be decompressed: {0}")]
    Inflate(String),
    #[error("its content is larger than {MAX_MESSAGE_BYTES} bytes")]
    Expands,
    #[error("it is not signed: there is no signature packet")]
    Unsigned,
}

struct Packet {
    tag: u8,
    body: Vec<u8>,
}

/// The same message, uncompressed and with definite lengths. It has at least one signature packet.
pub(super) fn canonical(signature: &[u8]) -> Result<Vec<u8>, PacketError> {
    if signature.len() > MAX_SIGNATURE_BYTES {
        return Err(PacketError::TooLarge(signature.len()));
    }
    if signature.starts_with(b"-----BEGIN") {
        return Err(PacketError::Armored);
    }
    let mut packets = split(signature)?;
    if let [Packet { tag: COMPRESSED, body }] = packets.as_slice() {
        packets = split(&inflate(body)?)?;
    }
    packets.retain(|p| p.tag != MARKER);
    if let Some(other) = packets.iter().find(|p| ![SIGNATURE, ONE_PASS_SIGNATURE, LITERAL].contains(&p.tag)) {
        return Err(PacketError::Tag(other.tag));
    }
    if !packets.iter().any(|p| p.tag == SIGNATURE) {
        return Err(PacketError::Unsigned);
    }
    Ok(packets.iter().flat_map(definite).collect())
}

fn definite(packet: &Packet) -> Vec<u8> {
    let length = u32::try_from(packet.body.len()).unwrap_or(u32::MAX);
    let mut bytes = vec![0xc0 | packet.tag, 0xff];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&packet.body);
    bytes
}

/// Decompresses one layer. Reading stops at the limit, however small the input was.
fn inflate(body: &[u8]) -> Result<Vec<u8>, PacketError> {
    let (algorithm, data) = body.split_first().ok_or(PacketError::Truncated(COMPRESSED))?;
    let limit = MAX_MESSAGE_BYTES as u64 + 1;
    let mut content = Vec::new();
    match algorithm {
        0 => data.take(limit).read_to_end(&mut content),
        1 => DeflateDecoder::new(data).take(limit).read_to_end(&mut content),
        2 => ZlibDecoder::new(data).take(limit).read_to_end(&mut content),
        other => return Err(PacketError::Compression(*other)),
    }
    .map_err(|e| PacketError::Inflate(e.to_string()))?;
    if content.len() > MAX_MESSAGE_BYTES { Err(PacketError::Expands) } else { Ok(content) }
}

/// Reads the packets at the top level.
fn split(bytes: &[u8]) -> Result<Vec<Packet>, PacketError> {
    if bytes.is_empty() {
        return Err(PacketError::Empty);
    }
    let mut input = Input(bytes);
    let mut packets = Vec::new();
    while let Some(header) = input.byte() {
        let at = bytes.len() - input.0.len() - 1;
        if header & 0x80 == 0 {
            return Err(PacketError::NoPacket(at));
        }
        if packets.len() == MAX_PACKETS {
            return Err(PacketError::TooMany);
        }
        packets.push(if header & 0x40 == 0 { input.old_packet(header)? } else { input.new_packet(header & 0x3f)? });
    }
    Ok(packets)
}

/// The bytes that are not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A big-endian number of `width` (at most 4) bytes.
    fn number(&mut self, width: usize) -> Option<usize> {
        let number = self.take(width)?.iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
        usize::try_from(number).ok()
    }

    /// Legacy format: the header contains the width of the length, where 3 means up to the end.
    fn old_packet(&mut self, header: u8) -> Result<Packet, PacketError> {
        let tag = header >> 2 & 0x0f;
        let cut = PacketError::Truncated(tag);
        let length = match header & 3 {
            3 if streamable(tag) => self.0.len(),
            3 => return Err(PacketError::Streamed(tag)),
            shift => self.number(1 << shift).ok_or_else(|| cut.clone())?,
        };
        Ok(Packet { tag, body: self.take(length).ok_or(cut)?.to_vec() })
    }

    /// Current format: partial chunks until one with a definite length ends the packet.
    fn new_packet(&mut self, tag: u8) -> Result<Packet, PacketError> {
        let cut = || PacketError::Truncated(tag);
        let mut body = Vec::new();
        loop {
            let first = usize::from(self.byte().ok_or_else(cut)?);
            let (length, last) = match first {
                0..=191 => (first, true),
                192..=223 => (((first - 192) << 8) + self.number(1).ok_or_else(cut)? + 192, true),
                255 => (self.number(4).ok_or_else(cut)?, true),
                partial => (1 << (partial & 0x1f), false),
            };
            if !last && !streamable(tag) {
                return Err(PacketError::Streamed(tag));
            }
            body.extend_from_slice(self.take(length).ok_or_else(cut)?);
            if last {
                return Ok(Packet { tag, body });
            }
        }
    }
}

/// Only packets with content may have a partial or indeterminate length.
fn streamable(tag: u8) -> bool {
    matches!(tag, COMPRESSED | LITERAL)
}

#[cfg(test)]
mod tests;
