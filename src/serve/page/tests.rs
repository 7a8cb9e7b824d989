use super::*;
use axum::http;
use futures::StreamExt;
use tower::ServiceExt;

fn shared() -> (Shared, watch::Sender<Arc<str>>) {
    let (sender, states) = watch::channel::<Arc<str>>("".into());
    let shared = Shared {
        token: "t0ken".into(),
        hosts: ["127.0.0.1:8080".to_owned(), "localhost:8080".to_owned()].into(),
        states,
        viewers: Arc::new(Semaphore::new(VIEWERS)),
        count: watch::Sender::new(0),
        stop: CancellationToken::new(),
    };
    (shared, sender)
}

async fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    router(shared().0).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn only_the_page_itself_is_answered() {
    let host = ("host", "127.0.0.1:8080");
    let own = ("origin", "http://127.0.0.1:8080");
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, &str, Headers<'_>, u16); 14] = [
        ("GET", "/?token=t0ken", &[host], 200),
        ("HEAD", "/?token=t0ken", &[host, ("sec-fetch-site", "none")], 200),
        ("GET", "/?token=t0ken", &[("host", "localhost:8080")], 200),
        ("GET", "/?token=t0ken", &[host, own, ("sec-fetch-site", "same-origin")], 200),
        ("GET", "/", &[host], 403),
        ("GET", "/?token=wrong", &[host], 403),
        ("GET", "/events?token=", &[host], 403),
        ("GET", "/?token=t0ken", &[("host", "evil.example:8080")], 421),
        ("GET", "/?token=t0ken", &[("host", "127.0.0.1:9090")], 421),
        ("GET", "/?token=t0ken", &[], 421),
        ("GET", "/events?token=t0ken", &[host, ("origin", "http://evil.example")], 403),
        ("GET", "/events?token=t0ken", &[host, ("sec-fetch-site", "cross-site")], 403),
        ("POST", "/?token=t0ken", &[host], 405),
        ("GET", "/other?token=t0ken", &[host], 404),
    ];
    for (method, path, headers, expected) in cases {
        let response = ask(method, path, headers).await;
        assert_eq!(response.status().as_u16(), expected, "{method} {path} {headers:?}");
        let of = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(of("x-frame-options").as_deref(), Some("DENY"));
        assert_eq!(of("access-control-allow-origin"), None);
        assert!(of("content-security-policy").unwrap().starts_with("default-src 'none'"));
    }
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS"] {
        assert_eq!(ask(method, "/events?token=t0ken", &[host]).await.status().as_u16(), 405, "{method}");
    }
}

#[tokio::test]
async fn page_is_whole_small_and_new_each_time() {
    let text = async || {
        let response = ask("GET", "/?token=t0ken", &[("host", "127.0.0.1:8080")]).await;
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (policy, String::from_utf8(bytes.to_vec()).unwrap())
    };
    let (policy, page) = text().await;
    let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert!(
        page.contains(&format!("<script nonce=\"{nonce}\">")) && page.contains(&format!("<style nonce=\"{nonce}\">"))
    );
    assert!(
        page.contains("content=\"t0ken\"")
            && !page.contains("NONCE")
            && !page.contains("/*js*/")
            && !page.contains("/*css*/")
    );
    assert!(page.len() < 100_000, "{}", page.len());
    // Nothing is loaded from elsewhere.
    for foreign in ["src=", "@import", "url(http", "href=\"http", "innerHTML", "insertAdjacentHTML", "eval("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_ne!(policy, text().await.0);
}

#[tokio::test]
async fn slow_browser_gets_the_last_state() {
    let (shared, sender) = shared();
    let request = http::Request::get("/events?token=t0ken").header("host", "127.0.0.1:8080");
    let response = router(shared.clone()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    for state in ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"] {
        sender.send_replace(state.into());
    }
    let first = body.next().await.unwrap().unwrap();
    assert_eq!(std::str::from_utf8(&first).unwrap(), "event: state\ndata: {\"n\":3}\n\n");
    sender.send_replace("{\"n\":4}".into());
    assert!(body.next().await.unwrap().unwrap().ends_with(b"{\"n\":4}\n\n"));
    assert_eq!((shared.viewers.available_permits(), *shared.count.borrow()), (VIEWERS - 1, 1));
    drop(body);
    assert_eq!((shared.viewers.available_permits(), *shared.count.borrow()), (VIEWERS, 0));
}

#[tokio::test]
async fn viewers_are_limited_and_end_with_the_server() {
    let (shared, sender) = shared();
    sender.send_replace("{}".into());
    let events = || {
        let request = http::Request::get("/events?token=t0ken").header("host", "localhost:8080");
        router(shared.clone()).oneshot(request.body(Body::empty()).unwrap())
    };
    let mut viewers = Vec::new();
    for _ in 0..VIEWERS {
        viewers.push(events().await.unwrap());
    }
    assert_eq!(events().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    let mut body = viewers.remove(0).into_body().into_data_stream();
    assert!(body.next().await.is_some());
    shared.stop.cancel();
    assert!(body.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn page_is_told_that_the_server_is_there_while_nothing_happens() {
    let (shared, sender) = shared();
    sender.send_replace("{}".into());
    let request = http::Request::get("/events?token=t0ken").header("host", "localhost:8080");
    let response = router(shared).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    assert!(body.next().await.is_some());
    let alive = body.next().await.unwrap().unwrap();
    // An event without a line of data is none.
    assert_eq!(std::str::from_utf8(&alive).unwrap(), "event: alive\ndata: yes\n\n");
}
