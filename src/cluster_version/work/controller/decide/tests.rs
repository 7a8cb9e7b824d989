use super::*;
use crate::cluster_version::api::Update;
use crate::cluster_version::api::{ClusterVersionSpec, HistoryEntry};
use crate::release::api::ComponentOverride;
use crate::release::{Capabilities, Filter};
use HistoryState::{Completed, Partial};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeSet;

fn release(version: &str) -> Release {
    Release { version: version.into(), image: format!("r@sha256:{version}"), ..Release::default() }
}

fn history(entries: &[(HistoryState, &str)]) -> ClusterVersionStatus {
    let entry = |(state, version): &(HistoryState, &str)| HistoryEntry {
        state: *state,
        started_time: Time(Timestamp::UNIX_EPOCH),
        completion_time: None,
        version: (*version).into(),
        image: release(version).image,
        verified: false,
        accepted_risks: String::new(),
    };
    ClusterVersionStatus { history: entries.iter().map(entry).collect(), ..ClusterVersionStatus::default() }
}

fn asking(version: &str) -> ClusterVersionSpec {
    let update = Update { image: release(version).image, version: version.into(), ..Update::default() };
    ClusterVersionSpec { desired_update: Some(update), ..ClusterVersionSpec::default() }
}

fn target(version: &str) -> Target {
    Target { release: release(version), ..Target::default() }
}

/// Name, spec, status; running release and mode; loading, and whether that has ended; refused, and seconds until it is
/// tried again; what is expected.
type Case = (
    &'static str,
    ClusterVersionSpec,
    ClusterVersionStatus,
    Option<(&'static str, Mode)>,
    Option<(&'static str, Stage)>,
    Option<(&'static str, i64)>,
    Vec<Action>,
);

fn check(cases: impl IntoIterator<Item = Case>) {
    for (name, spec, status, running, loading, refused, expected) in cases {
        let (own, filter) = (release("1"), ApplyFilter::default());
        let image = running.map(|(v, _)| release(v).image);
        let loading = loading.map(|(v, stage)| (target(v), stage));
        let at = refused.map(|(_, s)| Timestamp::from_second(s).unwrap());
        let refused = refused.map(|(v, _)| target(v));
        let situation = Situation {
            target: &updates::choose(&spec, &status, &own),
            status: &status,
            own: &own,
            running: running.map(|(_, mode)| Running { image: image.as_deref().unwrap(), mode, filter: &filter }),
            filter: &filter,
            loading: loading.as_ref().map(|(target, stage)| Loading { target, stage: *stage }),
            refused: refused.as_ref().zip(at),
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(decide(&situation), expected, "{name}");
    }
}

fn done() -> ClusterVersionStatus {
    history(&[(Completed, "1")])
}

/// An update to 2 that was not completed.
fn stuck() -> ClusterVersionStatus {
    history(&[(Partial, "2"), (Completed, "1")])
}

fn start_own(mode: Mode) -> Vec<Action> {
    vec![Action::StartOwn { mode }]
}

fn load(version: &str) -> Vec<Action> {
    vec![Action::Load(target(version))]
}

const STEADY: Option<(&str, Mode)> = Some(("1", Mode::Reconcile));

#[test]
fn process_begins_with_its_own_release_or_an_interrupted_update() {
    let none = ClusterVersionSpec::default;
    let successor = history(&[(Partial, "1"), (Completed, "0")]);
    let ended = Some(("2", Stage::Ready));
    check([
        ("fresh cluster", none(), history(&[]), None, None, None, start_own(Mode::Install)),
        ("restart, completed", none(), done(), None, None, None, start_own(Mode::Reconcile)),
        ("a request waits for the first work", asking("2"), done(), None, None, None, start_own(Mode::Reconcile)),
        ("successor", asking("1"), successor, None, None, None, start_own(Mode::Update)),
        ("interrupted before the hand-over", asking("2"), stuck(), None, None, None, load("2")),
        ("the same, loading", asking("2"), stuck(), None, Some(("2", Stage::Loading)), None, vec![]),
        ("the same, loaded", asking("2"), stuck(), None, ended, None, vec![Action::StartLoaded]),
        ("the same, refused", asking("2"), stuck(), None, None, Some(("2", 10)), start_own(Mode::Update)),
    ]);
}

#[test]
fn rollout_goes_on_while_another_release_is_loaded() {
    let none = ClusterVersionSpec::default;
    let (running, ended) = (Some(("2", Stage::Loading)), Some(("2", Stage::Ready)));
    let stop = || vec![Action::StopLoading];
    check([
        ("nothing asked", none(), done(), STEADY, None, None, vec![]),
        ("asked", asking("2"), done(), STEADY, None, None, load("2")),
        ("loading", asking("2"), done(), STEADY, running, None, vec![]),
        ("asked for another while loading", asking("3"), done(), STEADY, running, None, stop()),
        ("asked for another once loaded", asking("3"), done(), STEADY, ended, None, stop()),
        ("withdrawn while loading", none(), done(), STEADY, running, None, stop()),
        ("loaded", asking("2"), done(), STEADY, ended, None, vec![Action::StartLoaded]),
        ("withdrawn once loaded", none(), done(), STEADY, ended, None, stop()),
    ]);
}

#[test]
fn refused_release_is_tried_again_in_time_and_an_install_stays_one() {
    let none = ClusterVersionSpec::default;
    let (not_yet, due) = (Some(("2", 10)), Some(("2", -10)));
    let installing = Some(("1", Mode::Install));
    let updating = Some(("2", Mode::Update));
    let ended = Some(("2", Stage::Ready));
    check([
        ("not yet", asking("2"), done(), STEADY, None, not_yet, vec![]),
        ("due", asking("2"), done(), STEADY, None, due, load("2")),
        ("another asked", asking("3"), done(), STEADY, None, not_yet, load("3")),
        ("withdrawn", none(), done(), STEADY, None, not_yet, vec![Action::ForgetRefused]),
        ("loaded after a refusal", asking("2"), done(), STEADY, ended, not_yet, vec![Action::StartLoaded]),
        ("during install", asking("2"), history(&[(Partial, "1")]), installing, None, None, vec![]),
        ("withdrawn before the hand-over", none(), stuck(), updating, None, None, start_own(Mode::Update)),
    ]);
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn enabling(names: &[&str]) -> Option<Capabilities> {
    Some(Capabilities { enabled: set(names), ..Capabilities::default() })
}

fn gates(names: &[&str]) -> Filter {
    Filter { feature_gates: Some(set(names)), ..Filter::default() }
}

/// What the rollout was begun with.
fn begun() -> ApplyFilter {
    ApplyFilter { load: gates(&["A"]), capabilities: enabling(&["Console"]), overrides: Vec::new() }
}

#[test]
fn changed_filter_restarts_the_rollout_but_an_install_stays_one() {
    let hidden = ComponentOverride { kind: "Deployment".into(), unmanaged: true, ..ComponentOverride::default() };
    let told = Capabilities { implicit: set(&["Console"]), ..enabling(&["Console"]).unwrap() };
    let table = [
        ("nothing", begun(), false),
        ("overrides", ApplyFilter { overrides: vec![hidden], ..begun() }, true),
        ("capabilities", ApplyFilter { capabilities: enabling(&["Build", "Console"]), ..begun() }, true),
        ("only who asked for them", ApplyFilter { capabilities: Some(told), ..begun() }, false),
        ("gates", ApplyFilter { load: gates(&["A", "B"]), ..begun() }, true),
        (
            "feature set",
            ApplyFilter { load: Filter { feature_set: Some("OKD".into()), ..gates(&["A"]) }, ..begun() },
            true,
        ),
    ];
    let own = release("1");
    let status = history(&[(Completed, "1")]);
    for (name, wanted, restarts) in table {
        for (mode, next) in
            [(Mode::Reconcile, Mode::Update), (Mode::Update, Mode::Update), (Mode::Install, Mode::Install)]
        {
            let situation = Situation {
                target: &target("1"),
                status: &status,
                own: &own,
                running: Some(Running { image: &own.image, mode, filter: &begun() }),
                filter: &wanted,
                loading: None,
                refused: None,
                now: Timestamp::UNIX_EPOCH,
            };
            let expected = if restarts { vec![Action::Restart { mode: next }] } else { vec![] };
            assert_eq!(decide(&situation), expected, "{name} {mode:?}");
        }
    }
}

/// What runs follows its filters while another release is asked for, loaded, refused or ignored; and its restart is not
/// asked for twice, nor instead of the return to the own release.
#[test]
fn changed_filter_counts_whatever_else_is_asked_for() {
    let (own, wanted) = (release("1"), begun());
    let done = history(&[(Completed, "1")]);
    let again = |mode| Action::Restart { mode };
    let load = Action::Load(target("2"));
    let table = [
        ("asked", asking("2"), "1", Mode::Reconcile, None, vec![load, again(Mode::Update)]),
        ("loading", asking("2"), "1", Mode::Reconcile, Some(target("2")), vec![again(Mode::Update)]),
        ("ignored in an install", asking("2"), "1", Mode::Install, None, vec![again(Mode::Install)]),
        ("back", ClusterVersionSpec::default(), "2", Mode::Update, None, vec![Action::StartOwn { mode: Mode::Update }]),
    ];
    for (name, spec, running, mode, loading, expected) in table {
        let image = release(running).image;
        let situation = Situation {
            target: &updates::choose(&spec, &done, &own),
            status: &done,
            own: &own,
            running: Some(Running { image: &image, mode, filter: &ApplyFilter::default() }),
            filter: &wanted,
            loading: loading.as_ref().map(|target| Loading { target, stage: Stage::Loading }),
            refused: None,
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(decide(&situation), expected, "{name}");
    }
}

/// A release that a precondition speaks against waits where it is, and the own release is reconciled meanwhile.
#[test]
fn loaded_release_waits_for_its_preconditions_and_then_tries_itself() {
    let stage = |stage| Some(("2", stage));
    let none = ClusterVersionSpec::default;
    check([
        ("blocked", asking("2"), done(), STEADY, stage(Stage::Blocked), None, vec![]),
        ("admitted", asking("2"), done(), STEADY, stage(Stage::Admitted), None, vec![Action::Preflight]),
        ("tries itself", asking("2"), done(), STEADY, stage(Stage::Preflight), None, vec![]),
        ("withdrawn", none(), done(), STEADY, stage(Stage::Blocked), None, vec![Action::StopLoading]),
        ("interrupted, and blocked", asking("2"), stuck(), None, stage(Stage::Blocked), None, start_own(Mode::Update)),
        (
            "interrupted, and admitted",
            asking("2"),
            stuck(),
            None,
            stage(Stage::Admitted),
            None,
            vec![Action::Preflight],
        ),
    ]);
}
