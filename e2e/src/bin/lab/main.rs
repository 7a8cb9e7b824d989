//! `lab`: test clusters for people, what runs in their pods, and what measures the daemon. Not part of an installation.

mod bench;
mod catalog;
mod chaos;
mod cluster;
mod demo;
mod fuzz;
mod installed_operator;
mod interrupt;
mod node_commands;
mod operator;
mod pause;
mod reach;
mod registry_front;
mod serve_folder;
mod served_operator;
mod services;
mod simulate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Test clusters and what runs in them.
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure installing, updating, resting and repairing with a real release.
    Bench(bench::Bench),
    /// Write catalogs of operators, and measure what reading them costs.
    #[command(subcommand)]
    Catalog(catalog::Command),
    /// Install and update while daemon and cluster are killed, frozen and restarted at random moments.
    Chaos(chaos::Chaos),
    /// Start, stop and use test clusters.
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Update a fresh cluster from release to release while one watches.
    Demo(demo::Demo),
    /// Feed everything that reads from outside with changed inputs.
    Fuzz(fuzz::Fuzz),
    /// The operator of a sample package, as it runs in its pod.
    #[command(hide = true)]
    InstalledOperator(installed_operator::InstalledOperator),
    /// A sample component's operator, as it runs in its pod.
    #[command(hide = true)]
    Operator(operator::OperatorArgs),
    /// Sleep until terminated (the pause container).
    #[command(hide = true)]
    Pause,
    /// Ask the API server for its version as a pod does (a test of the cluster's network).
    #[command(hide = true)]
    Reach(reach::Reach),
    /// Let pods read a registry (by TLS, and with a password for some repositories).
    #[command(hide = true)]
    RegistryFront(registry_front::RegistryFront),
    /// Serve the files of a folder over plain HTTP (the signature store and the update graph of a test cluster).
    #[command(hide = true)]
    ServeFolder(serve_folder::ServeFolder),
    /// What the API server asks of a sample operator: an API, or webhooks.
    #[command(hide = true)]
    ServedOperator(served_operator::ServedOperator),
    /// Make Services reachable, and their names (in place of kube-proxy and CoreDNS on a node).
    #[command(hide = true)]
    Services(services::Services),
    /// Roll node configurations out over simulated nodes, with a virtual clock and everything that may go wrong.
    Simulate(simulate::Simulate),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(outcome) = node_commands::by_name(&arguments) {
        return code(outcome);
    }
    let outcome = match Arguments::parse_from(served_operator::renamed(arguments)).command {
        Command::Bench(bench) => bench::run(bench).await,
        Command::Catalog(command) => catalog::run(&command),
        Command::Chaos(chaos) => chaos::run(chaos).await,
        Command::Cluster(command) => cluster::run(command).await,
        Command::Demo(demo) => demo::run(demo).await,
        Command::Fuzz(fuzz) => fuzz::run(&fuzz),
        Command::InstalledOperator(args) => installed_operator::run(args).await,
        Command::Operator(args) => operator::run(args).await,
        Command::Pause => pause::run().await,
        Command::Reach(reach) => reach::run(reach).await,
        Command::RegistryFront(front) => registry_front::run(front).await,
        Command::ServeFolder(serve) => serve_folder::run(serve).await,
        Command::ServedOperator(args) => served_operator::run(args).await,
        Command::Services(services) => services::run(services).await,
        Command::Simulate(simulate) => simulate::run(&simulate),
    };
    code(outcome)
}

fn code(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
