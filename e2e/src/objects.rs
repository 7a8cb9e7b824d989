//! Objects as JSON.

use kube::Client;
use serde_json::Value;

/// Creates an object by a request to the path of its kind.
pub async fn create(client: &Client, path: &str, object: &Value) {
    let request = || http::Request::post(path).body(object.to_string().into_bytes()).unwrap();
    // A kind is served a moment after its definition is created.
    let served = async {
        loop {
            match client.request::<Value>(request()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                other => return other,
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), served).await.unwrap().unwrap();
}
