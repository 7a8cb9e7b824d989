//! Waits for a condition and checks meanwhile that the processes behind it still run.

use std::time::{Duration, Instant};

use reqwest::Certificate;

use super::{
    error::{HarnessError, Result},
    files,
    site::Site,
};

/// How long one step of the start may take on a busy machine; a warm step takes a few seconds.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// Calls `probe` until it returns true, often at first. Fails with the end of the log when one of `processes` has
/// ended, and with the end of all their logs after [`LIMIT`].
pub(super) async fn until(
    what: &str,
    site: &Site,
    processes: &[&str],
    mut probe: impl AsyncFnMut() -> bool,
) -> Result<()> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        // A server that is starting may accept a connection and never answer.
        if tokio::time::timeout(Duration::from_secs(5), probe()).await.unwrap_or(false) {
            return Ok(());
        }
        if let Some(dead) = processes.iter().find(|name| !site.runs(name)) {
            let tail = files::tail(&site.log(dead), 20);
            return Err(HarnessError::Died((*dead).to_owned(), what.to_owned(), tail));
        }
        if begun.elapsed() > LIMIT {
            let tails: Vec<String> =
                processes.iter().map(|name| format!(" {name}:\n{}", files::tail(&site.log(name), 15))).collect();
            return Err(HarnessError::TimedOut(LIMIT.as_secs(), what.to_owned(), tails.join("\n")));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(Duration::from_millis(250));
    }
}

/// Waits until a process answers at `url` with success.
pub(super) async fn healthy(site: &Site, process: &str, url: String) -> Result<()> {
    let client = http(site)?;
    until(&format!("{process} to be healthy"), site, &[process], async || answers(&client, &url).await).await
}

pub(super) async fn answers(client: &reqwest::Client, url: &str) -> bool {
    client.get(url).send().await.is_ok_and(|response| response.status().is_success())
}

/// A client that trusts only the cluster's certificate authorities and uses no proxy.
pub(super) fn http(site: &Site) -> Result<reqwest::Client> {
    let path = site.pki("trusted.crt");
    let pem = std::fs::read(&path).map_err(|error| HarnessError::Io(path.clone(), error))?;
    let failed = |error: reqwest::Error| HarnessError::Certificate(path.display().to_string(), error.to_string());
    let authorities = Certificate::from_pem_bundle(&pem).map_err(failed)?;
    reqwest::Client::builder()
        .tls_certs_only(authorities)
        .no_proxy()
        .timeout(Duration::from_secs(3))
        .build()
        .map_err(failed)
}
