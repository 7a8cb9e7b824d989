//! The readers that are fuzzed, and how their inputs are made.

use super::fixture::Fixture;
use super::mutate;
use super::properties::{self, Verdict};
use e2e::random::SeededRandom;

/// How seeds may be changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Bytes,
    /// Also as a tree.
    Json,
}

/// One reader.
pub(super) struct Target {
    pub name: &'static str,
    /// Share of the inputs in percent.
    pub weight: usize,
    seeds: fn(&Fixture) -> &[Vec<u8>],
    form: Form,
    tokens: &'static [&'static str],
    pub run: fn(&Fixture, &[u8]) -> Verdict,
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
const IGNITION: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "null",
    ",",
    ":",
    "\"",
    "data:,",
    "data:;base64,",
    "%",
    "%00",
    "/",
    "..",
    "\"gzip\"",
    "\"3.5.0\"",
    "\"2.2.0\"",
    "511",
    "-1",
    "\\u0000",
    "@.service",
    "core",
];
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
const ARCHIVE: &[&str] = &[
    "\u{0}\u{0}\u{0}",
    "0",
    "1",
    "2",
    "5",
    "L",
    "x",
    "S",
    "../",
    "/",
    "./",
    ".wh.",
    ".wh..wh..opq",
    "manifests/",
    "release-manifests/",
    "ustar",
    "77777777777",
    "00000000001",
    "30 path=manifests/../../x\n",
];
const CATALOG: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    "---\n",
    "--- x\n",
    "\n\n",
    "null",
    "- ",
    "'",
    "&a ",
    "*a",
    "Schema: x\n",
    "schema: olm.channel\n",
    "{\"schema\": \"olm.bundle\", \"package\": \"a\"}",
    "\"skips\": [\"a.v1\"]",
    "replaces: a.v2\n",
    "skipRange: \"<1.x\"\n",
    "olm.package",
    "a.v1",
    "\u{feff}",
    "\\ud800",
];
const BUNDLE: &[&str] = &[
    "\n= manifests/x.yaml\n",
    "\n= metadata/dependencies.yaml\n",
    "\n= packages\n",
    "\n---\n",
    "kind: ClusterServiceVersion\napiVersion: operators.coreos.com/v1alpha1\n",
    "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"s\"}}\n",
    "\"metadata\":{",
    "replaces: a.v1.0.0\n",
    "type: olm.gvk\n",
    "- {type: olm.package, value: ",
    "olm.properties",
    "&a ",
    "*a",
    "<<: *m\n",
    "null",
    "[]",
    "{}",
    "\"",
    "'",
    "1.0.0",
    "-rc.1",
    "a.v1.0.0",
    "stable,",
    "r.example/a:1",
];
const IGNORE: &[&str] = &[
    "*",
    "**",
    "/",
    "!",
    "\\",
    "[",
    "]",
    "[a-z]",
    "?",
    "#",
    " ",
    "{a,b}",
    "one.json",
    "a/",
    "b",
    "\n= a/.indexignore\n",
    "..",
    "./",
];
const GRPC: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\"1\":",
    "\"messages\":[",
    "\"flags\":5",
    "\"stream\":1",
    "\"kind\":9",
    "\\u0000",
    "\u{0}\u{0}\u{0}\u{0}\u{5}",
    "\u{0}\u{0}\u{4}\u{8}",
    "/api.Registry/",
    "widgets.one.svc",
    "4294967295",
];
const RANGE: &[&str] =
    &[">=", "<", "!", "=", "||", " ", "x", "1.x", ".", "1.2.3", "-rc.1", "+b", "18446744073709551615"];
const RULE: &[&str] = &[
    "properties",
    ".exists(p, ",
    ".all(q, ",
    ".map(p, ",
    "p.type",
    ".value",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    " && ",
    " || ",
    "!",
    " ? ",
    " : ",
    " in ",
    "true",
    "semver_compare(",
    "'1.0.0'",
    "\"",
    "\\",
    "-9223372036854775808",
    "1e400",
    "cluster.",
    "// ",
];
const INDEX: &[&str] =
    &["\u{0}\u{0}\u{0}\u{0}", "\u{1}\u{0}\u{0}\u{0}", "\u{7f}\u{7f}\u{7f}\u{7f}", "cvo catalog 0001", "a", "olm.gvk"];
const PULL_SPEC: &[&str] =
    &["@", ":", "/", "..", "sha256:", "sha256:0123", "@sha256:", "r.example/a", "+", "-", "\u{0}", "%2f", "\n", "\\"];
const PACKET: &[&str] = &["\u{0}", "\u{2}\u{ff}", "-----BEGIN PGP", "\u{7f}"];

/// A row of the table.
const fn target(
    name: &'static str,
    weight: usize,
    seeds: fn(&Fixture) -> &[Vec<u8>],
    form: Form,
    tokens: &'static [&'static str],
    run: fn(&Fixture, &[u8]) -> Verdict,
) -> Target {
    Target { name, weight, seeds, form, tokens, run }
}

/// All of them; weights add up to 100.
pub(super) const TARGETS: [Target; 37] = [
    target("yaml", 8, |s| &s.corpus.manifests, Form::Bytes, YAML, properties::yaml),
    target("release", 8, |s| &s.corpus.releases, Form::Bytes, RELEASE, properties::release),
    target("template", 6, |s| &s.corpus.manifests, Form::Bytes, TEMPLATE, properties::template),
    target("metadata", 4, |s| &s.corpus.metadata, Form::Json, JSON, properties::metadata),
    target("references", 4, |s| &s.corpus.references, Form::Json, JSON, properties::references),
    target("archive", 3, |s| &s.archives, Form::Bytes, ARCHIVE, properties::archive),
    target("pull spec", 1, |s| &s.pull_specs, Form::Bytes, PULL_SPEC, properties::pull_specs),
    target("version", 4, |s| &s.versions, Form::Bytes, VERSION, properties::versions),
    target("update graph", 6, |s| &s.corpus.graphs, Form::Json, JSON, properties::update_graph),
    target("query answer", 2, |s| &s.corpus.answers, Form::Json, JSON, properties::query_answer),
    target("annotations", 5, |s| &s.annotations, Form::Bytes, ANNOTATION, properties::annotations),
    target("merge", 7, |s| &s.pairs, Form::Json, JSON, properties::merge),
    target("signature", 3, |s| &s.signatures, Form::Bytes, PACKET, properties::signature),
    target("message", 2, |s| &s.messages, Form::Json, JSON, properties::message),
    target("ignition", 4, |s| &s.ignition, Form::Json, IGNITION, properties::ignition),
    target("node record", 2, |s| &s.node_records, Form::Json, JSON, properties::node_record),
    target("catalog", 4, |s| &s.catalogs.files, Form::Bytes, CATALOG, properties::catalog::catalog),
    target("catalog index", 1, |s| &s.catalogs.indexes, Form::Bytes, INDEX, properties::catalog::index),
    target("version range", 1, |s| &s.catalogs.ranges, Form::Bytes, RANGE, properties::catalog::ranges),
    target("bundle", 4, |s| &s.operators.bundles, Form::Bytes, BUNDLE, properties::bundles::bundle),
    target("property", 2, |s| &s.operators.properties, Form::Json, JSON, properties::bundles::properties),
    target("index ignore", 1, |s| &s.operators.ignored, Form::Bytes, IGNORE, properties::ignored::patterns),
    target("config map", 2, |s| &s.operators.config_maps, Form::Bytes, BUNDLE, properties::bundles::config_map),
    target("grpc call", 2, |s| &s.operators.calls, Form::Json, GRPC, properties::grpc::call),
    target("client frames", 1, |s| &s.operators.client_frames, Form::Json, GRPC, properties::grpc::client_frames),
    target("grpc answer", 2, |s| &s.operators.answers, Form::Json, GRPC, properties::grpc::answer),
    target("server frames", 1, |s| &s.operators.server_frames, Form::Json, GRPC, properties::grpc::server_frames),
    target("catalog source", 1, |s| &s.operators.sources, Form::Json, JSON, properties::sources::source),
    target("operator hub", 1, |s| &s.operators.hubs, Form::Json, JSON, properties::sources::operator_hub),
    target("constraint", 1, |s| &s.resolution.constraints, Form::Json, JSON, properties::resolution::constraint),
    target("rule", 1, |s| &s.resolution.rules, Form::Bytes, RULE, properties::resolution::rule),
    target("install plan", 1, |s| &s.resolution.plans, Form::Json, JSON, properties::resolution::install_plan),
    target("subscriptions", 1, |s| &s.resolution.namespaces, Form::Json, JSON, properties::resolution::subscriptions),
    target("operator", 1, |s| &s.lifecycle.csvs, Form::Json, JSON, properties::lifecycle::csv),
    target("operator group", 1, |s| &s.lifecycle.groups, Form::Json, JSON, properties::lifecycle::group),
    target("operator condition", 1, |s| &s.lifecycle.conditions, Form::Json, JSON, properties::lifecycle::condition),
    target("keyring", 1, |s| &s.keys, Form::Bytes, PACKET, properties::keyring),
];

impl Target {
    /// The next input for this reader.
    pub(super) fn input(&self, fixture: &Fixture, random: &SeededRandom) -> Vec<u8> {
        let seeds = (self.seeds)(fixture);
        // Changed bytes are seldom still JSON, so most inputs are changed as a tree.
        if self.form == Form::Json && random.below(4) != 0 {
            let seed = random.one_of(seeds).map(Vec::as_slice).unwrap_or_default();
            if let Ok(mut tree) = serde_json::from_slice(seed) {
                mutate::value(random, &mut tree, &fixture.corpus.objects);
                return tree.to_string().into_bytes();
            }
        }
        mutate::bytes(random, seeds, self.tokens)
    }
}
