//! Components of this project in releases of test clusters: the manifests of a folder of `manifests/`, changed so that several
//! clusters share a machine. Each product says what has to be changed in its own.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde::Deserialize;
use serde_json::Value;

use crate::{conditions::Conditions, harness::Cluster, workspace};

/// A component of this project.
#[derive(Clone, Copy)]
pub struct Component {
    /// The folder of `manifests/`, and of the component in a release.
    pub folder: &'static str,
    /// The name in its `image-references` that stands for the image of `cvo`.
    pub image: Option<&'static str>,
    /// What is different on a cluster.
    pub changes: fn(&Cluster) -> Vec<Change>,
}

/// A text that stands exactly once in the file whose name ends so, and what stands there on a test cluster.
#[derive(Debug)]
pub struct Change {
    pub file: &'static str,
    pub from: String,
    pub to: String,
}

/// A change.
pub fn change(file: &'static str, from: impl Into<String>, to: impl Into<String>) -> Change {
    Change { file, from: from.into(), to: to.into() }
}

/// The port of the probes is `to` instead of `from`, in the flag and in both probes.
pub fn health_port(file: &'static str, from: u16, to: u16) -> [Change; 3] {
    let flag = |port| format!("--listen-health=127.0.0.1:{port}\n");
    let probe = |path, port| format!("path: /{path}\n            port: {port}\n");
    let [live, ready] = ["healthz", "readyz"].map(|path| change(file, probe(path, from), probe(path, to)));
    [change(file, flag(from), flag(to)), live, ready]
}

impl fmt::Debug for Component {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.folder)
    }
}

impl Component {
    /// Writes its manifests into a folder, which is made.
    pub fn write(&self, cluster: &Cluster, to: &Path) -> anyhow::Result<()> {
        write(self.folder, &(self.changes)(cluster), to)
    }

    /// Creates the kinds that it defines, and waits until they are served. For a cluster without releases.
    pub async fn define(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client().await?);
        for entry in fs::read_dir(workspace::root().join("manifests").join(self.folder))? {
            let path = entry?.path();
            let Some(path) = path.to_str().filter(|path| path.ends_with(".crd.yaml")) else { continue };
            let applied = cluster.kubectl(["apply", "--server-side", "-o", "name", "-f", path]).await?;
            for name in applied.lines().filter_map(|line| line.rsplit_once('/').map(|(_, name)| name)) {
                let wait = cluster.until(format!("{name} to be established"), &[]);
                wait.existing(definitions.clone(), name, |it| it.has("Established=True")).await?;
            }
        }
        Ok(())
    }
}

/// What a Deployment of `manifests/` sets as plain text: how a process uses memory is part of how it is installed.
pub fn environment(deployment: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let file = workspace::root().join("manifests").join(deployment);
    let text = fs::read_to_string(&file)?;
    let documents: Vec<Value> =
        serde_yaml::Deserializer::from_str(&text).map(Value::deserialize).collect::<Result<_, _>>()?;
    let mut sets = documents.iter().filter_map(|it| it.pointer("/spec/template/spec/containers/0/env")?.as_array());
    let variables = sets.next();
    let variables = variables.with_context(|| format!("{} sets no environment", file.display()))?;
    let plain = variables.iter().filter_map(|variable| {
        let text = |key: &str| variable.get(key)?.as_str().map(str::to_owned);
        text("name").zip(text("value")).filter(|(_, value)| !value.contains("{{"))
    });
    Ok(plain.collect())
}

fn write(folder: &str, changes: &[Change], to: &Path) -> anyhow::Result<()> {
    let from = workspace::root().join("manifests").join(folder);
    fs::create_dir_all(to)?;
    let mut changed = 0;
    for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
        let from = entry?.path();
        let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut text = fs::read_to_string(&from)?;
        for change in changes.iter().filter(|change| name.ends_with(change.file)) {
            ensure!(
                text.matches(&change.from).count() == 1,
                "{}: {:?} is not found exactly once",
                from.display(),
                change.from
            );
            text = text.replace(&change.from, &change.to);
            changed += 1;
        }
        fs::write(to.join(name), text)?;
    }
    ensure!(changed >= changes.len(), "manifests/{folder} has no file for {} changes", changes.len() - changed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_is_what_the_deployment_says_itself() {
        let set = environment("olm/0000_50_olm_50_deployment.yaml").unwrap();
        assert_eq!(set.get("MALLOC_ARENA_MAX").map(String::as_str), Some("1"));
        assert!(!set.contains_key("POD_NAME"), "{set:?}");
    }

    #[test]
    fn each_change_is_made_exactly_once_or_refused() {
        let to = std::env::temp_dir().join(format!("cvo-component-{}", std::process::id()));
        let file = "_50_deployment.yaml";
        let fine = [change(file, "kind: Deployment\n", "kind: Changed\n")];
        write("machine-config", &fine, &to).unwrap();
        let text = fs::read_to_string(to.join("0000_80_machine-config_50_deployment.yaml")).unwrap();
        assert!(text.contains("kind: Changed\n") && to.join("image-references").exists());
        for (wrong, why) in [
            (change(file, "no such text", ""), "not found exactly once"),
            (change(file, "name:", ""), "not found exactly once"),
            (change("_no-such-file.yaml", "kind", ""), "has no file for 1 changes"),
        ] {
            let error = write("machine-config", &[wrong], &to).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        fs::remove_dir_all(to).unwrap();
    }
}
