//! Reading and writing files with errors that name the file.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Serialize, de::DeserializeOwned};

use super::error::{HarnessError, Result};

/// Part of the names of files that are being written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Writes a file and makes the folders above it: atomically, so that a reader sees either the old file or the new one, and for
/// the owner alone from the beginning (mode 0600), because some contain private keys.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        make_dir(parent)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let fresh = path.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh);
    let written = file.and_then(|mut file| file.write_all(content.as_ref())).and_then(|()| fs::rename(&fresh, path));
    written.map_err(|error| HarnessError::Io(path.to_owned(), error))
}

/// Reads a text file.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| HarnessError::Io(path.to_owned(), error))
}

/// Makes a folder and those above it.
pub fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| HarnessError::Io(path.to_owned(), error))
}

/// Copies a folder and everything in it; `to` is made.
pub fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| HarnessError::Io(path, error)
    };
    make_dir(to)?;
    for entry in fs::read_dir(from).map_err(failed(from))? {
        let (path, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).map_err(failed(from))?;
        if path.is_dir() {
            copy_dir(&path, &to)?;
        } else {
            fs::copy(&path, &to).map_err(failed(&path))?;
        }
    }
    Ok(())
}

/// Writes a value as JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write(path, serde_json::to_vec_pretty(value).map_err(|error| HarnessError::State(path.to_owned(), error))?)
}

/// Reads a JSON file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).map_err(|error| HarnessError::Io(path.to_owned(), error))?;
    serde_json::from_slice(&text).map_err(|error| HarnessError::State(path.to_owned(), error))
}

/// The last `lines` lines of a log, indented, or a note that there are none.
pub fn tail(path: &Path, lines: usize) -> String {
    let Ok(bytes) = fs::read(path) else { return format!("  ({} cannot be read)", path.display()) };
    let text = String::from_utf8_lossy(&bytes);
    let mut last: Vec<&str> = text.lines().rev().take(lines).collect();
    last.reverse();
    if last.is_empty() { format!("  ({} is empty)", path.display()) } else { format!("  {}", last.join("\n  ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_was_there_is_replaced_and_neither_followed_nor_opened() {
        let folder = std::env::temp_dir().join(format!("cvo-files-{}", std::process::id()));
        let (path, other) = (folder.join("a/key"), folder.join("other"));
        write(&path, "first").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut opened_before = fs::File::open(&path).unwrap();
        write(&path, "second").unwrap();
        assert_eq!(std::io::read_to_string(&mut opened_before).unwrap(), "first");
        assert_eq!(
            (read(&path).unwrap().as_str(), path.metadata().unwrap().permissions().mode() & 0o777),
            ("second", 0o600)
        );
        fs::write(&other, "of somebody else").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        write(&path, "third").unwrap();
        assert_eq!((read(&path).unwrap().as_str(), read(&other).unwrap().as_str()), ("third", "of somebody else"));
        assert_eq!(fs::read_dir(folder.join("a")).unwrap().count(), 1, "nothing else is left");
        fs::remove_dir_all(folder).unwrap();
    }
}
