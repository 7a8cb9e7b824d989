//! Keeps what is at paths before they are changed, so that it can be restored bit by bit, also by another process after this
//! one was killed in the middle of the change or of the restoration.

use super::root::{HostError, Root, State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Written last and removed first: without it nothing has been saved.
const INDEX: &str = "index.json";
/// Takes up room that the way back needs: on a disk that has become full, nothing could be put back otherwise.
const RESERVE: &str = "reserve";
/// Bytes of it besides the largest file, for what is written about the failure.
const NOTES: u64 = 256 << 10;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    entries: Vec<Entry>,
    /// Folders that did not exist, the outermost first.
    folders: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    path: String,
    was: Was,
}

#[derive(Debug, Serialize, Deserialize)]
enum Was {
    Absent,
    /// Its content is in the folder, under this name.
    File {
        stored: String,
        mode: u32,
        owner: (u32, u32),
    },
    /// Hexadecimal, because a link may contain any bytes.
    Link {
        to: String,
    },
}

/// Saves what is at the paths to `folder`, which is below the same root and belongs to this program alone.
pub fn save(root: &Root, folder: &str, paths: &[String]) -> Result<(), HostError> {
    discard(root, folder)?;
    let saved = save_all(root, folder, paths);
    if saved.is_err() {
        // What is half saved would take up a disk that may be full.
        discard(root, folder)?;
    }
    saved
}

fn save_all(root: &Root, folder: &str, paths: &[String]) -> Result<(), HostError> {
    let mut index = Index::default();
    let mut largest = 0;
    for (number, path) in paths.iter().enumerate() {
        let missing = root.missing_folders(path)?;
        index.folders.extend(missing.into_iter().filter(|folder| !index.folders.contains(folder)).collect::<Vec<_>>());
        let was = match root.state(path)? {
            State::Absent => Was::Absent,
            State::Link { to } => Was::Link { to: hex::encode(to) },
            State::File { content, mode, owner } => {
                let stored = format!("{number}.saved");
                largest = largest.max(content.len() as u64);
                // Nobody else may read what nobody else could read before.
                root.put(&format!("{folder}/{stored}"), &private(content))?;
                Was::File { stored, mode, owner }
            }
        };
        index.entries.push(Entry { path: path.clone(), was });
    }
    root.reserve(&format!("{folder}/{RESERVE}"), largest + NOTES)?;
    let at = format!("{folder}/{INDEX}");
    let content = serde_json::to_vec(&index).map_err(|error| unreadable(&at, &error))?;
    root.put(&at, &private(content.into()))
}

fn private(content: Arc<[u8]>) -> State {
    let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    State::File { content, mode: 0o600, owner }
}

/// Gives free the room that was reserved for the way back.
pub(crate) fn release(root: &Root, folder: &str) -> Result<(), HostError> {
    root.put(&format!("{folder}/{RESERVE}"), &State::Absent)
}

/// Restores everything that was saved; nothing is done where nothing is. May be repeated.
pub fn restore(root: &Root, folder: &str) -> Result<(), HostError> {
    restore_by(root, folder, |_, _, saved| saved)
}

/// The same; `given` says for a path what becomes of what is there now and what was saved.
pub(crate) fn restore_by(
    root: &Root,
    folder: &str,
    given: impl Fn(&str, State, State) -> State,
) -> Result<(), HostError> {
    let Some(index) = read(root, folder)? else { return Ok(()) };
    release(root, folder)?;
    // What was not there goes first: the disk may be full of it.
    let (absent, present): (Vec<_>, Vec<_>) = index.entries.iter().partition(|entry| matches!(entry.was, Was::Absent));
    for Entry { path, was } in absent.into_iter().chain(present) {
        root.remove_temporary(path)?;
        let state = match was {
            Was::Absent => State::Absent,
            Was::Link { to } => {
                let at = format!("{folder}/{INDEX}");
                State::Link { to: hex::decode(to).map_err(|error| unreadable(&at, &error))? }
            }
            Was::File { stored, mode, owner } => match root.state(&format!("{folder}/{stored}"))? {
                State::File { content, .. } => State::File { content, mode: *mode, owner: *owner },
                _ => return Err(unreadable(&format!("{folder}/{stored}"), &"it is gone")),
            },
        };
        root.put(path, &given(path, root.state(path)?, state))?;
    }
    index.folders.iter().rev().try_for_each(|folder| root.remove_folder(folder))
}

/// Removes what was saved, or what is left of it.
pub fn discard(root: &Root, folder: &str) -> Result<(), HostError> {
    // First the index, so that what is half removed is never restored.
    root.put(&format!("{folder}/{INDEX}"), &State::Absent)?;
    root.remove_files(folder)
}

fn read(root: &Root, folder: &str) -> Result<Option<Index>, HostError> {
    let at = format!("{folder}/{INDEX}");
    match root.state(&at)? {
        State::File { content, .. } => {
            serde_json::from_slice(&content).map(Some).map_err(|error| unreadable(&at, &error))
        }
        State::Absent | State::Link { .. } => Ok(None),
    }
}

fn unreadable(path: &str, error: &dyn std::fmt::Display) -> HostError {
    HostError::Index { path: path.to_owned(), error: error.to_string() }
}

#[cfg(test)]
mod tests;
