//! How often one object had to be brought back, and when that may happen again. Three repairs within ten minutes are a
//! conflict with another client: it is reported, and each further repair waits longer.

use super::PATIENCE;
use crate::cluster_version::status::facts::Conflict;
use crate::merge::Applied;
use crate::object::manifest::ObjectId;
use crate::pause::doubled;
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

const CONFLICT_WINDOW: SignedDuration = SignedDuration::from_mins(10);
const CONFLICT_REPAIRS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_CAP: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    /// When a repair wrote, within the window.
    writes: VecDeque<Timestamp>,
    running: bool,
    /// What is running waits for its time, because another client keeps changing the object; the last repair succeeded.
    pausing: bool,
    /// The object changed again while a repair was running.
    again: bool,
    failures: u32,
    by: Option<String>,
    fields: Vec<String>,
}

impl Repairs {
    /// The object changed: how long to wait before it is repaired; `None` if a repair is running, which is then
    /// repeated.
    pub(crate) fn begin(&mut self, now: Timestamp) -> Option<Duration> {
        if std::mem::replace(&mut self.running, true) {
            self.again = true;
            return None;
        }
        let pause = self.pause(now);
        self.pausing = !pause.is_zero() && self.failures == 0;
        Some(pause)
    }

    /// The object was brought back.
    pub(crate) fn record_write(&mut self, applied: &Applied, now: Timestamp) {
        let (fields, by) = match applied {
            Applied::Unchanged => return,
            Applied::Updated { fields, by } => (fields.clone(), by.clone()),
            Applied::Created => (vec!["(deleted)".to_owned()], None),
            Applied::Deleted => (vec!["(created)".to_owned()], None),
        };
        self.forget(now);
        self.writes.push_back(now);
        self.fields = fields;
        self.by = by.or_else(|| self.by.take());
    }

    /// Forgets what does not count now. A clock that was set back comes to the time of those writes once more, and then they would
    /// count again.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.writes.retain(|at| within_window(*at, now));
    }

    /// A repair ended: how long to wait before the next one, if one is due. After failures the pause doubles up to `cap`. Those that
    /// the server did not answer say nothing of the object: an hour without a server is no reason to be slow when it is back.
    pub(crate) fn end(&mut self, failed: bool, answered: bool, cap: Duration, now: Timestamp) -> Option<Duration> {
        let more = self.failures.saturating_add(1);
        self.failures = match (failed, answered) {
            (false, _) => 0,
            (true, true) => more,
            (true, false) => self.failures.max(more.min(PATIENCE)),
        };
        self.pausing = false;
        if !std::mem::take(&mut self.again) && !failed {
            self.running = false;
            return None;
        }
        let pause = self.pause(now);
        self.pausing = !failed && !pause.is_zero();
        let retry = if failed { doubled(PAUSE, self.failures, cap) } else { Duration::ZERO };
        Some(pause.max(retry))
    }

    /// A repair is under way, or one that failed is tried again.
    pub(crate) fn is_at_work(&self) -> bool {
        self.running && !self.pausing
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// How long to leave the object alone: not at all before there is a conflict, then longer and longer.
    pub(crate) fn pause(&self, now: Timestamp) -> Duration {
        match (self.recent(now) + 1).checked_sub(CONFLICT_REPAIRS) {
            None => Duration::ZERO,
            Some(more) => doubled(PAUSE, u32::try_from(more + 1).unwrap_or(u32::MAX), PAUSE_CAP),
        }
    }

    /// The conflict to report, if there is one.
    pub(crate) fn conflict(&self, id: &ObjectId, now: Timestamp) -> Option<Conflict> {
        let repairs = self.recent(now);
        (repairs >= CONFLICT_REPAIRS).then(|| Conflict {
            object: id.to_string(),
            manager: self.by.clone().unwrap_or_default(),
            fields: self.fields.clone(),
            repairs: u32::try_from(repairs).unwrap_or(u32::MAX),
        })
    }

    /// When the conflict is over, if nothing more happens.
    pub(crate) fn conflict_ends(&self, now: Timestamp) -> Option<Timestamp> {
        let recent: Vec<&Timestamp> = self.writes.iter().filter(|at| within_window(**at, now)).collect();
        recent.iter().rev().nth(CONFLICT_REPAIRS - 1).and_then(|at| at.checked_add(CONFLICT_WINDOW).ok())
    }

    fn recent(&self, now: Timestamp) -> usize {
        self.writes.iter().filter(|at| within_window(**at, now)).count()
    }
}

/// What seems to lie far ahead was written before the clock was set back.
fn within_window(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).abs() <= CONFLICT_WINDOW
}

#[cfg(test)]
mod tests;
