//! A real release's manifests (`payload-5.0` of the shared data) laid out as two releases, 5.0.0 and 5.0.1, ready in a
//! payload store, the second one signed; and a cluster on which the stage hand plays them. Shared by the test and the
//! bench.
//!
//! What differs between the two is what differs between two real releases of equal code: every version string, and by
//! it the 31 operator Deployments and two ConfigMaps, and the daemon's own Deployment.

pub mod signer;
pub mod stage;

use cvo::payload::metadata::{self, ReleaseMetadata};
use cvo::payload::references::{self, ImageReferences, Tag};
use cvo::work::{payload_dir, retrieve};
use signer::Signer;
use std::fs;
use std::path::{Path, PathBuf};

/// A version, and what the operands' Kubernetes is called in it.
type Version = (&'static str, &'static str);
const VERSIONS: [Version; 2] = [("5.0.0", "1.36.0"), ("5.0.1", "1.36.1")];
/// What the files have in the place of those.
const PLACEHOLDER: &str = "0.0.1-snapshot";
const KUBERNETES_PLACEHOLDER: &str = "0.0.1-snapshot-kubernetes";
/// Files of the daemon's own folder.
const OWN: &str = "_cluster-version-operator_";
const VERIFICATION_FILE: &str = "0000_03_release-verification_00_config.yaml";

/// A release that lies ready.
#[derive(Clone, Debug)]
pub struct Release {
    pub version: String,
    /// Pull spec by digest; nothing pulls it.
    pub image: String,
    pub folder: PathBuf,
}

/// The folder with the manifests: `CVO_SHARED_DATA`, or `shared/data` beside the project. `None`, with a note, where
/// it is not.
pub fn manifests() -> Option<PathBuf> {
    let folder = crate::workspace::shared_data().join("payload-5.0");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is not there; CVO_SHARED_DATA names the folder that holds payload-5.0", folder.display());
    None
}

/// Lays both releases out in `store`, in the folders in which the daemon looks for them, and signs the second one into
/// the store of signatures that both trust.
pub fn lay_out(manifests: &Path, store: &Path, signer: Signer) -> anyhow::Result<[Release; 2]> {
    let releases = lay_out_all(manifests, store, &signer, &VERSIONS)?;
    releases.try_into().map_err(|_| anyhow::anyhow!("two versions give two releases"))
}

/// The same with other versions, in their order; each may be reached from all before it.
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
            // Templates, which the daemon fills in; a release tool leaves them alone.
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
    // No registry takes part, so any digest will do that is the content's own.
    let image = format!("registry.invalid/release@sha256:{}", payload_dir::tree_hash(&making)?);
    let folder = store.join(retrieve::folder(&image));
    fs::rename(&making, &folder)?;
    Ok(Release { version: version.to_owned(), image, folder })
}
