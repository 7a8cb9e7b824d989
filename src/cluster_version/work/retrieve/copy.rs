//! Copies a release's manifests into the payload store: what the retrieval Job runs, with the target image as its root.

use crate::release::work::payload_dir;
use crate::release::work::payload_dir::{PayloadDirError, io_error};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, TryLockError};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another copy may take. The Job has ten minutes for everything, and says nothing of what it waits for if it is ended
/// by its deadline.
const LOCK_LIMIT: Duration = Duration::from_secs(240);
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// A release could not be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("{0} is not a folder inside a payload store")]
    Destination(PathBuf),
    #[error("the image is not a usable release image: {0}")]
    Image(String),
    #[error(
        "another process has kept {path} locked for {} s: end it, or the pod that it belongs to (`lslocks` on the node names it)",
        .limit.as_secs()
    )]
    Locked { path: PathBuf, limit: Duration },
    #[error(transparent)]
    Folder(#[from] PayloadDirError),
}

/// Copies `manifests/` and `release-manifests/` of the image at `from` to the folder `to` in one atomic step, removes
/// other releases from the store except those in `keep`, and returns the tree hash of the copy. Nothing of the image is
/// executed.
pub(crate) fn copy(from: &Path, to: &Path, keep: &[String]) -> Result<String, CopyError> {
    let name = to.file_name().and_then(|name| name.to_str());
    let (Some(store), Some(name)) = (to.parent(), name) else { return Err(CopyError::Destination(to.to_owned())) };
    fs::create_dir_all(store).map_err(io_error("create", store))?;
    let _lock = lock(store, LOCK_LIMIT)?;
    let temporary = store.join(format!(".{name}"));
    // Files of an interrupted copy would become part of this one.
    if temporary.exists() {
        fs::remove_dir_all(&temporary).map_err(io_error("remove", &temporary))?;
    }
    let tree = write(from, &temporary).inspect_err(|_| {
        // The disk may be full, and nobody else would remove it before another release is retrieved.
        let _ = fs::remove_dir_all(&temporary);
    })?;
    // An equal copy stays, because the daemon may be reading it.
    if !payload_dir::tree_hash(to).is_ok_and(|existing| existing == tree) {
        put_in_place(&temporary, to)?;
    }
    prune(store, name, keep);
    Ok(tree)
}

/// Gives the copy its name. Where there is a folder of that name the two change places, so that at no moment there is none;
/// what was there is removed afterwards, by the next copy if this one is killed.
fn put_in_place(copy: &Path, to: &Path) -> Result<(), PayloadDirError> {
    if !to.exists() {
        return fs::rename(copy, to).map_err(io_error("rename the copy to", to));
    }
    match renameat_with(CWD, copy, CWD, to, RenameFlags::EXCHANGE) {
        Ok(()) => fs::remove_dir_all(copy).map_err(io_error("remove the old", copy)),
        // Some file systems cannot exchange.
        Err(_) => {
            fs::remove_dir_all(to).map_err(io_error("remove the old", to))?;
            fs::rename(copy, to).map_err(io_error("rename the copy to", to))
        }
    }
}

/// Copies exactly what loading will read, and returns the tree hash of the copy. If any of it cannot be read, the image is
/// unusable.
fn write(from: &Path, temporary: &Path) -> Result<String, CopyError> {
    let files = payload_dir::read(from).map_err(|error| CopyError::Image(error.to_string()))?;
    if !files.unreadable.is_empty() {
        return Err(CopyError::Image(files.unreadable.join("; ")));
    }
    for (folder, files) in [("manifests", files.own), ("release-manifests", files.release)] {
        let target = temporary.join(folder);
        fs::create_dir_all(&target).map_err(io_error("create", &target))?;
        for file in files {
            let to = target.join(&file.name);
            fs::write(&to, &file.bytes).map_err(io_error("write", &to))?;
        }
    }
    Ok(payload_dir::tree_hash(temporary)?)
}

/// Waits until no other copy writes to the store, and makes others wait until the file is dropped. The container of a Job
/// that was given up long ago may still start once its registry answers, and process ids do not tell containers apart. Nobody
/// but the owner may open the file: whoever can read it can lock it, and so keep every release from being retrieved.
fn lock(store: &Path, limit: Duration) -> Result<fs::File, CopyError> {
    let path = store.join(".lock");
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(io_error("create", &path))?;
    // Earlier releases made it for all to read.
    file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(io_error("set the mode of", &path))?;
    let (begun, mut said) = (Instant::now(), false);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error).into()),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= limit => return Err(CopyError::Locked { path, limit }),
            Err(TryLockError::WouldBlock) if !said => {
                said = true;
                tracing::warn!(lock = %path.display(), "waiting for another copy into this store to end");
            }
            Err(TryLockError::WouldBlock) => {}
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Removes other releases and interrupted copies. A failure is only logged: it does not make the copy unusable.
fn prune(store: &Path, name: &str, keep: &[String]) {
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let other = entry.file_name().to_string_lossy().into_owned();
        // An interrupted copy begins with a dot.
        let folder = other.strip_prefix('.').unwrap_or(&other);
        let release = folder.starts_with("sha256-") || folder.starts_with("tag-");
        if release
            && other != name
            && !keep.contains(&other)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, folder = %entry.path().display(), "cannot remove an old release");
        }
    }
}

#[cfg(test)]
mod tests;
