//! Takes a slot and a name on this machine for a new cluster, and removes clusters whose owner was killed.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

use super::{
    error::{HarnessError, Result},
    options::Options,
    site::{self, Owner, SLOTS, Site},
    teardown,
    toolbox::Toolbox,
};

/// Removes clusters whose owner was killed, then takes a free slot and makes the cluster's folder. Blocks.
pub(super) fn claim(options: &Options, tools: Toolbox) -> Result<Site> {
    let _lock = lock()?;
    let (_, others) = remove_abandoned(&tools)?;
    if let Some(name) = &options.name {
        site::check_name(name)?;
        if others.iter().any(|other| other.id() == name) {
            return Err(HarnessError::Name(
                name.clone(),
                "a cluster of that name is running; `hack/cluster down` ends it",
            ));
        }
    }
    let free = |slot: &u16| others.iter().all(|other| other.slot() != *slot) && site::ports_free(*slot);
    let slot = (0..SLOTS).find(free).ok_or(HarnessError::Slots(SLOTS))?;
    let id = options.name.clone().unwrap_or_else(|| format!("lab{slot}"));
    let site = Site::new(id, slot, options.ipv6, tools)?;
    // A removal that was killed half-way may have left things under this name after the record was gone.
    teardown::remove(&site)?;
    site.make()?;
    Ok(site)
}

/// Ends a cluster of this process and gives its slot and name back. May be called again after a failure. Blocks.
///
/// The folder goes last and under the lock: its record may vanish first, and whoever claimed the slot meanwhile would lose
/// the new folder of the same name.
pub(super) fn release(site: &Site) -> Result<()> {
    teardown::end(site)?;
    let _lock = lock()?;
    teardown::remove_folder(site)
}

/// Removes clusters whose owner was killed, and returns their ids. Blocks.
pub fn sweep(tools: &Toolbox) -> Result<Vec<String>> {
    let _lock = lock()?;
    remove_abandoned(tools).map(|(removed, _)| removed)
}

/// The ids of those that were removed, and all other clusters, also those that could not be removed. The caller holds the
/// lock.
fn remove_abandoned(tools: &Toolbox) -> Result<(Vec<String>, Vec<Site>)> {
    let (mut removed, mut others) = (Vec::new(), Vec::new());
    for id in Site::list()? {
        // The record of a cluster that is being removed right now may vanish at any moment.
        let Ok(site) = Site::read(&id, tools.clone()) else { continue };
        match site.owner() {
            // One that cannot be removed keeps its slot, and nobody from starting another one.
            Owner::Process(owner) if !owner.alive() => match teardown::remove(&site) {
                Ok(()) => removed.push(id),
                Err(error) => {
                    eprintln!("cluster {id}, whose owner was killed, cannot be removed: {error}");
                    others.push(site);
                }
            },
            _ => others.push(site),
        }
    }
    Ok((removed, others))
}

/// One claim at a time on this machine; released when the file is closed.
fn lock() -> Result<File> {
    let path = site::root()?.join(".lock");
    let failed = |error| HarnessError::Io(path.clone(), error);
    let file = File::create(&path).map_err(failed)?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_a_new_cluster_outlives_the_release_of_the_one_before() {
        let Ok(tools) = Toolbox::find() else {
            println!("skipped: the tools of clusters are not installed");
            return;
        };
        let cycles = |thread: usize| {
            let tools = tools.clone();
            move || {
                for cycle in 0..25 {
                    let site = claim(&Options::default(), tools.clone()).unwrap();
                    assert!(
                        site.dir().join("run").is_dir(),
                        "thread {thread}, cycle {cycle}: {}",
                        site.dir().display()
                    );
                    release(&site).unwrap();
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(cycles(thread)))));
    }
}
