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

#[tokio::test]
async fn warnings_of_the_server_are_told_and_a_dry_run_says_that_it_is_one() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        for dry in [false, true] {
            let Some((request, respond)) = requests.next_request().await else { return };
            assert_eq!(request.uri().query().unwrap_or_default().contains("dryRun=All"), dry, "{}", request.uri());
            let warned = http::Response::builder()
                .header("warning", r#"299 - "a \"b\" is deprecated""#)
                .header("warning", r#"199 - "of a proxy""#)
                .header("warning", r#"299 - "and c""#);
            respond.send_response(warned.body(Body::from(b"{}".to_vec())).unwrap());
        }
    });
    let warnings = Warnings::default();
    let objects = Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true));
    let object = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    objects.telling(&warnings).create(&Kind::config_map(), "ns", &object).await.unwrap();
    objects.dry_run().replace(&Kind::config_map(), "ns", "a", &object).await.unwrap();
    assert_eq!(*warnings.lock().unwrap(), ["a \"b\" is deprecated", "and c"]);
}
