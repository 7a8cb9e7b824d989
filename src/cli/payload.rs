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
    let _alone = lock(store)?;
    let temporary = store.join(format!(".{name}"));
    // What an interrupted copy left would count as part of this one.
    if temporary.exists() {
        std::fs::remove_dir_all(&temporary).with_context(|| format!("cannot remove {}", temporary.display()))?;
    }
    // What loading will read, and no less: whatever of it cannot be had makes the image unusable.
    let files = crate::work::payload_dir::read(from).context("the image is no usable release image")?;
    anyhow::ensure!(
        files.unreadable.is_empty(),
        "the image is no usable release image: {}",
        files.unreadable.join("; ")
    );
    for (folder, files) in [("manifests", files.own), ("release-manifests", files.release)] {
        let target = temporary.join(folder);
        std::fs::create_dir_all(&target).with_context(|| format!("cannot create {}", target.display()))?;
        for file in files {
            let to = target.join(&file.name);
            std::fs::write(&to, &file.bytes).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    let tree = crate::work::payload_dir::tree_hash(&temporary)?;
    // The daemon may be reading what an earlier copy put there.
    if !crate::work::payload_dir::tree_hash(to).is_ok_and(|there| there == tree) {
        if to.exists() {
            std::fs::remove_dir_all(to).with_context(|| format!("cannot remove the old {}", to.display()))?;
        }
        std::fs::rename(&temporary, to).with_context(|| format!("cannot put {} in place", to.display()))?;
    }
    prune(store, name, keep);
    std::fs::write(message, &tree).with_context(|| format!("cannot write {}", message.display()))?;
    output::line(&tree)
}

/// Waits until no other copy writes into the store, and keeps others waiting while it is held. A kubelet may start the
/// container of a Job that was given up long ago once its registry answers, and process ids do not tell containers apart.
fn lock(store: &Path) -> anyhow::Result<std::fs::File> {
    let path = store.join(".lock");
    let file = std::fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Removes what earlier releases and interrupted copies left. Failing to is no reason to fail.
fn prune(store: &Path, name: &str, keep: &[String]) {
    for entry in std::fs::read_dir(store).into_iter().flatten().flatten() {
        let other = entry.file_name().to_string_lossy().into_owned();
        // A leading dot: not finished.
        let folder = other.strip_prefix('.').unwrap_or(&other);
        let ours = folder.starts_with("sha256-") || folder.starts_with("tag-");
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
        std::os::unix::fs::symlink("a.yaml", image.join("manifests/link.yaml")).unwrap();
        let store = root.path().join("store");
        let interrupted = ".sha256-new/manifests";
        for old in ["sha256-old", "sha256-kept", "foreign", ".tag-old", interrupted] {
            std::fs::create_dir_all(store.join(old)).unwrap();
        }
        std::fs::write(store.join(interrupted).join("left.yaml"), "a: 1").unwrap();
        let message = root.path().join("message");
        copy(&image, &store.join("sha256-new"), &["sha256-kept".into()], &message).unwrap();
        assert!(store.join("sha256-new/manifests/a.yaml").exists());
        let linked = std::fs::read_to_string(store.join("sha256-new/manifests/link.yaml")).unwrap();
        assert_eq!(linked, "a: 1", "a link inside the image is the file it stands for");
        assert!(!store.join("sha256-new/manifests/left.yaml").exists());
        assert!(
            !store.join("sha256-old").exists()
                && !store.join(".tag-old").exists()
                && !store.join(".sha256-new").exists()
        );
        assert!(store.join("sha256-kept").exists() && store.join("foreign").exists());
        let hash = crate::work::payload_dir::tree_hash(&store.join("sha256-new")).unwrap();
        assert_eq!(std::fs::read_to_string(&message).unwrap(), hash);
        let put = |store: &Path| store.join("sha256-new").metadata().unwrap().modified().unwrap();
        let before = put(&store);
        copy(&image, &store.join("sha256-new"), &["sha256-kept".into()], &message).unwrap();
        assert_eq!(put(&store), before, "one that is there already stays as it is");
        assert!(!store.join(".sha256-new").exists());
        let error = copy(&root.path().join("nothing"), &store.join("sha256-x"), &[], &message).unwrap_err();
        assert!(format!("{error:#}").contains("no usable release image"), "{error:#}");
        std::os::unix::fs::symlink("/etc/passwd", image.join("manifests/out.yaml")).unwrap();
        let error = copy(&image, &store.join("sha256-x"), &[], &message).unwrap_err();
        assert!(format!("{error:#}").contains("out.yaml is a link that leads out"), "{error:#}");
        assert!(!store.join("sha256-x").exists());
    }

    #[test]
    fn copies_into_one_store_come_one_after_the_other() {
        let root = tempfile::tempdir().unwrap();
        let image = root.path().join("image");
        for folder in ["manifests", "release-manifests"] {
            std::fs::create_dir_all(image.join(folder)).unwrap();
        }
        for i in 0..200 {
            std::fs::write(image.join(format!("manifests/{i}.yaml")), format!("a: {i}")).unwrap();
        }
        for file in ["image-references", "release-metadata"] {
            std::fs::write(image.join("release-manifests").join(file), "{}").unwrap();
        }
        let to = root.path().join("store/sha256-new");
        std::thread::scope(|scope| {
            let copies: Vec<_> = (0..4)
                .map(|i| {
                    let message = root.path().join(format!("message-{i}"));
                    let (image, to) = (&image, &to);
                    scope.spawn(move || copy(image, to, &[], &message))
                })
                .collect();
            for done in copies {
                done.join().unwrap().unwrap();
            }
        });
        let hash = crate::work::payload_dir::tree_hash(&to).unwrap();
        assert!((0..4).all(|i| std::fs::read_to_string(root.path().join(format!("message-{i}"))).unwrap() == hash));
        assert_eq!(crate::work::payload_dir::tree_hash(&image).unwrap(), hash);
    }
}
