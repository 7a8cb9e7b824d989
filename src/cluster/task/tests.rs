use super::*;
use std::time::Duration;

#[tokio::test]
async fn panic_stops_the_process_and_an_end_does_not() {
    let stop = CancellationToken::new();
    let (ended, end) = tokio::sync::oneshot::channel();
    spawn("ends", &stop, async move { ended.send(()) });
    end.await.unwrap();
    assert!(!stop.is_cancelled());
    spawn("panics", &stop, async { assert!(std::future::ready(false).await, "on purpose") });
    tokio::time::timeout(Duration::from_secs(20), stop.cancelled()).await.unwrap();
}

#[tokio::test]
async fn task_ends_when_the_process_is_to_stop() {
    let stop = CancellationToken::new();
    let (held, end) = tokio::sync::oneshot::channel::<()>();
    spawn("waits", &stop, async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    stop.cancel();
    assert!(tokio::time::timeout(Duration::from_secs(20), end).await.unwrap().is_err(), "it was dropped");
}

#[tokio::test]
async fn panic_of_a_task_that_others_hold_stops_the_process_and_its_end_by_them_does_not() {
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    let panics = async { assert!(std::future::ready(false).await, "on purpose") };
    tasks.spawn(guarded("ended", &stop, std::future::pending::<()>()));
    tasks.shutdown().await;
    assert!(!stop.is_cancelled());
    tasks.spawn(guarded("panics", &stop, panics));
    assert!(tasks.join_next().await.unwrap().is_ok(), "whoever waits for it is not told twice");
    assert!(stop.is_cancelled());
}

/// A writer that keeps everything.
#[derive(Clone, Default)]
struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_a_task_logs_says_which_task_it_is() {
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let stop = CancellationToken::new();
    guarded("feed", &stop, async { tracing::warn!("not read") }).await;
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("task{name=\"feed\"}") && text.contains("not read"), "{text}");
}
