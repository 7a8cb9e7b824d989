//! Operators on a test cluster: the component that reads catalogs, and a default catalog whose image moves with the release.

use std::time::Duration;

use cvo::testing::api::olm::{
    GLOBAL_CATALOG_NAMESPACE, catalog_source::CatalogSource, package_manifest::PackageManifest,
};
use kube::Api;
use serde_json::json;

use super::{
    Platform, Release,
    component::{Component, change},
    packages::{self, Offer},
};
use crate::catalogs::{catalog, push};
use crate::conditions::Conditions;
use crate::harness::{Cluster, files};

/// Name of the default catalog, and of a package in it that nobody installs.
pub const CATALOG: &str = "sample-operators";
/// The versions of that package in each release, and what can be installed besides. Of `library` each release has a version that
/// supports the next one, before anybody updates to that.
const OFFERED: [(&str, &[&str], &[Offer]); 3] = [
    ("1.0.0", &["0.9.0"], &[("library", &["1.0.0"])]),
    ("1.0.1", &["0.9.0"], &[("library", &["1.0.0", "1.1.0"])]),
    ("1.1.0", &["0.9.0", "1.0.0"], &[("library", &["1.0.0", "1.1.0", "2.0.0"]), ("ink", &["1.0.0"])]),
];

/// The component. Its default catalog is that of the release.
pub const COMPONENT: Component = Component {
    folder: "olm",
    image: Some("olm-operator"),
    changes: |cluster| {
        let image = format!("{}/catalogs/sample:v0.0.1-snapshot", cluster.registry_for_pods());
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": CATALOG},
            "spec": {"sourceType": "grpc", "image": image, "displayName": "Sample operators", "publisher": "Sample",
                "updateStrategy": {"registryPoll": {"interval": "10m0s"}}},
        });
        let data = json!({"sample": source.to_string()});
        vec![change("_default-catalogs.yaml", "data: {}\n", format!("data: {data}\n"))]
    },
};

/// Pushes the default catalog of each release, and has the cluster trust the registry as pods reach it.
pub async fn prepare(platform: &Platform) -> anyhow::Result<()> {
    let cluster = &platform.cluster;
    for (release, versions, offers) in OFFERED {
        let more = packages::catalog(platform, offers).await?;
        let more = more.into_iter().map(|blob| format!("\n{blob}"));
        let (text, image) =
            (catalog(CATALOG, versions) + &more.collect::<String>(), format!("catalogs/sample:v{release}"));
        push(&cluster.registry(), &image, &[("configs/catalog.json", text.as_bytes())], &[]).await?;
    }
    trust(cluster).await
}

/// As administrators of clusters with a registry of their own do it.
pub async fn trust(cluster: &Cluster) -> anyhow::Result<()> {
    let group = "config.openshift.io";
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("images.{group}")},
        "spec": {"group": group, "scope": "Cluster", "versions": [version],
            "names": {"plural": "images", "singular": "image", "kind": "Image", "listKind": "ImageList"}},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config"}});
    let host = cluster.registry_for_pods().replace(':', "..");
    let authorities = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "registries", "namespace": "openshift-config"},
        "data": {host: cluster.authority()?},
    });
    let image = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Image", "metadata": {"name": "cluster"},
        "spec": {"additionalTrustedCA": {"name": "registries"}},
    });
    apply(cluster, "images-definition", &[definition, namespace]).await?;
    let name = format!("crd/images.{group}");
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=60s", &name]).await?;
    apply(cluster, "images", &[authorities, image]).await
}

/// Waits until what the default catalog of this release offers can be asked for.
pub async fn until_offered(cluster: &Cluster, release: &Release, limit: Duration) -> anyhow::Result<CatalogSource> {
    let client = cluster.client().await?;
    let sources: Api<CatalogSource> = Api::namespaced(client.clone(), GLOBAL_CATALOG_NAMESPACE);
    let tag = format!(":v{}", release.version);
    let what = format!("the default catalog of {} to be ready", release.version);
    let is_served =
        |source: &CatalogSource| source.spec.image.ends_with(&tag) && source.says("ContentLoaded=True", &[&tag]);
    let source = cluster.until(what, &[]).within(limit).existing(sources, CATALOG, is_served).await?;
    // The condition of its APIService may be of a time before the node was restarted, which nobody tells the API server.
    let packages: Api<PackageManifest> = Api::namespaced(client, GLOBAL_CATALOG_NAMESPACE);
    let wait = cluster.until("packages to be served", &[]).within(limit);
    wait.answer(async || packages.get(CATALOG).await).await?;
    Ok(source)
}

pub(super) async fn apply(cluster: &Cluster, name: &str, objects: &[serde_json::Value]) -> anyhow::Result<()> {
    let file = cluster.dir().join(format!("{name}.json"));
    files::write_json(&file, &json!({"apiVersion": "v1", "kind": "List", "items": objects}))?;
    cluster.kubectl(["apply", "--server-side", "-f", &file.display().to_string()]).await?;
    Ok(())
}
