//! `cvo payload`: lists what a release in a folder contains; and the two hidden commands of the retrieval Job.

pub(crate) mod list;

use crate::cli::output;
use crate::cluster_version::work::retrieve::copy::copy;
use anyhow::Context;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub(crate) enum PayloadCommand {
    List(list::ListArgs),
    /// Copy this binary to a place that the next container can run it from.
    #[command(hide = true)]
    InstallTool {
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Copy manifests/ and release-manifests/ of this image into a payload folder, in one atomic step.
    #[command(hide = true)]
    Copy {
        /// Root of the image.
        #[arg(long, default_value = "/", value_name = "DIR")]
        from: PathBuf,
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Other folders of the payload store to keep; all others are removed.
        #[arg(long, value_name = "NAME")]
        keep: Vec<String>,
        /// File to which the tree hash is written for the daemon.
        #[arg(long, default_value = "/dev/termination-log", value_name = "FILE")]
        message: PathBuf,
    },
}

pub(crate) fn run(command: PayloadCommand) -> anyhow::Result<()> {
    match command {
        PayloadCommand::List(args) => list::run(&args),
        PayloadCommand::InstallTool { to } => {
            let binary = std::env::current_exe().context("cannot find the running binary")?;
            std::fs::copy(&binary, &to)
                .with_context(|| format!("cannot copy {} to {}", binary.display(), to.display()))?;
            Ok(())
        }
        PayloadCommand::Copy { from, to, keep, message } => {
            let tree = copy(&from, &to, &keep)?;
            std::fs::write(&message, &tree).with_context(|| format!("cannot write {}", message.display()))?;
            output::line(&tree)
        }
    }
}
