//! Releases in a payload store, and what they expect of the operators and workloads that are simulated.

use super::objects::Key;
use anyhow::Context;
use cvo::testing::payload::{Filter, LoadOptions, Manifest, Payload, load};
use cvo::testing::work::payload_dir;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// A release in a payload store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub version: String,
    /// Pull spec by digest; nothing pulls it.
    pub image: String,
    /// Holds `manifests/` and `release-manifests/`.
    pub folder: PathBuf,
}

impl Release {
    /// `sha256:<hex>` of the image.
    pub fn digest(&self) -> &str {
        self.image.split_once('@').map_or("", |(_, digest)| digest)
    }

    /// Reads the manifests that are included on a test cluster: with the default features and no feature gates.
    pub fn load(&self) -> anyhow::Result<Payload> {
        let filter =
            Filter { feature_set: Some(String::new()), feature_gates: Some(BTreeSet::new()), ..Filter::default() };
        let options = LoadOptions { image: self.image.clone(), filter, ..LoadOptions::default() };
        payload_dir::read(&self.folder)
            .map_err(anyhow::Error::from)
            .and_then(|files| Ok(load(files, &options)?))
            .with_context(|| format!("cannot read release {} from {}", self.image, self.folder.display()))
    }

    /// Writes or replaces a manifest of a component.
    pub fn put(&self, file: &str, text: &str) -> std::io::Result<()> {
        fs::write(self.folder.join("release-manifests").join(file), text)
    }
}

/// What several releases expect.
#[derive(Debug, Default)]
pub struct Expectations {
    releases: Vec<Contents>,
    /// Names of all ClusterOperators, with the Deployments that come before them in their component: the ones that the
    /// operator runs in.
    operators: BTreeMap<String, BTreeSet<Key>>,
    /// Namespaces that manifests are in and no manifest creates.
    pub namespaces: BTreeSet<String>,
}

/// One release.
#[derive(Debug, Default)]
struct Contents {
    version: String,
    /// `status.versions` by ClusterOperator.
    versions: BTreeMap<String, Value>,
    /// Containers by Deployment.
    deployments: BTreeMap<Key, Value>,
}

impl Expectations {
    /// Reads the folders of the releases.
    pub fn read(releases: &[Release]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for release in releases {
            let payload = release.load()?;
            let manifests = payload.manifests.iter().map(AsRef::as_ref).filter(|m: &&Manifest| m.delete() == Ok(false));
            all.add(payload.release.version.clone(), &manifests.collect::<Vec<_>>())?;
        }
        Ok(all)
    }

    fn add(&mut self, version: String, manifests: &[&Manifest]) -> anyhow::Result<()> {
        let mut release = Contents { version, ..Contents::default() };
        let mut component = None;
        let mut before = BTreeSet::new();
        for manifest in manifests {
            if component != manifest.run_level() {
                component = manifest.run_level();
                before.clear();
            }
            let id = &manifest.id;
            match (id.group.as_str(), id.kind.as_str()) {
                ("apps", "Deployment") => {
                    let key = (id.namespace.clone(), id.name.clone());
                    let object = manifest.object()?;
                    let containers = object.pointer("/spec/template/spec/containers").cloned().unwrap_or_default();
                    before.insert(key.clone());
                    release.deployments.insert(key, containers);
                }
                ("config.openshift.io", "ClusterOperator") => {
                    let versions = manifest.object()?.pointer("/status/versions").cloned().unwrap_or_default();
                    release.versions.insert(id.name.clone(), versions);
                    self.operators.entry(id.name.clone()).or_default().extend(before.iter().cloned());
                }
                _ => {}
            }
        }
        let created = |name: &str| manifests.iter().any(|m| m.id.kind == "Namespace" && m.id.name == name);
        let used = manifests.iter().map(|m| m.id.namespace.as_str()).filter(|n| !n.is_empty() && !created(n));
        self.namespaces.extend(used.map(str::to_owned));
        self.releases.push(release);
        Ok(())
    }

    /// Versions of all releases, in their order.
    pub fn versions(&self) -> Vec<String> {
        self.releases.iter().map(|release| release.version.clone()).collect()
    }

    /// All operators, or those that run in one Deployment.
    pub fn operators(&self, deployment: Option<&Key>) -> Vec<String> {
        let runs_in = |deployments: &BTreeSet<Key>| deployment.is_none_or(|key| deployments.contains(key));
        self.operators.iter().filter(|(_, deployments)| runs_in(deployments)).map(|(name, _)| name.clone()).collect()
    }

    /// The newest release that all Deployments of an operator carry: its version, and the versions to report.
    pub fn reached(&self, operator: &str, carried: &BTreeMap<Key, BTreeSet<usize>>) -> Option<(&str, &Value)> {
        let mut common: BTreeSet<usize> = (0..self.releases.len()).collect();
        for deployment in self.operators.get(operator)? {
            let carried = carried.get(deployment)?;
            common.retain(|release| carried.contains(release));
        }
        let release = self.releases.get(common.into_iter().next_back()?)?;
        Some((&release.version, release.versions.get(operator)?))
    }

    /// The releases (as a set of positions) whose containers a live Deployment carries.
    pub fn carried(&self, key: &Key, live: &Value) -> BTreeSet<usize> {
        let live = live.pointer("/spec/template/spec/containers").unwrap_or(&Value::Null);
        let carried = |release: &Contents| release.deployments.get(key).is_some_and(|desired| carries(live, desired));
        self.releases.iter().enumerate().filter(|(_, release)| carried(release)).map(|(position, _)| position).collect()
    }
}

/// Whether each desired container is there with its image and with the desired values in its environment.
fn carries(live: &Value, desired: &Value) -> bool {
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let named = |all: &[Value], one: &Value| all.iter().find(|other| other.get("name") == one.get("name")).cloned();
    let live = live.as_array().cloned().unwrap_or_default();
    desired.as_array().into_iter().flatten().all(|container| {
        let Some(found) = named(&live, container) else { return false };
        let variables = list(&found, "env");
        let same = |variable: &Value| {
            let value = |v: &Value| v.get("value").and_then(Value::as_str).unwrap_or_default().to_owned();
            variable.get("valueFrom").is_some()
                || named(&variables, variable).is_some_and(|v| value(&v) == value(variable))
        };
        found.get("image") == container.get("image") && list(container, "env").iter().all(same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deployment_carries_the_release_whose_image_and_environment_it_has() {
        let desired = json!([{"name": "a", "image": "i", "env": [{"name": "V", "value": "2"}, {"name": "E"},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}]);
        let live = |image: &str, version: &str| {
            json!([{"name": "other", "image": "x"}, {"name": "a", "image": image, "env": [
                {"name": "HTTPS_PROXY", "value": "p"}, {"name": "V", "value": version}, {"name": "E"}]}])
        };
        assert!(carries(&live("i", "2"), &desired));
        assert!(!carries(&live("i", "1"), &desired));
        assert!(!carries(&live("j", "2"), &desired));
        assert!(!carries(&json!([]), &desired));
    }
}
