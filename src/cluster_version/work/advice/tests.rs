use super::*;
use crate::cluster::Objects;
use crate::process::prometheus::Source;
use axum::Router;
use axum::extract::RawQuery;
use axum::routing::get;
use kube::client::Body;
use std::sync::Arc;

#[test]
fn error_response_is_told_from_an_unreachable_service() {
    let mut advice = Advice::new(
        Asker { update_service: None, own: Default::default(), architecture: "amd64".into(), period: PERIOD },
        None,
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

/// Waits until something is known that this holds for.
async fn until(advice: &mut Handle, request: &Request, known: impl Fn(&Retrieval) -> bool) -> Retrieval {
    let answer = async {
        loop {
            advice.changed().await;
            if let Some(retrieval) = advice.retrieval(request).filter(&known) {
                return retrieval;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap()
}

/// What the task needs, without a cluster: no query is sent.
fn parts(update_service: String) -> Parts {
    let (mock, _requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    let objects = Objects::new(kube::Client::new(mock, "default"), "tests", Arc::new(|| true));
    let source = Source { url: String::new(), service: None, ca_bundle: None, token: None };
    let own = crate::release::api::Release { version: "4.1.0".into(), image: "img".into(), ..Default::default() };
    let (_, way) = watch::channel(Some(Ok(Egress::default())));
    Parts {
        asker: Asker { update_service: Some(update_service), own, architecture: "amd64".into(), period: PERIOD },
        recorded: None,
        querier: Querier { source, objects, version: "1".into() },
        monitoring: Arc::new(crate::cluster_version::work::monitoring::tests::monitoring()),
        way,
    }
}

#[tokio::test]
async fn channel_that_changes_during_a_request_gets_no_advice_of_the_other() {
    let (asked, mut asking) = watch::channel(String::new());
    let graph = async move |RawQuery(query): RawQuery| {
        let query = query.unwrap_or_default();
        asked.send_replace(query.clone());
        if query.contains("channel=slow") {
            std::future::pending::<()>().await;
        }
        let other = if query.contains("channel=fast") { "4.1.1" } else { "4.1.2" };
        format!(
            r#"{{"nodes":[{{"version":"4.1.0","payload":"img"}},{{"version":"{other}","payload":"i"}}],"edges":[[0,1]]}}"#
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/graph", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/graph", get(graph))).await });
    let request = |channel: &str| Request {
        channel: channel.into(),
        cluster_id: "01234567-89ab-4cde-8f01-23456789abcd".into(),
        ..Request::default()
    };
    let stop = CancellationToken::new();
    let mut advice = Handle::new(parts(url), stop.clone());
    advice.request(request("slow"), || None);
    asking.wait_for(|query| query.contains("channel=slow")).await.unwrap();
    advice.request(request("fast"), || None);
    let answer = until(&mut advice, &request("fast"), |_| true).await;
    assert_eq!(Vec::from_iter(answer.available.into_iter().map(|release| release.version)), ["4.1.1"]);
    assert_eq!(advice.record().unwrap().channel, "fast");
    // The controller may know of the next change before this task does.
    assert_eq!(advice.retrieval(&request("slow")), None);
    stop.cancel();
}

#[tokio::test]
async fn nothing_is_asked_while_the_way_cannot_be_read_and_that_is_told() {
    let (asked, asking) = watch::channel(false);
    let graph = async move || {
        asked.send_replace(true);
        r#"{"nodes":[{"version":"4.1.0","payload":"img"}],"edges":[]}"#
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/graph", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/graph", get(graph))).await });
    let (way, follow) = watch::channel(None);
    let request = Request {
        channel: "a".into(),
        cluster_id: "01234567-89ab-4cde-8f01-23456789abcd".into(),
        ..Request::default()
    };
    let stop = CancellationToken::new();
    let mut advice = Handle::new(Parts { way: follow, ..parts(url) }, stop.clone());
    advice.request(request.clone(), || None);
    way.send_replace(Some(Err("Proxy cluster cannot be read: forbidden".to_owned())));
    let failure = until(&mut advice, &request, |retrieval| retrieval.outcome.is_err()).await;
    let failure = format!("{:?}", failure.outcome.unwrap_err());
    assert!(
        failure.contains("RemoteFailed") && failure.contains("Proxy cluster cannot be read: forbidden"),
        "{failure}"
    );
    assert!(!*asking.borrow());
    way.send_replace(Some(Ok(Egress::default())));
    until(&mut advice, &request, |retrieval| retrieval.outcome.is_ok()).await;
    assert!(*asking.borrow());
    stop.cancel();
}
