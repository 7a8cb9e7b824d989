//! Controllers act turn by turn: something has changed, or a time has come.

use crate::serve::health::Heartbeat;
use jiff::Timestamp;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Until something has changed, or is due.
pub(crate) async fn due(changed: &Notify, deadline: Option<Instant>, stop: &CancellationToken) {
    let pause = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = changed.notified() => {}
        () = pause => {}
    }
}

/// The same. Whoever asks meanwhile whether the controller lives is answered.
pub(crate) async fn wait(changed: &Notify, deadline: Option<Instant>, heartbeat: &Heartbeat, stop: &CancellationToken) {
    let mut due = std::pin::pin!(due(changed, deadline, stop));
    loop {
        tokio::select! {
            () = &mut due => return,
            () = heartbeat.asked() => heartbeat.answer(),
        }
    }
}

/// The instant of a time, from now on.
pub(crate) fn until(time: Timestamp, now: Timestamp) -> Instant {
    Instant::now() + Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_asks_while_nothing_happens_is_answered() {
        let (changed, heartbeat, stop) = (Notify::new(), Heartbeat::default(), CancellationToken::new());
        let asking = async {
            for _ in 0..3 {
                // Before the loop has begun there is nobody to answer.
                while heartbeat.check().await != Ok("ok") {
                    tokio::task::yield_now().await;
                }
            }
            changed.notify_one();
        };
        let both = async { tokio::join!(wait(&changed, None, &heartbeat, &stop), asking) };
        tokio::time::timeout(Duration::from_secs(20), both).await.expect("it answers, and ends when something changes");
    }
}
