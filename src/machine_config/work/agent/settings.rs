//! What the agent of a node is configured by.

use crate::machine_config::host::system::System;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Run the agent of a node: bring its files, units and operating system to the MachineConfig that its Node asks for.
///
/// One runs on each node, as root, with the root of the node's file system mounted and in the process namespace of the node.
/// It asks the machine-config controller to drain the node before a change that needs it, and says in annotations of the
/// Node how far it is.
#[derive(Args, Debug)]
pub(crate) struct Settings {
    /// Name of the Node that this process runs on.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: String,
    /// Where the root of the node's file system is mounted.
    #[arg(long, default_value = "/rootfs", value_name = "DIR")]
    pub(super) root: PathBuf,
    /// Kubeconfig instead of the pod's service account, such as that of the node's kubelet, which may change its own Node only.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Program that is run instead of systemctl of the node, for nodes without systemd: with a verb (daemon-reload, reload,
    /// restart, enable, disable, preset, is-enabled) and, except for daemon-reload, a unit as arguments. is-enabled prints
    /// enabled or disabled, or says it by the exit status 0 or 1.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) service_command: Option<String>,
    /// Program that restarts the node, without arguments, instead of systemd of the node.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) reboot_command: Option<String>,
    /// File with an id of the present boot of the node, which is another one after each restart.
    #[arg(long, default_value = "/proc/sys/kernel/random/boot_id", value_name = "FILE")]
    pub(super) boot_id_file: PathBuf,
    /// How the operating system of the node is updated: by rpm-ostree (images, kernel arguments, kernels, extensions), by
    /// bootc (images), not at all (plain: files and units only), or as the root shows (auto).
    #[arg(long, value_enum, default_value = "auto")]
    os: Os,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Os {
    Auto,
    Plain,
    RpmOstree,
    Bootc,
}

impl Settings {
    /// `None`: as the root shows.
    pub(super) fn system(&self) -> Option<System> {
        match self.os {
            Os::Auto => None,
            Os::Plain => Some(System::Plain),
            Os::RpmOstree => Some(System::RpmOstree),
            Os::Bootc => Some(System::Bootc),
        }
    }
}
