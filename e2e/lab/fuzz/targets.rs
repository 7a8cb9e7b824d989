//! What reads input from outside, and the laws that hold whatever comes in. A law that is broken is a finding, as a panic is.

use super::corpus::{Corpus, message};
use super::mutate::{self, Dice};
use anyhow::Context;
use cvo::api::{ComponentOverride, Release};
use cvo::graph::{Mode, build};
use cvo::merge::{self, Outcome, Owner};
use cvo::payload::load::{self, LoadOptions};
use cvo::payload::manifest::{Manifest, ObjectId, Origin, run_level};
use cvo::payload::metadata::ReleaseMetadata;
use cvo::payload::references::ImageReferences;
use cvo::payload::template::{self, Variables};
use cvo::payload::{ApplyFilter, Capabilities, Filter, PayloadFiles, SourceFile, takes_part, yaml};
use cvo::updates::graph::{advise, uri_problem};
use cvo::verify::{Config, Digest, Verifier};
use cvo::version;
use jiff::Timestamp;
use sequoia_openpgp::cert::{Cert, CertBuilder};
use sequoia_openpgp::parse::Parse;
use sequoia_openpgp::policy::StandardPolicy;
use sequoia_openpgp::serialize::SerializeInto;
use sequoia_openpgp::serialize::stream::{LiteralWriter, Message, Signer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Whether the input was of use to the reader, or the law that it broke.
pub type Verdict = Result<bool, String>;

/// One reader.
pub struct Target {
    pub name: &'static str,
    /// Inputs of a hundred.
    pub weight: usize,
    seeds: fn(&Stage) -> &[Vec<u8>],
    tokens: &'static [&'static str],
    pub run: fn(&Stage, &[u8]) -> Verdict,
}

const YAML: &[&str] = &[
    "&a ",
    "*a",
    "<<: ",
    "---\n",
    "...\n",
    "!!binary ",
    "!!int ",
    "!!null ",
    "? ",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "\\x",
    "\\u",
    "%TAG ",
    "~",
    "yes",
    "0o7",
    ".inf",
    "null",
    "# ",
    ",",
    "  ",
    "&a [*a]",
    "x: &a {y: *a}\n",
];
const JSON: &[&str] =
    &["{", "}", "[", "]", "null", "true", ",", ":", "\"", "\\u0000", "\\ud800", "{}", "[[", "\"version\":", "1e9"];
const RELEASE: &[&str] = &[
    "\n= manifests/a.yaml\n",
    "\n= release-manifests/0000_10_a_b.json\n",
    "0000_",
    "_",
    "{{.ReleaseImage}}",
    "{{",
    "}}",
    "---\n",
    "kind: Job\napiVersion: batch/v1\n",
    "metadata: {name: x}\n",
    "&a ",
    "*a",
    "1.0.0",
    "release-metadata",
    "annotations:\n",
];
const TEMPLATE: &[&str] = &[
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "/*",
    "*/",
    "\"",
    "`",
    "'",
    "\\",
    "index .Images ",
    ".ReleaseImage",
    ".ClusterProfile",
    "|",
    "\\x",
    "\\777",
];
const ANNOTATION: &[&str] = &[
    "include.release.openshift.io/self-managed-high-availability=true\n",
    "exclude.release.openshift.io/id=true\n",
    "release.openshift.io/feature-set=",
    "release.openshift.io/feature-gate=",
    "release.openshift.io/major-version=",
    "capability.openshift.io/name=",
    "release.openshift.io/delete=",
    "release.openshift.io/create-only=",
    "Default",
    "OKD",
    ",",
    "-",
    "+",
    "Console",
    "4",
    " ",
    "0000_10_a_b.yaml\n",
    "=",
];
const VERSION: &[&str] = &["1.0.0", "-", "+", ".", "rc.1", "v", "0", "https://", "%", "#", "?"];
const PACKET: &[&str] = &["\u{0}", "\u{2}\u{ff}", "-----BEGIN PGP", "\u{7f}"];

/// All of them; weights add up to 100.
pub const TARGETS: [Target; 12] = [
    Target { name: "yaml", weight: 38, seeds: |s| &s.corpus.manifests, tokens: YAML, run: read_yaml },
    Target { name: "release", weight: 12, seeds: |s| &s.corpus.releases, tokens: RELEASE, run: load_release },
    Target { name: "template", weight: 8, seeds: |s| &s.corpus.manifests, tokens: TEMPLATE, run: render },
    Target { name: "metadata", weight: 4, seeds: |s| &s.corpus.metadata, tokens: JSON, run: metadata },
    Target { name: "references", weight: 4, seeds: |s| &s.corpus.references, tokens: JSON, run: references },
    Target { name: "version", weight: 4, seeds: |s| &s.versions, tokens: VERSION, run: versions },
    Target { name: "update graph", weight: 8, seeds: |s| &s.corpus.graphs, tokens: JSON, run: update_graph },
    Target { name: "annotations", weight: 6, seeds: |s| &s.annotations, tokens: ANNOTATION, run: annotations },
    Target { name: "merge", weight: 10, seeds: |s| &s.pairs, tokens: JSON, run: merge_objects },
    Target { name: "signature", weight: 3, seeds: |s| &s.signatures, tokens: PACKET, run: signature },
    Target { name: "message", weight: 2, seeds: |s| &s.messages, tokens: JSON, run: signed_message },
    Target { name: "keyring", weight: 1, seeds: |s| &s.keys, tokens: PACKET, run: keyring },
];

/// What the readers work with: seeds, a key that signs, a filter.
pub struct Stage {
    corpus: Corpus,
    versions: Vec<Vec<u8>>,
    annotations: Vec<Vec<u8>>,
    /// A live object and a manifest.
    pairs: Vec<Vec<u8>>,
    signatures: Vec<Vec<u8>>,
    messages: Vec<Vec<u8>>,
    keys: Vec<Vec<u8>>,
    cert: Cert,
    verifier: Verifier,
    digest: Digest,
    now: Timestamp,
    filters: [ApplyFilter; 2],
}

impl Stage {
    /// `keep` is where the key and what it signed lie: signing rolls dice of its own, and an input must come again.
    pub fn set(keep: &Path) -> anyhow::Result<Stage> {
        let corpus = Corpus::read()?;
        let now: Timestamp = "2026-03-01T00:00:00Z".parse()?;
        let digest = Digest::parse("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")?;
        let cert = Cert::from_bytes(&kept(&keep.join("fuzz-key"), || {
            let created = SystemTime::from(now - Duration::from_secs(86400));
            let (cert, _) =
                CertBuilder::general_purpose(Some("a@example.com")).set_creation_time(created).generate()?;
            cert.as_tsk().to_vec()
        })?)?;
        let key = cert.armored().to_vec()?;
        let messages = vec![message(&digest.to_string()), message("sha256:00")];
        let text = |list: &[&str]| list.iter().map(|text| text.as_bytes().to_vec()).collect();
        let filters = [
            ApplyFilter::default(),
            ApplyFilter {
                load: Filter {
                    exclude_identifier: Some("id".into()),
                    feature_set: Some(String::new()),
                    feature_gates: Some(BTreeSet::from(["A".to_owned()])),
                    major: Some(4),
                    ..Filter::default()
                },
                capabilities: Some(Capabilities::all()),
                overrides: vec![ComponentOverride {
                    kind: "Job".into(),
                    unmanaged: true,
                    ..ComponentOverride::default()
                }],
            },
        ];
        let mut stage = Stage {
            versions: text(&["1.0.0\n4.1.0-rc.1+b\nhttps://a/%41", "0.0.1-snapshot\n1.2.3-0.a.b-c\n#"]),
            annotations: text(&[ANNOTATIONS]),
            pairs: pairs(&corpus.objects)?,
            signatures: Vec::new(),
            keys: vec![key.clone()],
            verifier: verifier(&key)?,
            corpus,
            messages,
            cert,
            digest,
            now,
            filters,
        };
        for (number, content) in stage.messages.iter().enumerate() {
            let signature = kept(&keep.join(format!("fuzz-signature-{number}")), || stage.sign(content))?;
            stage.signatures.push(signature);
        }
        Ok(stage)
    }

    /// The input with this number for a target.
    pub fn input(&self, target: &Target, dice: &mut Dice) -> Vec<u8> {
        let seeds = (target.seeds)(self);
        // Bytes alone seldom stay JSON; half of it is changed as the tree that it is.
        if std::ptr::eq(target.tokens, JSON) && dice.below(2) == 0 {
            let seed = dice.one_of(seeds).map(Vec::as_slice).unwrap_or_default();
            if let Ok(mut tree) = serde_json::from_slice(seed) {
                mutate::value(dice, &mut tree, &self.corpus.objects);
                return tree.to_string().into_bytes();
            }
        }
        mutate::bytes(dice, seeds, target.tokens)
    }

    fn sign(&self, content: &[u8]) -> anyhow::Result<Vec<u8>> {
        let policy = StandardPolicy::new();
        let at = SystemTime::from(self.now - Duration::from_secs(3600));
        let key = self.cert.keys().with_policy(&policy, at).secret().for_signing().next();
        let pair = key.context("the key does not sign")?.key().clone().into_keypair()?;
        let mut bytes = Vec::new();
        let signer = Signer::new(Message::new(&mut bytes), pair)?.creation_time(at).build()?;
        let mut literal = LiteralWriter::new(signer).build()?;
        literal.write_all(content)?;
        literal.finalize()?;
        Ok(bytes)
    }
}

/// The content of a file, which is made if it is not there.
fn kept(file: &Path, make: impl FnOnce() -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Vec<u8>> {
    if let Ok(bytes) = fs::read(file) {
        return Ok(bytes);
    }
    let bytes = make()?;
    fs::write(file, &bytes).with_context(|| file.display().to_string())?;
    Ok(bytes)
}

fn verifier(key: &[u8]) -> anyhow::Result<Verifier> {
    let text = String::from_utf8_lossy(key).into_owned();
    Ok(Verifier::new(Config::from_config_map(&config(text))?))
}

fn config(key: String) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("verifier-public-key-a".to_owned(), key),
        ("store-a".to_owned(), "https://example.com".to_owned()),
    ])
}

/// Each object with the next one of its kind, so that fields of one meet those of the other.
fn pairs(objects: &[Value]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut last: BTreeMap<String, &Value> = BTreeMap::new();
    let mut pairs = Vec::new();
    for object in objects {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut live = (*last.get(&kind).unwrap_or(&object)).clone();
        for field in ["name", "namespace"] {
            if let (Some(metadata), Some(value)) =
                (live.get_mut("metadata"), object.pointer(&format!("/metadata/{field}")))
            {
                metadata.as_object_mut().context("metadata is no object")?.insert(field.into(), value.clone());
            }
        }
        pairs.push(serde_json::to_vec(&json!({"live": live, "want": object}))?);
        last.insert(kind, object);
    }
    Ok(pairs)
}

const ANNOTATIONS: &str = "0000_10_a_b.yaml\ninclude.release.openshift.io/self-managed-high-availability=true\n\
release.openshift.io/feature-set=Default,OKD\nrelease.openshift.io/feature-gate=A,-B\nrelease.openshift.io/major-version=4,-5\n\
capability.openshift.io/name=Console+Storage\nrelease.openshift.io/delete=true\n";

fn law(holds: bool, text: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text.to_owned()) }
}

/// What was read can be written as JSON and read again, and is the same.
fn read_yaml(_: &Stage, input: &[u8]) -> Verdict {
    let Ok(documents) = yaml::documents(input) else { return Ok(false) };
    for document in &documents {
        let json = serde_json::to_vec(&document.value).map_err(|e| e.to_string())?;
        let again: Value = serde_json::from_slice(&json).map_err(|e| format!("the JSON cannot be read again: {e}"))?;
        law(serde_json::to_vec(&again).ok() == Some(json), "the JSON reads as something else")?;
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

/// A release loads the same whatever the order of its files, and every manifest of it stands in the graph once.
fn load_release(stage: &Stage, input: &[u8]) -> Verdict {
    let files = unpack(input);
    let mut reversed = files.clone();
    reversed.own.reverse();
    reversed.release.reverse();
    let [_, strict] = &stage.filters;
    let filter = strict.load.clone();
    let options = LoadOptions { image: "r/x@sha256:0".into(), filter, ..LoadOptions::default() };
    let unique = |list: &[SourceFile]| list.iter().map(|f| &f.name).collect::<BTreeSet<_>>().len() == list.len();
    let comparable = unique(&files.own) && unique(&files.release);
    let Ok(payload) = load::load(files, &options) else { return Ok(false) };
    let other = load::load(reversed, &options).map(|other| other.hash);
    law(!comparable || other.is_ok_and(|hash| hash == payload.hash), "in another order the files are another release")?;
    let own = ObjectId::new("apps", "Deployment", "openshift-cluster-version", "cluster-version-operator");
    for mode in [Mode::Install, Mode::Update, Mode::Reconcile] {
        let graph = build(&payload.manifests, mode, Some(&own));
        let mut seen: Vec<usize> = graph.nodes().iter().flat_map(|node| node.manifests.clone()).collect();
        seen.sort_unstable();
        law(seen.into_iter().eq(0..payload.manifests.len()), "the graph does not hold each manifest once")?;
        law(!graph.to_dot().is_empty(), "the graph cannot be drawn")?;
    }
    for manifest in payload.manifests.iter().chain(payload.excluded.iter().map(|(manifest, _)| manifest)) {
        manifest.object().map_err(|e| format!("{} cannot be decoded: {e}", manifest.id))?;
        let _decided = takes_part(manifest, strict);
    }
    Ok(true)
}

fn render(_: &Stage, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let images = BTreeMap::from([("a".to_owned(), "r/a".to_owned())]);
    let variables = Variables { release_image: "r/x", cluster_profile: "p", images: &images };
    let Ok(rendered) = template::render(&text, &variables) else { return Ok(false) };
    law(text.contains("{{") || rendered.text == text, "text without an action is changed")?;
    Ok(true)
}

/// What was understood can be written and understood again.
fn metadata(_: &Stage, input: &[u8]) -> Verdict {
    let Ok(read) = ReleaseMetadata::parse(input) else { return Ok(false) };
    let (release, _) = read.release("r/x");
    law(version::parse(&release.version).is_ok(), "the version is none")?;
    let again = read.to_json().and_then(|json| ReleaseMetadata::parse(&json)).map_err(|e| e.to_string())?;
    law(again.release("r/x") == read.release("r/x"), "written metadata reads as something else")?;
    Ok(true)
}

fn references(_: &Stage, input: &[u8]) -> Verdict {
    let Ok(read) = ImageReferences::parse(input) else { return Ok(false) };
    let again = read.to_json().and_then(|json| ImageReferences::parse(&json)).map_err(|e| e.to_string())?;
    law(again.images().len() == read.images().len() && again.name == read.name, "written references read as others")?;
    Ok(true)
}

/// The order of versions is one.
fn versions(_: &Stage, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let _judged: Vec<_> = text.lines().map(|line| (uri_problem(line), run_level(line).is_some())).collect();
    let read: Vec<_> = text.lines().filter_map(|line| version::parse(line).ok()).collect();
    for (a, b) in read.iter().zip(read.iter().rev()) {
        law(version::precedence(a, b) == version::precedence(b, a).reverse(), "two versions precede each other")?;
    }
    Ok(!read.is_empty())
}

/// Nothing is offered twice, and nothing that is offered lacks an image.
fn update_graph(_: &Stage, input: &[u8]) -> Verdict {
    let own = Release { version: "1.0.0".into(), image: "r/x@sha256:1".into(), ..Release::default() };
    let mut useful = false;
    for architecture in ["", "Multi"] {
        let Ok(advice) = advise(input, &own, "stable", architecture) else { continue };
        useful = true;
        let offered: Vec<&str> = advice.available.iter().map(|release| release.image.as_str()).collect();
        let unique: BTreeSet<&&str> = offered.iter().collect();
        law(unique.len() == offered.len(), "a release is offered twice")?;
        law(
            architecture == "Multi" || offered.iter().all(|image| !image.is_empty()),
            "a release without an image is offered",
        )?;
    }
    Ok(useful)
}

/// The first line is the name of the file, the others are annotations.
fn annotations(stage: &Stage, input: &[u8]) -> Verdict {
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
            raw: std::sync::Arc::from(&b"{}"[..]),
        };
        let _said = (manifest.delete(), manifest.create_only(), manifest.run_level().is_some());
        let [open, strict] = &stage.filters;
        let [open, strict] = [open, strict].map(|filter| takes_part(&manifest, filter));
        law(strict.is_err() || open.is_ok(), "more filters let more through")?;
        law(open.as_ref().err().is_none_or(|why| !why.is_empty()), "somebody is left out without a reason")?;
        part |= open.is_ok();
    }
    Ok(part)
}

/// What was merged once is as wanted.
fn merge_objects(_: &Stage, input: &[u8]) -> Verdict {
    let Ok(pair) = serde_json::from_slice::<Value>(input) else { return Ok(false) };
    let (Some(live), Some(want)) = (pair.get("live"), pair.get("want")) else { return Ok(false) };
    let owner = Owner { name: "version".into(), uid: "u".into() };
    let want = merge::prepare(want.clone(), Some(&owner), false);
    let _created = merge::initial(want.clone());
    let merged = match merge::merge(live, &want) {
        Err(_) => return Ok(false),
        Ok(Outcome::Same) => return Ok(true),
        Ok(Outcome::Changed { object, fields } | Outcome::Replace { object, fields }) => {
            law(!fields.is_empty(), "a change names no field")?;
            object
        }
    };
    match merge::merge(&merged, &want) {
        Ok(Outcome::Same) => Ok(true),
        Ok(Outcome::Changed { fields, .. } | Outcome::Replace { fields, .. }) => {
            Err(format!("merging again changes {}", fields.join(", ")))
        }
        Err(error) => Err(format!("what was merged cannot be merged again: {error}")),
    }
}

/// Only the messages that were signed pass.
fn signature(stage: &Stage, input: &[u8]) -> Verdict {
    let checked = stage.verifier.check(&stage.digest, input, stage.now);
    let other = Digest::parse("sha256:ff").map_err(|e| e.to_string())?;
    let stolen = stage.verifier.check(&other, input, stage.now);
    law(stolen.satisfied.is_empty(), "a signature passes for a digest that was never signed")?;
    law(!checked.satisfied.is_empty() || !checked.refused.is_empty(), "refused without a reason")?;
    Ok(!checked.satisfied.is_empty())
}

fn signed_message(stage: &Stage, input: &[u8]) -> Verdict {
    let signed = stage.sign(input).map_err(|e| e.to_string())?;
    let checked = stage.verifier.check(&stage.digest, &signed, stage.now);
    law(!checked.satisfied.is_empty() || !checked.refused.is_empty(), "refused without a reason")?;
    let names = input.windows(stage.digest.hex().len()).any(|part| part == stage.digest.hex().as_bytes());
    // An escape may spell a letter of the digest.
    law(checked.satisfied.is_empty() || names || input.contains(&b'\\'), "passes without naming the digest")?;
    Ok(!checked.satisfied.is_empty())
}

fn keyring(_: &Stage, input: &[u8]) -> Verdict {
    Ok(Config::from_config_map(&config(String::from_utf8_lossy(input).into_owned())).is_ok())
}
