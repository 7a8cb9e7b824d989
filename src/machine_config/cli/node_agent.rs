//! `cvo node-agent`: the agent of one node, and `cvo in-root`, by which it runs programs of the node.

use crate::machine_config::work::agent;
use crate::machine_config::work::agent::Settings;
use anyhow::Context;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use tokio_util::sync::CancellationToken;

/// Run a program in another root.
#[derive(Args, Debug)]
pub(crate) struct InRootArgs {
    root: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) async fn run(settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    anyhow::ensure!(!settings.node_name.is_empty(), "--node-name (or NODE_NAME) must name the Node of this process");
    Ok(agent::run(settings, stop).await?)
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
