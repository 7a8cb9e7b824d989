//! `cvo release extract`: writes the manifests of a release image to a folder, completely or not at all.

use super::{ImageSource, OWN_MANIFESTS, Pulled, RELEASE_MANIFESTS};
use crate::cli::output;
use crate::net::registry::{layer, parse_reference, pull_spec};
use anyhow::{Context, ensure};
use clap::Args;
use std::path::{Path, PathBuf};

/// Extract the manifests of a release image to a folder
///
/// Writes manifests/ (from the base image) and release-manifests/ as a container would see them, with all layers applied.
/// Only regular files are written; an image with links that lead out of these folders is refused. The folder is written
/// completely or not at all.
#[derive(Args, Debug)]
pub(crate) struct ExtractArgs {
    /// Pull spec of a release image
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// Folder to write, which must be new or empty
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    #[command(flatten)]
    pub source: ImageSource,
}

pub(crate) async fn run(args: ExtractArgs) -> anyhow::Result<()> {
    check_target(&args.to)?;
    let Pulled { reference, repository, image } = args.source.pull(&parse_reference(&args.image)?).await?;
    let found = repository.gather(&image, &[OWN_MANIFESTS, RELEASE_MANIFESTS], |_| false).await?;
    for link in &found.skipped {
        output::remark(&format!("{link}: skipped, since it leads to no regular file"));
    }
    for name in ["image-references", "release-metadata"] {
        let path = format!("{RELEASE_MANIFESTS}{name}");
        ensure!(found.files.contains_key(&path), "{reference} is not a release image: {path} is missing");
    }
    let count = found.files.len();
    write_folder(&args.to, found.files)?;
    let from = pull_spec(&reference, &image.digest);
    output::remark(&format!("{count} files of {from} in {}", args.to.display()));
    Ok(())
}

/// Fails unless the folder has a name and is new or empty, so that the error comes before any work.
pub(crate) fn check_target(dir: &Path) -> anyhow::Result<()> {
    ensure!(
        dir.file_name().is_some(),
        "{} is not the name of a folder, which is put in place as a whole: give a new one, such as {}",
        dir.display(),
        dir.join("release").display()
    );
    match std::fs::read_dir(dir) {
        Ok(mut entries) => {
            ensure!(entries.next().is_none(), "{} is not empty: give a new folder, or empty this one", dir.display());
            Ok(())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e).with_context(|| dir.display().to_string()),
    }
}

/// Writes files to a new or empty folder: first to a temporary folder next to it, which then takes its name in one step.
/// Paths are relative and checked, so that none leads out of it.
pub(crate) fn write_folder(dir: &Path, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> anyhow::Result<()> {
    check_target(dir)?;
    let name =
        dir.file_name().with_context(|| format!("{} is not the name of a folder", dir.display()))?.to_string_lossy();
    let temporary = dir.with_file_name(format!(".{name}.partial-{}", std::process::id()));
    let result = fill(&temporary, files)
        .and_then(|()| std::fs::rename(&temporary, dir).with_context(|| dir.display().to_string()));
    if result.is_err() {
        // The first error is the one to report, whether or not this succeeds.
        let _ = std::fs::remove_dir_all(&temporary);
    }
    result
}

fn fill(dir: &Path, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    for (path, bytes) in files {
        layer::check_path(&path)?;
        let path = dir.join(path);
        let place = || path.display().to_string();
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(place)?;
        }
        std::fs::write(&path, bytes).with_context(place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
