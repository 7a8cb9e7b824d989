use super::*;
use crate::cluster_version::status::tests::{at, release};

fn entry(state: HistoryState, version: &str, image: &str) -> HistoryEntry {
    HistoryEntry {
        state,
        started_time: at(0),
        completion_time: None,
        version: version.into(),
        image: image.into(),
        verified: false,
        accepted_risks: String::new(),
    }
}

fn status() -> ClusterVersionStatus {
    let rich = Release { url: "https://u".into(), channels: vec!["c".into()], ..release("2.0.0", "img-2") };
    ClusterVersionStatus {
        desired: release("1.0.0", "img-1"),
        available_updates: Some(vec![release("2.0.0", ""), rich, release("1.0.0", "img-1-multi")]),
        history: vec![
            entry(HistoryState::Partial, "1.5.0", "img-15"),
            entry(HistoryState::Completed, "0.9.0", "img-09b"),
            entry(HistoryState::Completed, "0.9.0", "img-09a"),
            entry(HistoryState::Completed, "0.8.0", ""),
        ],
        ..Default::default()
    }
}

#[test]
fn requested_update_resolves_to_a_release() {
    let version = |v: &str| Update { version: v.into(), force: true, ..Update::default() };
    // case, update, image, force
    let table = [
        ("unset", None, "img-own", false),
        ("force without a release", Some(Update { force: true, ..Update::default() }), "img-own", false),
        ("image", Some(Update { image: "x".into(), ..version("2.0.0") }), "x", true),
        ("available", Some(version("2.0.0")), "img-2", true),
        ("own version", Some(version("1.4.0")), "img-own", false),
        ("history", Some(version("1.5.0")), "img-15", true),
        ("newest of two in the history", Some(version("0.9.0")), "img-09b", true),
        ("no image anywhere", Some(version("0.8.0")), "img-own", false),
        ("unknown", Some(version("9.9.9")), "img-own", false),
        ("to multi", Some(Update { architecture: "Multi".into(), ..version("2.0.0") }), "img-1-multi", true),
        ("preflight", Some(Update { mode: "Preflight".into(), ..version("2.0.0") }), "img-own", false),
        (
            "preflight by image",
            Some(Update { mode: "Preflight".into(), image: "x".into(), ..version("2.0.0") }),
            "img-own",
            false,
        ),
    ];
    for (case, desired_update, image, force) in table {
        let spec = ClusterVersionSpec { desired_update, ..Default::default() };
        let target = choose(&spec, &status(), &release("1.4.0", "img-own"));
        assert_eq!((target.release.image.as_str(), target.force), (image, force), "{case}");
    }
}

#[test]
fn available_update_keeps_its_metadata_and_multi_must_be_available() {
    let spec = |architecture: &str| ClusterVersionSpec {
        desired_update: Some(Update {
            version: "2.0.0".into(),
            architecture: architecture.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let own = release("1.0.0", "img-1");
    assert_eq!(choose(&spec(""), &status(), &own).release.url, "https://u");
    let multi = Release { architecture: "Multi".into(), ..own.clone() };
    assert_eq!(choose(&spec("Multi"), &status(), &multi).release.image, "img-2", "already multi: an ordinary update");
    let none = ClusterVersionStatus { available_updates: None, ..status() };
    let stays = choose(&spec("Multi"), &none, &own);
    assert_eq!((&stays.release, stays.force), (&own, false));
    assert!(stays.note.contains("Multi"), "{stays:?}");
}

#[test]
fn mode_follows_from_history_and_target() {
    use HistoryState::{Completed, Partial};
    // history, image of the target, mode
    let table = [
        (vec![], "a", Mode::Install),
        (vec![entry(Partial, "1.0.0", "a")], "a", Mode::Install),
        (vec![entry(Completed, "1.0.0", "a")], "a", Mode::Reconcile),
        (vec![entry(Completed, "1.0.0", "a")], "b", Mode::Update),
        (vec![entry(Partial, "1.0.1", "b"), entry(Completed, "1.0.0", "a")], "b", Mode::Update),
        (vec![entry(Partial, "1.0.1", "b"), entry(Completed, "1.0.0", "a")], "a", Mode::Update),
    ];
    for (history, image, expected) in table {
        assert_eq!(mode(&history, &release("", image)), expected, "{history:?} {image}");
    }
}
