use super::*;
use crate::cluster::Objects;
use crate::process::prometheus::Source;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use std::sync::atomic::{AtomicU8, Ordering};

const TRUE: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}"#;
const FALSE: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}"#;

/// What the question about the past is answered with.
const FAILS: u8 = 0;
const HELD: u8 = 1;
const DID_NOT_HOLD: u8 = 2;

/// Of a query that is true now.
async fn asking(past: Arc<AtomicU8>) -> Asking {
    let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let answer = move |RawQuery(query): RawQuery| async move {
        let of_the_past = query.unwrap_or_default().contains("min_over_time");
        match past.load(Ordering::SeqCst) {
            _ if !of_the_past => TRUE.into_response(),
            HELD => TRUE.into_response(),
            DID_NOT_HOLD => FALSE.into_response(),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "too much").into_response(),
        }
    };
    let router = axum::Router::new().route("/api/v1/query", axum::routing::get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let source = Source { url, service: None, ca_bundle: None, token: None };
    let objects = Objects::reader(client);
    let querier = Querier { source, objects, version: "1".to_owned() };
    Asking { querier, query: "up".to_owned(), answer: Arc::default(), changed: Arc::default() }
}

#[tokio::test]
async fn a_question_about_the_past_that_fails_is_asked_again_and_decides_then() {
    let an_hour_ago = Timestamp::from_second(Timestamp::now().as_second() - 3600).unwrap();
    for (later, kept) in [(HELD, true), (DID_NOT_HOLD, false)] {
        let past = Arc::new(AtomicU8::new(FAILS));
        let asking = asking(past.clone()).await;
        let mut recorded = Some(Answer::True { since: an_hour_ago });
        let first = asking.turn(Answer::Unknown, &mut recorded).await;
        let Answer::True { since } = first else { panic!("{first:?}") };
        assert!(since > an_hour_ago, "nobody has confirmed it");
        past.store(later, Ordering::SeqCst);
        let second = asking.turn(first.clone(), &mut recorded).await;
        let expected = if kept { Answer::True { since: an_hour_ago } } else { first };
        assert_eq!((second, recorded), (expected, None), "{later}");
    }
}

#[tokio::test]
async fn what_is_recorded_counts_when_it_is_confirmed_at_once() {
    let asking = asking(Arc::new(AtomicU8::new(HELD))).await;
    let since = Timestamp::from_second(Timestamp::now().as_second() - 60).unwrap();
    let answer = asking.turn(Answer::Unknown, &mut Some(Answer::True { since })).await;
    assert_eq!(answer, Answer::True { since });
    let answer = asking.turn(Answer::Unknown, &mut Some(Answer::False { since })).await;
    assert!(matches!(answer, Answer::True { since: now } if now > since), "{answer:?}");
}
