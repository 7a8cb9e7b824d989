use super::*;
use crate::api::progress::NodeProgress;
use kube::Client;
use kube::client::Body;
use std::sync::{Arc, Mutex};

/// Even without another change, because the last record of an update has to be correct.
#[tokio::test]
async fn record_is_written_after_a_failed_write() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let methods = Arc::new(Mutex::new(Vec::new()));
    let seen = methods.clone();
    let (rewritten, mut done) = watch::channel(false);
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            let writes = seen.lock().unwrap().iter().filter(|method| **method == http::Method::PUT).count();
            seen.lock().unwrap().push(request.method().clone());
            let write = request.method() == http::Method::PUT;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}});
            let code = if write && writes == 0 { 500 } else { 200 };
            let body = Body::from(map.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
            rewritten.send_replace(write && writes == 1);
        }
    });
    let objects = Objects::new(Client::new(service, "default"), Arc::new(|| true));
    let (records, received) = watch::channel(Progress::default());
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keep(objects, "ns".to_owned(), received, stop.clone()));
    records.send_replace(Progress { schema: SCHEMA, nodes: vec![NodeProgress::default()], ..Progress::default() });
    let written = done.wait_for(|rewritten| *rewritten);
    assert!(tokio::time::timeout(Duration::from_secs(60), written).await.is_ok(), "{:?}", methods.lock().unwrap());
    stop.cancel();
    keeping.await.unwrap();
}
