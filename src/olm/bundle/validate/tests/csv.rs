//! The ClusterServiceVersion by itself.

use super::*;

#[test]
#[rustfmt::skip]
fn names_and_versions_are_checked() {
    expect(&[
        (CSV_FILE, "name: widget-operator.v1.2.0", "name: Widget", Error, Check::Name, "metadata.name", "\"Widget\" is no name"),
        (CSV_FILE, "version: 1.2.0", "version: v1.2", Error, Check::Version, "spec.version", "\"v1.2\" is not a semantic version"),
        (CSV_FILE, "version: 1.2.0", "release: x", Error, Check::Version, "spec.version", "\"\" is not a semantic version"),
        (CSV_FILE, "minKubeVersion: 1.25.0", "minKubeVersion: new", Error, Check::Version, "spec.minKubeVersion", "\"new\" is no version"),
        (CSV_FILE, "version: 1.2.0", "version: 1.2.0\n  release: \"01\"", Error, Check::Version, "spec.release", "\"01\" is no release"),
        (CSV_FILE, "version: 1.2.0", "version: 1.2.0\n  release: aaaaaaaaaaaaaaaaaaaaa", Error, Check::Version, "spec.release", "at most 20"),
        (CSV_FILE, "version: 1.2.0", "version: 1.2.0+b\n  release: \"2\"", Error, Check::Version, "spec.version", "no build metadata"),
        (CSV_FILE, "version: 1.2.0", "version: 1.2.0\n  release: \"2\"", Error, Check::Name, "metadata.name", "-v1.2.0-2"),
    ]);
    for minimum in ["v1.25", "1.25", "1.25.0-rc.1"] {
        assert_eq!(found(&replaced(CSV_FILE, "1.25.0", &format!("\"{minimum}\""))), [], "{minimum}");
    }
}

#[test]
#[rustfmt::skip]
fn required_fields_are_checked() {
    let deployments = "spec.install.spec.deployments";
    let first = format!("{deployments}[0].name");
    expect(&[
        (CSV_FILE, "displayName: Widget Operator", "a: b", Error, Check::Field, "spec.displayName", "must be set"),
        (CSV_FILE, "strategy: deployment", "strategy: job", Error, Check::Field, "spec.install.strategy", "\"job\""),
        (CSV_FILE, "      deployments:", "      others:", Error, Check::Field, deployments, "nothing would run"),
        (CSV_FILE, "      - name: widget-operator\n", "      - name: A\n", Error, Check::Name, &first, "\"A\" is no name"),
        (CSV_FILE, "      deployments:\n", "      deployments:\n      - {name: widget-operator}\n", Error, Check::Duplicate, "spec.install.spec.deployments[1].name", "there twice"),
        (CSV_FILE, "description: Makes widgets.", "a: b", Warning, Check::Field, "spec.description", "not set"),
        (CSV_FILE, "provider:", "providers:", Warning, Check::Field, "spec.provider.name", "not set"),
        (CSV_FILE, "  icon:", "  icons:", Warning, Check::Field, "spec.icon", "not set"),
        (CSV_FILE, "PHN2ZyB4bWxucz0i", "PHN2ZyB4bWxucz0", Error, Check::Field, "spec.icon[0].base64data", "no base64"),
        (CSV_FILE, "image/svg+xml", "text/html", Error, Check::Field, "spec.icon[0].mediatype", "no type of a picture"),
        (CSV_FILE, "example.com/prepare:1.2.0", "example.com/Prepare", Error, Check::Field, deployments, "\"registry.example.com/Prepare\" is no image"),
        (CSV_FILE, "example.com/widget@sha256:1", "example.com/widget@", Error, Check::Field, "spec.relatedImages", "is no image"),
    ]);
}

#[test]
#[rustfmt::skip]
fn modes_of_installation_are_checked() {
    let mode = |number: usize| format!("spec.installModes[{number}].type");
    let all = "{type: AllNamespaces, supported: true}";
    expect(&[
        (CSV_FILE, "type: AllNamespaces", "type: Everywhere", Error, Check::InstallMode, &mode(3), "\"Everywhere\" is no mode"),
        (CSV_FILE, "type: AllNamespaces", "type: OwnNamespace", Error, Check::InstallMode, &mode(3), "OwnNamespace is there twice"),
        (CSV_FILE, "supported: true", "supported: false", Error, Check::InstallMode, "spec.installModes", "no mode is supported"),
        (CSV_FILE, &format!("  - {all}\n"), "", Warning, Check::InstallMode, "spec.installModes", "AllNamespaces is not named"),
    ]);
}

#[test]
#[rustfmt::skip]
fn edges_to_other_versions_are_checked() {
    let range = "metadata.annotations.olm.skipRange";
    expect(&[
        (CSV_FILE, "replaces: widget-operator.v1.1.0", "replaces: widget-operator.v1.2.0", Error, Check::UpdateEdge, "spec.replaces", "itself"),
        (CSV_FILE, "[widget-operator.v1.1.1]", "[\"\"]", Error, Check::UpdateEdge, "spec.skips[0]", "empty"),
        (CSV_FILE, "[widget-operator.v1.1.1]", "[widget-operator.v1.2.0]", Error, Check::UpdateEdge, "spec.skips[0]", "itself"),
        (CSV_FILE, ">=1.0.0 <1.2.0", ">=1.0.0, <1.2.0", Error, Check::UpdateEdge, range, "is no range"),
        (CSV_FILE, ">=1.0.0 <1.2.0", ">=1.0.0 <1.3.0", Warning, Check::UpdateEdge, range, "contains this version"),
    ]);
}

#[test]
fn examples_are_objects_of_owned_kinds() {
    let place = "metadata.annotations.alm-examples";
    expect(&[
        (CSV_FILE, "[{\"apiVersion\"", "[{apiVersion", Error, Check::Example, place, "no JSON"),
        (
            CSV_FILE,
            "alm-examples: |\n",
            "alm-examples: |\n      1\n    other: |\n",
            Error,
            Check::Example,
            place,
            "no list of objects",
        ),
        (
            CSV_FILE,
            "\"kind\": \"Widget\"",
            "\"kind\": \"Gadget\"",
            Warning,
            Check::Example,
            "metadata.annotations.alm-examples[0]",
            "owns no \"Gadget\"",
        ),
    ]);
}
