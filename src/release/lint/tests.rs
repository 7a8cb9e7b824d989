use super::*;
use crate::release::{LoadOptions, PayloadFiles, SourceFile, load};
use serde_json::json;

const PROFILE: &str = "include.release.openshift.io/self-managed-high-availability";

/// The findings of a release of these files: check and file of each, and the messages.
fn of(files: &[(&str, Value)]) -> (Vec<(Check, String)>, String) {
    let mut release: Vec<SourceFile> = Vec::new();
    for (name, object) in files {
        release.push(SourceFile { name: (*name).to_owned(), bytes: object.to_string().into_bytes() });
    }
    let metadata = json!({"kind": "cincinnati-metadata-v0", "version": "1.0.0"});
    let references =
        json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.0.0"}});
    for (name, content) in [("release-metadata", metadata), ("image-references", references)] {
        release.push(SourceFile { name: name.to_owned(), bytes: content.to_string().into_bytes() });
    }
    let files = PayloadFiles { place: "/p".into(), release, ..PayloadFiles::default() };
    let payload = load(files, &LoadOptions::default()).unwrap();
    let excluded = payload.excluded.iter().map(|(manifest, _)| manifest.clone());
    let all: Vec<Arc<Manifest>> = payload.manifests.iter().cloned().chain(excluded).collect();
    let findings = lint(&all);
    let messages = findings.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("\n");
    (findings.into_iter().map(|finding| (finding.check, finding.file)).collect(), messages)
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "annotations": {PROFILE: "true"}}})
}

fn namespace(name: &str) -> Value {
    object("v1", "Namespace", "", name)
}

fn definition(group: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let mut definition =
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &format!("{plural}.{group}"));
    definition["spec"] = json!({"group": group, "scope": "Cluster", "names": {"kind": kind, "plural": plural},
        "versions": [{"name": "v1", "served": true, "storage": true}]});
    definition
}

fn deployment(image: &str) -> Value {
    let mut deployment = object("apps/v1", "Deployment", "ns", "web");
    deployment["spec"] = json!({"template": {"spec": {"initContainers": [{"name": "i", "image": "r/i@sha256:1"}],
        "containers": [{"name": "c", "image": image}]}}});
    deployment
}

fn named(expected: &[(Check, &str)]) -> Vec<(Check, String)> {
    expected.iter().map(|(check, file)| (*check, (*file).to_owned())).collect()
}

#[test]
fn good_release_has_no_findings() {
    let files = [
        ("0000_10_a_00_namespace.json", namespace("ns")),
        ("0000_10_a_01_definition.json", definition("a.example", "Gadget")),
        ("0000_20_b_00_gadget.json", object("a.example/v1", "Gadget", "", "g")),
        ("0000_20_b_01_deployment.json", deployment("r/a@sha256:1")),
        ("0000_20_b_02_map.json", object("v1", "ConfigMap", "kube-system", "m")),
        ("0000_20_b_03_role.json", object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "r")),
    ];
    assert_eq!(of(&files), (Vec::new(), String::new()));
}

#[test]
fn what_is_used_has_to_be_there_and_in_time() {
    let files = [
        ("0000_10_a_00_map.json", object("v1", "ConfigMap", "late", "m")),
        ("0000_10_a_01_map.json", object("v1", "ConfigMap", "nowhere", "m")),
        ("0000_10_a_02_map.json", object("v1", "Secret", "nowhere", "m")),
        ("0000_10_a_03_gadget.json", object("a.example/v1", "Gadget", "", "g")),
        ("0000_10_a_04_gizmo.json", object("a.example/v1", "Gizmo", "", "g")),
        ("0000_20_b_00_namespace.json", namespace("late")),
        ("0000_20_b_01_definition.json", definition("a.example", "Gadget")),
    ];
    let (findings, messages) = of(&files);
    let expected = [
        (Check::UnknownKind, "0000_10_a_04_gizmo.json"),
        (Check::LateKind, "0000_10_a_03_gadget.json"),
        (Check::NoNamespace, "0000_10_a_01_map.json"),
        (Check::LateNamespace, "0000_10_a_00_map.json"),
    ];
    assert_eq!(findings, named(&expected));
    for words in ["defines Gizmo.a.example", "in 0000_20_b_01_definition.json", "the namespace nowhere"] {
        assert!(messages.contains(words), "{words}: {messages}");
    }
}

#[test]
fn what_takes_part_nowhere_or_is_not_named_like_others() {
    let mut alone = object("v1", "ConfigMap", "default", "alone");
    alone["metadata"]["annotations"] = json!({"some": "thing"});
    let files = [("0000_10_a_00_alone.json", alone), ("extra.json", object("v1", "ConfigMap", "default", "m"))];
    let expected = [(Check::NoProfile, "0000_10_a_00_alone.json"), (Check::NoRunLevel, "extra.json")];
    assert_eq!(of(&files).0, named(&expected));
}

#[test]
fn object_belongs_to_one_component() {
    let map = || object("v1", "ConfigMap", "default", "m");
    let files = [("0000_10_a_00_map.json", map()), ("0000_10_b_00_map.json", map())];
    let (findings, messages) = of(&files);
    assert_eq!(findings, named(&[(Check::TwoComponents, "0000_10_b_00_map.json")]));
    assert!(messages.contains("0000_10_a_00_map.json"), "{messages}");
    let mut other = map();
    other["metadata"]["annotations"]["release.openshift.io/feature-set"] = json!("TechPreviewNoUpgrade");
    let files = [("0000_10_a_00_map.json", map()), ("0000_10_b_00_map.json", other)];
    assert!(of(&files).0.is_empty(), "a cluster includes one of them");
}

#[test]
fn images_are_named_by_digest_and_operators_are_reported_by_somebody() {
    let operator = || object("config.openshift.io/v1", "ClusterOperator", "", "web");
    let files = [
        ("0000_10_a_00_namespace.json", namespace("ns")),
        ("0000_10_a_01_definition.json", definition("config.openshift.io", "ClusterOperator")),
        ("0000_10_a_02_deployment.json", deployment("r/a:latest")),
        ("0000_20_b_00_operator.json", operator()),
    ];
    let (findings, messages) = of(&files);
    let expected =
        [(Check::ImageByTag, "0000_10_a_02_deployment.json"), (Check::NobodyReports, "0000_20_b_00_operator.json")];
    assert_eq!(findings, named(&expected));
    assert!(messages.contains("\"r/a:latest\""), "{messages}");
    let [first, second, third, _] = files;
    let files = [first, second, third, ("0000_10_a_03_operator.json", operator())];
    assert_eq!(of(&files).0.len(), 1, "its component runs something");
}
