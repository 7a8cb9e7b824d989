//! What catalogs offer, on disk: a folder for each content, with its index, its data and what was found while it was read. It is
//! written aside and gets its name when all of it is there, so that whatever happens to the process, there is all of it or nothing.
//! Catalogs with the same content share it, in memory as well.

use crate::olm::catalog::builder::{Catalog, CatalogError};
use crate::olm::catalog::fault::{Fault, Rules};
use crate::olm::catalog::index::{Index, IndexError};
use crate::olm::catalog::served::{Content, Data};
use crate::olm::net::folder::{self, FolderError};
use crate::olm::source::content;
use crate::olm::source::health::Found;
use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

/// Files of a content. The last one is JSON.
const INDEX: &str = "index";
const DATA: &str = "data";
const FOUND: &str = "found";
/// What the names of folders begin with that are being written.
const ASIDE: &str = "aside-";
/// Only the process that has locked it uses the folder.
const LOCK: &str = "lock";
/// Faults that are kept of a catalog: a status shows fewer.
const MAX_FAULTS: usize = 50;

/// Contents cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("cannot use {path} for catalogs: {cause}; give a folder that can be written with --catalog-cache-dir")]
    Root { path: PathBuf, cause: io::Error },
    #[error(
        "another process keeps its catalogs in {0}: give each process a folder of its own with --catalog-cache-dir"
    )]
    Busy(PathBuf),
    #[error("cannot write {path}: {cause}{way_out}")]
    Write { path: PathBuf, cause: io::Error, way_out: &'static str },
    #[error(transparent)]
    Folder(FolderError),
    #[error("the index of the catalog: {0}")]
    Index(#[from] IndexError),
    #[error("reading the catalog has ended: {0}")]
    Stopped(String),
}

impl StoreError {
    /// Whether it is the catalog that cannot be kept, so that it would be the same the next time.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(self, StoreError::Folder(FolderError::Catalog { .. }) | StoreError::Index(IndexError::TooLarge))
    }

    pub(super) fn write(path: &Path, cause: io::Error) -> StoreError {
        let full = matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        let way_out = match full {
            true => {
                "; make room on that volume, or keep less there (--catalog-cache-size) or elsewhere (--catalog-cache-dir)"
            }
            false => "",
        };
        StoreError::Write { path: path.to_owned(), cause, way_out }
    }
}

/// The name of a content's folder: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    /// The same image read from the same folder is the same content, whatever its name is.
    pub(crate) fn of(content: &content::Content) -> Key {
        let directory = match content {
            content::Content::Image { directory, .. } => directory.as_str(),
            content::Content::ConfigMap { .. } => "ConfigMap",
            content::Content::Server { .. } => "server",
        };
        Key(hex::encode(Sha256::digest(format!("{}\n{directory}", content.digest()))))
    }

    fn is(name: &str) -> bool {
        name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

/// A content, and what was found while it was read.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub content: Arc<Content>,
    pub found: Arc<Found>,
}

/// What was found of a content counts as long as somebody has the content.
type Used = (Weak<Content>, Arc<Found>);

/// The folder of all contents.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    /// Bytes that are kept of what nobody uses.
    limit: u64,
    used: Mutex<BTreeMap<Key, Used>>,
    reading: Mutex<BTreeMap<Key, Weak<tokio::sync::Mutex<()>>>>,
    /// Is unlocked when it is closed.
    _lock: File,
}

/// A folder that is removed, with what is in it.
#[derive(Debug)]
pub(crate) struct Aside(PathBuf);

impl Aside {
    /// Where the files of the catalog are put. It does not exist yet.
    pub(crate) fn files(&self) -> PathBuf {
        self.0.join("files")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Most often it has got its name.
        let _gone = fs::remove_dir_all(&self.0);
    }
}

struct OnDisk(File);

impl Data for OnDisk {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

/// Reads the catalog in a folder, for who serves nothing else. `to`: an empty folder for its data; without one they are in memory.
pub(crate) fn content(catalog: &Path, to: Option<&Path>) -> Result<Stored, StoreError> {
    if let Some(to) = to {
        write(catalog, to, Rules::Files, Vec::new())?;
        return Ok(read(to)?);
    }
    let read = folder::read(catalog, Vec::new()).map_err(StoreError::Folder)?;
    let found = Arc::new(found(&read));
    Ok(Stored { content: Arc::new(Content::in_memory(read.index, read.data)), found })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Takes over the folder, which is made, and removes what a process has left that was killed. `limit`: bytes that are kept of
    /// contents that nobody uses.
    pub(crate) fn open(root: &Path, limit: u64) -> Result<Store, StoreError> {
        let failed = |cause| StoreError::Root { path: root.to_owned(), cause };
        fs::create_dir_all(root).map_err(failed)?;
        let lock = File::create(root.join(LOCK)).map_err(failed)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => StoreError::Busy(root.to_owned()),
            other => failed(other.into()),
        })?;
        for entry in fs::read_dir(root).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(ASIDE) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        let store =
            Store { root: root.to_owned(), limit, used: Mutex::default(), reading: Mutex::default(), _lock: lock };
        store.trim();
        Ok(store)
    }

    /// Held by who reads this content, so that whoever wants the same one waits, and finds it.
    pub(crate) fn reading(&self, key: &Key) -> Arc<tokio::sync::Mutex<()>> {
        let mut reading = lock(&self.reading);
        reading.retain(|_, other| other.strong_count() > 0);
        if let Some(known) = reading.get(key).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::default();
        reading.insert(key.clone(), Arc::downgrade(&new));
        new
    }

    /// The content, if it is there. One that is damaged is removed.
    pub(crate) fn get(&self, key: &Key) -> Option<Stored> {
        let mut used = lock(&self.used);
        if let Some((content, found)) = used.get(key)
            && let Some(content) = content.upgrade()
        {
            return Some(Stored { content, found: found.clone() });
        }
        let folder = self.root.join(&key.0);
        if !folder.exists() {
            return None;
        }
        match read(&folder) {
            Ok(stored) => {
                used.insert(key.clone(), (Arc::downgrade(&stored.content), stored.found.clone()));
                Some(stored)
            }
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "a catalog on disk is damaged; it is read anew");
                let _gone = fs::remove_dir_all(&folder);
                None
            }
        }
    }

    /// A folder for what is being read.
    pub(crate) fn aside(&self) -> Result<Aside, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let aside = Aside(self.root.join(format!("{ASIDE}{}", COUNT.fetch_add(1, Ordering::Relaxed))));
        fs::create_dir_all(&aside.0).map_err(|cause| StoreError::write(&aside.0, cause))?;
        Ok(aside)
    }

    /// Reads the catalog in a folder below `aside` by these rules, and keeps it under this name. `findings`: what was found before.
    pub(crate) fn keep(
        &self,
        key: &Key,
        catalog: &Path,
        aside: Aside,
        rules: Rules,
        findings: Vec<String>,
    ) -> Result<Stored, StoreError> {
        let whole = aside.0.join("whole");
        let disk = |cause| StoreError::write(&whole, cause);
        fs::create_dir(&whole).map_err(disk)?;
        write(catalog, &whole, rules, findings).map_err(|error| match error {
            StoreError::Folder(FolderError::Catalog { cause: CatalogError::Write(cause), .. })
            | StoreError::Index(IndexError::Write(cause)) => disk(cause),
            other => other,
        })?;
        let folder = self.root.join(&key.0);
        let stored = {
            // Whoever keeps another one does not remove this one before it is used.
            let mut used = lock(&self.used);
            // Only one that was damaged may be there, or that of who has not waited for the end of reading it.
            let _gone = fs::remove_dir_all(&folder);
            fs::rename(&whole, &folder).map_err(disk)?;
            let stored = read(&folder)?;
            used.insert(key.clone(), (Arc::downgrade(&stored.content), stored.found.clone()));
            stored
        };
        drop(aside);
        self.trim();
        Ok(stored)
    }

    /// Removes what nobody uses, the oldest first, until the rest is small enough.
    pub(crate) fn trim(&self) {
        let mut used = lock(&self.used);
        used.retain(|_, (content, _)| content.strong_count() > 0);
        let mut kept: Vec<(SystemTime, u64, Key)> = Vec::new();
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if Key::is(&name) {
                let (at, size) = measure(&entry.path());
                kept.push((at, size, Key(name)));
            }
        }
        kept.sort();
        let mut total: u64 = kept.iter().map(|(_, size, _)| size).sum();
        for (_, size, key) in kept {
            if total > self.limit && !used.contains_key(&key) {
                // What cannot be removed is met again the next time.
                let _gone = fs::remove_dir_all(self.root.join(&key.0));
                total = total.saturating_sub(size);
            }
        }
    }
}

/// When it was used last, and its bytes.
fn measure(folder: &Path) -> (SystemTime, u64) {
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
    let at = fs::metadata(folder.join(INDEX)).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    (at, size(INDEX) + size(DATA) + size(FOUND))
}

/// Makes index, data and findings of a catalog. After a power failure they are what was written, or are not there.
fn write(catalog: &Path, to: &Path, rules: Rules, findings: Vec<String>) -> Result<(), StoreError> {
    let path = |name: &str| to.join(name);
    let create = |name: &str| File::create(path(name)).map_err(|cause| StoreError::write(&path(name), cause));
    let ended = |name: &str, file: BufWriter<File>| {
        let file = file.into_inner().map_err(io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_data()).map_err(|cause| StoreError::write(&path(name), cause))
    };
    let read = folder::read_by(rules, catalog, BufWriter::new(create(DATA)?)).map_err(StoreError::Folder)?;
    let mut found = found(&read);
    found.faults.splice(0..0, findings.into_iter().take(MAX_FAULTS));
    ended(DATA, read.data)?;
    let mut index = BufWriter::new(create(INDEX)?);
    read.index.write(&mut index)?;
    ended(INDEX, index)?;
    let mut file = BufWriter::new(create(FOUND)?);
    let json = serde_json::to_vec(&found).unwrap_or_default();
    file.write_all(&json).map_err(|cause| StoreError::write(&path(FOUND), cause))?;
    ended(FOUND, file)
}

fn read(folder: &Path) -> Result<Stored, IndexError> {
    let open = |name: &str| File::open(folder.join(name)).map_err(IndexError::Read);
    let file = open(INDEX)?;
    // It is used now, so others are removed before it. If that cannot be said it is removed sooner.
    let _told = file.set_modified(SystemTime::now());
    let index = Index::read(BufReader::new(file))?;
    let data = open(DATA)?;
    if data.metadata().map_err(IndexError::Read)?.len() < index.data_length() {
        return Err(IndexError::Data);
    }
    let found = serde_json::from_reader(BufReader::new(open(FOUND)?)).map_err(|_| IndexError::Data)?;
    Ok(Stored { content: Arc::new(Content::new(index, Box::new(OnDisk(data)))), found: Arc::new(found) })
}

fn found<W>(catalog: &Catalog<W>) -> Found {
    let text = |fault: &Fault| {
        let Fault { file, line, blob, reason, .. } = fault;
        let line = if *line > 0 { format!(", line {line}") } else { String::new() };
        let blob = if blob.is_empty() { String::new() } else { format!(" {blob}:") };
        format!("{file}{line}:{blob} {reason}")
    };
    Found {
        packages: catalog.index.counts().packages,
        sick: catalog.sick.iter().map(|sick| sick.package.clone()).collect(),
        sick_count: catalog.sick_count,
        faults: catalog.faults.iter().take(MAX_FAULTS).map(text).collect(),
        notes: catalog.notes.iter().take(MAX_FAULTS).map(text).collect(),
    }
}

#[cfg(test)]
mod tests;
