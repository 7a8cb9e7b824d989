use crate::release::filter::ApplyFilter;
use crate::release::{Capabilities, Filter, LoadOptions, Payload, PayloadFiles, SourceFile, load};
use std::collections::BTreeSet;

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.into(), bytes: text.as_bytes().to_vec() }
}

fn manifest(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: ns\n  annotations:\n    \
         include.release.openshift.io/self-managed-high-availability: \"true\"\n{annotations}---\n"
    )
}

const GATE: &str = "    release.openshift.io/feature-gate: A\n";
const NO_GATE: &str = "    release.openshift.io/feature-gate: -A,B\n";

fn payload(gates: &[&str]) -> Payload {
    let metadata = r#"{"kind": "cincinnati-metadata-v0", "version": "4.9.0"}"#;
    let references = "kind: ImageStream\napiVersion: image.openshift.io/v1\nmetadata: {name: 4.9.0}\n";
    let console = "    capability.openshift.io/name: Console\n";
    let files = PayloadFiles {
        place: "here".into(),
        own: vec![file("0000_90_own_x.yaml", &manifest("own", ""))],
        release: vec![
            file("release-metadata", metadata),
            file("image-references", references),
            file("0000_10_b_x.yaml", &(manifest("b0", NO_GATE) + &manifest("b1", GATE) + &manifest("b2", ""))),
            file("0000_10_a_x.yaml", &(manifest("a0", GATE) + &manifest("a1", console))),
        ],
        ..PayloadFiles::default()
    };
    load(files, &LoadOptions { filter: with(gates).load, ..LoadOptions::default() }).unwrap()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn with(gates: &[&str]) -> ApplyFilter {
    let load = Filter { feature_set: Some(String::new()), feature_gates: Some(set(gates)), ..Filter::default() };
    ApplyFilter { load, ..ApplyFilter::default() }
}

fn names(payload: &Payload, filter: &ApplyFilter) -> String {
    let selection = payload.select(filter);
    assert_eq!(selection.manifests.len() + selection.excluded.len(), payload.all_manifests().len());
    selection.manifests.iter().map(|m| m.id.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// A change of gates needs no second load: the selection, its order and its hash equal those of a fresh load.
#[test]
fn selection_does_not_depend_on_the_gates_at_load_time() {
    for loaded in [&[][..], &["A"], &["A", "B"], &["B"]] {
        let held = payload(loaded);
        assert_eq!(held.mentioned_gates(), ["A", "B"].into());
        for (gates, expected) in [(&[][..], "own a1 b2"), (&["A"], "own a0 a1 b1 b2"), (&["B"], "own a1 b0 b2")] {
            assert_eq!(names(&held, &with(gates)), expected, "{loaded:?} {gates:?}");
            assert_eq!(held.select(&with(gates)).hash, payload(gates).hash, "{loaded:?} {gates:?}");
        }
    }
}

/// An excluded manifest does not count in "N of M". The hash is that of the release, whatever its capabilities.
#[test]
fn capabilities_exclude_manifests_but_keep_the_hash() {
    let held = payload(&[]);
    let filter = |capabilities| ApplyFilter { capabilities: Some(capabilities), ..with(&[]) };
    assert_eq!(names(&held, &filter(Capabilities::all())), "own a1 b2");
    let nothing = Capabilities { enabled: set(&[]), ..Capabilities::all() };
    let selection = held.select(&filter(nothing));
    assert_eq!((selection.manifests.len(), selection.loadable.len()), (2, 3));
    assert_eq!(selection.hash, held.hash);
    let reasons: Vec<_> = selection.excluded.iter().map(|(m, reason)| (m.id.name.as_str(), reason.as_str())).collect();
    assert!(reasons.contains(&("a1", "disabled capabilities: Console")), "{reasons:?}");
}
