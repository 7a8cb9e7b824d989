//! `cvo completion` and `cvo man-pages`: what shells and `man` know of the commands, made of the command line itself.

use super::output::to_stdout;
use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;

/// Print a script that completes the commands and flags in a shell
///
/// For bash: `source <(cvo completion bash)`.
#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Write a manual page of each command into a folder
#[derive(Args, Debug)]
pub(crate) struct ManPagesArgs {
    /// It has to exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

pub(crate) fn completion(args: &CompletionArgs, mut line: Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut line, "cvo", &mut script);
    to_stdout(|out| std::io::Write::write_all(out, &script))
}

pub(crate) fn man_pages(args: &ManPagesArgs, line: Command) -> anyhow::Result<()> {
    clap_mangen::generate_to(line, &args.folder)
        .with_context(|| format!("cannot write manual pages into {}", args.folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn manual_pages_tell_of_every_command_that_is_not_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let args = ManPagesArgs { folder: folder.path().to_owned() };
        man_pages(&args, crate::cli::Cli::command()).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join(name));
        assert!(page("cvo.1").unwrap().contains("cvo\\-upgrade(1)"));
        for command in ["upgrade", "node-plan", "release-mirror"] {
            assert!(page(&format!("cvo-{command}.1")).unwrap().starts_with(".ie"), "{command}");
        }
        assert!(page("cvo-preflight.1").is_err(), "it is hidden");
        let nowhere = ManPagesArgs { folder: folder.path().join("nowhere") };
        let error = man_pages(&nowhere, crate::cli::Cli::command()).unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
    }
}
