//! `cvo image-files`: files of an image, as a container of it would see them.

use super::output;
use super::release::ImageSource;
use crate::images::platform::Platform;
use crate::net::registry::files::Limits;
use crate::net::registry::layout::Layout;
use crate::net::registry::place::Place;
use crate::net::registry::source::{Opened, Sources, parse};
use anyhow::bail;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Enough for any catalog, and not enough to fill a disk.
const LIMITS: Limits = Limits {
    files: 100_000,
    bytes: 4 << 30,
    file_bytes: 1 << 30,
    packed: 8 << 30,
    unpacked: 32 << 30,
    window: 128 << 20,
    time: Duration::from_secs(3600),
    slowest: None,
};

/// Write files of an image into a folder
///
/// The files are those that a container of the image would see below each DIRECTORY, each below its own path; links are replaced by
/// what they lead to. Any image will do: if there is none for this architecture, that for amd64 is read, else the first one. The
/// folder appears when everything is there. Prints the digest of the image.
#[derive(Args, Debug)]
pub(crate) struct ImageFilesArgs {
    /// Pull spec of an image, or a folder with images (an OCI image layout)
    #[arg(value_name = "IMAGE|DIR")]
    image: String,
    /// Directory in the image: /configs
    #[arg(value_name = "DIRECTORY", required = true)]
    directories: Vec<String>,
    /// Folder to make
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Name of the image in a folder with several, or its digest
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    source: ImageSource,
}

pub(crate) async fn run(args: ImageFilesArgs) -> anyhow::Result<()> {
    let platform = Platform::Preferred(&args.source.architecture);
    let folder = Path::new(&args.image);
    let opened = if folder.is_dir() {
        let (place, name) = in_folder(folder, args.name.as_deref()).await?;
        Opened::at(place, &name, platform).await?
    } else if let Some(name) = &args.name {
        bail!("--name {name} is for a folder with images, and {} is none", args.image);
    } else {
        let sources = Sources { access: args.source.registry.access()?, ..Sources::default() };
        sources.open(&parse(&args.image)?, platform).await?
    };
    let directories: Vec<&str> = args.directories.iter().map(String::as_str).collect();
    let summary = opened.write(&directories, &args.to, &LIMITS).await?;
    for note in &summary.skipped {
        output::remark(&format!("left out: {note}"));
    }
    let more = summary.skipped_count - summary.skipped.len();
    if more > 0 {
        output::remark(&format!("left out: {more} more of these"));
    }
    if !summary.missing.is_empty() {
        // Without some of what was asked for it would look like all of it.
        if !summary.found.is_empty() {
            std::fs::remove_dir_all(&args.to)?;
        }
        let missing: Vec<String> = summary.missing.iter().map(|path| format!("/{path}")).collect();
        bail!("image {} has no directory {}", args.image, missing.join(", "));
    }
    output::remark(&format!("{} files, {} bytes", summary.files, summary.bytes));
    output::line(&opened.image.digest)
}

/// The image of this name in a folder with images; without a name the only one that is there.
pub(crate) async fn in_folder(folder: &Path, name: Option<&str>) -> anyhow::Result<(Place, String)> {
    let place = || folder.display().to_string();
    if !Layout::is_at(folder) {
        bail!("{} is not a folder with images: it has no file oci-layout", place());
    }
    let layout = Layout::open(folder);
    let images: Vec<String> = layout.entries().await?.into_iter().map(|entry| entry.name).collect();
    let name = match (name, images.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.clone(),
        (None, []) => bail!("{} has no image with a name: give the digest of one with --name", place()),
        (None, all) => bail!("{} has several images: choose one with --name ({})", place(), all.join(", ")),
    };
    Ok((Place::Folder(layout), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn image_of_a_folder_is_chosen_by_name_if_there_are_several() {
        let folder = tempfile::tempdir().unwrap();
        let said = async |name: Option<&str>| match in_folder(folder.path(), name).await {
            Ok((_, name)) => name,
            Err(error) => error.to_string(),
        };
        assert!(said(None).await.contains("no file oci-layout"), "{}", said(None).await);
        let index = |names: &[&str]| {
            let image = |name: &&str| serde_json::json!({"digest": "sha256:1", "annotations": {"org.opencontainers.image.ref.name": name}});
            let images: Vec<_> = names.iter().map(image).collect();
            std::fs::write(folder.path().join("index.json"), serde_json::json!({"manifests": images}).to_string())
                .unwrap();
        };
        std::fs::write(folder.path().join("oci-layout"), "{}").unwrap();
        for (names, name, expected) in [
            (vec![], None, "has no image with a name: give the digest of one with --name"),
            (vec!["a"], None, "a"),
            (vec!["a", "b"], None, "choose one with --name (a, b)"),
            (vec!["a", "b"], Some("b"), "b"),
        ] {
            index(&names);
            let said = said(name).await;
            assert!(said.ends_with(expected), "{said}");
        }
    }

    #[tokio::test]
    async fn folder_is_made_only_if_all_directories_are_there() {
        use crate::net::registry::image::{Start, scratch};
        use crate::net::registry::layer::{LayerFile, Packing, write};
        use crate::net::registry::layout::Entry;
        use futures::StreamExt;
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(folder.path()).await.unwrap();
        let file = LayerFile { path: "configs/a".into(), mode: 0o444, bytes: b"1".to_vec().into() };
        let layers = [write(&[file], 0, Packing::Plain).unwrap()];
        let image = scratch(&layers, &Start::default(), jiff::Timestamp::UNIX_EPOCH).unwrap();
        let parts = [
            (&image.manifest.layers[0], layers[0].bytes.whole()),
            (&image.manifest.config, image.config_bytes.clone()),
        ];
        for (part, bytes) in parts {
            layout.write(part, futures::stream::once(async move { Ok(bytes.into()) }).boxed()).await.unwrap();
        }
        let entry = Entry { name: "cat".into(), digest: image.digest.clone(), annotations: Default::default() };
        layout.add(entry, &image.media_type, image.manifest_bytes.clone().into(), true).await.unwrap();

        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: ImageFilesArgs,
        }
        let to = folder.path().join("out");
        let files = async |image: &str, rest: &[&str]| {
            let to = to.display().to_string();
            let line = [&["image-files", image, "--to", &to], rest].concat();
            run(<Line as clap::Parser>::parse_from(line).args).await.map_err(|error| error.to_string())
        };
        let at = folder.path().display().to_string();
        let error = files(&at, &["/configs", "/nowhere"]).await.unwrap_err();
        assert!(error.contains("has no directory /nowhere") && !to.exists(), "{error}");
        files(&at, &["/configs"]).await.unwrap();
        assert_eq!(std::fs::read_to_string(to.join("configs/a")).unwrap(), "1");
        let error = files("quay.io/org/cat:1", &["/configs", "--name", "cat"]).await.unwrap_err();
        assert!(error.contains("--name cat is for a folder with images"), "{error}");
    }
}
