//! What is said of constructed states.

use super::*;
use crate::cli::status::tests::{condition, now, operator, rolling, running, updating};
use crate::cluster_version::api::ClusterVersionStatus;
use crate::diagnosis::lease::Silence;
use crate::object::read::Read;
use serde_json::Value;

const PLAIN: Page = Page { width: usize::MAX, colours: false, now: Timestamp::UNIX_EPOCH };

fn said(state: &State) -> String {
    let page = Page { now: now(), ..PLAIN };
    overview(&View::of(state, now()), &Known::of(state, &Source::default()), "cvo", &page)
}

fn status(state: &mut State) -> &mut ClusterVersionStatus {
    state.cluster_version.as_mut().unwrap().status.as_mut().unwrap()
}

/// With this condition in place of the one of its type.
fn with(mut state: State, changed: Value) -> State {
    let changed: crate::object::condition::Condition = serde_json::from_value(changed).unwrap();
    let conditions = &mut status(&mut state).conditions;
    conditions.retain(|condition| condition.type_ != changed.type_);
    conditions.push(changed);
    state
}

/// The commands that are proposed.
fn proposed(text: &str) -> Vec<&str> {
    let below = text.split_once("\nNow\n").map_or("", |(_, below)| below);
    let lines = below.lines().take_while(|line| !line.is_empty());
    lines.map(|line| line.trim().split("  ").next().unwrap_or_default()).collect()
}

const AT: &str = "2026-11-21T12:04:00Z";
const FOLLOW: [&str; 3] = ["cvo status --watch", "cvo page", "cvo wait"];
const LOOK: [&str; 4] = ["cvo upgrade --to 1.1.0 --dry-run", "cvo upgrade --to 1.1.0", "cvo doctor", "cvo history"];
const HELP: [&str; 3] = ["cvo status --details", "cvo doctor", "cvo collect --to FILE"];
const CLEAR: [&str; 1] = ["cvo upgrade --clear"];

/// A name, a state, what is said of it and the commands that are proposed.
type Case<'a> = (&'a str, State, &'a [&'a str], Vec<&'a str>);

fn check(cases: Vec<Case<'_>>) {
    for (name, state, words, commands) in cases {
        let text = said(&state);
        for words in words {
            assert!(text.contains(words), "{name}: {words} is not in\n{text}");
        }
        assert_eq!(proposed(&text), commands, "{name}:\n{text}");
        let well = text.contains("Nothing needs attention");
        assert_eq!(well, !text.contains("Needs attention") && state.cluster_version.is_some(), "{name}:\n{text}");
        assert!(text.lines().count() <= 24, "{name}: it fits a terminal\n{text}");
    }
}

#[test]
fn what_is_said_and_proposed_fits_the_state() {
    let mut installing = updating();
    status(&mut installing).history.truncate(1);
    let mut silent = updating();
    status(&mut silent).conditions.clear();
    let mut old = running();
    status(&mut old).available_updates = None;
    let of_update = [
        "Updating 1.0.0 → 1.0.1, for 2m 0s",
        "12 of 24 manifests",
        "network waits for ClusterOperator network: versions not reached",
    ];
    check(vec![
        (
            "idle with updates",
            running(),
            &["Running 1.0.1, for 30s", "Updates available: 1.1.0", "Nothing needs attention"],
            LOOK.to_vec(),
        ),
        ("idle", old, &["Nothing needs attention"], vec!["cvo channel NAME", "cvo doctor", "cvo history"]),
        ("updating", updating(), &of_update, [&FOLLOW[..], &CLEAR].concat()),
        ("installing", installing, &["Installing 1.0.1"], FOLLOW.to_vec()),
        ("the daemon is silent", silent, &["Release 1.0.1"], vec!["cvo status --watch", "cvo doctor"]),
        (
            "no ClusterVersion",
            State::default(),
            &["has no ClusterVersion version: the daemon is not installed"],
            vec!["cvo render --help", "cvo release new --help"],
        ),
        ("pools", rolling(), &["Nodes that have their configuration: "], LOOK.to_vec()),
    ]);
}

#[test]
fn what_is_said_and_proposed_fits_the_trouble() {
    let accepted = |reason, message| condition("ReleaseAccepted", "False", AT, reason, message);
    let words = "failed because of \"AdminAckAck411Apis\": Old APIs go away";
    let blocked = with(running(), accepted("PreconditionChecks", words));
    let unverified = with(running(), accepted("RetrievePayload", "no signature was found"));
    let failing = condition("Failing", "True", AT, "WorkloadNotAvailable", "Deployment a/b has no pods");
    let unanswered = condition("RetrievedUpdates", "False", AT, "RemoteFailed", "dial tcp: no route");
    let mut unread = running();
    unread.progress = None;
    unread.remarks.push("Pools are not shown, because they cannot be listed: forbidden".to_owned());
    let mut unwell = running();
    let console = operator("console", &[condition("Available", "False", AT, "Down", "gone")]);
    unwell.operators = match unwell.operators {
        Read::Value(operators) => Read::Value(operators.into_iter().chain([console]).collect()),
        other => panic!("{other:?}"),
    };
    let of_block =
        ["ReleaseAccepted=False for 1m 0s: PreconditionChecks", "Old APIs go away", "→ Meet what the message names"];
    check(vec![
        ("to acknowledge", blocked, &of_block, [&HELP[..1], &["cvo ack"], &CLEAR].concat()),
        ("not signed", unverified, &["no signature was found"], [&HELP[..1], &CLEAR].concat()),
        (
            "failing",
            with(updating(), failing),
            &["Failing for 1m 0s: WorkloadNotAvailable", "Deployment a/b has no pods", "→ Look at its pods"],
            [&HELP[..], &FOLLOW, &CLEAR].concat(),
        ),
        (
            "an operator is away",
            unwell,
            &["console is not available for 1m 0s: Down: gone"],
            [&HELP[..], &LOOK[..2], &LOOK[3..]].concat(),
        ),
        (
            "disconnected",
            with(running(), unanswered),
            &["RetrievedUpdates=False for 1m 0s: RemoteFailed", "no route"],
            LOOK.to_vec(),
        ),
        ("not all can be read", unread, &["Pools are not shown"], [&HELP[..], &LOOK[..2], &LOOK[3..]].concat()),
    ]);
}

#[test]
fn state_that_nobody_writes_any_more_is_not_well() {
    let mut silent = running();
    let lease = |causes| Silence {
        lease: "lease openshift-cluster-version/version".to_owned(),
        since: None,
        renewed: false,
        message: "the daemon has not renewed lease openshift-cluster-version/version since then".to_owned(),
        next_step: "read its log".to_owned(),
        causes,
    };
    silent.silences = vec![lease(Vec::new())];
    let mut refused = running();
    let (object, message) = ("validatingwebhookconfiguration all".to_owned(), "it denies".to_owned());
    refused.silences = vec![lease(vec![crate::diagnosis::Trouble { object, message, next_step: "let it".to_owned() }])];
    check(vec![
        (
            "nobody writes",
            silent,
            &["Needs attention", "Not up to date", "has not renewed", "→ read its log"],
            [&HELP[..], &LOOK[..2], &LOOK[3..]].concat(),
        ),
        (
            "nobody writes, and why",
            refused,
            &[
                "has not renewed",
                "Why, as far as is known: validatingwebhookconfiguration all",
                "it denies",
                "→ let it",
            ],
            [&HELP[..], &LOOK[..2], &LOOK[3..]].concat(),
        ),
    ]);
}

/// Whoever compares the two must not think that these are two things.
#[test]
fn silence_is_said_in_the_words_of_status() {
    let cause = |name: &str| crate::diagnosis::Trouble {
        object: format!("validatingwebhookconfiguration {name}"),
        message: format!("{name} denies"),
        next_step: format!("delete {name}"),
    };
    for causes in [vec![], vec![cause("one")], vec![cause("one"), cause("two")]] {
        let silence = Silence {
            lease: "lease ns/version".to_owned(),
            since: Some("2026-11-21T12:04:00Z".parse().unwrap()),
            renewed: false,
            message: "the daemon has not renewed lease ns/version".to_owned(),
            next_step: "read its log".to_owned(),
            causes,
        };
        let state = State { silences: vec![silence.clone()], ..running() };
        let status = text::text(&View::of(&state, now()), &Page { now: now(), ..PLAIN });
        let told = text::of_silence(&silence, now());
        assert_eq!(told[0].object, "Not up to date (1m 0s ago)");
        assert_eq!(told[0].next_step.is_empty(), !silence.causes.is_empty(), "a cause says better what to do");
        for told in &told {
            assert!(status.contains(&format!("{}: {}", told.object, told.message)), "{told:?}:\n{status}");
            for part in [&told.object, &told.message, &told.next_step] {
                assert!(status.contains(part) && said(&state).contains(part), "{part}:\n{status}\n{}", said(&state));
            }
        }
    }
}

#[test]
fn much_trouble_stays_short_and_control_characters_do_not_reach_the_terminal() {
    let mut state = updating();
    let bad = |name: &str| {
        operator(
            name,
            &[condition("Available", "False", "2026-11-21T12:04:00Z", "Down", &"long \u{1b}[31m ".repeat(400))],
        )
    };
    state.operators = Read::Value((0..9).map(|number| bad(&format!("operator-{number}"))).collect());
    let text = said(&state);
    assert!(text.contains("and 6 more: cvo status --details") && !text.contains('\u{1b}'), "{text}");
    assert!(text.lines().count() <= 26, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 300), "{text}");
}

#[test]
fn newest_version_is_proposed() {
    let newest = |versions: &[&str]| {
        let versions: Vec<String> = versions.iter().map(|it| (*it).to_owned()).collect();
        super::newest(&versions).cloned()
    };
    assert_eq!(newest(&["1.2.0", "1.10.0", "1.9.0"]).unwrap(), "1.10.0");
    assert_eq!(newest(&["x", "1.0.0"]).unwrap(), "1.0.0");
    assert_eq!(newest(&[]), None);
}

#[test]
fn whoever_has_no_cluster_is_told_how_to_begin() {
    let text = introduction("kubectl cvo", &PLAIN);
    for words in [
        "No cluster can be read",
        "kubectl cvo overview --kubeconfig FILE",
        "hack/demo",
        "kubectl cvo release new --help",
        "README.md",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    assert!(text.lines().count() <= 10, "{text}");
}

#[test]
fn every_command_that_is_proposed_is_one() {
    let states = [updating(), running(), State::default()];
    let mut texts: Vec<String> = states.iter().map(said).collect();
    let failing = condition("Failing", "True", "2026-11-21T12:04:00Z", "WorkloadNotAvailable", "x");
    texts.push(said(&with(updating(), failing)));
    texts.push(introduction("cvo", &PLAIN));
    let commands = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix("cvo "));
    let mut count = 0;
    for command in commands.filter(|command| !command.contains(" lists ") && !command.starts_with("carries ")) {
        let words = command.split("  ").next().unwrap_or_default();
        let given = std::iter::once("cvo").chain(words.split(' '));
        if let Err(error) = crate::cli::parse(given) {
            assert_eq!(error.exit_code(), 0, "{words}: {error}");
        }
        count += 1;
    }
    assert!(count > 12, "{count}");
}
