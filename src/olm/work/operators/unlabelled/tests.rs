use super::*;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// What the API server was asked: method and path of each request.
type Asked = Arc<Mutex<Vec<String>>>;

/// An API server that answers with these codes and bodies, one after the other, and tells of each request before it answers it.
fn server(answers: Vec<(u16, Value)>, on_request: impl Fn(&str) + Send + 'static) -> (Client, Asked) {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let asked = Asked::default();
    let all = asked.clone();
    tokio::spawn(async move {
        for (code, body) in answers {
            let Some((request, respond)) = requests.next_request().await else { return };
            let line = format!("{} {}", request.method(), request.uri().path());
            on_request(&line);
            if request.method() == http::Method::GET {
                let accepted = request.headers()[http::header::ACCEPT].to_str().unwrap();
                assert!(accepted.contains("PartialObjectMetadataList"), "{accepted}");
                let query = request.uri().query().unwrap();
                assert!(
                    query.contains("limit=500") && query.contains("labelSelector=olm.owner%2C%21olm.managed"),
                    "{query}"
                );
            }
            all.lock().unwrap().push(line);
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    (Client::new(service, "default"), asked)
}

fn service(name: &str) -> Value {
    let labels = json!({"olm.owner": "a.v1", "olm.owner.namespace": "shop", "olm.owner.kind": "ClusterServiceVersion"});
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels}})
}

fn list(items: &[Value], next: &str) -> Value {
    json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"continue": next},
        "items": items})
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no",
        "reason": reason, "code": code});
    (code, status)
}

/// Of Services alone.
async fn run(client: Client, leading: watch::Receiver<bool>) {
    let may_write = leading.clone();
    let objects = Objects::new(client, "tests", Arc::new(move || *may_write.borrow()));
    let labels = Labels { written: objects.answered_by_metadata(), objects, leading };
    labels.run(vec![component_kind(component::Kind::Service)]).await;
}

fn lines(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap().clone()
}

const LIST: &str = "GET /api/v1/services";
const A: &str = "PATCH /api/v1/namespaces/shop/services/a";
const B: &str = "PATCH /api/v1/namespaces/shop/services/b";

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_and_what_lacks_the_label_gets_it_once_and_slowly() {
    let other = json!({"metadata": {"name": "other", "namespace": "shop", "uid": "o"}});
    let answers = vec![
        (200, list(&[service("a"), other], "more")),
        (200, list(&[service("b")], "")),
        (200, json!({})),
        (200, json!({})),
    ];
    let (client, asked) = server(answers, |_| {});
    let (_leads, leading) = watch::channel(true);
    let begun = tokio::time::Instant::now();
    run(client, leading).await;
    assert_eq!(lines(&asked), [LIST, LIST, A, B]);
    assert!(begun.elapsed() >= 2 * PAUSE, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn where_there_is_nothing_to_do_nothing_is_written() {
    let mut empty = list(&[], "");
    // As API servers say that there are none.
    empty["items"] = Value::Null;
    let (client, asked) = server(vec![(200, empty)], |_| {});
    let (_leads, leading) = watch::channel(true);
    run(client, leading).await;
    assert_eq!(lines(&asked), [LIST]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_and_keeps_no_other_one_from_its_label() {
    let both = || (200, list(&[service("a"), service("b")], ""));
    let answers = vec![
        failure(500, "InternalError"),
        both(),
        failure(409, "Conflict"),
        (200, json!({})),
        (200, list(&[service("a")], "")),
        // It has been deleted.
        failure(404, "NotFound"),
    ];
    let (client, asked) = server(answers, |_| {});
    let (_leads, leading) = watch::channel(true);
    run(client, leading).await;
    assert_eq!(lines(&asked), [LIST, LIST, A, B, LIST, A]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_tried_again() {
    let answers = vec![(200, list(&[service("a"), service("b")], "")), failure(422, "Invalid"), (200, json!({}))];
    let (client, asked) = server(answers, |_| {});
    let (_leads, leading) = watch::channel(true);
    run(client, leading).await;
    assert_eq!(lines(&asked), [LIST, A, B]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_another_process_has_the_lease() {
    let (leads, leading) = watch::channel(false);
    let leads = Arc::new(leads);
    let lost = leads.clone();
    let answers = vec![
        (200, list(&[service("a"), service("b")], "")),
        (200, json!({})),
        (200, list(&[service("b")], "")),
        (200, json!({})),
    ];
    // The lease is lost while the first one is written.
    let on_request = move |line: &str| {
        if line == A {
            lost.send_replace(false);
        }
    };
    let (client, asked) = server(answers, on_request);
    let running = tokio::spawn(run(client, leading));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lines(&asked), [""; 0]);
    leads.send_replace(true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lines(&asked), [LIST, A]);
    leads.send_replace(true);
    running.await.unwrap();
    assert_eq!(lines(&asked), [LIST, A, LIST, B]);
}
