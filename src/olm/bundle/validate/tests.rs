//! What is found in bundles, each by a change of the example, in which nothing is.

mod advice;
mod apis;
mod csv;

use super::*;
use crate::olm::bundle::SourceFile;
use crate::olm::bundle::annotations::PREFIX;
use crate::olm::bundle::finding::Weight::{self, Error, Warning};
use crate::olm::bundle::read;
use crate::olm::bundle::tests::{contents, example, replaced, with, without};

const CSV_FILE: &str = "manifests/widget-operator.clusterserviceversion.yaml";
const CRD_FILE: &str = "manifests/widgets.crd.yaml";
const ANNOTATIONS: &str = "metadata/annotations.yaml";
const DEPENDENCIES: &str = "metadata/dependencies.yaml";
const PROPERTIES: &str = "metadata/properties.yaml";

fn found(files: &[SourceFile]) -> Vec<Finding> {
    validate(&contents(files))
}

/// Each change of a file makes one finding: its weight, check and place, and a part of its message.
#[track_caller]
fn expect(rows: &[(&str, &str, &str, Weight, Check, &str, &str)]) {
    for (file, from, to, weight, check, place, message) in rows {
        let all = found(&replaced(file, from, to));
        let hit = |it: &&Finding| {
            it.weight == *weight && it.check == *check && it.place == *place && it.message.contains(message)
        };
        let hit = all.iter().find(hit);
        assert!(hit.is_some(), "{from:?} -> {to:?}: {all:#?}");
        assert!(hit.unwrap().message.contains([':', ',']), "a way out is missing: {hit:?}");
    }
}

#[test]
fn nothing_is_found_in_a_good_bundle() {
    assert_eq!(found(&example()), []);
}

#[test]
fn annotations_are_checked() {
    let key = |key: &str| format!("{PREFIX}{key}");
    expect(&[
        (
            ANNOTATIONS,
            "package.v1: widget-operator",
            "package.v1: Widgets",
            Error,
            Check::Annotation,
            &key("package.v1"),
            "\"Widgets\"",
        ),
        (ANNOTATIONS, "bundle.package.v1", "bundle.x", Error, Check::Annotation, &key("package.v1"), "missing"),
        (ANNOTATIONS, "bundle.mediatype.v1", "bundle.x", Error, Check::Annotation, &key("mediatype.v1"), "missing"),
        (ANNOTATIONS, "bundle.manifests.v1", "bundle.x", Error, Check::Annotation, &key("manifests.v1"), "missing"),
        (ANNOTATIONS, "bundle.metadata.v1", "bundle.x", Error, Check::Annotation, &key("metadata.v1"), "missing"),
        (
            ANNOTATIONS,
            "registry+v1",
            "helm",
            Error,
            Check::Annotation,
            &key("mediatype.v1"),
            "\"helm\" cannot be installed",
        ),
        (ANNOTATIONS, "stable,fast", "','", Error, Check::Annotation, &key("channels.v1"), "no channel"),
        (ANNOTATIONS, "stable,fast", "stable, a b", Error, Check::Annotation, &key("channels.v1"), "\"a b\""),
        (
            ANNOTATIONS,
            "default.v1: stable",
            "default.v1: a/b",
            Error,
            Check::Annotation,
            &key("channel.default.v1"),
            "\"a/b\"",
        ),
        (
            ANNOTATIONS,
            "default.v1: stable",
            "default.v1: slow",
            Warning,
            Check::Annotation,
            &key("channel.default.v1"),
            "\"slow\"",
        ),
        (
            ANNOTATIONS,
            "build: \"17\"",
            "build: 17",
            Warning,
            Check::Annotation,
            "annotations.com.example.build",
            "quotes",
        ),
    ]);
    let missing = found(&without(ANNOTATIONS));
    assert_eq!((missing.len(), missing[0].check), (1, Check::MetadataFile), "{missing:?}");
}

#[test]
fn annotations_and_labels_of_the_image_agree() {
    let labels = |changes: &[(&str, &str)]| {
        let mut labels = contents(&example()).annotations.0;
        labels.extend(changes.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned())));
        validate(&read::read(&example(), &labels).unwrap())
    };
    assert_eq!(labels(&[]), []);
    let [other] = labels(&[("package.v1", "other")]).try_into().unwrap();
    assert_eq!((other.weight, &*other.place), (Error, &*format!("{PREFIX}package.v1")));
    assert!(other.message.contains("label \"other\" and the file \"widget-operator\""), "{other:?}");
    let fewer = BTreeMap::from([(format!("{PREFIX}package.v1"), "widget-operator".to_owned())]);
    let all = validate(&read::read(&example(), &fewer).unwrap());
    assert_eq!((all.len(), all[0].weight), (5, Warning), "{all:?}");
}

#[test]
fn cluster_service_version_must_be_there_and_readable() {
    for (files, expected) in [
        (without(CSV_FILE), "there is no ClusterServiceVersion"),
        (
            with(
                "manifests/other.yaml",
                "{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: b}}",
            ),
            "exactly one",
        ),
        (replaced(CSV_FILE, "version: 1.2.0", "version: []"), "spec.version: invalid type"),
    ] {
        let all = found(&files);
        let [only] = all.iter().filter(|it| it.check == Check::Csv).collect::<Vec<_>>().try_into().unwrap();
        assert!(only.message.contains(expected) && only.weight == Error, "{all:?}");
    }
}

#[test]
fn file_that_cannot_be_read_is_an_error_if_it_is_meant_to_be_a_manifest() {
    for (name, weight) in [("a.yaml", Error), ("a.json", Error), ("a.md", Warning)] {
        let [only] = found(&with(&format!("manifests/{name}"), "a: [")).try_into().unwrap();
        assert_eq!((only.weight, only.check), (weight, Check::NotYaml), "{only:?}");
    }
}

#[test]
fn objects_must_have_names_and_kinds_that_are_installed() {
    let object = |kind: &str, name: &str| {
        with("manifests/x.yaml", &format!("{{apiVersion: v1, kind: {kind}, metadata: {{{name}}}}}"))
    };
    for (files, check, expected) in [
        (object("Pod", "name: a"), Check::UnsupportedKind, "are not installed with an operator"),
        (object("List", "name: a"), Check::UnsupportedKind, "are not installed with an operator"),
        (object("Secret", ""), Check::Name, "the Secret has no name"),
        (
            object("Service", "name: widget-operator-metrics"),
            Check::Duplicate,
            "it is also in manifests/monitoring.yaml",
        ),
    ] {
        let [only] = found(&files).try_into().unwrap();
        assert_eq!((only.check, only.weight, &*only.file), (check, Error, "manifests/x.yaml"));
        assert!(only.message.contains(expected), "{only:?}");
    }
}

#[test]
fn versions_of_kinds_that_no_server_has_are_errors() {
    expect(&[
        (
            CRD_FILE,
            "apiextensions.k8s.io/v1",
            "apiextensions.k8s.io/v1beta1",
            Error,
            Check::Version,
            "customresourcedefinition.apiextensions.k8s.io \"widgets.example.com\"",
            "write it as apiextensions.k8s.io/v1",
        ),
        (
            CSV_FILE,
            "apiVersion: operators.coreos.com/v1alpha1",
            "apiVersion: v1alpha1",
            Warning,
            Check::Version,
            "ClusterServiceVersion",
            "it is taken for operators.coreos.com/v1alpha1",
        ),
    ]);
}

#[test]
fn objects_must_fit_into_the_store() {
    let of = |bytes: usize| {
        let text = "x".repeat(bytes);
        found(&with(
            "manifests/x.yaml",
            &format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{a: {text}}}}}"),
        ))
    };
    assert_eq!(of(1_000_000), []);
    let [large] = of(1_100_000).try_into().unwrap();
    assert_eq!((large.check, large.weight), (Check::Size, Warning), "{large:?}");
    let [too_large] = of(1_500_000).try_into().unwrap();
    assert_eq!((too_large.check, too_large.weight), (Check::Size, Error), "{too_large:?}");
}
