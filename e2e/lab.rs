//! The laboratory: test clusters for people, and the programs that play in them. Not part of an installation.

mod harness;

/// One file a subcommand.
mod lab {
    pub mod cluster;
}

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Test clusters and what plays in them.
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Test clusters: start, stop, use.
    #[command(subcommand)]
    Cluster(lab::cluster::Command),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Cluster(command) => lab::cluster::run(command).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
