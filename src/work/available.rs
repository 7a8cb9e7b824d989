//! Asks the update service which releases this cluster may go to, when the question changes and every few minutes
//! (cluster-version §4).

use crate::api::Release;
use crate::net::http::{self, ClientOptions, HttpError};
use crate::status::facts::Retrieval;
use crate::updates::graph::{self, Advice, MAX_BODY, Reason, RetrievalError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Drawn once per process from this to half as much again, so that many clusters do not ask at the same moment.
const PERIOD: Duration = Duration::from_secs(150);

/// How long advice counts that the service no longer confirms (cluster-version §4.2): meanwhile it may have learned of a risk.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// What the administrator's spec says about updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub upstream: String,
    pub channel: String,
    pub cluster_id: String,
    /// `Multi`, or empty for the own one.
    pub architecture: String,
}

/// The part of the question that does not change while the process lives.
#[derive(Clone, Debug)]
pub struct Asker {
    /// `--update-service`, which beats the spec.
    pub update_service: Option<String>,
    pub own: Release,
    /// Architecture of the running binary in the update service's words (`amd64`).
    pub architecture: String,
}

/// Runs until `stop`. A change of the question is asked at once.
pub async fn run(
    asker: Asker,
    mut questions: watch::Receiver<Option<Question>>,
    answers: watch::Sender<Option<Retrieval>>,
    stop: CancellationToken,
) {
    let period = crate::cluster::jittered(PERIOD, 1, PERIOD);
    let mut asked: Option<Question> = None;
    // The predecessor's advice, which stands in status, is taken for as fresh as this process.
    let mut confirmed = Instant::now();
    loop {
        let question = questions.borrow_and_update().clone();
        if let Some(question) = question {
            let Some(retrieval) = stop.run_until_cancelled(asker.ask(&question)).await else { return };
            let first = asked.is_none();
            let same = asked.as_ref() == Some(&question);
            if retrieval.outcome.is_ok() || !(first || same) {
                confirmed = Instant::now();
            }
            let counts = confirmed.elapsed() < KEPT;
            let unheard = Retrieval::unheard();
            answers.send_if_modified(|last| {
                let before = if first { Some(&unheard) } else { last.as_ref().filter(|_| same) };
                let next = merge(before.filter(|_| counts), retrieval);
                let changed = last.as_ref() != Some(&next);
                *last = Some(next);
                changed
            });
            asked = Some(question);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = questions.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(period), if asked.is_some() => {}
        }
    }
}

/// Passing trouble of the service does not withdraw its last advice (cluster-version §4.2).
fn merge(last: Option<&Retrieval>, next: Retrieval) -> Retrieval {
    let passing = ["RemoteFailed", "ResponseFailed", "ResponseInvalid"];
    match (&next.outcome, last) {
        (Err((reason, _)), Some(last)) if passing.contains(&reason.as_str()) => {
            Retrieval { outcome: next.outcome, ..last.clone() }
        }
        _ => next,
    }
}

impl Asker {
    async fn ask(&self, question: &Question) -> Retrieval {
        match self.try_ask(question).await {
            Ok(advice) => Retrieval {
                outcome: Ok(()),
                current: Some(advice.current),
                heard: true,
                available: advice.available,
                conditional: advice.conditional,
            },
            Err(error) => {
                tracing::info!(%error, "no update advice");
                let outcome = Err(error.into());
                Retrieval { outcome, ..Retrieval::nothing() }
            }
        }
    }

    async fn try_ask(&self, question: &Question) -> Result<Advice, RetrievalError> {
        let upstream = graph::service(self.update_service.as_deref(), &question.upstream);
        let desired = if question.architecture.is_empty() { &self.own.architecture } else { &question.architecture };
        let architecture = if desired == "Multi" { "multi" } else { self.architecture.as_str() };
        let (channel, id, version) = (&question.channel, &question.cluster_id, &self.own.version);
        graph::precheck(upstream, architecture, channel, id, version)?;
        let url = graph::request_url(upstream, architecture, channel, id, version)?;
        let client = http::client(&ClientOptions::new(&self.own.version)).map_err(|e| unanswered(&e))?;
        let body = http::get_bounded(&client, &url, MAX_BODY).await.map_err(|e| unanswered(&e))?;
        let advice = graph::advise(&body, &self.own, channel, desired)?;
        for note in &advice.notes {
            tracing::info!(%note, "update service");
        }
        Ok(advice)
    }
}

/// A service that was reached and answered with an error is another matter than one that was not (§2.6).
fn unanswered(error: &HttpError) -> RetrievalError {
    let reason = match error {
        HttpError::Status { .. } | HttpError::Body { .. } | HttpError::TooLarge { .. } => Reason::ResponseFailed,
        _ => Reason::RemoteFailed,
    };
    RetrievalError::new(reason, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_as_answer_is_not_the_same_as_no_answer() {
        let url = || "http://u/graph".to_owned();
        let cause = || "reset".to_owned();
        let table = [
            (HttpError::Status { url: url(), status: reqwest::StatusCode::BAD_GATEWAY }, Reason::ResponseFailed),
            (HttpError::TooLarge { url: url(), max: 1 }, Reason::ResponseFailed),
            (HttpError::Body { url: url(), cause: cause() }, Reason::ResponseFailed),
            (HttpError::Transport { url: url(), cause: cause() }, Reason::RemoteFailed),
            (HttpError::Client(cause()), Reason::RemoteFailed),
        ];
        for (error, reason) in table {
            assert_eq!(unanswered(&error).reason, reason, "{error}");
        }
    }

    #[test]
    fn passing_trouble_keeps_the_last_advice_and_other_trouble_does_not() {
        let available = vec![Release { version: "1.0.1".into(), ..Release::default() }];
        let good = Retrieval { outcome: Ok(()), available, ..Retrieval::nothing() };
        let bad = |reason: &str| {
            let outcome = Err((reason.to_owned(), String::new()));
            Retrieval { outcome, ..Retrieval::nothing() }
        };
        let kept = merge(Some(&good), bad("RemoteFailed"));
        assert_eq!(kept.available, good.available);
        assert!(kept.outcome.is_err());
        assert!(merge(Some(&good), bad("VersionNotFound")).available.is_empty());
        assert!(merge(None, bad("RemoteFailed")).available.is_empty());
        // A process that has heard nothing yet withdraws nothing that its predecessor heard.
        let unheard = merge(Some(&Retrieval::unheard()), bad("RemoteFailed"));
        assert!(!unheard.heard && unheard.outcome.is_err());
        assert!(!merge(Some(&unheard), bad("ResponseFailed")).heard);
        assert!(merge(Some(&unheard), bad("VersionNotFound")).heard);
    }
}
