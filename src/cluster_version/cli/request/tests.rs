use super::*;
use kube::Client;
use std::sync::{Arc, Mutex};

fn object(revision: &str, generation: i64) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "spec": {"clusterID": ""},
        "metadata": {"name": "version", "resourceVersion": revision, "generation": generation}})
}

/// A server that answers a patch by a conflict unless it has the present revision, which is the next one after each read.
fn server(mut revisions: Vec<(&'static str, i64)>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let state = Arc::new(Mutex::new((revisions.remove(0), revisions)));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (log, state) = (log.clone(), state.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let mut state = state.lock().unwrap();
            let answer = if parts.method == http::Method::PATCH {
                let patch: Value = serde_json::from_slice(&body).unwrap();
                let given =
                    patch.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("none").to_owned();
                log.lock().unwrap().push(format!("patch of {given}"));
                let present = state.0;
                match given == present.0 {
                    true => (200, object("written", present.1 + 1)),
                    false => (
                        409,
                        json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409, "message": "changed"}),
                    ),
                }
            } else {
                log.lock().unwrap().push("read".to_owned());
                let present = state.0;
                if !state.1.is_empty() {
                    state.0 = state.1.remove(0);
                }
                (200, object(present.0, present.1))
            };
            let body = kube::client::Body::from(serde_json::to_vec(&answer.1).unwrap());
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(answer.0).body(body).unwrap())
        }
    });
    (Client::new(service, "default"), seen)
}

async fn written(revisions: Vec<(&'static str, i64)>) -> (Result<(), String>, Vec<String>) {
    let (client, seen) = server(revisions);
    let read = serde_json::from_value(object("1", 5)).unwrap();
    let requested = Requested { api: Api::all(client), server: "https://api".to_owned(), object: read };
    let result =
        requested.write("version", &json!({"spec": {"channel": "stable"}})).await.map_err(|error| error.to_string());
    let seen = seen.lock().unwrap().clone();
    (result, seen)
}

#[tokio::test]
async fn change_is_written_only_to_the_spec_that_it_was_decided_on() {
    assert_eq!(written(vec![("1", 5)]).await, (Ok(()), vec!["patch of 1".to_owned()]));
    let (result, seen) = written(vec![("2", 5)]).await;
    assert_eq!(
        (result, seen.join(", ")),
        (Ok(()), "patch of 1, read, patch of 2".to_owned()),
        "only the status changed"
    );
    let (result, seen) = written(vec![("2", 6)]).await;
    assert_eq!(seen.join(", "), "patch of 1, read", "another request stays");
    assert!(result.unwrap_err().contains("changed by somebody else"));
}

#[tokio::test]
async fn change_is_given_up_while_the_status_never_rests() {
    let moving = ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"];
    let (result, seen) = written(moving.into_iter().map(|revision| (revision, 5)).collect()).await;
    assert!(result.is_err(), "{seen:?}");
    assert_eq!(seen.iter().filter(|line| line.starts_with("patch")).count(), 10);
}
