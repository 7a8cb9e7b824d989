//! Whether the controller is alive: its loop must answer. It is asked when somebody wants to know, and never otherwise.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A busy loop may answer late, for instance while it waits for requests that are under way.
const ANSWER: Duration = Duration::from_secs(2);
/// A loop that has not answered for this long does not work any more. What it waits for at most takes less.
const STUCK: Duration = Duration::from_secs(120);

/// Connects a loop with those who ask whether it is alive.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    state: watch::Sender<State>,
    stuck: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The loop has begun. Before that there is nobody to answer.
    running: bool,
    /// Since when an answer is missing.
    asked: Option<Instant>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Heartbeat { state: watch::channel(State::default()).0, stuck: STUCK }
    }
}

impl Heartbeat {
    /// Waits until the loop is asked. From the first call on it must answer. Cancel safe.
    pub(crate) async fn asked(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.running, true));
        let mut state = self.state.subscribe();
        if state.wait_for(|state| state.asked.is_some()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The loop answers.
    pub(crate) fn answer(&self) {
        self.state.send_modify(|state| state.asked = None);
    }

    /// Asks. An error says that, and for how long, the loop has not answered.
    pub(crate) async fn check(&self) -> Result<&'static str, String> {
        let mut state = self.state.subscribe();
        if !state.borrow().running {
            return Ok("ok: waiting for the lease");
        }
        self.state.send_if_modified(|state| {
            let first = state.asked.is_none();
            state.asked.get_or_insert_with(Instant::now);
            first
        });
        let answered = state.wait_for(|state| state.asked.is_none());
        if tokio::time::timeout(ANSWER, answered).await.is_ok() {
            return Ok("ok");
        }
        let waited = self.state.borrow().asked.map_or(Duration::ZERO, |since| since.elapsed());
        if waited < self.stuck {
            return Ok("ok: busy");
        }
        Err(format!("the main loop has not answered for {} s", waited.as_secs()))
    }
}

#[cfg(test)]
mod tests;
