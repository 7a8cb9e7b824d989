//! Images of catalogs that follow the version of the API server.

use cvo::testing::api::olm::catalog_source::CatalogSource;
use e2e::conditions::Conditions;
use e2e::faults::proxy::Proxy;
use e2e::faults::source::Faults;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{PROCESS, World};

const TEMPLATE: &str = "olm.catalogImageTemplate";
/// What a template in order says of itself.
const RESOLVED: [&str; 2] = ["TemplatesHaveResolved=True", "ResolvedImage=True"];

impl World {
    /// In the namespace `shop`.
    pub(super) async fn create_template(&self, name: &str, template: &str, image: &str) {
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": "shop", "annotations": {TEMPLATE: template}},
            "spec": {"sourceType": "grpc", "image": image}});
        let object: CatalogSource = serde_json::from_value(object).unwrap();
        self.sources("shop").create(&Default::default(), &object).await.unwrap();
    }
}

/// Each case of templates, and an API server that comes back with another version.
#[tokio::test(flavor = "multi_thread")]
async fn templates_follow_the_version_of_the_api_server() {
    let world = World::up().await;
    world.push("catalogs/index:v1.41.3", "one", &[]).await;
    let proxy = Proxy::start(&world.cluster, 1).await.unwrap();
    proxy.say_version("v1.41.3");
    let process = world.process(PROCESS).flag("--secure-port", "0");
    proxy.redirect(&world.cluster.dir().join(format!("{PROCESS}.kubeconfig"))).unwrap();
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();

    let template = world.image("catalogs/index:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}");
    world.create_template("fine", &template, "").await;
    let image = |version: &str| world.image(&format!("catalogs/index:{version}"));
    let resolved = |source: &CatalogSource, image: &str| {
        source.spec.image == image
            && source.condition(RESOLVED[0]).is_some_and(|it| it.reason == "AllTemplatesResolved")
            && source.condition(RESOLVED[1]).is_some_and(|it| it.message == image)
    };
    world.until("the image of the template", ("shop", "fine"), |it| resolved(it, &image("v1.41.3"))).await;
    world.until("its content", ("shop", "fine"), |it| it.says("ContentLoaded=True", &["index:v1.41.3"])).await;

    // What cannot be resolved leaves the image, and without one nothing is read.
    let unable = |source: &CatalogSource, words: &[&str]| {
        source.says("TemplatesHaveResolved=False", words)
            && source.condition("ResolvedImage=False").is_some_and(|it| it.reason == "UnableToResolve")
    };
    let known = image("v1.41.3");
    let cases: [(&str, String, &str); 3] = [
        ("unknown", world.image("catalogs/index:v{kube_other_version}"), "kube_other_version"),
        ("stray", world.image("catalogs/index:v{kube_major_version"), "{"),
        ("no-image", world.image("catalogs/index:{kube_major_version}:a:b"), "1:a:b"),
    ];
    for (name, template, word) in &cases {
        world.create_template(name, template, &known).await;
        let source = world.until(name, ("shop", name), |it| unable(it, &[word])).await;
        assert_eq!(source.spec.image, known, "{name}");
    }
    world.create_template("nothing", &cases[0].1, "").await;
    let refused = |source: &CatalogSource| source.status.as_ref().is_some_and(|it| it.reason == "SpecInvalidError");
    world.until("the one without an image to be refused", ("shop", "nothing"), refused).await;

    // The annotation goes, and with it what was said of it.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {TEMPLATE: null}}}));
    world.sources("shop").patch("unknown", &PatchParams::default(), &patch).await.unwrap();
    let silent = |source: &CatalogSource| {
        ["TemplatesHaveResolved=False", "ResolvedImage=False", RESOLVED[0], RESOLVED[1]]
            .iter()
            .all(|it| !source.has(it))
    };
    world.until("the conditions to go", ("shop", "unknown"), silent).await;

    // The next server has another version, for which there is no image yet.
    proxy.set(Faults { away: true, ..Faults::default() });
    proxy.say_version("v1.42.0");
    proxy.set(Faults::default());
    world.until("the image of the next version", ("shop", "fine"), |it| resolved(it, &image("v1.42.0"))).await;
    let kept = |source: &CatalogSource| {
        let status = source.status.clone().unwrap_or_default();
        status.message.contains("v1.42.0") && source.says("ContentLoaded=True", &["index:v1.41.3"])
    };
    world.until("what was good to be kept", ("shop", "fine"), kept).await;
    world.cluster.down().await.unwrap();
}
