//! Who asks all the time while pods come and go.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::{Request, header};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{SHOP, World};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);
/// For one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Of an answer, in bytes.
const MOST: usize = 1 << 20;

/// What somebody has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub answers: usize,
    pub failures: Vec<String>,
    /// What was answered, each once, in the order of the first time.
    pub values: Vec<String>,
}

impl Seen {
    pub(super) fn assert(&self, what: &str, values: &[&str]) {
        println!("{what}: {} answers", self.answers);
        let first = self.failures.first();
        assert!(first.is_none(), "{what}: {} of {} failed: {first:?}", self.failures.len(), self.answers);
        assert_eq!(self.values, values, "{what}");
    }
}

/// Asks until told to end.
async fn ask(question: impl AsyncFn() -> Result<String, String>, end: CancellationToken) -> Seen {
    let mut seen = Seen::default();
    while !end.is_cancelled() {
        match timeout(ANSWER, question()).await.unwrap_or_else(|_| Err("no answer".to_owned())) {
            Ok(value) if !seen.values.contains(&value) => seen.values.push(value),
            Ok(_) => {}
            Err(error) => seen.failures.push(error),
        }
        seen.answers += 1;
        sleep(PAUSE).await;
    }
    seen
}

impl World {
    /// Which bundle a package offers, by the API of packages.
    pub(super) async fn ask_for_package(&self, package: &str, end: CancellationToken) -> Seen {
        let path = format!("/apis/packages.operators.coreos.com/v1/namespaces/{SHOP}/packagemanifests/{package}");
        let question = async || {
            let request = Request::get(&path).body(Vec::new()).unwrap();
            let package: Value = self.client.request(request).await.map_err(|error| error.to_string())?;
            let head = package["status"]["channels"][0]["currentCSV"].as_str();
            head.map(str::to_owned).ok_or_else(|| package.to_string())
        };
        ask(question, end).await
    }
}

/// Which of these words the bundles have that the server at this address lists. Each question has a connection of its own.
pub(super) async fn ask_server(address: &str, words: &[&str], end: CancellationToken) -> Seen {
    let question = async || {
        let answer = call(address, "/api.Registry/ListBundles").await?;
        let text = String::from_utf8_lossy(&answer);
        let found: Vec<&str> = words.iter().copied().filter(|word| text.contains(word)).collect();
        // One content, and no mixture.
        if found.len() == 1 { Ok(found.concat()) } else { Err(format!("{found:?} in {text:?}")) }
    };
    ask(question, end).await
}

/// What the server answers to an empty message.
async fn call(address: &str, method: &str) -> Result<Vec<u8>, String> {
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let request = Request::post(format!("http://{address}{method}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Body::from(vec![0; 5]))
        .unwrap();
    let answer = client.request(request).await.map_err(|error| format!("{error:?}"))?;
    let (status, code) = (answer.status(), answer.headers().get("grpc-status").cloned());
    if !status.is_success() || code.is_some() {
        return Err(format!("{status} {code:?}"));
    }
    let bytes = to_bytes(Body::new(answer.into_body()), MOST).await;
    bytes.map(Vec::from).map_err(|error| format!("{error:?}"))
}
