//! Whatever a catalog depends on, a change of it is acted upon at once: nothing waits for a resync.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use e2e::conditions::Conditions;
use e2e::faults::proxy::Proxy;
use e2e::faults::source::Faults;
use e2e::platform::operators;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DeleteParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{LIMIT, PROCESS, World};

/// A change has been acted upon by then. What has failed is tried again after ten seconds by itself.
const SOON: Duration = Duration::from_secs(6);
/// Nothing is asked for so long: an attempt is over.
const QUIET: Duration = Duration::from_secs(1);

/// A registry that refuses everybody. Returns its address, and how often it was asked.
async fn refusing() -> (String, watch::Receiver<usize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, asked) = watch::channel(0);
    let app = Router::new().fallback(move || {
        sender.send_modify(|asked| *asked += 1);
        async { (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"x\"")]) }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address, asked)
}

fn in_namespace(kind: &str, namespace: &str, name: &str, content: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}});
    object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
    object
}

fn of_config(kind: &str, content: Value) -> Value {
    let mut object = json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}});
    object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
    object
}

/// A kind of the platform that takes any content.
fn definition(plural: &str, kind: &str) -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    let names =
        json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")});
    let group = "config.openshift.io";
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster", "versions": [version], "names": names}})
}

impl World {
    /// Deletes the object by hand, and waits until it is made anew.
    async fn is_made_again<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope> + Clone + DeserializeOwned,
        K: std::fmt::Debug + serde::Serialize + Send + Sync + 'static,
    {
        let all: Api<K> = Api::namespaced(self.client.clone(), "shop");
        let wait = self.cluster.until(format!("{name} to be there"), &[PROCESS]).within(LIMIT);
        let before = wait.existing(all.clone(), name, |_| true).await.unwrap();
        all.delete(name, &DeleteParams::default()).await.unwrap();
        let wait = self.cluster.until(format!("{name} to be made again"), &[PROCESS]).within(SOON);
        wait.existing(all, name, |it| it.meta().uid != before.meta().uid).await.unwrap();
    }
}

/// Each row: what changes, and the object as it is then. The registry of a catalog that it has refused is asked again.
fn rows(authority: &str, host: &str) -> Vec<(&'static str, Value)> {
    let login = |password: &str| {
        let text = json!({"auths": {"127.0.0.1": {"username": "me", "password": password}}}).to_string();
        in_namespace(
            "Secret",
            "shop",
            "pull",
            json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": text}}),
        )
    };
    let twice = format!("{authority}{authority}");
    let image = |lists: Value| {
        of_config("Image", json!({"spec": {"additionalTrustedCA": {"name": "registries"}, "registrySources": lists}}))
    };
    let bundle = json!({"data": {"ca-bundle.crt": authority}});
    vec![
        ("a Secret is made", login("one")),
        ("a Secret changes", login("two")),
        (
            "an account names another Secret",
            in_namespace("ServiceAccount", "shop", "default", json!({"imagePullSecrets": [{"name": "other"}]})),
        ),
        (
            "the authorities of registries change",
            in_namespace("ConfigMap", "openshift-config", "registries", json!({"data": {host: twice}})),
        ),
        (
            "the authorities that the cluster trusts change",
            in_namespace("ConfigMap", "openshift-config-managed", "trusted-ca-bundle", bundle),
        ),
        ("the proxy changes", of_config("Proxy", json!({"status": {"httpProxy": "http://proxy.invalid:3128"}}))),
        ("which registries are allowed changes", image(json!({"insecureRegistries": ["any.example"]}))),
        (
            "mirrors change",
            of_config(
                "ImageTagMirrorSet",
                json!({"spec": {"imageTagMirrors": [{"source": "any.example", "mirrors": ["other.example"]}]}}),
            ),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn change_of_anything_that_a_catalog_depends_on_is_acted_upon_at_once() {
    let world = World::up().await;
    for object in [definition("proxies", "Proxy"), definition("imagetagmirrorsets", "ImageTagMirrorSet")] {
        world.apply(&object).await;
        let name = format!("crd/{}", object["metadata"]["name"].as_str().unwrap());
        world.cluster.kubectl(["wait", "--for=condition=Established", "--timeout=60s", &name]).await.unwrap();
    }
    operators::trust(&world.cluster).await.unwrap();
    world
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config-managed"}}))
        .await;
    world.push("catalogs/index:v1.41.3", "one", &[]).await;
    let proxy = Proxy::start(&world.cluster, 1).await.unwrap();
    proxy.say_version("v1.41.3");
    let process = world.process(PROCESS).flag("--secure-port", "0").flag("--image-access", "direct");
    proxy.redirect(&world.cluster.dir().join(format!("{PROCESS}.kubeconfig"))).unwrap();
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();

    let (registry, mut asked) = refusing().await;
    let spec = json!({"sourceType": "grpc", "image": format!("{registry}/a/b:1"), "secrets": ["pull"]});
    world.create("shop", "refused", spec).await;
    let refused = |source: &CatalogSource| source.status.as_ref().is_some_and(|it| it.reason == "RegistryServerError");
    world.until("the registry to refuse", ("shop", "refused"), refused).await;
    let host = world.cluster.registry_for_pods().replace(':', "..");
    for (what, object) in rows(&world.cluster.authority().unwrap(), &host) {
        while timeout(QUIET, asked.changed()).await.is_ok() {}
        let before = *asked.borrow_and_update();
        world.apply(&object).await;
        let again = timeout(SOON, asked.wait_for(|asked| *asked > before)).await;
        assert!(again.is_ok(), "{what}: the registry is not asked again");
    }

    let map = |version: &str| {
        let csv = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("gears.v{version}")}, "spec": {"version": version, "displayName": "Gears"}}]);
        let packages = json!([{"packageName": "gears", "defaultChannel": "stable",
            "channels": [{"name": "stable", "currentCSV": format!("gears.v{version}")}]}]);
        let data = json!({"clusterServiceVersions": csv.to_string(), "customResourceDefinitions": "[]", "packages": packages.to_string()});
        in_namespace("ConfigMap", "shop", "gears", json!({"data": data}))
    };
    world.apply(&map("1.0.0")).await;
    world.create("shop", "gears", json!({"sourceType": "configmap", "configMap": "gears"})).await;
    let loaded = world.until("the ConfigMap", ("shop", "gears"), |it| it.has("ContentLoaded=True")).await;
    let content = |source: &CatalogSource| source.condition("ContentLoaded=True").map(|it| it.message.clone());
    world.apply(&map("1.1.0")).await;
    let wait = world.cluster.until("its next content", &[PROCESS]).within(SOON);
    let is_other = |it: &CatalogSource| content(it).is_some() && content(it) != content(&loaded);
    wait.existing(world.sources("shop"), "gears", is_other).await.unwrap();

    world.is_made_again::<Service>("gears").await;
    world.is_made_again::<EndpointSlice>("gears-olm").await;

    let template = world.image("catalogs/index:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}");
    world.create_template("follows", &template, "").await;
    let image = |version: &str| world.image(&format!("catalogs/index:{version}"));
    world.until("the template", ("shop", "follows"), |it| it.spec.image == image("v1.41.3")).await;
    proxy.set(Faults { away: true, ..Faults::default() });
    proxy.say_version("v1.42.0");
    proxy.set(Faults::default());
    let wait = world.cluster.until("the image of the next version", &[PROCESS]).within(Duration::from_secs(10));
    wait.existing(world.sources("shop"), "follows", |it| it.spec.image == image("v1.42.0")).await.unwrap();
    world.cluster.down().await.unwrap();
}
