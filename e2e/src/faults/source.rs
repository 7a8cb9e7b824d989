//! The faults between a client and an API server, spread at random from a seed. Errors look as the API server writes them.

use crate::random::SeededRandom;
use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, Uri, header},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, collections::VecDeque, time::Duration};

/// Which faults to inject; none by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Of so many consecutive requests one, at random, is answered with an error; the errors take turns. Writes of the
    /// release and other requests are counted apart, so that also few writes get their share for certain. 0: none.
    pub refuse_one_in: usize,
    /// Of so many requests one is carried out, but instead of the answer the connection ends. 0: none.
    pub lose_one_in: usize,
    /// Each request is delayed before it is forwarded, at most by this.
    pub delay: Duration,
    /// Every request is refused, because there are too many.
    pub throttled: bool,
    /// Nobody is there: connections end, and new ones are refused.
    pub away: bool,
    /// Each watch ends after this time, those that are open already too: every other one cleanly, the rest in the middle
    /// of the answer.
    pub watch_life: Option<Duration>,
}

/// What the proxy has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: usize,
    /// Attempts to write, except for the daemon's own lease, record, events and status.
    pub writes: usize,
    pub refused: BTreeMap<u16, usize>,
    /// How many of `writes`.
    pub refused_writes: usize,
    pub lost: usize,
    pub watches_cut: usize,
}

/// An error instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    /// `metav1.Status.reason`; without one the answer is plain text, as from the request filters.
    reason: Option<&'static str>,
    message: &'static str,
    retry_after: Option<&'static str>,
    /// Only an answer to a write.
    of_writes: bool,
    /// The request is carried out nevertheless.
    pub after_forwarding: bool,
}

const REFUSALS: [Refusal; 6] = [
    Refusal {
        code: 429,
        reason: None,
        message: "Too many requests, please try again later.\n",
        retry_after: Some("1"),
        of_writes: false,
        after_forwarding: false,
    },
    Refusal {
        code: 500,
        reason: Some("InternalError"),
        message: "Internal error occurred: etcdserver: leader changed",
        retry_after: None,
        of_writes: false,
        after_forwarding: false,
    },
    Refusal {
        code: 409,
        reason: Some("Conflict"),
        message: "the object has been modified; please apply your changes to the latest version and try again",
        retry_after: None,
        of_writes: true,
        after_forwarding: false,
    },
    Refusal {
        code: 500,
        reason: None,
        message: "etcdserver: request timed out",
        retry_after: None,
        of_writes: true,
        after_forwarding: true,
    },
    Refusal {
        code: 503,
        reason: Some("ServiceUnavailable"),
        message: "apiserver is shutting down.",
        retry_after: None,
        of_writes: false,
        after_forwarding: false,
    },
    Refusal {
        code: 429,
        reason: Some("TooManyRequests"),
        message: "The request cannot be processed at this time due to a resource constraint",
        retry_after: None,
        of_writes: false,
        after_forwarding: false,
    },
];

/// The answer of a server that does not know initial events.
pub const NO_INITIAL_EVENTS: Refusal = Refusal {
    code: 422,
    reason: Some("Invalid"),
    message: "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for \
              watch unless the WatchList feature gate is enabled",
    retry_after: None,
    of_writes: false,
    after_forwarding: false,
};

/// The answer to somebody who may not do it.
pub const FORBIDDEN: Refusal = Refusal {
    code: 403,
    reason: Some("Forbidden"),
    message: "this is forbidden: User \"viewer\" cannot do it",
    retry_after: None,
    of_writes: false,
    after_forwarding: false,
};

/// What an API server says where a webhook cannot be asked without effect.
pub const NO_DRY_RUN: Refusal = Refusal {
    code: 400,
    reason: Some("BadRequest"),
    message: "admission webhook \"legacy.example.com\" does not support dry run",
    retry_after: None,
    of_writes: false,
    after_forwarding: false,
};

impl Refusal {
    /// The answer to a request for this path.
    pub fn response(&self, uri: &Uri) -> Response<Body> {
        let (kind, body) = match self.reason {
            Some(reason) => ("application/json", self.status(reason, uri).to_string()),
            None if self.code == 500 => ("application/json", self.status("", uri).to_string()),
            None => ("text/plain; charset=utf-8", self.message.to_owned()),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code.try_into().unwrap();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        response
    }

    fn status(&self, reason: &str, uri: &Uri) -> Value {
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code});
        if !reason.is_empty() {
            status["reason"] = json!(reason);
        }
        if reason == "Conflict" {
            let (resource, name) = named(uri.path());
            status["message"] =
                json!(format!("Operation cannot be fulfilled on {resource} \"{name}\": {}", self.message));
            status["details"] = json!({"name": name, "kind": resource});
        }
        status
    }
}

/// Resource and name at the end of a path such as `/api/v1/namespaces/a/configmaps/b`; empty where it has none.
pub fn named(path: &str) -> (&str, &str) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        other => other,
    };
    match rest {
        ["namespaces", _, resource] => (resource, ""),
        ["namespaces", _, resource, name, ..] | [resource, name, ..] => (resource, name),
        [one] => (one, ""),
        [] => ("", ""),
    }
}

/// Whether a request writes something else than the daemon's own lease, record, events and status.
pub fn writes(method: &Method, path: &str) -> bool {
    let own = ["/leases", "/events", "/status", "cluster-version-progress"];
    is_write(method) && !own.iter().any(|part| path.contains(part))
}

fn is_write(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    Refused(Refusal),
    Lost,
}

/// Decides which requests fail. A seed repeats how the faults are spread, but not the order in which requests arrive.
#[derive(Debug)]
pub struct FaultSource {
    pub random: SeededRandom,
    writes: Refusals,
    others: Refusals,
    lose: Draw,
}

/// The refusals of requests of one sort.
#[derive(Debug, Default)]
struct Refusals {
    draw: Draw,
    /// The errors that come next.
    next: VecDeque<Refusal>,
}

/// Chooses one of so many consecutive requests.
#[derive(Debug, Default)]
struct Draw {
    left: usize,
    chosen: usize,
}

impl Draw {
    /// Whether this request is the chosen one.
    fn hits(&mut self, one_in: usize, random: &SeededRandom) -> bool {
        if one_in == 0 {
            return false;
        }
        if self.left == 0 || self.left > one_in {
            self.left = one_in;
            self.chosen = 1 + random.below(one_in);
        }
        self.left -= 1;
        self.left + 1 == self.chosen
    }
}

impl Refusals {
    /// The next error that fits such a request; the others keep their turn.
    fn next(&mut self, write: bool) -> Refusal {
        loop {
            let fits = |refusal: &Refusal| write || !refusal.of_writes;
            if let Some(at) = self.next.iter().position(fits) {
                return self.next.remove(at).unwrap();
            }
            self.next.extend(REFUSALS);
        }
    }
}

impl FaultSource {
    pub fn new(seed: u64) -> Self {
        let (writes, others, lose) = Default::default();
        Self { random: SeededRandom::new(seed, 0, 0), writes, others, lose }
    }

    /// Decides about one request.
    pub fn outcome(&mut self, faults: &Faults, method: &Method, path: &str) -> Outcome {
        if faults.throttled {
            return Outcome::Refused(REFUSALS[0]);
        }
        let refusals = if writes(method, path) { &mut self.writes } else { &mut self.others };
        let refused = refusals.draw.hits(faults.refuse_one_in, &self.random);
        let lost = self.lose.hits(faults.lose_one_in, &self.random);
        match (refused, lost) {
            (true, _) => Outcome::Refused(refusals.next(is_write(method))),
            (false, true) => Outcome::Lost,
            (false, false) => Outcome::Answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "/api/v1/namespaces/a/configmaps/b";

    #[test]
    fn one_of_so_many_requests_is_refused_and_all_errors_take_turns() {
        let faults = Faults { refuse_one_in: 10, ..Faults::default() };
        let mut source = FaultSource::new(1);
        let outcomes: Vec<Outcome> = (0..600).map(|_| source.outcome(&faults, &Method::PUT, MAP)).collect();
        for row in outcomes.chunks(10) {
            assert_eq!(row.iter().filter(|outcome| **outcome != Outcome::Answered).count(), 1, "{row:?}");
        }
        for refusal in REFUSALS {
            assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Refused(refusal)).count(), 10);
        }
        let mut source = FaultSource::new(1);
        let reads = (0..600).map(|_| source.outcome(&faults, &Method::GET, MAP));
        let wrong = reads.filter(|outcome| matches!(outcome, Outcome::Refused(refusal) if refusal.code == 409));
        assert_eq!(wrong.count(), 0, "a read cannot conflict");
        // However many reads come between, every tenth write is refused.
        let mixed = (0..200).map(|turn| (turn % 10 == 0, if turn % 10 == 0 { Method::PUT } else { Method::GET }));
        let outcomes = mixed.map(|(write, method)| (write, source.outcome(&faults, &method, MAP)));
        assert_eq!(outcomes.filter(|(write, outcome)| *write && *outcome != Outcome::Answered).count(), 2);
        assert_eq!(FaultSource::new(1).outcome(&Faults::default(), &Method::PUT, MAP), Outcome::Answered);
    }

    #[test]
    fn conflict_names_its_object() {
        let uri: Uri = "/apis/apps/v1/namespaces/a/deployments/b?fieldManager=x".parse().unwrap();
        let conflict = REFUSALS.iter().find(|refusal| refusal.code == 409).unwrap();
        let message = conflict.status("Conflict", &uri)["message"].clone();
        assert!(message.as_str().unwrap().contains(r#"on deployments "b": "#), "{message}");
        assert_eq!(named("/api/v1/namespaces/a"), ("namespaces", "a"));
        assert_eq!(named("/api/v1/namespaces/a/configmaps"), ("configmaps", ""));
        assert!(writes(&Method::PUT, uri.path()) && !writes(&Method::GET, uri.path()));
        assert!(!writes(&Method::PUT, "/apis/config.openshift.io/v1/clusterversions/version/status"));
    }
}
