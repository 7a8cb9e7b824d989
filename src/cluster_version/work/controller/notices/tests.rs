use super::*;
use crate::process::events::MAX_NOTE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

#[test]
fn failure_is_a_warning_on_one_line_within_the_limit() {
    let status = |step, outcome| LoadStatus { step, outcome, ..LoadStatus::started(Release::default()) };
    let refused = notice(&status(LoadStep::RetrievePayload, Some(Err(format!("a\nb{}", "ü".repeat(2000))))));
    assert!(refused.warning && refused.reason == "RetrievePayloadFailed");
    assert!(refused.note.contains("a // b") && refused.note.len() <= MAX_NOTE && refused.note.ends_with('ü'));
    let blocked = notice(&status(LoadStep::PreconditionChecks, Some(Err("x".into()))));
    assert_eq!(blocked.reason, "PreconditionBlock");
    let loaded = notice(&status(LoadStep::PayloadLoaded, Some(Ok(()))));
    assert!(!loaded.warning && loaded.reason == "PayloadLoaded");
}

fn entry(version: &str, started: i64, state: HistoryState) -> HistoryEntry {
    let at = |second| Time(jiff::Timestamp::from_second(second).unwrap());
    HistoryEntry {
        state,
        started_time: at(started),
        completion_time: (state == HistoryState::Completed).then(|| at(started + 90)),
        version: version.into(),
        image: format!("image-{version}"),
        verified: false,
        accepted_risks: String::new(),
    }
}

#[test]
fn beginning_and_end_of_an_update_are_told_once() {
    use HistoryState::{Completed, Partial};
    let installing = vec![entry("1.0.0", 1, Partial)];
    let installed = vec![entry("1.0.0", 1, Completed)];
    let updating = vec![entry("1.1.0", 200, Partial), entry("1.0.0", 1, Completed)];
    let retargeted = vec![entry("1.2.0", 300, Partial), entry("1.1.0", 200, Partial), entry("1.0.0", 1, Completed)];
    let updated = vec![entry("1.1.0", 200, Completed), entry("1.0.0", 1, Completed)];
    let none = Vec::new();
    type Expected<'a> = Option<(&'a str, &'a str)>;
    let table: [(&[HistoryEntry], &[HistoryEntry], Expected<'_>); 10] = [
        (&none, &none, None),
        (&none, &installing, Some(("InstallStarted", "Installing 1.0.0"))),
        (&installing, &installing, None),
        (&installing, &installed, Some(("InstallCompleted", "Installed 1.0.0 in 90 s"))),
        (&installed, &installed, None),
        (&installed, &updating, Some(("UpdateStarted", "Updating from 1.0.0 to 1.1.0"))),
        (&updating, &retargeted, Some(("UpdateRetargeted", "Updating to 1.2.0 instead of 1.1.0"))),
        (&updating, &updated, Some(("UpdateCompleted", "Updated from 1.0.0 to 1.1.0 in 90 s"))),
        // All of it between two looks.
        (&installed, &updated, Some(("UpdateCompleted", "Updated from 1.0.0 to 1.1.0 in 90 s"))),
        (&updated, &none, None),
    ];
    for (before, after, expected) in table {
        let notice = of_history(before.first(), after);
        assert_eq!(notice.as_ref().map(|n| (n.reason, n.note.as_str())), expected, "{before:?} {after:?}");
    }
}

#[test]
fn overridden_checks_are_a_warning() {
    let release = Release { version: "1.1.0".into(), image: "i".into(), ..Release::default() };
    let forced = overridden(&release, "not signed\nnot met", true);
    assert!(forced.warning && forced.reason == "ChecksOverridden");
    assert_eq!(forced.note, "Forced: version=\"1.1.0\" image=\"i\": not signed // not met");
    let warned = overridden(&release, "w", false);
    assert!(warned.warning && warned.reason == "PreconditionWarn");
}

#[test]
fn refusal_is_told_again_only_for_another_cause_or_release() {
    let mut told = Told::default();
    let release = |image: &str| Release { image: image.into(), ..Release::default() };
    let tell = |told: &mut Told, image: &str, cause: Option<&str>| {
        let outcome = cause.map(|cause| Err(cause.to_owned()));
        told.is_new(&release(image), &notice(&LoadStatus { outcome, ..LoadStatus::started(release(image)) }))
    };
    let mut all = Vec::new();
    for (image, cause) in [
        ("a", None),
        ("a", Some("away")),
        ("a", None),
        ("a", Some("away")),
        ("a", Some("not signed")),
        ("a", Some("away")),
        ("b", Some("away")),
        ("a", Some("away")),
    ] {
        all.push(tell(&mut told, image, cause));
    }
    assert_eq!(all, [true, true, false, false, true, false, true, true]);
    for n in 0..1000 {
        assert!(tell(&mut told, "c", Some(&n.to_string())));
    }
    assert!(told.notices.len() <= REMEMBERED);
}
