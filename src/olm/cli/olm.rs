//! `cvo olm`: the controller of operators, and what people ask a cluster of it.

use super::{catalogs, list, packages, plan, requests, status};
use crate::cli::exit::Exit;
use crate::olm::daemon;
use crate::olm::daemon::Settings;
use clap::Subcommand;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Subcommand)]
pub(crate) enum OlmCommand {
    Start(Box<Settings>),
    Catalogs(catalogs::CatalogsArgs),
    Packages(packages::PackagesArgs),
    List(list::ListArgs),
    Status(status::StatusArgs),
    Plan(Box<plan::PlanArgs>),
    Why(Box<plan::WhyArgs>),
    WhyNot(Box<plan::WhyNotArgs>),
    Subscribe(requests::SubscribeArgs),
    Approve(requests::ApproveArgs),
}

pub(crate) async fn run(command: OlmCommand, stop: CancellationToken) -> anyhow::Result<Exit> {
    match command {
        OlmCommand::Start(settings) => {
            daemon::run(*settings, stop).await?;
            Ok(Exit::Success)
        }
        OlmCommand::Catalogs(args) => catalogs::run(&args).await,
        OlmCommand::Packages(args) => packages::run(&args).await,
        OlmCommand::List(args) => list::run(&args).await,
        OlmCommand::Status(args) => status::run(&args).await,
        OlmCommand::Plan(args) => plan::run(&args).await,
        OlmCommand::Why(args) => plan::why(&args).await,
        OlmCommand::WhyNot(args) => plan::why_not(&args).await,
        OlmCommand::Subscribe(args) => requests::subscribe(&args).await,
        OlmCommand::Approve(args) => requests::approve(&args).await,
    }
}
