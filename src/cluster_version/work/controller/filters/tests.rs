use super::*;
use crate::cluster_version::api::HistoryState;
use crate::cluster_version::api::{Capabilities as Reported, HistoryEntry};
use crate::release::{LoadOptions, PayloadFiles, SourceFile, load};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

fn file(name: &str, text: String) -> SourceFile {
    SourceFile { name: name.into(), bytes: text.into_bytes() }
}

/// A release with one ConfigMap for each pair of name and annotation.
fn payload(version: &str, manifests: &[(&str, &str, &str)]) -> Payload {
    let mut release = vec![
        file("release-metadata", json!({"kind": "cincinnati-metadata-v0", "version": version}).to_string()),
        file(
            "image-references",
            json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": version}})
                .to_string(),
        ),
    ];
    for (name, key, value) in manifests {
        let mut annotations = json!({"include.release.openshift.io/self-managed-high-availability": "true"});
        annotations[*key] = json!(value);
        let metadata = json!({"name": name, "namespace": "ns", "annotations": annotations});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        release.push(file(&format!("0000_50_{name}_x.json"), object.to_string()));
    }
    let files = PayloadFiles { place: "here".into(), own: Vec::new(), release, ..PayloadFiles::default() };
    let image = format!("r@sha256:{version}");
    load(files, &LoadOptions { image, ..LoadOptions::default() }).unwrap()
}

const GATE: &str = "release.openshift.io/feature-gate";
const CAPABILITY: &str = "capability.openshift.io/name";

fn features(entries: &[(&str, &[&str])]) -> Arc<Features> {
    let gates = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    let gates = entries.iter().map(|(version, names)| ((*version).to_owned(), gates(names))).collect();
    Arc::new(Features { gates, ..Features::default() })
}

fn status(versions: &[&str], enabled: &[&str]) -> ClusterVersionStatus {
    let entry = |version: &&str| HistoryEntry {
        state: HistoryState::Completed,
        started_time: Time(Timestamp::UNIX_EPOCH),
        completion_time: None,
        version: (*version).to_owned(),
        image: String::new(),
        verified: false,
        accepted_risks: String::new(),
    };
    ClusterVersionStatus {
        history: versions.iter().map(entry).collect(),
        capabilities: Reported {
            enabled_capabilities: enabled.iter().map(|n| (*n).to_owned()).collect(),
            known_capabilities: Vec::new(),
        },
        ..ClusterVersionStatus::default()
    }
}

fn spec(baseline: &str, additional: &[&str]) -> ClusterVersionSpec {
    let capabilities = CapabilitiesSpec {
        baseline_capability_set: baseline.into(),
        additional_enabled_capabilities: additional.iter().map(|n| (*n).to_owned()).collect(),
    };
    ClusterVersionSpec { capabilities: Some(capabilities), ..ClusterVersionSpec::default() }
}

fn filter() -> EffectiveFilter {
    EffectiveFilter::new(Filter::default(), &[])
}

fn names(payload: &Payload, filter: &EffectiveFilter) -> String {
    let selection = payload.select(filter.get());
    selection.manifests.iter().map(|m| m.id.name.as_str()).collect::<Vec<_>>().join(" ")
}

const GATED: [(&str, &str, &str); 3] = [("on", GATE, "A"), ("off", GATE, "-A"), ("other", GATE, "B")];

/// Until something is decided for a release, what was decided before it holds, also in the process that takes over.
#[test]
fn gates_hold_until_the_release_has_an_entry() {
    let release = payload("5.0.1", &GATED);
    let fresh = |entries: &[(&str, &[&str])], history: &[&str], expected: &str| {
        let mut filter = filter();
        filter.update(&release, &ClusterVersionSpec::default(), &status(history, &[]), &features(entries));
        assert_eq!(names(&release, &filter), expected, "{entries:?} {history:?}");
    };
    fresh(&[], &[], "off");
    fresh(&[("5.0.0", &["A"])], &[], "off");
    fresh(&[("5.0.0", &["A"])], &["5.0.1", "5.0.0"], "on");
    fresh(&[("5.0.0", &["A"]), ("4.9.0", &["B"])], &["5.0.1", "5.0.0", "4.9.0"], "on");
    fresh(&[("5.0.0", &["A"]), ("5.0.1", &["B"])], &["5.0.1", "5.0.0"], "off other");
    // What one process has decided by holds when the entry goes for a while.
    let mut filter = filter();
    let history = status(&["5.0.1", "5.0.0"], &[]);
    for (entries, expected) in [(&[("5.0.1", &["A"][..])][..], "on"), (&[("5.0.0", &["B"])], "on")] {
        filter.update(&release, &ClusterVersionSpec::default(), &history, &features(entries));
        assert_eq!(names(&release, &filter), expected, "{entries:?}");
    }
}

/// The filter that a target is loaded with is the one it is applied with.
#[test]
fn target_is_loaded_with_its_own_gates_or_else_the_last_ones() {
    let (own, mut filter) = (payload("5.0.0", &[]), filter());
    let now = features(&[("5.0.0", &["A"]), ("5.0.2", &["B"])]);
    filter.update(&own, &ClusterVersionSpec::default(), &status(&[], &[]), &now);
    for (version, gate) in [("5.0.1", "A"), ("5.0.2", "B"), ("", "A")] {
        let gates = filter.for_load(version, &now).feature_gates.unwrap();
        assert_eq!(gates.into_iter().collect::<Vec<_>>(), [gate], "{version}");
    }
}

#[test]
fn gates_that_no_manifest_mentions_do_not_change_the_filter() {
    let (release, mut filter) = (payload("5.0.0", &GATED), filter());
    let (spec, status) = (ClusterVersionSpec::default(), status(&[], &[]));
    filter.update(&release, &spec, &status, &features(&[("5.0.0", &["A"])]));
    let begun = filter.get().clone();
    filter.update(&release, &spec, &status, &features(&[("5.0.0", &["A", "Elsewhere"])]));
    assert!(filter.get().agrees_with(&begun));
    filter.update(&release, &spec, &status, &features(&[("5.0.0", &["A", "B"])]));
    assert!(!filter.get().agrees_with(&begun));
}

/// What an update implied is still enabled, and told, in the process that takes over, because status says so.
#[test]
fn implied_capabilities_outlive_the_process() {
    let old = payload("5.0.0", &[("moves", CAPABILITY, ""), ("disabled", CAPABILITY, "Console")]);
    let new = payload("5.0.1", &[("moves", CAPABILITY, "Build"), ("disabled", CAPABILITY, "Console+Insights")]);
    let (wish, none) = (spec("None", &["Storage"]), features(&[]));
    let mut outgoing = filter();
    outgoing.update(&old, &wish, &status(&[], &[]), &none);
    assert_eq!(names(&old, &outgoing), "moves");
    let before = old.select(outgoing.get());
    outgoing.update(&new, &wish, &status(&[], &[]), &none);
    assert_eq!(names(&new, &outgoing), "", "it would become unmanaged");
    let implied = outgoing.imply(&new.select(outgoing.get()), &before);
    assert_eq!(implied.into_iter().collect::<Vec<_>>(), ["Build"]);
    assert_eq!(names(&new, &outgoing), "moves");
    let told = outgoing.facts();
    assert_eq!((told.enabled.join(" "), told.implicit.join(" ")), ("Build Storage".into(), "Build".into()));
    let begun = outgoing.get().clone();

    let enabled: Vec<&str> = told.enabled.iter().map(String::as_str).collect();
    let mut successor = filter();
    successor.update(&new, &wish, &status(&["5.0.1", "5.0.0"], &enabled), &none);
    assert_eq!(successor.facts(), told);
    assert!(successor.get().agrees_with(&begun));

    // Withdrawn wishes disable nothing; granted ones are no longer implicit.
    successor.update(&new, &spec("None", &["Build"]), &status(&[], &[]), &none);
    let told = successor.facts();
    assert_eq!((told.enabled.join(" "), told.implicit.join(" ")), ("Build Storage".into(), "Storage".into()));
    assert!(successor.get().agrees_with(&begun));
}
