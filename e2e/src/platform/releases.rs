//! Sample releases, composed from e2e/releases and pushed to the cluster's registry by `cvo release new`.

use std::ffi::OsString;

use super::{
    Platform,
    compose::{Verification, compose},
    images::digest,
    nodes::{self, NODE},
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
}

/// The same three with a configuration of the nodes of the control plane in each.
pub const SAMPLES_WITH_NODES: [Contents<'static>; 3] = [
    Contents { version: "1.0.0", folders: &["base", NODE], previous: &[] },
    Contents { version: "1.0.1", folders: &["base", "1.0.1", NODE, "node-1.0.1"], previous: &["1.0.0"] },
    Contents { version: "1.1.0", folders: &["base", "1.1.0", NODE, "node-1.1.0"], previous: &["1.0.1"] },
];

/// The three releases that e2e/releases/README.md describes.
pub const SAMPLES: [Contents<'static>; 3] = [
    Contents { version: "1.0.0", folders: &["base"], previous: &[] },
    Contents { version: "1.0.1", folders: &["base", "1.0.1"], previous: &["1.0.0"] },
    Contents { version: "1.1.0", folders: &["base", "1.1.0"], previous: &["1.0.1"] },
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
        let configures_nodes = contents.folders.contains(&NODE);
        if configures_nodes {
            nodes::add_component(&self.cluster, &folder)?;
        }
        change(&folder)?;
        let place = format!("{}/sample/release", self.cluster.registry());
        let to = format!("{place}:{}", contents.version);
        let lab = format!("lab={}", self.images.lab);
        let previous = contents.previous.join(",");
        let words = [
            "release",
            "new",
            "--name",
            contents.version,
            "--to-image-base",
            &self.images.cvo,
            "--to-image",
            &to,
            &lab,
        ];
        let mut arguments: Vec<OsString> = words.into_iter().map(Into::into).collect();
        arguments.extend(["--from-dir".into(), folder.into()]);
        if configures_nodes {
            arguments.push(format!("machine-config-operator={}", self.images.cvo).into());
        }
        if !previous.is_empty() {
            arguments.extend(["--previous".into(), previous.into()]);
        }
        let output = self.cvo(arguments).await?;
        Ok(Release { version: contents.version.to_owned(), image: format!("{place}@{}", digest(&output)?) })
    }

    /// The three samples, the updates signed, and a graph that leads from one to the next.
    pub async fn samples(&self) -> anyhow::Result<[Release; 3]> {
        self.chain(SAMPLES).await
    }

    /// The three samples that configure nodes, and the node of the cluster ready for them.
    pub async fn samples_with_nodes(&self) -> anyhow::Result<[Release; 3]> {
        nodes::prepare(&self.cluster, &self.programs.lab).await?;
        self.chain(SAMPLES_WITH_NODES).await
    }

    async fn chain(&self, samples: [Contents<'_>; 3]) -> anyhow::Result<[Release; 3]> {
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
