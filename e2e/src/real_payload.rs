//! The manifests of a real release (`payload-5.0` of the shared data), laid out as signed releases in the payload store of a
//! simulated cluster. Shared by the tests and the bench.
//!
//! The releases differ as two real releases of equal code do: in every version string, and so in the 31 Deployments of
//! operators, two ConfigMaps, and the daemon's own Deployment.

use crate::harness::is_oldest_kubernetes;
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
/// Parts of the names of the files that the oldest supported Kubernetes does not take: definitions with CEL functions that it
/// does not know, and two objects of their kinds.
const NEWER: [&str; 19] = [
    "_10_config-operator_01_clusterimagepolicies",
    "_10_config-operator_01_imagepolicies",
    "_10_config-operator_01_infrastructures",
    "_10_config-operator_01_insightsdatagathers",
    "_10_control-plane-machine-set_01_controlplanemachinesets",
    "_10_insights_01_datagathers",
    "_20_crd-compatibility-checker_01_compatibilityrequirements",
    "_30_cluster-api_01_clusterapis",
    "_50_cluster-ingress-operator_00-custom-resource-definition",
    "_50_console-operator_01-operator-config",
    "_50_console_01_consoles",
    "_50_insights-operator_04-insightsdatagather-config-cr",
    "_70_network_01_networks",
    "_80_machine-config_01_controllerconfigs",
    "_80_machine-config_01_machineconfignodes",
    "_80_machine-config_01_machineconfigpools",
    "_80_machine-config_01_machineosbuilds",
    "_80_machine-config_01_machineosconfigs",
    "_80_machine-config_01_osimagestreams",
];
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

/// Lays out 5.0.0 and 5.0.1, on the oldest supported Kubernetes without what it does not take.
pub async fn lay_out(manifests: &Path, cluster: &SimulatedCluster) -> anyhow::Result<[Release; 2]> {
    let releases = lay_out_all(manifests, cluster, &VERSIONS).await?;
    releases.try_into().map_err(|_| anyhow::anyhow!("two versions give two releases"))
}

/// Lays out all of 5.0.0, whatever the cluster takes of it.
pub fn lay_out_whole(manifests: &Path, cluster: &SimulatedCluster) -> anyhow::Result<Release> {
    let [first, _] = VERSIONS;
    lay_out_one(manifests, cluster, first, Vec::new(), &[])
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
        let without: &[&str] = if is_oldest_kubernetes() { &NEWER } else { &[] };
        let release = lay_out_one(manifests, cluster, *version, previous, without)?;
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
    without: &[&str],
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
        if without.iter().any(|part| name.contains(part)) {
            continue;
        }
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
