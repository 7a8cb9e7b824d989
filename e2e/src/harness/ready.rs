//! Waits that are given up when the processes behind them have ended.

use std::time::Duration;

use futures::future::select_all;
use reqwest::Certificate;

use super::{
    error::{HarnessError, Result},
    files,
    site::Site,
};
use crate::until::{self, Until};

/// How long one step of the start may take on a busy machine; a warm step takes a few seconds.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// Waits for at most [`LIMIT`], and no longer when one of `processes` has ended; in vain it says the end of their logs.
pub(super) fn until<'a>(what: impl Into<String>, site: &'a Site, processes: &'a [&'a str]) -> Until<'a> {
    let logs = async {
        let tail = |name: &&str| format!("The end of the log of {name}:\n{}", files::tail(&site.log(name), 20));
        processes.iter().map(tail).collect::<Vec<_>>().join("\n")
    };
    until::until(what, LIMIT).unless(ended(site, processes)).look(logs)
}

/// Returns once one of the processes has ended, and was not started again.
async fn ended(site: &Site, processes: &[&str]) -> String {
    let one = |name: &&str| {
        let name = (*name).to_owned();
        Box::pin(async move {
            while let Some(process) = site.process(&name) {
                process.ended().await;
            }
            format!("{name} does not run")
        })
    };
    match processes {
        [] => std::future::pending().await,
        _ => select_all(processes.iter().map(one)).await.0,
    }
}

/// Waits until a process answers at `url` with success.
pub(super) async fn healthy(site: &Site, process: &str, url: String) -> Result<()> {
    let client = http(site)?;
    let what = format!("{process} to be healthy");
    Ok(until(what, site, &[process]).answer(async || success(&client, &url).await).await?)
}

/// Whether a server answers at `url` with success.
pub(super) async fn success(client: &reqwest::Client, url: &str) -> reqwest::Result<()> {
    client.get(url).send().await?.error_for_status().map(drop)
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
