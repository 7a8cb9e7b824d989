//! Everything that a catalog can have against the process at once, beside one good catalog.

mod images;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::conditions::Conditions;
use e2e::harness::process;
use futures::future::join_all;
use images::{Images, entry};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{PROCESS, World, catalog};

/// For all that is wrong to be said: some servers are waited for.
const LIMIT: Duration = Duration::from_secs(120);
/// What the process may need at most, in MiB.
const MEMORY: u64 = 150;
/// Bytes of the volume of the process.
const VOLUME: u64 = 1 << 30;
/// What is left of it when it is full.
const LEFT: u64 = 1 << 20;

/// A catalog with something wrong, and what is to be said of it.
struct Bad {
    name: &'static str,
    spec: Value,
    reason: &'static str,
    words: Vec<&'static str>,
}

fn said(source: &CatalogSource) -> (String, String) {
    let status = source.status.clone().unwrap_or_default();
    (status.reason, status.message)
}

fn is_ready(source: &CatalogSource) -> bool {
    let connection = source.status.as_ref().and_then(|status| status.connection_state.as_ref());
    connection.is_some_and(|connection| connection.last_observed_state == Connection::Ready)
}

/// A file system in memory, of the size of the volume of the process.
struct Volume(PathBuf);

impl Volume {
    /// `None` where none can be mounted.
    fn mount(at: &Path) -> Option<Volume> {
        std::fs::create_dir_all(at).unwrap();
        let size = std::ffi::CString::new(format!("size={VOLUME}")).unwrap();
        match mount("tmpfs", at, "tmpfs", MountFlags::empty(), size.as_c_str()) {
            Ok(()) => Some(Volume(at.to_owned())),
            Err(error) => {
                println!("a full disk is skipped: no file system can be mounted: {error}");
                None
            }
        }
    }

    /// Leaves only so many bytes.
    fn fill(&self) {
        let free = rustix::fs::statvfs(&self.0).unwrap();
        let free = free.f_bavail * free.f_frsize;
        let ballast = std::fs::File::create(self.ballast()).unwrap();
        rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, free.saturating_sub(LEFT)).unwrap();
    }

    fn empty(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _gone = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// What is said of the catalogs of images, by the name of each.
type Words = Vec<(&'static str, Vec<&'static str>)>;

/// Images that cannot be read.
fn bad_archives(images: &mut Images) -> Words {
    let zeros = vec![0; 64 << 20];
    images.catalog("bomb", &[("a.json", &[(&zeros, 40)])]);
    images.large("large", 10 << 30);
    images.lying("lying");
    images.archive("elsewhere", entry("other/a.json", tar::EntryType::Regular, "", 0));
    images.archive("link", entry("configs/a.json", tar::EntryType::Symlink, "../../../etc/passwd", 0));
    images.archive("up", entry("configs/../../../configs/a.json", tar::EntryType::Regular, "", 0));
    vec![
        ("gone", vec!["gone", "404", "check repository"]),
        ("denied", vec!["denied", "401"]),
        ("elsewhere", vec!["has no folder /configs", "catalogDir"]),
        ("large", vec!["10737418240 bytes", "right image"]),
        ("bomb", vec!["configs/a.json", "bytes"]),
        ("lying", vec!["lying", "digest", "push the image again"]),
        ("link", vec!["it has no package", "right image"]),
        ("up", vec!["configs"]),
    ]
}

/// Documents that are too large, too deep or too many.
fn bad_documents(images: &mut Images) -> Words {
    let text = "x".repeat(1 << 20);
    let begun = b"{\"schema\":\"olm.package\",\"name\":\"a\",\"description\":\"";
    images.catalog("long", &[("a.json", &[(begun, 1), (text.as_bytes(), 100), (b"\"}", 1)])]);
    let channel = |number| {
        format!(
            "{{\"schema\":\"olm.channel\",\"package\":\"a\",\"name\":\"c{number}\",\"entries\":[{{\"name\":\"a.v1\"}}]}}\n"
        )
    };
    let channels: String = (0..1_000_000).map(channel).collect();
    images.catalog("channels", &[("a.json", &[(channels.as_bytes(), 1)])]);
    let nine = |name: u8| {
        let (name, of) = (char::from(name), char::from(name - 1));
        format!("{name}: &{name} [{}]\n", vec![format!("*{of}"); 9].join(", "))
    };
    let laughs: String = std::iter::once("a: &a [x, x]\n".to_owned()).chain((b'b'..=b'j').map(nine)).collect();
    images.catalog("laughs", &[("a.yaml", &[(laughs.as_bytes(), 1)])]);
    images.catalog("nested", &[("a.json", &[(b"{\"schema\":\"x\",\"a\":", 1), (&[b'['; 1 << 20], 15)])]);
    vec![
        ("long", vec!["a.json", "longer than 16777216 bytes"]),
        ("channels", vec!["more than 50331648 bytes", "split the catalog"]),
        ("laughs", vec!["a.yaml", "aliases"]),
        ("nested", vec!["a.json"]),
    ]
}

/// Catalogs whose blobs do not fit together.
fn bad_packages(images: &mut Images) -> Words {
    let good = catalog("a", "1.0.0");
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let one = "{\"name\":\"a.v1.0.0\"}";
    let circle = "{\"name\":\"a.v1.0.0\",\"replaces\":\"a.v2\"},{\"name\":\"a.v2\",\"replaces\":\"a.v1.0.0\"}";
    let metadata = "{\"type\":\"olm.csv.metadata\"";
    let object = format!("{{\"type\":\"olm.bundle.object\",\"value\":{{\"data\":\"%%%\"}}}},{metadata}");
    let all = [
        ("no-schema", format!("{good}\n{{\"name\":\"a\"}}"), vec!["a.json", "schema is missing"]),
        ("twice", format!("{good}\n{good}"), vec!["a.json", "keep one of them"]),
        ("cyclic", with(one, circle), vec!["a.json", "no head"]),
        ("two-heads", with(one, &format!("{one},{{\"name\":\"a.v2\"}}")), vec!["a.json", "2 heads"]),
        ("base64", with(metadata, &object), vec!["a.json", "not base64"]),
    ];
    let mut said = Words::new();
    for (name, text, words) in all {
        images.catalog(name, &[("a.json", &[(text.as_bytes(), 1)])]);
        said.push((name, words));
    }
    said
}

/// A ConfigMap that a megabyte is enough for, though it becomes gigabytes.
fn large_config_map() -> Value {
    let csv = |number: usize| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("a.v{number}")}, "spec": {"version": format!("{number}.0.0"),
                "replaces": format!("a.v{}", number.wrapping_sub(1)), "customresourcedefinitions": {"owned": [
                    {"name": "as.example.com", "version": "v1", "kind": "A"}]}}})
    };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.example.com"}, "spec": {"group": "example.com", "names": {"kind": "A", "plural": "as"},
            "description": "x".repeat(500_000), "versions": [{"name": "v1", "served": true}]}});
    let csvs: Vec<Value> = (0..1_000).map(csv).collect();
    let channels: Vec<Value> =
        (0..1_000).map(|number| json!({"name": number.to_string(), "currentCSV": "a.v999"})).collect();
    json!({"clusterServiceVersions": json!(csvs).to_string(), "customResourceDefinitions": json!([definition]).to_string(),
        "packages": json!([{"packageName": "a", "channels": channels}]).to_string()})
}

fn small_config_map() -> Value {
    let csv = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "etcd.v1"}, "spec": {"version": "1.0.0"}}]);
    let packages = json!([{"packageName": "etcd", "channels": [{"name": "alpha", "currentCSV": "etcd.v1"}]}]);
    json!({"clusterServiceVersions": csv.to_string(), "packages": packages.to_string()})
}

impl World {
    async fn put_config_map(&self, name: &str, data: Value) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "shop");
        let map = serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap();
        maps.create(&Default::default(), &map).await.unwrap();
    }

    /// Waits until this is said of the catalog, which is created meanwhile, and prints it.
    async fn says(&self, bad: &Bad) {
        let wait = self.cluster.until(format!("{} to say {}, {:?}", bad.name, bad.reason, bad.words), &[PROCESS]);
        let is_said = |source: &CatalogSource| {
            let (reason, message) = said(source);
            reason == bad.reason && bad.words.iter().all(|words| message.contains(words))
        };
        let waiting = wait.within(LIMIT).existing(self.sources("shop"), bad.name, is_said);
        let (found, ()) = tokio::join!(waiting, self.create("shop", bad.name, bad.spec.clone()));
        let (reason, message) = said(&found.unwrap());
        println!("{}: {reason}: {message}", bad.name);
    }

    /// Asks for the packages of the good catalog all the time, and counts the answers. Each must have them.
    async fn ask(&self, count: Arc<AtomicUsize>, stop: CancellationToken) {
        let path = "/apis/packages.operators.coreos.com/v1/namespaces/shop/packagemanifests/fine";
        while !stop.is_cancelled() {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            let found: Value = self.client.request(request).await.unwrap();
            assert_eq!(found["status"]["channels"][0]["currentCSV"], "fine.v1.0.0");
            count.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The good catalog, and the API of packages.
    async fn begin(&self) -> e2e::harness::Identity {
        self.push("catalogs/fine:v1", "fine", &[]).await;
        self.push("catalogs/late:v1", "late", &[]).await;
        let port = self.cluster.port("packages");
        let process = self.process(PROCESS).flag("--secure-port", port.to_string());
        let process = process.flag("--image", "registry.invalid/olm-operator");
        let identity = self.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
        let spec = json!({"sourceType": "grpc", "image": self.image("catalogs/fine:v1"),
            "updateStrategy": {"registryPoll": {"interval": "1s"}}});
        self.create("shop", "fine", spec).await;
        self.until("the good catalog to be ready", ("shop", "fine"), is_ready).await;
        self.register(port).await;
        let services: Api<APIService> = Api::all(self.client.clone());
        let wait = self.cluster.until("the API of packages", &[PROCESS]).within(LIMIT);
        wait.existing(services, e2e::olm::PACKAGES, |it| it.has("Available=True")).await.unwrap();
        self.put_config_map("vanishing", small_config_map()).await;
        self.create("shop", "vanishing", json!({"sourceType": "configmap", "configMap": "vanishing"})).await;
        self.until("the catalog of a ConfigMap to be ready", ("shop", "vanishing"), is_ready).await;
        identity
    }

    async fn bad(&self) -> Vec<Bad> {
        let mut images = Images::default();
        let mut of_images = bad_archives(&mut images);
        of_images.extend(bad_documents(&mut images));
        of_images.extend(bad_packages(&mut images));
        ["drip-a", "drip-b", "drip-c"].iter().for_each(|name| images.dripping(name));
        let registry = images.serve().await;
        let image = |name: &str| json!({"sourceType": "grpc", "image": format!("{registry}/{name}:v1")});
        let failed = "RegistryServerError";
        let mut all: Vec<Bad> = of_images
            .into_iter()
            .map(|(name, words)| {
                let name_of_image = if name == "denied" { "denied/a" } else { name };
                Bad { name, spec: image(name_of_image), reason: failed, words }
            })
            .collect();
        let slow = ["drip-a", "drip-b", "drip-c"].map(|name| Bad {
            name,
            spec: image(name),
            reason: failed,
            words: vec![name, "sends less than 32768 bytes a second"],
        });
        all.splice(0..0, slow);
        let servers = [
            ("endless-server", servers::endless().await, vec!["tells more than", "split the catalog"]),
            ("lying-server", servers::lying().await, vec!["catalog.json", "newest", "MAJOR.MINOR.PATCH"]),
            ("large-server", servers::large().await, vec!["ListPackages"]),
            ("dripping-server", servers::dripping().await, vec!["does not answer", "within 20s"]),
            ("closing-server", servers::closing().await, vec!["does not answer", "gRPC without TLS"]),
        ];
        for (name, address, words) in servers {
            let spec = json!({"sourceType": "grpc", "address": address.to_string()});
            all.push(Bad { name, spec, reason: failed, words });
        }
        self.put_config_map("larger", large_config_map()).await;
        let map = |name: &str| json!({"sourceType": "configmap", "configMap": name});
        all.push(Bad {
            name: "larger",
            spec: map("larger"),
            reason: "ConfigMapError",
            words: vec!["16777216 bytes", "make bundles"],
        });
        all.push(Bad {
            name: "absent",
            spec: map("absent"),
            reason: "ConfigMapError",
            words: vec!["shop/absent does not exist"],
        });
        all
    }

    /// The ConfigMap is deleted; what it had is served.
    async fn vanish(&self) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "shop");
        maps.delete("vanishing", &Default::default()).await.unwrap();
        let says =
            |source: &CatalogSource| said(source).0 == "ConfigMapError" && said(source).1.contains("shop/vanishing");
        let source = self.until("the end of the ConfigMap to be said", ("shop", "vanishing"), says).await;
        assert!(is_ready(&source), "{source:?}");
    }

    /// The volume is full, and has room again.
    async fn full(&self, volume: &Volume) {
        volume.fill();
        let large = catalog("full", "1.0.0")
            .replace("\"displayName\":\"full\"", &format!("\"description\":\"{}\"", "y".repeat(4 << 20)));
        super::push(&self.cluster.registry(), "catalogs/full:v1", &[("configs/a.json", large.as_bytes())], &[]).await;
        let spec = json!({"sourceType": "grpc", "image": self.image("catalogs/full:v1")});
        let words = vec!["No space left", "make room"];
        self.says(&Bad { name: "full", spec, reason: "RegistryServerError", words }).await;
        volume.empty();
        let wait = self.cluster.until("the catalog that had no room", &[PROCESS]).within(LIMIT);
        wait.existing(self.sources("shop"), "full", is_ready).await.unwrap();
    }
}

/// Each says what is wrong, where, and what to do; the good one is ready and served all the time, by a process that never ends and
/// stays small.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn everything_that_catalogs_can_have_against_the_process_harms_no_other_one() {
    let world = World::up().await;
    let volume = Volume::mount(&world.cluster.dir().join(format!("{PROCESS}-cache")));
    let process = world.begin().await;
    let (count, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let work = async {
        let bad = world.bad().await;
        tokio::join!(join_all(bad.iter().map(|bad| world.says(bad))), world.vanish());
        if let Some(volume) = &volume {
            world.full(volume).await;
        }
        // A new one is read as ever.
        world.create("shop", "late", json!({"sourceType": "grpc", "image": world.image("catalogs/late:v1")})).await;
        world.until("another good catalog", ("shop", "late"), is_ready).await;
        stop.cancel();
    };
    tokio::join!(work, world.ask(count.clone(), stop.clone()));
    let source = world.sources("shop").get("fine").await.unwrap();
    assert!(is_ready(&source) && said(&source) == Default::default(), "{source:?}");
    assert!(process.alive(), "the process has ended");
    let (peak, resident) = (process::peak_of_a_release(process.pid), process::memory(process.pid).1);
    let (peak, resident) = (peak.unwrap() >> 10, resident.unwrap() >> 10);
    let answers = count.load(Ordering::SeqCst);
    println!("{answers} answers meanwhile; peak {peak} MiB, {resident} MiB resident at the end");
    assert!(answers > 100, "{answers}");
    assert!(peak <= MEMORY, "{peak} MiB");
    drop(volume);
    world.cluster.down().await.unwrap();
}
