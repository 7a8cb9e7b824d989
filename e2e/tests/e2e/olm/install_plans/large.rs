//! Plans with more than an object of the API server can hold.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use cvo::testing::api::olm::subscription::Subscription;
use e2e::harness::process::peak_of_a_release;
use e2e::operators::Version;
use flate2::Compression;
use flate2::write::GzEncoder;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::subscriptions::condition;
use super::super::{PROCESS, World};
use super::{any_size, operator, phase};

/// Bundles with 600 KB of definitions each.
const BUNDLES: usize = 19;
const SIZE: usize = 600_000;
/// One with 3 MiB.
const LARGEST: Version =
    Version { kind: "Large", padding: (1_000_000, &[1_000_000, 1_000_000, 200_000]), ..Version::new("large.v1") };
/// No object may be larger.
const MOST: usize = 1 << 20;

/// They live as long as the test.
fn name(at: usize) -> &'static str {
    Box::leak(format!("part{at}.v1").into_boxed_str())
}

fn references(plan: &InstallPlan) -> Vec<Value> {
    let steps = plan.status.iter().flat_map(|status| &status.plan);
    let manifests = steps.map(|step| serde_json::from_str::<Value>(&step.resource.manifest).unwrap());
    manifests.filter(|manifest| manifest["kind"] == "Bundle").collect()
}

/// Twenty bundles with 14 MB of manifests: the plan says in which bundle they are, and a process that knows nothing of it any more reads
/// them there.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn plan_with_megabytes_of_manifests_completes_also_after_a_restart_without_a_cache() {
    let world = World::up().await;
    let parts = (0..BUNDLES).map(|at| Version { kind: "Part", padding: (SIZE, &[]), ..Version::new(name(at)) });
    let versions: Vec<Version> = parts.chain([LARGEST]).collect();
    world.offer(&versions).await;
    for version in &versions {
        world.subscribe(version.package(), &json!({"installPlanApproval": "Manual"})).await;
    }
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.start();
    let pending =
        |it: &Subscription| condition(it, "InstallPlanPending").is_some_and(|(it, _)| it == "RequiresApproval");
    let waits = world.subscription("a plan", "large", pending).await;
    let [plan] = &world.plans().await[..] else { panic!("one plan") };
    assert_eq!(plan.spec.cluster_service_version_names.len(), BUNDLES + 1);
    let size = json!(plan).to_string().len();
    assert!(size < MOST, "{size}");
    let found = references(plan);
    assert!(found.len() > BUNDLES, "{}", found.len());
    for reference in &found {
        let image = reference["image"].as_str().unwrap();
        assert!(image.contains("@sha256:") && reference["sha256"].as_str().unwrap().len() == 64, "{reference}");
    }
    // Without a restart the bundles would still be in memory.
    world.cluster.kill(PROCESS).unwrap();
    std::fs::remove_dir_all(world.cluster.dir().join(format!("{PROCESS}-cache"))).unwrap();
    let process = world.process(PROCESS).flag("--secure-port", "0");
    let process = world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    let name = waits.status.unwrap().install_plan_ref.unwrap().name.unwrap();
    world.approve(&name).await;
    world.complete(&name).await;
    let peak = peak_of_a_release(process.pid).unwrap() >> 10;
    println!("a plan of {size} bytes with {} references; peak {peak} MiB", found.len());
    for at in 0..BUNDLES {
        let definition = world.found("crd", false, &format!("parts.part{at}.example.com")).await.unwrap();
        let text = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"];
        assert_eq!(text.as_str().unwrap().len(), SIZE / 2, "part{at}");
    }
    for (at, expected) in LARGEST.padding.1.iter().enumerate() {
        let map = world.found("configmap", true, &format!("large-{at}")).await.unwrap();
        assert_eq!(map["data"]["text"].as_str().unwrap().len(), *expected);
    }
    world.cluster.down().await.unwrap();
}

/// A content that is not what the plan was made of is not installed, and the plan says so.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn content_that_was_exchanged_is_not_installed() {
    let world = World::up().await;
    world.offer(&[LARGEST]).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.start();
    world.subscribe("large", &json!({"installPlanApproval": "Manual"})).await;
    let pending =
        |it: &Subscription| condition(it, "InstallPlanPending").is_some_and(|(it, _)| it == "RequiresApproval");
    let waits = world.subscription("a plan", "large", pending).await;
    let name = waits.status.unwrap().install_plan_ref.unwrap().name.unwrap();
    let mut plan = world.installs().get(&name).await.unwrap();
    let steps = &mut plan.status.as_mut().unwrap().plan;
    let step = steps.iter_mut().find(|step| step.resource.name == "large-0").unwrap();
    let mut reference: Value = serde_json::from_str(&step.resource.manifest).unwrap();
    reference["sha256"] = json!("0".repeat(64));
    step.resource.manifest = reference.to_string();
    world.installs().replace_status(&name, &Default::default(), &plan).await.unwrap();
    world.approve(&name).await;
    let told = |it: &InstallPlan| super::message(it).contains("it has no manifest with SHA-256 0000");
    let told = world.until_plan("what is wrong", &name, told).await;
    assert_eq!(phase(&told), InstallPlanPhase::Installing);
    assert!(super::message(&told).starts_with("retrying execution due to error: ConfigMap large-0: "), "{told:?}");
    assert!(world.found("csv", true, "large.v1").await.is_none(), "nothing is written");
    world.cluster.down().await.unwrap();
}

/// As another implementation leaves plans: all steps refer to a ConfigMap into which a Job has unpacked the bundle.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn plan_that_refers_to_what_another_program_has_unpacked_is_carried_out() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    let manifests = &operator("v1", "", &any_size())[..2];
    let packed = |manifest: &Value| {
        let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
        writer.write_all(manifest.to_string().as_bytes()).unwrap();
        let once = STANDARD.encode(writer.finish().unwrap());
        json!(STANDARD.encode(once))
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "unpacked", "namespace": "shop", "annotations": {"olm.contentEncoding": "gzip+base64"}},
        "binaryData": {"csv.yaml": packed(&manifests[0]), "crd.yaml": packed(&manifests[1])}});
    let reference = json!({"kind": "ConfigMap", "name": "unpacked", "namespace": "shop", "catalogSourceName": "main",
        "catalogSourceNamespace": "shop"});
    world.plan("install-a", 1, false, manifests).await;
    let csv = json!("widgets.v1");
    let mut steps: Vec<Value> = manifests.iter().map(|manifest| super::step(&csv, manifest)).collect();
    for step in &mut steps {
        step["resource"]["manifest"] = json!(reference.to_string());
    }
    let status = Patch::Merge(json!({"status": {"plan": steps}}));
    world.installs().patch_status("install-a", &PatchParams::default(), &status).await.unwrap();
    world.approve("install-a").await;
    let missing = |it: &InstallPlan| super::message(it).contains("delete the plan, so that another one is made");
    world.until_plan("what is missing", "install-a", missing).await;
    assert!(world.found("csv", true, "widgets.v1").await.is_none());
    world.apply(&map).await;
    world.complete("install-a").await;
    assert!(world.found("csv", true, "widgets.v1").await.is_some());
    assert!(world.found("crd", false, "widgets.example.com").await.is_some());
    world.cluster.down().await.unwrap();
}
