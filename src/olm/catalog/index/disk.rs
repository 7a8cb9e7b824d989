//! An index as bytes: format, tables, strings, checksum, all numbers little-endian. It is small and read as a whole; the data file
//! is not read with it, so each of its parts has a checksum of its own.

use super::Index;
use crate::olm::catalog::rows::{Cell, Extent};
use crate::olm::catalog::strings::Strings;
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};

/// The format. Another one is not read: the catalog is read again.
const FORMAT: &[u8; 16] = b"cvo catalog 0001";
/// Size of an index, in bytes. One with 15,000 bundles has 10 MiB.
const MAX_SIZE: u64 = 256 << 20;
const CHECKSUM: usize = 32;

/// Why bytes are no index, or not what it says of them.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("it cannot be written: {0}")]
    Write(io::Error),
    #[error("it is no index of this version of the program; remove it, and the catalog is read again")]
    Format,
    #[error("it is damaged (its checksum is another one); remove it, and the catalog is read again")]
    Checksum,
    #[error("its tables are damaged; remove it, and the catalog is read again")]
    Tables,
    #[error("it has more than {MAX_SIZE} bytes; remove it, and the catalog is read again")]
    TooLarge,
    #[error("the data beside the index is not what was written; remove both, and the catalog is read again")]
    Data,
}

impl Index {
    /// Writes the index in its form on disk.
    pub fn write(&self, mut out: impl Write) -> Result<(), IndexError> {
        let mut bytes = Vec::with_capacity(self.size() + 1024);
        bytes.extend(FORMAT);
        self.data_length.write(&mut bytes);
        table(&self.packages, &mut bytes);
        table(&self.channels, &mut bytes);
        table(&self.entries, &mut bytes);
        table(&self.skips, &mut bytes);
        table(&self.bundles, &mut bytes);
        table(&self.properties, &mut bytes);
        table(&self.apis, &mut bytes);
        table(&self.stored, &mut bytes);
        table(&self.custom, &mut bytes);
        let (text, ends) = self.strings.parts();
        table(ends, &mut bytes);
        bytes.extend(text.as_bytes());
        let checksum = Sha256::digest(&bytes);
        out.write_all(&bytes)
            .and_then(|()| out.write_all(&checksum))
            .and_then(|()| out.flush())
            .map_err(IndexError::Write)
    }

    /// Reads what [`Index::write`] has written. Whatever else the bytes are is an error.
    pub fn read(input: impl Read) -> Result<Index, IndexError> {
        let mut bytes = Vec::new();
        input.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(IndexError::Read)?;
        if bytes.len() as u64 > MAX_SIZE {
            return Err(IndexError::TooLarge);
        }
        if !bytes.starts_with(FORMAT) {
            return Err(IndexError::Format);
        }
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(IndexError::Checksum)?;
        if Sha256::digest(content)[..] != checksum[..] {
            return Err(IndexError::Checksum);
        }
        content.get(FORMAT.len()..).and_then(tables).ok_or(IndexError::Tables)
    }
}

fn table<T: Cell>(rows: &[T], out: &mut Vec<u8>) {
    u32::try_from(rows.len()).unwrap_or(u32::MAX).write(out);
    rows.iter().for_each(|row| row.write(out));
}

fn tables(mut bytes: &[u8]) -> Option<Index> {
    fn next<T: Cell>(bytes: &mut &[u8]) -> Option<Vec<T>> {
        let count = u32::read(bytes)?;
        // The count is not trusted: memory grows with what is really there.
        let mut rows: Vec<T> = (0..count).map(|_| T::read(bytes)).collect::<Option<_>>()?;
        rows.shrink_to_fit();
        Some(rows)
    }
    let bytes = &mut bytes;
    Some(Index {
        data_length: u64::read(bytes)?,
        packages: next(bytes)?,
        channels: next(bytes)?,
        entries: next(bytes)?,
        skips: next(bytes)?,
        bundles: next(bytes)?,
        properties: next(bytes)?,
        apis: next(bytes)?,
        stored: next(bytes)?,
        custom: next(bytes)?,
        strings: {
            let ends = next(bytes)?;
            Strings::new(String::from_utf8(bytes.to_vec()).ok()?, ends)?
        },
    })
}

impl Extent {
    /// The text of this part of the data file, if these are its bytes.
    pub(super) fn text(self, bytes: &[u8]) -> Result<&str, IndexError> {
        let same = bytes.len() == self.length as usize && crc32fast::hash(bytes) == self.checksum;
        let text = std::str::from_utf8(bytes).ok().filter(|_| same);
        text.ok_or(IndexError::Data)
    }
}
