//! What `cvo plan` says of catalogs before an update is what CatalogSources have after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use e2e::conditions::Conditions;
use e2e::faults::proxy::Proxy;
use e2e::faults::source::Faults;
use e2e::harness::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World, apply, push};

const CONFIG: &str = "default-catalog-sources";
/// What the API server has before and after the update.
const KUBERNETES: [&str; 2] = ["1.41.3", "1.42.0"];

/// Default catalogs with these tags.
fn data(world: &World, catalogs: &[(&str, &str)]) -> Value {
    let source = |(name, tag): &(&str, &str)| {
        let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name},
            "spec": {"sourceType": "grpc", "image": world.image(&format!("catalogs/{name}:{tag}"))}});
        ((*name).to_owned(), source.to_string())
    };
    json!(catalogs.iter().map(source).collect::<BTreeMap<_, _>>())
}

/// Writes a release of one component, the default catalogs, whose images say which Kubernetes it brings.
pub(super) fn release(folder: &Path, version: &str, data: &Value) {
    let metadata = json!({"name": CONFIG, "namespace": GLOBAL_CATALOG_NAMESPACE,
        "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"}});
    let catalogs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let annotations = json!({"io.openshift.build.versions": format!("kubernetes={}", KUBERNETES[1])});
    let image = format!("registry.invalid/lab@sha256:{}", "5".repeat(64));
    let tag = json!({"name": "lab", "annotations": annotations, "from": {"kind": "DockerImage", "name": image}});
    let references = json!({"apiVersion": "image.openshift.io/v1", "kind": "ImageStream",
        "metadata": {"name": version}, "spec": {"tags": [tag]}});
    let about = json!({"kind": "cincinnati-metadata-v0", "version": version, "previous": ["1.0.0"]});
    fs::create_dir_all(folder.join("manifests")).unwrap();
    let folder = folder.join("release-manifests");
    fs::create_dir_all(&folder).unwrap();
    for (name, content) in
        [("0000_50_olm_20_catalogs.json", catalogs), ("image-references", references), ("release-metadata", about)]
    {
        fs::write(folder.join(name), content.to_string()).unwrap();
    }
}

/// A cluster that runs this release.
pub(super) async fn runs(cluster: &Cluster, version: &str) {
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version"}, "spec": {"clusterID": "00000000-0000-4000-8000-000000000000"}});
    apply(cluster, &[object]).await;
    let image = format!("registry.invalid/release@sha256:{}", "1".repeat(64));
    let done = json!({"state": "Completed", "version": version, "image": image, "verified": true,
        "startedTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:05Z"});
    let status = json!({"desired": {"version": version, "image": image}, "history": [done], "observedGeneration": 1,
        "versionHash": "", "availableUpdates": []});
    let patch = json!({"status": status}).to_string();
    let arguments = ["patch", "clusterversion/version", "--subresource=status", "--type=merge", "-p", &patch];
    cluster.kubectl(arguments).await.unwrap();
}

impl World {
    /// Waits until each of these CatalogSources has this image, or does not exist.
    async fn until_images(&self, expected: &BTreeMap<(String, String), Option<String>>) {
        for ((namespace, name), image) in expected {
            let what = format!("{namespace}/{name} to be {image:?}");
            let is_so = |source: Option<&CatalogSource>| source.map(|source| &source.spec.image) == image.as_ref();
            let wait = self.cluster.until(what, &[PROCESS]).within(LIMIT);
            wait.object(self.sources(namespace), name, is_so).await.unwrap();
        }
    }
}

/// The property by which an operator names the last version of the cluster that it supports.
fn maximum(version: &str) -> Value {
    json!({"type": "olm.maxOpenShiftVersion", "value": version})
}

/// A catalog with two versions of `gears`: the second one supports the next version of the cluster.
fn gears(channel: &str) -> String {
    let (package, names) = ("gears", ["gears.v1.0.0", "gears.v1.1.0"]);
    let entries = json!([{"name": names[0]}, {"name": names[1], "replaces": names[0]}]);
    let bundle = |name: &str, version: &str, last: &str| {
        let identity = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
        json!({"schema": "olm.bundle", "package": package, "name": name, "image": format!("registry.invalid/{name}"),
            "properties": [identity, maximum(last)]})
    };
    let blobs = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": channel}),
        json!({"schema": "olm.channel", "package": package, "name": channel, "entries": entries}),
        bundle(names[0], "1.0.0", "1.0"),
        bundle(names[1], "1.1.0", "1.1"),
    ];
    blobs.map(|blob| blob.to_string()).join("\n")
}

/// A cluster whose default catalogs are those of the release before, with a template and a catalog that nobody moves. The API server
/// is what the proxy calls it.
async fn prepared() -> (World, Proxy) {
    let world = World::up().await;
    for (tag, channel) in [("v1", "stable"), ("v2", "fast")] {
        let text = gears(channel);
        let files = [("configs/catalog.json", text.as_bytes())];
        push(&world.cluster.registry(), &format!("catalogs/one:{tag}"), &files, &[]).await;
    }
    for image in ["catalogs/two:v1", "catalogs/off:v1", "catalogs/index:v1.41"] {
        world.push(image, "one", &[]).await;
    }
    let before = data(&world, &[("one", "v1"), ("two", "v1"), ("off", "v1"), ("gone", "v1")]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": CONFIG, "namespace": GLOBAL_CATALOG_NAMESPACE}, "data": before});
    let hub = json!({"apiVersion": "config.openshift.io/v1", "kind": "OperatorHub", "metadata": {"name": "cluster"},
        "spec": {"sources": [{"name": "off", "disabled": true}]}});
    for object in [map, hub] {
        world.apply(&object).await;
    }
    runs(&world.cluster, "1.0.0").await;
    let template = world.image("catalogs/index:v{kube_major_version}.{kube_minor_version}");
    world.create_template("follows", &template, "").await;
    world.create("shop", "fixed", json!({"sourceType": "grpc", "image": world.image("catalogs/one:v1")})).await;
    let proxy = Proxy::start(&world.cluster, 1).await.unwrap();
    proxy.say_version(&format!("v{}", KUBERNETES[0]));
    // What is installed is what the test says.
    let process = world.process(PROCESS).flag("--secure-port", "0").flag("--loops", "catalogs");
    proxy.redirect(&world.cluster.dir().join(format!("{PROCESS}.kubeconfig"))).unwrap();
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    world.until("the template to be resolved", ("shop", "follows"), |it| it.has("ContentLoaded=True")).await;
    world.until("the default catalogs", (GLOBAL_CATALOG_NAMESPACE, "two"), |it| it.has("ContentLoaded=True")).await;
    let gone = |it: &CatalogSource| it.spec.image.ends_with(":v1");
    world.until("all of them", (GLOBAL_CATALOG_NAMESPACE, "gone"), gone).await;
    (world, proxy)
}

/// Default catalogs move with the release and templates with its Kubernetes, as the plan said; of an image that is missing it warns.
#[tokio::test(flavor = "multi_thread")]
async fn plan_foretells_the_images_of_catalogs_and_warns_of_missing_ones() {
    let (world, proxy) = prepared().await;
    let mut target = data(&world, &[("one", "v2"), ("two", "v2"), ("off", "v2"), ("new", "v2")]);
    // A key that a release does not have stays in the object.
    target["gone"] = "".into();
    let folder = world.cluster.dir().join("release");
    release(&folder, "1.1.0", &target);
    let arguments = ["plan", "--from", "cluster", "--to", &folder.display().to_string()].map(str::to_owned);
    let plan = world.cluster.cvo(arguments.iter().map(String::as_str).chain(["-o", "json"])).run().await.unwrap();
    let plan: Value = plan.json().unwrap();
    let text = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
    let catalogs = plan["catalogs"].as_array().unwrap();
    let id = |it: &Value| (text(it, "namespace").unwrap(), text(it, "name").unwrap());
    let image = |name: &str| world.image(&format!("catalogs/{name}"));
    let said: Vec<_> =
        catalogs.iter().map(|it| (id(it).1, text(it, "from"), text(it, "to"), it["available"].as_bool())).collect();
    let expected = [
        ("gone", Some("gone:v1"), None, None),
        ("new", None, Some("new:v2"), Some(false)),
        ("one", Some("one:v1"), Some("one:v2"), Some(true)),
        ("two", Some("two:v1"), Some("two:v2"), Some(false)),
        ("follows", Some("index:v1.41"), Some("index:v1.42"), Some(false)),
    ]
    .map(|(name, from, to, available)| (name.to_owned(), from.map(image), to.map(image), available));
    assert_eq!(said, expected, "{plan:#}");
    let blockers = plan["blockers"].as_array().unwrap().iter().filter(|it| it["cause"] == "image");
    let warned: Vec<_> = blockers.map(|it| (text(it, "object").unwrap(), text(it, "severity").unwrap())).collect();
    let warning = |place: &str| (format!("catalogsource.operators.coreos.com \"{place}\""), "warns".to_owned());
    let places = ["openshift-marketplace/new", "openshift-marketplace/two", "shop/follows"];
    assert_eq!(warned, places.map(warning), "{plan:#}");
    let shown = world.cluster.cvo(arguments).run().await.unwrap().stdout;
    let line =
        format!("openshift-marketplace/two: {} → {} (its registry does not have it)", image("two:v1"), image("two:v2"));
    assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(&line), "{shown}");

    // The update: the daemon applies the ConfigMap, and the API server comes back with the next version.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), GLOBAL_CATALOG_NAMESPACE);
    maps.patch(CONFIG, &PatchParams::default(), &Patch::Merge(json!({"data": target}))).await.unwrap();
    proxy.set(Faults { away: true, ..Faults::default() });
    proxy.say_version(&format!("v{}", KUBERNETES[1]));
    proxy.set(Faults::default());
    let foretold = catalogs.iter().map(|it| (id(it), text(it, "to"))).collect();
    world.until_images(&foretold).await;
    let fixed = world.sources("shop").get("fixed").await.unwrap();
    assert_eq!(fixed.spec.image, image("one:v1"), "of which the plan said nothing");
    assert!(world.sources(GLOBAL_CATALOG_NAMESPACE).get_opt("off").await.unwrap().is_none());
    world.cluster.down().await.unwrap();
}

/// An operator that does not support the next version of the cluster stops the plan, which names the version that does; a channel that the
/// catalog will not have is a warning, and a patch of the release is for all operators.
#[tokio::test(flavor = "multi_thread")]
async fn operators_that_do_not_fit_a_release_are_named_with_what_helps() {
    let (world, _proxy) = prepared().await;
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "gears.v1.0.0", "namespace": "shop",
            "annotations": {"operatorframework.io/properties": json!({"properties": [maximum("1.0")]}).to_string()}},
        "spec": {"displayName": "Gears", "version": "1.0.0", "installModes": [],
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "gears", "namespace": "shop"},
        "spec": {"name": "gears", "channel": "stable", "source": "one", "sourceNamespace": GLOBAL_CATALOG_NAMESPACE}});
    world.apply(&csv).await;
    world.apply(&subscription).await;
    let installed = json!({"installedCSV": "gears.v1.0.0", "lastUpdated": "2026-01-02T03:04:05Z"});
    let patch = json!({"status": installed}).to_string();
    let arguments = ["patch", "subscription/gears", "-n", "shop", "--subresource=status", "--type=merge", "-p", &patch];
    world.cluster.kubectl(arguments).await.unwrap();
    let folder = world.cluster.dir().join("release");
    let planned = async |version: &str, tag: &str| -> (Value, Vec<(String, String)>) {
        release(&folder, version, &data(&world, &[("one", tag), ("two", "v1")]));
        let arguments =
            ["plan", "--from", "cluster", "--to", &folder.display().to_string(), "-o", "json"].map(str::to_owned);
        let plan: Value = world.cluster.cvo(arguments.iter().map(String::as_str)).run().await.unwrap().json().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let blockers = plan["blockers"].as_array().unwrap().iter().filter(|it| it["cause"] == "operator");
        let blockers = blockers.map(|it| (text(&it["severity"]), text(&it["message"]))).collect();
        (plan["operators"].clone(), blockers)
    };
    let (operators, blockers) = planned("1.1.0", "v1").await;
    assert_eq!(
        (&operators[0]["name"], &operators[0]["maximum"]),
        (&json!("gears.v1.0.0"), &json!("1.0")),
        "{operators}"
    );
    let expected = "the last version of the cluster that it supports is 1.0, not 1.1; gears.v1.1.0 of channel stable supports \
                    1.1: let it be updated to that first";
    assert_eq!(blockers, [("blocks".to_owned(), expected.to_owned())]);
    let (_, blockers) = planned("1.0.1", "v2").await;
    let [(severity, message)] = blockers.as_slice() else { panic!("{blockers:?}") };
    assert_eq!(severity, "warns");
    assert!(message.contains("will have no channel stable of package gears"), "{message}");
    let (operators, blockers) = planned("1.0.1", "v1").await;
    assert_eq!((operators.as_array().unwrap().len(), blockers), (1, Vec::new()));
    world.cluster.down().await.unwrap();
}
