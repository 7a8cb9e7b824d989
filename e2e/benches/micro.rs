//! Micro benchmarks of the pure core on a real release, with allocations: `hack/bench micro`.
//!
//! No API server is involved: a live object is the one that would be created, with the metadata that a server adds, but
//! without the defaults of its kind.

use cvo::testing::graph::{self, Mode};
use cvo::testing::merge::{self, MANAGER, Outcome};
use cvo::testing::payload::manifests_of;
use cvo::testing::payload::metadata::{self, ReleaseMetadata};
use cvo::testing::payload::references::{self, ImageReferences, Tag};
use cvo::testing::payload::{Filter, LoadOptions, Manifest, ObjectId, Origin, Payload, PayloadFiles, SourceFile, load};
use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher, black_box};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const VERSION: &str = "5.0.0";
/// What files contain instead of it.
const PLACEHOLDER: &str = "0.0.1-snapshot";
/// Part of the names of the files in the daemon's own folder.
const OWN: &str = "_cluster-version-operator_";
const IMAGE: &str = "registry.invalid/release@sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// The input of the benchmarks.
struct Release {
    files: PayloadFiles,
    payload: Payload,
    kinds: BTreeMap<String, Vec<Pair>>,
}

/// An object in the cluster and its desired state.
struct Pair {
    live: Value,
    desired: Value,
    /// The live object after another client replaced its annotations.
    drifted: Value,
}

/// Read once. `main` returns the error, and no benchmark runs.
static RELEASE: LazyLock<anyhow::Result<Release>> = LazyLock::new(|| Release::read(&folder()));

fn main() -> anyhow::Result<()> {
    if !folder().is_dir() {
        anyhow::bail!("{} is missing: set CVO_SHARED_DATA to the folder that contains payload-5.0", folder().display());
    }
    if let Err(error) = &*RELEASE {
        anyhow::bail!("{error:#}");
    }
    divan::main();
    Ok(())
}

/// The folder of the release's manifests.
fn folder() -> PathBuf {
    e2e::workspace::shared_data().join("payload-5.0")
}

/// Options of a cluster without feature gates.
fn options() -> LoadOptions {
    let filter = Filter { feature_set: Some(String::new()), feature_gates: Some(BTreeSet::new()), ..Filter::default() };
    LoadOptions { image: IMAGE.to_owned(), filter, ..LoadOptions::default() }
}

impl Release {
    fn read(folder: &Path) -> anyhow::Result<Release> {
        let files = files(folder)?;
        let payload = load(files.clone(), &options())?;
        let kinds = by_kind(&payload.manifests)?;
        Ok(Release { files, payload, kinds })
    }
}

/// Reads the folder as a release.
fn files(folder: &Path) -> anyhow::Result<PayloadFiles> {
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
    let about = ReleaseMetadata::new(VERSION)?.to_json()?;
    for (name, bytes) in [(metadata::FILE, about), (references::FILE, images.to_json()?)] {
        files.release.push(SourceFile { name: name.to_owned(), bytes });
    }
    Ok(files)
}

fn by_kind(manifests: &[Arc<Manifest>]) -> anyhow::Result<BTreeMap<String, Vec<Pair>>> {
    let owner = merge::owner("version", "0b1c");
    let mut kinds: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
    for manifest in manifests {
        let desired = merge::prepare(manifest.object()?, Some(&owner), false);
        let mut live = merge::initial(desired.clone());
        set(&mut live, "uid", json!("5a9f"));
        set(&mut live, "resourceVersion", json!("7"));
        set(&mut live, "creationTimestamp", json!("2026-01-01T00:00:00Z"));
        let mut drifted = live.clone();
        set(&mut drifted, "annotations", json!({"example.com/added": "by another client"}));
        let same = merge::merge(&live, &desired, MANAGER)? == Outcome::Same;
        let changed = matches!(merge::merge(&drifted, &desired, MANAGER)?, Outcome::Changed { .. });
        anyhow::ensure!(same && changed, "{}: merging does not do what is to be measured", manifest.id);
        kinds.entry(manifest.id.kind.clone()).or_default().push(Pair { live, desired, drifted });
    }
    Ok(kinds)
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.insert(key.to_owned(), value);
    }
}

/// YAML to manifests, all files.
#[divan::bench]
fn parse(bencher: Bencher) {
    let Ok(release) = &*RELEASE else { return };
    let files: Vec<_> = release.files.release.iter().filter(|file| file.name.ends_with(".yaml")).collect();
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    bencher.counter(BytesCount::new(bytes)).bench(|| {
        let parsed = files.iter().map(|file| manifests_of(Origin::Release, &file.name, &file.bytes));
        parsed.collect::<Vec<_>>()
    });
}

/// Files in memory to a payload: parsing, filtering, hashing.
#[divan::bench]
fn load_payload(bencher: Bencher) {
    let Ok(release) = &*RELEASE else { return };
    bencher.with_inputs(|| release.files.clone()).bench_values(|files| load(files, &options()));
}

#[divan::bench(args = ["install", "update", "reconcile"])]
fn build_graph(bencher: Bencher, mode: &str) {
    let Ok(release) = &*RELEASE else { return };
    let mode = match mode {
        "install" => Mode::Install,
        "update" => Mode::Update,
        _ => Mode::Reconcile,
    };
    let own = ObjectId::new("apps", "Deployment", "openshift-cluster-version", "cluster-version-operator");
    let manifests = &release.payload.manifests;
    bencher.counter(ItemsCount::new(manifests.len())).bench(|| graph::build(black_box(manifests), mode, Some(&own)));
}

fn kinds() -> Vec<&'static String> {
    RELEASE.iter().flat_map(|release| release.kinds.keys()).collect()
}

fn pairs(kind: &String) -> &'static [Pair] {
    let found = RELEASE.as_ref().ok().and_then(|release| release.kinds.get(kind));
    found.map_or(&[], Vec::as_slice)
}

/// All objects of a kind that are as desired.
#[divan::bench(args = kinds())]
fn merge_same(bencher: Bencher, kind: &String) {
    let pairs = pairs(kind);
    let merge =
        || pairs.iter().map(|pair| merge::merge(&pair.live, &pair.desired, MANAGER)).filter(Result::is_ok).count();
    bencher.counter(ItemsCount::new(pairs.len())).bench(merge);
}

/// All objects of a kind after another client replaced their annotations.
#[divan::bench(args = kinds())]
fn merge_changed(bencher: Bencher, kind: &String) {
    let pairs = pairs(kind);
    let merge =
        || pairs.iter().map(|pair| merge::merge(&pair.drifted, &pair.desired, MANAGER)).filter(Result::is_ok).count();
    bencher.counter(ItemsCount::new(pairs.len())).bench(merge);
}
