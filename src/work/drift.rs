//! Drift: an object that another hand changed is brought back at once; one that is changed again and again is a fight,
//! and fights are fought ever more slowly and reported (architecture §3, "Fights").

use super::apply::Applied;
use super::node::Context;
use crate::gate::{self, Verdict};
use crate::graph::Mode;
use crate::payload::ObjectId;
use crate::status::facts::Conflict;
use crate::status::failure::UpdateError;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Repairs of one object within this time are a fight when there are as many as [`FIGHT_REPAIRS`].
const FIGHT_WINDOW: Duration = Duration::from_secs(600);
const FIGHT_REPAIRS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_CAP: Duration = Duration::from_secs(300);

/// What came of looking after one touched object.
#[derive(Debug)]
pub struct Mended {
    pub id: ObjectId,
    pub position: usize,
    /// What the verdict was made for.
    pub mode: Mode,
    pub applied: Option<Applied>,
    pub verdict: Option<Verdict>,
    /// It could not be brought back: to be tried again.
    pub failed: Option<UpdateError>,
}

/// Applies a touched object's manifest again if need be, after `pause`, and judges its health.
pub async fn mend(context: &Context, mode: Mode, id: ObjectId, position: usize, pause: Duration) -> Mended {
    let mut mended = Mended { id: id.clone(), position, mode, applied: None, verdict: None, failed: None };
    if context.cancel.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
        return mended;
    }
    let Some(manifest) = context.manifests.get(position) else { return mended };
    match context.applier.apply(manifest).await {
        Ok(applied) => mended.applied = Some(applied),
        Err(obstacle) => {
            mended.failed = Some(obstacle.update_error(manifest));
            return mended;
        }
    }
    let judged = gate::gated(&id.group, &id.kind) && !manifest.create_only() && manifest.delete() == Ok(false);
    if judged
        && let Some((kind, id)) = context.applier.kinds.resolve(manifest)
        && let Ok(want) = manifest.outline()
    {
        match context.applier.view(&kind, &id).await {
            Ok(view) => mended.verdict = Some(gate::judge(&want, view.as_deref(), mode)),
            Err(error) => mended.failed = Some(UpdateError::from(&error)),
        }
    }
    mended
}

/// How often one object had to be brought back, and by whom it was changed.
#[derive(Debug, Default)]
pub struct Repairs {
    /// When we had to write, within the window.
    times: VecDeque<Instant>,
    running: bool,
    /// Touched again while a repair was running.
    again: bool,
    failures: u32,
    by: Option<String>,
    fields: Vec<String>,
}

impl Repairs {
    /// The object was touched: how long to wait before looking after it; `None` if that is under way already.
    pub fn begin(&mut self) -> Option<Duration> {
        if std::mem::replace(&mut self.running, true) {
            self.again = true;
            return None;
        }
        Some(self.pause())
    }

    /// Whatever comes of the repair that is running, another one follows.
    pub fn look_again(&mut self) {
        self.again = true;
    }

    /// A repair wrote.
    pub fn wrote(&mut self, fields: &[String], by: Option<&str>) {
        self.times.push_back(Instant::now());
        while self.times.front().is_some_and(|t| t.elapsed() > FIGHT_WINDOW) {
            self.times.pop_front();
        }
        self.fields = fields.to_vec();
        if let Some(by) = by {
            self.by = Some(by.to_owned());
        }
    }

    /// A repair ended: when to begin the next, if one is due.
    pub fn end(&mut self, failed: bool) -> Option<Duration> {
        self.failures = if failed { self.failures + 1 } else { 0 };
        if !std::mem::take(&mut self.again) && !failed {
            self.running = false;
            return None;
        }
        let retry = if failed { crate::cluster::jittered(PAUSE, self.failures, PAUSE_CAP) } else { Duration::ZERO };
        Some(self.pause().max(retry))
    }

    fn recent(&self) -> usize {
        self.times.iter().filter(|t| t.elapsed() <= FIGHT_WINDOW).count()
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// None for the first repairs; from the third one on doubling from one second.
    pub fn pause(&self) -> Duration {
        match (self.recent() + 1).checked_sub(FIGHT_REPAIRS) {
            None => Duration::ZERO,
            Some(more) => crate::cluster::jittered(PAUSE, u32::try_from(more + 1).unwrap_or(u32::MAX), PAUSE_CAP),
        }
    }

    /// The fight to report, if it is one.
    pub fn fight(&self, id: &ObjectId) -> Option<Conflict> {
        let repairs = self.recent();
        (repairs >= FIGHT_REPAIRS).then(|| Conflict {
            object: id.to_string(),
            manager: self.by.clone().unwrap_or_default(),
            fields: self.fields.clone(),
            repairs: u32::try_from(repairs).unwrap_or(u32::MAX),
        })
    }

    /// When it stops being a fight, if nothing more happens.
    pub fn quiet_at(&self) -> Option<Instant> {
        if self.recent() < FIGHT_REPAIRS {
            return None;
        }
        self.times.iter().rev().nth(FIGHT_REPAIRS - 1).map(|t| *t + FIGHT_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// §10.19: the back-off belongs to one object, and a success begins it anew.
    #[test]
    fn failed_repairs_come_ever_later_and_a_success_starts_afresh() {
        let mut repairs = Repairs::default();
        assert_eq!(repairs.begin(), Some(Duration::ZERO));
        let mut pauses = Vec::new();
        for _ in 0..4 {
            pauses.push(repairs.end(true).unwrap());
        }
        assert!(pauses.windows(2).all(|pair| pair[1] > pair[0] + PAUSE / 2), "{pauses:?}");
        assert_eq!(repairs.end(false), None);
        assert_eq!((repairs.begin(), Repairs::default().begin()), (Some(Duration::ZERO), Some(Duration::ZERO)));
        assert!(repairs.end(true).unwrap() < 2 * PAUSE, "as after the first failure");
    }

    #[test]
    fn the_third_repair_is_a_fight_and_slower() {
        let mut repairs = Repairs::default();
        let id = ObjectId::new("", "ConfigMap", "ns", "a");
        for _ in 0..2 {
            assert_eq!(repairs.begin(), Some(Duration::ZERO));
            assert_eq!(repairs.fight(&id), None);
            repairs.wrote(&["data.a".into()], Some("somebody"));
            assert_eq!(repairs.end(false), None);
        }
        assert!(repairs.begin().unwrap() >= PAUSE);
        repairs.wrote(&["data.a".into()], None);
        let fight = repairs.fight(&id).unwrap();
        assert_eq!((fight.manager.as_str(), fight.repairs), ("somebody", 3));
        assert!(repairs.quiet_at().is_some());
        assert_eq!(repairs.begin(), None, "one repair at a time");
        assert!(repairs.end(false).unwrap() >= 2 * PAUSE, "touched again meanwhile, and slower still");
    }
}
