//! `cvo payload`: what a release in a folder holds, and the two hidden commands that retrieval Jobs run, which execute
//! nothing of the target.

pub mod list;

use super::output;
use anyhow::Context;
use clap::Subcommand;
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub enum PayloadCommand {
    List(list::ListArgs),
    /// Copy this very binary to a place that the next container can run it from.
    #[command(hide = true)]
    InstallTool {
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Copy manifests/ and release-manifests/ of the surrounding image into a payload folder, as one atomic step.
    #[command(hide = true)]
    Copy {
        /// Root of the image.
        #[arg(long, default_value = "/", value_name = "DIR")]
        from: PathBuf,
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Other folders beside it that must stay; what is not named is removed.
        #[arg(long, value_name = "NAME")]
        keep: Vec<String>,
        /// Where to leave the tree hash for the daemon.
        #[arg(long, default_value = "/dev/termination-log", value_name = "FILE")]
        message: PathBuf,
    },
}

pub fn run(command: PayloadCommand) -> anyhow::Result<()> {
    match command {
        PayloadCommand::List(args) => list::run(&args),
        PayloadCommand::InstallTool { to } => {
            let own = std::env::current_exe().context("cannot find the running binary")?;
            std::fs::copy(&own, &to).with_context(|| format!("cannot copy {} to {}", own.display(), to.display()))?;
            Ok(())
        }
        PayloadCommand::Copy { from, to, keep, message } => copy(&from, &to, &keep, &message),
    }
}

fn copy(from: &Path, to: &Path, keep: &[String], message: &Path) -> anyhow::Result<()> {
    let store = to.parent().context("--to must name a folder inside the payload store")?;
    let name = to.file_name().and_then(|n| n.to_str()).context("--to must end in a folder name")?;
    std::fs::create_dir_all(store).with_context(|| format!("cannot create {}", store.display()))?;
    let temporary = store.join(format!(".{name}.{}", std::process::id()));
    for folder in ["manifests", "release-manifests"] {
        let (source, target) = (from.join(folder), temporary.join(folder));
        std::fs::create_dir_all(&target).with_context(|| format!("cannot create {}", target.display()))?;
        let entries = std::fs::read_dir(&source)
            .with_context(|| format!("the image is no release image: it has no readable {}", source.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", source.display()))?;
            // Links could lead anywhere; a release has none.
            if entry.file_type().is_ok_and(|t| t.is_file()) {
                let to = target.join(entry.file_name());
                std::fs::copy(entry.path(), &to).with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
    }
    crate::work::payload_dir::read(&temporary).context("the image is no usable release image")?;
    let tree = crate::work::payload_dir::tree_hash(&temporary)?;
    if to.exists() {
        std::fs::remove_dir_all(to).with_context(|| format!("cannot remove the old {}", to.display()))?;
    }
    std::fs::rename(&temporary, to).with_context(|| format!("cannot put {} in place", to.display()))?;
    prune(store, name, keep);
    std::fs::write(message, &tree).with_context(|| format!("cannot write {}", message.display()))?;
    output::line(&tree)
}

/// Removes what earlier releases and interrupted copies left. Failing to is no reason to fail.
fn prune(store: &Path, name: &str, keep: &[String]) {
    for entry in std::fs::read_dir(store).into_iter().flatten().flatten() {
        let other = entry.file_name().to_string_lossy().into_owned();
        let ours = other.starts_with("sha256-") || other.starts_with("tag-") || other.starts_with(".sha256-");
        if ours
            && other != name
            && !keep.contains(&other)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            output::remark(&format!("cannot remove {}: {error}", entry.path().display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_prunes_and_says_its_hash() {
        let root = tempfile::tempdir().unwrap();
        let image = root.path().join("image");
        for (file, text) in [
            ("manifests/a.yaml", "a: 1"),
            ("release-manifests/image-references", "{}"),
            ("release-manifests/release-metadata", "{}"),
        ] {
            std::fs::create_dir_all(image.join(file).parent().unwrap()).unwrap();
            std::fs::write(image.join(file), text).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", image.join("manifests/link.yaml")).unwrap();
        let store = root.path().join("store");
        for old in ["sha256-old", "sha256-kept", "foreign"] {
            std::fs::create_dir_all(store.join(old)).unwrap();
        }
        let message = root.path().join("message");
        copy(&image, &store.join("sha256-new"), &["sha256-kept".into()], &message).unwrap();
        assert!(store.join("sha256-new/manifests/a.yaml").exists());
        assert!(!store.join("sha256-new/manifests/link.yaml").exists());
        assert!(!store.join("sha256-old").exists());
        assert!(store.join("sha256-kept").exists() && store.join("foreign").exists());
        let hash = crate::work::payload_dir::tree_hash(&store.join("sha256-new")).unwrap();
        assert_eq!(std::fs::read_to_string(&message).unwrap(), hash);
        let error = copy(&root.path().join("nothing"), &store.join("sha256-x"), &[], &message).unwrap_err();
        assert!(format!("{error:#}").contains("no release image"), "{error:#}");
        assert!(!store.join("sha256-x").exists());
    }
}
