use super::*;
use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use std::net::SocketAddr;

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn agent(headers: &HeaderMap) -> String {
    headers.get("user-agent").unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn read_is_bounded_and_error_names_url_and_cause() {
    let router = Router::new()
        .route("/agent", get(|headers: HeaderMap| async move { agent(&headers) }))
        .route("/big", get(|| async { vec![b'x'; 100] }));
    let base = format!("http://{}", serve(router).await);
    let client = client("5.0.1").unwrap();
    let body = get_bounded(&client, &format!("{base}/agent"), 100).await.unwrap();
    assert_eq!(String::from_utf8(body).unwrap(), "ClusterVersionOperator/5.0.1");

    let url = format!("{base}/big");
    assert_eq!(get_bounded(&client, &url, 100).await.unwrap().len(), 100);
    assert_eq!(get_bounded(&client, &url, 99).await, Err(HttpError::TooLarge { url: url.clone(), max: 99 }));
    let url = format!("{base}/none");
    let error = get_bounded(&client, &url, 99).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(&url), "{error}");

    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{free}/x");
    let text = get_bounded(&client, &url, 99).await.unwrap_err().to_string();
    assert!(text.contains(&url) && text.to_lowercase().contains("connection refused"), "{text}");
    let text = get_bounded(&client, "no url", 99).await.unwrap_err().to_string();
    assert!(text.starts_with("GET no url: "), "{text}");
}
