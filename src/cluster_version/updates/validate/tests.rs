use super::*;
use crate::cluster_version::api::{AcceptRisk, HistoryEntry, HistoryState};
use crate::cluster_version::status::tests::{at, release};
use crate::release::api::Release;

const ID: &str = "01234567-89ab-4cde-8f01-23456789abcd";

fn status() -> ClusterVersionStatus {
    let entry = |version: &str, image: &str| HistoryEntry {
        state: HistoryState::Completed,
        started_time: at(0),
        completion_time: None,
        version: version.into(),
        image: image.into(),
        verified: false,
        accepted_risks: String::new(),
    };
    let offered = ["a", "b"].map(|image| release("3.0.0", image));
    ClusterVersionStatus {
        available_updates: Some(
            [&offered[..], &[release("2.0.0", "c"), Release { version: "2.5.0".into(), ..Release::default() }]]
                .concat(),
        ),
        history: vec![entry("1.0.0", "d"), entry("1.0.0", "e"), entry("0.9.0", "")],
        ..ClusterVersionStatus::default()
    }
}

fn errors_of(update: Update, gates: FeatureGates) -> Vec<String> {
    let spec = ClusterVersionSpec { desired_update: Some(update), cluster_id: ID.into(), ..Default::default() };
    validate("version", gates, &spec, &status()).iter().map(|e| e.to_string()).collect()
}

fn version(text: &str) -> Update {
    Update { version: text.into(), ..Update::default() }
}

#[test]
fn desired_update_is_refused_for_its_first_error() {
    let risks = vec![AcceptRisk { name: "R".into() }];
    let on = FeatureGates { accept_risks: true, ..FeatureGates::default() };
    let off = FeatureGates::default();
    let gate_off = ".acceptRisks: Forbidden: the feature gate";
    // case, update, gates, beginning of the error behind spec.desiredUpdate ("" for none)
    let table = [
        ("risks while the gate is off", Update { accept_risks: risks.clone(), ..version("2.0.0") }, off, gate_off),
        ("the gate comes first", Update { accept_risks: risks.clone(), ..Update::default() }, off, gate_off),
        ("nothing is named", Update::default(), off, ""),
        ("force alone", Update { force: true, ..Update::default() }, off, ""),
        ("nothing is named, gate on", Update::default(), on, ""),
        ("risks alone, gate on", Update { accept_risks: risks.clone(), ..Update::default() }, on, ""),
        ("version and risks, gate on", Update { accept_risks: risks, ..version("2.0.0") }, on, ""),
        ("not a version", version("v2.0.0"), off, ".version: Invalid value: \"v2.0.0\": "),
        (
            "not a version, with an image",
            Update { image: "x".into(), ..version("2.0") },
            off,
            ".version: Invalid value: \"2.0\": ",
        ),
        ("unknown version", version("7.0.0"), off, ".version: Invalid value: \"7.0.0\": is neither"),
        ("available without an image", version("2.5.0"), off, ".version: Invalid value: \"2.5.0\": is neither"),
        ("in the history without an image", version("0.9.0"), off, ".version: Invalid value: \"0.9.0\": is neither"),
        ("two images", version("3.0.0"), off, ".version: Invalid value: \"3.0.0\": 2 available updates"),
        ("available", version("2.0.0"), off, ""),
        ("history, even twice", version("1.0.0"), off, ""),
        ("image decides", Update { image: "x".into(), ..version("7.0.0") }, off, ""),
        ("image alone", Update { image: "x".into(), ..Update::default() }, off, ""),
        ("architecture", Update { architecture: "Multi".into(), ..version("1.0.0") }, off, ""),
        (
            "preflight",
            Update { mode: "Preflight".into(), ..version("2.0.0") },
            off,
            ".mode: Invalid value: \"Preflight\": ",
        ),
        ("preflight first", Update { mode: "Preflight".into(), ..Update::default() }, on, ".mode: "),
        ("unknown mode", Update { mode: "Later".into(), image: "x".into(), ..version("2.0.0") }, on, ".mode: "),
    ];
    for (case, update, gates, expected) in table {
        let errors = errors_of(update, gates);
        match expected {
            "" => assert_eq!(errors, Vec::<String>::new(), "{case}"),
            expected => {
                assert_eq!(errors.len(), 1, "{case}: {errors:?}");
                let error = errors[0].strip_prefix("spec.desiredUpdate").unwrap();
                assert!(error.starts_with(expected), "{case}: {error}");
            }
        }
    }
}

#[test]
fn force_names_the_bytes_itself() {
    let forced = |update: Update| Update { force: true, ..update };
    let image = |text: &str| Update { image: text.into(), ..version("2.0.0") };
    for (update, value) in [
        (version("2.0.0"), ""),
        (Update { architecture: "Multi".into(), ..Update::default() }, ""),
        (image("r.test/release:2"), "r.test/release:2"),
        (image("r.test/release@sha256"), "r.test/release@sha256"),
    ] {
        let errors = errors_of(forced(update.clone()), FeatureGates::default());
        let expected =
            format!("spec.desiredUpdate.image: Invalid value: {value:?}: force needs the image by its digest");
        assert!(errors.len() == 1 && errors[0].starts_with(&expected), "{update:?}: {errors:?}");
        let unforced = errors_of(update.clone(), FeatureGates::default());
        assert!(!unforced.iter().any(|error| error.contains("force")), "{update:?}: {unforced:?}");
    }
    assert_eq!(errors_of(forced(image("r.test/release@sha256:00")), FeatureGates::default()), Vec::<String>::new());
}

#[test]
fn errors_are_in_the_order_of_the_fields() {
    let spec = ClusterVersionSpec { upstream: "#%GG".into(), cluster_id: "x".into(), ..Default::default() };
    let paths: Vec<_> =
        validate("Version", FeatureGates::default(), &spec, &status()).into_iter().map(|e| e.path).collect();
    assert_eq!(paths, ["metadata.name", "spec.upstream", "spec.clusterID"]);
}

#[test]
fn cluster_id_is_a_random_uuid() {
    let table = [
        ("", None),
        (ID, None),
        ("01234567-89ab-1cde-8f01-23456789abcd", Some("version 4")),
        ("01234567-89ab-4cde-cf01-23456789abcd", Some("RFC 4122")),
        ("nonsense", Some("RFC 4122")),
    ];
    for (id, expected) in table {
        let problem = cluster_id_problem(id);
        match expected {
            None => assert_eq!(problem, None, "{id}"),
            Some(part) => assert!(problem.is_some_and(|p| p.contains(part)), "{id}: {problem:?}"),
        }
    }
}

#[test]
fn name_is_a_dns_label() {
    let long = "a".repeat(64);
    let table = [
        ("version", true),
        ("a-1", true),
        ("1a", false),
        ("a-", false),
        ("", false),
        ("A", false),
        ("a.b", false),
        (&long, false),
    ];
    for (name, valid) in table {
        assert_eq!(is_label(name), valid, "{name}");
    }
}

#[test]
fn clear_removes_invalid_fields_only() {
    let spec = ClusterVersionSpec {
        cluster_id: ID.into(),
        upstream: "https://u".into(),
        channel: "stable".into(),
        desired_update: Some(version("1.0.0")),
        ..Default::default()
    };
    let cleared = |path: &str| clear(&spec, &[error(path, Wrong::Forbidden, "")]);
    assert_eq!(cleared("spec.upstream"), ClusterVersionSpec { upstream: String::new(), ..spec.clone() });
    assert_eq!(cleared("spec.clusterID"), ClusterVersionSpec { cluster_id: String::new(), ..spec.clone() });
    for path in ["spec.desiredUpdate.version", "spec.desiredUpdate.mode"] {
        assert_eq!(cleared(path), ClusterVersionSpec { desired_update: None, ..spec.clone() }, "{path}");
    }
    assert_eq!(cleared("spec.desiredUpdate"), spec);
    assert_eq!(cleared("metadata.name"), spec);
}

#[test]
fn signature_stores_need_their_feature_gate() {
    let spec = ClusterVersionSpec { signature_stores: Some(Vec::new()), ..ClusterVersionSpec::default() };
    let errors = |gates| validate("version", gates, &spec, &status());
    let off = errors(FeatureGates::default());
    assert_eq!(off.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), ["spec.signatureStores"]);
    assert_eq!(clear(&spec, &off), ClusterVersionSpec::default());
    assert_eq!(errors(FeatureGates::of(Some(&["SignatureStores".to_owned()].into()))), []);
}
