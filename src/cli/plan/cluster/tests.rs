use super::*;
use crate::cli::plan::text::tests::forecast as sample;
use crate::cluster_version::api::HistoryEntry;
use crate::release::api::ConditionalUpdate;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

#[test]
fn operators_that_could_not_be_listed_are_not_taken_for_none() {
    assert_eq!(refusals(&Operators::Failed("forbidden".into())), Read::Failed("forbidden".into()));
    assert_eq!(refusals(&Operators::Absent), Read::Value(Vec::new()), "the kind does not exist yet");
    assert_eq!(refusals(&Operators::Value(Vec::new())), Read::Value(Vec::new()));
}

fn release(version: &str, image: &str) -> Release {
    Release { version: version.into(), image: image.into(), ..Release::default() }
}

/// A history newest first; `+` before a version that completed. The newest one is desired.
fn status(history: &[&str]) -> ClusterVersionStatus {
    let image = |version: &str| format!("r/a@sha256:{version}");
    let entry = |text: &&str| {
        let version = text.trim_start_matches('+');
        HistoryEntry {
            state: if text.starts_with('+') { HistoryState::Completed } else { HistoryState::Partial },
            started_time: Time(Timestamp::UNIX_EPOCH),
            completion_time: None,
            version: version.to_owned(),
            image: image(version),
            verified: false,
            accepted_risks: String::new(),
        }
    };
    let history: Vec<HistoryEntry> = history.iter().map(entry).collect();
    let desired = history.first().map(|newest| release(&newest.version, &newest.image)).unwrap_or_default();
    ClusterVersionStatus { history, desired, ..ClusterVersionStatus::default() }
}

#[test]
fn another_release_waits_for_the_install_and_is_an_update_then() {
    let mirrored = Some("mirror/a@sha256:1.0.0");
    for (history, version, image, expected) in [
        (&["+1.0.0"][..], "1.0.1", Some("r/a@sha256:1.0.1"), Mode::Update),
        (&["1.0.1", "+1.0.0"], "1.0.1", None, Mode::Update),
        (&["1.0.0"], "1.0.0", mirrored, Mode::Install),
        (&["1.0.0"], "1.0.0", None, Mode::Install),
        (&["1.0.0"], "1.0.1", Some("r/a@sha256:1.0.1"), Mode::Update),
        (&["1.0.0"], "1.0.1", None, Mode::Update),
        (&["1.0.0"], "1.0.0", Some("r/a@sha256:other"), Mode::Update),
        (&[], "1.0.0", mirrored, Mode::Install),
    ] {
        assert_eq!(mode(&status(history), version, image), expected, "{history:?} {version} {image:?}");
    }
}

#[test]
fn release_without_an_image_is_judged_by_its_version() {
    let conditional = |release: Release| {
        let (risks, conditions, risk_names) = (Vec::new(), Vec::new(), Vec::new());
        ConditionalUpdate { release, risks, conditions, risk_names }
    };
    let status = ClusterVersionStatus {
        available_updates: Some(vec![release("1.0.1", "i1"), release("1.0.2", "i2"), release("1.0.2", "other")]),
        conditional_updates: vec![conditional(release("1.0.1", "i1")), conditional(release("1.0.3", "i3"))],
        ..ClusterVersionStatus::default()
    };
    for (version, image, expected, said) in [
        ("1.0.1", None, "i1", "i1"),
        ("1.0.3", None, "i3", "i3"),
        ("1.0.2", None, "", "its pull spec is not known"),
        ("1.0.4", None, "", "its pull spec is not known"),
        ("1.0.1", Some("given"), "given", ""),
    ] {
        let mut unknowns = Vec::new();
        let placeholder = release(version, image.unwrap_or("release.invalid/image"));
        assert_eq!(judged(&placeholder, image, &status, &mut unknowns), release(version, expected));
        assert_eq!(unknowns.len(), usize::from(!said.is_empty()), "{unknowns:?}");
        assert!(unknowns.iter().all(|unknown| unknown.contains(said)), "{unknowns:?}");
    }
}

#[test]
fn signature_that_could_not_be_looked_for_is_not_known() {
    let failed = |unread| VerifyError::Unverified {
        digest: "sha256:ab".into(),
        unsatisfied: vec!["verifier-public-key-a".into()],
        causes: Vec::new(),
        unread,
    };
    for (verified, expected, blockers, unknowns) in [
        (Ok(()), Some(true), 0, 0),
        (Err(failed(false)), Some(false), 1, 0),
        (Err(VerifyError::NotConfigured), Some(false), 1, 0),
        (Err(failed(true)), None, 0, 1),
        (Err(VerifyError::Ended("stopped".into())), None, 0, 1),
    ] {
        let (mut forecast, mut said) = (Forecast { verified: None, blockers: Vec::new(), ..sample() }, Vec::new());
        take_verified("r/a@sha256:ab", verified.clone(), &mut forecast, &mut said);
        let found = (forecast.verified, forecast.blockers.len(), said.len());
        assert_eq!(found, (expected, blockers, unknowns), "{verified:?}");
    }
}

#[test]
fn object_that_could_not_be_read_may_still_be_there() {
    let object = |name: &str, state| {
        let id = ObjectId::new("", "ConfigMap", "ns", name);
        (id.clone(), LiveObject { id, state, has_status: true })
    };
    let live: LiveObjects = [
        object("b", LiveState::OtherVersion("v1beta1".into())),
        object("a", LiveState::Exists(Arc::new(Value::Null))),
        object("c", LiveState::Absent),
        object("d", LiveState::NotServed),
        object("e", LiveState::Unreadable("forbidden".into())),
    ]
    .into();
    let mut unknowns = Vec::new();
    assert_eq!(still_there(&live, &mut unknowns), ["configmap \"ns/a\"", "configmap \"ns/b\""]);
    let [unknown] = &unknowns[..] else { panic!("{unknowns:?}") };
    assert!(unknown.starts_with("Whether configmap \"ns/e\"") && unknown.contains("forbidden"), "{unknown}");
}

#[test]
fn deployment_that_does_not_exist_leaves_the_configuration_unknown() {
    let own = ObjectId::new("apps", "Deployment", "own", "daemon");
    assert_eq!(found(Ok(None), &own), Err("Deployment own/daemon does not exist".to_owned()));
    assert_eq!(found(Ok(Some(Value::Null)), &own), Ok(Value::Null));
}
