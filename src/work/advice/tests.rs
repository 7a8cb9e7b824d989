use super::*;
use crate::cluster::Objects;
use crate::work::promql::Source;
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

/// What the task needs, without a cluster: no query is sent.
fn parts(update_service: String) -> Parts {
    let (mock, _requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    let objects = Objects::new(kube::Client::new(mock, "default"), "tests", Arc::new(|| true));
    let source = Source { url: String::new(), service: None, ca_bundle: None, token: None };
    let own = crate::api::Release { version: "4.1.0".into(), image: "img".into(), ..Default::default() };
    let (_, way) = watch::channel(Some(Ok(Egress::default())));
    Parts {
        asker: Asker { update_service: Some(update_service), own, architecture: "amd64".into(), period: PERIOD },
        recorded: None,
        querier: Querier { source, objects, version: "1".into() },
        monitoring: Arc::new(crate::work::monitoring::tests::monitoring()),
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
    let (requests, requested) = watch::channel(Some(request("slow")));
    let (told, mut telling) = watch::channel(None);
    let stop = CancellationToken::new();
    let running = tokio::spawn(run(parts(url), requested, told, stop.clone()));
    asking.wait_for(|query| query.contains("channel=slow")).await.unwrap();
    requests.send_replace(Some(request("fast")));
    let retrieved = |told: &Option<Told>| told.as_ref().is_some_and(|told| told.retrieval.is_some());
    let answer =
        tokio::time::timeout(Duration::from_secs(60), telling.wait_for(retrieved)).await.unwrap().unwrap().clone();
    let answer = answer.unwrap();
    let versions = |retrieval: Retrieval| Vec::from_iter(retrieval.available.into_iter().map(|r| r.version));
    assert_eq!(answer.for_request(Some(&request("fast"))).map(versions), Some(vec!["4.1.1".to_owned()]));
    // The controller may know of the next change before this task does.
    assert_eq!((answer.for_request(Some(&request("slow"))), answer.for_request(None)), (None, None));
    assert_eq!(answer.record.unwrap().channel, "fast");
    stop.cancel();
    running.await.unwrap();
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
    let (_requests, requested) = watch::channel(Some(request));
    let (told, mut telling) = watch::channel(None);
    let stop = CancellationToken::new();
    let running = tokio::spawn(run(Parts { way: follow, ..parts(url) }, requested, told, stop.clone()));
    let mut outcome = async |well: bool| {
        let retrieved = |told: &Option<Told>| {
            let retrieval = told.as_ref().and_then(|told| told.retrieval.as_ref());
            retrieval.is_some_and(|retrieval| retrieval.outcome.is_ok() == well)
        };
        let told = tokio::time::timeout(Duration::from_secs(60), telling.wait_for(retrieved)).await.unwrap();
        told.unwrap().clone().unwrap().retrieval.unwrap().outcome
    };
    way.send_replace(Some(Err("Proxy cluster cannot be read: forbidden".to_owned())));
    let failure = format!("{:?}", outcome(false).await.unwrap_err());
    assert!(
        failure.contains("RemoteFailed") && failure.contains("Proxy cluster cannot be read: forbidden"),
        "{failure}"
    );
    assert!(!*asking.borrow());
    way.send_replace(Some(Ok(Egress::default())));
    outcome(true).await.unwrap();
    assert!(*asking.borrow());
    stop.cancel();
    running.await.unwrap();
}
