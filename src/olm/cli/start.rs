//! `cvo olm start`: the controller of operators.

use crate::olm::daemon;
use crate::olm::daemon::Settings;
use clap::Subcommand;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Subcommand)]
pub(crate) enum OlmCommand {
    Start(Box<Settings>),
}

pub(crate) async fn run(command: OlmCommand, stop: CancellationToken) -> anyhow::Result<()> {
    match command {
        OlmCommand::Start(settings) => Ok(daemon::run(*settings, stop).await?),
    }
}
