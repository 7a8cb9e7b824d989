//! The API server's own count of writes, by whomever.

use std::collections::BTreeMap;

/// The API server's own count of requests that write, by verb and resource (`PUT deployments/status`), refused ones
/// left out.
pub async fn write_counts(client: &kube::Client) -> BTreeMap<String, u64> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let (labels, value) = line.rsplit_once(' ').unwrap();
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0
        };
        let written =
            ["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&label("verb")) && label("code").starts_with('2');
        if written {
            let slash = if label("subresource").is_empty() { "" } else { "/" };
            let key = format!("{} {}{slash}{}", label("verb"), label(",resource"), label("subresource"));
            *counts.entry(key).or_default() += value.parse::<f64>().unwrap() as u64;
        }
    }
    counts
}
