use super::*;
use crate::object::manifest::{ObjectId, Origin};
use std::collections::BTreeMap;

fn manifest(id: ObjectId, annotations: &[(&str, &str)]) -> Manifest {
    Manifest {
        origin: Origin::Release,
        file: "0000_50_a_b.yaml".into(),
        index_in_file: 0,
        id,
        api_version: "v1".into(),
        annotations: annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>(),
        raw: b"{}".as_slice().into(),
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

const CAPABILITY: &str = "capability.openshift.io/name";
const PROFILE: (&str, &str) = ("include.release.openshift.io/self-managed-high-availability", "true");

fn crd() -> ObjectId {
    ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "x")
}

fn config_map() -> ObjectId {
    ObjectId::new("", "ConfigMap", "ns", "x")
}

fn strict() -> Filter {
    Filter {
        exclude_identifier: Some("first, hosted".into()),
        feature_set: Some(String::new()),
        feature_gates: Some(set(&["On"])),
        major: Some(4),
        ..Filter::default()
    }
}

/// Rows: annotation, value, and part of the reason or `""` if the manifest is included.
#[test]
fn annotations_include_or_exclude_a_custom_resource_definition() {
    let table = [
        ("exclude.release.openshift.io/hosted", "true", "hosted=true"),
        ("exclude.release.openshift.io/first", "true", "first=true"),
        ("exclude.release.openshift.io/hosted", "True", ""),
        ("exclude.release.openshift.io/hosted", "node-affinity", ""),
        ("exclude.release.openshift.io/other", "true", ""),
        (FEATURE_SET, "Default", ""),
        (FEATURE_SET, "Default,OKD", ""),
        (FEATURE_SET, "Default, OKD", "unknown feature set \" OKD\""),
        (FEATURE_SET, "Default,New", "unknown feature set \"New\""),
        (FEATURE_SET, "", "unknown feature set \"\""),
        (FEATURE_SET, "TechPreviewNoUpgrade", "does not list the cluster's feature set Default"),
        (FEATURE_GATE, "On", ""),
        (FEATURE_GATE, " On ,, -Off ", ""),
        (FEATURE_GATE, "", ""),
        (FEATURE_GATE, "On,Off", "Off is not enabled"),
        (FEATURE_GATE, "-On", "On is enabled"),
        (MAJOR_VERSION, "4", ""),
        (MAJOR_VERSION, " 3, 4 ", ""),
        (MAJOR_VERSION, "-3", ""),
        (MAJOR_VERSION, "4,-5", ""),
        (MAJOR_VERSION, "-4", "excludes major version 4"),
        (MAJOR_VERSION, "5", "excludes major version 4"),
        (MAJOR_VERSION, "5,-3", "excludes major version 4"),
        (MAJOR_VERSION, "4,-4", "both lists and negates 4"),
        (MAJOR_VERSION, "7,-7,4", "both lists and negates 7"),
        (MAJOR_VERSION, "4,x", "\"x\" is not a major version"),
        (MAJOR_VERSION, "+4", "is not a major version"),
        (MAJOR_VERSION, "--4", "is not a major version"),
        (MAJOR_VERSION, "", "is not a major version"),
    ];
    for (key, value, expected) in table {
        let reason = strict().check(&manifest(crd(), &[PROFILE, (key, value)])).err().unwrap_or_default();
        assert!(reason.contains(expected) && reason.is_empty() == expected.is_empty(), "{key}={value}: {reason:?}");
    }
}

#[test]
fn first_filter_that_excludes_gives_the_reason() {
    let table: [(&[(&str, &str)], &str); 6] = [
        (&[], "no annotations"),
        (&[("other", "x")], "self-managed-high-availability is not \"true\""),
        (&[("include.release.openshift.io/self-managed-high-availability", "yes")], "is not \"true\""),
        (&[PROFILE, (FEATURE_SET, "Default"), (FEATURE_GATE, "On")], "cannot be combined"),
        (&[("exclude.release.openshift.io/hosted", "true"), (FEATURE_SET, "x"), (FEATURE_GATE, "y")], "hosted=true"),
        (&[PROFILE, (MAJOR_VERSION, "4")], "not allowed on ConfigMap"),
    ];
    for (annotations, expected) in table {
        let reason = strict().check(&manifest(config_map(), annotations)).err().unwrap_or_default();
        assert!(reason.contains(expected), "{annotations:?}: {reason:?}");
    }
}

#[test]
fn filters_that_are_off_do_not_exclude() {
    let all = [(FEATURE_SET, "x"), (FEATURE_GATE, "y"), (MAJOR_VERSION, "z")];
    let open = Filter { profile: None, ..Filter::default() };
    assert_eq!(open.check(&manifest(config_map(), &all)), Ok(()));
    // The two feature annotations exclude each other only if both filters are on.
    let gates_only = Filter { feature_gates: Some(set(&["y"])), ..open.clone() };
    assert_eq!(gates_only.check(&manifest(config_map(), &all)), Ok(()));
    let nobody = Filter { profile: Some(String::new()), ..open };
    assert!(nobody.check(&manifest(config_map(), &[PROFILE])).is_err());
    let feature_gate = ObjectId::new("config.openshift.io", "FeatureGate", "", "cluster");
    assert_eq!(strict().check(&manifest(feature_gate, &[PROFILE, (MAJOR_VERSION, "4")])), Ok(()));
}

/// The load-time filters include manifests with unknown capabilities; only applying excludes them.
#[test]
fn capabilities_must_be_known_and_enabled() {
    let capabilities = Capabilities {
        known: set(&["Console", "Storage", "Build"]),
        enabled: set(&["Console", "Storage", "Future"]),
        implicit: set(&[]),
    };
    let filter = ApplyFilter { load: strict(), capabilities: Some(capabilities), overrides: Vec::new() };
    let table = [
        ("", ""),
        ("Console", ""),
        ("Console+Storage", ""),
        ("Console+Build", "disabled capabilities: Build"),
        ("Future+Build+New", "unrecognized capability names: Future, New"),
        ("Console+ Storage", "unrecognized capability names:  Storage"),
        ("Console+", "unrecognized capability names: "),
    ];
    for (value, expected) in table {
        let one = manifest(config_map(), &[PROFILE, (CAPABILITY, value)]);
        assert_eq!(strict().check(&one), Ok(()), "{value}");
        assert_eq!(check_inclusion(&one, &filter).err().unwrap_or_default(), expected, "{value}");
        let off = ApplyFilter { capabilities: None, ..filter.clone() };
        assert_eq!(check_inclusion(&one, &off), Ok(()), "{value}");
    }
    assert_eq!(check_inclusion(&manifest(config_map(), &[PROFILE]), &filter), Ok(()));
}

#[test]
fn capabilities_and_overrides_are_checked_after_the_load_time_filters() {
    let unmanaged = ComponentOverride {
        kind: "ConfigMap".into(),
        namespace: "ns".into(),
        name: "x".into(),
        unmanaged: true,
        ..ComponentOverride::default()
    };
    let filter =
        ApplyFilter { load: strict(), capabilities: Some(Capabilities::default()), overrides: vec![unmanaged] };
    let table: [(&[(&str, &str)], &str); 3] = [
        (&[(FEATURE_GATE, "Off"), PROFILE, (CAPABILITY, "Console")], "Off is not enabled"),
        (&[PROFILE, (CAPABILITY, "Console")], "unrecognized capability names: Console"),
        (&[PROFILE], "spec.overrides"),
    ];
    for (annotations, expected) in table {
        let reason = check_inclusion(&manifest(config_map(), annotations), &filter).err().unwrap_or_default();
        assert!(reason.contains(expected), "{annotations:?}: {reason:?}");
    }
}

/// The namespace of an override is ignored for a manifest without one.
#[test]
fn overrides_match_by_identity() {
    let entry = |group: &str, kind: &str, namespace: &str, name: &str, unmanaged| ComponentOverride {
        group: group.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
        unmanaged,
    };
    let table = [
        (config_map(), entry("", "ConfigMap", "ns", "x", true), true),
        (config_map(), entry("", "ConfigMap", "ns", "x", false), false),
        (config_map(), entry("", "ConfigMap", "other", "x", true), false),
        (config_map(), entry("", "Secret", "ns", "x", true), false),
        (config_map(), entry("apps", "ConfigMap", "ns", "x", true), false),
        (config_map(), entry("", "ConfigMap", "ns", "y", true), false),
        (crd(), entry("apiextensions.k8s.io", "CustomResourceDefinition", "wrong", "x", true), true),
    ];
    for (id, entry, expected) in table {
        assert_eq!(overridden(&manifest(id.clone(), &[]), std::slice::from_ref(&entry)), expected, "{id} {entry:?}");
    }
    assert!(!overridden(&manifest(crd(), &[]), &[]));
}
