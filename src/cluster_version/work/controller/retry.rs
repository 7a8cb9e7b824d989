//! A release that was asked for and not accepted: when it is tried again.

use crate::cluster_version::progress::RefusedRelease;
use crate::cluster_version::status::facts::LoadStatus;
use crate::cluster_version::updates::{FeatureGates, Target};
use crate::cluster_version::work::retrieve::{Refusal, Unsigned};
use crate::net::http::Egress;
use crate::pause::doubled;
use jiff::{SignedDuration, Timestamp};

/// It is tried again after this, doubling up to the cap.
const PAUSE: SignedDuration = SignedDuration::from_secs(20);
const PAUSE_CAP: SignedDuration = SignedDuration::from_mins(10);

/// What was refused last.
pub(crate) struct Refused {
    pub target: Target,
    status: LoadStatus,
    unsigned: Option<Unsigned>,
    pub again: Timestamp,
    attempts: u32,
    /// What it was refused by.
    terms: Terms,
}

/// What decides whether a release is accepted, beside the release and what is in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Of the spec.
    pub generation: i64,
    /// Those of the running release: without its gate, signature stores do not count.
    pub gates: FeatureGates,
}

/// A way out of the cluster as it is found.
pub(crate) type FoundWay = Option<Result<Egress, String>>;

impl Refused {
    /// Refused at `now`, after what was refused before.
    pub(crate) fn new(
        target: Target,
        refusal: Refusal,
        before: Option<&Refused>,
        terms: Terms,
        now: Timestamp,
    ) -> Refused {
        let attempts =
            before.filter(|before| before.target.is(&target)).map_or(1, |before| before.attempts.saturating_add(1));
        let pause = doubled(PAUSE.unsigned_abs(), attempts, PAUSE_CAP.unsigned_abs());
        let Refusal { status, unsigned, .. } = refusal;
        Refused { target, status, unsigned, again: now.saturating_add(pause).unwrap_or(now), attempts, terms }
    }

    /// Why, and how often it was tried.
    pub(crate) fn status(&self) -> LoadStatus {
        LoadStatus { tries: self.attempts, ..self.status.clone() }
    }

    /// What is told while it is tried again, of what the attempt does. Until the attempt is past the step that failed, the last
    /// cause stands: otherwise it would never be told for how long it has been so.
    pub(crate) fn beside(&self, attempt: LoadStatus) -> LoadStatus {
        let unsigned = self.unsigned.is_some() && attempt.searched;
        if attempt.step > self.status.step || unsigned && attempt.step == self.status.step {
            return LoadStatus { tries: self.attempts, ..attempt };
        }
        self.status()
    }

    /// For those who read the progress record.
    pub(crate) fn record(&self) -> RefusedRelease {
        let release = &self.target.release;
        RefusedRelease { version: release.version.clone(), image: release.image.clone(), again: Some(self.again) }
    }

    /// Another spec, or another gate, may have corrected what was wrong: then it is tried at once. So it is if the clock was set
    /// back since.
    pub(crate) fn consider(&mut self, terms: Terms, now: Timestamp) {
        if self.terms != terms {
            (self.terms, self.attempts, self.again) = (terms, 0, now);
        }
        if self.again.duration_since(now) > PAUSE_CAP {
            self.again = now;
        }
    }

    /// Whether it may be accepted once there is another signature.
    pub(crate) fn unsigned(&self) -> Option<Unsigned> {
        self.unsigned
    }

    /// A signature with this resourceVersion was added to the cluster: it is tried at once, unless that one has been read.
    pub(crate) fn on_signature(&mut self, version: Option<u64>, now: Timestamp) {
        if self.unsigned.is_some_and(|unsigned| unsigned.lacks(version).unwrap_or(true)) {
            self.again = now;
        }
    }

    /// There is another way out of the cluster, by which more signatures may be found.
    pub(crate) fn on_new_way(&mut self, now: Timestamp) {
        if self.unsigned.is_some() {
            self.again = now;
        }
    }

    /// The same of a way that was found during the attempt, if the attempt was begun with another one. One that was begun with none has
    /// waited for the first.
    pub(crate) fn on_new_way_meanwhile(&mut self, begun_with: &FoundWay, found: &FoundWay, now: Timestamp) {
        if begun_with.is_some() && begun_with != found && matches!(found, Some(Ok(_))) {
            self.on_new_way(now);
        }
    }

    /// The same as of a new signature, for one that was seen during the attempt, if it is certain that the attempt has not read it.
    pub(crate) fn on_signature_meanwhile(&mut self, version: Option<u64>, now: Timestamp) {
        if self.unsigned.is_some_and(|unsigned| unsigned.lacks(version) == Some(true)) {
            self.again = now;
        }
    }
}

#[cfg(test)]
mod tests;
