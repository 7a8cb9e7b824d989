//! What goes wrong between a client and an API server, drawn from a seed. Errors look as the API server writes them.

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, Uri, header},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, collections::VecDeque, time::Duration};

/// What is to go wrong; by default nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Of so many requests in a row one, at a random place, is answered with an error; the errors take turns. Writes of
    /// the release and everything else are rows of their own, so that a few writes get their share for certain. 0: none.
    pub refuse_one_in: usize,
    /// Of so many one is carried out, but instead of its answer the connection ends. 0: none.
    pub lose_one_in: usize,
    /// Each request waits before it is passed on, at most so long.
    pub delay: Duration,
    /// Each watch ends after this time: every other one cleanly, the rest in the middle of the answer.
    pub watch_life: Option<Duration>,
}

/// What the proxy has done since it was last told what to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: usize,
    /// Attempts to write something else than the daemon's own lease, record, events and status.
    pub writes: usize,
    pub refused: BTreeMap<u16, usize>,
    /// How many of `writes`.
    pub refused_writes: usize,
    pub lost: usize,
    pub watches_cut: usize,
}

/// An error in the place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    /// `metav1.Status.reason`; none: plain text, as the filters before the API proper answer.
    reason: Option<&'static str>,
    message: &'static str,
    retry_after: Option<&'static str>,
    /// Only an answer to a write.
    of_writes: bool,
    /// The request is carried out all the same.
    pub after_the_deed: bool,
}

const REFUSALS: [Refusal; 6] = [
    Refusal {
        code: 429,
        reason: None,
        message: "Too many requests, please try again later.\n",
        retry_after: Some("1"),
        of_writes: false,
        after_the_deed: false,
    },
    Refusal {
        code: 500,
        reason: Some("InternalError"),
        message: "Internal error occurred: etcdserver: leader changed",
        retry_after: None,
        of_writes: false,
        after_the_deed: false,
    },
    Refusal {
        code: 409,
        reason: Some("Conflict"),
        message: "the object has been modified; please apply your changes to the latest version and try again",
        retry_after: None,
        of_writes: true,
        after_the_deed: false,
    },
    Refusal {
        code: 500,
        reason: None,
        message: "etcdserver: request timed out",
        retry_after: None,
        of_writes: true,
        after_the_deed: true,
    },
    Refusal {
        code: 503,
        reason: Some("ServiceUnavailable"),
        message: "apiserver is shutting down.",
        retry_after: None,
        of_writes: false,
        after_the_deed: false,
    },
    Refusal {
        code: 429,
        reason: Some("TooManyRequests"),
        message: "The request cannot be processed at this time due to a resource constraint",
        retry_after: None,
        of_writes: false,
        after_the_deed: false,
    },
];

impl Refusal {
    /// The answer to a request for this path.
    pub fn answer(&self, uri: &Uri) -> Response<Body> {
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

/// Resource and name that a path ends in, as far as it goes: `/api/v1/namespaces/a/configmaps/b`.
fn named(path: &str) -> (&str, &str) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        other => other,
    };
    match rest {
        ["namespaces", _, resource, name, ..] | [resource, name, ..] => (resource, name),
        [one] => (one, ""),
        [] => ("", ""),
    }
}

/// Whether a request is to change something besides what a daemon keeps of itself.
pub fn writes(method: &Method, path: &str) -> bool {
    let own = ["/leases", "/events", "/status", "cluster-version-progress"];
    is_write(method) && !own.iter().any(|part| path.contains(part))
}

fn is_write(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Answered,
    Refused(Refusal),
    Lost,
}

/// Chance with a seed. It is drawn from as requests come, whose order no seed can repeat; what it repeats is how the
/// faults are spread.
#[derive(Debug)]
pub struct Chance {
    seed: String,
    drawn: u64,
    writes: Row,
    others: Row,
    lose: Draw,
}

/// Requests of one sort.
#[derive(Debug, Default)]
struct Row {
    refuse: Draw,
    /// The errors that come next.
    turn: VecDeque<Refusal>,
}

/// A place in a row of requests.
#[derive(Debug, Default)]
struct Draw {
    left: usize,
    chosen: usize,
}

impl Draw {
    /// Whether it is this one's turn.
    fn hits(&mut self, one_in: usize, below: impl FnOnce(usize) -> usize) -> bool {
        if one_in == 0 {
            return false;
        }
        if self.left == 0 || self.left > one_in {
            self.left = one_in;
            self.chosen = 1 + below(one_in);
        }
        self.left -= 1;
        self.left + 1 == self.chosen
    }
}

impl Row {
    /// The next in turn that such a request can get; the others keep their place.
    fn refusal(&mut self, write: bool) -> Refusal {
        loop {
            let fits = |refusal: &Refusal| write || !refusal.of_writes;
            if let Some(at) = self.turn.iter().position(fits) {
                return self.turn.remove(at).unwrap();
            }
            self.turn.extend(REFUSALS);
        }
    }
}

impl Chance {
    pub fn new(seed: &str) -> Self {
        let (writes, others, lose) = Default::default();
        Self { seed: seed.to_owned(), drawn: 0, writes, others, lose }
    }

    /// From `CVO_SEED`, or a fresh one; printed either way.
    pub fn seed() -> String {
        let seed = std::env::var("CVO_SEED").unwrap_or_else(|_| uuid::Uuid::new_v4().to_string());
        println!("to repeat this run: CVO_SEED={seed}");
        seed
    }

    /// From 0 to `limit` - 1.
    pub fn below(&mut self, limit: usize) -> usize {
        self.drawn += 1;
        let hash = Sha256::digest(format!("{}/{}", self.seed, self.drawn));
        u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) as usize % limit.max(1)
    }

    /// Up to `most`.
    pub fn moment(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.below(1000) as f64 / 1000.0)
    }

    /// Draws for one request.
    pub fn fate(&mut self, faults: &Faults, method: &Method, path: &str) -> Fate {
        let mut row = std::mem::take(if writes(method, path) { &mut self.writes } else { &mut self.others });
        let mut lose = std::mem::take(&mut self.lose);
        let refused = row.refuse.hits(faults.refuse_one_in, |limit| self.below(limit));
        let lost = lose.hits(faults.lose_one_in, |limit| self.below(limit));
        let fate = match (refused, lost) {
            (true, _) => Fate::Refused(row.refusal(is_write(method))),
            (false, true) => Fate::Lost,
            (false, false) => Fate::Answered,
        };
        self.lose = lose;
        *(if writes(method, path) { &mut self.writes } else { &mut self.others }) = row;
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "/api/v1/namespaces/a/configmaps/b";

    #[test]
    fn one_of_so_many_is_refused_and_all_errors_take_turns() {
        let faults = Faults { refuse_one_in: 10, ..Faults::default() };
        let mut chance = Chance::new("a");
        let fates: Vec<Fate> = (0..600).map(|_| chance.fate(&faults, &Method::PUT, MAP)).collect();
        for row in fates.chunks(10) {
            assert_eq!(row.iter().filter(|fate| **fate != Fate::Answered).count(), 1, "{row:?}");
        }
        for refusal in REFUSALS {
            assert_eq!(fates.iter().filter(|fate| **fate == Fate::Refused(refusal)).count(), 10);
        }
        let mut chance = Chance::new("a");
        let reads = (0..600).map(|_| chance.fate(&faults, &Method::GET, MAP));
        let wrong = reads.filter(|fate| matches!(fate, Fate::Refused(refusal) if refusal.code == 409));
        assert_eq!(wrong.count(), 0, "a read cannot conflict");
        // However many reads come between, every tenth write is refused.
        let mixed = (0..200).map(|turn| (turn % 10 == 0, if turn % 10 == 0 { Method::PUT } else { Method::GET }));
        let fates = mixed.map(|(write, method)| (write, chance.fate(&faults, &method, MAP)));
        assert_eq!(fates.filter(|(write, fate)| *write && *fate != Fate::Answered).count(), 2);
        assert_eq!(Chance::new("a").fate(&Faults::default(), &Method::PUT, MAP), Fate::Answered);
    }

    #[test]
    fn a_conflict_names_its_object() {
        let uri: Uri = "/apis/apps/v1/namespaces/a/deployments/b?fieldManager=x".parse().unwrap();
        let conflict = REFUSALS.iter().find(|refusal| refusal.code == 409).unwrap();
        let message = conflict.status("Conflict", &uri)["message"].clone();
        assert!(message.as_str().unwrap().contains(r#"on deployments "b": "#), "{message}");
        assert_eq!(named("/api/v1/namespaces/a"), ("namespaces", "a"));
        assert!(writes(&Method::PUT, uri.path()) && !writes(&Method::GET, uri.path()));
        assert!(!writes(&Method::PUT, "/apis/config.openshift.io/v1/clusterversions/version/status"));
    }
}
