//! The MachineConfigs on the command line, and what MachineConfigs are made of.

use crate::machine_config::api::machine_config::MachineConfig;
use crate::machine_config::api::node_config::{ContainerRuntimeConfig, KubeletConfig};
use crate::machine_config::derived::Source;
use crate::object::yaml;
use crate::object::yaml::MAX_BYTES;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
const STANDARD_INPUT: &str = "-";
/// The kinds with the fields of their specs. The API server drops any other field, and with it what somebody wanted.
const KINDS: [(&str, &[&str]); 3] = [
    (
        "MachineConfig",
        &[
            "config",
            "osImageURL",
            "baseOSExtensionsContainerImage",
            "kernelArguments",
            "extensions",
            "fips",
            "kernelType",
        ],
    ),
    (
        "KubeletConfig",
        &["machineConfigPoolSelector", "kubeletConfig", "logLevel", "autoSizingReserved", "tlsSecurityProfile"],
    ),
    ("ContainerRuntimeConfig", &["machineConfigPoolSelector", "containerRuntimeConfig"]),
];

#[derive(Debug, Default)]
pub(super) struct Given {
    pub configs: Vec<MachineConfig>,
    pub sources: Vec<Source>,
}

/// In the order of the files.
pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Given> {
    let from_input = files.iter().filter(|file| file.as_os_str() == STANDARD_INPUT).count();
    ensure!(from_input <= 1, "standard input can be read once: give - once");
    let mut streams = Vec::new();
    for file in files {
        let (place, bytes) = match file.as_os_str() == STANDARD_INPUT {
            true => ("standard input".to_owned(), bytes(std::io::stdin().lock(), Path::new("standard input"))?),
            false => {
                let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
                (file.display().to_string(), bytes(opened, file)?)
            }
        };
        streams.push((place, bytes));
    }
    parse(&streams)
}

fn bytes(from: impl Read, name: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more than is accepted, so that what is too long is noticed.
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    from.take(limit).read_to_end(&mut bytes).with_context(|| format!("cannot read {}", name.display()))?;
    Ok(bytes)
}

/// Each stream with the name of its place.
fn parse(streams: &[(String, Vec<u8>)]) -> anyhow::Result<Given> {
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Given::default();
    for (place, bytes) in streams {
        let documents = yaml::documents(bytes).with_context(|| place.clone())?;
        let before = places.len();
        for document in documents {
            let at = format!("{place}, line {}", document.line);
            for object in objects(document.value) {
                let id = identity(&object, &at)?;
                found.add(object, &at)?;
                if let Some(other) = places.insert(id.clone(), at.clone()) {
                    bail!("{at}: {id} is also in {other}: give it once");
                }
            }
        }
        ensure!(places.len() > before, "{place} contains no MachineConfig");
    }
    Ok(found)
}

/// Those of a list one by one.
fn objects(mut document: Value) -> Vec<Value> {
    let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items").filter(|_| is_list) {
        Some(Value::Array(items)) => std::mem::take(items),
        _ => vec![document],
    }
}

/// Kind and name of an object that can be planned.
fn identity(object: &Value, at: &str) -> anyhow::Result<String> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let Some((_, fields)) = KINDS.iter().find(|(known, _)| (version, kind) == (API_VERSION, *known)) else {
        bail!(
            "{at}: this is a {kind:?} of {version:?}, and only MachineConfigs, KubeletConfigs and \
             ContainerRuntimeConfigs of {API_VERSION} can be planned: leave it out"
        );
    };
    let spec = object.get("spec").and_then(Value::as_object);
    if let Some(unknown) = spec.into_iter().flat_map(|spec| spec.keys()).find(|key| !fields.contains(&key.as_str())) {
        bail!("{at}: spec.{unknown} does not exist, and would be ignored; the fields are {}", fields.join(", "));
    }
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    ensure!(!name.is_empty(), "{at}: the {kind} has no metadata.name: name it");
    Ok(format!("{kind} {name}"))
}

impl Given {
    fn add(&mut self, object: Value, at: &str) -> anyhow::Result<()> {
        match object.get("kind").and_then(Value::as_str) {
            Some("KubeletConfig") => self.sources.push(Source::of_kubelet(&decoded::<KubeletConfig>(object, at)?)),
            Some("ContainerRuntimeConfig") => {
                self.sources.push(Source::of_runtime(&decoded::<ContainerRuntimeConfig>(object, at)?));
            }
            _ => self.configs.push(decoded::<MachineConfig>(object, at)?),
        }
        Ok(())
    }
}

fn decoded<K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned>(
    object: Value,
    at: &str,
) -> anyhow::Result<K> {
    serde_json::from_value(object).with_context(|| format!("{at}: this is no {}", K::kind(&())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let streams = [("f.yaml".to_owned(), text.as_bytes().to_vec())];
        let names = |given: Given| {
            let configs = given.configs.into_iter().filter_map(|it| it.metadata.name);
            configs.chain(given.sources.into_iter().map(|source| source.name)).collect()
        };
        parse(&streams).map(names).map_err(|error| crate::error::chain(error.as_ref()))
    }

    fn document(name: &str, spec: &str) -> String {
        format!("apiVersion: {API_VERSION}\nkind: MachineConfig\nmetadata: {{{name}}}\nspec: {{{spec}}}\n")
    }

    #[test]
    fn documents_and_lists_are_read_as_yaml_and_json() {
        let several = format!("{}---\n{}", document("name: a", ""), document("name: b", "fips: true"));
        assert_eq!(parsed(&several), Ok(vec!["a".into(), "b".into()]));
        let one = format!(r#"{{"apiVersion": "{API_VERSION}", "kind": "MachineConfig", "metadata": {{"name": "a"}}}}"#);
        assert_eq!(parsed(&one), Err("f.yaml, line 1: this is no MachineConfig: missing field `spec`".into()));
        let one = one.replace("}}", r#"}, "spec": {}}"#);
        assert_eq!(parsed(&one), Ok(vec!["a".into()]));
        let others = several.replace("MachineConfig", "KubeletConfig").replace("fips: true", "logLevel: 3");
        assert_eq!(parsed(&format!("{several}---\n{others}")), Ok(["a", "b", "a", "b"].map(str::to_owned).to_vec()));
        let list = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{one}]}}"#);
        assert_eq!(parsed(&list), Ok(vec!["a".into()]));
    }

    #[test]
    fn what_cannot_be_planned_says_where_and_why() {
        let (a, pool) = (document("name: a", ""), "apiVersion: v1\nkind: Pod\n");
        for (text, expected) in [
            (format!("{a}---\n{a}"), "f.yaml, line 6: MachineConfig a is also in f.yaml, line 1: give it once"),
            (
                format!("{a}---\n{pool}"),
                "f.yaml, line 6: this is a \"Pod\" of \"v1\", and only MachineConfigs, KubeletConfigs",
            ),
            (document("", ""), "f.yaml, line 1: the MachineConfig has no metadata.name: name it"),
            (document("name: a", "osImageUrl: x"), "f.yaml, line 1: spec.osImageUrl does not exist, and would be"),
            (document("name: a", "fips: maybe"), "f.yaml, line 1: this is no MachineConfig: invalid type"),
            ("# nothing".to_owned(), "f.yaml contains no MachineConfig"),
            ("a: [".to_owned(), "f.yaml: line "),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_does_not_exist_is_named() {
        let error = read(&["/nowhere/a.yaml".into()]).unwrap_err().to_string();
        assert_eq!(error, "cannot open /nowhere/a.yaml");
        let error = read(&["-".into(), "-".into()]).unwrap_err().to_string();
        assert!(error.contains("give - once"), "{error}");
    }
}
