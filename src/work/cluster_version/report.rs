//! What the controller tells: facts for the status, the progress record, events, and when it has to look again.

use super::loading::Load;
use super::retry::Refused;
use super::{ClusterVersionController, Current};
use crate::api::progress::{self, Progress, SCHEMA};
use crate::api::{ClusterVersionStatus, HistoryState};
use crate::graph::Mode;
use crate::rollout::View;
use crate::status::facts::{LoadStatus, RolloutFacts};
use crate::status::{self, Facts};
use crate::updates::timeline::Course;
use crate::work::{drained, events};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// When the report of what is waited for changes by time alone.
const REPORT_AFTER: [SignedDuration; 4] = [
    SignedDuration::from_mins(1),
    SignedDuration::from_mins(30),
    SignedDuration::from_mins(40),
    SignedDuration::from_mins(90),
];

impl ClusterVersionController {
    /// Everything that the status is computed from.
    fn facts(&self) -> Facts {
        let mut facts = Facts {
            generation: self.live.live().map_or(0, |live| live.generation),
            verified: self.accepted.verified,
            local: Arc::ptr_eq(&self.accepted.payload, &self.parts.own),
            accepted_risks: self.accepted.risks.clone(),
            load: self.load_status(),
            capabilities: self.filter.facts(),
            retrieval: self.parts.advice.retrieval(),
            invalid: self.invalid.clone(),
            dropped: self.dropped.named(),
            ..Facts::new(self.parts.own.release.clone())
        };
        // An update that was interrupted before the hand-over goes on once its release is loaded again.
        if let (None, Some(load)) = (&self.current, &self.load) {
            facts.actual.clone_from(&load.target.release);
        }
        facts.rollout = self.current.as_ref().map(|Current { rollout, selection, .. }| {
            let (unwatched, kept) = rollout.hindrances();
            let view = rollout.view();
            facts.actual.clone_from(&view.plan.release);
            RolloutFacts {
                begun: view.plan.mode,
                completed: view.completed,
                done: view.done,
                total: view.plan.manifests.len(),
                failure: view.failure_beside(&self.drained.explained()),
                version_hash: selection.hash.clone(),
                waiting_since: view.waiting_since.clone(),
                conflicts: view.conflicts.clone(),
                unwatched,
                kept,
            }
        });
        let mode = facts.rollout.as_ref().map(RolloutFacts::mode);
        facts.risks = self.live.live().zip(mode).and_then(|(live, mode)| self.risks_in(mode, &live.spec));
        facts
    }

    /// The last attempt to load a release, as long as it is asked for; otherwise the release that runs was accepted.
    fn load_status(&self) -> Option<LoadStatus> {
        let loading = self.load.as_ref().map(Load::status);
        let failed = |status: &LoadStatus| matches!(status.outcome, Some(Err(_)));
        let told = match (loading, &self.refused) {
            (Some(loading), Some(refused)) if !failed(&loading) && self.is_refused_before() => {
                Some(refused.beside(loading))
            }
            (loading, refused) => loading.or_else(|| refused.as_ref().map(Refused::status)),
        };
        let accepted = || self.current.as_ref().map(|_| LoadStatus::accepted(self.accepted.payload.release.clone()));
        told.or_else(accepted).map(|status| LoadStatus { note: self.note.clone(), ..status })
    }

    /// Whether the release that is being loaded was refused before.
    fn is_refused_before(&self) -> bool {
        self.load.as_ref().zip(self.refused.as_ref()).is_some_and(|(load, refused)| refused.target.is(&load.target))
    }

    /// Finds out about operators that are not available whether nodes explain that.
    pub(super) fn follow_drained(&mut self) {
        let Some(Current { rollout, .. }) = &self.current else {
            return self.drained.follow(&BTreeSet::new(), |_| BTreeSet::new());
        };
        let rollout = rollout.view();
        let manifests = &rollout.plan.manifests;
        self.drained.follow(&rollout.unavailable_operators(), |operator| drained::homes(manifests, operator));
    }

    /// Brings the durations up to date with the rollout.
    pub(super) fn observe_rollout(&mut self, now: Timestamp) {
        let Some(current) = &self.current else { return };
        let rollout = current.rollout.view();
        // A rollout that finds everything in place says nothing about how long an update takes.
        if rollout.plan.mode != Mode::Reconcile {
            for node in &rollout.nodes {
                if let (Some(started), Some(finished)) = (node.started, node.finished)
                    && let Some(component) = node.id.rsplit('/').next()
                {
                    self.durations.insert(component.to_owned(), finished.duration_since(started).as_secs_f64());
                }
            }
            let (history, release) = (self.live.live().map(|live| &live.status.history), &rollout.plan.release);
            let before = history
                .into_iter()
                .flatten()
                .find(|entry| entry.state == HistoryState::Completed && entry.image != release.image);
            let course = Course {
                mode: if rollout.plan.mode == Mode::Install { "install" } else { "update" },
                from: before.map_or("", |entry| &entry.version),
                version: &release.version,
                image: &release.image,
                started: rollout.started,
                nodes: &rollout.nodes,
                completed: rollout.completed,
            };
            self.timeline.observe(&course, now);
        }
    }

    /// Event, progress record and status, if they differ from what was told before.
    pub(super) fn publish(&mut self, now: Timestamp) {
        self.tell_load_status();
        self.tell_history();
        self.tell_hand_over();
        self.tell_scaled_to_zero();
        if let Some(current) = &self.current {
            let record = self.record(&current.rollout.view());
            self.parts.records.send_replace(record);
        }
        let next = self.status_to_write(now);
        if let Some(current) = &self.current {
            // An update that was interrupted at its first write must be known to the next process, with the risks that
            // were accepted for it.
            let history = self.live.live().map(|live| &live.status.history);
            if next.as_ref().is_none_or(|(_, next)| Some(&next.history) == history) {
                current.rollout.admit();
            }
        }
        match next {
            Some((live, status)) => self.writer.offer(live, status),
            None => self.writer.rest(),
        }
    }

    /// This process is about to be stopped; nothing else would say why.
    fn tell_scaled_to_zero(&mut self) {
        let Some((current, live)) = self.current.as_ref().zip(self.live.live()) else { return };
        let rollout = current.rollout.view();
        let deployment = &rollout.plan.own_deployment;
        let resting = rollout.mode() == Mode::Reconcile;
        let stopped = resting && self.parts.applier.is_scaled_to_zero(deployment);
        if stopped && !self.stopped {
            tracing::warn!(%deployment, "scaled to zero by another client; it stays so");
            self.parts.events.publish(events::scaled_to_zero(deployment), &self.parts.name, &live.uid);
        }
        self.stopped = stopped;
    }

    fn tell_load_status(&mut self) {
        let Some((status, live)) = self.load_status().zip(self.live.live()) else { return };
        let notice = events::notice(&status);
        if self.told.is_new(&status.release, &notice) {
            self.parts.events.publish(notice, &self.parts.name, &live.uid);
        }
    }

    /// Where an update begins and ends. What the process before has recorded it has told as well, and what is there before
    /// anything is known happened long ago.
    fn tell_history(&mut self) {
        let Some(live) = self.live.live() else { return };
        let history = &live.status.history;
        let notice = self.told_entry.as_ref().and_then(|before| events::of_history(before.as_ref(), history));
        if let Some(notice) = notice {
            self.parts.events.publish(notice, &self.parts.name, &live.uid);
        }
        self.told_entry = Some(history.first().cloned());
    }

    /// Also when the process is stopped at the same moment.
    pub(super) fn tell_hand_over(&mut self) {
        let Some((current, live)) = self.current.as_ref().zip(self.live.live()) else { return };
        let rollout = current.rollout.view();
        if rollout.handing_over && !self.told_hand_over {
            let notice = events::handed_over(&rollout.plan.release, &rollout.plan.own_deployment);
            self.parts.events.publish(notice, &self.parts.name, &live.uid);
            self.told_hand_over = true;
        }
    }

    /// That the release to be applied was accepted in spite of something.
    pub(super) fn tell_overridden(&self, forced: bool) {
        let Some(live) = self.live.live().filter(|_| !self.accepted.risks.is_empty()) else { return };
        let notice = events::overridden(&self.accepted.payload.release, &self.accepted.risks, forced);
        self.parts.events.publish(notice, &self.parts.name, &live.uid);
    }

    pub(super) fn status_to_write(&self, now: Timestamp) -> Option<(Value, ClusterVersionStatus)> {
        let live = self.live.live()?;
        let next = self.writer.acceptable(status::compute(&live.status, &self.facts(), now));
        (live.restored || next != live.status).then(|| (live.raw.clone(), next))
    }

    fn record(&self, rollout: &View) -> Progress {
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
            advice: self.parts.advice.record(),
            refused: self.refused.as_ref().map(Refused::record),
            updates: self.timeline.records().to_vec(),
            ..Progress::default()
        }
    }

    /// How long nothing can change by itself.
    pub(super) fn deadline(&self, now: Timestamp) -> Duration {
        let retry = self.refused.as_ref().filter(|_| self.load.is_none()).map(|refused| refused.again);
        let view = self.current.as_ref().map(|current| current.rollout.view());
        let waiting = view.iter().flat_map(|view| view.waiting_since.values());
        let next = waiting.flat_map(|since| reported_at(*since)).filter(|at| *at > now).chain(retry).min();
        let next = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO));
        [next, self.writer.due()].into_iter().flatten().min().unwrap_or(Duration::from_secs(3600))
    }
}

/// When the report of an operator that is waited for since then changes. The time comes from the cluster, so it may be any,
/// also one that is too late for anything to come after it.
fn reported_at(since: Timestamp) -> impl Iterator<Item = Timestamp> {
    REPORT_AFTER.into_iter().filter_map(move |after| since.checked_add(after + SignedDuration::from_secs(1)).ok())
}

#[cfg(test)]
mod tests;
