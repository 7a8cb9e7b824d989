use super::*;
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An API server that lets `alice` read packages and nobody else, and fails for `away`. Counts what it is asked.
pub(crate) fn api_server(asked: Arc<AtomicUsize>) -> kube::Client {
    let (mock, mut requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            asked.fetch_add(1, Ordering::SeqCst);
            assert_eq!(request.uri().path(), "/apis/authorization.k8s.io/v1/subjectaccessreviews");
            let body: Value = serde_json::from_slice(&request.into_body().collect_bytes().await.unwrap()).unwrap();
            let spec = &body["spec"];
            let what = &spec["resourceAttributes"];
            assert_eq!(what["group"], "packages.operators.coreos.com");
            let known = ["packagemanifests", "subscriptionreviews", "clusterserviceversions"];
            assert!(known.iter().any(|known| what["resource"] == *known));
            let (code, answer) = match spec["user"].as_str().unwrap() {
                "away" => (500, json!({"kind": "Status", "code": 500, "message": "secret of the server"})),
                user => (
                    201,
                    json!({"spec": {}, "status": {"allowed": user == "alice", "reason": format!("{user}: {}", what["verb"])}}),
                ),
            };
            let answer = Body::from(serde_json::to_vec(&answer).unwrap());
            respond.send_response(::http::Response::builder().status(code).body(answer).unwrap());
        }
    });
    kube::Client::new(mock, "default")
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), groups: vec!["system:authenticated".to_owned()], ..User::default() }
}

const LIST: Attributes<'static> =
    Attributes { verb: "list", resource: "packagemanifests", subresource: "", namespace: "team", name: "" };

#[tokio::test(start_paused = true)]
async fn answer_counts_for_a_short_time() {
    let asked = Arc::new(AtomicUsize::new(0));
    let access = Access::new(api_server(asked.clone()));
    for _ in 0..3 {
        access.check(&user("alice"), &LIST).await.unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // Another question, another user, another group.
    access.check(&user("alice"), &Attributes { verb: "get", name: "a", ..LIST }).await.unwrap();
    access.check(&user("alice"), &Attributes { subresource: "icon", verb: "get", name: "a", ..LIST }).await.unwrap();
    access.check(&user("alice"), &Attributes { namespace: "", ..LIST }).await.unwrap();
    access.check(&User { groups: Vec::new(), ..user("alice") }, &LIST).await.unwrap();
    access.check(&user("mallory"), &LIST).await.unwrap_err();
    access.check(&user("mallory"), &LIST).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 6);
    tokio::time::advance(KEPT_FOR).await;
    access.check(&user("alice"), &LIST).await.unwrap();
    access.check(&user("mallory"), &LIST).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn refusal_says_who_may_not_do_what() {
    let access = Access::new(api_server(Arc::default()));
    let status = access.check(&user("mallory"), &LIST).await.unwrap_err();
    assert_eq!((status.code, status.reason), (403, "Forbidden"));
    for part in ["\"mallory\" cannot list", "in the namespace \"team\"", "mallory: \"list\""] {
        assert!(status.message.contains(part), "{part}: {}", status.message);
    }
}

#[tokio::test]
async fn question_that_is_not_answered_is_asked_again_and_tells_nothing() {
    let asked = Arc::new(AtomicUsize::new(0));
    let access = Access::new(api_server(asked.clone()));
    for count in 1..3 {
        let status = access.check(&user("away"), &LIST).await.unwrap_err();
        assert_eq!((status.code, asked.load(Ordering::SeqCst)), (503, count));
        assert!(!status.message.contains("secret"), "{}", status.message);
    }
}

#[tokio::test]
async fn what_is_kept_is_bounded() {
    let access = Access::new(api_server(Arc::default()));
    for number in 0..KEPT + 10 {
        access.keep(key(&user(&number.to_string()), &LIST), Review::default());
    }
    assert!(access.known.lock().unwrap().len() <= KEPT);
}
