use super::*;

#[test]
fn error_response_is_told_from_an_unreachable_service() {
    let mut advice = Advice::new(
        Asker { update_service: None, own: Default::default(), architecture: "amd64".into(), period: PERIOD },
        None,
        Timestamp::UNIX_EPOCH,
    );
    advice.on_request(Request::default(), Timestamp::UNIX_EPOCH);
    let question = advice.ask(Timestamp::UNIX_EPOCH).unwrap();
    let url = || "http://u/graph".to_owned();
    let cause = || "reset".to_owned();
    let status = reqwest::StatusCode::BAD_GATEWAY;
    let patience = Some(Duration::from_secs(7));
    let table = [
        (HttpError::Status { url: url(), status, body: String::new(), retry_after: patience }, Reason::ResponseFailed),
        (HttpError::TooLarge { url: url(), max: 1 }, Reason::ResponseFailed),
        (HttpError::Body { url: url(), cause: cause() }, Reason::ResponseFailed),
        (HttpError::Transport { url: url(), cause: cause() }, Reason::RemoteFailed),
        (HttpError::Client(cause()), Reason::RemoteFailed),
        (HttpError::Proxy(cause()), Reason::RemoteFailed),
        (HttpError::TrustBundle(cause()), Reason::InvalidTrustBundle),
    ];
    for (error, reason) in table {
        let failure = failed(&question, &error, &Egress::default());
        assert_eq!(failure.error.reason, reason, "{error}");
        assert!(failure.error.message.starts_with(&error.to_string()), "{}", failure.error);
        let direct = failure.error.message.contains("directly, without a proxy");
        assert_eq!(direct, matches!(error, HttpError::Transport { .. }), "{}", failure.error);
        assert_eq!(failure.retry_after, if matches!(error, HttpError::Status { .. }) { patience } else { None });
    }
}
