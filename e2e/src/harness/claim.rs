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
    let site = Site::new(id, slot, tools)?;
    // A removal that was killed half-way may have left things under this name after the record was gone.
    teardown::remove(&site)?;
    site.make()?;
    Ok(site)
}

/// Removes clusters whose owner was killed, and returns their ids. Blocks.
pub fn sweep(tools: &Toolbox) -> Result<Vec<String>> {
    let _lock = lock()?;
    remove_abandoned(tools).map(|(removed, _)| removed)
}

/// The ids of those that were removed, and all other clusters. The caller holds the lock.
fn remove_abandoned(tools: &Toolbox) -> Result<(Vec<String>, Vec<Site>)> {
    let (mut removed, mut others) = (Vec::new(), Vec::new());
    for id in Site::list()? {
        // The record of a cluster that is being removed right now may vanish at any moment.
        let Ok(site) = Site::read(&id, tools.clone()) else { continue };
        match site.owner() {
            Owner::Process(owner) if !owner.alive() => {
                teardown::remove(&site)?;
                removed.push(id);
            }
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
