//! A release folder on disk: reads its files for `release::load`, and hashes it so that a change is noticed.

use crate::release::{PayloadFiles, SourceFile, metadata, references};
use sha2::{Digest, Sha256};
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes. The largest of a known release has 1.5 MB.
pub(crate) const MAX_FILE: u64 = 4 << 20;
/// Most bytes of all files together, which are in memory at once. The largest known release has 20 MB.
pub(crate) const MAX_TOTAL: u64 = 32 << 20;
/// Most entries of a release folder. The largest known release has 800.
const MAX_ENTRIES: usize = 10_000;
const MANIFESTS: &str = "manifests";
const RELEASE_MANIFESTS: &str = "release-manifests";

/// A folder that cannot be read as a release.
#[derive(Debug, thiserror::Error)]
pub enum PayloadDirError {
    #[error(
        "{place} is not a release payload: {missing} is missing (a payload has manifests/, release-manifests/, release-manifests/release-metadata and release-manifests/image-references)"
    )]
    Missing { place: PathBuf, missing: String },
    #[error("cannot {attempt} {path}: {cause}")]
    Io { attempt: &'static str, path: PathBuf, cause: io::Error },
    #[error("{path} is a link that leads out of the payload to {target}; a payload must be complete in itself")]
    LinkOut { path: PathBuf, target: PathBuf },
    #[error("{path} is neither a file nor a folder; remove it from the payload")]
    Special { path: PathBuf },
    #[error("{path} is larger than the {MAX_FILE} bytes that a file of a payload may have")]
    FileTooLarge { path: PathBuf },
    #[error("the files in {place} are larger than the {MAX_TOTAL} bytes that a payload may have together")]
    TotalTooLarge { place: PathBuf },
    #[error("{place} has more than the {MAX_ENTRIES} entries that a payload may have")]
    TooManyEntries { place: PathBuf },
    #[error("the name of {path} is not UTF-8")]
    Name { path: PathBuf },
}

pub(crate) fn io_error(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PayloadDirError {
    let path = path.to_owned();
    move |cause| PayloadDirError::Io { attempt, path, cause }
}

/// Checks that the four paths exist that every payload has. Reads no content.
pub(crate) fn validate(dir: &Path) -> Result<(), PayloadDirError> {
    let described = [metadata::FILE, references::FILE].map(|file| format!("{RELEASE_MANIFESTS}/{file}"));
    for path in [MANIFESTS.to_owned(), RELEASE_MANIFESTS.to_owned()].into_iter().chain(described) {
        if let Err(error) = fs::metadata(dir.join(&path)) {
            return Err(match error.kind() {
                io::ErrorKind::NotFound => PayloadDirError::Missing { place: dir.to_owned(), missing: path },
                _ => io_error("look at", &dir.join(&path))(error),
            });
        }
    }
    Ok(())
}

/// Reads one file of a payload, within the same bounds as all others.
pub(crate) fn read_file(dir: &Path, file: &Path) -> Result<Vec<u8>, PayloadDirError> {
    let path = dir.join(file);
    FolderReader::new(dir, &[MANIFESTS, RELEASE_MANIFESTS])?.file(&path)?.ok_or(PayloadDirError::Special { path })
}

/// Reads a file that is to become one of a payload, within the same bound.
pub(crate) fn read_bounded(path: &Path) -> Result<Vec<u8>, PayloadDirError> {
    bounded(path, path)
}

/// `path` is how the file is named in an error.
fn bounded(file: &Path, path: &Path) -> Result<Vec<u8>, PayloadDirError> {
    let metadata = fs::metadata(file).map_err(io_error("look at", path))?;
    if !metadata.is_file() {
        return Err(PayloadDirError::Special { path: path.to_owned() });
    }
    // All files of a release are in memory at once, so none takes more than it needs.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(MAX_FILE)).unwrap_or(0));
    // Not by the length in the metadata, because the file may grow meanwhile.
    let file = File::open(file).map_err(io_error("open", path))?;
    let length = file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io_error("read", path))? as u64;
    if length > MAX_FILE {
        return Err(PayloadDirError::FileTooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Reads a plain folder of manifests: those in it, not those in its folders, and `release-metadata` and `image-references` if
/// they exist. All of them count as files of `release-manifests/`.
pub(crate) fn read_plain(dir: &Path) -> Result<PayloadFiles, PayloadDirError> {
    let mut reader = FolderReader::new(dir, &[""])?;
    let release = reader.files("", &[metadata::FILE, references::FILE])?;
    Ok(PayloadFiles { place: dir.display().to_string(), own: Vec::new(), release, unreadable: reader.unreadable })
}

/// Whether a folder has one of a payload's folders, so that it is meant to be a payload.
pub(crate) fn is_payload_root(dir: &Path) -> bool {
    [MANIFESTS, RELEASE_MANIFESTS].iter().any(|folder| dir.join(folder).is_dir())
}

/// Reads the manifests, `release-metadata` and `image-references` of a payload. Other files are not read.
pub fn read(dir: &Path) -> Result<PayloadFiles, PayloadDirError> {
    validate(dir)?;
    let mut reader = FolderReader::new(dir, &[MANIFESTS, RELEASE_MANIFESTS])?;
    let own = reader.files(MANIFESTS, &[])?;
    let release = reader.files(RELEASE_MANIFESTS, &[metadata::FILE, references::FILE])?;
    Ok(PayloadFiles { place: dir.display().to_string(), own, release, unreadable: reader.unreadable })
}

struct FolderReader<'a> {
    dir: &'a Path,
    /// The folders that may be read, without symbolic links in their paths.
    within: Vec<PathBuf>,
    /// Bytes read so far.
    total: u64,
    /// Manifests that could not be read.
    unreadable: Vec<String>,
}

impl<'a> FolderReader<'a> {
    /// Restricts reading to some folders of `dir`, which may be the root of a file system.
    fn new(dir: &'a Path, folders: &[&str]) -> Result<Self, PayloadDirError> {
        let root = fs::canonicalize(dir).map_err(io_error("resolve", dir))?;
        let within = folders.iter().map(|folder| root.join(folder)).collect();
        Ok(FolderReader { dir, within, total: 0, unreadable: Vec::new() })
    }

    /// The manifests of one folder, and the files in `others`.
    fn files(&mut self, folder: &str, others: &[&str]) -> Result<Vec<SourceFile>, PayloadDirError> {
        let folder = self.dir.join(folder);
        self.inside(&folder)?;
        let mut files = Vec::new();
        for (listed, entry) in fs::read_dir(&folder).map_err(io_error("list", &folder))?.enumerate() {
            if listed == MAX_ENTRIES {
                return Err(PayloadDirError::TooManyEntries { place: folder });
            }
            let entry = entry.map_err(io_error("list", &folder))?;
            let (path, name) = (entry.path(), entry.file_name());
            let manifest = [".yaml", ".yml", ".json"].iter().any(|suffix| name.as_bytes().ends_with(suffix.as_bytes()));
            if !manifest && !others.iter().any(|file| name == *file) {
                continue;
            }
            let read = match name.into_string() {
                Ok(name) => self.file(&path).map(|bytes| bytes.map(|bytes| SourceFile { name, bytes })),
                Err(_) => Err(PayloadDirError::Name { path }),
            };
            match read {
                Ok(file) => files.extend(file),
                Err(error @ PayloadDirError::TotalTooLarge { .. }) => return Err(error),
                // One unreadable manifest is reported together with whatever is wrong with the others.
                Err(error) if manifest => self.unreadable.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        // The order of `read_dir` is random.
        self.unreadable.sort();
        Ok(files)
    }

    /// Content of a file; `None` for a folder.
    fn file(&mut self, path: &Path) -> Result<Option<Vec<u8>>, PayloadDirError> {
        let resolved = self.inside(path)?;
        if fs::metadata(&resolved).map_err(io_error("look at", path))?.is_dir() {
            return Ok(None);
        }
        let bytes = bounded(&resolved, path)?;
        self.total += bytes.len() as u64;
        if self.total > MAX_TOTAL {
            return Err(PayloadDirError::TotalTooLarge { place: self.dir.to_owned() });
        }
        Ok(Some(bytes))
    }

    /// The path without symbolic links, if it is inside the payload.
    fn inside(&self, path: &Path) -> Result<PathBuf, PayloadDirError> {
        let target = fs::canonicalize(path).map_err(io_error("resolve", path))?;
        if self.within.iter().any(|folder| target.starts_with(folder)) {
            Ok(target)
        } else {
            Err(PayloadDirError::LinkOut { path: path.to_owned(), target })
        }
    }
}

/// SHA-256 of the two folders of a release as lower-case hex: over every entry's path, kind and content in byte order of
/// paths. Of a link its target counts; it is not followed. Other files next to the two folders do not count, because they
/// are never read.
pub fn tree_hash(dir: &Path) -> Result<String, PayloadDirError> {
    let mut entries = Vec::new();
    let mut open = Vec::new();
    for folder in [MANIFESTS, RELEASE_MANIFESTS] {
        let path = dir.join(folder);
        let kind = fs::symlink_metadata(&path).map_err(io_error("look at", &path))?.file_type();
        collect(PathBuf::from(folder), kind, &mut entries, &mut open);
    }
    while let Some(folder) = open.pop() {
        let path = dir.join(&folder);
        for entry in fs::read_dir(&path).map_err(io_error("list", &path))? {
            let entry = entry.map_err(io_error("list", &path))?;
            let kind = entry.file_type().map_err(io_error("look at", &entry.path()))?;
            collect(folder.join(entry.file_name()), kind, &mut entries, &mut open);
            if entries.len() > MAX_ENTRIES {
                return Err(PayloadDirError::TooManyEntries { place: dir.to_owned() });
            }
        }
    }
    entries.sort_by(|a, b| a.0.as_os_str().as_bytes().cmp(b.0.as_os_str().as_bytes()));
    let mut hash = Sha256::new();
    let mut left = MAX_TOTAL;
    for (relative, kind) in entries {
        let (label, content) = content(dir, &relative, kind, &mut left)?;
        // Each part is preceded by its length, so that different trees never give the same input.
        for part in [relative.as_os_str().as_bytes(), content.as_slice()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update([label]);
    }
    Ok(hex::encode(hash.finalize()))
}

fn collect(path: PathBuf, kind: FileType, entries: &mut Vec<(PathBuf, FileType)>, open: &mut Vec<PathBuf>) {
    if kind.is_dir() {
        open.push(path.clone());
    }
    entries.push((path, kind));
}

/// Kind and content of an entry: the target of a link, the hash of a file. `left` is how many bytes may still be read.
fn content(dir: &Path, relative: &Path, kind: FileType, left: &mut u64) -> Result<(u8, Vec<u8>), PayloadDirError> {
    let path = dir.join(relative);
    if kind.is_dir() {
        return Ok((b'd', Vec::new()));
    }
    if kind.is_symlink() {
        let target = fs::read_link(&path).map_err(io_error("read the link", &path))?;
        return Ok((b'l', target.as_os_str().as_bytes().to_vec()));
    }
    if !kind.is_file() {
        return Err(PayloadDirError::Special { path });
    }
    let mut hash = HashWriter(Sha256::new());
    let file = File::open(&path).map_err(io_error("open", &path))?;
    let length = io::copy(&mut file.take(*left + 1), &mut hash).map_err(io_error("read", &path))?;
    *left = left.checked_sub(length).ok_or_else(|| PayloadDirError::TotalTooLarge { place: dir.to_owned() })?;
    Ok((b'f', hash.0.finalize().to_vec()))
}

struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
