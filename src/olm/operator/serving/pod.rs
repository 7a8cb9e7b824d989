//! How the pods of a Deployment get the certificate that they serve with.

use crate::olm::api::cluster_service_version::StrategyDeployment;
use crate::olm::api::keys::annotation;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A volume with the certificate: its name, where it is, and the names of the files with certificate and key.
type Place = (&'static str, &'static str, [&'static str; 2]);

/// Where programs that serve APIs look for it, and where those with webhooks do.
const PLACES: [Place; 2] = [
    ("apiservice-cert", "/apiserver.local.config/certificates", ["apiserver.crt", "apiserver.key"]),
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", ["tls.crt", "tls.key"]),
];

/// The Deployment with the certificate of this Secret in its containers. `hash`: of the authority, with which other pods are made.
pub(crate) fn with_certificate(entry: &StrategyDeployment, secret: &str, hash: &str) -> StrategyDeployment {
    let mut entry = entry.clone();
    let template = object(&mut entry.spec, "template");
    object(object(template, "metadata"), "annotations")[annotation::CA_HASH] = hash.into();
    let pod = object(template, "spec");
    for (name, path, files) in PLACES {
        let items: Vec<Value> =
            ["tls.crt", "tls.key"].iter().zip(files).map(|(key, path)| json!({"key": key, "path": path})).collect();
        let volume = json!({"name": name, "secret": {"secretName": secret, "items": items}});
        edit(pod, "volumes", |volumes| set(volumes, "name", volume));
        let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
        let replaced: BTreeSet<String> =
            containers.into_iter().flatten().filter_map(|it| mount(it, name, path)).collect();
        remove_unused(pod, &replaced);
    }
    entry
}

/// Mounts the volume, unless it is mounted. Returns the volume that was there before.
fn mount(container: &mut Value, name: &str, path: &str) -> Option<String> {
    if !container.is_object() {
        return None;
    }
    edit(container, "volumeMounts", |mounts| {
        if mounts.iter().any(|it| text(it, "name") == name) {
            return None;
        }
        let before = mounts.iter().find(|it| text(it, "mountPath").trim_end_matches('/') == path).cloned();
        let path = before.as_ref().map_or(path, |it| text(it, "mountPath"));
        set(mounts, "mountPath", json!({"name": name, "mountPath": path}));
        before.map(|it| text(&it, "name").to_owned())
    })
}

/// Volumes whose only mounts were replaced go: a pod would wait for a Secret that nobody makes.
fn remove_unused(pod: &mut Value, replaced: &BTreeSet<String>) {
    let containers = ["containers", "initContainers", "ephemeralContainers"];
    let all = containers.iter().filter_map(|key| pod.get(*key)?.as_array()).flatten();
    let mounts = all.filter_map(|it| it.get("volumeMounts")?.as_array()).flatten();
    let used: BTreeSet<String> = mounts.map(|it| text(it, "name").to_owned()).collect();
    edit(pod, "volumes", |volumes| {
        volumes.retain(|it| !replaced.contains(text(it, "name")) || used.contains(text(it, "name")));
    });
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Replaces the element that has the same value of this key, or adds one.
fn set(list: &mut Vec<Value>, key: &str, element: Value) {
    match list.iter_mut().find(|it| it.get(key) == element.get(key)) {
        Some(known) => *known = element,
        None => list.push(element),
    }
}

/// A member that is a mapping. What is none becomes one.
fn object<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    if !parent.is_object() {
        *parent = json!({});
    }
    let member = &mut parent[key];
    if !member.is_object() {
        *member = json!({});
    }
    member
}

/// Changes a member that is a list. What is none counts as an empty one.
fn edit<T>(parent: &mut Value, key: &str, change: impl FnOnce(&mut Vec<Value>) -> T) -> T {
    let mut list = match parent.get_mut(key).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let done = change(&mut list);
    parent[key] = list.into();
    done
}
