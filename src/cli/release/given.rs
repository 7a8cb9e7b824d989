//! A release that a command is given, from a folder or directly from an image; nothing is written to disk.

use super::{ImageSource, Pulled};
use crate::cli::folder::NO_IMAGE;
use crate::net::registry::{parse_reference, pull_spec};
use crate::release::filter::Filter;
use crate::release::metadata;
use crate::release::metadata::ReleaseMetadata;
use crate::release::work::payload_dir;
use crate::release::{LoadOptions, Payload, PayloadFiles, SourceFile, load};
use anyhow::Context;
use std::path::Path;

const OWN: &str = "manifests/";
const RELEASE: &str = "release-manifests/";

/// A release that can be loaded for a cluster.
#[derive(Debug)]
pub(crate) struct Given {
    /// As on the command line.
    pub given: String,
    files: PayloadFiles,
    /// Pull spec of the release.
    image: String,
    /// The pull spec is not known; `image` is a placeholder.
    placeholder: bool,
    /// Links in the image that lead to no file of it.
    dangling: Vec<String>,
}

/// Reads the folder or the image. `image`: its pull spec, if it is a folder.
pub(crate) async fn read(given: &str, image: Option<&str>, source: &ImageSource) -> anyhow::Result<Given> {
    let dir = Path::new(given);
    if !dir.is_dir() {
        return pull(given, source)
            .await
            .with_context(|| format!("{given} is not a folder, and cannot be pulled as an image"));
    }
    let files = payload_dir::read(dir)?;
    let (image, placeholder) = match image {
        Some(image) => (image.to_owned(), false),
        None => (format!("{NO_IMAGE}:{}", version(&files)?), true),
    };
    Ok(Given { given: given.to_owned(), files, image, placeholder, dangling: Vec::new() })
}

fn version(files: &PayloadFiles) -> anyhow::Result<String> {
    let file = files.release.iter().find(|file| file.name == metadata::FILE);
    let file = file.with_context(|| format!("{} has no {}", files.place, metadata::FILE))?;
    Ok(ReleaseMetadata::parse(&file.bytes).with_context(|| files.place.clone())?.version)
}

async fn pull(given: &str, source: &ImageSource) -> anyhow::Result<Given> {
    let Pulled { reference, repository, image } = source.pull(&parse_reference(given)?).await?;
    let found = repository.gather(&image, &[OWN, RELEASE], |_| false).await?;
    let digest = reference.digest().map_or_else(|| pull_spec(&reference, &image.digest), |_| given.to_owned());
    let mut files = PayloadFiles { place: digest.clone(), ..PayloadFiles::default() };
    for (path, bytes) in found.files {
        let folder = path.strip_prefix(RELEASE).map(|name| (name, &mut files.release));
        let folder = folder.or_else(|| path.strip_prefix(OWN).map(|name| (name, &mut files.own)));
        // Sub-folders are not read from a folder either.
        if let Some((name, folder)) = folder.filter(|(name, _)| !name.contains('/')) {
            folder.push(SourceFile { name: name.to_owned(), bytes });
        }
    }
    Ok(Given { given: given.to_owned(), files, image: digest, placeholder: false, dangling: found.skipped })
}

impl Given {
    /// The pull spec, if it is known.
    pub(crate) fn image(&self) -> Option<&str> {
        (!self.placeholder).then_some(&self.image)
    }

    /// The version in the metadata of the release.
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        version(&self.files)
    }

    /// Loads the release as a cluster with this filter would.
    pub(crate) fn load(&self, filter: Filter) -> anyhow::Result<Payload> {
        let options = LoadOptions {
            image: self.image.clone(),
            profile: filter.profile.clone().unwrap_or_default(),
            strict_templates: false,
            filter,
        };
        Ok(load(self.files.clone(), &options)?)
    }

    /// What is not known about the release.
    pub(crate) fn unknowns(&self) -> Vec<String> {
        let placeholder = self.placeholder.then(|| {
            format!(
                "The pull spec of the release in {}, which its manifests refer to; {} is used instead. Give it with --from-image \
                 or --to-image.",
                self.given, self.image
            )
        });
        let links = self.dangling.iter();
        let links =
            links.map(|link| format!("The content of {link} in {}: it is a link that leads to no file.", self.given));
        placeholder.into_iter().chain(links).collect()
    }
}
