//! The advice on updates as a state machine: what is asked of the update service and when, how long its last answer counts,
//! and what is published of it. The caller sends the questions and queries, and passes on what came of them.

use super::evaluations::{Evaluations, after, is_set_back};
use super::risks::{self, Basis};
use crate::cluster_version::api::{ClusterVersionStatus, HistoryState};
use crate::cluster_version::progress;
use crate::cluster_version::status::Risk;
use crate::cluster_version::status::facts::Retrieval;
use crate::error::{listed, shortened};
use crate::pause::{doubled, jittered};
use crate::promql::QueryError;
use crate::release::api::{ConditionalUpdate, Release};
use crate::release::update_graph;
use crate::release::update_graph::{Reason, RetrievalError, Updates};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// How long updates stay available while the service fails: meanwhile it may have learned of a risk.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// A service that asks for more patience than this is asked again nevertheless.
const MAX_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// The record says with this precision when the service has answered last: whenever it changes, all of it is written.
const RECORDED: SignedDuration = SignedDuration::from_mins(30);
/// Most bytes that are said of the targets that are left out, and of each.
const MAX_NOTES: usize = 2048;
const MAX_NOTE: usize = 300;

/// What the ClusterVersion says about updates.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Request {
    /// `spec.upstream`.
    pub upstream: String,
    pub channel: String,
    pub cluster_id: String,
    /// `Multi`, or empty for that of the running release.
    pub architecture: String,
    /// `None` without the feature gate `ClusterUpdateAcceptRisks`.
    pub accepted_risks: Option<BTreeSet<String>>,
    /// Risks that the daemon has found in the cluster itself, which count with the gate; `None` while not everything has been read.
    pub own_risks: Option<Vec<Risk>>,
}

impl Request {
    /// Whether both ask the same of the update service.
    pub(crate) fn asks_the_same(&self, other: &Request) -> bool {
        let asked = |r: &Request| (r.upstream.clone(), r.channel.clone(), r.cluster_id.clone(), r.architecture.clone());
        asked(self) == asked(other)
    }
}

/// The updates that status offers when a process starts, if they are for its release.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Offered {
    available: Vec<Release>,
    conditional: Vec<ConditionalUpdate>,
}

impl Offered {
    /// Those in status are for the running release only once it is the one that was completed last.
    pub(crate) fn of(status: &ClusterVersionStatus, own: &Release) -> Option<Offered> {
        let newest = status.history.first()?;
        let available = status.available_updates.as_ref()?;
        (newest.state == HistoryState::Completed && newest.image == own.image)
            .then(|| Offered { available: available.clone(), conditional: status.conditional_updates.clone() })
    }
}

/// The part of each question that does not change while the process lives.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// `--update-service`, which overrides the spec.
    pub update_service: Option<String>,
    /// The running release.
    pub own: Release,
    /// Architecture of the running binary as the update service names it (`amd64`).
    pub architecture: String,
    /// How often the service is asked.
    pub period: Duration,
}

/// What named the update service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedBy {
    Flag,
    Spec,
    Default,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NamedBy::Flag => "--update-service names this update service",
            NamedBy::Spec => "spec.upstream names this update service",
            NamedBy::Default => "this is the default update service, as spec.upstream is empty",
        })
    }
}

/// A question to the update service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub service: String,
    named_by: NamedBy,
    pub channel: String,
    cluster_id: String,
    /// `Multi` or empty: the architecture that is wanted.
    pub desired_architecture: String,
    architecture: String,
    version: String,
}

impl Question {
    fn new(asker: &Asker, request: &Request) -> Self {
        let flag = asker.update_service.as_deref().filter(|flag| !flag.is_empty());
        let named_by = match (flag, request.upstream.as_str()) {
            (Some(_), _) => NamedBy::Flag,
            (None, "") => NamedBy::Default,
            (None, _) => NamedBy::Spec,
        };
        let desired = if request.architecture.is_empty() { &asker.own.architecture } else { &request.architecture };
        Question {
            service: update_graph::service(flag, &request.upstream).to_owned(),
            named_by,
            channel: request.channel.clone(),
            cluster_id: request.cluster_id.clone(),
            desired_architecture: desired.clone(),
            architecture: if desired == "Multi" { "multi".to_owned() } else { asker.architecture.clone() },
            version: asker.own.version.clone(),
        }
    }

    /// The URL to read, or why there is none.
    pub(crate) fn url(&self) -> Result<String, RetrievalError> {
        update_graph::request_url(&self.service, &self.architecture, &self.channel, &self.cluster_id, &self.version)
    }

    /// A failure with where the service's name comes from.
    pub(crate) fn failed(&self, reason: Reason, message: impl fmt::Display) -> RetrievalError {
        RetrievalError::new(reason, format!("{message} ({})", self.named_by))
    }

    /// Whether an earlier process asked the same.
    fn is_recorded(&self, recorded: &progress::Advice) -> bool {
        (&recorded.service, &recorded.channel, &recorded.architecture)
            == (&self.service, &self.channel, &self.desired_architecture)
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub error: RetrievalError,
    /// When the service wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl From<RetrievalError> for Failure {
    fn from(error: RetrievalError) -> Self {
        Failure { error, retry_after: None }
    }
}

/// The state: the question, its last answer, and what is known of the risks in it.
#[derive(Debug)]
pub(crate) struct Advice {
    asker: Asker,
    request: Request,
    question: Option<Question>,
    /// Whether the question is under way.
    asking: bool,
    due: Timestamp,
    /// When that was decided.
    decided: Timestamp,
    failures: u32,
    outcome: Option<Result<(), RetrievalError>>,
    updates: Option<Updates>,
    /// The updates that status had when the process began are for this question, and still valid.
    keep: bool,
    /// When the updates were last confirmed.
    confirmed: Timestamp,
    /// When the service answered last, with the precision of the record.
    answered: Option<Timestamp>,
    /// It has answered this process.
    heard: bool,
    /// What an earlier process has left, until the first question is known.
    recorded: Option<progress::Advice>,
    offered: Option<Offered>,
    evaluations: Evaluations,
}

fn signed(pause: Duration) -> SignedDuration {
    SignedDuration::try_from(pause).unwrap_or(MAX_PAUSE)
}

impl Advice {
    /// `recorded` and `offered` are what an earlier process left in the progress record and in status.
    pub(crate) fn new(
        asker: Asker,
        recorded: Option<progress::Advice>,
        offered: Option<Offered>,
        now: Timestamp,
    ) -> Self {
        let none = std::collections::BTreeMap::new();
        let verdicts = recorded.as_ref().map_or(&none, |recorded| &recorded.verdicts);
        Advice {
            evaluations: Evaluations::restore(verdicts, now),
            asker,
            request: Request::default(),
            question: None,
            asking: false,
            due: now,
            decided: now,
            failures: 0,
            outcome: None,
            updates: None,
            keep: false,
            confirmed: now,
            answered: None,
            heard: false,
            recorded,
            offered,
        }
    }

    /// Takes in what the ClusterVersion says now. A changed question is asked at once, and the answer to the last one no
    /// longer counts.
    pub(crate) fn on_request(&mut self, request: Request, now: Timestamp) {
        let question = Question::new(&self.asker, &request);
        let before = std::mem::replace(&mut self.request, request);
        match &self.question {
            Some(same) if *same == question => {
                if before.accepted_risks != self.request.accepted_risks {
                    self.evaluations.renew(now);
                }
            }
            Some(_) => {
                (self.updates, self.keep, self.outcome) = (None, false, None);
                (self.answered, self.confirmed) = (None, now);
                self.ask_anew(question, now);
                self.evaluations.renew(now);
            }
            None => {
                self.resume(&question, now);
                self.ask_anew(question, now);
            }
        }
        self.need(now);
    }

    fn ask_anew(&mut self, question: Question, now: Timestamp) {
        self.question = Some(question);
        (self.asking, self.failures) = (false, 0);
        self.decide(now, now);
    }

    /// What an earlier process was told counts on, unless the question has changed meanwhile. The clock of the failing
    /// service goes on as well.
    fn resume(&mut self, question: &Question, now: Timestamp) {
        let offered = self.offered.take();
        match self.recorded.take() {
            Some(recorded) if question.is_recorded(&recorded) => {
                self.answered = recorded.answered;
                // A time in the future comes from a clock that was wrong.
                self.confirmed = recorded.answered.unwrap_or(now).min(now);
            }
            Some(_) => return,
            None => {}
        }
        self.keep = true;
        // With the feature gate, risks of the cluster are among those of the graph, and cannot be told from them.
        if let (Some(Offered { available, conditional }), None) = (offered, &self.request.accepted_risks) {
            let images: BTreeSet<&str> = conditional.iter().map(|update| update.release.image.as_str()).collect();
            let without_risks = available.into_iter().filter(|release| !images.contains(release.image.as_str()));
            let available = without_risks.collect();
            self.updates = Some(Updates { available, conditional, ..Updates::default() });
        }
    }

    /// The way to the service has changed: what failed may succeed now.
    pub(crate) fn on_new_way(&mut self, now: Timestamp) {
        if matches!(self.outcome, Some(Err(_))) {
            self.failures = 0;
            self.decide(now, now);
        }
    }

    /// The question to ask now, if any; it counts as under way until [`Advice::on_answer`].
    pub(crate) fn ask(&mut self, now: Timestamp) -> Option<Question> {
        if self.asking || now < self.due && !is_set_back(self.decided, now) {
            return None;
        }
        let question = self.question.clone()?;
        self.asking = true;
        Some(question)
    }

    fn decide(&mut self, due: Timestamp, now: Timestamp) {
        (self.due, self.decided) = (due, now);
    }

    /// Takes in what came of a question. `jitter`, from 0 to 1, spreads the retries of many clusters.
    pub(crate) fn on_answer(
        &mut self,
        question: &Question,
        answer: Result<Updates, Failure>,
        jitter: f64,
        now: Timestamp,
    ) {
        // The answer to an earlier question says nothing about this one.
        if self.question.as_ref() != Some(question) {
            return;
        }
        self.asking = false;
        let period = signed(self.asker.period);
        match answer {
            Ok(updates) => {
                self.failures = 0;
                self.decide(after(now, period), now);
                self.confirmed = now;
                let old = |at: Timestamp| now < at || now.duration_since(at) >= RECORDED;
                if !std::mem::replace(&mut self.heard, true) || self.answered.is_none_or(old) {
                    self.answered = Some(now);
                }
                (self.updates, self.outcome) = (Some(updates), Some(Ok(())));
            }
            Err(Failure { error, retry_after }) => {
                self.failures = self.failures.saturating_add(1);
                let transient = error.reason.is_transient();
                let pause = match transient {
                    true => jittered(doubled(FIRST_RETRY, self.failures, self.asker.period), jitter),
                    false => self.asker.period,
                };
                let wanted = retry_after.map_or(SignedDuration::ZERO, |wanted| signed(wanted).min(MAX_PAUSE));
                self.decide(after(now, signed(pause).max(wanted)), now);
                if !transient || now.duration_since(self.confirmed) >= MAX_AGE {
                    (self.updates, self.keep) = (None, false);
                }
                self.outcome = Some(Err(error));
            }
        }
        self.need(now);
    }

    fn need(&mut self, now: Timestamp) {
        let conditional = self.updates.iter().flat_map(|updates| &updates.conditional);
        self.evaluations.need(conditional.flat_map(|update| &update.risks), now);
    }

    /// The queries to send now.
    pub(crate) fn queries(&mut self, now: Timestamp) -> Vec<String> {
        self.evaluations.begin(now)
    }

    /// Takes in what came of a query.
    pub(crate) fn on_verdict(&mut self, query: &str, verdict: Result<bool, QueryError>, now: Timestamp) {
        self.evaluations.on_answer(query, verdict, now);
        self.need(now);
    }

    /// No answer is to be expected soon, so what is known can be published.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        !self.evaluations.is_busy(now)
    }

    /// When there is something to do by time alone.
    pub(crate) fn deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let ask = self.question.as_ref().filter(|_| !self.asking).map(|_| self.due);
        ask.into_iter().chain(self.evaluations.deadline(now)).min()
    }

    /// What the request says that all of this belongs to.
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// What to publish; `None` before the first outcome of the question. What was left out is its message.
    pub(crate) fn published(&self, now: Timestamp) -> Option<Retrieval> {
        let outcome = self.outcome.clone()?;
        let none = Updates::default();
        let updates = self.updates.as_ref().unwrap_or(&none);
        let mut notes = updates.notes.clone();
        // Risks that are not known yet are not none: nothing may be recommended by that.
        let judged = match (&self.request.accepted_risks, &self.request.own_risks) {
            (Some(_), None) => None,
            (accepted, own_risks) => {
                let basis = Basis {
                    current: &self.asker.own.version,
                    own_risks: own_risks.as_deref().unwrap_or_default(),
                    accepted: accepted.as_ref(),
                    evaluations: &self.evaluations,
                    now,
                };
                Some(risks::judge(&updates.available, &updates.conditional, basis))
            }
        };
        let known = judged.is_some() && self.updates.is_some();
        let mut judged = judged.unwrap_or_default();
        notes.append(&mut judged.notes);
        Some(Retrieval {
            outcome: outcome.map(|()| left_out(&notes)).map_err(Into::into),
            current: Some(updates.current.clone()).filter(|current| !current.image.is_empty()),
            answered: known || !self.keep,
            known,
            available: judged.available,
            conditional: judged.conditional,
            risks: judged.risks,
        })
    }

    /// For the progress record.
    pub(crate) fn record(&self) -> Option<progress::Advice> {
        let question = self.question.as_ref()?;
        Some(progress::Advice {
            service: question.service.clone(),
            channel: question.channel.clone(),
            architecture: question.desired_architecture.clone(),
            answered: self.answered,
            verdicts: self.evaluations.record(),
        })
    }
}

/// Which targets of the graph are not offered, and why; empty if all are.
fn left_out(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = notes.iter().map(|note| shortened(note, MAX_NOTE)).collect();
    let lines = listed(&lines, "; ", MAX_NOTES, |n| format!("and {n} more, which the log names"));
    format!("Not everything in the update graph is offered: {lines}")
}

#[cfg(test)]
mod tests;
