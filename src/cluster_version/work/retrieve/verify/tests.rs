use super::*;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::sync::Arc;

/// An API server with these pages of ConfigMaps; it counts how many were read.
fn serving(pages: Vec<Value>) -> (Objects, Arc<std::sync::Mutex<Vec<String>>>) {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let read = asked.clone();
    tokio::spawn(async move {
        for (number, items) in pages.iter().enumerate() {
            let Some((request, respond)) = requests.next_request().await else { return };
            read.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
            let next = if number + 1 < pages.len() { format!("page-{}", number + 1) } else { String::new() };
            let list = match items.is_array() {
                true => json!({"metadata": {"continue": next, "resourceVersion": "70"}, "items": items}),
                false => {
                    json!({"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "old"})
                }
            };
            let code = if items.is_array() { 200 } else { 410 };
            let body = Body::from(list.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    (Objects::reader(Client::new(service, "default")), asked)
}

fn digest() -> Digest {
    Digest::parse("sha256:ab").unwrap()
}

fn map(name: &str, keys: impl IntoIterator<Item = (String, &'static str)>) -> Value {
    let data: serde_json::Map<String, Value> = keys.into_iter().map(|(key, value)| (key, json!(value))).collect();
    json!({"metadata": {"name": name}, "binaryData": data})
}

#[tokio::test]
async fn config_maps_are_read_page_by_page_and_only_for_the_digest() {
    let key = |number: usize| format!("sha256-ab-{number}");
    let first = map("a", [(key(1), "b25l"), ("sha256-cd-1".to_owned(), "b25l"), (key(2), "no base64!")]);
    let pages = vec![json!([first]), json!([]), json!([map("b", [(key(1), "dHdv")]), {"metadata": {"name": "c"}}])];
    let as_of = OnceLock::new();
    let (objects, asked) = serving(pages);
    let found: Vec<Found> = in_config_maps(&objects, &digest(), &as_of).collect().await;
    let candidate = |source: &str, text: &str| Found::Candidate {
        source: format!("ConfigMap openshift-config-managed/{source}"),
        signature: text.as_bytes().to_vec(),
    };
    let [one, Found::Failure { source, .. }, two] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one, two), (&candidate("a key sha256-ab-1", "one"), &candidate("b key sha256-ab-1", "two")));
    assert!(source.contains("a key sha256-ab-2"), "{source}");
    let asked = asked.lock().unwrap();
    assert_eq!((asked.len(), as_of.get()), (3, Some(&70)));
    assert!(asked.iter().all(|query| query.contains("limit=20")) && asked[2].contains("continue=page-2"), "{asked:?}");
}

#[tokio::test]
async fn signatures_of_one_digest_are_limited_and_no_more_pages_are_read() {
    let page = |number: usize| {
        let keys = (0..60).map(move |key| (format!("sha256-ab-{key}"), "b25l"));
        json!([map(&format!("m{number}"), keys)])
    };
    let as_of = OnceLock::new();
    let (objects, asked) = serving((0..500).map(page).collect());
    let found: Vec<Found> = in_config_maps(&objects, &digest(), &as_of).collect().await;
    let candidates = found.iter().filter(|found| matches!(found, Found::Candidate { .. })).count();
    assert_eq!((candidates, found.len()), (MAX_CANDIDATES, MAX_CANDIDATES + 1));
    assert!(matches!(found.last(), Some(Found::Failure { cause, .. }) if cause.contains("more than 100 signatures")));
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn signatures_that_could_not_be_read_count_as_not_known() {
    let as_of = OnceLock::new();
    let (objects, _) = serving(vec![json!([map("a", [])]), json!("expired"), json!([])]);
    let found: Vec<Found> = in_config_maps(&objects, &digest(), &as_of).collect().await;
    assert!(matches!(found.as_slice(), [Found::Failure { .. }]), "{found:?}");
    assert_eq!(as_of.get(), None);
}

#[tokio::test]
async fn release_may_be_signed_where_nobody_could_look() {
    let at = Timestamp::UNIX_EPOCH;
    let ended = async |found: Found| {
        let verification = Verifier::new(Config::default()).begin(&digest());
        take(verification, found, at).await.unwrap().finish(at).unwrap_err()
    };
    let source = || "https://store".to_owned();
    let unread = ended(Found::Failure { source: source(), cause: "connection refused".to_owned() }).await;
    assert!(unread.is_unknown() && unread.to_string().contains("connection refused"), "{unread}");
    assert!(!ended(Found::Nothing { source: source() }).await.is_unknown());
    assert!(!ended(Found::Candidate { source: source(), signature: b"junk".to_vec() }).await.is_unknown());
    assert!(!VerifyError::NotConfigured.is_unknown());
}

#[test]
fn clock_is_never_behind_the_running_release() {
    let at = |second| Timestamp::from_second(second).unwrap();
    assert_eq!(not_before(at(5), Some(at(9))), at(9));
    assert_eq!(not_before(at(9), Some(at(5))), at(9));
    assert_eq!(not_before(at(5), None), at(5));
}
