//! Objects as JSON.

use crate::until::until;
use kube::Client;
use serde_json::Value;
use std::time::Duration;

/// Creates an object by a request to the path of its kind.
pub async fn create(client: &Client, path: &str, object: &Value) {
    let request = || http::Request::post(path).body(object.to_string().into_bytes()).unwrap();
    // A kind is served a moment after its definition is created.
    let served = async || match client.request::<Value>(request()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Err(status.message.clone()),
        other => Ok(other),
    };
    until(format!("{path} to be served"), Duration::from_secs(30)).answer(served).await.unwrap().unwrap();
}
