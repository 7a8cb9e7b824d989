use super::*;
use axum::body::Body;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The answer to a request.
pub(crate) struct Answer {
    code: u16,
    body: String,
    /// The body does not end.
    open: bool,
}

pub(crate) fn answer(code: u16, body: &Value) -> Answer {
    Answer { code, body: body.to_string(), open: false }
}

/// A watch with these events; it ends after them unless `open`.
pub(crate) fn watch(events: &[Value], open: bool) -> Answer {
    Answer { code: 200, body: events.iter().map(|event| format!("{event}\n")).collect(), open }
}

pub(crate) fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "", "message": "no"})
}

pub(crate) fn refused(code: u16) -> Answer {
    answer(code, &status(code))
}

pub(crate) fn list(names: &[&str]) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| object(name)).collect();
    answer(200, &json!({"metadata": {"resourceVersion": "7"}, "items": items}))
}

pub(crate) fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "5"}})
}

pub(crate) fn event(type_: &str, name: &str) -> Value {
    json!({"type": type_, "object": object(name)})
}

pub(crate) fn end_of_initial_events() -> Value {
    json!({"type": "BOOKMARK", "object": {"kind": "Gate", "apiVersion": "example.com/v1", "metadata":
        {"resourceVersion": "6", "annotations": {INITIAL_EVENTS_END: "true"}}}})
}

/// What was asked for: `initial`, `list`, or `from` a resourceVersion.
pub(crate) type Asked = Arc<Mutex<Vec<String>>>;

/// A server that gives these answers one after the other, and then none.
pub(crate) fn server(answers: Vec<Answer>) -> (Client, Asked) {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<kube::client::Body>, http::Response<Body>>();
    let asked = Asked::default();
    let seen = asked.clone();
    tokio::spawn(async move {
        let mut answers = answers.into_iter();
        let mut unanswered = Vec::new();
        while let Some((request, respond)) = requests.next_request().await {
            let query = request.uri().query().unwrap_or_default().to_owned();
            assert!(query.contains("fieldSelector=metadata.name%3Dcluster"), "{query}");
            let from =
                query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).filter(|from| !from.is_empty());
            let what = match (query.contains("sendInitialEvents=true"), query.contains("watch=true"), from) {
                (true, true, None) => "initial".to_owned(),
                (false, true, Some(version)) => format!("from {version}"),
                (false, false, None) => "list".to_owned(),
                _ => query,
            };
            seen.lock().unwrap().push(what);
            let Some(answer) = answers.next() else {
                unanswered.push(respond);
                continue;
            };
            let begin = stream::iter([Ok::<_, std::io::Error>(answer.body)]);
            let body = match answer.open {
                true => Body::from_stream(begin.chain(stream::pending())),
                false => Body::from_stream(begin),
            };
            respond.send_response(http::Response::builder().status(answer.code).body(body).unwrap());
        }
    });
    (Client::new(service, "default"), asked)
}

pub(crate) fn asked(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap().clone()
}

pub(crate) fn kind() -> Kind {
    Kind::known("example.com", "v1", "Gate", "gates", false)
}

/// So many events, as text.
async fn told(client: Client, number: usize) -> Vec<String> {
    let name = |object: Value| object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let told = events::<Value>(client, Selection::new(kind(), "", Selector::Name("cluster".into()))).take(number).map(
        |event| match event {
            Ok(Event::Init) => "init".to_owned(),
            Ok(Event::InitApply(object)) => format!("exists {}", name(object)),
            Ok(Event::InitDone) => "done".to_owned(),
            Ok(Event::Apply(object)) => format!("applied {}", name(object)),
            Ok(Event::Delete(object)) => format!("deleted {}", name(object)),
            Err(error) => error.to_string(),
        },
    );
    tokio::time::timeout(Duration::from_secs(120), told.collect()).await.expect("events come")
}

#[tokio::test(start_paused = true)]
async fn one_request_tells_what_exists_and_what_changes() {
    let events = [
        event("ADDED", "a"),
        end_of_initial_events(),
        event("MODIFIED", "a"),
        event("DELETED", "a"),
        event("ADDED", "a"),
    ];
    let (client, requests) = server(vec![watch(&events, true)]);
    assert_eq!(told(client, 6).await, ["init", "exists a", "done", "applied a", "deleted a", "applied a"]);
    assert_eq!(asked(&requests), ["initial"]);
}

#[tokio::test(start_paused = true)]
async fn server_without_initial_events_is_asked_for_a_list() {
    let answers = vec![
        refused(422),
        list(&["a"]),
        watch(&[event("MODIFIED", "a")], false),
        // Only once is it asked for initial events.
        list(&[]),
        watch(&[event("ADDED", "a")], true),
    ];
    let (client, requests) = server(answers);
    assert_eq!(told(client, 7).await, ["init", "exists a", "done", "applied a", "init", "done", "applied a"]);
    assert_eq!(asked(&requests), ["initial", "list", "from 7", "list", "from 7"]);
}

#[tokio::test(start_paused = true)]
async fn watch_that_has_ended_begins_anew() {
    let gone = json!({"type": "ERROR", "object": status(410)});
    let answers = vec![
        watch(&[event("ADDED", "a"), end_of_initial_events()], false),
        watch(&[event("ADDED", "a"), end_of_initial_events(), gone], true),
        watch(&[end_of_initial_events()], true),
    ];
    let (client, requests) = server(answers);
    assert_eq!(told(client, 8).await, ["init", "exists a", "done", "init", "exists a", "done", "init", "done"]);
    assert_eq!(asked(&requests), ["initial", "initial", "initial"]);
}

/// Whatever is wrong with one way of reading, the other one is tried.
#[tokio::test(start_paused = true)]
async fn failure_is_told_and_the_other_way_tried() {
    let why = |cause: &str| format!("cannot watch gates with the name cluster: {cause}");
    let broken = json!({"type": "ERROR", "object": status(500)});
    for (first, begun, cause) in [
        (refused(500), 0, "no"),
        (refused(403), 0, "no"),
        (watch(&[event("ADDED", "a"), broken], true), 2, "no"),
        (watch(&[event("ADDED", "a")], false), 2, "no answer from the API server: the initial events broke off"),
        (watch(&[event("ADDED", "a")], true), 2, "the API server did not answer in time"),
    ] {
        let (client, requests) = server(vec![first, refused(500), watch(&[end_of_initial_events()], true)]);
        let told = told(client, begun + 4).await;
        assert_eq!(told[begun..], [&why(cause), &why("no"), "init", "done"]);
        assert_eq!(asked(&requests), ["initial", "list", "initial"], "{cause}");
    }
}

#[tokio::test(start_paused = true)]
async fn kind_that_may_never_be_served_is_asked_for_rarely() {
    let answers = vec![refused(404), refused(404), watch(&[end_of_initial_events()], true)];
    let (client, requests) = server(answers);
    let begun = Instant::now();
    let selection = Selection::new(kind(), "", Selector::Name("cluster".into())).optional();
    let told: Vec<_> = events::<Value>(client, selection).take(4).collect().await;
    assert!(told[0].as_ref().is_err_and(ApiError::is_not_found) && told[3].is_ok(), "{told:?}");
    assert_eq!(asked(&requests), ["initial", "initial", "initial"]);
    assert!(begun.elapsed() >= NOT_SERVED * 2, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn kind_that_was_served_is_asked_for_once_more_soon() {
    let fine = || watch(&[end_of_initial_events()], false);
    let (client, requests) = server(vec![fine(), refused(404), fine(), refused(404), refused(404), fine()]);
    let selection = Selection::new(kind(), "", Selector::Name("cluster".into())).optional();
    let (mut told, begun) = (events::<Value>(client, selection).boxed(), Instant::now());
    // Twice the beginning and the end of what exists, with an error in between, then the next error.
    for _ in 0..6 {
        let _ = told.next().await;
    }
    assert!(begun.elapsed() < NOT_SERVED / 2, "{:?}", begun.elapsed());
    for _ in 0..2 {
        let _ = told.next().await;
    }
    assert!(begun.elapsed() >= NOT_SERVED, "{:?}", begun.elapsed());
    assert_eq!(asked(&requests), ["initial"; 6]);
}
