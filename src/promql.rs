//! Queries a Prometheus API: the request, and what the answer says.

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Url;

/// Most bytes of an answer that are read: one sample has some hundred.
pub(crate) const MAX_ANSWER: usize = 1 << 20;

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub matches: bool,
    /// Only for the log: the value counts nevertheless.
    pub warnings: Vec<String>,
}

/// Why a query has no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryError {
    /// The source cannot be reached: every other query would fail in the same way.
    Source(String),
    /// The source answered, but not with a verdict.
    Answer(String),
}

/// The members of an answer that are used. Any may be missing, and `data` has many shapes.
#[derive(Deserialize)]
struct Response {
    status: String,
    #[serde(default)]
    data: Value,
    #[serde(default, rename = "errorType")]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

/// A short name of a query where it is recorded.
pub(crate) fn key(query: &str) -> String {
    let mut text = hex::encode(Sha256::digest(query.as_bytes()));
    text.truncate(32);
    text
}

/// The URL of an instant query at the time when it arrives. `base` is the URL of the server, possibly with a path.
pub fn query_url(base: &str, query: &str) -> Result<Url, String> {
    let mut url = Url::parse(base).map_err(|e| format!("the metrics URL {base:?} is not a URL: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("the metrics URL {base:?} needs http:// or https:// and a host"));
    }
    let path = format!("{}/api/v1/query", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_fragment(None);
    url.query_pairs_mut().append_pair("query", query);
    Ok(url)
}

/// What a successful answer says: the vector has exactly one sample, and its value is 1 or 0. Anything else means that the
/// query does not fit the metrics of this cluster, and is an error.
pub fn answer(body: &[u8]) -> Result<Answer, String> {
    let response: Response = serde_json::from_slice(body)
        .map_err(|e| format!("the answer is not one of a Prometheus API ({e}): is the metrics URL right?"))?;
    if response.status != "success" {
        return Err(failure(&response));
    }
    let (data, warnings) = (response.data, response.warnings.unwrap_or_default());
    match data.get("resultType").and_then(Value::as_str) {
        Some("vector") => {}
        other => return Err(format!("the result is of type {:?}, and a vector is needed", other.unwrap_or("none"))),
    }
    let sample = match data.get("result").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) => one,
        Some(several) => return Err(format!("the result has {} samples, and exactly one is needed", several.len())),
        None => return Err("the answer has no result".to_owned()),
    };
    let value = sample.get("value").and_then(|value| value.get(1)).and_then(Value::as_str);
    let Some(value) = value else { return Err("the sample has no value: is it a histogram?".to_owned()) };
    match value.parse::<f64>() {
        Ok(0.0) => Ok(Answer { matches: false, warnings }),
        Ok(1.0) => Ok(Answer { matches: true, warnings }),
        _ => Err(format!("the value of the sample is {value:?}, and 0 or 1 is needed")),
    }
}

/// The cause in the body of an error answer, if it is one of a Prometheus API.
pub(crate) fn error_in(body: &[u8]) -> Option<String> {
    let response: Response = serde_json::from_slice(body).ok()?;
    (response.status == "error").then(|| failure(&response))
}

fn failure(response: &Response) -> String {
    match (response.error_type.as_str(), response.error.as_str()) {
        ("", "") => format!("the server reports status {:?} without a cause", response.status),
        (kind, cause) => format!("the server reports {kind}: {cause}"),
    }
}

#[cfg(test)]
mod tests;
