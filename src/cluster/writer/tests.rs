use super::*;
use crate::cluster::Cause;
use std::sync::atomic::{AtomicUsize, Ordering};

fn failed() -> ApiError {
    ApiError { attempt: "cordon node a".to_owned(), cause: crate::cluster::Cause::Timeout }
}

/// Nothing else has to happen for that: the writer says when it is time.
#[tokio::test]
async fn a_write_that_failed_is_tried_again_when_its_time_has_come() {
    let changed = Arc::new(Notify::new());
    let writer = Writer::new(changed.clone());
    let tried = Arc::new(AtomicUsize::new(0));
    let mut refused = 0;
    while tried.load(Ordering::SeqCst) < 3 {
        let (tried, before) = (tried.clone(), tried.load(Ordering::SeqCst));
        let counted = tried.clone();
        writer.begin("a", Instant::now(), Duration::ZERO, async move {
            if counted.fetch_add(1, Ordering::SeqCst) < 2 { Err(failed()) } else { Ok(()) }
        });
        changed.notified().await;
        assert_eq!(tried.load(Ordering::SeqCst), before + 1, "each attempt is told of");
        if let Some(next) = writer.next() {
            refused += 1;
            writer.begin("a", Instant::now(), Duration::ZERO, async { Ok(()) });
            assert!(writer.next().is_some(), "it rests");
            tokio::time::sleep_until(next.into()).await;
        }
    }
    assert_eq!(refused, 2);
    assert!(writer.failures().is_empty() && writer.next().is_none());
}

/// Whoever begins many writes in a turn may take longer than the first of them has to wait.
#[tokio::test]
async fn a_write_whose_time_has_come_since_it_was_turned_away_is_told_of() {
    let writer = Writer::new(Arc::default());
    for rests in [true, false] {
        let until = Instant::now() + Duration::from_millis(20);
        let slot = if rests { Slot::Pausing { until } } else { Slot::Failed { count: 1, until, error: no() } };
        writer.lock().insert("a", slot);
        writer.begin("a", Instant::now(), Duration::ZERO, async { panic!("it is not its time") });
        tokio::time::sleep_until(until.into()).await;
        assert_eq!(writer.next(), Some(until), "it can be begun at once");
        assert_eq!(writer.next(), None, "and is not any more, where nobody does so");
    }
}

#[tokio::test]
async fn what_was_decided_before_the_last_write_is_not_written() {
    let changed = Arc::new(Notify::new());
    let writer = Writer::new(changed.clone());
    let written = Arc::new(AtomicUsize::new(0));
    let write = |seen: Instant| {
        let written = written.clone();
        writer.begin("p", seen, Duration::ZERO, async move {
            written.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
    };
    let seen = Instant::now();
    write(seen);
    changed.notified().await;
    write(seen);
    assert_eq!(written.load(Ordering::SeqCst), 1);
    write(Instant::now());
    changed.notified().await;
    assert_eq!(written.load(Ordering::SeqCst), 2);
    writer.end().await;
}

#[tokio::test]
async fn what_is_under_way_or_has_failed_a_moment_ago_is_busy() {
    let writer = Writer::new(Arc::default());
    writer.begin("under way", Instant::now(), Duration::ZERO, std::future::pending());
    let (now, minute) = (Instant::now(), Duration::from_secs(60));
    for (name, slot) in [
        ("failed", Slot::Failed { count: 1, until: now + minute, error: no() }),
        ("to be tried again", Slot::Failed { count: 1, until: now - minute, error: no() }),
        ("resting", Slot::Pausing { until: now + minute }),
        ("written", Slot::Written { at: now }),
    ] {
        writer.lock().insert(name, slot);
    }
    assert_eq!(writer.busy(), (1, ["failed", "resting", "under way"].into()));
}

#[tokio::test]
async fn a_failure_of_what_is_not_wanted_any_more_is_forgotten_at_a_time_that_is_told() {
    let writer = Writer::new(Arc::default());
    let ago = |duration: Duration| Instant::now() - duration;
    let fail = |until: Instant| {
        let slot = Slot::Failed { count: LASTING, until, error: no() };
        writer.lock().insert("a", slot);
    };
    // Its time has come, and it is not written again.
    let until = ago(Duration::from_secs(1));
    fail(until);
    assert_eq!(writer.failures(), [("a".to_owned(), "no".to_owned())].into(), "it may be about to be");
    assert_eq!(writer.next(), Some(until + LONGEST_PAUSE));
    fail(ago(LONGEST_PAUSE));
    assert!(writer.failures().is_empty(), "whoever comes back then tells it no more");
    assert_eq!(writer.next(), None);
}

/// Whoever reports it would say in turn that it fails and that it does not.
#[tokio::test]
async fn what_keeps_failing_does_so_while_it_is_tried_again() {
    let writer = Writer::new(Arc::default());
    for (name, count) in [("a", LASTING), ("b", LASTING - 1)] {
        let until = Instant::now() - Duration::from_millis(1);
        writer.lock().insert(name, Slot::Failed { count, until, error: no() });
        writer.begin(name, Instant::now(), Duration::ZERO, std::future::pending());
    }
    assert_eq!(writer.busy().0, 2);
    assert_eq!(writer.failures(), [("a".to_owned(), "no".to_owned())].into());
}

fn no() -> Failure {
    Failure { text: "no".to_owned(), rejected: true }
}

/// A server that is away has not turned anything down.
#[tokio::test]
async fn what_cannot_be_written_for_now_is_not_turned_down() {
    let server = |code: u16| Cause::Server { code, reason: String::new(), message: "told".to_owned() };
    let causes = [
        (server(403), true),
        (server(422), true),
        (server(409), false),
        (server(429), false),
        (server(500), false),
        (server(503), false),
        (Cause::Transport("refused".to_owned()), false),
    ];
    for (cause, rejected) in causes {
        let writer = Writer::new(Arc::default());
        writer
            .begin("a", Instant::now(), Duration::ZERO, async { Err(ApiError { attempt: "write".to_owned(), cause }) });
        writer.end().await;
        if let Some(Slot::Failed { count, .. }) = writer.lock().get_mut("a") {
            *count = LASTING;
        }
        let failures = writer.failures();
        assert_eq!((failures.len(), !writer.rejections().is_empty()), (1, rejected), "{failures:?}");
    }
}
