//! What the releases say about the parts to be played: read from their folders, without the cluster.

use anyhow::Context;
use cvo::payload::{Filter, LoadOptions, Manifest, Payload, load};
use cvo::work::{payload_dir, retrieve};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Namespace and name of the daemon's own Deployment.
pub const OWN_DEPLOYMENT: (&str, &str) = (cvo::api::NAMESPACE, "cluster-version-operator");
const PROFILE: &str = "self-managed-high-availability";

/// All releases.
#[derive(Debug, Default)]
pub struct Script {
    pub releases: Vec<Release>,
    /// Names of all ClusterOperators, with the namespaces and names of the Deployments that stand before them in
    /// their component: what the operator runs in.
    pub operators: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Namespaces that manifests are in and no manifest makes.
    pub namespaces: BTreeSet<String>,
}

/// One release.
#[derive(Debug, Default)]
pub struct Release {
    pub version: String,
    pub image: String,
    /// `status.versions` by ClusterOperator.
    pub versions: BTreeMap<String, Value>,
    /// Containers by namespace and name of the Deployment.
    pub deployments: BTreeMap<(String, String), Value>,
}

/// A release as the daemon takes it on the played cluster: what takes part there.
pub fn payload(store: &Path, image: &str) -> anyhow::Result<Payload> {
    let place = store.join(retrieve::folder(image));
    let filter = Filter {
        profile: Some(PROFILE.to_owned()),
        feature_set: Some(String::new()),
        feature_gates: Some(BTreeSet::new()),
        ..Filter::default()
    };
    let options = LoadOptions { image: image.to_owned(), profile: PROFILE.to_owned(), strict_templates: false, filter };
    payload_dir::read(&place)
        .map_err(anyhow::Error::from)
        .and_then(|files| Ok(load(files, &options)?))
        .with_context(|| format!("cannot read release {image} from {}", place.display()))
}

impl Script {
    /// Reads the releases from the folders in which the daemon will look for them.
    pub fn read(store: &Path, images: &[String]) -> anyhow::Result<Script> {
        let mut script = Script::default();
        for image in images {
            let payload = payload(store, image)?;
            script.releases.push(Release {
                version: payload.release.version.clone(),
                image: image.clone(),
                ..Release::default()
            });
            let manifests = payload.manifests.iter().map(AsRef::as_ref).filter(|m: &&Manifest| m.delete() == Ok(false));
            script.take(&manifests.collect::<Vec<_>>())?;
        }
        Ok(script)
    }

    fn take(&mut self, manifests: &[&Manifest]) -> anyhow::Result<()> {
        let Some(release) = self.releases.last_mut() else { return Ok(()) };
        let mut component = None;
        let mut before = BTreeSet::new();
        for manifest in manifests {
            if component != manifest.run_level() {
                component = manifest.run_level();
                before.clear();
            }
            let id = &manifest.id;
            let key = (id.namespace.clone(), id.name.clone());
            match (id.group.as_str(), id.kind.as_str()) {
                ("apps", "Deployment") => {
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
        let made = |name: &str| manifests.iter().any(|m| m.id.kind == "Namespace" && m.id.name == name);
        let used = manifests.iter().map(|m| m.id.namespace.as_str()).filter(|n| !n.is_empty() && !made(n));
        self.namespaces.extend(used.map(str::to_owned));
        Ok(())
    }

    /// Versions of all releases.
    pub fn versions(&self) -> Vec<String> {
        self.releases.iter().map(|r| r.version.clone()).collect()
    }

    /// What an operator is to report in a release.
    pub fn versions_of(&self, operator: &str, release: usize) -> Option<&Value> {
        self.releases.get(release)?.versions.get(operator)
    }

    /// The releases (as a set of positions) whose manifest of this Deployment the live one carries.
    pub fn carried(&self, key: &(String, String), live: &Value) -> BTreeSet<usize> {
        let live = live.pointer("/spec/template/spec/containers").unwrap_or(&Value::Null);
        let carried = |release: &Release| release.deployments.get(key).is_some_and(|wanted| carries(live, wanted));
        (0..self.releases.len()).filter(|i| self.releases.get(*i).is_some_and(carried)).collect()
    }

    /// The release that the daemon's own Deployment asks for.
    pub fn asked_for(&self, deployment: &Value) -> Option<usize> {
        let image = deployment.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str)?;
        self.releases.iter().position(|release| release.image == image)
    }
}

/// Every wanted container is there with its image and the wanted values in its environment.
fn carries(live: &Value, wanted: &Value) -> bool {
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let named = |all: &[Value], one: &Value| all.iter().find(|other| other.get("name") == one.get("name")).cloned();
    let live = live.as_array().cloned().unwrap_or_default();
    wanted.as_array().into_iter().flatten().all(|container| {
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
    fn a_deployment_carries_the_release_whose_image_and_environment_it_has() {
        let wanted = json!([{"name": "a", "image": "i", "env": [{"name": "V", "value": "2"}, {"name": "E"},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}]);
        let live = |image: &str, version: &str| {
            json!([{"name": "other", "image": "x"}, {"name": "a", "image": image, "env": [
                {"name": "HTTPS_PROXY", "value": "p"}, {"name": "V", "value": version}, {"name": "E"}]}])
        };
        assert!(carries(&live("i", "2"), &wanted));
        assert!(!carries(&live("i", "1"), &wanted));
        assert!(!carries(&live("j", "2"), &wanted));
        assert!(!carries(&json!([]), &wanted));
    }
}
