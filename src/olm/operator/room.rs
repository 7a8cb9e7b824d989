//! How many versions are installed side by side. Where hundreds are created at once, all of them run sooner if some begin after others:
//! each has its writes together, and waits for its own pods alone.

use super::{is_new, is_under_way};
use crate::olm::api::cluster_service_version::ClusterServiceVersion as Csv;
use jiff::{SignedDuration, Timestamp};

/// So many.
const SIDE_BY_SIDE: usize = 64;
/// The longest that one of them waits for others: what holds those up may last.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// For versions that have only been created.
pub(crate) struct Room {
    free: usize,
    /// When one of those that are under way is not waited for any more.
    until: Option<Timestamp>,
}

impl Room {
    /// What those leave that are being installed.
    pub(crate) fn of<'a>(csvs: impl Iterator<Item = &'a Csv>, now: Timestamp) -> Room {
        let under_way: Vec<Timestamp> = csvs.filter_map(|csv| is_under_way(csv, now)).collect();
        Room { free: SIDE_BY_SIDE.saturating_sub(under_way.len()), until: under_way.into_iter().min() }
    }

    /// Whether this one may begin, or has begun.
    pub(crate) fn has_for(&self, csv: &Csv, now: Timestamp) -> bool {
        self.free > 0 || !is_new(csv) || is_late(csv, now)
    }

    /// `does`: something is written for it. One that waits for others takes no place.
    pub(crate) fn take(&mut self, csv: &Csv, does: bool) {
        self.free = self.free.saturating_sub(usize::from(does && is_new(csv)));
    }

    /// When there may be room although nothing has changed.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.until
    }
}

fn is_late(csv: &Csv, now: Timestamp) -> bool {
    csv.metadata.creation_timestamp.as_ref().is_none_or(|created| now.duration_since(created.0) > LATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Since second 100.
    fn csv(phase: &str) -> Csv {
        let time = at(100).to_string();
        serde_json::from_value(json!({"metadata": {"name": "a", "creationTimestamp": time}, "spec": {},
            "status": {"phase": phase, "lastTransitionTime": time}}))
        .unwrap()
    }

    #[test]
    fn so_many_versions_are_installed_side_by_side() {
        let (new, other) = (csv(""), csv("Pending"));
        let under_way = vec![csv("Installing"); SIDE_BY_SIDE - 1];
        let mut room = Room::of(under_way.iter().chain([&new, &other]), at(101));
        assert!(room.has_for(&new, at(101)));
        room.take(&new, false);
        room.take(&other, true);
        assert!(room.has_for(&new, at(101)), "what only waits, and what has begun, takes no place");
        room.take(&new, true);
        assert!(!room.has_for(&new, at(101)) && room.has_for(&other, at(101)));
        assert_eq!(room.until(), Some(at(110)), "then they are not waited for any more");
        assert!(room.has_for(&new, at(161)), "others may be held up");
        assert_eq!(Room::of(under_way.iter(), at(110)).free, SIDE_BY_SIDE, "they take too long");
    }
}
