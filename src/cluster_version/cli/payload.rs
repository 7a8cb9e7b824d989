//! `cvo payload`: lists what a release in a folder contains; and the hidden commands of containers that take something out of an image.

pub(crate) mod list;

use crate::cli::output;
use crate::cluster_version::work::retrieve::copy::copy;
use anyhow::Context;
use clap::Subcommand;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub(crate) enum PayloadCommand {
    List(list::ListArgs),
    /// Copy this binary to a place that the next container can run it from.
    #[command(hide = true)]
    InstallTool {
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Copy manifests/ and release-manifests/ of this image into a payload folder, in one atomic step.
    #[command(hide = true)]
    Copy {
        /// Root of the image.
        #[arg(long, default_value = "/", value_name = "DIR")]
        from: PathBuf,
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Other folders of the payload store to keep; all others are removed.
        #[arg(long, value_name = "NAME")]
        keep: Vec<String>,
        /// File to which the tree hash is written for the daemon.
        #[arg(long, default_value = "/dev/termination-log", value_name = "FILE")]
        message: PathBuf,
    },
    /// Copy the files of a folder of this image to another folder, which may be a volume.
    #[command(hide = true)]
    CopyFolder {
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
}

pub(crate) fn run(command: PayloadCommand) -> anyhow::Result<()> {
    match command {
        PayloadCommand::List(args) => list::run(&args),
        PayloadCommand::InstallTool { to } => {
            let binary = std::env::current_exe().context("cannot find the running binary")?;
            std::fs::copy(&binary, &to)
                .with_context(|| format!("cannot copy {} to {}", binary.display(), to.display()))?;
            Ok(())
        }
        PayloadCommand::Copy { from, to, keep, message } => {
            let tree = copy(&from, &to, &keep)?;
            std::fs::write(&message, &tree).with_context(|| format!("cannot write {}", message.display()))?;
            output::line(&tree)
        }
        PayloadCommand::CopyFolder { from, to } => copy_folder(&from, &to),
    }
}

/// Folders and what links lead to become plain folders and files. What is neither is left out.
fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    let from = fs::canonicalize(from).with_context(|| format!("the image has no folder {}", from.display()))?;
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        // Links of an image may lead nowhere, or in a circle.
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        match fs::metadata(&path) {
            Ok(target) if target.is_dir() && !is_link => copy_folder(&path, &to)?,
            Ok(target) if target.is_file() => {
                fs::copy(&path, &to).with_context(|| format!("cannot copy {} to {}", path.display(), to.display()))?;
            }
            Ok(_) | Err(_) => {
                tracing::warn!(path = %path.display(), "this is neither file nor folder, and is left out")
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_of_a_folder_are_copied_with_those_that_links_lead_to_and_circles_end() {
        let root = tempfile::tempdir().unwrap();
        let (real, from, to) = (root.path().join("real"), root.path().join("configs"), root.path().join("to/catalog"));
        fs::create_dir_all(real.join("a")).unwrap();
        fs::write(real.join("a/catalog.json"), "{}").unwrap();
        symlink(real.join("a/catalog.json"), real.join("link.json")).unwrap();
        symlink(&real, real.join("a/circle")).unwrap();
        symlink("nowhere", real.join("broken")).unwrap();
        symlink(&real, &from).unwrap();
        copy_folder(&from, &to).unwrap();
        let names = |folder: &Path| {
            let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(
            (names(&to), names(&to.join("a"))),
            (vec!["a".into(), "link.json".into()], vec!["catalog.json".into()])
        );
        assert_eq!(fs::read(to.join("link.json")).unwrap(), b"{}");
        let error = copy_folder(&root.path().join("none"), &to).unwrap_err();
        assert!(error.to_string().contains("the image has no folder"), "{error}");
    }
}
