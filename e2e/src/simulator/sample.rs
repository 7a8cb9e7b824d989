//! Sample releases: the daemon's real manifests and four small components, laid out in a payload store.

use super::releases::Release;
use crate::harness::named;
use crate::workspace;
use cvo::testing::payload::{
    metadata::{self, ReleaseMetadata},
    references::{self, ImageReferences, Tag},
};
use cvo::testing::work::retrieve;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{fs, path::Path};

/// Components by run level: `beta` and `gamma` are applied side by side, after `alpha` and before `delta`.
pub const COMPONENTS: [(&str, &str); 4] = [("10", "alpha"), ("20", "beta"), ("20", "gamma"), ("30", "delta")];

/// The namespace that a blocked release waits for; also part of the name of the file that needs it.
pub const MISSING_NAMESPACE: &str = "missing";

/// Lays out a release in the folder that its digest names. `verification` is the ConfigMap that says what the next
/// release must be signed with.
pub fn lay_out(payloads: &Path, version: &str, verification: &Value) -> anyhow::Result<Release> {
    let image = format!("registry.invalid/release@sha256:{}", hex::encode(Sha256::digest(version)));
    let folder = payloads.join(retrieve::folder(&image));
    let (own, platform) = (folder.join("manifests"), folder.join("release-manifests"));
    fs::create_dir_all(&own)?;
    fs::create_dir_all(&platform)?;
    for file in fs::read_dir(workspace::root().join("manifests/cluster-version"))? {
        let file = file?;
        fs::copy(file.path(), own.join(file.file_name()))?;
    }
    fs::write(platform.join(metadata::FILE), ReleaseMetadata::new(version)?.to_json()?)?;
    let tags = vec![Tag::image("lab", "registry.invalid/lab@sha256:00")];
    let images = ImageReferences { name: version.to_owned(), tags, created: None };
    fs::write(platform.join(references::FILE), images.to_json()?)?;
    let release = Release { version: version.to_owned(), image, folder };
    for (file, object) in manifests(version) {
        release.put(&file, &object.to_string())?;
    }
    release.put("0000_10_alpha_05_verification.json", &verification.to_string())?;
    Ok(release)
}

/// Gives the daemon's own component, which is applied first, an object in a namespace that does not exist: an update to
/// the release does not get to the hand-over until somebody creates the namespace.
pub fn block(release: &Release) -> anyhow::Result<()> {
    let metadata = json!({"name": "blocked", "namespace": MISSING_NAMESPACE});
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    include(&mut object);
    let file = format!("0000_00_cluster-version-operator_20_{MISSING_NAMESPACE}.json");
    Ok(fs::write(release.folder.join("manifests").join(file), object.to_string())?)
}

/// Creates the namespace that a blocked release waits for.
pub async fn unblock(client: &Client) -> kube::Result<()> {
    let namespace = Namespace { metadata: named(MISSING_NAMESPACE), ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// Includes an object in the default cluster profile.
fn include(object: &mut Value) {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        let profile = json!({"include.release.openshift.io/self-managed-high-availability": "true"});
        metadata.insert("annotations".to_owned(), profile);
    }
}

/// File names and objects of all components.
fn manifests(version: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (level, component) in COMPONENTS {
        let own = [
            ("00_namespace", namespace(component)),
            ("10_config", config(component, version)),
            ("20_service", service(component)),
            ("30_role", role(component)),
            ("40_deployment", deployment(component, version)),
            ("90_operator", operator(component, version)),
        ];
        let crd = (component == "alpha").then(|| [("01_widgets", widgets()), ("02_widget", widget(version))]);
        for (name, mut object) in own.into_iter().chain(crd.into_iter().flatten()) {
            include(&mut object);
            all.push((format!("0000_{level}_{component}_{name}.json"), object));
        }
    }
    all
}

fn namespace(component: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": component}})
}

fn config(component: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": component},
        "data": {"release": version, "colour": "blue"},
    })
}

fn service(component: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": component, "namespace": component},
        "spec": {"selector": {"app": component}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    })
}

fn role(component: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": format!("{component}-reader")},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    })
}

fn deployment(component: &str, version: &str) -> Value {
    let labels = json!({"app": component});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": component, "namespace": component},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "main",
                        "image": "registry.invalid/lab@sha256:00",
                        "env": [{"name": "RELEASE_VERSION", "value": version}],
                        "terminationMessagePolicy": "FallbackToLogsOnError",
                    }],
                },
            },
        },
    })
}

fn operator(component: &str, version: &str) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {"name": component},
        "spec": {},
        "status": {"versions": [{"name": "operator", "version": version}]},
    })
}

/// The CustomResourceDefinition of a kind with one version, `v1`, and no subresource.
fn definition(group: &str, kind: &str, plural: &str, scope: &str, schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// The CustomResourceDefinition of a kind of the cluster's configuration, with a schema that allows everything.
pub fn config_kind(kind: &str, plural: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut object = definition("config.openshift.io", kind, plural, "Cluster", schema);
    include(&mut object);
    object
}

fn widgets() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"release": {"type": "string"}}}}});
    definition("lab.example.com", "Widget", "widgets", "Namespaced", schema)
}

fn widget(version: &str) -> Value {
    json!({
        "apiVersion": "lab.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "first", "namespace": "alpha"},
        "spec": {"release": version},
    })
}
