//! Reading and writing files with errors that name the file.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde::{Serialize, de::DeserializeOwned};

use super::error::{HarnessError, Result};

/// Writes a file (mode 0600, because some contain private keys) and makes the folders above it.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        make_dir(parent)?;
    }
    fs::write(path, content).map_err(|error| HarnessError::Io(path.to_owned(), error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| HarnessError::Io(path.to_owned(), error))
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

/// Writes a value as JSON, atomically: a reader sees either the old file or the new one.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value).map_err(|error| HarnessError::State(path.to_owned(), error))?;
    let fresh = path.with_extension("new");
    write(&fresh, text)?;
    fs::rename(&fresh, path).map_err(|error| HarnessError::Io(path.to_owned(), error))
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
