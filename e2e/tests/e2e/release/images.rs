//! Release images as `oc` reads them: which layer has what, and what image and payload say about themselves.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use e2e::administrator::{self, Administrator, oc};
use e2e::harness::{Cluster, Options, Programs};
use e2e::objects::create;
use e2e::platform::{Platform, Release};
use e2e::simulator::sample::config_kind;

/// For the install on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);
/// Where the payload is in the image: names in the archive begin so, without anything before.
const FOLDER: &str = "release-manifests/";

/// The registry of a cluster, without authentication.
struct Registry<'a> {
    client: reqwest::Client,
    url: String,
    release: &'a Release,
}

impl Registry<'_> {
    async fn get(&self, path: &str) -> Vec<u8> {
        let url = format!("{}/{path}", self.url);
        let types =
            ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
        let request = self.client.get(url).header("Accept", types.join(", "));
        request.send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap().to_vec()
    }

    async fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path).await).unwrap()
    }

    /// The image's manifest.
    async fn manifest(&self) -> Value {
        self.json(&format!("manifests/{}", self.release.digest())).await
    }

    /// The files of a layer by their names in the archive.
    async fn files(&self, layer: &Value) -> BTreeMap<String, Vec<u8>> {
        let bytes = self.get(&format!("blobs/{}", text(&layer["digest"]))).await;
        let plain = !text(&layer["mediaType"]).ends_with("gzip");
        let reader: Box<dyn Read> = match plain {
            true => Box::new(bytes.as_slice()),
            false => Box::new(flate2::read::GzDecoder::new(bytes.as_slice())),
        };
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(reader).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = String::from_utf8(entry.path_bytes().to_vec()).unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if entry.header().entry_type().is_file() {
                files.insert(path, content);
            }
        }
        files
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Only the last layer is read for what a release consists of.
#[tokio::test(flavor = "multi_thread")]
async fn oc_finds_the_payload_in_a_release_image() {
    let programs = Programs::find().unwrap();
    let cluster = Cluster::up(Options { registry: true, ..Options::default() }).await.unwrap();
    let platform = Platform::prepare(cluster, programs).await.unwrap();
    let [_, release, _] = platform.samples().await.unwrap();
    let (name, _) = release.image.split_once('@').unwrap();
    let (host, repository) = name.split_once('/').unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let registry = Registry { client, url: format!("http://{host}/v2/{repository}"), release: &release };

    let manifest = registry.manifest().await;
    let config = registry.json(&format!("blobs/{}", text(&manifest["config"]["digest"]))).await;
    assert_eq!(config["config"]["Labels"]["io.openshift.release"], json!(release.version), "{config}");
    let base = text(&config["config"]["Labels"]["io.openshift.release.base-image-digest"]);
    assert!(base.starts_with("sha256:"), "label io.openshift.release.base-image-digest is {base:?}");
    for field in ["created", "os", "architecture"] {
        assert_ne!(text(&config[field]), "", "{field} of the image");
    }
    let layers = manifest["layers"].as_array().unwrap();
    let files = registry.files(layers.last().unwrap()).await;
    let file = |name: &str| -> Value { serde_json::from_slice(&files[&format!("{FOLDER}{name}")]).unwrap() };
    let references = file("image-references");
    assert_eq!((text(&references["apiVersion"]), text(&references["kind"])), ("image.openshift.io/v1", "ImageStream"));
    assert_eq!(references["metadata"]["name"], json!(release.version), "metadata.name of image-references");
    let tags = references["spec"]["tags"].as_array().unwrap();
    let names: Vec<&str> = tags.iter().map(|tag| text(&tag["name"])).collect();
    assert!(names.is_sorted() && names.contains(&"cluster-version-operator"), "tags of image-references: {names:?}");
    for tag in tags {
        let is_image = tag["from"]["kind"] == "DockerImage" && text(&tag["from"]["name"]).contains("@sha256:");
        assert!(is_image, "tag of image-references: {tag}");
    }
    let metadata = file("release-metadata");
    let expected = json!({"kind": "cincinnati-metadata-v0", "version": "1.0.1", "previous": ["1.0.0"]});
    for field in ["kind", "version", "previous"] {
        assert_eq!(metadata[field], expected[field], "{field} of release-metadata");
    }
    assert!(files.keys().all(|name| name.starts_with(FOLDER)), "{:?}", files.keys());
    assert!(files.len() > 10, "{:?}", files.keys());
    platform.close().await.unwrap();
}

/// On a cluster with a node, as an image is asked for by what runs.
#[tokio::test(flavor = "multi_thread")]
async fn oc_itself_reads_releases() {
    let Some(program) = administrator::program() else { return };
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, second, _] = platform.samples().await.unwrap();
    platform.install(&first).await.unwrap();
    platform.until_completed(&first, LIMIT).await.unwrap();
    let who = Administrator::oc(program, &platform.cluster);

    let name = ["Name: 1.0.0", first.digest(), "cluster-version-operator", "lab"];
    let about = ["OS/Arch: linux/amd64", "Manifests:", "Upgrades: <none>"];
    let said = [name.as_slice(), &about].concat();
    who.run(oc("adm release info --insecure").says(&said)).await;
    who.run(oc("adm release info --insecure 1.0.0").says(&name)).await;
    let line = format!("adm release info --insecure {}", second.image);
    who.run(oc(&line).says(&["Name: 1.0.1", "Upgrades: 1.0.0"])).await;
    who.run(oc(&format!("{line} -o name")).says(&["cluster-version-operator", "lab"])).await;
    who.run(oc(&format!("{line} --pullspecs")).says(&["lab", "@sha256:"])).await;
    who.run(oc(&format!("{line} --image-for lab")).says(&["@sha256:"])).await;
    who.run(oc(&format!("{line} --changes-from {}", first.image)).says(&["1.0.1", "1.0.0"])).await;
    who.run(oc(&format!("{line} --size")).says(&["lab"])).await;
    who.run(oc(&format!("{line} --verify"))).await;

    who.run(oc(&format!("{line} -o json")).says(&["\"references\"", "\"cincinnati-metadata-v0\""])).await;
    who.run(oc(&format!("{line} --contents")).says(&["network-settings"])).await;

    let folder = platform.cluster.dir().join("extracted-by-oc");
    let to = folder.display();
    who.run(oc(&format!("adm release extract --insecure --from {} --to {to}", second.image)).omits(&["Errors"])).await;
    let ours = platform.cluster.dir().join("extracted-by-cvo");
    let extract = ["release", "extract", &second.image, "--to"].map(Into::into);
    platform.cvo(extract.into_iter().chain([ours.clone().into_os_string()])).await.unwrap();
    assert_eq!(names(&folder), names(&ours.join("release-manifests")), "files that were extracted");
    let running = platform.cluster.dir().join("extracted-of-cluster");
    who.run(oc(&format!("adm release extract --insecure --to {}", running.display()))).await;
    assert!(names(&running).len() > 10, "{:?}", names(&running));
    let file = "0000_20_network_10_settings.yaml";
    who.run(oc(&format!("adm release extract --insecure --file {file} --from {}", second.image)).says(&["settings"]))
        .await;
    what_is_included(&platform, &who, &names(&running)).await;
    platform.close().await.unwrap();
}

/// What the daemon applies: `oc` works that out of its Deployment, the ClusterVersion and the cluster's configuration.
async fn what_is_included(platform: &Platform, who: &Administrator, all: &[String]) {
    let client = platform.cluster.client().await.unwrap();
    let gates = json!([{"version": "1.0.0", "enabled": [], "disabled": []}]);
    for (kind, plural, status) in [
        ("FeatureGate", "featuregates", json!({"featureGates": gates})),
        ("Infrastructure", "infrastructures", json!({"platformStatus": {"type": "AWS"}})),
    ] {
        create(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &config_kind(kind, plural)).await;
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"},
            "spec": {}, "status": status});
        create(&client, &format!("/apis/config.openshift.io/v1/{plural}"), &object).await;
    }
    let folder = platform.cluster.dir().join("extracted-of-included");
    who.run(oc(&format!("adm release extract --insecure --included --to {}", folder.display()))).await;
    let included = names(&folder);
    let manifests = |names: &[String]| names.iter().filter(|name| name.starts_with("0000_")).count();
    assert_eq!(manifests(&included), manifests(all), "everything in the samples is for every cluster: {included:?}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
