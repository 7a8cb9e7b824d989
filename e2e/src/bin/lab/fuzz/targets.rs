//! What reads input from outside, and what it works with.

use super::corpus::{Corpus, message};
use super::laws;
use super::mutate::{self, Dice};
use anyhow::Context;
use cvo::api::ComponentOverride;
use cvo::payload::{ApplyFilter, Capabilities, Filter};
use cvo::verify::{Config, Digest, Verifier};
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

/// Whether the input was of use to the reader, or the law that it broke, which is a finding as a panic is.
pub type Verdict = Result<bool, String>;

/// What seeds are, and so how they may be changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Bytes,
    /// As the tree that it is, as well.
    Json,
}

/// One reader.
pub struct Target {
    pub name: &'static str,
    /// Inputs of a hundred.
    pub weight: usize,
    seeds: fn(&Stage) -> &[Vec<u8>],
    form: Form,
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

/// Takes what stands in a row of the table.
const fn target(
    name: &'static str,
    weight: usize,
    seeds: fn(&Stage) -> &[Vec<u8>],
    form: Form,
    tokens: &'static [&'static str],
    run: fn(&Stage, &[u8]) -> Verdict,
) -> Target {
    Target { name, weight, seeds, form, tokens, run }
}

/// All of them; weights add up to 100.
pub const TARGETS: [Target; 12] = [
    target("yaml", 38, |s| &s.corpus.manifests, Form::Bytes, YAML, laws::yaml),
    target("release", 12, |s| &s.corpus.releases, Form::Bytes, RELEASE, laws::release),
    target("template", 8, |s| &s.corpus.manifests, Form::Bytes, TEMPLATE, laws::template),
    target("metadata", 4, |s| &s.corpus.metadata, Form::Json, JSON, laws::metadata),
    target("references", 4, |s| &s.corpus.references, Form::Json, JSON, laws::references),
    target("version", 4, |s| &s.versions, Form::Bytes, VERSION, laws::versions),
    target("update graph", 8, |s| &s.corpus.graphs, Form::Json, JSON, laws::update_graph),
    target("annotations", 6, |s| &s.annotations, Form::Bytes, ANNOTATION, laws::annotations),
    target("merge", 10, |s| &s.pairs, Form::Json, JSON, laws::merge),
    target("signature", 3, |s| &s.signatures, Form::Bytes, PACKET, laws::signature),
    target("message", 2, |s| &s.messages, Form::Json, JSON, laws::message),
    target("keyring", 1, |s| &s.keys, Form::Bytes, PACKET, laws::keyring),
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
    pub verifier: Verifier,
    pub digest: Digest,
    pub now: Timestamp,
    pub filters: [ApplyFilter; 2],
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
        // Bytes alone seldom stay JSON; most of it is changed as the tree that it is.
        if target.form == Form::Json && dice.below(4) != 0 {
            let seed = dice.one_of(seeds).map(Vec::as_slice).unwrap_or_default();
            if let Ok(mut tree) = serde_json::from_slice(seed) {
                mutate::value(dice, &mut tree, &self.corpus.objects);
                return tree.to_string().into_bytes();
            }
        }
        mutate::bytes(dice, seeds, target.tokens)
    }

    /// A message with this content, signed by the key that is trusted.
    pub fn sign(&self, content: &[u8]) -> anyhow::Result<Vec<u8>> {
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

/// A verification ConfigMap with this key.
pub fn config(key: String) -> BTreeMap<String, String> {
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
