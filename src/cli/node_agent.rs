//! `cvo node-agent`: the agent of one node, and `cvo in-root`, by which it runs programs of the node.

use crate::host::system::System;
use crate::work::node_agent::{self, Config};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use tokio_util::sync::CancellationToken;

/// Run the agent of a node: bring its files, units and operating system to the MachineConfig that its Node asks for.
///
/// One runs on each node, as root, with the root of the node's file system mounted and in the process namespace of the node.
/// It asks the machine-config controller to drain the node before a change that needs it, and says in annotations of the
/// Node how far it is.
#[derive(Args, Debug)]
pub(crate) struct NodeAgentArgs {
    /// Name of the Node that this process runs on.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: String,
    /// Where the root of the node's file system is mounted.
    #[arg(long, default_value = "/rootfs", value_name = "DIR")]
    root: PathBuf,
    /// Kubeconfig instead of the pod's service account, such as that of the node's kubelet, which may change its own Node only.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Program that is run instead of systemctl of the node, for nodes without systemd: with a verb (daemon-reload, reload,
    /// restart, enable, disable, preset, is-enabled) and, except for daemon-reload, a unit as arguments. is-enabled prints
    /// enabled or disabled, or says it by the exit status 0 or 1.
    #[arg(long, value_name = "PROGRAM")]
    service_command: Option<String>,
    /// Program that restarts the node, without arguments, instead of systemd of the node.
    #[arg(long, value_name = "PROGRAM")]
    reboot_command: Option<String>,
    /// File with an id of the present boot of the node, which is another one after each restart.
    #[arg(long, default_value = "/proc/sys/kernel/random/boot_id", value_name = "FILE")]
    boot_id_file: PathBuf,
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

/// Run a program in another root.
#[derive(Args, Debug)]
pub(crate) struct InRootArgs {
    root: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) async fn run(args: NodeAgentArgs, stop: CancellationToken) -> anyhow::Result<()> {
    anyhow::ensure!(!args.node_name.is_empty(), "--node-name (or NODE_NAME) must name the Node of this process");
    let config = Config {
        node: args.node_name,
        root: args.root,
        kubeconfig: args.kubeconfig,
        service_command: args.service_command,
        reboot_command: args.reboot_command,
        boot_id: args.boot_id_file,
        system: match args.os {
            Os::Auto => None,
            Os::Plain => Some(System::Plain),
            Os::RpmOstree => Some(System::RpmOstree),
            Os::Bootc => Some(System::Bootc),
        },
    };
    Ok(node_agent::run(config, stop).await?)
}

/// Becomes the program; returns only if that fails.
pub(crate) fn in_root(args: &InRootArgs) -> anyhow::Result<()> {
    let root = args.root.display();
    rustix::process::chroot(&args.root).with_context(|| format!("cannot make {root} the root"))?;
    rustix::process::chdir("/").with_context(|| format!("cannot enter {root}"))?;
    let (program, arguments) = args.command.split_first().context("no program is given")?;
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    Err(command.exec()).with_context(|| format!("cannot run {program} in {root}"))
}
