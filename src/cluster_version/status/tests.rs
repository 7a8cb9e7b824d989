//! Status from facts: history and plain fields here, conditions in tables, and properties that hold for any facts.

mod conditions;
mod progress;
mod properties;

use super::facts::{CapabilityFacts, Retrieval, RolloutFacts};
use super::failure::{Reason, UpdateError};
use super::*;
use crate::cluster_version::api::HistoryState;
use crate::cluster_version::graph::Mode;
use crate::object::condition::ConditionStatus;
use crate::object::condition::ConditionStatus::{False, True};
use crate::object::condition::find;
use crate::release::api::{ConditionalUpdate, Release};
use std::collections::BTreeMap;

const MINUTE: i64 = 60;
const NOW: i64 = 1_000_000;

pub(crate) fn at(seconds: i64) -> Time {
    Time(Timestamp::from_second(seconds).unwrap())
}

pub(crate) fn release(version: &str, image: &str) -> Release {
    Release { version: version.into(), image: image.into(), ..Default::default() }
}

/// An update to 1.0.1 that has just begun.
pub(super) fn facts() -> Facts {
    Facts { actual: release("1.0.1", "img-1"), rollout: Some(rollout()), ..Facts::new(release("1.0.0", "img-0")) }
}

pub(super) fn rollout() -> RolloutFacts {
    RolloutFacts {
        begun: Mode::Update,
        completed: false,
        done: 0,
        total: 0,
        failure: None,
        version_hash: String::new(),
        waiting_since: BTreeMap::new(),
        conflicts: Vec::new(),
        unwatched: Vec::new(),
        kept: Vec::new(),
    }
}

/// That update, as far as this.
pub(super) fn applying(rollout: RolloutFacts) -> Facts {
    Facts { rollout: Some(rollout), ..facts() }
}

impl Facts {
    /// Of a process that knows nothing else.
    fn new(own: Release) -> Self {
        Facts {
            generation: 0,
            own,
            actual: Release::default(),
            rollout: None,
            verified: false,
            local: false,
            accepted_risks: String::new(),
            load: None,
            capabilities: CapabilityFacts::default(),
            retrieval: None,
            invalid: Vec::new(),
            risks: None,
            dropped: None,
        }
    }

    pub(super) fn rollout_mut(&mut self) -> &mut RolloutFacts {
        self.rollout.as_mut().unwrap()
    }
}

impl Retrieval {
    /// An answer without updates.
    pub(super) fn nothing() -> Retrieval {
        Retrieval {
            outcome: Ok(String::new()),
            current: None,
            answered: true,
            known: true,
            available: Vec::new(),
            conditional: Vec::new(),
            risks: Vec::new(),
        }
    }
}

fn said(facts: &Facts, type_: &str) -> (ConditionStatus, String, String) {
    let status = compute(&ClusterVersionStatus::default(), facts, at(NOW).0);
    let c = find(&status.conditions, type_).unwrap_or_else(|| panic!("{type_} missing")).clone();
    (c.status, c.reason, c.message)
}

#[test]
fn restart_after_completion_changes_nothing() {
    let completed = applying(RolloutFacts { completed: true, done: 7, total: 7, ..rollout() });
    let before = compute(&ClusterVersionStatus::default(), &completed, at(NOW).0);
    for done in [0, 3, 7] {
        let begun = applying(RolloutFacts { begun: Mode::Reconcile, done, total: 7, ..rollout() });
        assert_eq!(compute(&before, &begun, at(NOW + 60).0), before, "{done} of 7");
    }
    // An update that was in progress continues its entry.
    let update = |done| {
        let rollout = RolloutFacts { done, total: 7, ..rollout() };
        Facts { actual: release("1.1.0", "img-2"), ..applying(rollout) }
    };
    let before = compute(&before, &update(3), at(NOW + 1).0);
    let again = compute(&before, &update(0), at(NOW + 60).0);
    assert_eq!((&again.history, again.history.len()), (&before.history, 2));
    assert_eq!((again.history[0].state, again.history[1].state), (HistoryState::Partial, HistoryState::Completed));
}

#[test]
fn restart_changes_nothing_of_the_advice() {
    let image = "img-1@sha256:1";
    let described = |channels: &[&str]| Release {
        url: "https://errata".into(),
        channels: channels.iter().map(|&channel| channel.into()).collect(),
        ..release("1.0.1", image)
    };
    let own = Facts {
        rollout: Some(RolloutFacts { completed: true, ..rollout() }),
        actual: release("1.0.1", image),
        ..Facts::new(release("1.0.1", image))
    };
    let update = conditional("1.1.0", "True", NOW);
    let retrieval = Retrieval {
        current: Some(described(&["a", "b"])),
        available: vec![release("1.1.0", "img-2")],
        conditional: vec![update.clone()],
        risks: update.risks,
        ..Retrieval::nothing()
    };
    let answered = Facts { retrieval: Some(retrieval.clone()), ..own.clone() };
    let before = compute(&ClusterVersionStatus::default(), &answered, at(NOW).0);
    assert_eq!(before.desired, described(&["a", "b"]));
    assert_eq!(compute(&before, &own, at(NOW + 60).0), before, "before the update service is asked");
    // The same answer, evaluated by the next process.
    let later = conditional("1.1.0", "True", NOW + 60);
    let again = Retrieval { conditional: vec![later.clone()], risks: later.risks, ..retrieval.clone() };
    let again = Facts { retrieval: Some(again), ..own.clone() };
    assert_eq!(compute(&before, &again, at(NOW + 60).0), before, "after the same answer");
    // A failure says nothing about the release that runs.
    let failed =
        Retrieval { outcome: Err(("VersionNotFound".into(), "gone".into())), known: false, ..Retrieval::nothing() };
    let failed = compute(&before, &Facts { retrieval: Some(failed), ..own.clone() }, at(NOW + 60).0);
    assert_eq!(failed.desired, described(&["a", "b"]));
    // What an answer says does.
    let moved = Retrieval { current: Some(described(&["c"])), ..Retrieval::nothing() };
    let moved = Facts { retrieval: Some(moved), ..own.clone() };
    assert_eq!(compute(&before, &moved, at(NOW + 60).0).desired, described(&["c"]));
    // Another release starts without the metadata of this one.
    let other = Facts { actual: release("1.1.0", "img-2"), retrieval: None, ..own };
    assert_eq!(compute(&before, &other, at(NOW + 60).0).desired, release("1.1.0", "img-2"));
}

/// An update with a risk, as judged at a time.
fn conditional(version: &str, recommended: &str, evaluated: i64) -> ConditionalUpdate {
    let condition = |type_: &str| MetaCondition {
        type_: type_.into(),
        status: recommended.into(),
        reason: "R".into(),
        message: "m".into(),
        last_transition_time: at(evaluated),
        observed_generation: None,
    };
    let risk = ConditionalUpdateRisk {
        url: "https://r".into(),
        name: "R".into(),
        message: "m".into(),
        matching_rules: Vec::new(),
        conditions: vec![condition("Applies")],
    };
    ConditionalUpdate {
        release: release(version, "img-2"),
        risks: vec![risk],
        conditions: vec![condition("Recommended")],
        risk_names: vec!["R".into()],
    }
}

#[test]
fn conditions_of_updates_keep_their_time_until_their_status_changes() {
    let judged = |recommended, evaluated| {
        let update = conditional("1.1.0", recommended, evaluated);
        let retrieval = Retrieval { risks: update.risks.clone(), conditional: vec![update], ..Retrieval::nothing() };
        Facts { retrieval: Some(retrieval), ..facts() }
    };
    let times = |status: &ClusterVersionStatus| {
        let update = &status.conditional_updates[0];
        [&update.conditions[0], &update.risks[0].conditions[0], &status.conditional_update_risks[0].conditions[0]]
            .map(|condition| condition.last_transition_time.0.as_second())
    };
    let first = compute(&ClusterVersionStatus::default(), &judged("Unknown", NOW), at(NOW).0);
    assert_eq!(times(&first), [NOW; 3]);
    let same = compute(&first, &judged("Unknown", NOW + 60), at(NOW + 60).0);
    assert_eq!(times(&same), [NOW; 3]);
    let changed = compute(&same, &judged("True", NOW + 90), at(NOW + 95).0);
    assert_eq!(times(&changed), [NOW + 90; 3]);
    // By image: another update of the same version is another one.
    let mut other = judged("True", NOW + 120);
    other.retrieval.as_mut().unwrap().conditional[0].release.image = "img-3".into();
    let other = compute(&changed, &other, at(NOW + 120).0);
    assert_eq!(times(&other), [NOW + 120, NOW + 120, NOW + 90]);
}

#[test]
fn new_release_starts_without_old_failure() {
    let failure = Some(UpdateError::new(Reason::Other("X".into()), "broken"));
    let failed = applying(RolloutFacts { failure, done: 5, total: 7, ..rollout() });
    let before = compute(&ClusterVersionStatus::default(), &failed, at(NOW).0);
    assert_eq!(find(&before.conditions, "Failing").unwrap().status, True);
    let other = RolloutFacts { done: 0, total: 7, ..rollout() };
    let other = Facts { actual: release("1.1.0", "img-2"), ..applying(other) };
    let after = compute(&before, &other, at(NOW + 1).0);
    assert_eq!(find(&after.conditions, "Failing").unwrap().status, False);
    assert_eq!(find(&after.conditions, "Progressing").unwrap().message, "Working towards 1.1.0");
}

#[test]
fn plain_fields_follow_facts_and_missing_facts_erase_nothing() {
    let mut known = facts();
    known.generation = 4;
    known.rollout_mut().version_hash = "hash".into();
    known.capabilities.known = vec!["a".into(), "b".into()];
    known.capabilities.enabled = vec!["a".into()];
    let status = compute(&ClusterVersionStatus::default(), &known, at(NOW).0);
    let later = compute(&status, &Facts { generation: 5, rollout: None, ..facts() }, at(NOW).0);
    assert_eq!((later.observed_generation, later.version_hash.as_str()), (5, "hash"));
    assert_eq!(later.capabilities.enabled_capabilities, ["a"]);
    assert_eq!(later.capabilities.known_capabilities, ["a", "b"]);
}

#[test]
fn desired_metadata_is_filled_in_by_digest_only() {
    let full = |version: &str, image: &str| Release {
        url: format!("https://{image}"),
        channels: vec!["stable".into()],
        architecture: "Multi".into(),
        ..release(version, image)
    };
    let with = |actual: Release, current: Option<Release>, available: Vec<Release>| {
        let retrieval = Some(Retrieval { current, available, ..Retrieval::nothing() });
        compute(&ClusterVersionStatus::default(), &Facts { actual, retrieval, ..facts() }, at(NOW).0).desired
    };
    let known = full("1.0.1", "b@sha256:1");
    assert_eq!(
        with(release("", "a@sha256:1"), None, vec![known.clone()]),
        Release { image: "a@sha256:1".into(), ..known.clone() }
    );
    assert_eq!(with(release("1.0.1", "a@sha256:2"), Some(known), Vec::new()), release("1.0.1", "a@sha256:2"));
    let own = Facts { own: full("1.0.0", "img-0"), actual: release("1.0.0", "img-0"), ..facts() };
    assert_eq!(compute(&ClusterVersionStatus::default(), &own, at(NOW).0).desired, full("1.0.0", "img-0"));
}
