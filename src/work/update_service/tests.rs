use super::*;

#[test]
fn error_response_is_told_from_an_unreachable_service() {
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
        assert_eq!(failed(&error).reason, reason, "{error}");
    }
}

#[test]
fn transient_failure_keeps_the_cached_updates_for_a_day() {
    let available = vec![Release { version: "1.0.1".into(), ..Release::default() }];
    let good = || Ok(Updates { available: available.clone(), ..Updates::default() });
    let bad = |reason| Err(RetrievalError::new(reason, ""));
    let (start, request) = (Instant::now(), Request::default);
    let cached = || {
        let mut cached = CachedResponse::new(start);
        cached.store(request(), good(), start);
        cached
    };
    let kept = cached().store(request(), bad(Reason::RemoteFailed), start);
    assert_eq!(kept.available, available);
    assert!(kept.outcome.is_err());
    assert!(cached().store(request(), bad(Reason::VersionNotFound), start).available.is_empty());
    let other = Request { channel: "other".into(), ..request() };
    assert!(cached().store(other, bad(Reason::RemoteFailed), start).available.is_empty());
    // For a day: meanwhile a risk may have been found.
    let (just, over) = (start + MAX_CACHE_AGE - Duration::from_secs(1), start + MAX_CACHE_AGE);
    assert_eq!(cached().store(request(), bad(Reason::RemoteFailed), just).available, available);
    assert!(cached().store(request(), bad(Reason::RemoteFailed), over).available.is_empty());
    let mut confirmed = cached();
    confirmed.store(request(), good(), just);
    assert_eq!(confirmed.store(request(), bad(Reason::RemoteFailed), over).available, available);
    // A process without a response yet withdraws nothing that an earlier process wrote.
    let mut new = CachedResponse::new(start);
    let unanswered = new.store(request(), bad(Reason::RemoteFailed), start);
    assert!(!unanswered.answered && unanswered.outcome.is_err());
    assert!(!new.store(request(), bad(Reason::ResponseFailed), start).answered);
    assert!(new.store(request(), bad(Reason::VersionNotFound), start).answered);
}
