//! Properties that hold for any facts in any order.

use super::*;
use crate::cluster_version::api::HistoryEntry;
use crate::cluster_version::status::facts::{Conflict, LoadStatus, LoadStep};
use crate::cluster_version::status::failure::{Effect, MESSAGE, Reason, aggregate};
use crate::error::CAUSE;
use proptest::prelude::*;

fn any_failure() -> impl Strategy<Value = Option<UpdateError>> {
    let effect =
        prop_oneof![Just(Effect::Report), Just(Effect::Wait), Just(Effect::FailAfterInterval), Just(Effect::Fail)];
    let one = (effect, "[a-c]{0,2}", "[A-Z][a-z]{0,3}").prop_map(|(effect, name, reason)| UpdateError {
        effect,
        names: if name.is_empty() { Vec::new() } else { vec![name] },
        ..UpdateError::new(Reason::Other(reason), "it broke")
    });
    proptest::collection::vec(one, 0..4).prop_map(aggregate)
}

/// As the API server, operators and other clients may put it: of any length.
fn any_text() -> impl Strategy<Value = String> {
    ("\\PC{0,30}", 0usize..200).prop_map(|(text, times)| text.repeat(times))
}

fn long_facts() -> impl Strategy<Value = Facts> {
    let effect = prop_oneof![Just(Effect::Report), Just(Effect::Wait), Just(Effect::Fail)];
    let reason =
        prop_oneof![any_text().prop_map(Reason::Other), Just(Reason::OperatorUpdating), Just(Reason::Integrity)];
    let error = (effect, reason, any_text(), any_text()).prop_map(|(effect, reason, message, name)| UpdateError {
        effect,
        names: vec![name],
        ..UpdateError::new(reason, message)
    });
    let texts = || proptest::collection::vec(any_text(), 0..20);
    (any_facts(), proptest::collection::vec(error, 0..30), texts(), texts(), any_text()).prop_map(
        |(mut facts, errors, invalid, names, text)| {
            facts.rollout_mut().failure = aggregate(errors);
            facts.invalid = invalid;
            facts.accepted_risks.clone_from(&text);
            facts.rollout_mut().waiting_since =
                names.iter().map(|name| (name.clone(), at(NOW - 50 * MINUTE).0)).collect();
            facts.load = Some(LoadStatus::failed(LoadStep::LoadPayload, release(&text, &text), text.clone()));
            facts.retrieval = Some(Retrieval { outcome: Err((text.clone(), text.clone())), ..Retrieval::nothing() });
            let conflict = Conflict { object: text.clone(), manager: text, fields: names.clone(), repairs: 3 };
            facts.rollout_mut().conflicts.push(conflict);
            facts.capabilities.implicit = names;
            facts
        },
    )
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let mode = prop_oneof![Just(Mode::Install), Just(Mode::Update), Just(Mode::Reconcile)];
    (mode, 0u8..4, any_failure(), any::<[bool; 4]>(), 0usize..9, 0usize..9, 0i64..200).prop_map(
        |(mode, which, failure, [completed, local, verified, conflict], done, total, minutes)| {
            let since = BTreeMap::from([("a".to_owned(), at(NOW - minutes * MINUTE).0)]);
            let applied =
                RolloutFacts { begun: mode, completed, failure, done, total, waiting_since: since, ..rollout() };
            let mut facts = applying(applied);
            facts.actual =
                if which == 0 { Release::default() } else { release(&format!("1.{which}.0"), &format!("i{which}")) };
            (facts.local, facts.verified) = (local, verified);
            if conflict {
                facts.rollout_mut().conflicts.push(Conflict {
                    object: "o".into(),
                    manager: String::new(),
                    fields: Vec::new(),
                    repairs: 3,
                });
            }
            facts
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn conditions_are_bounded_whatever_is_said(facts in long_facts()) {
        let status = compute(&ClusterVersionStatus::default(), &facts, at(NOW).0);
        for c in &status.conditions {
            prop_assert!(c.message.len() <= MESSAGE, "{}: {} bytes", c.type_, c.message.len());
            prop_assert!(c.reason.len() <= CAUSE, "{}: reason of {} bytes", c.type_, c.reason.len());
        }
        prop_assert!(status.history.iter().all(|entry| entry.accepted_risks.len() <= MESSAGE));
        prop_assert_eq!(&compute(&status, &facts, at(NOW).0), &status);
    }
}

proptest! {
    #[test]
    fn status_is_stable_and_completed_only_by_a_completed_rollout(sequence in proptest::collection::vec(any_facts(), 1..20)) {
        let mut status = ClusterVersionStatus::default();
        for (second, facts) in (NOW..).zip(sequence) {
            let ended = |s: &ClusterVersionStatus| s.history.iter().filter(|e| e.state == HistoryState::Completed).count();
            let before = status;
            status = compute(&before, &facts, at(second).0);
            prop_assert_eq!(&compute(&status, &facts, at(second + 100).0).history, &status.history);
            if !facts.is_completed() {
                prop_assert_eq!(ended(&status), ended(&before));
            }
            let old_starts: Vec<&HistoryEntry> = before.history.iter().collect();
            let kept = status.history.len().checked_sub(old_starts.len());
            prop_assert!(kept.is_some_and(|new| new <= 1), "an entry was lost");
            for (new, old) in status.history.iter().skip(kept.unwrap_or(0)).zip(old_starts) {
                prop_assert_eq!((&new.image, &new.version, &new.started_time), (&old.image, &old.version, &old.started_time));
            }
            let again = compute(&status, &facts, at(second).0);
            prop_assert_eq!(&again, &status, "computing twice changes nothing");
            let mut types: Vec<&str> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
            types.sort_unstable();
            types.dedup();
            prop_assert_eq!(types.len(), status.conditions.len(), "each type once");
            for needed in ["Available", "Failing", "Progressing", "RetrievedUpdates", "ImplicitlyEnabledCapabilities"] {
                prop_assert!(find(&status.conditions, needed).is_some(), "{}", needed);
            }
            for c in status.conditions.iter() {
                let moved = find(&before.conditions, &c.type_).is_none_or(|old| old.status != c.status);
                prop_assert_eq!(moved, c.last_transition_time == at(second) , "{}", c.type_);
            }
            // A failure goes unreported only while time is granted.
            let granted_time = |e: &UpdateError| matches!(e.effect, Effect::Wait | Effect::FailAfterInterval);
            if let Some(failure) = facts.failure() {
                let all_granted = if failure.nested.is_empty() { granted_time(failure) } else { failure.nested.iter().all(granted_time) };
                let silent = find(&status.conditions, "Failing").unwrap().status == ConditionStatus::False;
                prop_assert!(!silent || (all_granted && facts.mode() != Mode::Reconcile), "{failure:?} is not reported");
            }
        }
    }
}
