//! The releases that are played: the daemon's real manifests and four small components, laid out as folders in the
//! payload store, their digests signed with a key made for the test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cvo::payload::{
    metadata::{self, ReleaseMetadata},
    references::{self, ImageReferences, Tag},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    harness::{process, programs},
    theatre::run,
    workspace,
};

/// Components by run level: `beta` and `gamma` are applied side by side, after `alpha` and before `delta`.
pub const COMPONENTS: [(&str, &str); 4] = [("10", "alpha"), ("20", "beta"), ("20", "gamma"), ("30", "delta")];

/// A release in the payload store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub version: String,
    /// Pull spec by digest.
    pub image: String,
    /// Holds `manifests/` and `release-manifests/`.
    pub root: PathBuf,
}

impl Release {
    /// `sha256:<hex>` of the image.
    pub fn digest(&self) -> &str {
        self.image.split_once('@').unwrap().1
    }

    /// The daemon's own component, which is applied first, gets an object in a namespace that is missing: an update to
    /// this release stays before the hand-over until the namespace is there.
    pub fn obstruct(&self) {
        let metadata = json!({"name": "held", "namespace": OBSTACLE});
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        include(&mut object);
        let file = format!("0000_00_cluster-version-operator_20_{OBSTACLE}.json");
        fs::write(self.root.join("manifests").join(file), object.to_string()).unwrap();
    }

    /// Writes (or replaces) a manifest of a component.
    pub fn put(&self, file: &str, text: &str) {
        fs::write(self.root.join("release-manifests").join(file), text).unwrap();
    }
}

/// Namespace that an obstructed release waits for; also part of the name of the file that wants it.
pub const OBSTACLE: &str = "obstacle";

/// Where releases and signatures lie, and the keys that sign.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    /// Armored public key of the platform.
    public_key: String,
}

/// The key every release is verified with.
pub const PLATFORM_KEY: &str = "platform@lab.invalid";
/// A good key that nobody trusts.
pub const FOREIGN_KEY: &str = "stranger@lab.invalid";

impl Store {
    /// An empty store below `dir`, with two fresh keys.
    pub async fn make(dir: &Path) -> Self {
        for folder in ["payloads", "signatures"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        let gpg = dir.join("gpg");
        fs::create_dir(&gpg).unwrap();
        fs::set_permissions(&gpg, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let mut store = Self { dir: dir.to_owned(), public_key: String::new() };
        for key in [PLATFORM_KEY, FOREIGN_KEY] {
            let arguments = ["--batch", "--passphrase", "", "--quick-gen-key", key, "ed25519", "sign", "never"];
            run(store.gpg(Path::new("gpg")).args(arguments)).await;
        }
        store.public_key = run(store.gpg(Path::new("gpg")).args(["--armor", "--export", PLATFORM_KEY])).await;
        store
    }

    /// The agent that gpg starts carries the cluster's mark and ends with it: one that is ended between two signatures may
    /// still answer the second one.
    fn gpg(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("GNUPGHOME", self.dir.join("gpg")).env(process::MARK, &self.dir);
        command
    }

    /// Folder that `--payload-store` names.
    pub fn payloads(&self) -> PathBuf {
        self.dir.join("payloads")
    }

    /// Lays out a release under the name its digest gives it. Nothing is signed yet.
    pub fn lay(&self, version: &str) -> Release {
        let hex = hex::encode(Sha256::digest(version));
        let image = format!("registry.invalid/release@sha256:{hex}");
        let root = self.payloads().join(format!("sha256-{hex}"));
        let (own, platform) = (root.join("manifests"), root.join("release-manifests"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&platform).unwrap();
        let source = workspace::root().join("manifests/cluster-version");
        for file in fs::read_dir(source).unwrap().flatten() {
            fs::copy(file.path(), own.join(file.file_name())).unwrap();
        }
        let described = ReleaseMetadata::new(version).unwrap().to_json().unwrap();
        fs::write(platform.join(metadata::FILE), described).unwrap();
        let images = ImageReferences {
            name: version.to_owned(),
            tags: vec![Tag::image("lab", "registry.invalid/lab@sha256:00")],
            created: None,
        };
        fs::write(platform.join(references::FILE), images.to_json().unwrap()).unwrap();
        let release = Release { version: version.to_owned(), image, root };
        for (file, object) in manifests(version) {
            release.put(&file, &object.to_string());
        }
        release.put("0000_10_alpha_05_verification.json", &self.verification().to_string());
        release
    }

    /// Signs the release's digest and puts the signature into the store that the releases name.
    pub async fn sign(&self, release: &Release, key: &str) {
        let mut command = self.gpg(&programs::cvo().unwrap());
        command.args(["release", "sign", &release.image, "--gpg-key", key, "--to"]).arg(self.dir.join("signatures"));
        run(&mut command).await;
    }

    fn verification(&self) -> Value {
        let store = format!("file://{}", self.dir.join("signatures").display());
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "release-verification", "namespace": "openshift-config-managed"},
            "data": {"verifier-public-key-platform": self.public_key, "store-lab": store},
        });
        include(&mut object);
        object["metadata"]["annotations"]["release.openshift.io/verification-config-map"] = json!("");
        object
    }
}

/// Marks an object for the default cluster profile.
fn include(object: &mut Value) {
    object["metadata"]["annotations"]["include.release.openshift.io/self-managed-high-availability"] = json!("true");
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

/// The definition of a kind with one version, `v1`, and no subresource.
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

/// The definition of a kind of the cluster's configuration, as lax as can be, marked for the default cluster profile.
pub fn setting(kind: &str, plural: &str) -> Value {
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
