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
    let mut heard = Heard::nothing_yet(Instant::now());
    loop {
        let question = questions.borrow_and_update().clone();
        if let Some(question) = question {
            let Some(answer) = stop.run_until_cancelled(asker.ask(&question)).await else { return };
            let next = heard.take(question, answer, Instant::now());
            answers.send_if_modified(|last| {
                let changed = last.as_ref() != Some(&next);
                *last = Some(next);
                changed
            });
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = questions.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(period), if heard.question.is_some() => {}
        }
    }
}

/// What was heard last, and what it answers.
struct Heard {
    question: Option<Question>,
    advice: Retrieval,
    /// When the service last said so.
    confirmed: Instant,
}

impl Heard {
    /// The predecessor's advice, which stands in status, is taken for as fresh as this process.
    fn nothing_yet(now: Instant) -> Heard {
        Heard { question: None, advice: Retrieval::unanswered(), confirmed: now }
    }

    /// Passing trouble of the service does not withdraw its last advice, for a while (cluster-version §4.2).
    fn take(&mut self, question: Question, answer: Retrieval, now: Instant) -> Retrieval {
        let passing = ["RemoteFailed", "ResponseFailed", "ResponseInvalid"];
        let passes = answer.outcome.as_ref().is_err_and(|(reason, _)| passing.contains(&reason.as_str()));
        let other = self.question.replace(question).is_some_and(|asked| self.question.as_ref() != Some(&asked));
        let counts = now.duration_since(self.confirmed) < KEPT;
        if answer.outcome.is_ok() || other {
            self.confirmed = now;
        }
        if passes && !other && counts {
            self.advice.outcome = answer.outcome;
        } else {
            self.advice = answer;
        }
        self.advice.clone()
    }
}

impl Asker {
    async fn ask(&self, question: &Question) -> Retrieval {
        match self.try_ask(question).await {
            Ok(advice) => Retrieval {
                outcome: Ok(()),
                current: Some(advice.current),
                answered: true,
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
        let (begun, question) = (Instant::now(), Question::default);
        let heard = |advice: &Retrieval| Heard { question: Some(question()), advice: advice.clone(), confirmed: begun };
        let merge = |last: &Retrieval, next| heard(last).take(question(), next, begun);
        let kept = merge(&good, bad("RemoteFailed"));
        assert_eq!(kept.available, good.available);
        assert!(kept.outcome.is_err());
        assert!(merge(&good, bad("VersionNotFound")).available.is_empty());
        let other = Question { channel: "other".into(), ..question() };
        assert!(heard(&good).take(other, bad("RemoteFailed"), begun).available.is_empty());
        // For a day: meanwhile a risk may have been found.
        let (just, over) = (begun + KEPT - Duration::from_secs(1), begun + KEPT);
        assert_eq!(heard(&good).take(question(), bad("RemoteFailed"), just).available, good.available);
        assert!(heard(&good).take(question(), bad("RemoteFailed"), over).available.is_empty());
        let mut confirmed = heard(&good);
        confirmed.take(question(), good.clone(), just);
        assert_eq!(confirmed.take(question(), bad("RemoteFailed"), over).available, good.available);
        // A process that has heard nothing yet withdraws nothing that its predecessor heard.
        let mut new = Heard::nothing_yet(begun);
        let unheard = new.take(question(), bad("RemoteFailed"), begun);
        assert!(!unheard.answered && unheard.outcome.is_err());
        assert!(!new.take(question(), bad("ResponseFailed"), begun).answered);
        assert!(new.take(question(), bad("VersionNotFound"), begun).answered);
    }
}
