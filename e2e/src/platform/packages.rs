//! The sample packages (`e2e/packages`) in the registry of a cluster, and what catalogs say of them.

use std::{fs, path::Path};

use anyhow::Context;
use serde_json::{Value, json};

use super::{Platform, images::digest};
use crate::harness::{Cluster, Cvo, files};
use crate::workspace;

/// A package and the versions of its channel `stable`, the oldest first.
pub type Offer = (&'static str, &'static [&'static str]);

/// What is to be replaced by the image of `lab`.
const PROGRAM: &str = "sample.invalid/lab";

/// Builds and pushes the bundles of what is offered, and returns the blobs of a catalog that offers it.
pub async fn catalog(platform: &Platform, offers: &[Offer]) -> anyhow::Result<Vec<Value>> {
    let mut blobs = Vec::new();
    for (package, versions) in offers {
        let mut entries: Vec<Value> = Vec::new();
        let mut before = None;
        for version in *versions {
            let blob = bundle(platform, package, version).await?;
            let name = blob.get("name").cloned().context("a bundle without a name")?;
            entries.push(match before.replace(name.clone()) {
                Some(before) => json!({"name": name, "replaces": before}),
                None => json!({"name": name}),
            });
            blobs.push(blob);
        }
        blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        blobs.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
    }
    Ok(blobs)
}

/// The blob of a bundle, whose image is named as pods and nodes reach it.
async fn bundle(platform: &Platform, package: &str, version: &str) -> anyhow::Result<Value> {
    let cluster = &platform.cluster;
    let folder = cluster.dir().join("packages").join(package).join(version);
    copy(&workspace::root().join("e2e/packages").join(package).join(version), &folder, &platform.images.lab)?;
    let name = format!("{}/bundles/{package}", cluster.registry());
    let build = Cvo::new(["bundle", "build", "--tag", &format!("{name}:{version}")]).args([&folder]);
    let image = format!("{name}@{}", digest(&build.output().await?)?);
    let blob = Cvo::new(["catalog", "render", &image]).output().await?;
    Ok(serde_json::from_str(&as_pods_name_it(cluster, &blob))?)
}

fn as_pods_name_it(cluster: &Cluster, blob: &str) -> String {
    blob.replace(&format!("{}/bundles/", cluster.registry()), &format!("{}/bundles/", cluster.registry_for_pods()))
}

/// Copies the files of a bundle, which are YAML and have one folder above them.
fn copy(from: &Path, to: &Path, image: &str) -> anyhow::Result<()> {
    for folder in ["manifests", "metadata"] {
        let folder_from = from.join(folder);
        for entry in fs::read_dir(&folder_from).with_context(|| folder_from.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().context("a file without a name")?;
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            files::write(&to.join(folder).join(name), text.replace(PROGRAM, image))?;
        }
    }
    Ok(())
}
