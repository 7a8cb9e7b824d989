//! Image layers: writes reproducible tar archives from files in memory or on disk, and reads selected files from untrusted archives
//! without following links and within fixed bounds.

pub(super) mod archive;
mod placed;

use flate2::{Compression, GzBuilder};
use placed::{Placed, in_temporary_folder};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempPath;

/// Most bytes that are kept of one image, names included. The largest known release payload has 20 MB.
const MAX_KEPT_BYTES: u64 = 48 << 20;
/// Most paths that are kept of one image: files, links and deleted paths.
const MAX_KEPT_PATHS: usize = 20_000;
/// Longest path in an image, and longest target of a link, as in Linux.
const MAX_PATH: usize = 4096;
/// Most bytes that are read of one uncompressed layer, against compression bombs.
const MAX_SCANNED_BYTES: u64 = 8 << 30;
/// Most symbolic links that are followed from one to the next.
const MAX_LINKS: usize = 16;
/// Largest window of a layer that is compressed with Zstandard, in bytes: what the program `zstd` itself reads without being asked.
const MAX_WINDOW: u64 = 128 << 20;

/// A layer cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("{path:?} cannot be a path in an image: it must be relative and without empty, \".\" or \"..\" parts")]
    BadPath { path: String },
    #[error("{path:?} is given twice for the same layer: remove one of the two files")]
    Twice { path: String },
    #[error(
        "entry {path:?} is a link that leads to {target:?}, outside the folder it is in: rebuild the image with regular files"
    )]
    LinkLeaves { path: String, target: String },
    #[error("{path:?} is a {what} where the image should have a directory: rebuild the image with regular files")]
    NotADirectory { path: String, what: &'static str },
    #[error(
        "the layer is compressed with {found}, which is not supported: rebuild the image with gzip, zstd or uncompressed layers"
    )]
    Compression { found: &'static str },
    #[error("the image has more than {limit} {unit} under {prefixes}: this is not a release image")]
    TooMuch { limit: u64, unit: &'static str, prefixes: String },
    #[error(
        "the layer has more than {MAX_SCANNED_BYTES} bytes once it is decompressed: this is not a release image, or the \
         release must be rebuilt with a smaller base image"
    )]
    Expands,
    #[error(
        "an entry under {prefixes} has a name or target of {bytes} bytes, more than the {MAX_PATH} that a path may have"
    )]
    LongPath { bytes: usize, prefixes: String },
    #[error("cannot {attempt} the layer: {cause}")]
    Io { attempt: &'static str, cause: io::Error },
}

/// A regular file of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerFile {
    /// Relative, with `/` between its parts: `usr/bin/cvo`.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    pub bytes: FileBytes,
}

/// The content of a file of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileBytes {
    Memory(Vec<u8>),
    /// A file that is read when the layer is written.
    Disk(PathBuf),
}

impl<T: Into<Vec<u8>>> From<T> for FileBytes {
    fn from(bytes: T) -> Self {
        FileBytes::Memory(bytes.into())
    }
}

/// The stored bytes of a layer.
#[derive(Clone, Debug)]
pub(crate) enum LayerBytes {
    Memory(Vec<u8>),
    /// A file that is removed with the last copy of this, and its size.
    Disk(Arc<TempPath>, u64),
}

impl From<Vec<u8>> for LayerBytes {
    fn from(bytes: Vec<u8>) -> Self {
        LayerBytes::Memory(bytes)
    }
}

impl LayerBytes {
    pub(crate) fn len(&self) -> u64 {
        match self {
            LayerBytes::Memory(bytes) => bytes.len() as u64,
            LayerBytes::Disk(_, size) => *size,
        }
    }

    #[cfg(test)]
    pub(crate) fn whole(&self) -> Vec<u8> {
        match self {
            LayerBytes::Memory(bytes) => bytes.clone(),
            LayerBytes::Disk(path, _) => std::fs::read(&**path).unwrap(),
        }
    }
}

/// Compression of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Level 1 to 9.
    Gzip(u32),
    /// Uncompressed: for a registry nearby, where compressing takes longer than sending.
    Plain,
}

impl Packing {
    /// Level 6, as image tools use.
    pub(crate) const USUAL: Packing = Packing::Gzip(6);

    /// Media type of such a layer in an OCI manifest.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Packing::Gzip(_) => oci_client::manifest::IMAGE_LAYER_GZIP_MEDIA_TYPE,
            Packing::Plain => oci_client::manifest::IMAGE_LAYER_MEDIA_TYPE,
        }
    }
}

/// A finished layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub packing: Packing,
    /// `sha256:…` of the stored bytes, as in the manifest.
    pub digest: String,
    /// `sha256:…` of the uncompressed archive, as in the image config.
    pub diff_id: String,
    pub bytes: LayerBytes,
}

/// `sha256:<hex>` of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Whether it is `sha256:` with 64 hexadecimal digits. What a manifest calls a digest becomes part of a path, and a tag in place of one
/// would name other content tomorrow.
pub(super) fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64);
    hex.is_some_and(|hex| hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// What to say of a text that is none.
pub(super) fn no_digest(digest: &str) -> String {
    let digest: String = digest.chars().take(100).collect();
    format!("it has {digest:?} in place of a digest like sha256:HEX")
}

/// Writes a layer whose bytes depend on the arguments alone: entries sorted by path, owner 0:0, `mtime` (seconds since
/// 1970) for all, and a gzip header without time and operating system.
pub(crate) fn write(files: &[LayerFile], mtime: u64, packing: Packing) -> Result<Layer, LayerError> {
    let (bytes, digest, diff_id) = packed(files, mtime, packing, Vec::new())?;
    Ok(Layer { packing, digest, diff_id, bytes: bytes.into() })
}

/// The same layer in a temporary file: neither it nor its files have to fit into memory.
pub(crate) fn write_to_disk(files: &[LayerFile], mtime: u64, packing: Packing) -> Result<Layer, LayerError> {
    let failed = |cause| LayerError::Io { attempt: "write", cause };
    let file = tempfile::NamedTempFile::new().map_err(|cause| failed(in_temporary_folder(cause)))?;
    let out = Placed { inner: file, place: in_temporary_folder };
    let (written, digest, diff_id) = packed(files, mtime, packing, BufWriter::new(out))?;
    let Placed { inner: file, .. } = written.into_inner().map_err(|error| failed(error.into_error()))?;
    let size = file.as_file().metadata().map_err(failed)?.len();
    let bytes = LayerBytes::Disk(Arc::new(file.into_temp_path()), size);
    Ok(Layer { packing, digest, diff_id, bytes })
}

/// Writes the layer, and returns its digest and that of the archive.
fn packed<W: Write>(
    files: &[LayerFile],
    mtime: u64,
    packing: Packing,
    out: W,
) -> Result<(W, String, String), LayerError> {
    let mut sorted = BTreeMap::new();
    for file in files {
        check_path(&file.path)?;
        if sorted.insert(file.path.as_str(), file).is_some() {
            return Err(LayerError::Twice { path: file.path.clone() });
        }
    }
    let (files, out) = (sorted.into_values(), Hashed { out, hash: Sha256::new() });
    let written = match packing {
        Packing::Plain => archive(files, mtime, out),
        Packing::Gzip(level) => {
            let gzip = GzBuilder::new().mtime(0).operating_system(255).write(out, Compression::new(level));
            archive(files, mtime, gzip).and_then(|(gzip, diff_id)| gzip.finish().map(|out| (out, diff_id)))
        }
    };
    let (Hashed { out, hash }, diff_id) = written.map_err(|cause| LayerError::Io { attempt: "write", cause })?;
    Ok((out, format!("sha256:{}", hex::encode(hash.finalize())), diff_id))
}

fn archive<'a, W: Write>(
    files: impl Iterator<Item = &'a LayerFile>,
    mtime: u64,
    out: W,
) -> Result<(W, String), io::Error> {
    let mut tar = tar::Builder::new(Hashed { out, hash: Sha256::new() });
    for file in files {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(file.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(mtime);
        match &file.bytes {
            FileBytes::Memory(bytes) => {
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, &file.path, bytes.as_slice())?;
            }
            FileBytes::Disk(path) => {
                let of_file = |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
                let content = std::fs::File::open(path).map_err(of_file)?;
                let size = content.metadata().map_err(of_file)?.len();
                header.set_size(size);
                let mut content = Placed { inner: content.take(size), place: of_file };
                tar.append_data(&mut header, &file.path, &mut content)?;
                if content.inner.limit() > 0 {
                    return Err(of_file(io::Error::other("it has become shorter while it was read")));
                }
            }
        }
    }
    let Hashed { out, hash } = tar.into_inner()?;
    Ok((out, format!("sha256:{}", hex::encode(hash.finalize()))))
}

/// Writes through to `out` and hashes the bytes.
struct Hashed<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Accepts only relative paths that can never leave the directory they are joined to.
pub(crate) fn check_path(path: &str) -> Result<(), LayerError> {
    let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let printable = !path.contains('\0');
    if plain && printable { Ok(()) } else { Err(LayerError::BadPath { path: path.into() }) }
}

/// Collects the regular files under some prefixes from an image's layers, which are read **topmost first**: the first
/// occurrence of a path counts, and a path that an upper layer deleted stays deleted.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Each ends in `/`. The name of an archive entry must literally start with one of them, so `./manifests/a` does not.
    prefixes: Vec<String>,
    /// Path in the image to content.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Links that lead to no known file (see [`Gathered::follow_links`]).
    pub skipped: Vec<String>,
    /// Targets of the symbolic links, by path.
    links: BTreeMap<String, String>,
    /// Paths that upper layers define or delete. They hide the same path, and everything below it, in lower layers.
    covered: BTreeSet<String>,
    kept_bytes: u64,
    kept_paths: usize,
}

/// What an entry of a layer means for its path.
enum PathEntry {
    File(Vec<u8>),
    Covers,
}

impl Gathered {
    /// `prefixes` end in `/`: `release-manifests/`.
    pub fn under(prefixes: &[&str]) -> Gathered {
        Gathered { prefixes: prefixes.iter().map(|p| p.to_string()).collect(), ..Gathered::default() }
    }

    /// Reads one layer to its end, because the client library checks the digest there.
    pub fn read_layer(&mut self, stored: impl Read) -> Result<(), LayerError> {
        let mut stored = BufReader::with_capacity(1 << 16, stored);
        let entries = self.read_archive(archive::unpacked(&mut stored, MAX_WINDOW)?, MAX_SCANNED_BYTES)?;
        io::copy(&mut stored, &mut io::sink()).map_err(reading)?;
        for (path, content) in entries {
            if let PathEntry::File(bytes) = content {
                self.files.insert(path.clone(), bytes);
            }
            self.covered.insert(path);
        }
        Ok(())
    }

    /// Reads at most `limit` bytes.
    fn read_archive(&mut self, unpacked: impl Read, limit: u64) -> Result<BTreeMap<String, PathEntry>, LayerError> {
        let mut found = BTreeMap::new();
        archive::each_entry(archive::Bounded::new(unpacked, limit), |entry, name, target| {
            self.add(&mut found, entry, name, target)
        })?;
        Ok(found)
    }

    /// Adds one entry of a layer to `found`, or refuses it.
    fn add<R: Read>(
        &mut self,
        found: &mut BTreeMap<String, PathEntry>,
        entry: tar::Entry<'_, R>,
        name: &str,
        target: &str,
    ) -> Result<(), LayerError> {
        let kind = entry.header().entry_type();
        if let Some(hidden) = deleted_path(name) {
            if self.touches(&hidden) {
                self.note(&hidden, "")?;
                found.insert(hidden, PathEntry::Covers);
            }
            return Ok(());
        }
        let bare = name.trim_end_matches('/');
        if !kind.is_dir() && self.prefixes.iter().any(|p| p.starts_with(&format!("{bare}/"))) && !self.is_covered(bare)
        {
            let what = if kind.is_symlink() { "symbolic link" } else { "file or link" };
            return Err(LayerError::NotADirectory { path: name.into(), what });
        }
        if !self.prefixes.iter().any(|p| name.starts_with(p.as_str()) && name.len() > p.len()) {
            return Ok(());
        }
        check_path(bare)?;
        if kind.is_dir() || self.is_covered(bare) {
            return Ok(());
        }
        self.note(name, target)?;
        if kind.is_file() || kind.is_contiguous() {
            let bytes = self.keep(entry)?;
            found.insert(name.into(), PathEntry::File(bytes));
            return Ok(());
        }
        let leads_to = if kind.is_symlink() { beside(bare, target) } else { Some(target.to_owned()) };
        let inside = leads_to.filter(|path| !kind.is_hard_link() || check_path(path).is_ok());
        let Some(leads_to) = inside else {
            return Err(LayerError::LinkLeaves { path: name.into(), target: target.into() });
        };
        // A hard link names a file that comes before it in the same layer.
        if kind.is_hard_link()
            && let Some(PathEntry::File(bytes)) = found.get(target)
        {
            let bytes = bytes.clone();
            self.count(bytes.len() as u64)?;
            found.insert(name.into(), PathEntry::File(bytes));
            return Ok(());
        }
        if kind.is_symlink() {
            self.links.insert(name.into(), leads_to);
        } else {
            self.skipped.push(name.into());
        }
        found.insert(name.into(), PathEntry::Covers);
        Ok(())
    }

    /// Replaces each symbolic link by its target file, as it is read in a container. To be called once every layer is read.
    /// A link to nothing, or to a folder, is skipped.
    pub fn follow_links(&mut self) -> Result<(), LayerError> {
        let links = std::mem::take(&mut self.links);
        for (path, first) in &links {
            if self.files.contains_key(path) {
                continue;
            }
            let steps = std::iter::successors(Some(first), |at| links.get(*at)).take(MAX_LINKS);
            match steps.filter_map(|at| self.files.get(at)).next().cloned() {
                Some(bytes) => {
                    self.count(bytes.len() as u64)?;
                    self.files.insert(path.clone(), bytes);
                }
                None => self.skipped.push(path.clone()),
            }
        }
        Ok(())
    }

    fn keep<R: Read>(&mut self, entry: tar::Entry<'_, R>) -> Result<Vec<u8>, LayerError> {
        let left = MAX_KEPT_BYTES.saturating_sub(self.kept_bytes);
        let mut bytes = Vec::new();
        let size = entry.header().entry_size().map_err(reading)?;
        entry.take(left.saturating_add(1)).read_to_end(&mut bytes).map_err(reading)?;
        let read = bytes.len() as u64;
        if read > left {
            return Err(self.too_much(MAX_KEPT_BYTES, "bytes"));
        }
        if read < size {
            return Err(reading(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends in the middle of a file")));
        }
        self.count(read)?;
        Ok(bytes)
    }

    /// Counts bytes that are kept, and refuses them if that is too much.
    fn count(&mut self, bytes: u64) -> Result<(), LayerError> {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        if self.kept_bytes > MAX_KEPT_BYTES { Err(self.too_much(MAX_KEPT_BYTES, "bytes")) } else { Ok(()) }
    }

    /// Counts a path that is kept, which an entry of any kind has and which an attacker may choose.
    fn note(&mut self, path: &str, target: &str) -> Result<(), LayerError> {
        let bytes = path.len().max(target.len());
        if bytes > MAX_PATH {
            return Err(LayerError::LongPath { bytes, prefixes: self.prefixes.join(" and ") });
        }
        self.kept_paths += 1;
        if self.kept_paths > MAX_KEPT_PATHS {
            return Err(self.too_much(MAX_KEPT_PATHS as u64, "paths"));
        }
        // It stands in up to three lists.
        self.count(3 * (path.len() + target.len()) as u64)
    }

    fn too_much(&self, limit: u64, unit: &'static str) -> LayerError {
        LayerError::TooMuch { limit, unit, prefixes: self.prefixes.join(" and ") }
    }

    /// Whether an upper layer defines this path or a folder above it.
    fn is_covered(&self, path: &str) -> bool {
        let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        above.chain([path]).any(|p| self.covered.contains(p))
    }

    /// Whether the path is inside one of the prefixes, or one of them inside it.
    fn touches(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        self.prefixes.iter().any(|p| inside.starts_with(p.as_str()) || p.starts_with(&inside))
    }
}

pub(super) fn reading(cause: io::Error) -> LayerError {
    if cause.kind() == io::ErrorKind::StorageFull {
        return LayerError::Expands;
    }
    LayerError::Io { attempt: "read", cause }
}

/// The path that a whiteout entry deletes from lower layers: `a/.wh.b` deletes `a/b`, `a/.wh..wh..opq` everything in `a`.
fn deleted_path(name: &str) -> Option<String> {
    let (folder, base) = name.rsplit_once('/').unwrap_or(("", name));
    if base == ".wh..wh..opq" {
        return Some(folder.to_string());
    }
    let deleted = base.strip_prefix(".wh.")?;
    Some(if folder.is_empty() { deleted.to_string() } else { format!("{folder}/{deleted}") })
}

/// The path that a symbolic link at `path` leads to; `None` if that is outside the topmost folder of `path`.
fn beside(path: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.len() <= 1 => return None,
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests;
