//! Micro benchmarks of the pure core on a real release, with allocations: `hack/bench micro`.
//!
//! No API server takes part: a live object is the one that would be created, with the metadata that a server adds, but
//! without the defaults of its kind.

use cvo::graph::{self, Mode};
use cvo::merge::{self, Outcome, Owner};
use cvo::payload::load::manifests_of;
use cvo::payload::metadata::{self, ReleaseMetadata};
use cvo::payload::references::{self, ImageReferences, Tag};
use cvo::payload::{LoadOptions, Manifest, ObjectId, Origin, Payload, PayloadFiles, SourceFile, load};
use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher, black_box};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const VERSION: &str = "5.0.0";
/// What files have in its place.
const PLACEHOLDER: &str = "0.0.1-snapshot";
/// Files of the orchestrator's own folder.
const OWN: &str = "_cluster-version-operator_";
const IMAGE: &str = "registry.invalid/release@sha256:0000000000000000000000000000000000000000000000000000000000000000";

static FILES: LazyLock<PayloadFiles> = LazyLock::new(|| files(&folder()).expect("the release can be read"));
static PAYLOAD: LazyLock<Payload> = LazyLock::new(|| load(FILES.clone(), &options()).expect("the release loads"));
static KINDS: LazyLock<BTreeMap<String, Vec<Pair>>> = LazyLock::new(|| by_kind(&PAYLOAD.manifests));

fn main() {
    if !folder().is_dir() {
        println!(
            "skipped: {} is not there; CVO_SHARED_DATA names the folder that holds payload-5.0",
            folder().display()
        );
        return;
    }
    divan::main();
}

/// Where the release's manifests are.
fn folder() -> PathBuf {
    let data = std::env::var_os("CVO_SHARED_DATA").map(PathBuf::from);
    data.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data")).join("payload-5.0")
}

fn options() -> LoadOptions {
    LoadOptions { image: IMAGE.to_owned(), ..LoadOptions::default() }
}

/// The folder as a release.
fn files(folder: &Path) -> Result<PayloadFiles, Box<dyn std::error::Error>> {
    let mut files = PayloadFiles { place: folder.display().to_string(), ..PayloadFiles::default() };
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !name.ends_with(".yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        if name.contains(OWN) {
            files.own.push(SourceFile { name, bytes: text.into() });
        } else {
            files.release.push(SourceFile { name, bytes: text.replace(PLACEHOLDER, VERSION).into() });
        }
    }
    let tag = Tag::image("cluster-version-operator", IMAGE);
    let images = ImageReferences { name: VERSION.to_owned(), created: None, tags: vec![tag] };
    for (name, bytes) in
        [(metadata::FILE, ReleaseMetadata::new(VERSION)?.to_json()?), (references::FILE, images.to_json()?)]
    {
        files.release.push(SourceFile { name: name.to_owned(), bytes: bytes.into() });
    }
    Ok(files)
}

/// An object as it is in the cluster and as the release wants it.
struct Pair {
    live: Value,
    want: Value,
    /// What another hand has left of the live one.
    drifted: Value,
}

fn by_kind(manifests: &[Arc<Manifest>]) -> BTreeMap<String, Vec<Pair>> {
    let owner = Owner { name: "version".to_owned(), uid: "0b1c".to_owned() };
    let mut kinds: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
    for manifest in manifests {
        let want = merge::prepare(manifest.object().expect("it was loaded"), Some(&owner), false);
        let mut live = merge::initial(want.clone());
        live["metadata"]["uid"] = json!("5a9f");
        live["metadata"]["resourceVersion"] = json!("7");
        live["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut drifted = live.clone();
        drifted["metadata"]["annotations"] = json!({"example.com/added": "by another hand"});
        kinds.entry(manifest.id.kind.clone()).or_default().push(Pair { live, want, drifted });
    }
    kinds
}

/// YAML to manifests, all files.
#[divan::bench]
fn parse(bencher: Bencher) {
    let bytes: usize = FILES.release.iter().map(|file| file.bytes.len()).sum();
    bencher.counter(BytesCount::new(bytes)).bench(|| {
        let files = FILES.release.iter().filter(|file| file.name.ends_with(".yaml"));
        let parsed =
            files.map(|file| manifests_of(Origin::Release, &file.name, &file.bytes).expect("it is valid").len());
        parsed.sum::<usize>()
    });
}

/// Files in memory to a payload: parsed, filtered, hashed.
#[divan::bench]
fn load_payload(bencher: Bencher) {
    bencher.with_inputs(|| FILES.clone()).bench_values(|files| load(files, &options()).expect("the release loads"));
}

#[divan::bench(args = ["install", "update", "reconcile"])]
fn build_graph(bencher: Bencher, mode: &str) {
    let mode = match mode {
        "install" => Mode::Install,
        "update" => Mode::Update,
        _ => Mode::Reconcile,
    };
    let own = ObjectId::new("apps", "Deployment", "openshift-cluster-version", "cluster-version-operator");
    bencher
        .counter(ItemsCount::new(PAYLOAD.manifests.len()))
        .bench(|| graph::build(black_box(&PAYLOAD.manifests), mode, Some(&own)));
}

fn kinds() -> Vec<&'static String> {
    if folder().is_dir() { KINDS.keys().collect() } else { Vec::new() }
}

/// All objects of a kind that are as the release wants them.
#[divan::bench(args = kinds())]
fn merge_same(bencher: Bencher, kind: &String) {
    let pairs = KINDS.get(kind).expect("a kind of the release");
    bencher.counter(ItemsCount::new(pairs.len())).bench(|| {
        for pair in pairs {
            assert!(matches!(merge::merge(&pair.live, &pair.want), Ok(Outcome::Same)));
        }
    });
}

/// All objects of a kind after another hand replaced their annotations.
#[divan::bench(args = kinds())]
fn merge_changed(bencher: Bencher, kind: &String) {
    let pairs = KINDS.get(kind).expect("a kind of the release");
    bencher.counter(ItemsCount::new(pairs.len())).bench(|| {
        for pair in pairs {
            assert!(matches!(merge::merge(&pair.drifted, &pair.want), Ok(Outcome::Changed { .. })));
        }
    });
}
