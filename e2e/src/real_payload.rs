//! A real release's manifests (`payload-5.0` of the shared data) laid out as two releases, 5.0.0 and 5.0.1, in a
//! payload store, the second one signed; and a cluster on which they can be installed.
//!
//! The two differ as two real releases of the same code do: in every version string, and therefore in the 31 operator
//! Deployments, two ConfigMaps and the daemon's own Deployment.

pub mod signer;
pub mod simulated;

use cvo::payload::metadata::{self, ReleaseMetadata};
use cvo::payload::references::{self, ImageReferences, Tag};
use cvo::work::{payload_dir, retrieve};
use signer::Signer;
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

/// A release in a payload store.
#[derive(Clone, Debug)]
pub struct Release {
    pub version: String,
    /// Pull spec by digest; it is never pulled.
    pub image: String,
    pub folder: PathBuf,
}

/// The folder with the manifests, in `CVO_SHARED_DATA` or in `shared/data` beside the project. Prints a note when it is
/// missing.
pub fn manifests() -> Option<PathBuf> {
    let folder = crate::workspace::shared_data().join("payload-5.0");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is missing; CVO_SHARED_DATA names the folder that contains payload-5.0", folder.display());
    None
}

/// Lays both releases out in `store`, in the folders in which the daemon looks for them, and adds signatures to the
/// signature store that both trust.
pub fn lay_out(manifests: &Path, store: &Path, signer: Signer) -> anyhow::Result<[Release; 2]> {
    let releases = lay_out_all(manifests, store, &signer, &VERSIONS)?;
    releases.try_into().map_err(|_| anyhow::anyhow!("two versions give two releases"))
}

/// The same with other versions, in their order; each can be updated to from all before it.
pub fn lay_out_all(
    manifests: &Path,
    store: &Path,
    signer: &Signer,
    versions: &[Version],
) -> anyhow::Result<Vec<Release>> {
    let mut releases = Vec::new();
    for (position, version) in versions.iter().enumerate() {
        let previous = versions.iter().take(position).map(|(version, _)| (*version).to_owned()).collect();
        releases.push(lay_out_one(manifests, store, *version, previous, signer)?);
    }
    for release in &releases {
        signer.sign(&release.image)?;
    }
    Ok(releases)
}

fn lay_out_one(
    manifests: &Path,
    store: &Path,
    (version, kubernetes): Version,
    previous: Vec<String>,
    signer: &Signer,
) -> anyhow::Result<Release> {
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
    fs::write(others.join(VERIFICATION_FILE), signer.verification_config())?;
    let mut about = ReleaseMetadata::new(version)?;
    about.previous = previous;
    fs::write(others.join(metadata::FILE), about.to_json()?)?;
    let tag = Tag::image("cluster-version-operator", "registry.invalid/cluster-version-operator:1");
    let images = ImageReferences { name: version.to_owned(), created: None, tags: vec![tag] };
    fs::write(others.join(references::FILE), images.to_json()?)?;
    // No registry is used, so any digest of the content will do.
    let image = format!("registry.invalid/release@sha256:{}", payload_dir::tree_hash(&making)?);
    let folder = store.join(retrieve::folder(&image));
    fs::rename(&making, &folder)?;
    Ok(Release { version: version.to_owned(), image, folder })
}
