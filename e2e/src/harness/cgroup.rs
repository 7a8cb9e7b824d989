//! The cgroup below which a node's pods live, in every hierarchy there is (version 1, 2, or both side by side).

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    error::{HarnessError, Result},
    files,
    process::{self, Identity},
    site::Site,
    teardown,
};

/// Makes it; kubelet refuses a root that is not there.
pub fn make(site: &Site) -> Result<()> {
    for (root, version) in hierarchies() {
        let group = root.join(site.cgroup());
        files::make_dir(&group)?;
        // Version 1: no process can enter a cpuset whose processors and memory are not said.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if version == 1 && root.join(file).exists() {
                copy(&root.join(file), &group.join(file))?;
            }
        }
        if version == 2 {
            // On a hybrid machine version 1 holds the controllers, and this one has none to pass on.
            let offered = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            for controller in offered.split_whitespace() {
                for place in [&root, &group] {
                    // A controller that cannot be passed on is kubelet's to complain about, by name.
                    let _ = fs::write(place.join("cgroup.subtree_control"), format!("+{controller}"));
                }
            }
        }
    }
    Ok(())
}

/// Every process in it.
pub fn processes(site: &Site) -> Vec<Identity> {
    let mut found = Vec::new();
    for (root, _) in hierarchies() {
        for group in below(&root.join(site.cgroup())) {
            let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse().ok()).filter_map(Identity::of));
        }
    }
    found
}

/// Kills all processes in it and removes it.
pub fn remove(site: &Site) -> Result<()> {
    process::end_all(&processes(site), teardown::LIMIT)?;
    for (root, _) in hierarchies() {
        // Children before parents: the list has them after.
        for group in below(&root.join(site.cgroup())).iter().rev() {
            fs::remove_dir(group).map_err(|error| HarnessError::Io(group.clone(), error))?;
        }
    }
    Ok(())
}

/// Mount points with the version.
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

/// The group, if it is there, and all below it, parents first.
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
