//! `cvo node`: about the configuration of nodes.

pub(crate) mod plan;

use crate::cli::exit::Exit;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    Plan(plan::NodePlanArgs),
}

pub(crate) async fn run(command: NodeCommand) -> anyhow::Result<Exit> {
    match command {
        NodeCommand::Plan(args) => plan::run(args).await,
    }
}
