//! What is known of the PromQL queries of published risks, and which query is sent when.
//!
//! A verdict is renewed before it is an hour old. A query that fails is sent again after seconds, later after a minute.
//! While the source itself cannot be reached, only one query at a time finds out whether it is back; verdicts that are
//! known then stay, and are told with their age, for a day.

use crate::cluster_version::progress::RecordedVerdict;
use crate::cluster_version::status;
use crate::pause::doubled;
use crate::promql::{QueryError, key};
use crate::release::api::{ConditionalUpdateRisk, MatchingRule};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Queries under way at the same time.
pub(crate) const CONCURRENT: usize = 4;
/// A verdict is renewed after this time, so that even with slow answers none is older than an hour.
const RENEW_AFTER: SignedDuration = SignedDuration::from_mins(50);
/// Verdicts that would have to be renewed within this time are renewed together with the first, so that status changes once.
const TOGETHER: SignedDuration = SignedDuration::from_mins(10);
/// After this time a verdict that could not be renewed says nothing any more.
const EXPIRES_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// Clocks that are corrected by less than this are not worth a question.
const SET_BACK: SignedDuration = SignedDuration::from_mins(1);
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LAST_RETRY: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub matches: bool,
    pub evaluated: Timestamp,
}

/// What is known of a query or of all rules of a risk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It matches, or does not. `evaluated` is `None` for a rule that needs no query; `failure` says why an old verdict could
    /// not be renewed.
    Verdict {
        matches: bool,
        evaluated: Option<Timestamp>,
        failure: Option<String>,
    },
    Failed(String),
    /// No answer yet.
    Pending,
}

#[derive(Clone, Debug)]
struct Entry {
    verdict: Option<Verdict>,
    /// Of the last query, if it failed.
    failure: Option<String>,
    failures: u32,
    due: Timestamp,
    /// When that was decided.
    decided: Timestamp,
    under_way: bool,
    /// Position among the needed queries: those of higher versions go first.
    position: usize,
}

impl Entry {
    fn decide(&mut self, due: Timestamp, now: Timestamp) {
        (self.due, self.decided) = (due, now);
    }

    /// Whether it is due by then.
    fn is_due(&self, until: Timestamp, now: Timestamp) -> bool {
        self.due <= until || is_set_back(self.decided, now)
    }
}

/// The source failed `failures` times in a row; the next query is sent at `again`.
#[derive(Clone, Debug)]
struct Outage {
    failure: String,
    failures: u32,
    again: Timestamp,
}

impl Outage {
    /// A clock that was set back must not put the next query off.
    fn again(&self, now: Timestamp) -> Timestamp {
        let latest = after(now, SignedDuration::try_from(LAST_RETRY).unwrap_or_default());
        if self.again > latest { now } else { self.again }
    }
}

/// By the text of the query: risks of one name can have different rules, and different risks the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evaluations {
    entries: BTreeMap<String, Entry>,
    outage: Option<Outage>,
    /// Verdicts of an earlier process, by [`key`]; taken over when their query is needed.
    recorded: BTreeMap<String, Verdict>,
}

/// The end of time if it would be later.
pub(super) fn after(now: Timestamp, pause: SignedDuration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// Whether the clock was set back since something was put off, which must not put it off longer.
pub(super) fn is_set_back(decided: Timestamp, now: Timestamp) -> bool {
    after(now, SET_BACK) < decided
}

fn retry(now: Timestamp, failures: u32) -> Timestamp {
    let pause = doubled(FIRST_RETRY, failures, LAST_RETRY);
    after(now, SignedDuration::try_from(pause).unwrap_or(SignedDuration::from_mins(1)))
}

impl Evaluations {
    /// With the verdicts of an earlier process. One from the future says that a clock was wrong, and counts for nothing.
    pub(crate) fn restore(recorded: &BTreeMap<String, RecordedVerdict>, now: Timestamp) -> Self {
        let usable = |verdict: &Verdict| {
            let age = now.duration_since(verdict.evaluated);
            !age.is_negative() && age < EXPIRES_AFTER
        };
        let verdicts = recorded
            .iter()
            .map(|(key, recorded)| (key.clone(), Verdict { matches: recorded.matches, evaluated: recorded.evaluated }));
        Evaluations { recorded: verdicts.filter(|(_, verdict)| usable(verdict)).collect(), ..Evaluations::default() }
    }

    /// The verdicts for the progress record.
    pub(crate) fn record(&self) -> BTreeMap<String, RecordedVerdict> {
        let recorded = |verdict: Verdict| RecordedVerdict { matches: verdict.matches, evaluated: verdict.evaluated };
        let known = self.entries.iter().filter_map(|(query, entry)| Some((key(query), recorded(entry.verdict?))));
        known.collect()
    }

    /// Says which risks are published, in the order in which they are to be evaluated. What others need is forgotten.
    pub(crate) fn need<'a>(&mut self, risks: impl IntoIterator<Item = &'a ConditionalUpdateRisk>, now: Timestamp) {
        let mut needed: BTreeMap<String, usize> = BTreeMap::new();
        for risk in risks {
            for query in self.queries(&risk.matching_rules, now) {
                let position = needed.len();
                needed.entry(query.to_owned()).or_insert(position);
            }
        }
        self.entries.retain(|query, entry| entry.under_way || needed.contains_key(query));
        for (query, position) in needed {
            let recorded = &mut self.recorded;
            let new = || {
                let verdict = recorded.remove(&key(&query));
                let due = verdict.map_or(now, |verdict| after(verdict.evaluated, RENEW_AFTER));
                Entry { verdict, failure: None, failures: 0, due, decided: now, under_way: false, position }
            };
            self.entries.entry(query.clone()).or_insert_with(new).position = position;
        }
    }

    /// The queries of a risk that have to be sent: rules are tried in their order until one has a verdict.
    fn queries<'a>(&self, rules: &'a [MatchingRule], now: Timestamp) -> Vec<&'a str> {
        let mut queries = Vec::new();
        for rule in rules {
            let Some(promql) = &rule.promql else { break };
            queries.push(promql.promql.as_str());
            if !matches!(self.of_query(&promql.promql, now), Known::Failed(_)) {
                break;
            }
        }
        queries
    }

    /// The queries to send now; they count as under way until [`Evaluations::on_answer`].
    pub(crate) fn begin(&mut self, now: Timestamp) -> Vec<String> {
        let under_way = self.entries.values().filter(|entry| entry.under_way).count();
        let free = match &self.outage {
            Some(outage) if under_way > 0 || now < outage.again(now) => 0,
            Some(_) => 1,
            None => CONCURRENT.saturating_sub(under_way),
        };
        let renewing =
            self.entries.values().any(|entry| entry.failures == 0 && entry.verdict.is_some() && entry.due <= now);
        let horizon = if renewing { after(now, TOGETHER) } else { now };
        let due = |entry: &Entry| {
            let until = if entry.failures == 0 && entry.verdict.is_some() { horizon } else { now };
            !entry.under_way && entry.is_due(until, now)
        };
        let mut begun: Vec<(usize, &String, &mut bool)> = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| due(entry))
            .map(|(query, entry)| (entry.position, query, &mut entry.under_way))
            .collect();
        begun.sort_by_key(|(position, ..)| *position);
        begun
            .into_iter()
            .take(free)
            .map(|(_, query, under_way)| {
                *under_way = true;
                query.clone()
            })
            .collect()
    }

    /// Takes in the outcome of a query.
    pub(crate) fn on_answer(&mut self, query: &str, answer: Result<bool, QueryError>, now: Timestamp) {
        match &answer {
            Err(QueryError::Source(failure)) => {
                // Several queries that were under way together have found one outage.
                let failures = match &self.outage {
                    Some(outage) if now < outage.again(now) => outage.failures,
                    Some(outage) => outage.failures.saturating_add(1),
                    None => 1,
                };
                self.outage = Some(Outage { failure: failure.clone(), failures, again: retry(now, failures) });
            }
            _ => self.outage = None,
        }
        let Some(entry) = self.entries.get_mut(query) else { return };
        entry.under_way = false;
        match answer {
            Ok(matches) => {
                entry.verdict = Some(Verdict { matches, evaluated: status::whole_seconds(now).0 });
                (entry.failure, entry.failures) = (None, 0);
                entry.decide(after(now, RENEW_AFTER), now);
            }
            Err(QueryError::Answer(failure)) => {
                entry.failures = entry.failures.saturating_add(1);
                entry.failure = Some(failure);
                entry.decide(retry(now, entry.failures), now);
            }
            // It is due as soon as the source is back.
            Err(QueryError::Source(_)) => entry.decide(entry.due.min(now), now),
        }
    }

    /// The administrator has changed the request: what is known from before it is asked for again.
    pub(crate) fn renew(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.due = entry.due.min(now);
        }
        if let Some(outage) = &mut self.outage {
            outage.again = outage.again.min(now);
        }
    }

    /// Whether answers are to be expected soon, so that it is worth waiting for them before anything is published.
    pub(crate) fn is_busy(&self, now: Timestamp) -> bool {
        let free = self.outage.is_none();
        self.entries.values().any(|entry| entry.under_way || free && entry.is_due(now, now))
    }

    /// When something changes by time alone: a query is due, or a verdict expires.
    pub(crate) fn deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let under_way = self.entries.values().filter(|entry| entry.under_way).count();
        let again = self.outage.as_ref().map(|outage| outage.again(now));
        let can_send = under_way < CONCURRENT && (again.is_none() || under_way == 0);
        let waiting = self.entries.values().filter(|entry| can_send && !entry.under_way);
        let due = waiting.map(|entry| if is_set_back(entry.decided, now) { now } else { entry.due });
        let due = due.map(|due| again.map_or(due, |again| due.max(again)));
        let expire = self.entries.values().filter_map(|entry| Some(after(entry.verdict?.evaluated, EXPIRES_AFTER)));
        due.chain(expire.filter(|at| *at > now)).min()
    }

    /// What the rules of a risk say: the first that could be evaluated decides.
    pub(crate) fn of_rules(&self, rules: &[MatchingRule], now: Timestamp) -> Known {
        let mut failures = Vec::new();
        for rule in rules {
            let Some(promql) = &rule.promql else {
                return Known::Verdict { matches: true, evaluated: None, failure: None };
            };
            match self.of_query(&promql.promql, now) {
                Known::Failed(failure) if !failures.contains(&failure) => failures.push(failure),
                Known::Failed(_) => {}
                known => return known,
            }
        }
        Known::Failed(failures.join("; "))
    }

    fn of_query(&self, query: &str, now: Timestamp) -> Known {
        let Some(entry) = self.entries.get(query) else { return Known::Pending };
        let outage = self.outage.as_ref().filter(|_| entry.is_due(now, now)).map(|outage| outage.failure.clone());
        let failure = outage.or_else(|| entry.failure.clone());
        match (entry.verdict, failure) {
            (Some(Verdict { matches, evaluated }), failure) if now.duration_since(evaluated) < EXPIRES_AFTER => {
                Known::Verdict { matches, evaluated: Some(evaluated), failure }
            }
            (_, Some(failure)) => Known::Failed(failure),
            (Some(_), None) => Known::Failed("it has not been evaluated for a day".to_owned()),
            (None, None) => Known::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
