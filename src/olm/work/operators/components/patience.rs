//! What differs is written once it stays as it is, so that an installation that goes through its phases costs one write.

use crate::olm::operator::object::{Write, fingerprint};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So long a status stays the same before it is written.
const CALM: Duration = Duration::from_secs(1);
/// After this time it is written, whether it stays the same or not.
const LONGEST: Duration = Duration::from_secs(5);

/// What is to be written, by the name of the object.
#[derive(Default)]
pub(super) struct Patience(BTreeMap<String, Wanted>);

struct Wanted {
    what: Option<u64>,
    /// Since when it is this, and since when there is something to be written.
    since: Instant,
    first: Instant,
}

impl Patience {
    /// How long this is not written yet; `None` where it is due.
    pub(super) fn until(&mut self, name: &str, write: &Write, now: Instant) -> Option<Instant> {
        let what = match write {
            Write::Create => return None,
            Write::Delete => None,
            Write::Status(status) => Some(fingerprint(status)),
        };
        let wanted = self.0.entry(name.to_owned()).or_insert(Wanted { what, since: now, first: now });
        if wanted.what != what {
            (wanted.what, wanted.since) = (what, now);
        }
        let until = (wanted.since + CALM).min(wanted.first + LONGEST);
        (until > now).then_some(until)
    }

    /// Forgets those of which there is nothing to be written.
    pub(super) fn retain(&mut self, writes: &BTreeMap<String, Write>) {
        self.0.retain(|name, _| writes.contains_key(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::api::operator::{Component, Components, OperatorStatus};

    /// That names so many components.
    fn status(count: usize) -> Write {
        let components = Components { refs: vec![Component::default(); count], ..Components::default() };
        Write::Status(OperatorStatus { components: Some(components) })
    }

    #[test]
    fn status_is_written_once_it_stays_the_same() {
        let (mut patience, begin) = (Patience::default(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(patience.until("a", &status(1), at(0)), Some(at(1_000)));
        assert_eq!(patience.until("a", &status(2), at(900)), Some(at(1_900)));
        assert_eq!(patience.until("a", &status(2), at(1_800)), Some(at(1_900)));
        assert_eq!(patience.until("a", &status(2), at(1_900)), None);
        // Another one is nothing to it.
        assert_eq!(patience.until("b", &status(2), at(1_900)), Some(at(2_900)));
    }

    #[test]
    fn status_that_changes_all_the_time_is_written_nevertheless() {
        let (mut patience, begin) = (Patience::default(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        let waits: Vec<bool> =
            (0..11).map(|look| patience.until("a", &status(look), at(500 * look as u64)).is_some()).collect();
        assert_eq!(waits, [vec![true; 10], vec![false]].concat());
    }

    #[test]
    fn object_is_created_at_once_and_what_was_written_is_forgotten() {
        let (mut patience, begin) = (Patience::default(), Instant::now());
        assert_eq!(patience.until("a", &Write::Create, begin), None);
        assert!(patience.until("a", &Write::Delete, begin).is_some());
        patience.retain(&BTreeMap::new());
        let later = begin + LONGEST;
        assert_eq!(patience.until("a", &Write::Delete, later), Some(later + CALM));
    }
}
