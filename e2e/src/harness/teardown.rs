//! Ends a cluster and removes everything it left on the machine, also when it was only half started.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::mount::{UnmountFlags, unmount};

use super::{
    cgroup,
    error::{HarnessError, Result},
    machine, network, process,
    site::Site,
};

/// Ends every process of the cluster, then removes its files and devices. May be called again after a failure. The caller
/// holds the lock of claims. Blocks.
pub(super) fn remove(site: &Site) -> Result<()> {
    end(site)?;
    remove_folder(site)
}

/// The part of `remove` before the folder, which takes seconds and during which the folder says that the slot is taken.
pub(super) fn end(site: &Site) -> Result<()> {
    // kubelet first: it would restart what is killed below.
    site.stop("kubelet")?;
    end_processes(site)?;
    // The rest exists only for a node, which only root can have started.
    if machine::is_root() {
        cgroup::remove(site)?;
        unmount_below(&[site.dir(), site.run_dir()])?;
        network::remove(site)?;
        remove_machine_wide(site);
        remove_dir(&site.run_dir())?;
    }
    Ok(())
}

/// The last part of `remove`.
pub(super) fn remove_folder(site: &Site) -> Result<()> {
    remove_dir(&site.dir())
}

/// Kills until no process has the cluster's mark: a process may start another one before it is killed. The containers'
/// processes do not have the mark; they are in the cluster's cgroup.
fn end_processes(site: &Site) -> Result<()> {
    let mark = site.dir().display().to_string();
    for _ in 0..10 {
        let found = process::marked(&mark);
        if found.is_empty() {
            return Ok(());
        }
        process::end_all(&found)?;
    }
    Err(HarnessError::LeftBehind(format!("processes of {}, which are started again and again", site.id())))
}

/// Unmounts everything below the folders, innermost first, and checks that nothing is left: removing a folder would
/// delete the content of what is mounted in it.
fn unmount_below(folders: &[PathBuf]) -> Result<()> {
    for place in mounts_below(folders).iter().rev() {
        // Detached, because a process that has just ended may still hold it. The check below finds failures.
        let _ = unmount(place, UnmountFlags::DETACH);
    }
    match mounts_below(folders).first() {
        Some(left) => Err(HarnessError::LeftBehind(format!("mount {}", left.display()))),
        None => Ok(()),
    }
}

/// Mount points below the folders, outermost first.
fn mounts_below(folders: &[PathBuf]) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = text.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    places.filter(|place| folders.iter().any(|folder| place.starts_with(folder))).collect()
}

/// Removes files that kubelet, containerd and CNI keep at places that cannot be configured. One that is left does no
/// harm, so failures are ignored.
fn remove_machine_wide(site: &Site) {
    let bundles = site.run_dir().join("containerd/io.containerd.runtime.v2.task/k8s.io");
    let mut containers = Vec::new();
    for bundle in entries(&bundles) {
        // The shim's socket, `unix:///run/containerd/s/<hash>`.
        let address = fs::read_to_string(bundle.join("address")).unwrap_or_default();
        if let Some(socket) = address.trim().strip_prefix("unix://") {
            let _ = fs::remove_file(socket);
        }
        containers.extend(bundle.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    // `<network>-<container>-<interface>`; the loopback network has the same name in all clusters.
    for result in entries(Path::new("/var/lib/cni/results")) {
        let name = result.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&format!("{}-", site.bridge())) || containers.iter().any(|id| name.contains(id.as_str())) {
            let _ = fs::remove_file(&result);
        }
    }
    for link in entries(Path::new("/var/log/containers")) {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(site.dir())) {
            let _ = fs::remove_file(&link);
        }
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn remove_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(HarnessError::Io(dir.to_owned(), error)),
        _ => Ok(()),
    }
}
