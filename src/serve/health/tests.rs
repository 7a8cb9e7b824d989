use super::*;
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn loop_that_answers_is_alive_however_long_it_has_rested() {
    let heartbeat = Arc::new(Heartbeat::default());
    assert_eq!(heartbeat.check().await, Ok("ok: waiting for the lease"));
    let (answering, begun) = (heartbeat.clone(), Instant::now());
    let mut asked = Box::pin(async move {
        loop {
            answering.asked().await;
            answering.answer();
        }
    });
    assert!(futures::poll!(asked.as_mut()).is_pending());
    let _loop = tokio::spawn(asked);
    tokio::time::advance(STUCK * 10).await;
    assert_eq!(heartbeat.check().await, Ok("ok"));
    assert_eq!(begun.elapsed(), STUCK * 10, "it was not waited for the answer");
}

#[tokio::test(start_paused = true)]
async fn loop_that_does_not_answer_for_too_long_is_stuck_until_it_does() {
    let heartbeat = Heartbeat::default();
    assert!(futures::poll!(Box::pin(heartbeat.asked())).is_pending());
    assert_eq!(heartbeat.check().await, Ok("ok: busy"));
    tokio::time::advance(STUCK / 2).await;
    assert_eq!(heartbeat.check().await, Ok("ok: busy"));
    tokio::time::advance(STUCK / 2).await;
    let error = heartbeat.check().await.unwrap_err();
    assert!(error.contains("has not answered for 12"), "{error}");
    heartbeat.answer();
    // It is busy again, but this time begins anew.
    assert_eq!(heartbeat.check().await, Ok("ok: busy"));
}
