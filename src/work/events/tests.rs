use super::*;
use crate::api::Release;

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
