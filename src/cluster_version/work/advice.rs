//! Asks the update service for the updates of this cluster, evaluates the risks in its answer, and tells what is to be
//! published. What is asked when, and what counts, is decided in `updates::advice`.

use super::monitoring::Monitoring;
use crate::cluster::task;
use crate::cluster_version::progress;
use crate::cluster_version::status::facts::Retrieval;
use crate::cluster_version::updates::advice::{Advice, Asker, Failure, Question};
pub(crate) use crate::cluster_version::updates::advice::{Offered, Request};
use crate::net::http::{self, Egress, Get, HttpError};
use crate::process::egress::Way;
use crate::process::prometheus::Querier;
use crate::promql::QueryError;
use crate::release::update_graph;
use crate::release::update_graph::{MAX_BODY, Reason, RetrievalError, Updates};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Chosen once per process between this and half as much again, so that many clusters do not query at the same moment.
const PERIOD: Duration = Duration::from_secs(150);
/// How long a publication waits for the answers to queries that are under way.
const GATHER: SignedDuration = SignedDuration::from_secs(1);

pub(crate) fn period() -> Duration {
    crate::cluster::jittered(PERIOD, 1, PERIOD)
}

/// What the task is built from.
#[derive(Debug)]
pub(crate) struct Parts {
    pub asker: Asker,
    /// What an earlier process left in the progress record.
    pub recorded: Option<progress::Advice>,
    pub querier: Querier,
    pub way: Way,
    pub monitoring: Arc<Monitoring>,
}

/// What the controller asks, and what it is told. Nothing is asked before its first request.
#[derive(Debug)]
pub(crate) struct Handle {
    /// Until then.
    unasked: Option<Parts>,
    requests: watch::Sender<Request>,
    told: watch::Sender<Option<Told>>,
    telling: watch::Receiver<Option<Told>>,
    stop: CancellationToken,
}

/// What the task tells: for the status, and for the progress record.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    /// The request that this belongs to.
    request: Request,
    /// `None` before the first answer or failure.
    retrieval: Option<Retrieval>,
    record: Option<progress::Advice>,
}

impl Handle {
    /// The task goes on until `stop`.
    pub(crate) fn new(parts: Parts, stop: CancellationToken) -> Handle {
        if let Some(answered) = parts.recorded.as_ref().and_then(|recorded| recorded.answered) {
            parts.monitoring.on_recorded_retrieval(answered);
        }
        let (told, telling) = watch::channel(None);
        Handle { unasked: Some(parts), requests: watch::Sender::new(Request::default()), told, telling, stop }
    }

    /// What is to be asked from now on. `offered`: what status offers, of which only the first time is of interest.
    pub(crate) fn request(&mut self, request: Request, offered: impl FnOnce() -> Option<Offered>) {
        self.requests.send_if_modified(|current| {
            let changed = *current != request;
            *current = request;
            changed
        });
        if let Some(parts) = self.unasked.take() {
            let asking = run(parts, offered(), self.requests.subscribe(), self.told.clone(), self.stop.clone());
            task::spawn("update service", &self.stop, asking);
        }
    }

    /// What may be published for this request: never what was asked for another one.
    pub(crate) fn retrieval(&self, request: &Request) -> Option<Retrieval> {
        let told = self.telling.borrow();
        let told = told.as_ref().filter(|told| request.asks_the_same(&told.request));
        told.and_then(|told| told.retrieval.clone())
    }

    /// For the progress record.
    pub(crate) fn record(&self) -> Option<progress::Advice> {
        self.telling.borrow().as_ref().and_then(|told| told.record.clone())
    }

    /// Waits until something else is told. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        // There is always a sender.
        let _told = self.telling.changed().await;
    }
}

type Asking = BoxFuture<'static, (Question, Result<Answer, Failure>)>;
type Querying = FuturesUnordered<BoxFuture<'static, (String, Result<bool, QueryError>)>>;

/// Runs until `stop`.
async fn run(
    parts: Parts,
    offered: Option<Offered>,
    mut requests: watch::Receiver<Request>,
    told: watch::Sender<Option<Told>>,
    stop: CancellationToken,
) {
    let Parts { asker, recorded, querier, mut way, monitoring } = parts;
    let client = Client { own: asker.own.clone(), tagged: None };
    let advice = Advice::new(asker, recorded, offered, Timestamp::now());
    let mut task = Task { advice, client, told, unsaid: None, monitoring, last: None };
    let (mut asking, mut queries): (Option<Asking>, Querying) = (None, FuturesUnordered::new());
    // No question before the way is known: it would go out directly where a proxy is needed.
    if !matches!(stop.run_until_cancelled(way.wait_for(Option::is_some)).await, Some(Ok(_))) {
        return;
    }
    way.mark_unchanged();
    requests.mark_changed();
    loop {
        let now = Timestamp::now();
        if let Some(question) = task.advice.ask(now) {
            // It stays known once it is: see above.
            let egress = way.borrow().clone().unwrap_or_else(|| Ok(Egress::default()));
            asking = Some(task.client.clone().ask(question, egress).boxed());
        }
        for query in task.advice.queries(now) {
            let querier = querier.clone();
            queries.push(async move { (query.clone(), querier.query(&query).await) }.boxed());
        }
        let pause = task.publish_or_wait(now);
        tokio::select! {
            () = stop.cancelled() => return,
            changed = requests.changed() => {
                if changed.is_err() {
                    return;
                }
                let request = requests.borrow_and_update().clone();
                task.advice.on_request(request, Timestamp::now());
                task.changed(Timestamp::now());
            }
            (question, answer) = next(&mut asking) => {
                asking = None;
                task.on_answer(&question, answer);
            }
            Some((query, verdict)) = queries.next() => {
                task.advice.on_verdict(&query, verdict, Timestamp::now());
                task.changed(Timestamp::now());
            }
            Ok(()) = way.changed() => {
                if matches!(*way.borrow_and_update(), Some(Ok(_))) {
                    task.advice.on_new_way(Timestamp::now());
                }
            }
            () = tokio::time::sleep(pause) => task.changed(Timestamp::now()),
        }
    }
}

/// Waits for the question that is under way; for ever without one. Cancel safe.
async fn next(asking: &mut Option<Asking>) -> (Question, Result<Answer, Failure>) {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

struct Task {
    advice: Advice,
    client: Client,
    told: watch::Sender<Option<Told>>,
    /// Since when something is known that was not told.
    unsaid: Option<Timestamp>,
    monitoring: Arc<Monitoring>,
    last: Option<Question>,
}

impl Task {
    fn changed(&mut self, now: Timestamp) {
        self.unsaid.get_or_insert(now);
    }

    fn on_answer(&mut self, question: &Question, answer: Result<Answer, Failure>) {
        match &answer {
            Ok(answer) => {
                if self.client.tagged.as_ref().is_none_or(|before| before.updates.notes != answer.updates.notes) {
                    answer.updates.notes.iter().for_each(|note| tracing::info!(%note, "update service"));
                }
                self.client.tagged = Some(answer.clone());
            }
            Err(failure) => tracing::info!(error = %failure.error, "no updates retrieved"),
        }
        let now = Timestamp::now();
        let failure = answer.as_ref().err().map(|failure| failure.error.reason.to_string());
        let changed = self.last.replace(question.clone()).is_some_and(|last| last != *question);
        self.monitoring.on_retrieval(failure.as_deref(), changed, now);
        let jitter = f64::from(u8::try_from(now.subsec_nanosecond() % 256).unwrap_or(0)) / 256.0;
        self.advice.on_answer(question, answer.map(|answer| answer.updates), jitter, now);
        self.changed(now);
    }

    /// Tells what is known, unless more is to be expected at once, and says how long to wait.
    fn publish_or_wait(&mut self, now: Timestamp) -> Duration {
        let wait = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
        let deadline = self.advice.deadline(now).map_or(Duration::from_secs(3600), wait);
        let Some(since) = self.unsaid else { return deadline };
        let gathered = since.checked_add(GATHER).unwrap_or(Timestamp::MIN);
        if !self.advice.is_settled(now) && (since..gathered).contains(&now) {
            return deadline.min(wait(gathered));
        }
        self.unsaid = None;
        let next = Told {
            request: self.advice.request().clone(),
            retrieval: self.advice.published(now),
            record: self.advice.record(),
        };
        self.told.send_if_modified(|last| {
            let changed = last.as_ref() != Some(&next);
            *last = Some(next);
            changed
        });
        deadline
    }
}

/// The last answer, and what it was the answer to.
#[derive(Clone, Debug)]
struct Answer {
    url: String,
    tag: Option<String>,
    updates: Updates,
}

#[derive(Clone, Debug)]
struct Client {
    own: crate::release::api::Release,
    /// The last answer: the service need not send it again.
    tagged: Option<Answer>,
}

impl Client {
    async fn ask(self, question: Question, egress: Result<Egress, String>) -> (Question, Result<Answer, Failure>) {
        let answer = match egress {
            Ok(egress) => self.try_ask(&question, &egress).await,
            Err(unknown) => Err(RetrievalError::new(Reason::RemoteFailed, unknown).into()),
        };
        (question, answer)
    }

    async fn try_ask(&self, question: &Question, egress: &Egress) -> Result<Answer, Failure> {
        let url = question.url()?;
        let client = http::client(&self.own.version, egress).map_err(|e| failed(question, &e, egress))?;
        let last = self.tagged.as_ref().filter(|last| last.url == url);
        let what = Get { accept: "application/json", known: last.and_then(|last| last.tag.as_deref()), token: None };
        let response = http::get(&client, &url, &what, MAX_BODY).await.map_err(|e| failed(question, &e, egress))?;
        if let (true, Some(last)) = (response.unchanged, last) {
            return Ok(last.clone());
        }
        let updates =
            update_graph::parse_updates(&response.body, &self.own, &question.channel, &question.desired_architecture);
        let updates = updates.map_err(|error| question.failed(error.reason, &error.message))?;
        Ok(Answer { url, tag: response.tag, updates })
    }
}

/// A service that answered with an error has another reason than one that could not be reached.
fn failed(question: &Question, error: &HttpError, egress: &Egress) -> Failure {
    let of_cluster = |reason| RetrievalError::new(reason, error.to_string());
    match error {
        HttpError::TrustBundle(_) => of_cluster(Reason::InvalidTrustBundle).into(),
        HttpError::Client(_) | HttpError::Proxy(_) => of_cluster(Reason::RemoteFailed).into(),
        HttpError::Transport { url, .. } => {
            question.failed(Reason::RemoteFailed, format!("{error}, {}", egress.way_to(url))).into()
        }
        HttpError::Body { .. } | HttpError::TooLarge { .. } => question.failed(Reason::ResponseFailed, error).into(),
        HttpError::Status { retry_after, .. } => {
            Failure { error: question.failed(Reason::ResponseFailed, error), retry_after: *retry_after }
        }
    }
}

#[cfg(test)]
mod tests;
