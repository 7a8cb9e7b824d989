use super::*;
use crate::net::http::tests::serve_tls;
use crate::net::http::{Get, HttpError, get};
use axum::Router;
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::Arc;

/// The API server has this ConfigMap named `ca`.
fn objects(map: Option<Value>) -> Objects {
    let (mock, mut requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            assert_eq!(request.uri().path(), "/api/v1/namespaces/openshift-config/configmaps/ca");
            let gone =
                json!({"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound", "message": "no"});
            let (code, body) = map.clone().map_or((404, gone), |map| (200, map));
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(::http::Response::builder().status(code).body(body).unwrap());
        }
    });
    Objects::new(kube::Client::new(mock, "default"), "tests", Arc::new(|| true))
}

#[tokio::test]
async fn store_is_trusted_by_the_ca_that_the_spec_names() {
    let router = Router::new().route("/", axum::routing::get(|| async { "signature" }));
    let (address, bundle) = serve_tls("localhost", router).await;
    let url = format!("https://localhost:{}/", address.port());
    let ca = ConfigMapName { name: "ca".into() };
    let read = async |client: reqwest::Client| get(&client, &url, &Get::default(), 100).await;
    let egress = Egress::default();
    let map = |pem: &str| Some(json!({"data": {"ca.crt": pem}}));
    let trusting = build(&objects(map(&bundle.pem)), "1", &egress, Some(&ca)).await.unwrap();
    assert_eq!(read(trusting).await.unwrap().body, b"signature");
    for none in [None, Some(&ConfigMapName::default())] {
        let client = build(&objects(map(&bundle.pem)), "1", &egress, none).await.unwrap();
        assert!(matches!(read(client).await, Err(HttpError::Transport { .. })), "{none:?}");
    }
    for (map, expected) in [
        (None, "its CA is missing: ConfigMap openshift-config/ca, key ca.crt"),
        (Some(json!({"data": {"other": "x"}})), "its CA is missing: ConfigMap openshift-config/ca, key ca.crt"),
        (map("nonsense"), "ConfigMap openshift-config/ca, key ca.crt: the CA bundle has no certificate"),
    ] {
        let error = build(&objects(map), "1", &egress, Some(&ca)).await.unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}
