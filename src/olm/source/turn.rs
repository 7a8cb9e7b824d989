//! One look at a CatalogSource by the holder of the lease, and what comes of it.

use super::content::{Content, Record};
use super::held::{Trouble, Work};
use super::pod::Objects;
use super::pod::decide::PodWrite;
use super::template::Resolved;
use super::{Facts, spread};
use crate::error::shortened;
use crate::olm::api::catalog_source::CatalogSourceStatus;
use jiff::{SignedDuration, Timestamp};

/// Most bytes of what is said of one thing.
pub(super) const CAUSE: usize = 4 << 10;

/// What stands before the time in a message, and behind what is served.
pub(super) const SINCE: &str = "; since ";
pub(super) const MEANWHILE: &str = " is served meanwhile";

/// What is to be done, and what is to be said of it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Of several things that may be done, the first that is due is done.
    pub due: Vec<(Timestamp, Work)>,
    pub adopt: bool,
    /// What is wrong, the most important first, each with its reason.
    pub problems: Vec<(&'static str, String)>,
    /// What the holder of the lease has said is served is being read here, and nothing speaks against it yet.
    pub restoring: bool,
    /// There was an attempt to get content, in vain.
    pub failing: bool,
    /// What is made for a pod, and what becomes of pods.
    pub pod: Option<Objects>,
    pub pod_writes: Vec<PodWrite>,
    /// Decide again then.
    pub again: Option<Timestamp>,
}

impl Plan {
    pub(super) fn first_due(self, now: Timestamp) -> (Option<Work>, Option<Timestamp>) {
        let next = self.due.iter().map(|(at, _)| *at).chain(self.again).filter(|at| *at > now).min();
        (self.due.into_iter().find(|(at, _)| *at <= now).map(|(_, work)| work), next)
    }
}

pub(super) struct Turn<'a> {
    pub facts: &'a Facts<'a>,
    pub now: Timestamp,
    pub before: &'a CatalogSourceStatus,
    pub record: Option<Record>,
    pub template: Option<Resolved>,
    /// How often the image is asked for.
    pub every: Option<SignedDuration>,
}

impl Turn<'_> {
    pub(super) fn name(&self) -> &str {
        self.facts.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.facts.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn loaded(&self) -> Option<&Content> {
        self.facts.held.loaded.as_ref().map(|loaded| &loaded.content)
    }

    /// When it may be tried again.
    pub(super) fn again(&self, trouble: &Trouble) -> Timestamp {
        trouble.again(spread([self.name(), &trouble.last.to_string()]), self.now)
    }

    /// When the registry is to be asked for the image the next time.
    pub(super) fn poll(&self, image: &str, every: SignedDuration) -> Timestamp {
        // A time that is still to come is that of a clock which was wrong.
        let past = |time: &Timestamp| *time <= self.now;
        let own =
            self.facts.held.asked.as_ref().filter(|asked| asked.image == image).map(|asked| asked.at).filter(past);
        let said = self.before.latest_image_registry_poll.as_ref().map(|time| time.0).filter(past);
        let created = self.facts.object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let last = own.max(said).or(created).unwrap_or(self.now);
        let uid = self.facts.object.metadata.uid.as_deref().unwrap_or_default();
        let pause = crate::pause::jittered(every.unsigned_abs(), spread([uid, &last.to_string()]));
        last.checked_add(pause).unwrap_or(Timestamp::MAX)
    }

    /// What has failed, since when, and what is served all the same.
    pub(super) fn text(&self, trouble: &Trouble) -> String {
        self.since(&shortened(&trouble.cause, CAUSE), trouble.first)
    }

    pub(super) fn since(&self, cause: &str, since: Timestamp) -> String {
        let meanwhile = self.loaded().map(|content| format!(", and {content}{MEANWHILE}"));
        format!("{cause}{SINCE}{}{}", seconds(since), meanwhile.unwrap_or_default())
    }
}

/// As the API has times.
pub(super) fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
