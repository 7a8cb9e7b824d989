use super::*;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::client::Body;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

const GOOD: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}"#;

/// Answers by what the query says; `token` has the answer 1 if the token is that.
async fn answer(axum::extract::RawQuery(query): axum::extract::RawQuery, headers: HeaderMap) -> Response {
    let query = query.unwrap_or_default();
    let token = headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    match query.trim_start_matches("query=") {
        "good" => GOOD.into_response(),
        "token" if token == "Bearer second" => GOOD.into_response(),
        "token" => (StatusCode::UNAUTHORIZED, "Unauthorized").into_response(),
        "bad" => (StatusCode::BAD_REQUEST, r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#)
            .into_response(),
        "verbose" => {
            format!(r#"{{"status":"error","errorType":"x","error":"{}"}}"#, "y".repeat(100_000)).into_response()
        }
        "huge" => vec![b' '; 2 << 20].into_response(),
        "loop" => axum::response::Redirect::temporary("/api/v1/query?query=loop").into_response(),
        other => (StatusCode::NOT_FOUND, other.to_owned()).into_response(),
    }
}

fn router() -> Router {
    Router::new().route("/api/v1/query", get(answer))
}

async fn serve() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router()).await });
    format!("http://{address}")
}

/// With the API server's answer to the look-up of the Service.
fn querier(source: Source, service: Option<serde_json::Value>) -> Querier {
    let (mock, mut requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            assert_eq!(request.uri().path(), "/api/v1/namespaces/monitoring/services/thanos");
            let gone =
                json!({"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound", "message": "no"});
            let (code, body) = service.clone().map_or((404, gone), |service| (200, service));
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(::http::Response::builder().status(code).body(body).unwrap());
        }
    });
    let objects = Objects::new(kube::Client::new(mock, "default"), "tests", Arc::new(|| true));
    Querier { source, objects, version: "1".to_owned() }
}

fn source(url: String) -> Source {
    Source { url, service: None, ca_bundle: None, token: None }
}

#[tokio::test]
async fn failures_say_whether_the_source_or_the_query_is_to_blame() {
    let querier = querier(source(serve().await), None);
    assert_eq!(querier.query("good").await, Ok(true));
    let failed: HashMap<&str, QueryError> = HashMap::from_iter(
        futures::future::join_all(
            ["bad", "huge", "loop", "none", "verbose"].map(async |q| (q, querier.query(q).await.unwrap_err())),
        )
        .await,
    );
    let text = |query: &str| match &failed[query] {
        QueryError::Answer(text) => format!("answer: {text}"),
        QueryError::Source(text) => format!("source: {text}"),
    };
    assert_eq!(text("bad"), "answer: the server reports bad_data: parse error");
    assert_eq!(text("huge"), "answer: the answer is larger than 1048576 bytes");
    assert!(text("verbose").starts_with("answer: the server reports x: y") && text("verbose").len() < 600);
    assert!(text("loop").starts_with("source: ") && text("loop").contains("more than 3 redirects"), "{}", text("loop"));
    assert!(text("none").starts_with("source: ") && text("none").contains("404"), "{}", text("none"));
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let away = super::Querier { source: source(format!("http://{free}")), ..querier };
    assert!(matches!(away.query("good").await, Err(QueryError::Source(text)) if text.contains("cannot be reached")));
}

#[tokio::test]
async fn token_is_read_again_for_each_query() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = Source { token: Some(file.path().to_owned()), ..source(serve().await) };
    let querier = querier(source, None);
    std::fs::write(file.path(), "first\n").unwrap();
    assert!(matches!(querier.query("token").await, Err(QueryError::Source(text)) if text.contains("401")));
    std::fs::write(file.path(), "second\n").unwrap();
    assert_eq!(querier.query("token").await, Ok(true));
    std::fs::remove_file(file.path()).unwrap();
    assert!(
        matches!(querier.query("token").await, Err(QueryError::Source(text)) if text.contains("--metrics-token-file"))
    );
}

/// A server whose certificate is for this name only, and the file with its CA.
async fn serve_tls(name: &str) -> (u16, tempfile::NamedTempFile) {
    let (address, bundle) = crate::net::http::tests::serve_tls(name, router()).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bundle.pem).unwrap();
    (address.port(), file)
}

#[tokio::test]
async fn address_of_the_service_is_dialled_under_the_name_of_the_url() {
    let (port, ca) = serve_tls("thanos.invalid").await;
    let at = |host: &str, service| {
        let source = Source {
            url: format!("https://{host}:{port}"),
            service: Some(("monitoring".into(), "thanos".into())),
            ca_bundle: Some(ca.path().to_owned()),
            token: None,
        };
        querier(source, service)
    };
    let service = |address: &str| Some(json!({"metadata": {"name": "thanos"}, "spec": {"clusterIP": address}}));
    assert_eq!(at("thanos.invalid", service("127.0.0.1")).query("good").await, Ok(true));
    let table = [
        ("other.invalid", service("127.0.0.1"), "certificate"),
        ("thanos.invalid", service("None"), "has no cluster IP"),
        ("thanos.invalid", None, "there is no Service monitoring/thanos"),
    ];
    for (host, service, expected) in table {
        let error = at(host, service).query("good").await.unwrap_err();
        assert!(matches!(&error, QueryError::Source(text) if text.contains(expected)), "{error:?}");
    }
    // The CA bundle is read again.
    let querier = at("thanos.invalid", service("127.0.0.1"));
    let pem = std::fs::read(ca.path()).unwrap();
    std::fs::write(ca.path(), "nonsense").unwrap();
    assert!(matches!(querier.query("good").await, Err(QueryError::Source(text)) if text.contains("CA bundle")));
    std::fs::write(ca.path(), pem).unwrap();
    assert_eq!(querier.query("good").await, Ok(true));
}

#[tokio::test]
async fn server_that_wants_the_token_over_http_is_told_of_with_the_way_out() {
    let at = |url: &str, token: bool| {
        let token = token.then(|| PathBuf::from("/token"));
        querier(Source { token, ..source(url.to_owned()) }, None)
    };
    for (url, token, status, expected) in [
        ("http://thanos.example.com", true, 401, true),
        ("http://thanos.example.com", true, 403, true),
        ("http://thanos.example.com", true, 500, false),
        ("http://thanos.example.com", false, 401, false),
        ("https://thanos.example.com", true, 401, false),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let error = HttpError::Status { url: url.to_owned(), status, body: String::new(), retry_after: None };
        let QueryError::Source(text) = at(url, token).failed(error) else { panic!("{url}") };
        assert_eq!(text.contains("--metrics-url"), expected, "{text}");
    }
}

#[test]
fn token_is_sent_where_nobody_else_can_read_it() {
    for (url, private) in [
        ("https://thanos.example.com:9091/api", true),
        ("http://thanos.example.com:9091/api", false),
        ("http://10.0.0.1/api", false),
        ("http://127.0.0.1:9090/api", true),
        ("http://[::1]:9090/api", true),
        ("http://localhost.example.com/api", false),
    ] {
        assert_eq!(is_private(&url.parse().unwrap()), private, "{url}");
    }
}
