//! The images that the suite names: bundles and catalogs with the names that it expects in them, and a server of catalogs.

mod objects;
mod served;

use std::path::Path;

use cvo::testing::api::olm::NAMESPACE;
use e2e::catalogs::{Entry, push_entries};
use e2e::harness::programs::lab;
use e2e::harness::{Cluster, Cvo, files};
use serde_json::{Value, json};

use super::IDLE;

/// The catalog that somebody else looks after.
pub(super) const COMMUNITY: &str = "quay.io/community/catalog:1";
/// What some operators of the suite run, whatever it is told.
const USUAL_OPERATOR: &str = "bitnami/nginx:latest";
/// What it is as well.
const OTHER_OPERATOR: &str = "openshift-scale/nginx:latest";
/// Where the program is in it.
const IN_IMAGE: &str = "/usr/bin/lab";
/// The server of catalogs in pods of the suite.
const OPM: &str = "operator-framework/opm:latest";
const EXAMPLE: [(&str, &str); 1] = [("example.com", "TestA")];
const PART: [(&str, &str); 1] = [("example.com", "TestB")];
const KIALI: [(&str, &str); 2] = [("kiali.io", "Kiali"), ("monitoring.kiali.io", "MonitoringDashboard")];
/// Packages that belong together, as package and the kinds that it brings.
const BUSY: [(&str, &[(&str, &str)]); 2] = [("busybox", &[]), ("busybox-dependency", &PART)];

/// One version of an operator, `<package>.v<version>`.
struct Version<'a> {
    operator: &'a str,
    package: &'a str,
    version: &'a str,
    /// The version that it replaces; empty for none.
    replaces: &'a str,
    /// Group and kind of what it brings.
    kinds: &'a [(&'a str, &'a str)],
    /// Whether what it may do holds in all namespaces.
    everywhere: bool,
}

fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

fn definition(group: &str, kind: &str) -> Value {
    let plural = plural(kind);
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind}}})
}

impl Version<'_> {
    fn name(&self, version: &str) -> String {
        format!("{}.v{version}", self.operator)
    }

    fn csv(&self) -> Value {
        let (labels, account) = (json!({"app": self.operator}), self.operator);
        let pod = json!({"serviceAccountName": account, "containers": [{"name": "operator", "image": IDLE}]});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let deployment = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
        let rights = json!([{"serviceAccountName": account,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]}]);
        let rights_key = if self.everywhere { "clusterPermissions" } else { "permissions" };
        let install = json!({"deployments": [{"name": self.operator, "spec": deployment}], rights_key: rights});
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        let modes = modes.map(|mode| json!({"type": mode, "supported": true}));
        let owned = self.kinds.iter().map(
            |(group, kind)| json!({"name": format!("{}.{group}", plural(kind)), "version": "v1alpha1", "kind": kind}),
        );
        let mut spec = json!({"displayName": self.operator, "version": self.version, "installModes": modes,
            "install": {"strategy": "deployment", "spec": install},
            "customresourcedefinitions": {"owned": owned.collect::<Vec<_>>()}});
        if !self.replaces.is_empty() {
            spec["replaces"] = json!(self.name(self.replaces));
        }
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": self.name(self.version)}, "spec": spec})
    }

    /// Pushes its bundle, with another ClusterServiceVersion than its own where one is given.
    async fn push(&self, registry: &str, image: &str, csv: Option<Value>) {
        self.push_with(registry, image, csv, &[]).await;
    }

    /// Pushes its bundle with more objects.
    async fn push_with(&self, registry: &str, image: &str, csv: Option<Value>, objects: &[Value]) {
        let csv = csv.unwrap_or_else(|| self.csv()).to_string().into_bytes();
        let mut content = vec![("manifests/csv.yaml".to_owned(), csv)];
        for (group, kind) in self.kinds {
            let definition = definition(group, kind).to_string().into_bytes();
            content.push((format!("manifests/{}.yaml", kind.to_lowercase()), definition));
        }
        for (index, object) in objects.iter().enumerate() {
            content.push((format!("manifests/object-{index}.yaml"), object.to_string().into_bytes()));
        }
        let named = |key: &str| format!("operators.operatorframework.io.bundle.{key}.v1");
        let labels = [("mediatype", "registry+v1"), ("manifests", "manifests/"), ("metadata", "metadata/")];
        let labels = labels.into_iter().chain([("package", self.package), ("channels", "stable")]);
        let labels: Vec<(String, &str)> = labels.map(|(key, value)| (named(key), value)).collect();
        let annotations: serde_json::Map<_, _> =
            labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        content.push(("metadata/annotations.yaml".to_owned(), json!({"annotations": annotations}).to_string().into()));
        let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let files: Vec<(&str, &[u8])> = content.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        super::super::push(registry, image, &files, &labels).await;
    }

    /// As a catalog offers it.
    fn offered(&self, image: &str, properties: &[Value]) -> Value {
        let package = json!({"type": "olm.package", "value": {"packageName": self.package, "version": self.version}});
        let properties: Vec<&Value> = std::iter::once(&package).chain(properties).collect();
        json!({"schema": "olm.bundle", "package": self.package, "name": self.name(self.version),
            "image": format!("quay.io/{image}"), "properties": properties})
    }

    fn entry(&self) -> Value {
        let replaces = if self.replaces.is_empty() { Value::Null } else { json!(self.name(self.replaces)) };
        json!({"name": self.name(self.version), "replaces": replaces})
    }
}

/// A package with one channel.
fn package(name: &str, channel: &str, entries: Vec<Value>, bundles: Vec<Value>) -> Vec<Value> {
    package_with(name, vec![(channel, entries)], bundles)
}

/// A package, and the entries of each channel; the first one is the default.
fn package_with(name: &str, channels: Vec<(&str, Vec<Value>)>, bundles: Vec<Value>) -> Vec<Value> {
    let default = channels.first().map(|(name, _)| *name);
    let mut blobs = vec![json!({"schema": "olm.package", "name": name, "defaultChannel": default})];
    let channel =
        |(channel, entries)| json!({"schema": "olm.channel", "package": name, "name": channel, "entries": entries});
    blobs.extend(channels.into_iter().map(channel));
    blobs.extend(bundles);
    blobs
}

async fn push_catalog(registry: &str, image: &str, blobs: &[Value]) {
    let text = blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    super::super::push(registry, image, &[("configs/catalog.json", text.as_bytes())], &[]).await;
}

/// Pushes everything. Without a server of catalogs, specs whose catalog runs in a pod fail.
pub(super) async fn push_all(cluster: &Cluster, opm: Option<&Path>) {
    let registry = cluster.registry();
    push_examples(&registry).await;
    push_busy(&registry).await;
    push_kiali(&registry).await;
    objects::push(&registry).await;
    served::push(&registry).await;
    let usual = [(USUAL_OPERATOR, IN_IMAGE), (OTHER_OPERATOR, IN_IMAGE), served::API];
    for (image, path) in usual {
        push_operator(&registry, image, path).await;
    }
    let (_, community) = COMMUNITY.split_once('/').unwrap();
    let text = super::super::catalog("community", "1.0.0");
    super::super::push(&registry, community, &[("configs/catalog.json", text.as_bytes())], &[]).await;
    let Some(opm) = opm else { return println!("there is no {}: catalogs in pods do not run", super::clients::OPM) };
    let program = std::fs::read(opm).unwrap();
    let entries = [Entry::folder("tmp", 0o1777), Entry::file("usr/bin/opm", 0o755, &program)];
    push_entries(&registry, OPM, &entries, &[]).await.unwrap();
}

/// Three versions, and what is wrong with some.
async fn push_examples(registry: &str) {
    let version = |version, replaces| Version {
        operator: "example-operator",
        package: "test-package",
        version,
        replaces,
        kinds: &EXAMPLE,
        everywhere: false,
    };
    let image = |tag: &str| format!("olmtest/example-operator-bundle:{tag}");
    for (number, replaces) in [("0.1.0", ""), ("0.2.0", "0.1.0"), ("0.3.0", "0.2.0")] {
        version(number, replaces).push(registry, &image(number), None).await;
    }
    let second = version("0.2.0", "0.1.0");
    let mut invalid = second.csv();
    invalid["spec"]["install"]["spec"]["deployments"] = json!("invalid");
    second.push(registry, &image("0.2.0-invalid-csv"), Some(invalid)).await;
    let mut untyped = version("1.0.0", "").csv();
    untyped.as_object_mut().unwrap().remove("apiVersion");
    version("1.0.0", "").push(registry, "olmtest/missing_api_version:latest", Some(untyped)).await;
}

/// A package that requires what another one brings, in two versions.
async fn push_busy(registry: &str) {
    let version = |(package, kinds), (version, replaces)| Version {
        operator: package,
        package,
        version,
        replaces,
        kinds,
        everywhere: false,
    };
    let versions = [("1.0.0", ""), ("2.0.0", "1.0.0")];
    let image = |package: &str, number: &str| format!("olmtest/{package}-bundle:{number}");
    for (one, number) in BUSY.iter().flat_map(|one| versions.map(|number| (*one, number))) {
        version(one, number).push(registry, &image(one.0, number.0), None).await;
    }
    let (group, kind) = PART[0];
    let api = json!({"group": group, "version": "v1alpha1", "kind": kind});
    let content = |count: usize| -> Vec<Value> {
        let one = |one: (&'static str, &'static [(&str, &str)])| {
            let key = if one.1.is_empty() { "olm.gvk.required" } else { "olm.gvk" };
            let properties = [json!({"type": key, "value": api})];
            let all: Vec<_> = versions.iter().take(count).map(|number| version(one, *number)).collect();
            let bundles = all.iter().map(|it| it.offered(&image(one.0, it.version), &properties)).collect();
            package(one.0, "alpha", all.iter().map(Version::entry).collect(), bundles)
        };
        BUSY.into_iter().flat_map(one).collect()
    };
    let index = |number: &str| format!("olmtest/busybox-dependencies-index:{number}-with-ListBundles-method");
    push_catalog(registry, &index("1.0.0"), &content(1)).await;
    push_catalog(registry, &index("2.0.0"), &content(2)).await;
    for (tag, blobs) in [("old", content(1)), ("related", [content(1), related()].concat()), ("new", content(2))] {
        push_catalog(registry, &format!("olmtest/catsrc-update-test:{tag}"), &blobs).await;
    }
}

/// A package that says which images it needs. It is only looked at.
fn related() -> Vec<Value> {
    let named =
        |name: &str, digest: &str| json!({"name": name, "image": format!("quay.io/coreos/{name}@sha256:{digest}")});
    let images = [
        named("etcd", "3816b6daf9b66d6ced6f0f966314e2d4f894982c6b1493061502f8c2bf86ac84"),
        named("etcd", "49d3d4a81e0d030d3f689e7167f23e120abf955f7d08dbedf3ea246485acee9f"),
        named("etcd-operator", "c0301e4686c3ed4206e370b42de5a3bd2229b9fb4906cf85f3f30650424abec2"),
    ];
    let version = Version {
        operator: "etcdoperator",
        package: "etcd-test",
        version: "0.9.0",
        replaces: "",
        kinds: &[],
        everywhere: false,
    };
    let metadata =
        json!({"type": "olm.csv.metadata", "value": {"displayName": "etcd", "provider": {"name": "Example"}}});
    let mut bundle = version.offered("olmtest/etcd-bundle:0.9.0", &[metadata]);
    bundle["relatedImages"] = json!(images);
    package("etcd-test", "alpha", vec![version.entry()], vec![bundle])
}

async fn push_kiali(registry: &str) {
    let version = Version {
        operator: "kiali-operator",
        package: "kiali",
        version: "1.4.2",
        replaces: "",
        kinds: &KIALI,
        everywhere: true,
    };
    let image = "operator-framework/kiali-bundle:1";
    version.push(registry, image, None).await;
    let blobs = package("kiali", "stable", vec![version.entry()], vec![version.offered(image, &[])]);
    push_catalog(registry, "operator-framework/ci-index:latest", &blobs).await;
}

/// An operator that does nothing, unless it is told what to do.
async fn push_operator(registry: &str, image: &str, path: &str) {
    let build = Cvo::new([
        "image-build",
        "--uncompressed",
        "--binary-path",
        path,
        "--entrypoint",
        path,
        "--entrypoint",
        "pause",
    ]);
    let to = format!("{registry}/{image}");
    build.flag("--binary", lab().unwrap()).flag("--to-image", to).output().await.unwrap();
}

/// Images of quay.io are those of the registry of the cluster: for the component, and for the node.
pub(super) async fn mirror(cluster: &Cluster) {
    let group = "config.openshift.io";
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("imagetagmirrorsets.{group}")},
        "spec": {"group": group, "scope": "Cluster", "versions": [version],
            "names": {"plural": "imagetagmirrorsets", "singular": "imagetagmirrorset", "kind": "ImageTagMirrorSet"}}});
    super::super::apply(cluster, &[definition]).await;
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]).await.unwrap();
    let mirrors = json!([{"source": "quay.io", "mirrors": [cluster.registry_for_pods()]}]);
    let mirrors = json!({"apiVersion": format!("{group}/v1"), "kind": "ImageTagMirrorSet",
        "metadata": {"name": NAMESPACE}, "spec": {"imageTagMirrors": mirrors}});
    super::super::apply(cluster, &[mirrors]).await;
    let registry = cluster.registry();
    let hosts = format!(
        "server = \"http://{registry}\"\n[host.\"http://{registry}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
    );
    for host in ["quay.io", "docker.io"] {
        files::write(&cluster.dir().join("certs.d").join(host).join("hosts.toml"), &hosts).unwrap();
    }
}
