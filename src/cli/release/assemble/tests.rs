//! Names, placeholders and checks of a release, as tables.

use super::*;

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn config_map(name: &str, extra: &str) -> Vec<u8> {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  x: {extra}\n").into_bytes()
}

fn stream(tags: &[(&str, &str)]) -> Vec<u8> {
    let tags: Vec<_> =
        tags.iter().map(|(n, i)| json!({"name": n, "from": {"kind": "DockerImage", "name": i}})).collect();
    json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": tags}}).to_string().into()
}

fn component(name: &str, manifests: &[(&str, Vec<u8>)], placeholders: Option<Vec<u8>>) -> Component {
    let manifests = manifests.iter().map(|(n, b)| (n.to_string(), b.clone())).collect();
    Component { name: name.into(), place: format!("in/{name}"), manifests, placeholders }
}

fn input(components: Vec<Component>, images: &[(&str, &str)]) -> Input {
    let tag = |(name, image): &(&str, &str)| (name.to_string(), Tag { image: image.to_string(), ..Tag::default() });
    Input {
        version: "1.2.3+b".parse().unwrap(),
        previous: ["1.10.0", "1.2.0", "1.2.0"].map(|v| v.parse().unwrap()).into(),
        next: Vec::new(),
        versions: BTreeMap::new(),
        metadata: Map::new(),
        created: "2026-01-02T03:04:05Z".parse().unwrap(),
        tags: images.iter().map(tag).collect(),
        components,
        profile: None,
    }
}

fn text(files: &ReleaseFiles, name: &str) -> String {
    String::from_utf8(files.files[name].clone()).unwrap()
}

fn problems(input: &Input) -> String {
    assemble(input).expect_err("it should be refused").to_string()
}

#[test]
fn files_are_named_by_run_level_and_component() {
    let a = component("net", &[("0000_07_net_a.yaml", config_map("a", "v1")), ("b.yaml", config_map("b", "v1"))], None);
    let b = component("web", &[("0000_07_net_a.yaml", config_map("c", "v1")), ("b.yaml", config_map("d", "v1"))], None);
    let files = assemble(&input(vec![b, a], &[])).unwrap();
    let names: Vec<_> = files.files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "0000_07_net_a.yaml",
            "0000_07_net_a_2.yaml",
            "0000_50_net_b.yaml",
            "0000_50_web_b.yaml",
            "image-references",
            "release-metadata"
        ]
    );
    assert!(text(&files, "0000_07_net_a.yaml").contains("name: a"), "components are taken in order of their names");
    assert_eq!(files.objects, 4);
}

#[test]
fn placeholders_are_replaced_by_pull_specs() {
    let target = format!("reg.example/net@{DIGEST}");
    let table = [
        ("quay.io/org/net", true),
        ("quay.io/org/net:v1", true),
        ("\"quay.io/org/net:v1.2-3\"", true),
        ("quay.io/org/net@sha256:0000000000000000000000000000000000000000000000000000000000000000", true),
        ("--image=quay.io/org/net:latest,x", true),
        ("see quay.io/org/net. It", true),
        ("quay.io/org/net-more:v1", false),
        ("quay.io/org/net.more:v1", false),
        ("quay.io/org/net/sub:v1", false),
        ("mirror/quay.io/org/net:v1", false),
        ("xquay.io/org/net:v1", false),
        ("quayxio/org/net:v1", false),
    ];
    for (value, replaced) in table {
        let placeholders = stream(&[("net", "quay.io/org/net:latest")]);
        let c = component("net", &[("a.yaml", config_map("a", &format!("'{value}'")))], Some(placeholders));
        let files = assemble(&input(vec![c], &[("net", &target)])).unwrap();
        let out = text(&files, "0000_50_net_a.yaml");
        assert_eq!(out.contains(&target), replaced, "{value}: {out}");
        if !replaced {
            assert!(out.contains(value), "{value} must stay as it is: {out}");
        }
    }
}

#[test]
fn longest_placeholder_is_replaced_in_its_component_only() {
    let (short, long) = (format!("r/short@{DIGEST}"), format!("r/long@{DIGEST}"));
    let placeholders = stream(&[("s", "quay.io/o/net"), ("l", "quay.io/o/net-proxy")]);
    let body = config_map("a", "quay.io/o/net:1 quay.io/o/net-proxy:1 quay.io/o/net");
    let c = component("net", &[("a.yaml", body.clone())], Some(placeholders));
    let other = component("other", &[("a.yaml", body)], None);
    let files = assemble(&input(vec![c, other], &[("s", &short), ("l", &long)])).unwrap();
    assert!(text(&files, "0000_50_net_a.yaml").contains(&format!("{short} {long} {short}")));
    assert!(text(&files, "0000_50_other_a.yaml").contains("quay.io/o/net:1 quay.io/o/net-proxy:1"));
}

#[test]
fn tags_distinguish_images_of_one_repository() {
    let (a, b) = (format!("r/a@{DIGEST}"), format!("r/b@{DIGEST}"));
    let placeholders = stream(&[("a", "place.holder/ns:a"), ("b", "place.holder/ns:b")]);
    let c = component("net", &[("m.yaml", config_map("m", "place.holder/ns:b place.holder/ns:a"))], Some(placeholders));
    let files = assemble(&input(vec![c], &[("a", &a), ("b", &b)])).unwrap();
    assert!(text(&files, "0000_50_net_m.yaml").contains(&format!("{b} {a}")));
}

#[test]
fn version_placeholders_are_replaced() {
    let body = config_map("a", "0.0.1-snapshot v0.0.1-snapshot-kubernetes");
    let mut with = input(vec![component("net", &[("a.yaml", body.clone())], None)], &[("k", "r/k")]);
    with.tags.get_mut("k").unwrap().annotations.insert(BUILD_VERSIONS.into(), "kubernetes=1.36.1+x, kernel=6".into());
    let files = assemble(&with).unwrap();
    assert!(text(&files, "0000_50_net_a.yaml").contains("x: 1.2.3 v1.36.1\n"), "without build metadata");

    let unknown = problems(&input(vec![component("net", &[("a.yaml", body)], None)], &[]));
    assert!(
        unknown.contains("in/net/a.yaml") && unknown.contains("no image declares a version of kubernetes"),
        "{unknown}"
    );

    let second = Tag {
        image: "r/l".into(),
        annotations: [(BUILD_VERSIONS.to_string(), "kubernetes=1.35.0".to_string())].into(),
    };
    with.tags.insert("l".into(), second);
    assert!(problems(&with).contains("1.35.0 and 1.36.1"));

    with.versions.insert("kubernetes".into(), "1.34.0".parse().unwrap());
    assert!(
        text(&assemble(&with).unwrap(), "0000_50_net_a.yaml").contains("v1.34.0\n"),
        "an explicit version takes precedence"
    );
}

#[test]
fn metadata_and_references_are_sorted_and_complete() {
    let mut release = input(Vec::new(), &[("web", "r/web"), ("net", "r/net")]);
    release.metadata.insert("url".into(), json!("https://example.com"));
    let files = assemble(&release).unwrap();
    let metadata: Value = serde_json::from_str(&text(&files, "release-metadata")).unwrap();
    assert_eq!(
        metadata,
        json!({"kind": "cincinnati-metadata-v0", "version": "1.2.3+b", "previous": ["1.2.0", "1.10.0"],
               "metadata": {"url": "https://example.com"}})
    );
    let references = text(&files, "image-references");
    let read: Vec<_> = image_stream(references.as_bytes()).unwrap().into_iter().map(|(n, t)| (n, t.image)).collect();
    assert_eq!(read, [("net".into(), "r/net".into()), ("web".to_string(), "r/web".to_string())]);
    let value: Value = serde_json::from_str(&references).unwrap();
    assert_eq!(value["metadata"], json!({"name": "1.2.3+b", "creationTimestamp": "2026-01-02T03:04:05Z"}));
}

#[test]
fn invalid_input_is_reported_with_file_and_remedy() {
    let table: [(&str, Vec<u8>, &str); 8] = [
        ("no yaml", b"a: [".to_vec(), "line 2"),
        ("no text", vec![0xff, 0xfe], "not UTF-8"),
        ("no kind", b"apiVersion: v1\nmetadata: {name: a}\n".to_vec(), "kind is missing"),
        ("no name", b"apiVersion: v1\nkind: A\nmetadata: {}\n".to_vec(), "metadata.name is missing"),
        (
            "name is no text",
            b"apiVersion: v1\nkind: A\nmetadata: {name: 1}\n".to_vec(),
            "metadata.name must be text, not 1",
        ),
        ("no version", b"kind: A\nmetadata: {name: a}\n".to_vec(), "apiVersion is missing"),
        ("a list", b"- 1\n".to_vec(), "a manifest must be an object"),
        (
            "twice",
            [config_map("a", "v1"), b"---\n".to_vec(), config_map("a", "v2")].concat(),
            "configmap \"a\" is in this file twice",
        ),
    ];
    for (what, bytes, expected) in table {
        let message = problems(&input(vec![component("net", &[("bad.yaml", bytes)], None)], &[]));
        assert!(message.contains("in/net/bad.yaml") && message.contains(expected), "{what}: {message}");
    }
    let missing = problems(&input(vec![component("net", &[], Some(stream(&[("cli", "q/cli")])))], &[]));
    assert!(missing.contains("in/net/image-references") && missing.contains("add cli=IMAGE@sha256:"), "{missing}");
    let foreign =
        problems(&input(vec![component("net", &[], Some(b"kind: Pod\napiVersion: v1\nspec: {}".to_vec()))], &[]));
    assert!(foreign.contains("must be an image.openshift.io/v1 ImageStream, not v1 Pod"), "{foreign}");
}

#[test]
fn empty_documents_and_comments_are_not_counted() {
    let body = [b"# only a comment\n---\n".to_vec(), config_map("a", "v1"), b"---\n".to_vec()].concat();
    assert_eq!(assemble(&input(vec![component("net", &[("a.yaml", body)], None)], &[])).unwrap().objects, 1);
}

#[test]
fn objects_without_a_profile_are_named() {
    let marked = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: b\n  annotations: \
                  {include.release.openshift.io/self-managed-high-availability: \"true\"}\n";
    let manifests = [("a.yaml", config_map("a", "v1")), ("b.yaml", marked.as_bytes().to_vec())];
    let files = assemble(&input(vec![component("net", &manifests, None)], &[])).unwrap();
    assert_eq!(files.unmarked, ["configmap \"a\" in a.yaml"]);
}

#[test]
fn objects_that_take_part_nowhere_are_marked_if_a_profile_is_given() {
    let marked = "# ours\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: ns, annotations: {include.release.openshift.io/other: 'true'}}\n";
    let unmarked = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: ns}\ndata: {version: 0.0.1-snapshot, mode: '0644'}\n";
    let both = format!("{marked}---\n{unmarked}");
    let manifests = [("marked.yaml", marked), ("both.yaml", both.as_str())];
    let component = Component {
        name: "a".into(),
        place: "a".into(),
        manifests: manifests.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into(),
        placeholders: None,
    };
    let without = assemble(&input(vec![component.clone()], &[])).unwrap();
    assert_eq!(without.unmarked.len(), 1, "{:?}", without.unmarked);
    let profile = Some("edge".to_owned());
    let with = assemble(&Input { profile, ..input(vec![component], &[]) }).unwrap();
    assert_eq!(with.unmarked, Vec::<String>::new());
    assert_eq!(text(&with, "0000_50_a_marked.yaml"), marked, "left as it is");
    let manifests = manifests_of(Origin::Release, "x", &with.files["0000_50_a_both.yaml"]).unwrap();
    let annotations = |at: usize| manifests[at].annotations.keys().cloned().collect::<Vec<_>>();
    assert_eq!(annotations(0), ["include.release.openshift.io/other"]);
    assert_eq!(annotations(1), ["include.release.openshift.io/edge"]);
    let data = manifests[1].object().unwrap()["data"].clone();
    assert_eq!(data, serde_json::json!({"version": "1.2.3", "mode": "0644"}));
}
