//! A release folder on disk: reads its files for `payload::load`, and hashes it so that a change is noticed.

use crate::payload::{PayloadFiles, SourceFile, metadata, references};
use sha2::{Digest, Sha256};
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes.
pub(crate) const MAX_FILE: u64 = 16 << 20;
/// Most bytes of all files together.
pub(crate) const MAX_TOTAL: u64 = 64 << 20;
/// Most entries of a release folder.
const MAX_ENTRIES: usize = 100_000;
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

pub(super) fn io_error(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PayloadDirError {
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
        for entry in fs::read_dir(&folder).map_err(io_error("list", &folder))? {
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
        let kind = fs::metadata(&resolved).map_err(io_error("look at", path))?.file_type();
        if kind.is_dir() {
            return Ok(None);
        }
        if !kind.is_file() {
            return Err(PayloadDirError::Special { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        // Not by the length in the metadata, because the file may grow meanwhile.
        let file = File::open(&resolved).map_err(io_error("open", path))?;
        let length = file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io_error("read", path))? as u64;
        if length > MAX_FILE {
            return Err(PayloadDirError::FileTooLarge { path: path.to_owned() });
        }
        self.total += length;
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
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("manifests/sub.yaml")).unwrap();
        fs::create_dir(dir.path().join("release-manifests")).unwrap();
        for (path, text) in [
            ("manifests/a.yaml", "a: 1\n"),
            ("manifests/notes.txt", "no"),
            ("manifests/sub.yaml/x.yaml", "x"),
            ("release-manifests/b.json", "{}"),
            ("release-manifests/release-metadata", "{}"),
            ("release-manifests/image-references", "{}"),
        ] {
            fs::write(dir.path().join(path), text).unwrap();
        }
        dir
    }

    fn names(files: &[SourceFile]) -> Vec<&str> {
        let mut names: Vec<_> = files.iter().map(|f| f.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn both_folders_are_read_without_other_files() {
        let dir = folder();
        let files = read(dir.path()).unwrap();
        assert_eq!(names(&files.own), ["a.yaml"]);
        assert_eq!(files.own[0].bytes, b"a: 1\n");
        assert_eq!(names(&files.release), ["b.json", "image-references", "release-metadata"]);
        assert_eq!(files.place, dir.path().display().to_string());
    }

    #[test]
    fn missing_path_is_named() {
        let required = [
            "manifests",
            "release-manifests",
            "release-manifests/release-metadata",
            "release-manifests/image-references",
        ];
        for missing in required {
            let dir = folder();
            let path = dir.path().join(missing);
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
            let error = read(dir.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("not a release payload: {missing} is missing")), "{error}");
        }
    }

    #[test]
    fn link_is_followed_inside_and_refused_outside() {
        let dir = folder();
        symlink("../manifests/a.yaml", dir.path().join("release-manifests/in.yaml")).unwrap();
        assert_eq!(read(dir.path()).unwrap().release.len(), 4);
        // A file next to the two folders is outside too.
        fs::write(dir.path().join("beside"), "a: 1").unwrap();
        symlink("../beside", dir.path().join("manifests/out.yaml")).unwrap();
        symlink("nowhere.yaml", dir.path().join("manifests/dangling.yaml")).unwrap();
        let unreadable = read(dir.path()).unwrap().unreadable;
        assert_eq!(unreadable.len(), 2, "{unreadable:?}");
        for words in ["dangling.yaml: ", "out.yaml is a link that leads out"] {
            assert!(unreadable.iter().any(|error| error.contains(words)), "{unreadable:?}");
        }

        let (dir, elsewhere) = (folder(), folder());
        fs::remove_dir_all(dir.path().join("manifests")).unwrap();
        symlink(elsewhere.path().join("manifests"), dir.path().join("manifests")).unwrap();
        assert!(matches!(read(dir.path()), Err(PayloadDirError::LinkOut { .. })));
    }

    #[test]
    fn name_that_is_not_utf8_is_an_error_for_manifests_only() {
        use std::ffi::OsStr;
        let dir = folder();
        let odd = |name: &[u8]| fs::write(dir.path().join("manifests").join(OsStr::from_bytes(name)), "a: 1").unwrap();
        odd(b"\xff.txt");
        assert_eq!(read(dir.path()).unwrap().unreadable, Vec::<String>::new());
        odd(b"\xff.yaml");
        let unreadable = read(dir.path()).unwrap().unreadable;
        assert!(unreadable[0].contains("is not UTF-8"), "{unreadable:?}");
    }

    #[test]
    fn large_and_special_files_are_refused() {
        let dir = folder();
        let large = dir.path().join("manifests/large.yaml");
        File::create(&large).unwrap().set_len(MAX_FILE + 1).unwrap();
        let place = large.display().to_string();
        let unreadable = |dir: &tempfile::TempDir| read(dir.path()).unwrap().unreadable.join("\n");
        assert!(unreadable(&dir).starts_with(&format!("{place} is larger than the")), "{}", unreadable(&dir));
        fs::remove_file(&large).unwrap();
        for number in 0..5 {
            let path = dir.path().join(format!("manifests/{number}.yaml"));
            File::create(path).unwrap().set_len(MAX_FILE - 1).unwrap();
        }
        assert!(matches!(read(dir.path()), Err(PayloadDirError::TotalTooLarge { .. })));

        let dir = folder();
        File::create(dir.path().join("manifests/a.bin")).unwrap().set_len(MAX_TOTAL).unwrap();
        assert!(matches!(tree_hash(dir.path()), Err(PayloadDirError::TotalTooLarge { .. })));

        let dir = folder();
        let socket = dir.path().join("manifests/s.yaml");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(unreadable(&dir).contains("s.yaml is neither a file nor a folder"), "{}", unreadable(&dir));
        assert!(matches!(tree_hash(dir.path()), Err(PayloadDirError::Special { path }) if path == socket));
    }

    #[test]
    fn tree_hash_changes_with_the_payload_only() {
        let (one, two) = (folder(), folder());
        let hash = |dir: &tempfile::TempDir| tree_hash(dir.path()).unwrap();
        let clean = hash(&one);
        assert_eq!(clean.len(), 64);
        assert_eq!(clean, hash(&two));
        fs::write(two.path().join("marker"), "x").unwrap();
        assert_eq!(clean, hash(&two));
        let changes: [fn(&Path); 5] = [
            |dir| fs::write(dir.join("manifests/a.yaml"), "a: 2\n").unwrap(),
            |dir| fs::write(dir.join("manifests/sub.yaml/y.yaml"), "").unwrap(),
            |dir| fs::rename(dir.join("manifests/a.yaml"), dir.join("manifests/A.yaml")).unwrap(),
            |dir| fs::create_dir(dir.join("release-manifests/empty")).unwrap(),
            |dir| symlink("b.json", dir.join("release-manifests/link")).unwrap(),
        ];
        let mut seen = vec![clean];
        for change in changes {
            let dir = folder();
            change(dir.path());
            let changed = hash(&dir);
            assert!(!seen.contains(&changed));
            seen.push(changed);
        }
        let error = tree_hash(Path::new("/nonexistent")).unwrap_err();
        let text = format!("{:#}", anyhow::Error::from(error));
        assert!(text.starts_with("cannot look at /nonexistent/manifests: "), "{text}");
        assert_eq!(text.matches("os error 2").count(), 1, "{text}");
    }
}
