//! Loads the manifests in this repository (`manifests/`, `e2e/releases/`) as releases and checks them.

use crate::object::manifest::Manifest;
use crate::release::filter::{DEFAULT_PROFILE, Filter};
use crate::release::load;
use crate::release::load::{LoadOptions, PayloadFiles, SourceFile};
use crate::release::metadata;
use crate::release::metadata::ReleaseMetadata;
use crate::release::references;
use crate::release::references::ImageReferences;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const IMAGE: &str = "registry.example.com/release@sha256:0";
/// Each release and the folders it consists of.
const RELEASES: [(&str, &[&str]); 4] = [
    ("1.0.0", &["base"]),
    ("1.0.1", &["base", "1.0.1"]),
    ("1.1.0", &["base", "1.1.0"]),
    ("1.0.1", &["base", "1.0.1", "failing-network"]),
];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Folder entries, by name.
fn entries(folder: &Path) -> BTreeMap<String, PathBuf> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .collect()
}

fn files(folder: &str) -> Vec<SourceFile> {
    let file = |(name, path): (String, PathBuf)| SourceFile { name, bytes: std::fs::read(path).unwrap() };
    entries(&repository(folder)).into_iter().map(file).collect()
}

fn own() -> Vec<SourceFile> {
    files("manifests/cluster-version")
}

/// Merges the folders as e2e/releases/README.md describes: a file of the same component and name replaces the one before.
/// Placeholders are filled in.
fn sample(version: &str, folders: &[&str]) -> Vec<SourceFile> {
    let mut merged = BTreeMap::new();
    for folder in folders {
        for (component, path) in entries(&repository("e2e/releases").join(folder)) {
            for (name, path) in entries(&path) {
                let level_and_component = crate::object::manifest::run_level(&name).map(|(_, c)| c.to_owned());
                let expected = (name != references::FILE).then(|| component.clone());
                assert_eq!(level_and_component, expected, "{component}/{name} is not named after its component");
                merged.insert((component.clone(), name), std::fs::read_to_string(path).unwrap());
            }
        }
    }
    merged.retain(|(_, name), _| name != references::FILE);
    let fill = |text: String| text.replace("0.0.1-snapshot", version).replace("sample.invalid/lab", IMAGE);
    merged.into_iter().map(|((_, name), text)| SourceFile { name, bytes: fill(text).into_bytes() }).collect()
}

/// Loaded with a profile that must include every document.
fn release(version: &str, folders: &[&str]) -> Vec<Arc<Manifest>> {
    let mut files = sample(version, folders);
    let references = ImageReferences { name: version.into(), ..ImageReferences::default() };
    files.push(SourceFile { name: references::FILE.into(), bytes: references.to_json().unwrap() });
    let metadata = ReleaseMetadata::new(version).unwrap();
    files.push(SourceFile { name: metadata::FILE.into(), bytes: metadata.to_json().unwrap() });
    let options = LoadOptions {
        image: IMAGE.into(),
        profile: DEFAULT_PROFILE.into(),
        strict_templates: true,
        filter: Filter { feature_set: Some(String::new()), feature_gates: Some(BTreeSet::new()), ..Filter::default() },
    };
    let place = format!("{version} of {folders:?}");
    let payload =
        load::load(PayloadFiles { place, own: own(), release: files, ..PayloadFiles::default() }, &options).unwrap();
    let excluded: Vec<&str> = payload.excluded.iter().map(|(manifest, _)| manifest.id.name.as_str()).collect();
    assert_eq!(excluded, ["clusterversionoperators.operator.openshift.io"], "of other feature sets");
    assert!(payload.warnings.is_empty(), "{:?}", payload.warnings);
    payload.manifests
}

fn find<'a>(manifests: &'a [Arc<Manifest>], kind: &str, name: &str) -> Option<&'a Arc<Manifest>> {
    manifests.iter().find(|manifest| manifest.id.kind == kind && manifest.id.name == name)
}

#[test]
fn every_sample_release_loads_and_is_complete() {
    for (version, folders) in RELEASES {
        let manifests = release(version, folders);
        let ids: BTreeSet<_> = manifests.iter().map(|manifest| &manifest.id).collect();
        assert_eq!(ids.len(), manifests.len(), "{version}: an object comes twice");
        let namespaces: BTreeSet<&str> =
            manifests.iter().filter(|m| m.id.kind == "Namespace").map(|m| m.id.name.as_str()).collect();
        let mut last = BTreeMap::new();
        for manifest in &manifests {
            let namespace = &manifest.id.namespace;
            assert!(namespace.is_empty() || namespaces.contains(namespace.as_str()), "{}: no namespace", manifest.id);
            let raw = manifest.raw.bytes();
            let text = std::str::from_utf8(&raw).unwrap();
            assert!(!text.contains("snapshot") && !text.contains("sample.invalid"), "{}: placeholder", manifest.id);
            if manifest.origin == crate::object::manifest::Origin::Release {
                last.insert(manifest.run_level().unwrap().1.to_owned(), manifest);
            }
        }
        let components: Vec<&str> = last.keys().map(String::as_str).collect();
        assert_eq!(components, ["config-api", "console", "network", "storage"]);
        for (component, manifest) in last {
            assert_eq!((manifest.id.kind.as_str(), &manifest.id.name), ("ClusterOperator", &component), "comes last");
            let object = manifest.object().unwrap();
            assert_eq!(object["status"]["versions"][0]["name"], "operator");
            assert_eq!(object["status"]["versions"][0]["version"], version);
        }
    }
}

#[test]
fn sample_releases_differ_as_their_readme_says() {
    let [first, second, third, failing] = RELEASES.map(|(version, folders)| release(version, folders));
    assert!(find(&first, "ConfigMap", "storage-layout").unwrap().create_only());
    let job = |manifests: &[Arc<Manifest>]| find(manifests, "Job", "storage-migration").is_some();
    assert_eq!([&first, &second, &third].map(|m| job(m)), [false, true, false]);
    let deleted = |manifests: &[Arc<Manifest>]| find(manifests, "ConfigMap", "legacy-theme").unwrap().delete().unwrap();
    assert_eq!([&first, &second, &third].map(|m| deleted(m)), [false, false, true]);
    let level = |manifests: &[Arc<Manifest>]| {
        let object = find(manifests, "PlatformConfig", "cluster").unwrap().object().unwrap();
        object["spec"].get("logLevel").is_some()
    };
    assert_eq!([&first, &second, &third].map(|m| level(m)), [false, false, true]);
    let names_repair = |manifests: &[Arc<Manifest>]| {
        let object = find(manifests, "Deployment", "network-operator").unwrap().object().unwrap();
        let env = object.pointer("/spec/template/spec/containers/0/env").and_then(Value::as_array).unwrap().clone();
        env.iter().any(|entry| entry["name"] == "FAIL_UNTIL_CONFIGMAP" && entry["value"] == "repair")
    };
    assert_eq!([&second, &failing].map(|m| names_repair(m)), [false, true]);
}

/// The Deployments of both daemons, with these identifiers in `EXCLUDE_MANIFESTS`.
fn daemons(excluded: &str) -> [Value; 2] {
    let filter = Filter { exclude_identifier: Some(excluded.to_owned()), ..Filter::default() };
    let options = LoadOptions { image: IMAGE.into(), filter, ..LoadOptions::default() };
    let mut release = files("manifests/machine-config");
    release.retain(|file| file.name != references::FILE);
    let files = PayloadFiles { place: "manifests".into(), own: own(), release, ..PayloadFiles::default() };
    let manifests = load::partial(files, &options).unwrap().manifests;
    ["cluster-version-operator", "machine-config-operator"]
        .map(|name| find(&manifests, "Deployment", name).unwrap().object().unwrap())
}

/// Whoever takes over the node of either has all nodes.
#[test]
fn daemons_run_on_nodes_of_the_control_plane_unless_any_node_will_do() {
    let affinity = |deployment: &Value| deployment.pointer("/spec/template/spec/affinity").unwrap().clone();
    let has = |label: &str| json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
    let terms = json!([has("node-role.kubernetes.io/control-plane"), has("node-role.kubernetes.io/master")]);
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    for excluded in ["", "least-privilege"] {
        for deployment in daemons(excluded) {
            assert_eq!(affinity(&deployment), json!({"nodeAffinity": required}), "{excluded}");
        }
    }
    for deployment in daemons("least-privilege, any-node") {
        assert_eq!(affinity(&deployment), json!({}), "it stays, so that what an object has of it is removed");
    }
}

/// Of the daemon, the image says which user it is: OpenShift has users of its own for a pod that mounts a folder of its node,
/// and refuses others, and any seccomp profile.
#[test]
fn daemons_do_not_run_as_root() {
    let [daemon, controller] = daemons("").map(|deployment| {
        let context = deployment.pointer("/spec/template/spec/containers/0/securityContext").unwrap();
        let runs = ["runAsNonRoot", "runAsUser", "seccompProfile"].map(|field| context.get(field).cloned());
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        runs
    });
    assert_eq!(daemon, [Some(json!(true)), None, None]);
    assert_eq!(controller, [Some(json!(true)), Some(json!(65534)), Some(json!({"type": "RuntimeDefault"}))]);
}

/// It runs on any Kubernetes: it requires no certificate, no nodes but those of the control plane, and only built-in kinds.
#[test]
fn daemon_needs_nothing_special_of_its_cluster() {
    let manifests = release("1.0.0", &["base"]);
    let object = find(&manifests, "Deployment", "cluster-version-operator").unwrap().object().unwrap();
    let pod = object.pointer("/spec/template/spec").unwrap();
    assert!(pod.get("nodeSelector").is_none(), "one label for all clusters");
    for volume in pod["volumes"].as_array().unwrap() {
        let optional = |map: &Value| map.get("optional").and_then(Value::as_bool) == Some(true);
        assert!(["secret", "configMap"].iter().all(|kind| volume.get(kind).is_none_or(optional)), "{volume}");
    }
    let foreign = manifests.iter().filter(|m| m.origin == crate::object::manifest::Origin::Own).find(|m| {
        let builtin = ["", "apps", "rbac.authorization.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io"];
        !builtin.contains(&m.id.group.as_str())
    });
    assert!(foreign.is_none(), "{foreign:?}");
}
