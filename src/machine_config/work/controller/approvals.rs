//! Asks the queries of pools whose rollout is under way.

use crate::cluster::task;
use crate::error::{CAUSE, shortened};
use crate::machine_config::approval::{PERIOD, confirmed, next, past};
use crate::machine_config::holds::Answer;
use crate::process::prometheus::Querier;
use crate::promql::QueryError;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// For one answer: the next is asked for soon.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Approvals {
    querier: Querier,
    changed: Arc<Notify>,
    stop: CancellationToken,
    /// By the name of the pool.
    asked: BTreeMap<String, Asked>,
}

/// It is asked until this is dropped.
struct Asked {
    query: String,
    answer: Arc<Mutex<Answer>>,
    _asking: AbortOnDropHandle<()>,
}

impl Approvals {
    pub(super) fn new(querier: Querier, changed: Arc<Notify>, stop: CancellationToken) -> Self {
        Approvals { querier, changed, stop, asked: BTreeMap::new() }
    }

    /// What is known of this query of the pool.
    pub(super) fn answer(&self, pool: &str, query: Option<&str>) -> Answer {
        let asked = self.asked.get(pool).filter(|asked| Some(asked.query.as_str()) == query);
        asked.map(|asked| asked.answer.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// From now on only these queries are asked: each with its pool, and what an earlier process has found out about it. One
    /// that is new is asked at once.
    pub(super) fn ask(&mut self, queries: BTreeMap<String, (String, Answer)>) {
        self.asked.retain(|pool, asked| queries.get(pool).is_some_and(|(query, _)| *query == asked.query));
        for (pool, (query, recorded)) in queries {
            if self.asked.contains_key(&pool) {
                continue;
            }
            let answer = Arc::new(Mutex::new(Answer::Unknown));
            let asking = Asking {
                querier: self.querier.clone(),
                query: query.clone(),
                answer: answer.clone(),
                changed: self.changed.clone(),
            };
            let asking = task::guarded("approval query", &self.stop, asking.run(recorded));
            let _asking = AbortOnDropHandle::new(tokio::spawn(asking));
            self.asked.insert(pool, Asked { query, answer, _asking });
        }
    }
}

struct Asking {
    querier: Querier,
    query: String,
    answer: Arc<Mutex<Answer>>,
    changed: Arc<Notify>,
}

impl Asking {
    /// `recorded`: what an earlier process has found out.
    async fn run(self, recorded: Answer) {
        let mut known = Answer::Unknown;
        let mut recorded = Some(recorded);
        loop {
            known = self.turn(known, &mut recorded).await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Asks once. `recorded` is what an earlier process has found out, as long as nobody could say whether it holds: until that
    /// is known, what this process sees itself counts.
    async fn turn(&self, known: Answer, recorded: &mut Option<Answer>) -> Answer {
        let sample = self.sample(&self.query).await;
        let known = match recorded.take() {
            Some(Answer::True { since }) if sample == Ok(true) => {
                let now = Timestamp::now();
                let past = match past(&self.query, since, now) {
                    Some(past) => self.sample(&past).await.map(Some),
                    None => Ok(None),
                };
                match past {
                    Ok(Some(false)) => known,
                    Ok(past) => confirmed(Answer::True { since }, past, now),
                    // It may take longer than what is asked every few seconds.
                    Err(_) => {
                        *recorded = Some(Answer::True { since });
                        known
                    }
                }
            }
            Some(recorded) if known == Answer::Unknown => recorded,
            _ => known,
        };
        self.on_sample(&known, sample)
    }

    async fn sample(&self, query: &str) -> Result<bool, String> {
        match tokio::time::timeout(TIMEOUT, self.querier.query(query)).await {
            Ok(Ok(holds)) => Ok(holds),
            Ok(Err(QueryError::Source(cause) | QueryError::Answer(cause))) => Err(cause),
            Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        }
    }

    fn on_sample(&self, before: &Answer, sample: Result<bool, String>) -> Answer {
        let answer = next(before, sample, Timestamp::now());
        let mut told = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != answer {
            tracing::info!(query = %shortened(&self.query, CAUSE), ?answer, "approval query");
            *told = answer.clone();
            self.changed.notify_one();
        }
        answer
    }
}

#[cfg(test)]
mod tests;
