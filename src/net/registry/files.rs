//! Files of an image, written into a folder: those of some of its directories, as a container would see them. An image may be of any
//! size and come from anybody: what is kept in memory is the names of the files that are wanted and a few buffers.

use super::RegistryError;
use super::blocking::Blocking;
pub(crate) use super::blocking::Slowest;
use super::content::kept;
use super::image::Image;
use super::layer::archive::{Bounded, each_entry, unpacked};
use super::layer::{LayerError, reading};
use super::partial::Partial;
use super::place::{Place, size_of};
use crate::images::overlay::{self, Kind, Overlay, OverlayError, Round, Summary};
use oci_client::manifest::OciDescriptor;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;

/// What is read and written at once.
const BUFFER: usize = 64 << 10;

/// How much is read of an image and kept of it, and how long that may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most files, and bytes of all of them and of one.
    pub files: usize,
    pub bytes: u64,
    pub file_bytes: u64,
    /// Most bytes of the layers that are read, as they are stored, and decompressed.
    pub packed: u64,
    pub unpacked: u64,
    /// Most bytes that zstd data may refer back: so much memory is needed for them. What `podman` and `buildkit` write needs 8 MiB.
    pub window: u64,
    /// For all of it.
    pub time: Duration,
    /// How slowly a layer may come.
    pub slowest: Option<Slowest>,
}

/// Files of an image cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    #[error(transparent)]
    Layer(LayerError),
    #[error(
        "its layers have {bytes} bytes or more, and {limit} are read at most: is this the right image? else raise the limit"
    )]
    Packed { bytes: u64, limit: u64 },
    #[error(
        "its layers have more than {limit} bytes when they are decompressed: is this the right image? else raise the limit, or use a \
         smaller base image"
    )]
    Unpacked { limit: u64 },
    #[error(
        "the decompressed layer has the digest {found}, but the image config says {expected}: the image is damaged; build or push \
         it again"
    )]
    DiffId { found: String, expected: String },
    #[error("not all of it was read within {} s: is the line to the registry slow? else raise the limit", .0.as_secs())]
    Late(Duration),
    #[error("cannot write {path}: {cause}")]
    Disk { path: String, cause: io::Error },
    #[error("{0} exists and is not empty: name another folder")]
    Exists(String),
    #[error("{0}")]
    Stopped(String),
}

impl From<LayerError> for FilesError {
    fn from(error: LayerError) -> FilesError {
        FilesError::Layer(error)
    }
}

/// Writes the files below these directories of an image into the folder `to`, which must not exist, or be empty: each directory
/// below its own path, `/configs` as `to/configs`. Links are replaced by what they lead to. The folder appears when all of it is
/// there, and does not if none of the directories exists; it is not forced to the disk, so that after a power failure less may be in
/// it. The digest of each layer is checked; layers that cannot count are not read.
pub(crate) async fn write(
    place: &Place,
    image: &Image,
    directories: &[&str],
    to: &Path,
    limits: &Limits,
) -> Result<Summary, RegistryError> {
    let whole = |source: FilesError| RegistryError::Files { image: name(place, image), source };
    let work = Work::new(image.manifest.layers.len(), directories, to, limits).map_err(whole)?;
    let written = timeout(limits.time, work.perform(place, image)).await;
    written.unwrap_or_else(|_| Err(whole(FilesError::Late(limits.time))))
}

fn name(place: &Place, image: &Image) -> String {
    match place {
        Place::Registry(repository) => super::pull_spec(&repository.reference, &image.digest),
        Place::Folder(layout) => format!("{} in {}", image.digest, layout.root().display()),
    }
}

/// The files on their way.
struct Work {
    overlay: Overlay,
    limits: Limits,
    to: PathBuf,
    /// Has the content of files under their numbers in one folder, and at the end all files in another one.
    aside: Partial,
    /// Bytes that may still be read in this round.
    packed: u64,
    unpacked: u64,
    buffer: Vec<u8>,
}

impl Work {
    fn new(layers: usize, directories: &[&str], to: &Path, limits: &Limits) -> Result<Work, FilesError> {
        let keep = overlay::Limits { files: limits.files, bytes: limits.bytes, file_bytes: limits.file_bytes };
        if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(FilesError::Exists(to.display().to_string()));
        }
        let overlay = Overlay::new(layers, directories, keep)?;
        let disk = |cause: io::Error| FilesError::Disk { path: to.display().to_string(), cause };
        let aside = Partial::folder(to, limits.time).map_err(disk)?;
        let (packed, unpacked) = (limits.packed, limits.unpacked);
        Ok(Work { overlay, limits: *limits, to: to.to_owned(), aside, packed, unpacked, buffer: vec![0; BUFFER] })
    }

    async fn perform(mut self, place: &Place, image: &Image) -> Result<Summary, RegistryError> {
        let whole = |source: FilesError| RegistryError::Files { image: name(place, image), source };
        // Ends what still reads when nobody waits for this any more.
        let stop = CancellationToken::new();
        let _stopped = stop.clone().drop_guard();
        loop {
            (self.packed, self.unpacked) = (self.limits.packed, self.limits.unpacked);
            let mut at = None;
            while let Some(number) = self.overlay.next_layer(at) {
                let Some(part) = image.manifest.layers.get(number) else { break };
                self = self.layer(place, image, number, part, &stop).await?;
                at = Some(number);
            }
            let gone = stop.clone();
            let settled = tokio::task::spawn_blocking(move || self.settle(&gone)).await;
            let settled = settled.unwrap_or_else(|error| Err(FilesError::Stopped(error.to_string())));
            match settled.map_err(whole)? {
                (_, Some(summary)) => return Ok(summary),
                (work, None) => self = work,
            }
        }
    }

    /// Gives the files their names, unless the layers must be read once more.
    fn settle(mut self, stop: &CancellationToken) -> Result<(Work, Option<Summary>), FilesError> {
        let summary = match self.overlay.end_round()? {
            Round::Again => None,
            Round::Done(summary) => {
                self.finish(&summary, stop)?;
                Some(summary)
            }
        };
        Ok((self, summary))
    }

    async fn layer(
        mut self,
        place: &Place,
        image: &Image,
        number: usize,
        part: &OciDescriptor,
        stop: &CancellationToken,
    ) -> Result<Work, RegistryError> {
        let of_layer = |source: FilesError| {
            let image = format!("{}, layer {}", name(place, image), part.digest);
            RegistryError::Files { image, source }
        };
        let size = size_of(part).map_err(|cause| place.failed(&format!("read layer {}", part.digest), cause))?;
        let limit = self.limits.packed;
        let left = self.packed.checked_sub(size);
        self.packed = left.ok_or_else(|| of_layer(FilesError::Packed { bytes: limit - self.packed + size, limit }))?;
        let (content, failure) = kept(place.content(part).await?);
        let stored = Blocking::new(StreamReader::new(content), size, self.limits.time, stop.clone());
        let stored = stored.slowest(self.limits.slowest);
        let diff_id = diff_id(image, number);
        // Decompressing uses the CPU and writing blocks, so neither may happen on the threads of the runtime.
        let read = tokio::task::spawn_blocking(move || {
            let result = self.read(stored, number, diff_id.as_deref());
            (self, result)
        });
        let (work, result) = read.await.map_err(|error| of_layer(FilesError::Stopped(error.to_string())))?;
        result.map_err(|error| match failure.get() {
            // Whatever the reader makes of it, the content did not come as it should.
            Some(cause) => RegistryError::Source(cause.clone()),
            None => of_layer(error),
        })?;
        Ok(work)
    }

    /// Reads all of a layer, so that its digests can be checked.
    fn read(&mut self, stored: impl Read, number: usize, diff_id: Option<&str>) -> Result<(), FilesError> {
        let mut stored = BufReader::with_capacity(BUFFER, stored);
        let result = self.read_archive(&mut stored, number, diff_id);
        if matches!(result, Ok(()) | Err(FilesError::Layer(_))) {
            // What cannot be read may not be what was pushed, which shows at its end.
            io::copy(&mut stored, &mut io::sink()).map_err(reading)?;
        }
        result
    }

    fn read_archive(
        &mut self,
        stored: &mut impl BufRead,
        number: usize,
        diff_id: Option<&str>,
    ) -> Result<(), FilesError> {
        let limit = self.limits.unpacked;
        let expands = |error: FilesError| match error {
            FilesError::Layer(LayerError::Expands) => FilesError::Unpacked { limit },
            other => other,
        };
        let bounded = Bounded::new(unpacked(stored, self.limits.window)?, self.unpacked);
        let mut archive = Hashed { archive: bounded, hash: Sha256::new(), read: 0 };
        each_entry(&mut archive, |entry, name, target| self.take(number, entry, name, target)).map_err(expands)?;
        io::copy(&mut archive, &mut io::sink()).map_err(|error| expands(reading(error).into()))?;
        self.unpacked = self.unpacked.saturating_sub(archive.read);
        let found = format!("sha256:{}", hex::encode(archive.hash.finalize()));
        match diff_id {
            Some(expected) if expected != found => {
                Err(FilesError::DiffId { found, expected: expected.chars().take(100).collect() })
            }
            _ => Ok(()),
        }
    }

    fn take<R: Read>(
        &mut self,
        layer: usize,
        mut entry: tar::Entry<'_, R>,
        name: &str,
        target: &str,
    ) -> Result<(), FilesError> {
        let size = entry.size();
        let Some(number) = self.overlay.entry(layer, name, kind(&entry, name, target))? else { return Ok(()) };
        let path = self.content(number);
        let disk = |cause: io::Error| FilesError::Disk { path: path.display().to_string(), cause };
        let mut file = match create(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path.parent().unwrap_or(&path)).and_then(|()| create(&path))
            }
            created => created,
        }
        .map_err(disk)?;
        let mut left = size;
        while left > 0 {
            let read = entry.read(&mut self.buffer).map_err(reading)?;
            let part = self.buffer.get(..read).filter(|part| !part.is_empty());
            let ends = || reading(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends in the middle of a file"));
            file.write_all(part.ok_or_else(ends)?).map_err(disk)?;
            left = left.saturating_sub(read as u64);
        }
        Ok(())
    }

    fn content(&self, number: u32) -> PathBuf {
        self.aside.0.join("content").join(number.to_string())
    }

    /// Gives all files their names, and the folder its own.
    fn finish(&self, summary: &Summary, stop: &CancellationToken) -> Result<(), FilesError> {
        if summary.found.is_empty() {
            return Ok(());
        }
        let failed = |path: &Path, cause: io::Error| FilesError::Disk { path: path.display().to_string(), cause };
        let tree = self.aside.0.join("tree");
        for directory in &summary.found {
            let path = tree.join(directory);
            fs::create_dir_all(&path).map_err(|cause| failed(&path, cause))?;
        }
        // How many files have a content, by its number.
        let mut uses: Vec<u8> = Vec::new();
        self.overlay.files(&mut |_, number| {
            let at = number as usize;
            uses.resize(uses.len().max(at + 1), 0);
            uses.iter_mut().skip(at).take(1).for_each(|count| *count = count.saturating_add(1));
        })?;
        let mut result = Ok(());
        self.overlay.files(&mut |path, number| {
            if result.is_ok() {
                let (from, to) = (self.content(number), tree.join(path));
                let once = uses.get(number as usize) == Some(&1);
                result = put(&from, &to, once).map_err(|cause| failed(&to, cause));
            }
        })?;
        result?;
        if stop.is_cancelled() {
            return Err(FilesError::Stopped("nobody waits for it any more".to_owned()));
        }
        fs::rename(&tree, &self.to).map_err(|cause| failed(&self.to, cause))
    }
}

fn put(from: &Path, to: &Path, once: bool) -> io::Result<()> {
    let put = || if once { fs::rename(from, to) } else { fs::copy(from, to).map(drop) };
    match put() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(to.parent().unwrap_or(to))?;
            put()
        }
        done => done,
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)
}

fn kind<'a, R: Read>(entry: &tar::Entry<'_, R>, name: &str, target: &'a str) -> Kind<'a> {
    use tar::EntryType as Type;
    match entry.header().entry_type() {
        // As old archives write directories.
        Type::Regular if name.ends_with('/') => Kind::Directory,
        Type::Regular | Type::Continuous => Kind::File(entry.size()),
        Type::Directory => Kind::Directory,
        Type::Symlink => Kind::Link(target),
        Type::Link => Kind::HardLink(target),
        Type::Char | Type::Block => Kind::Other("device"),
        Type::Fifo => Kind::Other("named pipe"),
        Type::GNUSparse => Kind::Other("sparse file"),
        _ => Kind::Other("special file"),
    }
}

/// What the image config says of the digest of the decompressed layer.
fn diff_id(image: &Image, layer: usize) -> Option<String> {
    let all = image.config.pointer("/rootfs/diff_ids")?.as_array()?;
    let complete = all.len() == image.manifest.layers.len();
    all.get(layer).filter(|_| complete).and_then(Value::as_str).map(str::to_owned)
}

/// Hashes what is read.
struct Hashed<R> {
    archive: R,
    hash: Sha256,
    read: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.archive.read(buffer)?;
        self.hash.update(buffer.get(..read).unwrap_or_default());
        self.read += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
