//! The operating system of a node, as far as a configuration changes it beyond files and units. Each back end is a
//! table: which commands a step takes, and how what they print is read.
//!
//! A step is asked for by its meaning, and each can be asked for again: staging begins by dropping what is staged, and
//! the way back looks at what is booted first.

pub(crate) mod bootc;
pub(crate) mod rpm_ostree;

use super::commands::{CommandError, Commands};
use super::record::Repairs;
use super::root::{HostError, Root, State};
use crate::machine_config::api::machine_config::MachineConfigSpec;
use crate::machine_config::changes::Changes;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// There where systemd is what was booted.
const SYSTEMD_BOOTED: &str = "/run/systemd/system";
/// There where ostree is what was booted.
const OSTREE_BOOTED: &str = "/run/ostree-booted";
/// Credentials for registries that the kubelet uses.
const KUBELET_AUTH: &str = "/var/lib/kubelet/config.json";
/// Folders that programs are in.
const PROGRAM_FOLDERS: [&str; 6] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Nothing but files and units can be changed.
    Plain,
    /// Images, kernel arguments, kernels and packages.
    RpmOstree,
    /// Images.
    Bootc,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SystemError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot read what {command} prints: {error}; this version of it is not known to cvo")]
    Output { command: String, error: String },
    #[error("{command} names no deployment that is booted; is this the root of the node?")]
    NotBooted { command: String },
    #[error("the operating system that was staged is not what was asked for: {0}")]
    Staged(String),
    #[error(
        "the operating system that was staged would be booted by any restart, before the node is drained: it is dropped; install \
         an rpm-ostree that knows --lock-finalization"
    )]
    NotLocked,
    #[error("the operating system that was staged is still locked after ostree was told to release it")]
    StillLocked,
}

/// What a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// It only looks, or changes what is queued for the next boot.
    Quick,
    /// It downloads or unpacks an image or packages, which takes time and memory.
    Large,
}

/// A command of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    command: Vec<String>,
    size: Size,
}

impl Step {
    fn new<'a>(size: Size, words: impl IntoIterator<Item = &'a str>) -> Step {
        Step { command: words.into_iter().map(ToOwned::to_owned).collect(), size }
    }

    async fn run(&self, commands: &Commands) -> Result<String, CommandError> {
        let ended = match self.size {
            Size::Quick => commands.on_node(&self.command, Duration::from_mins(10)).await?,
            Size::Large => commands.large(&self.command, Duration::from_hours(1)).await?,
        };
        Ok(ended.stdout)
    }

    /// What it prints is JSON.
    async fn read<T: DeserializeOwned>(&self, commands: &Commands) -> Result<T, SystemError> {
        let output = self.run(commands).await?;
        serde_json::from_str(&output)
            .map_err(|error| SystemError::Output { command: self.command.join(" "), error: error.to_string() })
    }

    /// On the way back everything is tried.
    async fn attempt(&self, commands: &Commands) {
        if let Err(error) = self.run(commands).await {
            tracing::warn!(%error, "going on");
        }
    }
}

/// Whether an image is the one that is wanted: by its name, or by its digest wherever it was pulled from.
fn is_image(wanted: &str, name: &str, digest: Option<&str>) -> bool {
    let wanted_digest = wanted.rsplit_once('@').map(|(_, digest)| digest);
    name == wanted
        || wanted_digest.is_some_and(|wanted| Some(wanted) == digest || name.ends_with(&format!("@{wanted}")))
}

/// What the node boots instead of what it should.
fn wrong_image(found: &str, wanted: &str) -> String {
    format!(
        "the booted image is {found} and should be {wanted}; why the restart did not take it, \
         `journalctl --boot=-1 --unit=ostree-finalize-staged.service` on the node may say"
    )
}

/// Whether the node's systemd can be given something to run.
pub(crate) fn runs_units(root: &Root, commands: &Commands) -> bool {
    commands.service_command.is_none() && root.exists(SYSTEMD_BOOTED) && has_program(root, "systemd-run")
}

/// Where the node has a program.
pub(crate) fn has_program(root: &Root, name: &str) -> bool {
    match name.starts_with('/') {
        true => root.exists(name),
        false => PROGRAM_FOLDERS.iter().any(|folder| root.exists(&format!("{folder}/{name}"))),
    }
}

/// How podman gets at images that need credentials.
fn auth_file(root: &Root) -> Option<String> {
    root.exists(KUBELET_AUTH).then(|| format!("--authfile={KUBELET_AUTH}"))
}

impl System {
    /// By what is in the root. An rpm-ostree can do all that bootc can, and most hosts that have one have both.
    pub(crate) fn detect(root: &Root) -> System {
        match () {
            () if !root.exists(OSTREE_BOOTED) => System::Plain,
            () if has_program(root, "rpm-ostree") => System::RpmOstree,
            () if has_program(root, "bootc") => System::Bootc,
            () => System::Plain,
        }
    }

    /// Why this operating system cannot make the change, if it cannot.
    pub(crate) fn refusal(self, changes: &Changes, new: &MachineConfigSpec) -> Option<String> {
        let parts = [
            ("osImageURL", changes.os_image.is_some(), self != System::Plain),
            ("baseOSExtensionsContainerImage", changes.extensions_image.is_some(), self == System::RpmOstree),
            ("kernelArguments", changes.kernel_arguments.is_some(), self == System::RpmOstree),
            ("kernelType", changes.kernel_type.is_some(), self == System::RpmOstree),
            ("extensions", changes.extensions.is_some(), self == System::RpmOstree),
            ("fips", changes.fips.is_some(), false),
        ];
        let refused = parts.into_iter().filter(|(_, changes, able)| *changes && !able).map(|(name, ..)| name);
        let refused = refused.collect::<Vec<_>>().join(", ");
        let why = match self {
            System::Plain => {
                "the operating system of this node can only be given files and units; set them back, or install the \
                 node with an operating system that is updated by images"
            }
            System::RpmOstree => "rpm-ostree cannot change that on a node that is installed; set it back",
            System::Bootc => {
                "bootc, which updates the operating system of this node, changes images only; set them back, and build \
                 what they ask for into the image of osImageURL"
            }
        };
        if !refused.is_empty() {
            return Some(format!("the MachineConfig changes {refused}, and {why}"));
        }
        if changes.os_image.is_some() && new.os_image_url.is_empty() {
            return Some(
                "the MachineConfig no longer has an osImageURL, and a node keeps booting one; set it".to_owned(),
            );
        }
        match self {
            System::RpmOstree => rpm_ostree::refusal(changes, new),
            System::Plain | System::Bootc => None,
        }
    }

    /// Programs of the node that the change takes.
    pub(crate) fn programs(self, changes: &Changes, new: &MachineConfigSpec) -> Vec<&'static str> {
        match self {
            System::Plain => Vec::new(),
            System::RpmOstree => rpm_ostree::programs(changes, new),
            System::Bootc => bootc::programs(changes),
        }
    }

    /// Prepares what can be without disturbing the node, so that no restart activates it before [`System::activate`].
    pub(crate) async fn stage(
        self,
        root: &Root,
        commands: &Commands,
        changes: &Changes,
        new: &MachineConfigSpec,
    ) -> Result<(), SystemError> {
        match self {
            System::Plain => Ok(()),
            System::RpmOstree => rpm_ostree::stage(root, commands, changes, new).await,
            System::Bootc => bootc::stage(root, commands, changes).await,
        }
    }

    /// What was staged is not wanted any more.
    pub(crate) async fn drop_staged(self, commands: &Commands) -> Result<(), SystemError> {
        match self {
            System::Plain => Ok(()),
            // It has deployed nothing yet; the kubelet removes images that nobody uses.
            System::Bootc => {
                commands.stop_left().await;
                Ok(())
            }
            System::RpmOstree => rpm_ostree::drop_staged(commands).await,
        }
    }

    /// The next boot is what was staged.
    pub(crate) async fn activate(
        self,
        commands: &Commands,
        changes: &Changes,
        new: &MachineConfigSpec,
    ) -> Result<(), SystemError> {
        match self {
            System::Plain => Ok(()),
            System::RpmOstree => rpm_ostree::activate(commands, changes, new).await,
            System::Bootc => bootc::activate(commands, changes).await,
        }
    }

    /// The next boot is what was booted before the update. `restarted`: what the update has staged may have been booted
    /// meanwhile. Whether it is booted now, and is left by the next restart.
    pub(crate) async fn give_back(
        self,
        commands: &Commands,
        changes: &Changes,
        new: &MachineConfigSpec,
        restarted: bool,
    ) -> Result<bool, SystemError> {
        // What it would still stage would be booted by the next restart.
        commands.stop_left().await;
        match self {
            System::Plain => Ok(false),
            System::RpmOstree => rpm_ostree::give_back(commands, changes, new, restarted).await,
            System::Bootc => bootc::give_back(commands, changes, restarted).await,
        }
    }

    /// How the booted operating system differs from the configuration.
    pub(crate) async fn deviation(
        self,
        commands: &Commands,
        config: &MachineConfigSpec,
    ) -> Result<Option<String>, SystemError> {
        match self {
            System::Plain => Ok(None),
            System::RpmOstree => rpm_ostree::deviation(commands, config).await,
            System::Bootc => bootc::deviation(commands, config).await,
        }
    }

    /// What deviates of what can be put right by staging it once more.
    pub(crate) async fn repairs(self, commands: &Commands, config: &MachineConfigSpec) -> Result<Repairs, SystemError> {
        match self {
            System::Plain => Ok(Repairs::default()),
            System::RpmOstree => rpm_ostree::repairs(commands, config).await,
            System::Bootc => bootc::repairs(commands, config).await,
        }
    }

    /// Whether the change is staged, so that something is to be dropped when it is not wanted any more.
    pub(crate) fn stages(self, changes: &Changes) -> bool {
        match self {
            System::Plain => false,
            System::RpmOstree => rpm_ostree::deploys(changes),
            System::Bootc => changes.os_image.is_some(),
        }
    }

    /// Staging takes no time.
    pub(crate) fn stages_nothing(self) -> bool {
        self == System::Plain
    }
}

/// A file that only holds what the root's own superuser may write.
fn root_file(root: &Root, content: &str) -> Result<State, HostError> {
    Ok(State::File { content: content.as_bytes().into(), mode: 0o644, owner: root.owner()? })
}

#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
mod tests;
