//! Ends a cluster and removes every trace of it, whether it is whole, half started, or left by a killed owner.

use std::{fs, time::Duration};

use super::{
    error::{HarnessError, Result},
    process,
    site::Site,
};

/// How long a killed process may take to vanish.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Ends every process of the cluster, then removes its folder. May be called again after a failure. Blocks.
pub fn remove(site: &Site) -> Result<()> {
    end_processes(site)?;
    let dir = site.dir();
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(HarnessError::Io(dir, error)),
        _ => Ok(()),
    }
}

/// Kills until no process carries the cluster's mark: one may start another between the look and the kill.
fn end_processes(site: &Site) -> Result<()> {
    let mark = site.dir().display().to_string();
    for _ in 0..10 {
        let found = process::marked(&mark);
        if found.is_empty() {
            return Ok(());
        }
        process::end_all(&found, LIMIT)?;
    }
    Err(HarnessError::LeftBehind(format!("processes of {} that keep coming back", site.id())))
}
