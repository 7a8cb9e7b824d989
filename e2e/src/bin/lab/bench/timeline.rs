//! What the API server was doing in each second of a measurement: objects created, requests in flight, and which requests
//! took the time.

use e2e::harness::audit::Request;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;

/// Resources that are named in each second.
const NAMED: usize = 3;

/// One second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Second {
    pub created: usize,
    /// On average.
    in_flight: f64,
    /// The same by verb and resource.
    by_resource: BTreeMap<String, f64>,
}

/// Since `start`. Watches do not count.
pub(super) fn of(requests: &[Request], start: Timestamp) -> Vec<Second> {
    let mut seconds: Vec<Second> = Vec::new();
    for request in requests.iter().filter(|request| request.verb != "watch" && request.at >= start) {
        let from = request.at.duration_since(start);
        let until = from + request.took;
        let (first, last) = (whole(from), whole(until));
        if seconds.len() <= last {
            seconds.resize(last + 1, Second::default());
        }
        let what = format!("{} {}", request.verb, request.resource_path());
        for (index, second) in seconds.iter_mut().enumerate().skip(first).take(last - first + 1) {
            let begin = SignedDuration::from_secs(i64::try_from(index).unwrap_or(i64::MAX));
            let share = (until.min(begin + SignedDuration::from_secs(1)) - from.max(begin)).as_secs_f64();
            second.in_flight += share;
            *second.by_resource.entry(what.clone()).or_default() += share;
            second.created += usize::from(index == first && request.effect() == "create" && request.code == 201);
        }
    }
    seconds
}

fn whole(time: SignedDuration) -> usize {
    usize::try_from(time.as_secs()).unwrap_or(0)
}

/// `second 3: 96 created, 14.2 in flight: create customresourcedefinitions 11.0, …`
pub(super) fn text(seconds: &[Second]) -> String {
    let mut text = String::new();
    for (index, second) in seconds.iter().enumerate() {
        let mut longest: Vec<(&String, &f64)> = second.by_resource.iter().collect();
        longest.sort_by(|a, b| b.1.total_cmp(a.1));
        let longest: Vec<String> =
            longest.iter().take(NAMED).map(|(what, in_flight)| format!("{what} {in_flight:.1}")).collect();
        let (created, in_flight) = (second.created, second.in_flight);
        text.push_str(&format!(
            "  second {index}: {created} created, {in_flight:.1} in flight: {}\n",
            longest.join(", ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_counts_in_each_second_that_it_takes() {
        let start = Timestamp::UNIX_EPOCH;
        let request = |at: i64, took: i64, resource: &str| Request {
            at: start + SignedDuration::from_millis(at),
            took: SignedDuration::from_millis(took),
            verb: "create".into(),
            resource: resource.into(),
            code: 201,
            ..Request::default()
        };
        let seconds = of(&[request(500, 2000, "a"), request(1000, 250, "b"), request(-10, 5, "early")], start);
        let figures: Vec<(usize, f64)> = seconds.iter().map(|second| (second.created, second.in_flight)).collect();
        assert_eq!(figures, [(1, 0.5), (1, 1.25), (0, 0.5)]);
        assert_eq!(
            text(&seconds).lines().nth(1).unwrap(),
            "  second 1: 1 created, 1.2 in flight: create a 1.0, create b 0.2"
        );
    }
}
