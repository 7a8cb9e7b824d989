use super::*;
use crate::object::manifest::Origin;
use crate::object::yaml;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

const METADATA: &str =
    r#"{"kind":"cincinnati-metadata-v0","version":"1.0.0","previous":["0.9.0"],"metadata":{"url":5}}"#;
const REFERENCES: &str = r#"{"kind":"ImageStream","apiVersion":"image.openshift.io/v1",
    "metadata":{"name":"1.0.0","creationTimestamp":"2026-01-02T03:04:05Z"},
    "spec":{"tags":[{"name":"cli","from":{"kind":"DockerImage","name":"r/cli@sha256:1"}}]}}"#;

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.into(), bytes: text.as_bytes().to_vec() }
}

fn payload(own: &[(&str, &str)], release: &[(&str, &str)]) -> PayloadFiles {
    let described = [(metadata::FILE, METADATA), (references::FILE, REFERENCES)];
    PayloadFiles {
        place: "/p".into(),
        own: own.iter().map(|(n, t)| file(n, t)).collect(),
        release: described.iter().chain(release).map(|(n, t)| file(n, t)).collect(),
        ..PayloadFiles::default()
    }
}

/// A ConfigMap of the default profile.
fn map(name: &str) -> String {
    format!(
        "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: {name}\n  namespace: ns\n  annotations:\n    \
         include.release.openshift.io/self-managed-high-availability: \"true\"\n"
    )
}

fn options() -> LoadOptions {
    LoadOptions { image: "r/release@sha256:0".into(), ..LoadOptions::default() }
}

fn names(payload: &Payload) -> Vec<String> {
    payload.manifests.iter().map(|m| format!("{}#{} {}", m.file, m.index_in_file, m.id.name)).collect()
}

fn problems(files: PayloadFiles) -> Vec<String> {
    match load(files, &options()) {
        Err(LoadError::Integrity { place, problems }) => {
            assert_eq!(place, "/p");
            problems
        }
        other => panic!("{other:?}"),
    }
}

/// Metadata that is missing, of another kind, without a version, or of another release than the images.
#[test]
fn missing_or_contradicting_metadata_fails_the_load() {
    for missing in [metadata::FILE, references::FILE] {
        let mut files = payload(&[], &[]);
        files.release.retain(|f| f.name != missing);
        let error = load(files, &options()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("/p is not a release payload: release-manifests/{missing} is")), "{error}");
    }
    let table = [
        (METADATA.replace("-v0", "-v1"), REFERENCES.to_owned(), "cincinnati-metadata-v1"),
        (METADATA.replace("1.0.0", ""), REFERENCES.to_owned(), "\"\" is not a semantic version"),
        (METADATA.replace("1.0.0", "1.0"), REFERENCES.to_owned(), "\"1.0\" is not a semantic version"),
        (
            METADATA.to_owned(),
            REFERENCES.replace("1.0.0", "1.0.1"),
            "\"1.0.0\" but image-references is named \"1.0.1\"",
        ),
        (METADATA.to_owned(), REFERENCES.replace("ImageStream", "List"), "kind \"List\""),
    ];
    for (metadata, references, expected) in table {
        let mut files = payload(&[], &[]);
        files.release = vec![file(metadata::FILE, &metadata), file(references::FILE, &references)];
        let found = problems(files);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
}

#[test]
fn order_is_by_folder_then_bytes_and_other_suffixes_are_ignored() {
    let (a, b, c, d, e) = (map("a"), map("b"), map("c"), map("d"), map("e"));
    let own = [("0000_90_x_y.yaml", c.as_str()), ("z.txt", "{"), ("q.YAML", "{")];
    let release = [("b.yaml", b.as_str()), ("a.yml", &a), ("B.yaml", &d), ("a-.json", &e), ("noext", "{")];
    let loaded = load(payload(&own, &release), &options()).unwrap();
    let expected = ["0000_90_x_y.yaml#0 c", "B.yaml#0 d", "a-.json#0 e", "a.yml#0 a", "b.yaml#0 b"];
    assert_eq!(names(&loaded), expected);
    assert_eq!(loaded.manifests[0].origin, Origin::Own);
    assert_eq!(loaded.release.version, "1.0.0");
    assert_eq!(loaded.release.image, "r/release@sha256:0");
    assert_eq!(loaded.built.map(|built| built.to_string()), Some("2026-01-02T03:04:05Z".to_owned()));
    assert!(loaded.warnings.len() == 1 && loaded.warnings[0].contains("\"url\" is 5"), "{:?}", loaded.warnings);
}

#[test]
fn unknown_template_skips_its_file_unless_strict() {
    let image = format!("{}data:\n  i: '{{{{.ReleaseImage}}}} {{{{index .Images \"cli\"}}}}'\n", map("a"));
    let unknown = format!("{}data: {{x: '{{{{ .New }}}}'}}\n", map("b"));
    let absent = format!("{}data:\n  i: '{{{{index .Images \"gone\"}}}}'\n", map("c"));
    let own = [("a.yaml", image.as_str()), ("b.yaml", &unknown), ("c.yaml", &absent)];
    // Files of other components are not templates.
    let files = payload(&own, &[("d.yaml", &unknown)]);
    let loaded = load(files.clone(), &options()).unwrap();
    assert_eq!(names(&loaded), ["a.yaml#0 a", "c.yaml#0 c", "d.yaml#0 b"]);
    assert_eq!(loaded.manifests[0].object().unwrap()["data"]["i"], "r/release@sha256:0 r/cli@sha256:1");
    assert_eq!(loaded.manifests[1].object().unwrap()["data"]["i"], "");
    assert_eq!(loaded.manifests[2].object().unwrap()["data"]["x"], "{{ .New }}");
    assert!(loaded.warnings[0].starts_with("manifests/b.yaml is skipped: line 8: {{ .New }} is not known"));
    assert!(loaded.warnings[1].contains("no image \"gone\""), "{:?}", loaded.warnings);

    match load(files, &LoadOptions { strict_templates: true, ..options() }) {
        Err(LoadError::Integrity { problems, .. }) => {
            assert_eq!(problems.len(), 2, "{problems:?}");
            assert!(problems[0].starts_with("manifests/b.yaml: line 8: "), "{problems:?}");
            assert!(problems[1].starts_with("manifests/c.yaml: the release has no image"), "{problems:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// The check comes before any filter.
#[test]
fn duplicate_identity_is_an_error_within_one_file_only() {
    let twice =
        format!("{}---\n{}", map("a"), "kind: ConfigMap\napiVersion: v1beta1\nmetadata: {name: a, namespace: ns}\n");
    let found = problems(payload(&[], &[("a.yaml", &twice)]));
    assert_eq!(found, ["release-manifests/a.yaml: line 9: configmap \"ns/a\" is in this file twice"]);
    let loaded = load(payload(&[], &[("a.yaml", &map("a")), ("b.yaml", &map("a"))]), &options()).unwrap();
    assert_eq!(names(&loaded), ["a.yaml#0 a", "b.yaml#0 a"]);
}

#[test]
fn yaml_scalars_comments_and_json_streams_are_decoded() {
    let text = format!("# nothing\n---\n{}spec:\n  mode: 0644\n  flag: on\n---\n# end\n", map("a"));
    let json = r#"{"kind":"A","apiVersion":"g/v1","metadata":{"name":"x"}} {"kind":"B","apiVersion":"g/v1","metadata":{"name":"x"}}"#;
    let open = LoadOptions { filter: Filter::default(), ..options() };
    let loaded = load(payload(&[], &[("a.yaml", &text), ("b.json", json)]), &open).unwrap();
    assert_eq!(names(&loaded), ["a.yaml#0 a"]);
    let spec = String::from_utf8(loaded.manifests[0].raw.bytes().into_owned()).unwrap();
    assert!(
        spec.starts_with("{\"apiVersion\":\"v1\",\"kind\":") && spec.contains("{\"flag\":true,\"mode\":420}"),
        "{spec}"
    );
    let excluded: Vec<_> = loaded.excluded.iter().map(|(m, why)| (m.id.to_string(), why.as_str())).collect();
    let why = "it has no annotations";
    assert_eq!(excluded, [("a.g \"x\"".to_owned(), why), ("b.g \"x\"".to_owned(), why)]);
}

#[test]
fn all_bad_files_are_named_in_one_error() {
    let release = [
        ("a.yaml", "kind: [\n"),
        ("b.yaml", "- 1\n"),
        ("c.yaml", "apiVersion: v1\nkind: List\nitems: []\n"),
        ("d.yaml", "apiVersion: v1\nmetadata: {name: x}\n"),
        ("e.yaml", "kind: A\nmetadata: {name: x}\n"),
        ("f.yaml", "kind: A\napiVersion: v1\nmetadata: {name: 5}\n"),
        ("g.yaml", "kind: A\napiVersion: v1\nmetadata: {name: x, annotations: {a: true}}\n"),
        ("h.yaml", &map("h").replace("metadata:", "metadata:\n  labels: [a]")),
        ("i.yaml", "kind: A\napiVersion: a/b/c\nmetadata: {name: x}\n"),
        ("j.yaml", &format!("{}data: {{a: 1}}\n", map("j"))),
        ("k.yaml", "kind: A\napiVersion: v1\nmetadata: x\n"),
    ];
    let expected = [
        "cannot open manifests/locked.yaml: it is not yours",
        "manifests/own.yaml: line 1: not UTF-8 text",
        "release-manifests/a.yaml: line 2: ",
        "release-manifests/b.yaml: line 1: a manifest must be an object",
        "release-manifests/c.yaml: line 1: metadata.name is missing",
        "release-manifests/d.yaml: line 1: kind is missing",
        "release-manifests/e.yaml: line 1: apiVersion is missing",
        "release-manifests/f.yaml: line 1: metadata.name must be text, not 5; quote it",
        "release-manifests/g.yaml: line 1: metadata.annotations[\"a\"] must be text, not true; quote it",
        "release-manifests/i.yaml: line 1: apiVersion \"a/b/c\" is neither",
        "release-manifests/k.yaml: line 1: metadata must be an object",
        "release-manifests/h.yaml: line 1: metadata.labels must be a map of text",
        "release-manifests/j.yaml: line 1: data[\"a\"] must be text, not 1",
    ];
    let mut files = payload(&[], &release);
    files.own.push(SourceFile { name: "own.yaml".into(), bytes: vec![0xff] });
    files.unreadable.push("cannot open manifests/locked.yaml: it is not yours".into());
    let found = problems(files);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} / {expected}");
    }
}

/// Errors in the two files that describe the release do not hide those of its manifests. If the version is unknown, a
/// manifest that a major version may exclude is not checked.
#[test]
fn manifests_are_checked_although_the_description_is_bad() {
    let (misfit, odd) = (format!("{}data: {{a: 1}}\n", map("a")), "kind: A\napiVersion: v1\nmetadata: {name: x}\n");
    let untyped = map("b").replace("kind: ConfigMap", "kind: Service") + "spec: {ports: [{port: x}]}\n";
    let crd = "CustomResourceDefinition\napiVersion: apiextensions.k8s.io/";
    let other_major = map("c").replace("ConfigMap\napiVersion: ", crd)
        + "    release.openshift.io/major-version: \"7\"\nspec: {versions: x}\n";
    let image = format!("{}data:\n  i: '{{{{index .Images \"cli\"}}}}'\n", map("d"));
    let release = [("a.yaml", misfit.as_str()), ("b.yaml", &untyped), ("c.yaml", &other_major), ("o.yaml", odd)];
    let described = [
        (METADATA.replace("-v0", "-v1"), REFERENCES.to_owned(), "release-metadata has kind"),
        (METADATA.to_owned(), "[".to_owned(), "image-references is neither"),
        (METADATA.to_owned(), REFERENCES.replace("1.0.0", "1.0.1"), "release-metadata is of version"),
    ];
    for (metadata, references, expected) in described {
        let mut files = payload(&[("i.yaml", &image)], &release);
        files.release.splice(..2, [file(metadata::FILE, &metadata), file(references::FILE, &references)]);
        let Err(LoadError::Integrity { problems, .. }) =
            load(files, &LoadOptions { strict_templates: true, ..options() })
        else {
            panic!("{expected}: loaded")
        };
        let [description, misfit, untyped] = problems.as_slice() else { panic!("{problems:#?}") };
        assert!(description.starts_with(expected), "{description}");
        assert!(misfit.starts_with("release-manifests/a.yaml: line 1: data[\"a\"] must be text, not 1"), "{misfit}");
        assert!(untyped.starts_with("release-manifests/b.yaml: line 1: service \"ns/b\": spec.ports[0]"), "{untyped}");
    }
}

/// Each file alone is within its limit. Valid, invalid and excluded manifests all count towards the common limit.
#[test]
fn size_of_all_files_together_is_limited() {
    let most = 1 << 20;
    // 4 KB that stand for 400.
    let large = |head: &str| format!("{head}x: &a {}\nl: [{}]\n", "t".repeat(4000), ["*a"; 100].join(","));
    let spent = |folder: &str, file: &str| {
        let text = large("kind: A\napiVersion: v1\nmetadata: {name: x}\n");
        let bad = large("kind: A\n");
        let good = [("a.yaml", text.as_str()), ("b.yaml", &text), ("c.yaml", &text), ("d.yaml", &bad), ("e.yaml", "[")];
        let files = match folder {
            "manifests" => payload(&good, &good),
            _ => payload(&good[..1], &good),
        };
        let Err(LoadError::Integrity { problems, .. }) = load_within(files, &options(), most) else { panic!("loaded") };
        let [told] = problems.as_slice() else { panic!("{problems:#?}") };
        assert!(told.starts_with(&format!("{folder}/{file}: line 1: with this")), "{told}");
        assert!(told.contains("more than the 1048576 bytes") && told.ends_with("make the files smaller"), "{told}");
    };
    spent("manifests", "c.yaml");
    spent("release-manifests", "b.yaml");

    let bad = large("kind: A\napiVersion: v1\nmetadata: {name: []}\n");
    let files = payload(&[], &[("a.yaml", &bad), ("b.yaml", &bad), ("c.yaml", &bad)]);
    let Err(LoadError::Integrity { problems, .. }) = load_within(files, &options(), most) else { panic!("loaded") };
    assert!(problems[0].ends_with("metadata.name must be text, not a list; quote it"), "{problems:#?}");
    assert!(problems.len() == 2 && problems[1].contains("no file after this one was read"), "{problems:#?}");
    let small = payload(&[], &[("a.yaml", &map("a")), ("b.yaml", &map("b"))]);
    assert_eq!(names(&load_within(small, &options(), most).unwrap()), ["a.yaml#0 a", "b.yaml#0 b"]);
}

/// Each is small, but what is known of it is not.
#[test]
fn number_of_manifests_is_limited() {
    let document = |n: usize| format!("---\nkind: A\napiVersion: v1\nmetadata: {{name: x{n}}}\n");
    let half = |from: usize| (from..from + 5000).map(document).collect::<String>();
    let (one, two) = (half(0), half(5000));
    let load = |more: &str| {
        load(payload(&[], &[("a.yaml", &one), ("b.yaml", &two), ("c.yaml", more), ("d.yaml", "[")]), &options())
    };
    let Err(LoadError::Integrity { problems, .. }) = load(&document(10_000)) else { panic!("loaded") };
    let [told] = problems.as_slice() else { panic!("{problems:#?}") };
    assert!(told.starts_with("release-manifests/c.yaml: line 2: with this"), "{told}");
    assert!(told.contains("more than the 10000 manifests that a release may have"), "{told}");
    let Err(LoadError::Integrity { problems, .. }) = load("# nothing\n") else { panic!("loaded") };
    assert!(problems.len() == 1 && problems[0].starts_with("release-manifests/d.yaml"), "{problems:#?}");
}

/// A skipped file may be one that a newer orchestrator can read. None could read this one.
#[test]
fn template_over_the_size_limit_fails_the_load() {
    let mut files = payload(&[("a.yaml", &"{{.ReleaseImage}}".repeat(20))], &[]);
    files.own.push(file("b.yaml", "{{.Unheard}}"));
    let image = "x".repeat(1 << 20);
    let Err(LoadError::Integrity { problems, .. }) = load(files, &LoadOptions { image, ..options() }) else {
        panic!("loaded")
    };
    let [told] = problems.as_slice() else { panic!("{problems:#?}") };
    assert!(told.starts_with("manifests/a.yaml: line 1: here the evaluated file exceeds the limit"), "{told}");
}

/// People look for the error in the template file, not in the evaluated text.
#[test]
fn errors_name_the_lines_of_the_template_file() {
    let comment = "# 1\n{{- /* 2\n3\n4\n5\n6\n7 */}}\n";
    let labels = map("b").replace("metadata:", "metadata:\n  labels: [a]");
    let own = [
        ("a.yaml", format!("{comment}kind: ConfigMap\nx: [\n")),
        ("b.yaml", format!("{comment}---\n{labels}")),
        ("c.yaml", format!("{comment}kind: A\napiVersion: v1\n")),
        ("d.yaml", format!("{comment}--- x\n")),
        ("e.json", "{{- /* 1\n2\n3\n4\n5\n6 */ -}}\n{\"kind\": \"A\",\n \"x\": ]\n".to_owned()),
        ("f.yaml", format!("{comment}---\n{}data: {{a: 1}}\n", map("f"))),
    ];
    let own: Vec<(&str, &str)> = own.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let found = problems(payload(&own, &[]));
    let expected = [
        "manifests/a.yaml: line 10: ",
        "manifests/c.yaml: line 8: metadata.name is missing",
        "manifests/d.yaml: line 8: only blanks",
        "manifests/e.json: line 7: neither JSON (line 8: ",
        "manifests/b.yaml: line 9: metadata.labels must be a map",
        "manifests/f.yaml: line 9: data[\"a\"] must be text",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} / {expected}");
    }
    assert!((7..=9).any(|line| found[3].contains(&format!("nor YAML (line {line}: "))), "{}", found[3]);
}

#[test]
fn excluded_manifests_may_be_invalid_and_null_is_empty_text() {
    let odd = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: odd, labels: {a: 5}}\ndata: {a: 1}\n";
    let nothing = map("a").replace("metadata:", "metadata:\n  labels: {l: }") + "data: {a: , b: x}\n";
    let loaded = load(payload(&[], &[("a.yaml", &nothing), ("odd.yaml", odd)]), &options()).unwrap();
    assert_eq!(names(&loaded), ["a.yaml#0 a"]);
}

#[test]
fn missing_manifest_is_reported_with_the_reason() {
    let id = |name: &str| ObjectId::new("", "ConfigMap", "ns", name);
    let excluded = map("b").replace("high-availability: \"true\"", "high-availability: \"false\"");
    let mut files = payload(&[("c.yaml", "{{ if }}")], &[("a.yaml", &map("a")), ("b.yaml", &excluded)]);
    let loaded = load(files.clone(), &options()).unwrap();
    assert_eq!(loaded.missing(&id("a")), None);
    let said = loaded.missing(&id("b")).unwrap();
    assert!(
        said.starts_with("release 1.0.0 has no configmap \"ns/b\"") && said.contains("b.yaml is excluded: "),
        "{said}"
    );
    let said = loaded.missing(&id("c")).unwrap();
    assert!(said.contains("could be read") && said.contains("manifests/c.yaml is skipped"), "{said}");
    files.own.clear();
    let said = load(files, &options()).unwrap().missing(&id("c")).unwrap();
    assert!(said.ends_with("no file contains it"), "{said}");
}

#[test]
fn hash_depends_on_included_content_only() {
    let hash = |release: &[(&str, &str)]| load(payload(&[], release), &options()).unwrap().hash;
    let (a, b) = (map("a"), map("b"));
    let both = hash(&[("a.yaml", &a), ("b.yaml", &b)]);
    assert_eq!(both, hash(&[("b.yaml", &b), ("a.yaml", &format!("# comment\n{a}"))]));
    assert_eq!(
        both,
        hash(&[("a.yaml", &a), ("b.yaml", &b), ("c.yaml", "kind: A\napiVersion: v1\nmetadata: {name: x}\n")])
    );
    assert_ne!(both, hash(&[("a.yaml", &a)]));
    assert_ne!(both, hash(&[("a.yaml", &b), ("b.yaml", &a)]));
}

fn real_release() -> Option<PayloadFiles> {
    let folder = std::env::var("CVO_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").into());
    let folder = Path::new(&folder).join("payload-5.0");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: {} is not there", folder.display());
        return None;
    };
    let mut files = PayloadFiles { place: folder.display().to_string(), ..PayloadFiles::default() };
    for entry in entries.map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap().replace("0.0.1-snapshot", "5.0.0");
        let own = name.contains("_cluster-version-operator_");
        if own { files.own.push(file(&name, &text)) } else { files.release.push(file(&name, &text)) }
    }
    files.release.push(file(metadata::FILE, &METADATA.replace("1.0.0", "5.0.0")));
    files.release.push(file(references::FILE, &REFERENCES.replace("1.0.0", "5.0.0")));
    Some(files)
}

/// A platform of some 740 files, if it is at hand.
#[test]
fn real_release_loads_the_same_twice() {
    let Some(files) = real_release() else { return };
    for source in files.own.iter().chain(&files.release).filter(|f| f.name.ends_with(".yaml")) {
        // This release contains nothing on which the two decoders are known to differ: octal numbers, yes and on. Kubernetes
        // ends the last line with a newline even if the file does not.
        let text = std::str::from_utf8(&source.bytes).unwrap();
        let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
        let other = serde_yaml::Deserializer::from_str(&text).map(|d| Value::deserialize(d).unwrap());
        let other: Vec<_> = other.filter(|value| !value.is_null()).collect();
        let ours: Vec<_> = yaml::documents(&source.bytes).unwrap().into_iter().map(|d| d.value).collect();
        assert!(ours == other, "{}", source.name);
    }
    let with = |set: &str, gates: &[&str]| LoadOptions {
        filter: Filter {
            feature_set: Some(set.into()),
            feature_gates: Some(gates.iter().map(|g| (*g).to_owned()).collect()),
            ..Filter::default()
        },
        ..options()
    };
    let first = load(files.clone(), &with("", &[])).unwrap();
    assert_eq!(first.warnings.len(), 1, "{:?}", first.warnings);
    assert!(first.manifests.len() > 700, "{}", first.manifests.len());
    println!("{} manifests, {} excluded, {}", first.manifests.len(), first.excluded.len(), first.hash);
    let deployment = ObjectId::new("apps", "Deployment", "openshift-cluster-version", "cluster-version-operator");
    let own = first.manifests.iter().find(|m| m.id == deployment).unwrap();
    assert_eq!(own.origin, Origin::Own);
    assert_eq!(own.object().unwrap()["spec"]["template"]["spec"]["containers"][0]["image"], "r/release@sha256:0");
    assert!(first.manifests.iter().take_while(|m| m.origin == Origin::Own).count() > 10);

    let mut files = files;
    files.own.reverse();
    files.release.reverse();
    let again = load(files.clone(), &with("", &[])).unwrap();
    assert_eq!((names(&first), &first.hash), (names(&again), &again.hash));
    let preview = load(files, &with("TechPreviewNoUpgrade", &[])).unwrap();
    assert_ne!(first.hash, preview.hash);
}
