//! The properties that hold for each reader, whatever the input is.

pub(super) mod bundles;
pub(super) mod catalog;
pub(super) mod grpc;
pub(super) mod ignored;
pub(super) mod lifecycle;
pub(super) mod resolution;
pub(super) mod sources;

use super::fixture::{Fixture, config};
use cvo::testing::api::Release;
use cvo::testing::api::machine_config::MachineConfigSpec;
use cvo::testing::graph::{Mode, build};
use cvo::testing::host::record::{Disk, seed};
use cvo::testing::host::root::Root;
use cvo::testing::host::undo;
use cvo::testing::merge::{self, MANAGER, Outcome};
use cvo::testing::net::layer::Gathered;
use cvo::testing::payload::metadata::ReleaseMetadata;
use cvo::testing::payload::references::ImageReferences;
use cvo::testing::payload::template::Variables;
use cvo::testing::payload::{LoadOptions, load};
use cvo::testing::payload::{Manifest, ObjectId, Origin, run_level};
use cvo::testing::payload::{PayloadFiles, SourceFile, check_inclusion};
use cvo::testing::pools::agent::{AgentFacts, Check, Plan, decide};
use cvo::testing::pools::changes::changes;
use cvo::testing::pools::disruption::{Policies, disruption};
use cvo::testing::pools::ignition::Ignition;
use cvo::testing::pools::node::Target;
use cvo::testing::pools::reconcile;
use cvo::testing::updates::graph::{parse_updates, uri_problem};
use cvo::testing::updates::promql::answer;
use cvo::testing::verify::{Config, Digest};
use cvo::testing::version;
use cvo::testing::work::retrieve;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Whether the reader accepted the input, or the property that it broke, which is a finding as a panic is.
pub(super) type Verdict = Result<bool, String>;

fn property(holds: bool, text: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text.to_owned()) }
}

/// What was read can be written as JSON and read again without a change.
pub(super) fn yaml(_: &Fixture, input: &[u8]) -> Verdict {
    let Ok(documents) = cvo::testing::payload::yaml::documents(input) else { return Ok(false) };
    for document in &documents {
        let json = serde_json::to_vec(&document.value).map_err(|e| e.to_string())?;
        let again: Value = serde_json::from_slice(&json).map_err(|e| format!("the JSON cannot be read again: {e}"))?;
        property(serde_json::to_vec(&again).ok() == Some(json), "the JSON is read differently")?;
    }
    Ok(!documents.is_empty())
}

fn unpack(input: &[u8]) -> PayloadFiles {
    let mut files = PayloadFiles { place: "packed".into(), ..PayloadFiles::default() };
    let mut open: Option<(bool, SourceFile)> = None;
    let mut close = |open: Option<(bool, SourceFile)>| match open {
        Some((true, file)) => files.own.push(file),
        Some((false, file)) => files.release.push(file),
        None => {}
    };
    for line in input.split_inclusive(|b| *b == b'\n') {
        match line.strip_prefix(b"= ") {
            Some(path) => {
                let path = String::from_utf8_lossy(path).trim().to_owned();
                let (folder, name) = path.split_once('/').unwrap_or(("", &path));
                let file = SourceFile { name: name.to_owned(), bytes: Vec::new() };
                close(open.replace((folder == "manifests", file)));
            }
            None => open.iter_mut().for_each(|(_, file)| file.bytes.extend_from_slice(line)),
        }
    }
    close(open);
    files
}

/// The order of its files does not change a release, and the graph contains every manifest once.
pub(super) fn release(fixture: &Fixture, input: &[u8]) -> Verdict {
    let files = unpack(input);
    let mut reversed = files.clone();
    reversed.own.reverse();
    reversed.release.reverse();
    let [_, strict] = &fixture.filters;
    let filter = strict.load.clone();
    let options = LoadOptions { image: "r/x@sha256:0".into(), filter, ..LoadOptions::default() };
    let unique = |list: &[SourceFile]| list.iter().map(|f| &f.name).collect::<BTreeSet<_>>().len() == list.len();
    let comparable = unique(&files.own) && unique(&files.release);
    let Ok(payload) = load(files, &options) else { return Ok(false) };
    let other = load(reversed, &options).map(|other| other.hash);
    property(
        !comparable || other.is_ok_and(|hash| hash == payload.hash),
        "the order of the files changes the release",
    )?;
    let own = ObjectId::new("apps", "Deployment", "openshift-cluster-version", "cluster-version-operator");
    for mode in [Mode::Install, Mode::Update, Mode::Reconcile] {
        let graph = build(&payload.manifests, mode, Some(&own));
        let mut seen: Vec<usize> = graph.nodes().iter().flat_map(|node| node.manifests.clone()).collect();
        seen.sort_unstable();
        property(seen.into_iter().eq(0..payload.manifests.len()), "the graph does not contain each manifest once")?;
        property(!graph.to_dot().is_empty(), "the graph cannot be drawn")?;
    }
    for manifest in payload.manifests.iter().chain(payload.excluded.iter().map(|(manifest, _)| manifest)) {
        manifest.object().map_err(|e| format!("{} cannot be decoded: {e}", manifest.id))?;
        let _decided = check_inclusion(manifest, strict);
    }
    Ok(true)
}

pub(super) fn template(_: &Fixture, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let images = BTreeMap::from([("a".to_owned(), "r/a".to_owned())]);
    let variables = Variables { release_image: "r/x", cluster_profile: "p", exclude_manifests: "", images: &images };
    let Ok(rendered) = cvo::testing::payload::template::render(&text, &variables) else { return Ok(false) };
    property(text.contains("{{") || rendered.text == text, "text without an action is changed")?;
    Ok(true)
}

/// What was read can be written and read again without a change.
pub(super) fn metadata(_: &Fixture, input: &[u8]) -> Verdict {
    let Ok(read) = ReleaseMetadata::parse(input) else { return Ok(false) };
    let (release, _) = read.release("r/x");
    property(version::parse(&release.version).is_ok(), "the version is invalid")?;
    let again = read.to_json().and_then(|json| ReleaseMetadata::parse(&json)).map_err(|e| e.to_string())?;
    property(again.release("r/x") == read.release("r/x"), "written metadata is read differently")?;
    Ok(true)
}

pub(super) fn references(_: &Fixture, input: &[u8]) -> Verdict {
    let Ok(read) = ImageReferences::parse(input) else { return Ok(false) };
    let again = read.to_json().and_then(|json| ImageReferences::parse(&json)).map_err(|e| e.to_string())?;
    property(
        again.images().len() == read.images().len() && again.name == read.name,
        "written references are read differently",
    )?;
    Ok(true)
}

/// Precedence is an order.
pub(super) fn versions(_: &Fixture, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let _judged: Vec<_> = text.lines().map(|line| (uri_problem(line), run_level(line).is_some())).collect();
    let read: Vec<_> = text.lines().filter_map(|line| version::parse(line).ok()).collect();
    for (a, b) in read.iter().zip(read.iter().rev()) {
        property(version::precedence(a, b) == version::precedence(b, a).reverse(), "two versions precede each other")?;
    }
    Ok(!read.is_empty())
}

/// Nothing is offered twice, and nothing that is offered lacks an image.
pub(super) fn update_graph(_: &Fixture, input: &[u8]) -> Verdict {
    let own = Release { version: "1.0.0".into(), image: "r/x@sha256:1".into(), ..Release::default() };
    let mut useful = false;
    for architecture in ["", "Multi"] {
        let Ok(updates) = parse_updates(input, &own, "stable", architecture) else { continue };
        useful = true;
        let offered: Vec<&str> = updates.available.iter().map(|release| release.image.as_str()).collect();
        let unique: BTreeSet<&&str> = offered.iter().collect();
        property(unique.len() == offered.len(), "a release is offered twice")?;
        property(
            architecture == "Multi" || offered.iter().all(|image| !image.is_empty()),
            "a release without an image is offered",
        )?;
    }
    Ok(useful)
}

/// An answer is only accepted with exactly one sample, and its value is 0 or 1.
pub(super) fn query_answer(_: &Fixture, input: &[u8]) -> Verdict {
    let Ok(found) = answer(input) else { return Ok(false) };
    // What is not text may stand in a member that nobody reads.
    let decoded: Value = serde_json::from_str(&String::from_utf8_lossy(input)).unwrap_or_default();
    let samples = decoded.pointer("/data/result").and_then(Value::as_array).map_or(0, Vec::len);
    property(samples == 1, "an answer without exactly one sample is accepted")?;
    let value = decoded.pointer("/data/result/0/value/1").and_then(Value::as_str).unwrap_or_default();
    let expected = if found.matches { 1.0 } else { 0.0 };
    property(value.parse() == Ok(expected), "the verdict is not the value of the sample")?;
    Ok(true)
}

/// The first line is the name of the file, the others are annotations.
pub(super) fn annotations(fixture: &Fixture, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let file = lines.next().unwrap_or_default();
    let annotations: BTreeMap<String, String> =
        lines.filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let mut part = false;
    for (group, kind) in [("", "ConfigMap"), ("apiextensions.k8s.io", "CustomResourceDefinition"), ("batch", "Job")] {
        let manifest = Manifest {
            origin: Origin::Release,
            file: file.into(),
            index_in_file: 0,
            id: ObjectId::new(group, kind, "", "x"),
            api_version: "v1".into(),
            annotations: annotations.clone(),
            raw: (&b"{}"[..]).into(),
        };
        let _said = (manifest.delete(), manifest.create_only(), manifest.run_level().is_some());
        let [open, strict] = &fixture.filters;
        let [open, strict] = [open, strict].map(|filter| check_inclusion(&manifest, filter));
        property(strict.is_err() || open.is_ok(), "a stricter filter includes more")?;
        property(open.as_ref().err().is_none_or(|why| !why.is_empty()), "a manifest is excluded without a reason")?;
        part |= open.is_ok();
    }
    Ok(part)
}

/// An object that was merged once needs no further change.
pub(super) fn merge(_: &Fixture, input: &[u8]) -> Verdict {
    let Ok(pair) = serde_json::from_slice::<Value>(input) else { return Ok(false) };
    let (Some(live), Some(want)) = (pair.get("live"), pair.get("want")) else { return Ok(false) };
    let owner = merge::owner("version", "u");
    let want = merge::prepare(want.clone(), Some(&owner), false);
    let _created = merge::initial(want.clone());
    let merged = match merge::merge(live, &want, MANAGER) {
        Err(_) => return Ok(false),
        Ok(Outcome::Same) => return Ok(true),
        Ok(Outcome::Changed { object, fields } | Outcome::Replace { object, fields }) => {
            property(!fields.is_empty(), "a change names no field")?;
            object
        }
    };
    match merge::merge(&merged, &want, MANAGER) {
        Ok(Outcome::Same) => Ok(true),
        Ok(Outcome::Changed { fields, .. } | Outcome::Replace { fields, .. }) => {
            Err(format!("merging again changes {}", fields.join(", ")))
        }
        Err(error) => Err(format!("what was merged cannot be merged again: {error}")),
    }
}

/// Whatever the archive says, only plain paths below the folders are kept, and no more than the limit.
pub(super) fn archive(_: &Fixture, input: &[u8]) -> Verdict {
    const FOLDERS: [&str; 2] = ["manifests/", "release-manifests/"];
    let mut gathered = Gathered::under(&FOLDERS);
    if gathered.read_layer(input).and_then(|()| gathered.follow_links()).is_err() {
        return Ok(false);
    }
    for path in gathered.files.keys() {
        let below = FOLDERS.iter().any(|folder| path.strip_prefix(folder).is_some_and(|rest| !rest.is_empty()));
        property(below, "a file elsewhere is kept")?;
        let plain = path.trim_end_matches('/').split('/').all(|part| !["", ".", ".."].contains(&part));
        property(plain, "a path that leads elsewhere is kept")?;
    }
    let kept: usize = gathered.files.values().map(Vec::len).sum();
    property(kept <= 48 << 20, "more than the limit is kept")?;
    Ok(!gathered.files.is_empty())
}

/// Each line is a pull spec. Its folder in the payload store and in signature stores is one folder, whatever it contains.
pub(super) fn pull_specs(_: &Fixture, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let mut useful = false;
    for line in text.lines() {
        let folder = retrieve::folder(line);
        let name = Path::new(&folder).components().collect::<Vec<_>>();
        property(matches!(name[..], [Component::Normal(name)] if name == folder.as_str()), "its folder is elsewhere")?;
        let digest = line.rsplit_once('@').and_then(|(_, digest)| Digest::parse(digest).ok());
        if let Some(digest) = &digest {
            property(!digest.store_folder().contains('/'), "its signatures are elsewhere")?;
            property(Digest::parse(&digest.to_string()).as_ref() == Ok(digest), "a digest is read differently again")?;
        }
        useful |= digest.is_some();
    }
    Ok(useful)
}

/// Only messages that were signed are accepted.
pub(super) fn signature(fixture: &Fixture, input: &[u8]) -> Verdict {
    let checked = fixture.verifier.check(&fixture.digest, input, fixture.now);
    let other = Digest::parse("sha256:ff").map_err(|e| e.to_string())?;
    let stolen = fixture.verifier.check(&other, input, fixture.now);
    property(stolen.satisfied.is_empty(), "a signature is accepted for a digest that was never signed")?;
    property(!checked.satisfied.is_empty() || !checked.refused.is_empty(), "refused without a reason")?;
    Ok(!checked.satisfied.is_empty())
}

pub(super) fn message(fixture: &Fixture, input: &[u8]) -> Verdict {
    let signed = fixture.sign(input).map_err(|e| e.to_string())?;
    let checked = fixture.verifier.check(&fixture.digest, &signed, fixture.now);
    property(!checked.satisfied.is_empty() || !checked.refused.is_empty(), "refused without a reason")?;
    let names = input.windows(fixture.digest.hex().len()).any(|part| part == fixture.digest.hex().as_bytes());
    // A character of the digest may be written as an escape.
    property(checked.satisfied.is_empty() || names || input.contains(&b'\\'), "accepted without naming the digest")?;
    Ok(!checked.satisfied.is_empty())
}

pub(super) fn keyring(_: &Fixture, input: &[u8]) -> Verdict {
    Ok(Config::from_config_map(&config(String::from_utf8_lossy(input).into_owned())).is_ok())
}

/// What was read means the same when it is read again, is no change to itself, and is itself when nothing is laid over it.
pub(super) fn ignition(_: &Fixture, input: &[u8]) -> Verdict {
    let Ok(pair) = serde_json::from_slice::<Value>(input) else { return Ok(false) };
    let part = |name: &str| pair.get(name).cloned().unwrap_or_default();
    let spec = |config: Value| MachineConfigSpec { config, ..MachineConfigSpec::default() };
    let (Ok(old), Ok(new)) = (Ignition::read(&part("old")), Ignition::read(&part("new"))) else { return Ok(false) };
    for read in [&old.ignition, &new.ignition] {
        let again = Ignition::read(read.value()).map_err(|e| format!("what was read cannot be read again: {e}"))?;
        property(again.ignition == *read, "what was read is read differently")?;
        for same in [read.merge(&Ignition::empty()), Ignition::empty().merge(read)] {
            property(same.as_ref() == Ok(read), "nothing laid over it changes it")?;
        }
        let overwriting = read.overwriting().map_err(|e| format!("its files cannot be made to be overwritten: {e}"))?;
        Ignition::read(overwriting.value()).map_err(|e| format!("overwriting files, it cannot be read: {e}"))?;
        let none = changes(&spec(read.value().clone()), &spec(read.value().clone())).map_err(|e| e.to_string())?;
        property(none.is_empty(), "it differs from itself")?;
        property(!disruption(&none, &Policies::default(), false).drains, "no change disrupts")?;
    }
    let (before, after) = (spec(part("old")), spec(part("new")));
    let found = changes(&before, &after).map_err(|e| format!("what was read cannot be compared: {e}"))?;
    let _disrupts = disruption(&found, &Policies::default(), false);
    let _refused = reconcile::check(("old", &before), ("new", &after), &[], &BTreeSet::new());
    if let Ok(merged) = old.ignition.merge(&new.ignition) {
        let again = Ignition::read(merged.value()).map_err(|e| format!("what was merged cannot be read: {e}"))?;
        property(again.ignition == merged, "what was merged is read differently")?;
    }
    Ok(true)
}

/// A root for one input, in memory where that can be.
struct NodeRoot(PathBuf);

impl NodeRoot {
    fn new() -> Result<NodeRoot, String> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let root = base.join(format!("cvo-fuzz-{}", std::process::id()));
        fs::create_dir_all(root.join("etc/machine-config-daemon/saved")).map_err(|e| e.to_string())?;
        let root = NodeRoot(root);
        // Both a link and names of files can lead to it.
        let outside = root.outside();
        fs::create_dir_all(&outside).map_err(|e| e.to_string())?;
        for name in ["file", "currentconfig", "journal.json"] {
            fs::write(outside.join(name), OUTSIDE).map_err(|e| e.to_string())?;
        }
        for link in ["etc/machine-config-daemon/saved/out", "etc/out"] {
            let _ = std::os::unix::fs::symlink(&outside, root.0.join(link));
        }
        Ok(root)
    }

    /// A folder beside the root.
    fn outside(&self) -> PathBuf {
        self.0.with_extension("outside")
    }

    /// What is beside the root is as it was.
    fn is_kept(&self) -> Result<(), String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.outside()).map_err(|e| format!("the folder beside the root: {e}"))?.flatten() {
            let content = fs::read(entry.path()).unwrap_or_default();
            property(content == OUTSIDE, "a file beside the root was changed")?;
            names.push(entry.file_name());
        }
        property(names.len() == 3, "a file beside the root was made or removed")
    }
}

const OUTSIDE: &[u8] = b"not of this node";

impl Drop for NodeRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_dir_all(self.outside());
    }
}

/// Whatever is on the disk of a node, its agent knows what to do, or which file it cannot read, and nothing outside of the
/// root is touched.
pub(super) fn node_record(_: &Fixture, input: &[u8]) -> Verdict {
    let dir = NodeRoot::new()?;
    let own = dir.0.join("etc/machine-config-daemon");
    let write = |name: &str, content: &[u8]| fs::write(own.join(name), content).map_err(|e| e.to_string());
    match serde_json::from_slice::<Value>(input) {
        Ok(Value::Object(files)) => {
            for (name, content) in &files {
                let known = ["config", "image", ".json", ".saved"].iter().any(|end| name.ends_with(end));
                if known && name.split('/').all(|part| !["", ".", ".."].contains(&part)) && name.len() < 100 {
                    let text = content.as_str().map_or_else(|| content.to_string(), ToOwned::to_owned);
                    // Into a folder that does not exist.
                    let _ = write(name, text.as_bytes());
                }
            }
        }
        _ => ["currentconfig", "journal.json", "saved/index.json"].iter().try_for_each(|name| write(name, input))?,
    }
    let root = Root::open(&dir.0).map_err(|e| e.to_string())?;
    let names_a_file = |error: &str| property(error.contains("/etc/machine-config-daemon/"), "an error names no file");
    if let Err(error) = seed(&root) {
        names_a_file(&error.to_string())?;
    }
    let read = Disk::read(&root);
    let mut useful = read.is_ok();
    match &read {
        Err(error) => names_a_file(&error.to_string())?,
        Ok(disk) => {
            let facts = AgentFacts {
                desired: Target::new("b"),
                record: disk.record.as_ref().map(|record| record.target.clone()),
                journal: disk.update.as_ref().map(|update| update.journal.clone()),
                failure: disk.failure.clone(),
                boot: "2".into(),
                plan: Plan::Change { drains: true, reboots: true },
                check: Check::Passed,
                ..AgentFacts::default()
            };
            let _action = decide(&facts, jiff::Timestamp::UNIX_EPOCH);
        }
    }
    match undo::restore(&root, "/etc/machine-config-daemon/saved") {
        Ok(()) => undo::restore(&root, "/etc/machine-config-daemon/saved")
            .map_err(|e| format!("what was restored cannot be restored again: {e}"))?,
        Err(error) => {
            property(!error.to_string().is_empty(), "an error without a cause")?;
            useful = false;
        }
    }
    dir.is_kept()?;
    Ok(useful)
}
