//! What the fuzzed readers work with: good inputs, a key that signs, filters.

mod lifecycle;
mod operators;
mod resolution;

use super::corpus::{Corpus, message};
use anyhow::Context;
use cvo::testing::api::ComponentOverride;
use cvo::testing::payload::{ApplyFilter, Capabilities, Filter};
use cvo::testing::verify::{Config, Digest, Verifier};
use e2e::workspace;
use jiff::Timestamp;
use lifecycle::Lifecycle;
use operators::Operators;
pub(super) use operators::parts;
use resolution::Resolution;
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

/// Seeds for each reader, and what the properties need.
pub(super) struct Fixture {
    pub corpus: Corpus,
    pub versions: Vec<Vec<u8>>,
    pub annotations: Vec<Vec<u8>>,
    /// A live object and a manifest.
    pub pairs: Vec<Vec<u8>>,
    pub signatures: Vec<Vec<u8>>,
    /// Layers of an image, uncompressed and compressed.
    pub archives: Vec<Vec<u8>>,
    /// Pull specs, one a line.
    pub pull_specs: Vec<Vec<u8>>,
    /// An Ignition configuration, and another one that follows it or is laid over it.
    pub ignition: Vec<Vec<u8>>,
    /// What the agent of a node keeps on its disk: files by their names.
    pub node_records: Vec<Vec<u8>>,
    pub catalogs: Catalogs,
    pub operators: Operators,
    pub lifecycle: Lifecycle,
    pub resolution: Resolution,
    pub messages: Vec<Vec<u8>>,
    pub keys: Vec<Vec<u8>>,
    cert: Cert,
    pub verifier: Verifier,
    pub digest: Digest,
    pub now: Timestamp,
    pub filters: [ApplyFilter; 2],
}

/// What is read of catalogs.
pub(super) struct Catalogs {
    /// Files, in JSON and YAML.
    pub files: Vec<Vec<u8>>,
    /// Indexes as bytes.
    pub indexes: Vec<Vec<u8>>,
    /// Ranges of versions, one a line.
    pub ranges: Vec<Vec<u8>>,
}

impl Catalogs {
    fn of(corpus: &Corpus) -> Self {
        let index = |bytes: &Vec<u8>| super::catalogs::written(bytes).ok();
        let ranges = [">=1.0.0 <2.0.0\n1.2.x || !=3.0.0\n> 1.0.0 !1.2.1", "=0.5.2\n<=1.x\n"];
        Catalogs {
            indexes: corpus.catalogs.iter().filter_map(index).collect(),
            files: corpus.catalogs.clone(),
            ranges: ranges.map(|text| text.as_bytes().to_vec()).to_vec(),
        }
    }
}

impl Fixture {
    /// The key and its signatures are kept in the folder `cache`: signing is random, and an input must be reproducible.
    pub(super) fn read(cache: &Path) -> anyhow::Result<Fixture> {
        let corpus = Corpus::read()?;
        let now: Timestamp = "2026-03-01T00:00:00Z".parse()?;
        // What the vectors sign.
        let digest = Digest::parse("sha256:a4d451ec766eaa70e3c7ba1b6c3ef8bb6d3b17a5b0a3d0b0e0d3c0f6b0c1d2e3")?;
        let cert = Cert::from_bytes(&cached(&cache.join("fuzz-key"), || {
            let created = SystemTime::from(now - Duration::from_secs(86400));
            let (cert, _) =
                CertBuilder::general_purpose(Some("a@example.com")).set_creation_time(created).generate()?;
            cert.as_tsk().to_vec()
        })?)?;
        let key = cert.armored().to_vec()?;
        let messages = vec![message(&digest.to_string()), message("sha256:00")];
        let text = |list: &[&str]| list.iter().map(|text| text.as_bytes().to_vec()).collect();
        let mut fixture = Fixture {
            versions: text(&["1.0.0\n4.1.0-rc.1+b\nhttps://a/%41", "0.0.1-snapshot\n1.2.3-0.a.b-c\n#"]),
            annotations: text(&[ANNOTATIONS]),
            pairs: pairs(&corpus.objects)?,
            ignition: ignition(),
            node_records: node_records(),
            signatures: Vec::new(),
            archives: archives(&corpus)?,
            pull_specs: text(&[
                "r.example/a@sha256:0123abcd\nr.example:5000/a/b:1.0@sha512:00\nr.example/a:latest\na@b@sha256:ab",
                "sha256:0123\na@sha256+b64u:aB_-=9\n",
            ]),
            catalogs: Catalogs::of(&corpus),
            operators: Operators::read()?,
            lifecycle: Lifecycle::read(),
            resolution: Resolution::read()?,
            keys: vec![key.clone()],
            verifier: verifier(&key)?,
            corpus,
            messages,
            cert,
            digest,
            now,
            filters: [ApplyFilter::default(), strict()],
        };
        for (number, content) in fixture.messages.iter().enumerate() {
            let signature = cached(&cache.join(format!("fuzz-signed-{number}")), || fixture.sign(content))?;
            let mut zlib = flate2::write::ZlibEncoder::new(vec![0xa3, 2], flate2::Compression::fast());
            zlib.write_all(&signature)?;
            fixture.signatures.extend([signature, zlib.finish()?]);
        }
        // Of other keys, in other forms: compressed, with partial lengths, of version 3, with two signers.
        fixture.signatures.extend(vectors("signatures")?);
        Ok(fixture)
    }

    /// A message with this content, signed by the key that is trusted.
    pub(super) fn sign(&self, content: &[u8]) -> anyhow::Result<Vec<u8>> {
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

/// What leaves out most.
fn strict() -> ApplyFilter {
    let load = Filter {
        exclude_identifier: Some("id".into()),
        feature_set: Some(String::new()),
        feature_gates: Some(BTreeSet::from(["A".to_owned()])),
        major: Some(4),
        ..Filter::default()
    };
    let job = ComponentOverride { kind: "Job".into(), unmanaged: true, ..ComponentOverride::default() };
    ApplyFilter { load, capabilities: Some(Capabilities::all()), overrides: vec![job] }
}

/// Small releases as layers: files, links, deleted paths, and a name that is too long for its header.
fn archives(corpus: &Corpus) -> anyhow::Result<Vec<Vec<u8>>> {
    let long = format!("release-manifests/{}.yaml", "n".repeat(180));
    let mut tar = tar::Builder::new(Vec::new());
    let content = |number: usize| corpus.metadata.get(number).map(Vec::as_slice).unwrap_or_default();
    let mut entry = |kind: tar::EntryType, path: &str, target: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if target.is_empty() {
            tar.append_data(&mut header, path, content)
        } else {
            tar.append_link(&mut header, path, target)
        }
    };
    entry(tar::EntryType::Directory, "manifests/", "", b"")?;
    entry(tar::EntryType::Regular, "manifests/a.json", "", content(0))?;
    entry(tar::EntryType::Regular, &long, "", content(1))?;
    entry(tar::EntryType::Symlink, "manifests/b.json", "./x/../a.json", b"")?;
    entry(tar::EntryType::Link, "manifests/c.json", "manifests/a.json", b"")?;
    entry(tar::EntryType::Regular, "manifests/.wh.d.json", "", b"")?;
    entry(tar::EntryType::Regular, "usr/bin/cvo", "", b"program")?;
    let plain = tar.into_inner()?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain)?;
    Ok(vec![plain, gzip.finish()?])
}

/// The content of a file, which is made if it is missing.
fn cached(file: &Path, make: impl FnOnce() -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Vec<u8>> {
    if let Ok(bytes) = fs::read(file) {
        return Ok(bytes);
    }
    let bytes = make()?;
    fs::write(file, &bytes).with_context(|| file.display().to_string())?;
    Ok(bytes)
}

/// The files that gpg has made for the tests of `verify`, sorted by name.
fn vectors(below: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let folder = workspace::root().join("src/verify/vectors").join(below);
    let mut files: Vec<_> = fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    files.into_iter().map(|file| Ok(fs::read(file.path())?)).collect()
}

/// Trusts this key and those of the vectors.
fn verifier(key: &[u8]) -> anyhow::Result<Verifier> {
    let text = String::from_utf8_lossy(&[vec![key.to_vec()], vectors("keyrings")?].concat().concat()).into_owned();
    Ok(Verifier::new(Config::from_config_map(&config(text))?))
}

/// A verification ConfigMap with this key.
pub(super) fn config(key: String) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("verifier-public-key-a".to_owned(), key),
        ("store-a".to_owned(), "https://example.com".to_owned()),
    ])
}

fn ignition() -> Vec<Vec<u8>> {
    let file = |path: &str, source: &str| json!({"path": path, "mode": 420, "overwrite": true, "contents": {"source": source}});
    let zipped = "data:;base64,H4sIAAAAAAACA0tMSk4BABHNgu0EAAAA";
    let old = json!({
        "ignition": {"version": "3.5.0"},
        "passwd": {"users": [{"name": "core", "passwordHash": "x", "sshAuthorizedKeys": ["ssh-ed25519 AAAA a"]}]},
        "storage": {"files": [file("/etc/a", "data:,a%20b"), {"path": "/etc/z", "user": {"name": "core"},
                "group": {"id": 7}, "contents": {"source": zipped, "compression": "gzip"}}],
            "directories": [{"path": "/var/d", "mode": 493}],
            "links": [{"path": "/etc/l", "target": "a", "hard": false}],
            "disks": [{"device": "/dev/sdb", "wipeTable": true, "partitions": [{"number": 1, "sizeMiB": 5}]}]},
        "systemd": {"units": [{"name": "a@.service", "enabled": true, "contents": "[Unit]\n",
            "dropins": [{"name": "10-x.conf", "contents": "[Service]\n"}]}, {"name": "b.timer", "mask": true}]},
        "kernelArguments": {"shouldExist": ["quiet"]},
    });
    let new = json!({
        "ignition": {"version": "3.2.0"},
        "storage": {"files": [file("/etc/a", "data:text/plain;charset=utf-8;base64,YQ=="),
            file("/etc/registries.d/x", "data:,"), {"path": "/etc/appended", "append": [{"source": "data:,more"}]}]},
        "systemd": {"units": [{"name": "a@.service", "enabled": false}]},
    });
    let two = json!({
        "ignition": {"version": "2.2.0"}, "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k"]}]},
        "storage": {"files": [{"filesystem": "root", "path": "/etc/two", "mode": 384,
            "contents": {"source": "data:,2"}}]},
        "systemd": {"units": [{"name": "c.service", "enable": true, "dropins": [{"name": "d.conf", "contents": "x"}]}]},
    });
    [(&old, &new), (&new, &old), (&two, &old), (&new, &two), (&json!({}), &old)]
        .map(|(old, new)| json!({"old": old, "new": new}).to_string().into_bytes())
        .to_vec()
}

fn node_records() -> Vec<Vec<u8>> {
    let config =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"config": {"ignition": {"version": "3.5.0"}}}});
    let target = json!({"config": "b", "image": "r/os@sha256:1"});
    let journal = json!({"to": target, "phase": "Applied", "drains": true, "reboots": true, "boot": "1",
        "actions": ["DaemonReload", {"Restart": "a.service"}], "forced": false});
    let failure =
        json!({"target": target, "cause": "no room", "at": "2026-01-01T00:00:00Z", "count": 2, "after_reboot": false});
    let key = |key: &str| format!("machineconfiguration.openshift.io/{key}");
    let seed = json!({key("currentConfig"): "a", key("state"): "Done"});
    let index = json!({"folders": ["/etc/new"], "entries": [{"path": "/etc/new/a", "was": "Absent"},
        {"path": "/etc/b", "was": {"File": {"stored": "0.saved", "mode": 420, "owner": [0, 0]}}},
        {"path": "/etc/c", "was": {"Link": {"to": "2f6465762f6e756c6c"}}}]});
    let whole = json!({"currentconfig": config("a"), "nextconfig": config("b"), "journal.json": journal,
        "failure.json": failure, "node-annotations.json": seed, "currentimage": "r/os@sha256:2",
        "saved/index.json": index, "saved/0.saved": "old"});
    let settled = json!({"currentconfig": config("a"), "failure.json": failure});
    [whole, settled].map(|files| files.to_string().into_bytes()).to_vec()
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
                metadata.as_object_mut().context("metadata is not an object")?.insert(field.into(), value.clone());
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
