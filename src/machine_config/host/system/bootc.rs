//! Operating systems that `bootc` updates. What its `switch` deploys is booted by the next restart; only versions from the
//! summer of 2026 on can keep it from that (`--download-only`), and nodes may have an older one. So the image is only pulled
//! into the container storage while the node serves, where no restart boots it, and deployed from there once the node is
//! drained.

use super::{Size, Step, SystemError, auth_file, is_image, wrong_image};
use crate::machine_config::api::machine_config::MachineConfigSpec;
use crate::machine_config::changes::Changes;
use crate::machine_config::host::commands::Commands;
use crate::machine_config::host::record::Repairs;
use crate::machine_config::host::root::Root;
use serde::Deserialize;

/// What `bootc status --format json` prints, as far as it is needed. Fields that are null are absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Host {
    status: HostStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HostStatus {
    staged: Option<BootEntry>,
    booted: Option<BootEntry>,
    /// The next boot is the former image.
    rollback_queued: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BootEntry {
    /// Absent where what is booted was not made of an image.
    image: Option<ImageStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageStatus {
    image: ImageReference,
    #[serde(default)]
    image_digest: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ImageReference {
    image: String,
}

impl BootEntry {
    fn is(&self, wanted: &str) -> bool {
        self.image.as_ref().is_some_and(|found| is_image(wanted, &found.image.image, found.image_digest.as_deref()))
    }

    fn name(&self) -> String {
        self.image.as_ref().map_or_else(|| "none".to_owned(), |found| found.image.image.clone())
    }
}

fn status() -> Step {
    Step::new(Size::Quick, ["bootc", "status", "--format", "json"])
}

fn pull(image: &str, auth_file: Option<&str>) -> Step {
    Step::new(Size::Large, ["podman", "pull", "--quiet"].into_iter().chain(auth_file).chain([image]))
}

fn switch(image: &str) -> Step {
    Step::new(Size::Large, ["bootc", "switch", "--quiet", "--transport", "containers-storage", image])
}

fn rollback() -> Step {
    Step::new(Size::Quick, ["bootc", "rollback"])
}

/// What is staged comes first in the list of deployments.
fn undeploy() -> Step {
    Step::new(Size::Quick, ["ostree", "admin", "undeploy", "0"])
}

async fn found(commands: &Commands) -> Result<(HostStatus, BootEntry), SystemError> {
    let mut host: Host = status().read(commands).await?;
    let booted = host.status.booted.take();
    let booted = booted.ok_or_else(|| SystemError::NotBooted { command: status().command.join(" ") })?;
    Ok((host.status, booted))
}

fn new_image(changes: &Changes) -> Option<&str> {
    changes.os_image.as_ref().map(|image| image.new.as_str())
}

pub(super) fn programs(changes: &Changes) -> Vec<&'static str> {
    new_image(changes).map(|_| vec!["bootc", "podman", "ostree"]).unwrap_or_default()
}

pub(super) async fn stage(root: &Root, commands: &Commands, changes: &Changes) -> Result<(), SystemError> {
    let Some(image) = new_image(changes) else { return Ok(()) };
    pull(image, auth_file(root).as_deref()).run(commands).await?;
    Ok(())
}

pub(super) async fn activate(commands: &Commands, changes: &Changes) -> Result<(), SystemError> {
    let Some(image) = new_image(changes) else { return Ok(()) };
    switch(image).run(commands).await?;
    let (status, booted) = found(commands).await?;
    match status.staged {
        Some(staged) if staged.is(image) => Ok(()),
        Some(staged) => Err(SystemError::Staged(format!("the image is {} and should be {image}", staged.name()))),
        None if booted.is(image) => Ok(()),
        None => Err(SystemError::Staged("bootc switch has staged nothing".to_owned())),
    }
}

pub(super) async fn give_back(commands: &Commands, changes: &Changes, restarted: bool) -> Result<bool, SystemError> {
    let Some(image) = new_image(changes) else { return Ok(false) };
    let (status, booted) = found(commands).await?;
    let is_new = restarted && booted.is(image);
    let step = match is_new {
        // A second call would take it back.
        true => (!status.rollback_queued).then(rollback),
        false => status.staged.map(|_| undeploy()),
    };
    if let Some(step) = step {
        step.run(commands).await?;
    }
    Ok(is_new)
}

pub(super) async fn repairs(commands: &Commands, config: &MachineConfigSpec) -> Result<Repairs, SystemError> {
    let wanted = &config.os_image_url;
    if wanted.is_empty() {
        return Ok(Repairs::default());
    }
    let (_, booted) = found(commands).await?;
    Ok(Repairs { image: (!booted.is(wanted)).then(|| booted.name()), ..Repairs::default() })
}

pub(super) async fn deviation(commands: &Commands, config: &MachineConfigSpec) -> Result<Option<String>, SystemError> {
    let wanted = &config.os_image_url;
    if wanted.is_empty() {
        return Ok(None);
    }
    let (_, booted) = found(commands).await?;
    Ok((!booted.is(wanted)).then(|| wrong_image(&booted.name(), wanted)))
}

#[cfg(test)]
mod tests;
