//! The manifests of a real release (`payload-5.0` of the shared data), laid out as signed releases in the payload store of a
//! simulated cluster. Shared by the tests and the bench.
//!
//! The releases differ as two real releases of equal code do: in every version string, and so in the 31 Deployments of
//! operators, two ConfigMaps, and the daemon's own Deployment.

use crate::signing::TRUSTED;
use crate::simulator::{cluster::SimulatedCluster, releases::Release};
use cvo::testing::payload::metadata::{self, ReleaseMetadata};
use cvo::testing::payload::references::{self, ImageReferences, Tag};
use cvo::testing::work::{payload_dir, retrieve};
use std::fs;
use std::path::{Path, PathBuf};

/// A version, and what the operands' Kubernetes is called in it.
type Version = (&'static str, &'static str);
const VERSIONS: [Version; 2] = [("5.0.0", "1.36.0"), ("5.0.1", "1.36.1")];
/// What the files contain instead of the version.
const PLACEHOLDER: &str = "0.0.1-snapshot";
const KUBERNETES_PLACEHOLDER: &str = "0.0.1-snapshot-kubernetes";
/// Part of the names of the files in the daemon's own folder.
const OWN: &str = "_cluster-version-operator_";
const VERIFICATION_FILE: &str = "0000_03_release-verification_00_config.yaml";

/// The folder with the manifests: `CVO_SHARED_DATA`, or `shared/data` beside the project. `None`, with a note, where
/// it is not.
pub fn manifests() -> Option<PathBuf> {
    let folder = crate::workspace::shared_data().join("payload-5.0");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is missing; CVO_SHARED_DATA names the folder that contains payload-5.0", folder.display());
    None
}

/// Lays out 5.0.0 and 5.0.1.
pub async fn lay_out(manifests: &Path, cluster: &SimulatedCluster) -> anyhow::Result<[Release; 2]> {
    let releases = lay_out_all(manifests, cluster, &VERSIONS).await?;
    releases.try_into().map_err(|_| anyhow::anyhow!("two versions give two releases"))
}

/// Lays out a release for each version, in their order; each can be reached from all before it.
pub async fn lay_out_all(
    manifests: &Path,
    cluster: &SimulatedCluster,
    versions: &[Version],
) -> anyhow::Result<Vec<Release>> {
    let mut releases = Vec::new();
    for (position, version) in versions.iter().enumerate() {
        let previous = versions.iter().take(position).map(|(version, _)| (*version).to_owned()).collect();
        let release = lay_out_one(manifests, cluster, *version, previous)?;
        cluster.sign(&release, TRUSTED).await?;
        releases.push(release);
    }
    Ok(releases)
}

fn lay_out_one(
    manifests: &Path,
    cluster: &SimulatedCluster,
    (version, kubernetes): Version,
    previous: Vec<String>,
) -> anyhow::Result<Release> {
    let store = cluster.payloads();
    let making = store.join(format!("making-{version}"));
    let (own, others) = (making.join("manifests"), making.join("release-manifests"));
    fs::create_dir_all(&own)?;
    fs::create_dir_all(&others)?;
    for entry in fs::read_dir(manifests)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".yaml")) else {
            continue;
        };
        if name.contains(OWN) {
            // Templates that the daemon renders; a release tool does not change them.
            fs::copy(&path, own.join(name))?;
        } else {
            let text = fs::read_to_string(&path)?;
            let text = text.replace(KUBERNETES_PLACEHOLDER, kubernetes).replace(PLACEHOLDER, version);
            fs::write(others.join(name), text)?;
        }
    }
    let verification = cluster.keys.verification_config(&cluster.signatures());
    fs::write(others.join(VERIFICATION_FILE), verification.to_string())?;
    let mut about = ReleaseMetadata::new(version)?;
    about.previous = previous;
    fs::write(others.join(metadata::FILE), about.to_json()?)?;
    let tag = Tag::image("cluster-version-operator", "registry.invalid/cluster-version-operator:1");
    let images = ImageReferences { name: version.to_owned(), created: None, tags: vec![tag] };
    fs::write(others.join(references::FILE), images.to_json()?)?;
    // There is no registry, so any digest will do that depends on the contents.
    let image = format!("registry.invalid/release@sha256:{}", payload_dir::tree_hash(&making)?);
    let folder = store.join(retrieve::folder(&image));
    fs::rename(&making, &folder)?;
    Ok(Release { version: version.to_owned(), image, folder })
}
