//! The command line: one file a subcommand.

// These macros panic if the output cannot be written; the functions of `output` do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub(crate) mod collect;
pub(crate) mod doctor;
pub(crate) mod exit;
pub(crate) mod filters;
pub(crate) mod folder;
pub(crate) mod generate;
pub(crate) mod history;
pub(crate) mod image;
pub(crate) mod image_build;
pub(crate) mod image_files;
pub(crate) mod layout;
pub(crate) mod output;
pub(crate) mod overview;
pub(crate) mod page;
pub(crate) mod pages;
pub(crate) mod plan;
pub(crate) mod reach;
pub(crate) mod reference;
pub(crate) mod release;
pub(crate) mod status;
pub(crate) mod upgrade;
pub(crate) mod wait;
pub(crate) mod watched;

use crate::cluster_version::cli::{ack, graph, payload, preflight, rbac, render, start, verify};
use crate::cluster_version::daemon;
use crate::cluster_version::work::operator_configuration::{LogLevel, SetLogLevel};
use crate::machine_config;
use crate::machine_config::cli::{node, node_agent};
use crate::olm;
use crate::olm::cli::{bundle, catalog};
use crate::process::signals;
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::Exit;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Updates a Kubernetes cluster from one release to the next
#[derive(Parser, Debug)]
#[command(name = "cvo", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Overview(overview::OverviewArgs),
    Start(Box<daemon::Settings>),
    MachineConfig(Box<machine_config::daemon::Settings>),
    /// The catalogs of operators in a cluster
    #[command(subcommand)]
    Olm(olm::cli::olm::OlmCommand),
    Render(render::RenderArgs),
    Status(status::StatusArgs),
    History(history::HistoryArgs),
    Page(page::PageArgs),
    Collect(collect::CollectArgs),
    Plan(Box<plan::PlanArgs>),
    Upgrade(Box<upgrade::UpgradeArgs>),
    Rollback(upgrade::RollbackArgs),
    Channel(upgrade::ChannelArgs),
    Ack(ack::AckArgs),
    Doctor(doctor::DoctorArgs),
    Wait(wait::WaitArgs),
    /// Check, inspect, change, build and serve file-based catalogs of operators
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Plan changes of the configuration of nodes
    #[command(subcommand)]
    Node(node::NodeCommand),
    Rbac(Box<rbac::RbacArgs>),
    Graph(graph::GraphArgs),
    Image(image::ImageArgs),
    /// Check and build bundles of operators
    #[command(subcommand)]
    Bundle(bundle::BundleCommand),
    /// Build, inspect, extract and sign release images
    #[command(subcommand)]
    Release(release::ReleaseCommand),
    Verify(verify::VerifyArgs),
    ImageBuild(image_build::ImageBuildArgs),
    ImageFiles(image_files::ImageFilesArgs),
    NodeAgent(machine_config::work::agent::Settings),
    #[command(hide = true)]
    InRoot(node_agent::InRootArgs),
    #[command(hide = true)]
    Preflight(preflight::PreflightArgs),
    /// Inspect the manifests of a release in a folder
    #[command(subcommand)]
    Payload(payload::PayloadCommand),
    Completion(generate::CompletionArgs),
    #[command(hide = true)]
    ManPages(generate::ManPagesArgs),
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

/// The subcommands that run until they are told to stop.
const DAEMONS: [&str; 5] = ["start", "machine-config", "node-agent", "olm start", "catalog serve"];

/// Parses the arguments and runs the subcommand. The cause of a failure is on standard error.
pub fn run() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::remark(&format!("cvo: cannot start the runtime: {error}"));
            return Exit::Failure.into();
        }
    };
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_daemon = DAEMONS.iter().any(|daemon| is_command(daemon, &given));
    let stop = CancellationToken::new();
    // Before anything else: the first process of a container loses a signal that it has no handler for yet.
    if is_daemon && let Err(error) = runtime.block_on(async { signals::on_signal(stop.clone()) }) {
        output::remark(&format!("cvo: {error}"));
        return Exit::Failure.into();
    }
    let cli = parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let set_log_level = log(is_daemon);
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed before");
    }
    match runtime.block_on(perform(cli.command, set_log_level, stop)) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::remark(&format!("cvo: {}", crate::error::chain(error.as_ref())));
            Exit::Failure.into()
        }
    }
}

/// Whether these arguments begin with the words of a command.
fn is_command(command: &str, given: &[OsString]) -> bool {
    let mut given = given.iter();
    command.split(' ').all(|word| given.next().is_some_and(|it| it == word))
}

/// All commands, with what their help says of the documentation.
fn line() -> clap::Command {
    pages::with_pages(Cli::command())
}

/// What was typed to run this program: kubectl runs a program of the name `kubectl-cvo` for `kubectl cvo`.
fn program(called: Option<&OsString>) -> &'static str {
    let name = called.and_then(|called| Path::new(called).file_name());
    if name.is_some_and(|name| name == "kubectl-cvo") { "kubectl cvo" } else { "cvo" }
}

/// The command, or what is wrong with the arguments: what clap finds, and what [`misuse`] finds. Without a command it is `overview`.
fn parse(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Cli, clap::Error> {
    let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let mut line = line().bin_name(program(arguments.first()));
    if arguments.len() == 1 {
        arguments.push("overview".into());
    }
    let matches = line.try_get_matches_from_mut(arguments)?;
    let (mut given, mut path) = (&matches, Vec::new());
    while let Some((name, below)) = given.subcommand() {
        path.push(name);
        given = below;
    }
    let Some(why) = misuse(&path, given) else { return Cli::from_arg_matches(&matches) };
    let command = path.iter().try_fold(&mut line, |command, name| command.find_subcommand_mut(name));
    Err(command.map_or_else(
        || clap::Error::raw(ErrorKind::ArgumentConflict, &why),
        |command| command.error(ErrorKind::ArgumentConflict, &why),
    ))
}

/// What is wrong with a combination of flags that are valid one by one. A flag without effect is an error, because whoever
/// gives it expects an effect.
fn misuse(path: &[&str], given: &ArgMatches) -> Option<String> {
    match path {
        ["plan"] => plan::misuse(given),
        ["graph"] => graph::misuse(given),
        ["payload", "list"] => payload::list::misuse(given),
        ["status" | "history" | "page"] => status::misuse(given),
        _ => None,
    }
}

async fn perform(command: Command, set_log_level: SetLogLevel, stop: CancellationToken) -> anyhow::Result<Exit> {
    match command {
        Command::Plan(args) => return plan::run(*args).await,
        Command::Ack(args) => return ack::run(args).await,
        Command::Doctor(args) => return doctor::run(args).await,
        Command::Wait(args) => return wait::run(args).await,
        Command::Upgrade(args) => return upgrade::run(*args).await,
        Command::Catalog(command) => return catalog::run(&command, stop).await,
        Command::Release(command) => return release::run(command).await,
        Command::Node(command) => return node::run(command).await,
        Command::Verify(args) => return verify::run(args).await,
        Command::Bundle(command) => return bundle::run(command).await,
        Command::Olm(command) => return olm::cli::olm::run(command, stop).await,
        Command::Start(args) => start::run(*args, set_log_level, stop).await,
        Command::MachineConfig(args) => machine_config::cli::machine_config::run(*args, stop).await,
        Command::Render(args) => render::run(args).await,
        Command::Rollback(args) => upgrade::rollback(args).await,
        Command::Channel(args) => upgrade::channel(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Overview(args) => overview::run(args, program(std::env::args_os().next().as_ref())).await,
        Command::Page(args) => page::run(args).await,
        Command::Collect(args) => collect::run(args).await,
        Command::History(args) => history::run(args).await,
        Command::Rbac(args) => rbac::run(*args).await,
        Command::Graph(args) => graph::run(&args),
        Command::Image(args) => image::run(&args),
        Command::ImageBuild(args) => image_build::run(args).await,
        Command::ImageFiles(args) => image_files::run(args).await,
        Command::NodeAgent(args) => node_agent::run(args, stop).await,
        Command::InRoot(args) => node_agent::in_root(&args),
        Command::Preflight(args) => preflight::run(args).await,
        Command::Payload(command) => payload::run(command),
        Command::Completion(args) => generate::completion(&args, line()),
        Command::Reference(args) => reference::run(&args, line()),
        Command::ManPages(args) => generate::man_pages(&args, line()),
    }
    .map(|()| Exit::Success)
}

/// The daemon logs what it does; other commands log only warnings. `RUST_LOG` overrides both. What is returned changes the
/// level later.
fn log(daemon: bool) -> SetLogLevel {
    let default = if daemon { NORMAL } else { "warn" };
    let first = move || EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(first()).with_writer(std::io::stderr);
    let builder = builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_filter_reloading();
    let handle = builder.reload_handle();
    // A test may have set a subscriber already.
    let _already = builder.try_init();
    SetLogLevel(Arc::new(move |level| {
        let filter = level.map_or_else(first, |level| EnvFilter::new(directives(level)));
        if let Err(error) = handle.reload(filter) {
            tracing::warn!(%error, "the log level stays as it is");
        }
    }))
}

const NORMAL: &str = "info,kube=warn";

/// Libraries log less than the daemon itself, unless everything is asked for.
fn directives(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Normal => NORMAL,
        LogLevel::Debug => "info,kube=warn,cvo=debug",
        LogLevel::Trace => "info,kube=debug,cvo=trace",
        LogLevel::TraceAll => "trace",
    }
}

#[cfg(test)]
mod tests;
