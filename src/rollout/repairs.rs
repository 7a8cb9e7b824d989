//! How often one object had to be brought back, and when that may happen again. Three repairs within ten minutes are a
//! conflict with another client: it is reported, and each further repair waits longer.

use super::backoff::doubled;
use super::message::Applied;
use crate::payload::ObjectId;
use crate::status::facts::Conflict;
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
        Some(self.pause(now))
    }

    /// The running repair is repeated, whatever comes of it.
    pub(crate) fn repeat(&mut self) {
        self.again = true;
    }

    /// The object was brought back.
    pub(crate) fn record_write(&mut self, applied: &Applied, now: Timestamp) {
        let (fields, by) = match applied {
            Applied::Left => return,
            Applied::Updated { fields, by } => (fields.clone(), by.clone()),
            Applied::Created => (vec!["(deleted)".to_owned()], None),
            Applied::Deleted => (vec!["(created)".to_owned()], None),
        };
        self.writes.retain(|at| within_window(*at, now));
        self.writes.push_back(now);
        self.fields = fields;
        self.by = by.or_else(|| self.by.take());
    }

    /// A repair ended: how long to wait before the next one, if one is due.
    pub(crate) fn end(&mut self, failed: bool, now: Timestamp) -> Option<Duration> {
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        if !std::mem::take(&mut self.again) && !failed {
            self.running = false;
            return None;
        }
        let retry = if failed { doubled(PAUSE, self.failures, PAUSE_CAP) } else { Duration::ZERO };
        Some(self.pause(now).max(retry))
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
        recent.iter().rev().nth(CONFLICT_REPAIRS - 1).map(|at| **at + CONFLICT_WINDOW)
    }

    fn recent(&self, now: Timestamp) -> usize {
        self.writes.iter().filter(|at| within_window(**at, now)).count()
    }
}

fn within_window(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) <= CONFLICT_WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn updated(by: Option<&str>) -> Applied {
        Applied::Updated { fields: vec!["data.a".into()], by: by.map(str::to_owned) }
    }

    #[test]
    fn failed_repair_backs_off_and_success_starts_over() {
        let mut repairs = Repairs::default();
        assert_eq!(repairs.begin(at(0)), Some(Duration::ZERO));
        let pauses: Vec<u64> = (0..11).map(|_| repairs.end(true, at(0)).unwrap().as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(repairs.end(false, at(0)), None);
        assert_eq!(repairs.begin(at(0)), Some(Duration::ZERO));
        assert_eq!(repairs.end(true, at(0)), Some(PAUSE), "as after the first failure");
    }

    #[test]
    fn third_repair_is_a_conflict_and_slower() {
        let mut repairs = Repairs::default();
        let id = ObjectId::new("", "ConfigMap", "ns", "a");
        for _ in 0..2 {
            assert_eq!(repairs.begin(at(0)), Some(Duration::ZERO));
            assert_eq!((repairs.conflict(&id, at(0)), repairs.conflict_ends(at(0))), (None, None));
            repairs.record_write(&updated(Some("somebody")), at(0));
            assert_eq!(repairs.end(false, at(0)), None);
        }
        assert_eq!(repairs.begin(at(1)), Some(PAUSE));
        repairs.record_write(&updated(None), at(1));
        let conflict = repairs.conflict(&id, at(1)).unwrap();
        assert_eq!((conflict.manager.as_str(), conflict.repairs), ("somebody", 3));
        assert_eq!(conflict.fields, ["data.a"]);
        assert_eq!(repairs.conflict_ends(at(1)), Some(at(600)), "ten minutes after the first of the last three");
        assert_eq!(repairs.begin(at(1)), None, "one repair at a time");
        assert_eq!(repairs.end(false, at(1)), Some(2 * PAUSE), "it changed again meanwhile, and slower still");
    }

    #[test]
    fn conflict_ends_when_the_window_has_passed() {
        let mut repairs = Repairs::default();
        let id = ObjectId::new("", "ConfigMap", "ns", "a");
        for second in [0, 1, 2] {
            repairs.record_write(&Applied::Created, at(second));
        }
        assert!(repairs.conflict(&id, at(600)).is_some());
        assert_eq!((repairs.conflict(&id, at(601)), repairs.pause(at(603))), (None, Duration::ZERO));
        assert_eq!(repairs.pause(at(601)), PAUSE, "two are left in the window");
    }
}
