//! Arguments, TLS provider, run.

use std::process::ExitCode;

fn main() -> ExitCode {
    cvo::run()
}
