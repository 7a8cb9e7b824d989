//! Whether only the holder of the lease wrote, by the API server's own audit log.
//!
//! Who holds the lease is told by who wrote it: a write of the lease succeeds only for the process that takes, renews or
//! releases it, and the time of such a write is when it was answered. A process that gives the lease back, or loses it to
//! another one, must not have a write carried out after that.

use crate::harness::audit::Request;
use jiff::Timestamp;

/// What the log shows.
#[derive(Debug, Default)]
pub struct Leadership {
    /// How often another process took the lease.
    pub changes: usize,
    /// Writes that were carried out, without those of the lease.
    pub writes: usize,
    /// Writes that were carried out for a process that did not hold the lease.
    pub violations: Vec<String>,
}

/// Checks all writes of the processes of a user in the log, which has the requests of all users. They are told apart by their pods;
/// `lease` is the name of the lease by which one of them leads.
pub fn check(log: &[Request], user: &str, lease: &str) -> Leadership {
    let answered = |request: &Request| request.at.checked_add(request.took).unwrap_or(Timestamp::MAX);
    let wrote = || log.iter().filter(|request| request.user == user && request.wrote());
    let is_lease = |request: &&Request| request.resource == "leases" && request.name == lease;
    // From when on who holds it; nobody once it is given back.
    let mut held: Vec<(Timestamp, Option<&str>)> =
        wrote().filter(is_lease).map(|r| (answered(r), (!r.released).then_some(r.pod.as_str()))).collect();
    held.sort();
    held.dedup_by(|later, earlier| later.1 == earlier.1);
    let mut holders: Vec<&str> = held.iter().filter_map(|(_, pod)| *pod).collect();
    holders.dedup();
    let mut found = Leadership { changes: holders.len().saturating_sub(1), ..Leadership::default() };
    for write in wrote().filter(|request| !is_lease(request)) {
        found.writes += 1;
        let end = answered(write);
        let holder = held.iter().rev().find(|(at, _)| *at <= end).and_then(|(_, pod)| *pod).unwrap_or("nobody");
        if holder != write.pod {
            found.violations.push(format!(
                "{} {} by {:?}, which arrived at {} and was answered at {end}, while the lease was held by {holder:?}",
                write.verb,
                write.object(),
                write.pod,
                write.at,
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    fn request(second: i64, took: i64, pod: &str, resource: &str, code: u16) -> Request {
        Request {
            at: Timestamp::from_second(second).unwrap(),
            took: SignedDuration::from_secs(took),
            user: "daemon".into(),
            pod: pod.into(),
            verb: "update".into(),
            resource: resource.into(),
            name: "lease".into(),
            code,
            ..Request::default()
        }
    }

    #[test]
    fn write_that_is_answered_after_another_process_took_the_lease_is_found() {
        let log = [
            request(1, 0, "a", "leases", 200),
            request(2, 1, "a", "configmaps", 200),
            request(3, 1, "b", "leases", 409),
            request(5, 1, "b", "leases", 200),
            request(6, 2, "b", "configmaps", 200),
        ];
        let found = check(&log, "daemon", "lease");
        assert_eq!((found.changes, found.writes, found.violations), (1, 2, Vec::new()));
        let late =
            [log.as_slice(), &[request(5, 3, "a", "configmaps", 200), request(7, 0, "a", "configmaps", 409)]].concat();
        let found = check(&late, "daemon", "lease");
        assert_eq!((found.writes, found.violations.len()), (3, 1), "{found:?}");
        assert!(found.violations[0].contains("held by \"b\""), "{found:?}");
        let mut returned = request(9, 0, "b", "leases", 200);
        returned.released = true;
        let after = [log.as_slice(), &[returned, request(10, 0, "b", "configmaps", 200)]].concat();
        let found = check(&after, "daemon", "lease");
        assert_eq!((found.changes, found.violations.len()), (1, 1), "{found:?}");
        assert!(found.violations[0].contains("held by \"nobody\""), "{found:?}");
        let early = check(&[request(1, 0, "a", "configmaps", 200)], "daemon", "lease");
        assert!(early.violations[0].contains("nobody"), "{early:?}");
    }
}
