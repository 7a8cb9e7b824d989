//! Answers of the API server with the time by its clock.

use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

/// An answer of the API server, and the time by its clock.
pub(crate) async fn dated<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Body>,
) -> kube::Result<(T, Option<Timestamp>)> {
    let (head, body) = client.send(request).await?.into_parts();
    let body = body.collect_bytes().await?;
    if !head.status.is_success() {
        let status = serde_json::from_slice::<Status>(&body);
        let unreadable = |_| Status::failure(&String::from_utf8_lossy(&body), "").with_code(head.status.as_u16());
        return Err(kube::Error::Api(status.unwrap_or_else(unreadable).boxed()));
    }
    let date = head.headers.get(http::header::DATE).and_then(|value| value.to_str().ok());
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|time| time.timestamp());
    Ok((serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?, date))
}
