//! The cgroup below which a node's pods run, in every hierarchy of the machine (version 1, 2, or both).

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    error::{HarnessError, Result},
    files,
    process::{self, Identity},
    site::Site,
};

/// Makes the cgroup; kubelet refuses a root that does not exist.
pub(super) fn make(site: &Site) -> Result<()> {
    for (root, version) in hierarchies() {
        let group = root.join(site.cgroup());
        files::make_dir(&group)?;
        // Version 1: no process can enter a cpuset before its processors and memory nodes are set.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if version == 1 && root.join(file).exists() {
                copy(&root.join(file), &group.join(file))?;
            }
        }
        // Next to the processes of a busy machine all pods together would have as much as a single one of these.
        let share = if version == 1 { ("cpu.shares", "20480") } else { ("cpu.weight", "2000") };
        let file = group.join(share.0);
        if file.exists() {
            fs::write(&file, share.1).map_err(|error| HarnessError::Io(file, error))?;
        }
        if version == 2 {
            // On a machine with both versions, version 1 has the controllers and this file may be empty.
            let offered = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            for controller in offered.split_whitespace() {
                for place in [&root, &group] {
                    // Failures are ignored: kubelet names a controller that it needs and does not find.
                    let _ = fs::write(place.join("cgroup.subtree_control"), format!("+{controller}"));
                }
            }
        }
    }
    Ok(())
}

/// Every process in the cgroup.
pub(super) fn processes(site: &Site) -> Vec<Identity> {
    let mut found = Vec::new();
    for (root, _) in hierarchies() {
        for group in below(&root.join(site.cgroup())) {
            let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse().ok()).filter_map(Identity::of));
        }
    }
    found
}

/// Kills all processes in the cgroup and removes it.
pub(super) fn remove(site: &Site) -> Result<()> {
    process::end_all(&processes(site))?;
    for (root, _) in hierarchies() {
        // The list has parents first; children must be removed first.
        for group in below(&root.join(site.cgroup())).iter().rev() {
            fs::remove_dir(group).map_err(|error| HarnessError::Io(group.clone(), error))?;
        }
    }
    Ok(())
}

/// Mount points of the hierarchies, with their version.
fn hierarchies() -> Vec<(PathBuf, u8)> {
    let text = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let place = PathBuf::from(fields.next()?);
        match fields.next()? {
            "cgroup" => Some((place, 1)),
            "cgroup2" => Some((place, 2)),
            _ => None,
        }
    };
    text.lines().filter_map(mount).collect()
}

/// The group, if it exists, and all groups below it, parents first.
fn below(group: &Path) -> Vec<PathBuf> {
    if !group.is_dir() {
        return Vec::new();
    }
    let mut all = vec![group.to_owned()];
    let mut next = 0;
    while let Some(parent) = all.get(next).cloned() {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        all.extend(entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
        next += 1;
    }
    all
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let value = fs::read(from).map_err(|error| HarnessError::Io(from.to_owned(), error))?;
    fs::write(to, value).map_err(|error| HarnessError::Io(to.to_owned(), error))
}
