//! What the controller tells: facts for the status, the progress record, events, and when it has to look again.

use super::ClusterVersionController;
use super::loading::Load;
use super::notices;
use super::retry::Refused;
use super::seen::Seen;
use crate::cluster_version::api::{ClusterVersionStatus, HistoryEntry, HistoryState};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::progress;
use crate::cluster_version::progress::{Progress, SCHEMA};
use crate::cluster_version::rollout::View;
use crate::cluster_version::status;
use crate::cluster_version::status::Facts;
use crate::cluster_version::status::facts::{LoadStatus, RolloutFacts};
use crate::cluster_version::updates::timeline::Course;
use crate::cluster_version::work::drained;
use crate::process::events::Notice;
use crate::release::api::Release;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// When the report of what is waited for changes by time alone.
const REPORT_AFTER: [SignedDuration; 4] = [
    SignedDuration::from_mins(1),
    SignedDuration::from_mins(30),
    SignedDuration::from_mins(40),
    SignedDuration::from_mins(90),
];

impl ClusterVersionController {
    /// Everything that the status is computed from.
    pub(super) fn facts(&self, seen: &Seen) -> Facts {
        let rollout = seen.rollout.as_ref().zip(self.current.as_ref());
        // An update that was interrupted before the hand-over goes on once its release is loaded again.
        let actual = match (&rollout, &self.load) {
            (Some((view, _)), _) => view.plan.release.clone(),
            (None, Some(load)) => load.target.release.clone(),
            (None, None) => Release::default(),
        };
        Facts {
            generation: seen.live.generation,
            actual,
            rollout: rollout.map(|(view, current)| RolloutFacts {
                begun: view.plan.mode,
                completed: view.completed,
                done: view.done,
                total: view.plan.manifests.len(),
                failure: view.failure_beside(&self.drained.explained()),
                version_hash: current.selection.hash.clone(),
                waiting_since: view.waiting_since.clone(),
                conflicts: view.conflicts.clone(),
                unwatched: seen.unwatched.clone(),
                kept: seen.kept_fields.clone(),
            }),
            verified: self.accepted.verified,
            local: Arc::ptr_eq(&self.accepted.payload, &self.parts.own),
            accepted_risks: self.accepted.risks.clone(),
            load: self.load_status(seen),
            capabilities: self.filter.facts(),
            retrieval: seen.retrieval.clone(),
            invalid: seen.invalid.clone(),
            risks: seen.risks.clone(),
            dropped: self.dropped.named(),
            own: self.parts.own.release.clone(),
        }
    }

    /// The last attempt to load a release, as long as it is asked for; otherwise the release that runs was accepted.
    fn load_status(&self, seen: &Seen) -> Option<LoadStatus> {
        let loading = self.load.as_ref().map(Load::status);
        let failed = |status: &LoadStatus| matches!(status.outcome, Some(Err(_)));
        let told = match (loading, &self.refused) {
            (Some(loading), Some(refused)) if !failed(&loading) && self.is_refused_before() => {
                Some(refused.beside(loading))
            }
            (loading, refused) => loading.or_else(|| refused.as_ref().map(Refused::status)),
        };
        let accepted = || seen.rollout.as_ref().map(|_| LoadStatus::accepted(self.accepted.payload.release.clone()));
        told.or_else(accepted).map(|status| LoadStatus { note: self.note_on(seen), ..status })
    }

    /// Whether the release that is being loaded was refused before.
    fn is_refused_before(&self) -> bool {
        self.load.as_ref().zip(self.refused.as_ref()).is_some_and(|(load, refused)| refused.target.is(&load.target))
    }

    /// Finds out about operators that are not available whether nodes explain that.
    pub(super) fn follow_drained(&mut self, seen: &Seen) {
        let Some(rollout) = &seen.rollout else {
            return self.drained.follow(&BTreeSet::new(), |_| BTreeSet::new());
        };
        let homes = |operator: &str| drained::homes(&rollout.plan.manifests, operator);
        self.drained.follow(&rollout.unavailable_operators(), homes);
    }

    /// Brings the durations up to date with the rollout.
    pub(super) fn observe_rollout(&mut self, seen: &Seen) {
        let Some(rollout) = &seen.rollout else { return };
        // A rollout that finds everything in place says nothing about how long an update takes.
        if rollout.plan.mode != Mode::Reconcile {
            for node in &rollout.nodes {
                if let (Some(started), Some(finished)) = (node.started, node.finished)
                    && let Some(component) = node.id.rsplit('/').next()
                {
                    self.durations.insert(component.to_owned(), finished.duration_since(started).as_secs_f64());
                }
            }
            let (history, release) = (&seen.live.status.history, &rollout.plan.release);
            let is_before =
                |entry: &&HistoryEntry| entry.state == HistoryState::Completed && entry.image != release.image;
            let before = history.iter().find(is_before);
            let course = Course {
                mode: if rollout.plan.mode == Mode::Install { "install" } else { "update" },
                from: before.map_or("", |entry| &entry.version),
                version: &release.version,
                image: &release.image,
                started: rollout.started,
                nodes: &rollout.nodes,
                completed: rollout.completed,
            };
            self.timeline.observe(&course, seen.at);
        }
    }

    /// Event, progress record and status, if they differ from what was told before.
    pub(super) fn publish(&mut self, seen: &Seen) {
        let facts = self.facts(seen);
        self.tell_load_status(facts.load.as_ref(), seen);
        self.tell_history(seen);
        self.tell_hand_over(seen);
        self.tell_scaled_to_zero(seen);
        if let Some(rollout) = &seen.rollout {
            self.parts.records.send_replace(self.record(rollout, seen));
        }
        let next = self.status_to_write(seen, &facts);
        if let Some(current) = &self.current {
            // An update that was interrupted at its first write must be known to the next process, with the risks that
            // were accepted for it.
            if next.as_ref().is_none_or(|next| next.history == seen.live.status.history) {
                current.rollout.admit();
            }
        }
        match next {
            Some(status) => self.writer.offer(seen.live.raw.clone(), status),
            None => self.writer.rest(),
        }
    }

    fn tell(&self, notice: Notice, seen: &Seen) {
        self.parts.events.publish(notice, &self.parts.settings.name, &seen.live.uid);
    }

    /// This process is about to be stopped; nothing else would say why.
    fn tell_scaled_to_zero(&mut self, seen: &Seen) {
        let own = self.own_deployment();
        if seen.scaled_to_zero && !self.stopped {
            tracing::warn!(deployment = %own, "scaled to zero by another client; it stays so");
            self.tell(notices::scaled_to_zero(&own), seen);
        }
        self.stopped = seen.scaled_to_zero;
    }

    fn tell_load_status(&mut self, status: Option<&LoadStatus>, seen: &Seen) {
        let Some(status) = status else { return };
        let notice = notices::notice(status);
        if self.told.is_new(&status.release, &notice) {
            self.tell(notice, seen);
        }
    }

    /// Where an update begins and ends. What the process before has recorded it has told as well, and what is there before
    /// anything is known happened long ago.
    fn tell_history(&mut self, seen: &Seen) {
        let history = &seen.live.status.history;
        let notice = self.told_entry.as_ref().and_then(|before| notices::of_history(before.as_ref(), history));
        if let Some(notice) = notice {
            self.tell(notice, seen);
        }
        self.told_entry = Some(history.first().cloned());
    }

    /// Also when the process is stopped at the same moment.
    pub(super) fn tell_hand_over(&mut self, seen: &Seen) {
        let Some(rollout) = &seen.rollout else { return };
        if rollout.handing_over && !self.told_hand_over {
            self.tell(notices::handed_over(&rollout.plan.release, &rollout.plan.own_deployment), seen);
            self.told_hand_over = true;
        }
    }

    /// That the release to be applied was accepted in spite of something.
    pub(super) fn tell_overridden(&self, forced: bool, seen: &Seen) {
        if !self.accepted.risks.is_empty() {
            self.tell(notices::overridden(&self.accepted.payload.release, &self.accepted.risks, forced), seen);
        }
    }

    /// `None` if it is so already.
    pub(super) fn status_to_write(&self, seen: &Seen, facts: &Facts) -> Option<ClusterVersionStatus> {
        let live = &seen.live;
        let next = self.writer.acceptable(status::compute(&live.status, facts, seen.at));
        (live.restored || next != live.status).then_some(next)
    }

    fn record(&self, rollout: &View, seen: &Seen) -> Progress {
        let plan = &rollout.plan;
        Progress {
            schema: SCHEMA,
            release: plan.release.clone(),
            rollout: progress::Rollout {
                mode: format!("{:?}", rollout.mode()).to_lowercase(),
                started: Some(rollout.started),
                done: rollout.done,
                total: plan.manifests.len(),
            },
            nodes: rollout.nodes_beside(&self.drained.explained()),
            clocks: rollout.clocks.all().clone(),
            durations: self.durations.clone(),
            payloads: self.payloads.clone(),
            dropped: self.dropped.record(),
            history: self.live.history().to_vec(),
            advice: seen.advice.clone(),
            refused: self.refused.as_ref().map(Refused::record),
            updates: self.timeline.records().to_vec(),
            ..Progress::default()
        }
    }

    /// When to look again although nothing has happened.
    pub(super) fn next_turn(&self, seen: &Seen) -> Option<Timestamp> {
        let retry = self.refused.as_ref().filter(|_| self.load.is_none()).map(|refused| refused.again);
        let waiting = seen.rollout.iter().flat_map(|rollout| rollout.waiting_since.values());
        waiting.flat_map(|since| reported_at(*since)).filter(|at| *at > seen.at).chain(retry).min()
    }
}

/// When the report of an operator that is waited for since then changes. The time comes from the cluster, so it may be any,
/// also one that is too late for anything to come after it.
fn reported_at(since: Timestamp) -> impl Iterator<Item = Timestamp> {
    REPORT_AFTER.into_iter().filter_map(move |after| since.checked_add(after + SignedDuration::from_secs(1)).ok())
}

#[cfg(test)]
mod tests;
