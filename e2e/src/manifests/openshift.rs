//! Kinds whose definitions are in the shared release: security context constraints, operator groups, cluster operators,
//! and all other objects of its definitions.

use crate::random::{SeededRandom, flag};
use cvo::testing::payload::yaml;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A release's definitions by group and kind, those of the default feature set, and the objects of these.
pub fn read(folder: &Path) -> (BTreeMap<(String, String), Value>, Vec<Value>) {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut definitions, mut others) = (BTreeMap::new(), Vec::new());
    for file in files.iter().filter(|path| path.extension().is_some_and(|e| e == "yaml" || e == "yml")) {
        for document in yaml::documents(&std::fs::read(file).unwrap()).unwrap() {
            let object = document.value;
            let annotations = &object["metadata"]["annotations"];
            let profile = annotations["include.release.openshift.io/self-managed-high-availability"] == "true";
            let set = annotations["release.openshift.io/feature-set"].as_str().unwrap_or("Default");
            if !profile || !set.split(',').any(|set| set == "Default") {
                continue;
            }
            if object["kind"] == "CustomResourceDefinition" {
                let text = |pointer: &str| object.pointer(pointer).unwrap().as_str().unwrap().to_owned();
                definitions.insert((text("/spec/group"), text("/spec/names/kind")), object);
            } else {
                others.push(object);
            }
        }
    }
    (definitions, others)
}

/// The manifest without some of its fields, at most a few levels deep.
pub fn reduced(d: &SeededRandom, object: &Value) -> Value {
    let mut object = object.clone();
    for (key, value) in object.as_object_mut().unwrap() {
        if key != "metadata" {
            thin(d, value, 3);
        }
    }
    object
}

fn thin(d: &SeededRandom, value: &mut Value, depth: usize) {
    if let (Value::Object(map), true) = (&mut *value, depth > 0) {
        map.retain(|_, _| !d.chance(12));
    }
    match value {
        Value::Object(map) if depth > 0 => map.values_mut().for_each(|value| thin(d, value, depth - 1)),
        Value::Array(list) if depth > 0 => list.iter_mut().for_each(|value| thin(d, value, depth - 1)),
        _ => {}
    }
}

pub fn constraints(d: &SeededRandom) -> Value {
    let directories = d.chance(40);
    let mut made = d.with(json!({"runAsUser": {"type": d.pick(&["RunAsAny", "MustRunAsNonRoot"])}, "seLinuxContext": {"type": "RunAsAny"}}), &[
        ("priority", |d| d.pick(&[json!(0), json!(10), json!(null)])),
        ("allowHostIPC", flag),
        ("allowHostNetwork", flag),
        ("allowHostPID", flag),
        ("allowHostPorts", flag),
        ("allowPrivilegedContainer", flag),
        ("readOnlyRootFilesystem", flag),
        ("allowPrivilegeEscalation", flag),
        ("defaultAllowPrivilegeEscalation", flag),
        ("allowedCapabilities", |d| json!(d.some_of(&["NET_ADMIN", "KILL"]))),
        ("defaultAddCapabilities", |d| d.pick(&[json!(null), json!([]), json!(["KILL"])])),
        ("requiredDropCapabilities", |d| d.pick(&[json!(null), json!(["ALL"])])),
        ("users", |d| json!(d.some_of(&["b", "a"]))),
        ("groups", |d| json!(d.some_of(&["system:authenticated", "x"]))),
        ("seccompProfiles", |_| json!(["runtime/default"])),
        ("fsGroup", |d| d.pick(&[json!({"type": "RunAsAny"}), json!({"type": "MustRunAs", "ranges": [{"min": 1, "max": 5}]})])),
        ("supplementalGroups", |_| json!({"type": "RunAsAny"})),
    ]);
    if directories || d.chance(30) {
        made["allowHostDirVolumePlugin"] = json!(directories);
    }
    if d.chance(60) {
        let mut volumes = d.some_of(&["secret", "configMap", "emptyDir"]);
        if directories {
            volumes.push("hostPath".into());
        }
        made["volumes"] = json!(volumes);
    }
    made
}

pub fn operator_group(d: &SeededRandom) -> Value {
    json!({"spec": d.some(&[
        ("targetNamespaces", |d| json!(d.some_of(&["a", "b"]))),
        ("selector", SeededRandom::selector),
        ("serviceAccountName", |_| json!("sa")),
        ("staticProvidedAPIs", flag),
        ("upgradeStrategy", |d| json!(d.pick(&["Default", "TechPreviewUnsafeFailForward"]))),
    ])})
}

pub fn cluster_operator(d: &SeededRandom) -> Value {
    d.some(&[("spec", |_| json!({})), ("status", |_| json!({"versions": [{"name": "operator", "version": "1"}]}))])
}
