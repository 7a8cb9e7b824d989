//! A release that was asked for and not accepted: when it is tried again.

use crate::api::progress::RefusedRelease;
use crate::status::facts::{LoadStatus, LoadStep};
use crate::updates::Target;
use jiff::{SignedDuration, Timestamp};

/// It is tried again after this, doubling up to the cap.
const PAUSE: SignedDuration = SignedDuration::from_secs(20);
const PAUSE_CAP: SignedDuration = SignedDuration::from_mins(10);

/// What was refused last.
pub(crate) struct Refused {
    pub target: Target,
    status: LoadStatus,
    pub again: Timestamp,
    attempts: u32,
    /// Of the spec that it was refused by.
    generation: i64,
}

impl Refused {
    /// Refused at `now`, after what was refused before.
    pub(crate) fn new(
        target: Target,
        status: LoadStatus,
        before: Option<&Refused>,
        generation: i64,
        now: Timestamp,
    ) -> Refused {
        let attempts = before.filter(|before| before.target.is(&target)).map_or(1, |before| before.attempts + 1);
        let pause = (PAUSE * (1 << (attempts - 1).min(10))).min(PAUSE_CAP);
        Refused { target, status, again: now.saturating_add(pause).unwrap_or(now), attempts, generation }
    }

    /// Why, and how often it was tried.
    pub(crate) fn status(&self) -> LoadStatus {
        LoadStatus { tries: self.attempts, ..self.status.clone() }
    }

    /// For those who read the progress record.
    pub(crate) fn record(&self) -> RefusedRelease {
        let release = &self.target.release;
        RefusedRelease { version: release.version.clone(), image: release.image.clone(), again: Some(self.again) }
    }

    /// Another spec may have corrected what was wrong: then it is tried at once.
    pub(crate) fn consider(&mut self, generation: i64, now: Timestamp) {
        if self.generation != generation {
            (self.generation, self.attempts, self.again) = (generation, 0, now);
        }
    }

    /// Whether it may be accepted once there is another signature.
    pub(crate) fn waits_for_a_signature(&self) -> bool {
        self.status.step == LoadStep::RetrievePayload
    }

    /// A signature was added to the cluster: if one was missing, it is tried at once.
    pub(crate) fn on_signature(&mut self, now: Timestamp) {
        if self.waits_for_a_signature() {
            self.again = now;
        }
    }
}

#[cfg(test)]
mod tests;
