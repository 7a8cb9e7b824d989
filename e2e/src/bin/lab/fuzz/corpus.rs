//! Good inputs to begin with: the manifests and sample releases of this repository, real ones where the shared data has
//! them, and small ones with rare syntax.

use anyhow::Context;
use cvo::testing::payload::yaml;
use e2e::workspace;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Longer files are cut to so many bytes: in a large file hardly any change would be at an interesting place.
const MAX_SEED: usize = 24 << 10;

/// Seeds by their type.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    /// Files with manifests.
    pub manifests: Vec<Vec<u8>>,
    /// Whole small releases, packed by [`pack`].
    pub releases: Vec<Vec<u8>>,
    pub metadata: Vec<Vec<u8>>,
    pub references: Vec<Vec<u8>>,
    pub graphs: Vec<Vec<u8>>,
    /// Answers of a Prometheus API.
    pub answers: Vec<Vec<u8>>,
    /// Files of catalogs.
    pub catalogs: Vec<Vec<u8>>,
    /// Decoded manifests.
    pub objects: Vec<Value>,
}

impl Corpus {
    /// Reads all seeds, in the same order each time.
    pub(super) fn read() -> anyhow::Result<Corpus> {
        let (root, shared) = (workspace::root(), workspace::shared_data());
        let mut corpus = Corpus {
            manifests: ODD_YAML.iter().map(|text| text.as_bytes().to_vec()).collect(),
            metadata: vec![METADATA.into(), br#"{"kind":"cincinnati-metadata-v0","version":"4.0.0-rc.1+b"}"#.to_vec()],
            references: vec![REFERENCES.into(), REFERENCES_YAML.into()],
            graphs: vec![GRAPH.into(), br#"{"nodes":[],"edges":[]}"#.to_vec()],
            answers: ANSWERS.iter().map(|text| text.as_bytes().to_vec()).collect(),
            ..Corpus::default()
        };
        corpus.catalogs.extend([CATALOG.into(), CATALOG_YAML.into()]);
        for folder in fs::read_dir(shared.join("catalogs/v4.21")).into_iter().flatten() {
            corpus.catalogs.extend(files(&folder?.path()).unwrap_or_default().into_iter().map(|(_, bytes)| cut(bytes)));
        }
        corpus.catalogs.sort();
        let own = files(&root.join("manifests/cluster-version"))?;
        for release in ["base", "1.0.1", "1.1.0", "verification"] {
            let mut parts = Vec::new();
            let below = root.join("e2e/releases").join(release);
            for folder in fs::read_dir(&below).with_context(|| below.display().to_string())? {
                parts.extend(files(&folder?.path()).unwrap_or_default());
            }
            parts.sort();
            corpus.releases.push(pack(&own, &parts));
            corpus.manifests.extend(parts.into_iter().map(|(_, bytes)| cut(bytes)));
        }
        let real = files(&shared.join("payload-5.0")).unwrap_or_default();
        for part in real.chunks(4).step_by(9) {
            corpus.releases.push(pack(&[], part));
        }
        corpus.manifests.extend(own.into_iter().chain(real).map(|(_, bytes)| cut(bytes)));
        let graphs = files(&shared.join("graphs")).unwrap_or_default();
        corpus.graphs.extend(graphs.iter().filter_map(|(_, bytes)| small_graph(bytes)));
        for bytes in &corpus.manifests {
            corpus.objects.extend(yaml::documents(bytes).unwrap_or_default().into_iter().map(|d| d.value));
        }
        corpus.objects.retain(|object| object.pointer("/metadata/name").is_some());
        Ok(corpus)
    }
}

/// Files of a folder with their names, sorted by name, without those in folders below.
fn files(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.path().is_file() {
            found.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
        }
    }
    found.sort();
    Ok(found)
}

/// Cuts at the end of a line.
fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() > MAX_SEED {
        let end = bytes.get(..MAX_SEED).and_then(|head| head.iter().rposition(|b| *b == b'\n'));
        bytes.truncate(end.map_or(MAX_SEED, |at| at + 1));
    }
    bytes
}

/// A release as one text: before each file a line with `= ` and its path.
fn pack(own: &[(String, Vec<u8>)], release: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut packed = Vec::new();
    let described =
        [("release-metadata".to_owned(), METADATA.into()), ("image-references".to_owned(), REFERENCES.into())];
    let release = release.iter().filter(|(name, _)| name != "image-references");
    let of_release = release.chain(&described).map(|file| ("release-manifests", file));
    for (folder, (name, bytes)) in own.iter().map(|file| ("manifests", file)).chain(of_release) {
        packed.extend_from_slice(format!("\n= {folder}/{name}\n").as_bytes());
        packed.extend_from_slice(&cut(bytes.clone()));
    }
    packed
}

/// The first nodes of a graph and the edges between them.
fn small_graph(bytes: &[u8]) -> Option<Vec<u8>> {
    const NODES: usize = 30;
    let mut graph: Value = serde_json::from_slice(bytes).ok()?;
    graph.get_mut("nodes")?.as_array_mut()?.truncate(NODES);
    let small = |edge: &Value| {
        edge.as_array().is_some_and(|ends| ends.iter().all(|end| end.as_u64().is_some_and(|end| end < NODES as u64)))
    };
    graph.get_mut("edges")?.as_array_mut()?.retain(small);
    if let Some(conditional) = graph.get_mut("conditionalEdges").and_then(Value::as_array_mut) {
        conditional.truncate(4);
    }
    serde_json::to_vec(&graph).ok()
}

/// The signed content of a signature.
pub(super) fn message(digest: &str) -> Vec<u8> {
    let identity = json!({"docker-reference": "registry.example.com/release:1.0.0"});
    let critical = json!({
        "type": "atomic container signature", "image": {"docker-manifest-digest": digest}, "identity": identity,
    });
    json!({"critical": critical, "optional": {"creator": "x", "timestamp": 1_700_000_000}}).to_string().into_bytes()
}

const METADATA: &str = r#"{"kind":"cincinnati-metadata-v0","version":"1.0.0","previous":["0.9.0"],"next":[],
"metadata":{"url":"https://example.com/1.0.0","release.openshift.io/architecture":"multi",
"io.openshift.upgrades.graph.release.channels":"stable,fast"}}"#;
const REFERENCES: &str = r#"{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.0.0",
"creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"tags":[{"name":"a","annotations":{"k":"v"},
"from":{"kind":"DockerImage","name":"r.example/a@sha256:1"}},{"name":"b"}]}}"#;
const REFERENCES_YAML: &str = "kind: ImageStream\napiVersion: image.openshift.io/v1\nmetadata:\n  name: 1.0.0\nspec:\n  tags:\n\
  - name: a\n    from: {kind: DockerImage, name: r/a}\n";
const CATALOG: &str = r#"{"schema":"olm.package","name":"a","defaultChannel":"x","icon":{"base64data":"YWJj","mediatype":"m"}}
{"schema":"olm.channel","package":"a","name":"x","entries":[{"name":"a.v1"},{"name":"a.v2","replaces":"a.v1","skips":["a.v0"],
"skipRange":"<2.0.0"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"r/a:1","properties":[{"type":"olm.package","value":{"packageName":"a",
"version":"1.0.0"}},{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}}],"relatedImages":[{"name":"","image":"r/b"}]}
{"schema":"olm.bundle","package":"a","name":"a.v2","properties":[{"type":"olm.package","value":{"packageName":"a","version":"2.0.0"}},
{"type":"olm.bundle.object","value":{"data":"e30="}},{"type":"olm.csv.metadata","value":{}}]}
{"schema":"olm.deprecations","package":"a","entries":[{"reference":{"schema":"olm.bundle","name":"a.v1"},"message":"old"}]}
{"schema":"other","package":"a","name":"o"}
"#;
const CATALOG_YAML: &str = "---\nschema: olm.package\nname: b\ndefaultChannel: x\ndescription: |\n  text\n---\nschema: olm.channel\n\
package: b\nname: x\nentries:\n- name: b-v1.0.0-1\n---\n{schema: olm.bundle, package: b, name: b-v1.0.0-1, image: r/b,\n\
properties: [{type: olm.package, value: {packageName: b, version: 1.0.0, release: \"1\"}}]}\n--- # end\n";
const ANSWERS: [&str; 4] = [
    r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.5,"1"]}]},"warnings":["w"]}"#,
    r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"0"]}]}}"#,
    r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#,
    r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
];
const GRAPH: &str = r#"{"nodes":[{"version":"1.0.0","payload":"r/x@sha256:1","metadata":{"url":"https://x","io.openshift.upgrades.graph.release.channels":"stable,fast"}},
{"version":"1.0.1","payload":"r/x@sha256:2","metadata":{"release.openshift.io/architecture":"multi"}},{"version":"1.1.0-rc.1","payload":"r/x@sha256:3"}],
"edges":[[0,1],[0,2],[1,2]],"conditionalEdges":[{"edges":[{"from":"1.0.0","to":"1.1.0-rc.1"}],"risks":[{"url":"https://r","name":"Risk",
"message":"m","matchingRules":[{"type":"Always"},{"type":"PromQL","promql":{"promql":"up == 1"}}]}]}]}"#;

/// YAML with rare syntax.
const ODD_YAML: [&str; 8] = [
    "apiVersion: v1\nkind: ConfigMap\nmetadata: &m\n  name: a\n  annotations: {<<: *m, x: yes}\ndata: {a: 'b'}\n",
    "a: &a [1, 2]\nb: [*a, *a, *a]\nc: &c {x: *a}\nd: {<<: [*c, *c], y: 0644}\n---\n# nothing\n---\nnull\n---\n? [a]\n: b\n",
    "kind: A\napiVersion: g/v1\nmetadata: {name: x}\nspec:\n  block: |+\n    one\n\n  fold: >-\n    two\n    three\n  bin: !!binary aGVsbG8=\n  int: !!int '7'\n",
    "{\"kind\": \"A\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"x\"}}\n{\"kind\": \"B\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"y\"}}\n",
    "{a: 1, b: [x, {y: z}]}\n---\n- 0o17\n- 0b11\n- 1_000\n- .inf\n- ~\n- 2001-01-01\n- 1e3\n- +5\n",
    "%YAML 1.1\n%TAG ! tag:example.com,2000:\n---\n!x {a: !!str 1}\n...\n",
    "\"a\\x41\\u00e9\\U0001F600\\n\": 'it''s'\n\"b\\\n  c\": d\n",
    "spec: {image: '{{.ReleaseImage}}', a: \"{{index .Images \\\"a\\\"}}\"}\n{{- /* c */ -}}\ntext: {{ \"{{ $labels.x }}\" }} {{ `raw` }}\n",
];
