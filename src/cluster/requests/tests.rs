use super::*;
use std::convert::Infallible;
use tower::{ServiceBuilder, ServiceExt, service_fn};

async fn send(counts: &RequestCounts, method: Method, uri: &str, answer: Result<u16, ()>) {
    let service = service_fn(move |_| async move {
        answer.map(|code| Response::builder().status(code).body(()).unwrap()).map_err(|()| std::fmt::Error)
    });
    let service = ServiceBuilder::new().layer(counts.clone()).service(service);
    let request = Request::builder().method(method).uri(uri).body(()).unwrap();
    let _answer: Result<Result<_, _>, Infallible> = Ok(service.oneshot(request).await);
}

#[tokio::test]
async fn requests_are_counted_by_verb_and_code() {
    let counts = RequestCounts::default();
    for (method, uri, answer) in [
        (Method::GET, "/api/v1/pods", Ok(200)),
        (Method::GET, "/api/v1/pods/watch=true", Ok(200)),
        (Method::GET, "/api/v1/pods?limit=1&watch=true", Ok(200)),
        (Method::POST, "/api/v1/pods", Ok(201)),
        (Method::PUT, "/api/v1/pods/a", Ok(409)),
        (Method::PATCH, "/api/v1/pods/a", Err(())),
        (Method::DELETE, "/api/v1/pods/a", Ok(404)),
        (Method::HEAD, "/", Ok(200)),
    ] {
        send(&counts, method, uri, answer).await;
    }
    let expected = [
        (("create", "201"), 1),
        (("delete", "404"), 1),
        (("get", "200"), 2),
        (("other", "200"), 1),
        (("patch", "error"), 1),
        (("update", "409"), 1),
        (("watch", "200"), 1),
    ];
    let found = counts.current();
    let found: Vec<_> = found.iter().map(|((verb, code), number)| ((*verb, code.as_str()), *number)).collect();
    assert_eq!(found, expected);
}
