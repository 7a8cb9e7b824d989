//! Reads and writes single files below a root. A file is replaced as a whole or not at all, and is on the disk when its
//! write returns.

use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Gid, Mode, OFlags, ResolveFlags, StatVfsMountFlags, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Content of a file that is read; longer ones are refused.
pub(crate) const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;
/// The label that SELinux decides by. A new file would get that of its folder.
const LABEL: &str = "security.selinux";
/// Where users have their homes. What is below a home can be a link to anywhere, because its user makes what is there.
const HOMES: [&str; 2] = ["/home", "/var/home"];

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("{0:?} is no path below the root: it has to begin with / and must not contain .. or a NUL")]
    Path(String),
    #[error("cannot {attempt} {path}: {error}")]
    Failed { attempt: &'static str, path: String, error: Errno },
    #[error("{0} is neither a file nor a symbolic link")]
    Kind(String),
    #[error("{0} is larger than {MAX_FILE_BYTES} bytes")]
    Large(String),
    #[error(
        "{0} leads over a symbolic link in the home of a user, who could have it lead anywhere; make a folder of the link"
    )]
    LinkInHome(String),
    #[error("the index {path} of what was saved cannot be read: {error}")]
    Index { path: String, error: String },
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Absent,
    File {
        content: Arc<[u8]>,
        /// Permission bits.
        mode: u32,
        /// User and group.
        owner: (u32, u32),
    },
    Link {
        to: Vec<u8>,
    },
}

/// The root of a node's file system.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    #[cfg(test)]
    pub(crate) faults: faults::Faults,
}

/// What the file system of a path has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Identifies the file system.
    pub device: u64,
    /// Bytes, for a process of the superuser.
    pub free: u64,
    /// How many files more; `None` where the file system does not count them.
    pub files: Option<u64>,
    pub read_only: bool,
}

/// A path's folder, open, and the name in it.
pub(crate) struct Place<'a> {
    pub(crate) folder: OwnedFd,
    pub(crate) name: &'a OsStr,
}

fn failed<'a>(attempt: &'static str, path: &'a str) -> impl Fn(Errno) -> HostError + 'a {
    move |error| HostError::Failed { attempt, path: path.to_owned(), error }
}

fn not_opened<'a>(attempt: &'static str, path: &'a str) -> impl Fn(Errno) -> HostError + 'a {
    move |error| match error {
        Errno::LOOP if in_home(path).is_some() => HostError::LinkInHome(path.to_owned()),
        error => failed(attempt, path)(error),
    }
}

/// The home that the path is at or below, and the way on from there.
fn in_home(path: &str) -> Option<(&str, &str)> {
    HOMES.iter().find_map(|homes| {
        let below = path.strip_prefix(*homes)?.strip_prefix('/')?;
        let name = below.find('/').unwrap_or(below.len());
        path.split_at_checked(path.len() - below.len() + name)
    })
}

/// The folder and the name of an absolute path.
pub(crate) fn split(path: &str) -> Result<(&str, &str), HostError> {
    let bad = || HostError::Path(path.to_owned());
    let plain = !path.contains('\0') && path.split('/').all(|part| part != "..");
    let (folder, name) =
        path.strip_prefix('/').filter(|_| plain).and_then(|_| path.rsplit_once('/')).ok_or_else(bad)?;
    if matches!(name, "" | ".") { Err(bad()) } else { Ok((folder, name)) }
}

impl Root {
    pub fn open(path: &Path) -> Result<Root, HostError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty());
        let root = |dir| Root {
            dir,
            #[cfg(test)]
            faults: faults::Faults::default(),
        };
        dir.map(root).map_err(failed("open", &path.display().to_string()))
    }

    /// Links are followed inside the root, and below the home of a user not at all.
    fn folder(&self, folder: &str) -> Result<OwnedFd, Errno> {
        let open = |dir: &OwnedFd, folder: &str, resolve| {
            let folder = folder.trim_start_matches('/');
            let folder = if folder.is_empty() { "." } else { folder };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat2(dir, folder, flags, Mode::empty(), resolve)
        };
        match in_home(folder) {
            None => open(&self.dir, folder, ResolveFlags::IN_ROOT),
            Some((home, rest)) => {
                let home = open(&self.dir, home, ResolveFlags::IN_ROOT)?;
                open(&home, rest, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
            }
        }
    }

    /// The folders above the path that do not exist, the outermost first.
    pub(crate) fn missing_folders(&self, path: &str) -> Result<Vec<String>, HostError> {
        let (mut folder, _) = split(path)?;
        let mut missing = Vec::new();
        while !folder.is_empty() {
            match self.folder(folder) {
                Ok(_) => break,
                Err(Errno::NOENT) => missing.push(folder.to_owned()),
                Err(error) => return Err(not_opened("open the folder of", path)(error)),
            }
            folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        }
        missing.reverse();
        Ok(missing)
    }

    /// `None` if the folder does not exist.
    pub(crate) fn place<'a>(&self, path: &'a str) -> Result<Option<Place<'a>>, HostError> {
        let (folder, name) = split(path)?;
        match self.folder(folder) {
            Ok(folder) => Ok(Some(Place { folder, name: OsStr::new(name) })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(not_opened("open the folder of", path)(error)),
        }
    }

    /// Makes the folders above the path that do not exist, for everybody to read.
    fn make_place<'a>(&self, path: &'a str) -> Result<Place<'a>, HostError> {
        for folder in self.missing_folders(path)? {
            let place = self.place(&folder)?.ok_or_else(|| failed("make", &folder)(Errno::NOENT))?;
            let made = match self.make(&place, 0o755) {
                // Whatever the umask of the process is.
                Ok(made) => rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755)),
                Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error),
            };
            made.map_err(failed("make", &folder))?;
        }
        self.place(path)?.ok_or_else(|| failed("make the folder of", path)(Errno::NOENT))
    }

    /// Makes a folder and opens it: never what somebody has put in its place meanwhile, whom the folder around may belong to.
    fn make(&self, place: &Place<'_>, mode: u32) -> Result<OwnedFd, Errno> {
        rustix::fs::mkdirat(&place.folder, place.name, Mode::from_raw_mode(mode))?;
        #[cfg(test)]
        self.faults.exchange(place);
        let made = open_itself(place)?;
        let owner = rustix::fs::fstat(&made)?.st_uid;
        if owner == rustix::process::geteuid().as_raw() { Ok(made) } else { Err(Errno::PERM) }
    }

    /// What is at the path. The last part of the path is not followed.
    pub fn state(&self, path: &str) -> Result<State, HostError> {
        let Some(Place { folder, name }) = self.place(path)? else { return Ok(State::Absent) };
        let failed = failed("read", path);
        let found = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(State::Absent),
            Err(error) => return Err(failed(error)),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                let to = rustix::fs::readlinkat(&folder, name, Vec::new()).map_err(&failed)?;
                Ok(State::Link { to: to.into_bytes() })
            }
            FileType::RegularFile => {
                // What was looked at may have been replaced by a FIFO, which would block.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let file = rustix::fs::openat(&folder, name, flags, Mode::empty()).map_err(&failed)?;
                let found = rustix::fs::fstat(&file).map_err(&failed)?;
                let mut content = Vec::new();
                let read = File::from(file).take(MAX_FILE_BYTES + 1).read_to_end(&mut content);
                read.map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
                if content.len() as u64 > MAX_FILE_BYTES {
                    return Err(HostError::Large(path.to_owned()));
                }
                let (mode, owner) = (found.st_mode & 0o7777, (found.st_uid, found.st_gid));
                Ok(State::File { content: content.into(), mode, owner })
            }
            _ => Err(HostError::Kind(path.to_owned())),
        }
    }

    /// Makes the path be so. What is so already is not written.
    pub fn put(&self, path: &str, state: &State) -> Result<(), HostError> {
        if self.state(path)? == *state {
            return Ok(());
        }
        #[cfg(test)]
        self.faults.check().map_err(failed("write", path))?;
        match state {
            State::Absent => self.remove(path),
            State::File { content, mode, owner } => {
                let place = self.make_place(path)?;
                let temporary = temporary(place.name);
                self.write(path, &place, &temporary, content, *mode, *owner)
            }
            State::Link { to } => {
                let place = self.make_place(path)?;
                let temporary = temporary(place.name);
                remove_if_there(&place, &temporary).map_err(failed("replace", path))?;
                let link = rustix::fs::symlinkat(OsStr::from_bytes(to), &place.folder, temporary.as_str());
                link.map_err(failed("link", path))?;
                replace(path, &place, &temporary)
            }
        }
    }

    fn write(
        &self,
        path: &str,
        place: &Place<'_>,
        temporary: &str,
        content: &[u8],
        mode: u32,
        (user, group): (u32, u32),
    ) -> Result<(), HostError> {
        let failed = failed("write", path);
        remove_if_there(place, temporary).map_err(&failed)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&place.folder, temporary, flags, Mode::from_raw_mode(0o600)).map_err(&failed)?;
        let written = (|| {
            // The mode comes after the owner, because a change of owner clears bits of it, and both before the content.
            rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
            copy_label(place, file.as_fd());
            let mut file = File::from(file);
            let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
            file.write_all(content).map_err(io)?;
            file.sync_all().map_err(io)
        })();
        if let Err(error) = written {
            // What is left of it would take up a disk that may be full.
            remove_if_there(place, temporary).map_err(&failed)?;
            return Err(failed(error));
        }
        replace(path, place, temporary)
    }

    fn remove(&self, path: &str) -> Result<(), HostError> {
        let Some(place) = self.place(path)? else { return Ok(()) };
        let failed = failed("remove", path);
        match rustix::fs::unlinkat(&place.folder, place.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => rustix::fs::fsync(&place.folder).map_err(&failed),
            Err(error) => Err(failed(error)),
        }
    }

    /// User and group of the root itself: what belongs to them belongs to the node's superuser.
    pub(crate) fn owner(&self) -> Result<(u32, u32), HostError> {
        let found = rustix::fs::statat(&self.dir, c"", AtFlags::EMPTY_PATH).map_err(failed("look at", "/"))?;
        Ok((found.st_uid, found.st_gid))
    }

    /// Of the file system on which the path is, or would be once its folders are made.
    pub(crate) fn room(&self, path: &str) -> Result<Room, HostError> {
        let failed = failed("look at the file system of", path);
        let (mut folder, _) = split(path)?;
        let found = loop {
            match self.folder(folder) {
                Ok(found) => break found,
                Err(Errno::NOENT) if !folder.is_empty() => {
                    folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
                }
                Err(error) => return Err(not_opened("look at the file system of", path)(error)),
            }
        };
        let (device, found) =
            rustix::fs::fstat(&found).and_then(|it| Ok((it.st_dev, rustix::fs::fstatvfs(&found)?))).map_err(&failed)?;
        Ok(Room {
            device,
            free: found.f_bavail.saturating_mul(found.f_frsize),
            files: (found.f_files > 0).then_some(found.f_favail),
            read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    /// A file without meaning that takes up so many bytes, so that they are there when it is removed.
    pub(crate) fn reserve(&self, path: &str, bytes: u64) -> Result<(), HostError> {
        let failed = failed("reserve room by", path);
        #[cfg(test)]
        self.faults.check().map_err(&failed)?;
        let place = self.make_place(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&place.folder, place.name, flags, Mode::from_raw_mode(0o600)).map_err(&failed)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // A file system that cannot reserve gets by without.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => {
                remove_if_there(&place, &place.name.to_string_lossy()).map_err(&failed)?;
                Err(failed(error))
            }
        }
    }

    /// Makes a folder that does not exist, with those above it. One that exists stays as it is; a link to one is none.
    pub(crate) fn make_folder(&self, path: &str, mode: u32, (user, group): (u32, u32)) -> Result<(), HostError> {
        let place = self.make_place(path)?;
        let made = match self.make(&place, 0o700) {
            Ok(made) => rustix::fs::fchown(&made, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
                .and_then(|()| rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))),
            Err(Errno::EXIST) => open_itself(&place).map(drop),
            Err(error) => Err(error),
        };
        made.map_err(failed("make", path))
    }

    /// Something is there, whatever it is. Links are followed.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.dir, path, flags, Mode::empty(), ResolveFlags::IN_ROOT).is_ok()
    }

    /// What changes when the path is written: without reading it. `None` if nothing is there.
    pub(crate) fn stamp(&self, path: &str) -> Option<(u64, i64, u64, u32)> {
        let place = self.place(path).ok().flatten()?;
        let found = rustix::fs::statat(&place.folder, place.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let changed = found.st_ctime.wrapping_mul(1_000_000_000).wrapping_add(i64::try_from(found.st_ctime_nsec).ok()?);
        Some((found.st_ino, changed, u64::try_from(found.st_size).ok()?, found.st_mode))
    }

    /// Removes what a write that was interrupted has left beside the path.
    pub(crate) fn remove_temporary(&self, path: &str) -> Result<(), HostError> {
        let Some(place) = self.place(path)? else { return Ok(()) };
        remove_if_there(&place, &temporary(place.name)).map_err(failed("remove what is left of", path))
    }

    /// Removes all files of a folder, and the folder. One that does not exist is fine.
    pub(crate) fn remove_files(&self, path: &str) -> Result<(), HostError> {
        let failed = failed("remove the files of", path);
        let folder = match self.folder(path) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in rustix::fs::Dir::read_from(&folder).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            if ![c".", c".."].contains(&entry.file_name()) {
                rustix::fs::unlinkat(&folder, entry.file_name(), AtFlags::empty()).map_err(&failed)?;
            }
        }
        self.remove_folder(path)
    }

    /// Removes a folder if it is there and empty.
    pub(crate) fn remove_folder(&self, path: &str) -> Result<(), HostError> {
        let Some(place) = self.place(path)? else { return Ok(()) };
        match rustix::fs::unlinkat(&place.folder, place.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(failed("remove", path)(error)),
        }
    }
}

/// The folder at the place, and not one that a link there leads to.
fn open_itself(place: &Place<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(&place.folder, place.name, flags, Mode::empty())
}

/// One name for each file, so that an interrupted write leaves one file that the next write replaces.
fn temporary(name: &OsStr) -> String {
    format!(".{}.cvo-new", name.to_string_lossy())
}

fn remove_if_there(place: &Place<'_>, name: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(&place.folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

fn replace(path: &str, place: &Place<'_>, temporary: &str) -> Result<(), HostError> {
    let renamed = rustix::fs::renameat(&place.folder, temporary, &place.folder, place.name);
    if let Err(error) = renamed {
        remove_if_there(place, temporary).map_err(failed("replace", path))?;
        return Err(failed("replace", path)(error));
    }
    rustix::fs::fsync(&place.folder).map_err(failed("replace", path))
}

/// Of the file that is replaced. Most systems have no such labels.
fn copy_label(place: &Place<'_>, file: impl AsFd) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut label = Vec::with_capacity(256);
    let old = rustix::fs::openat(&place.folder, place.name, flags, Mode::empty());
    let found = old.and_then(|old| rustix::fs::fgetxattr(&old, LABEL, rustix::buffer::spare_capacity(&mut label)));
    if found.is_ok()
        && let Err(error) = rustix::fs::fsetxattr(file, LABEL, &label, XattrFlags::empty())
    {
        tracing::debug!(name = %place.name.display(), %error, "label not kept");
    }
}

#[cfg(test)]
pub(crate) mod faults;
#[cfg(test)]
mod tests;
