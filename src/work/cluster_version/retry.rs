//! A release that was asked for and not accepted: when it is tried again.

use crate::status::facts::LoadStatus;
use crate::updates::Target;
use jiff::{SignedDuration, Timestamp};

/// It is tried again after this, doubling up to the cap.
const PAUSE: SignedDuration = SignedDuration::from_secs(20);
const PAUSE_CAP: SignedDuration = SignedDuration::from_mins(10);

/// What was refused last.
pub(crate) struct Refused {
    pub target: Target,
    /// Why.
    pub status: LoadStatus,
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
        Refused { target, status, again: now + pause, attempts, generation }
    }

    /// Another spec may have corrected what was wrong: then it is tried at once.
    pub(crate) fn consider(&mut self, generation: i64, now: Timestamp) {
        if self.generation != generation {
            (self.generation, self.attempts, self.again) = (generation, 0, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Release;

    #[test]
    fn refused_release_is_tried_later_and_later_and_at_once_when_the_spec_changes() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let target = |image: &str| Target {
            release: Release { image: image.into(), ..Release::default() },
            ..Target::default()
        };
        let refuse = |image: &str, before: Option<&Refused>, generation| {
            let status = LoadStatus::failed(Release::default(), "no".into());
            Refused::new(target(image), status, before, generation, now)
        };
        let seconds = |refused: &Refused| refused.again.duration_since(now).as_secs();
        let mut refused = refuse("a", None, 1);
        let mut pauses = vec![seconds(&refused)];
        for _ in 0..6 {
            refused = refuse("a", Some(&refused), 1);
            pauses.push(seconds(&refused));
        }
        assert_eq!(pauses, [20, 40, 80, 160, 320, 600, 600]);
        refused.consider(1, now);
        assert_eq!(seconds(&refused), 600);
        refused.consider(2, now);
        assert_eq!(seconds(&refused), 0);
        assert_eq!(seconds(&refuse("a", Some(&refused), 2)), 20, "the first by this spec");
        assert_eq!(seconds(&refuse("b", Some(&refused), 2)), 20, "another one");
    }
}
