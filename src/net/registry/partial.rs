//! Files and folders that are written aside and get their name when all of them is there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// In the extension of what is being written.
const PARTIAL: &str = "partial-";
/// What is older belongs to a process that was killed.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);

/// A file or a folder that is removed unless it has got its name: also when writing is given up because another file has failed.
#[derive(Debug)]
pub(super) struct Partial(pub PathBuf);

impl Partial {
    /// Beside the file. Two images that have a layer in common may write it at the same time, each into its own.
    pub(super) fn of(path: &Path) -> Partial {
        Partial(beside(path))
    }

    /// Makes a folder beside the path, and those above it, and removes what processes have left that would have made the same and
    /// were killed: what is older than `age`.
    pub(super) fn folder(path: &Path, age: Duration) -> io::Result<Partial> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the folder needs a name of its own"))?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(above)?;
        let own = format!("{}.{PARTIAL}", name.to_string_lossy());
        remove_older(above, age, |name| name.starts_with(&own));
        loop {
            let partial = beside(path);
            match fs::create_dir(&partial) {
                // In containers every process has the same id, so that one that was killed may have used this name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Partial(partial)),
            }
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{PARTIAL}{}-{number}", std::process::id()));
    path.with_file_name(name)
}

impl Drop for Partial {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(path: &Path) {
    // It may not be there any more.
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

/// Removes what killed processes have left in a folder. What is younger than `age` may belong to one that runs.
pub(crate) fn remove_abandoned(folder: &Path, age: Duration) {
    remove_older(folder, age, |name| {
        Path::new(name).extension().is_some_and(|it| it.to_string_lossy().starts_with(PARTIAL))
    });
}

fn remove_older(folder: &Path, age: Duration, is_partial: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let partial = is_partial(&entry.file_name().to_string_lossy());
        let written = entry.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
        if partial && written.is_some_and(|written| written >= age) {
            remove(&entry.path());
        }
    }
}
