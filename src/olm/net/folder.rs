//! A catalog in a folder: every file of it that no `.indexignore` excludes, read by two threads. One of them reads on while
//! the other decodes.

use crate::olm::catalog::blobs::{Blobs, BlobsError, Document, MAX_DOCUMENT};
use crate::olm::catalog::builder::{Catalog, CatalogBuilder, CatalogError, FileId, MAX_FILES};
use crate::olm::catalog::fault::Reason;
use ignore::{DirEntry, WalkBuilder};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Patterns of files that are no part of the catalog, in the syntax of `.gitignore`, for its folder and those below.
const IGNORE_FILE: &str = ".indexignore";

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
}

/// Reads a catalog; what is large of it goes to `data`. What is wrong with single files and packages is no error, but part of
/// what is returned.
pub fn read<W: Write + Send>(dir: &Path, data: W) -> Result<Catalog<W>, FolderError> {
    let root = fs::canonicalize(dir).map_err(|cause| FolderError::Root { path: dir.to_owned(), cause })?;
    let failed = |cause| FolderError::Catalog { path: dir.to_owned(), cause };
    let builder = Mutex::new(CatalogBuilder::new(data));
    let source = Mutex::new(Source { files: files(&root, MAX_FILES), root, open: None });
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
        let file = lock(builder).file(self.name(&path))?;
        let opened =
            target.and_then(|target| File::open(target).map_err(|error| Reason::Unreadable(error.to_string())));
        match opened {
            Ok(opened) => self.open = Some((file, Blobs::new(opened))),
            Err(reason) => lock(builder).unreadable(file, 0, reason),
        }
        Ok(())
    }

    /// The path in the catalog.
    fn name(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.root).ok().filter(|inside| !inside.as_os_str().is_empty());
        inside.or(path.file_name().map(Path::new)).unwrap_or(path).to_string_lossy().into_owned()
    }
}

/// The files below a folder, by their paths, or the one file that the path names. Of more than `limit` only so many that this shows.
fn files(root: &Path, limit: usize) -> VecDeque<Found> {
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).follow_links(false).add_custom_ignore_filename(IGNORE_FILE);
    walk.sort_by_file_name(Ord::cmp);
    let mut found = VecDeque::new();
    for entry in walk.build() {
        if found.len() > limit {
            break;
        }
        match entry {
            Ok(entry) => {
                if let Some(error) = entry.error() {
                    let patterns = entry.path().join(IGNORE_FILE);
                    found.push_back((patterns, Err(Reason::Patterns(error.to_string()))));
                }
                found.extend(target(root, &entry).map(|target| (entry.into_path(), target)));
            }
            Err(error) => found.push_back((root.to_owned(), Err(Reason::Unreadable(error.to_string())))),
        }
    }
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
