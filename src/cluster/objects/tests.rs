use super::*;
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::Arc;

/// An API server that answers requests with these codes and bodies, one after the other.
pub(crate) fn answering(answers: Vec<(u16, Value)>) -> Client {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        for (code, body) in answers {
            let Some((_, respond)) = requests.next_request().await else { return };
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn all_pages_of_a_kind_are_read() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        for (expected, next, name) in [("", "one", "a"), ("continue=one", "two", "b"), ("continue=two", "", "c")] {
            let Some((request, respond)) = requests.next_request().await else { return };
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains(expected) && query.contains("limit="), "{query}");
            let list = json!({"metadata": {"continue": next}, "items": [{"metadata": {"name": name}}]});
            respond.send_response(http::Response::new(Body::from(list.to_string().into_bytes())));
        }
    });
    let objects = Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true));
    let all = objects.all(&Kind::config_map()).await.unwrap();
    assert_eq!(all.iter().map(metadata::name).collect::<Vec<_>>(), ["a", "b", "c"]);
}
