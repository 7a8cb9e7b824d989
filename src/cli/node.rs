//! `cvo node`: about the configuration of nodes.

pub(crate) mod plan;

use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    Plan(plan::NodePlanArgs),
}

pub(crate) async fn run(command: NodeCommand) -> anyhow::Result<ExitCode> {
    match command {
        NodeCommand::Plan(args) => plan::run(args).await,
    }
}
