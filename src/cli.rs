//! The command line: one file a subcommand.

pub mod render;

use std::process::ExitCode;

/// Parses the arguments and runs the subcommand. Exit code 0: done; 1: failed, with the reason on standard error;
/// 2: wrong usage.
pub fn run() -> ExitCode {
    ExitCode::SUCCESS
}
