//! Sample releases, composed from e2e/releases and pushed to the cluster's registry by `cvo release new`.

use std::ffi::OsString;

use serde_json::json;

use super::{
    Platform,
    component::Component,
    compose::{Verification, compose},
    images::digest,
    samples,
};

/// A release in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub version: String,
    /// Pull spec by digest.
    pub image: String,
}

/// The contents of a release.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    pub version: &'a str,
    /// Folders of e2e/releases, later ones over earlier ones.
    pub folders: &'a [&'a str],
    /// Versions that may be updated to this one.
    pub previous: &'a [&'a str],
    /// Components of this project beside the daemon.
    pub components: &'a [Component],
}

/// The three releases that e2e/releases/README.md describes.
pub const SAMPLES: [Contents<'static>; 3] = [
    Contents { version: "1.0.0", folders: &["base"], previous: &[], components: &[] },
    Contents { version: "1.0.1", folders: &["base", "1.0.1"], previous: &["1.0.0"], components: &[] },
    Contents { version: "1.1.0", folders: &["base", "1.1.0"], previous: &["1.0.1"], components: &[] },
];

impl Release {
    /// `sha256:…`
    pub fn digest(&self) -> &str {
        self.image.rsplit_once('@').map_or("", |(_, digest)| digest)
    }
}

impl Platform {
    /// Builds and pushes a release, unsigned.
    pub async fn release(&self, contents: Contents<'_>) -> anyhow::Result<Release> {
        self.changed_release(contents, |_| Ok(())).await
    }

    /// The same; `change` may edit the folder of components first.
    pub async fn changed_release(
        &self,
        contents: Contents<'_>,
        change: impl FnOnce(&std::path::Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Release> {
        let folder = tempfile_in(&self.cluster.dir().join("composed"))?;
        let store = self.store_url();
        let verification = Verification { public_key: &self.keys.public, store: &store };
        compose(&samples(), contents.folders, Some(verification), &folder)?;
        for component in contents.components {
            component.write(&self.cluster, &folder.join(component.folder))?;
        }
        change(&folder)?;
        self.declare_images(&folder).await?;
        let place = format!("{}/sample/release", self.cluster.registry());
        let to = format!("{place}:{}", contents.version);
        let previous = contents.previous.join(",");
        let words =
            ["release", "new", "--name", contents.version, "--to-image-base", &self.images.cvo, "--to-image", &to];
        let mut arguments: Vec<OsString> = words.into_iter().map(Into::into).collect();
        arguments.extend(["--from-dir".into(), folder.into()]);
        let images = contents.components.iter().filter_map(|component| component.image);
        arguments.extend(images.map(|name| format!("{name}={}", self.images.cvo).into()));
        if !previous.is_empty() {
            arguments.extend(["--previous".into(), previous.into()]);
        }
        let output = self.cvo(arguments).await?;
        Ok(Release { version: contents.version.to_owned(), image: format!("{place}@{}", digest(&output)?) })
    }

    /// Writes down the image of the components, with the version of Kubernetes that it comes with: that of the cluster.
    async fn declare_images(&self, folder: &std::path::Path) -> anyhow::Result<()> {
        let version = self.cluster.client().await?.apiserver_version().await?.git_version;
        let annotations =
            json!({"io.openshift.build.versions": format!("kubernetes={}", version.trim_start_matches('v'))});
        let image = json!({"kind": "DockerImage", "name": self.images.lab});
        let tag = json!({"name": "lab", "annotations": annotations, "from": image});
        let references = json!({"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "spec": {"tags": [tag]}});
        Ok(std::fs::write(folder.join("image-references"), references.to_string())?)
    }

    /// The three samples, the updates signed, and a graph that leads from one to the next.
    pub async fn samples(&self) -> anyhow::Result<[Release; 3]> {
        self.chain(SAMPLES).await
    }

    /// Releases of which each can be updated to the next: the updates signed, and a graph that leads from one to the other.
    pub async fn chain(&self, samples: [Contents<'_>; 3]) -> anyhow::Result<[Release; 3]> {
        let [first, second, third] = samples;
        let releases = [self.release(first).await?, self.release(second).await?, self.release(third).await?];
        for release in releases.iter().skip(1) {
            self.sign(release).await?;
        }
        let previous = samples.iter().map(|contents| contents.previous);
        self.publish_graph(&releases.iter().zip(previous).collect::<Vec<_>>())?;
        Ok(releases)
    }
}

/// A path below `dir` that does not exist yet.
fn tempfile_in(dir: &std::path::Path) -> anyhow::Result<std::path::PathBuf> {
    std::fs::create_dir_all(dir)?;
    let used = std::fs::read_dir(dir)?.count();
    Ok(dir.join(used.to_string()))
}
