//! A catalog in a folder: every file of it that no `.indexignore` excludes, read by two threads. One of them reads on while
//! the other decodes.

mod ignored;

use crate::olm::catalog::blobs::{Blobs, BlobsError, Document, Form, MAX_DOCUMENT};
use crate::olm::catalog::builder::{Catalog, CatalogBuilder, CatalogError, FileId, MAX_FILES};
use crate::olm::catalog::decode::Blob;
use crate::olm::catalog::fault::{Reason, Rules};
use ignore::{DirEntry, WalkBuilder};
use ignored::{IGNORE_FILE, Ignored, MAX_PATTERNS};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Documents that are larger are decoded one at a time, so that two do not take their memory at once.
const LARGE: usize = 1 << 20;
static DECODING_LARGE: Mutex<()> = Mutex::new(());

/// Why a folder cannot be read as a catalog.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot read the catalog {path}: {cause}", path = path.display())]
    Root { path: PathBuf, cause: io::Error },
    #[error("cannot read the catalog {path}: {cause}", path = path.display())]
    Catalog { path: PathBuf, cause: CatalogError },
    #[error("{file}, line {line}: {reason}")]
    Blob { file: String, line: usize, reason: Reason },
    #[error("{0} is not what it was when it was read: do not change the catalog meanwhile")]
    Changed(String),
}

/// Where a blob is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Path in the catalog.
    pub file: Arc<str>,
    /// The file itself, to which a link may lead.
    pub path: Arc<Path>,
    /// Where the document begins, from 1.
    pub line: usize,
    /// In bytes.
    pub offset: u64,
    pub length: usize,
    pub form: Form,
}

/// Calls `each` with each blob, by file and line. Unlike [`read()`] it ends with the first one that nobody understands.
pub(crate) fn each_blob(dir: &Path, each: &mut dyn FnMut(&Place, Blob<'_>)) -> Result<(), FolderError> {
    let root = fs::canonicalize(dir).map_err(|cause| FolderError::Root { path: dir.to_owned(), cause })?;
    let files = files(&root, MAX_FILES);
    if files.len() > MAX_FILES {
        return Err(FolderError::Catalog { path: dir.to_owned(), cause: CatalogError::TooManyFiles });
    }
    let mut json = Vec::new();
    for (path, target) in files {
        let file: Arc<str> = name(&root, &path).into();
        let wrong = |line: usize, reason: Reason| FolderError::Blob { file: file.to_string(), line, reason };
        let target: Arc<Path> = target.map_err(|reason| wrong(0, reason))?.into();
        let unreadable = |error: io::Error| wrong(0, Reason::Unreadable(error.to_string()));
        let mut blobs = Blobs::new(File::open(&target).map_err(unreadable)?);
        loop {
            let document = blobs.next_document().map_err(|error| match error {
                BlobsError::Io(error) => unreadable(error),
                BlobsError::TooLarge { line } => wrong(line, Reason::TooLarge { limit: MAX_DOCUMENT }),
            })?;
            let Some(document) = document else { break };
            let Document { line, offset, form, bytes } = document;
            let place = Place { file: file.clone(), path: target.clone(), line, offset, length: bytes.len(), form };
            match document.decode(&mut json).blob() {
                Ok(blob) => blob.into_iter().for_each(|blob| each(&place, blob)),
                Err(reason) => return Err(wrong(line, reason.clone())),
            }
        }
    }
    Ok(())
}

impl Place {
    /// The JSON of the blob that was found here.
    pub(crate) fn json(&self) -> Result<String, FolderError> {
        let unreadable = |error: io::Error| {
            let (file, reason) = (self.file.to_string(), Reason::Unreadable(error.to_string()));
            FolderError::Blob { file, line: self.line, reason }
        };
        let mut bytes = vec![0; self.length];
        File::open(&self.path).and_then(|file| file.read_exact_at(&mut bytes, self.offset)).map_err(unreadable)?;
        let document = Document { bytes: &bytes, form: self.form, line: self.line, offset: self.offset };
        let mut json = Vec::new();
        let decoded = document.decode(&mut json);
        match decoded.blob() {
            Ok(Some(blob)) => Ok(blob.json.to_owned()),
            _ => Err(FolderError::Changed(self.file.to_string())),
        }
    }
}

/// Reads a catalog; what is large of it goes to `data`. What is wrong with single files and packages is no error, but part of
/// what is returned.
pub fn read<W: Write + Send>(dir: &Path, data: W) -> Result<Catalog<W>, FolderError> {
    read_by(Rules::Files, dir, data)
}

/// The same by these rules.
pub(crate) fn read_by<W: Write + Send>(rules: Rules, dir: &Path, data: W) -> Result<Catalog<W>, FolderError> {
    read_into(CatalogBuilder::by(rules, data), dir, None)
}

/// The same with another file in the place of one of them, or beside them.
pub(crate) fn read_with<W: Write + Send>(
    dir: &Path,
    data: W,
    other: Option<(&Path, &Path)>,
) -> Result<Catalog<W>, FolderError> {
    read_into(CatalogBuilder::new(data), dir, other)
}

fn read_into<W: Write + Send>(
    builder: CatalogBuilder<W>,
    dir: &Path,
    other: Option<(&Path, &Path)>,
) -> Result<Catalog<W>, FolderError> {
    let root = fs::canonicalize(dir).map_err(|cause| FolderError::Root { path: dir.to_owned(), cause })?;
    let failed = |cause| FolderError::Catalog { path: dir.to_owned(), cause };
    let builder = Mutex::new(builder);
    let mut files = files(&root, MAX_FILES);
    if let Some((place, with)) = other {
        let is_there = |(_, target): &Found| target.as_ref().is_ok_and(|target| target == place);
        match files.iter().position(is_there).and_then(|at| files.get_mut(at)) {
            Some((_, target)) => *target = Ok(with.to_owned()),
            None => files.push_back((place.to_owned(), Ok(with.to_owned()))),
        }
    }
    let source = Mutex::new(Source { files, root, open: None });
    let work = || work(&source, &builder);
    let (one, other) = thread::scope(|scope| {
        // Without a second thread it takes longer.
        let second = thread::Builder::new().name("catalog".to_owned()).spawn_scoped(scope, work);
        let one = work();
        (one, second.map_or(Ok(()), |second| second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    });
    one.and(other).map_err(failed)?;
    builder.into_inner().unwrap_or_else(PoisonError::into_inner).finish().map_err(failed)
}

/// The files of the catalog, of which one is open.
struct Source {
    root: PathBuf,
    files: VecDeque<Found>,
    open: Option<(FileId, Blobs<File>)>,
}

/// A file, or why it is not read.
type Found = (PathBuf, Result<PathBuf, Reason>);

/// Takes documents of the source until there are no more.
fn work<W: Write>(source: &Mutex<Source>, builder: &Mutex<CatalogBuilder<W>>) -> Result<(), CatalogError> {
    let (mut bytes, mut json) = (Vec::new(), Vec::new());
    let done = loop {
        let next = lock(source).next(&mut bytes, builder);
        let added = match next {
            Ok(None) => break Ok(()),
            Ok(Some((file, document))) => {
                let _alone = (document.bytes.len() > LARGE).then(|| lock(&DECODING_LARGE));
                let decoded = document.decode(&mut json);
                lock(builder).add(file, decoded)
            }
            Err(error) => Err(error),
        };
        if added.is_err() {
            break added;
        }
    };
    if done.is_err() {
        // The other thread need not go on.
        let mut source = lock(source);
        source.files.clear();
        source.open = None;
    }
    done
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source {
    fn next<'a, W: Write>(
        &mut self,
        bytes: &'a mut Vec<u8>,
        builder: &Mutex<CatalogBuilder<W>>,
    ) -> Result<Option<(FileId, Document<'a>)>, CatalogError> {
        loop {
            let Some((file, blobs)) = &mut self.open else {
                match self.files.pop_front() {
                    None => return Ok(None),
                    Some(found) => self.open(found, builder)?,
                }
                continue;
            };
            let file = *file;
            let (line, reason) = match blobs.next_document() {
                Ok(Some(document)) => return Ok(Some((file, document.copy(bytes)))),
                Ok(None) => {
                    self.open = None;
                    continue;
                }
                Err(BlobsError::Io(error)) => (0, Reason::Unreadable(error.to_string())),
                Err(BlobsError::TooLarge { line }) => (line, Reason::TooLarge { limit: MAX_DOCUMENT }),
            };
            self.open = None;
            lock(builder).unreadable(file, line, reason);
        }
    }

    fn open<W: Write>(&mut self, found: Found, builder: &Mutex<CatalogBuilder<W>>) -> Result<(), CatalogError> {
        let (path, target) = found;
        let file = lock(builder).file(name(&self.root, &path))?;
        let opened =
            target.and_then(|target| File::open(target).map_err(|error| Reason::Unreadable(error.to_string())));
        match opened {
            Ok(opened) => self.open = Some((file, Blobs::new(opened))),
            Err(reason) => lock(builder).unreadable(file, 0, reason),
        }
        Ok(())
    }
}

/// The path in the catalog.
fn name(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).ok().filter(|inside| !inside.as_os_str().is_empty());
    inside.or(path.file_name().map(Path::new)).unwrap_or(path).to_string_lossy().into_owned()
}

/// The files below a folder, by their paths, or the one file that the path names. Of more than `limit` only so many that this shows.
fn files(root: &Path, limit: usize) -> VecDeque<Found> {
    let mut found = VecDeque::new();
    let ignored = Arc::new(Mutex::new(Ignored::of(root)));
    let keeps = {
        let ignored = ignored.clone();
        let is_folder = |entry: &DirEntry| entry.file_type().is_some_and(|kind| kind.is_dir());
        move |entry: &DirEntry| lock(&ignored).keeps(entry.path(), is_folder(entry))
    };
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).follow_links(false).filter_entry(keeps).sort_by_file_name(Ord::cmp);
    for entry in walk.build() {
        if found.len() > limit {
            break;
        }
        match entry {
            Ok(entry) => found.extend(target(root, &entry).map(|target| (entry.into_path(), target))),
            Err(error) => found.push_back((root.to_owned(), Err(Reason::Unreadable(error.to_string())))),
        }
    }
    let mut ignored = lock(&ignored);
    if let Some(path) = ignored.excess.take() {
        return [(path, Err(Reason::ManyPatterns { limit: MAX_PATTERNS }))].into();
    }
    found.extend(ignored.faults.drain(..).map(|(path, reason)| (path, Err(reason))));
    found
}

/// The file that an entry of a folder is; `None` for a folder, and for what says which files are none of the catalog.
fn target(root: &Path, entry: &DirEntry) -> Option<Result<PathBuf, Reason>> {
    let kind = entry.file_type()?;
    if kind.is_dir() || entry.file_name() == IGNORE_FILE {
        return None;
    }
    if kind.is_file() {
        return Some(Ok(entry.path().to_owned()));
    }
    if !kind.is_symlink() {
        return Some(Err(Reason::Special));
    }
    let unreadable = |error: io::Error| Reason::Unreadable(error.to_string());
    let target = fs::canonicalize(entry.path()).map_err(unreadable);
    Some(target.and_then(|target| match fs::metadata(&target).map_err(unreadable)? {
        _ if !target.starts_with(root) => Err(Reason::LinkOut),
        metadata if metadata.is_file() => Ok(target),
        metadata if metadata.is_dir() => Err(Reason::LinkToFolder),
        _ => Err(Reason::Special),
    }))
}

#[cfg(test)]
mod tests;
