//! Archives as layers store them, from somebody who is not trusted: compressed or not, with names of any length, and of any size.

use super::{LayerError, reading};
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Chain, Cursor, Read};

/// Longest extended file name or header record of an archive, in bytes.
pub(super) const MAX_EXTENDED_HEADER: u64 = 1 << 20;

/// A layer from its beginning.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The archive of a layer while it is decompressed.
pub(in crate::net::registry) enum Unpacked<R> {
    Gzip(MultiGzDecoder<R>),
    Zstd(Box<Zstd<R>>),
    Plain(R),
}

/// Decompresses a layer, in the way that its first bytes show: media types are often wrong. `window`: how many bytes Zstandard may
/// refer back to, all of which are kept in memory.
pub(in crate::net::registry) fn unpacked<R: BufRead>(
    mut stored: R,
    window: u64,
) -> Result<Unpacked<Whole<R>>, LayerError> {
    // As many as show it. They may come one by one.
    let mut first = Vec::new();
    stored.by_ref().take(6).read_to_end(&mut first).map_err(reading)?;
    let stored = Cursor::new(first.clone()).chain(stored);
    match first.as_slice() {
        [0x1f, 0x8b, ..] => Ok(Unpacked::Gzip(MultiGzDecoder::new(stored))),
        // A frame with content, or one to skip.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            let mut decoder = FrameDecoder::new();
            decoder.set_max_window_size(window);
            Ok(Unpacked::Zstd(Box::new(Zstd { stored, decoder, in_frame: false })))
        }
        [b'B', b'Z', b'h', ..] => Err(LayerError::Compression { found: "bzip2" }),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Err(LayerError::Compression { found: "xz" }),
        _ => Ok(Unpacked::Plain(stored)),
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Gzip(gzip) => gzip.read(buffer),
            Unpacked::Zstd(zstd) => zstd.read(buffer),
            Unpacked::Plain(stored) => stored.read(buffer),
        }
    }
}

/// Frames one after the other, as tools write them that find single files in a layer.
pub(in crate::net::registry) struct Zstd<R> {
    stored: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Begins the next frame; `false` at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.stored.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.stored) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.stored).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
                    let cause = format!(
                        "zstd data that refer back {requested} bytes, more than {max}: rebuild the image with a lower level of \
                         compression, or with gzip"
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
                }
                Err(error) => return Err(damaged(&error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame && !self.next_frame()? {
                return Ok(0);
            }
            self.in_frame = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded = self.decoder.decode_blocks(&mut self.stored, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(|error| damaged(&error))?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            self.in_frame = false;
        }
    }
}

fn damaged(error: &FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged zstd data: {error}"))
}

/// Fails with `StorageFull` after `left` bytes. An end there would look like that of the archive, and hide what comes after it.
pub(in crate::net::registry) struct Bounded<R> {
    unpacked: R,
    left: u64,
}

impl<R> Bounded<R> {
    pub(in crate::net::registry) fn new(unpacked: R, left: u64) -> Bounded<R> {
        Bounded { unpacked, left }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.unpacked.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(io::ErrorKind::StorageFull)?;
        Ok(read)
    }
}

/// Reads an archive to its end. Gives each entry with its name and, if it is a link, its target.
pub(in crate::net::registry) fn each_entry<R: Read, E: From<LayerError>>(
    unpacked: R,
    mut take: impl FnMut(tar::Entry<'_, R>, &str, &str) -> Result<(), E>,
) -> Result<(), E> {
    let mut archive = tar::Archive::new(unpacked);
    let mut extended = Extended::default();
    // Raw entries, because the library would read extended names of any length into memory.
    for entry in archive.entries().map_err(reading)?.raw(true) {
        let mut entry = entry.map_err(reading)?;
        if extended.take(&mut entry)? {
            continue;
        }
        let (name, target) = std::mem::take(&mut extended).names(&entry);
        take(entry, &name, &target)?;
    }
    Ok(())
}

/// Names that precede an entry because they are too long for its header.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

impl Extended {
    /// Consumes the entry if it only describes the next one.
    fn take<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<bool, LayerError> {
        let kind = entry.header().entry_type();
        let (long_name, long_link) = (kind.is_gnu_longname(), kind.is_gnu_longlink());
        if kind.is_pax_global_extensions() {
            return Ok(true);
        }
        if !long_name && !long_link && !kind.is_pax_local_extensions() {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        entry.take(MAX_EXTENDED_HEADER + 1).read_to_end(&mut bytes).map_err(reading)?;
        if bytes.len() as u64 > MAX_EXTENDED_HEADER {
            return Err(reading(io::Error::new(
                io::ErrorKind::InvalidData,
                "an extended file name is longer than 1 MiB",
            )));
        }
        if long_name || long_link {
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            bytes.truncate(end);
            *(if long_name { &mut self.name } else { &mut self.target }) = Some(bytes);
            return Ok(true);
        }
        for record in tar::PaxExtensions::new(&bytes) {
            let record = record.map_err(reading)?;
            match record.key_bytes() {
                b"path" => self.name = Some(record.value_bytes().to_vec()),
                b"linkpath" => self.target = Some(record.value_bytes().to_vec()),
                // Otherwise another reader could see different files in the same archive.
                b"size" => {
                    let cause = "it gives the size of a file a second time, in an extended header";
                    return Err(reading(io::Error::new(io::ErrorKind::InvalidData, cause)));
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn names<R: Read>(self, entry: &tar::Entry<'_, R>) -> (String, String) {
        let header = entry.header();
        let name = self.name.unwrap_or_else(|| header.path_bytes().into_owned());
        let target = self.target.or_else(|| header.link_name_bytes().map(|t| t.into_owned())).unwrap_or_default();
        (String::from_utf8_lossy(&name).into_owned(), String::from_utf8_lossy(&target).into_owned())
    }
}
