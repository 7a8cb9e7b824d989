//! Properties that hold for any facts in any order.

use super::*;
use crate::api::cluster_version::HistoryEntry;
use crate::status::facts::Conflict;
use crate::status::failure::{Effect, Reason, aggregate};
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

fn any_facts() -> impl Strategy<Value = Facts> {
    let mode = prop_oneof![Just(Mode::Install), Just(Mode::Update), Just(Mode::Reconcile)];
    (mode, 0u8..4, any_failure(), any::<[bool; 4]>(), 0usize..9, 0usize..9, 0i64..200).prop_map(
        |(mode, which, failure, [completed, local, verified, conflict], done, total, minutes)| {
            let mut facts = facts();
            facts.mode = mode;
            facts.actual =
                if which == 0 { Release::default() } else { release(&format!("1.{which}.0"), &format!("i{which}")) };
            (facts.failure, facts.completed, facts.local, facts.verified) = (failure, completed, local, verified);
            (facts.done, facts.total) = (done, total);
            facts.waiting_since.insert("a".into(), at(NOW - minutes * MINUTE).0);
            if conflict {
                facts.conflicts.push(Conflict {
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
    #[test]
    fn status_is_stable_and_completed_only_by_a_completed_rollout(sequence in proptest::collection::vec(any_facts(), 1..20)) {
        let mut status = ClusterVersionStatus::default();
        for (second, facts) in (NOW..).zip(sequence) {
            let ended = |s: &ClusterVersionStatus| s.history.iter().filter(|e| e.state == HistoryState::Completed).count();
            let before = status;
            status = compute(&before, &facts, at(second).0);
            prop_assert_eq!(&compute(&status, &facts, at(second + 100).0).history, &status.history);
            if !facts.completed {
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
            if let Some(failure) = &facts.failure {
                let all_granted = if failure.nested.is_empty() { granted_time(failure) } else { failure.nested.iter().all(granted_time) };
                let silent = find(&status.conditions, "Failing").unwrap().status == ConditionStatus::False;
                prop_assert!(!silent || (all_granted && facts.mode != Mode::Reconcile), "{failure:?} is not reported");
            }
        }
    }
}
