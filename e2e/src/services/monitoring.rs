//! A real Prometheus, and an exporter that it scrapes all the time: the series can be set while it runs.

use super::certificates::Certificates;
use crate::harness::{Cluster, Launch, Toolbox, files};
use crate::until::until;
use anyhow::{Context, ensure};
use axum::Router;
use axum::routing::get;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// The common name of the client certificate of the platform's Prometheus.
pub const PROMETHEUS: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";
/// Name of its process in the harness.
const PROCESS: &str = "prometheus";
/// The series that says which series are there.
const MARK: &str = "lab_series_set";

/// Prometheus ends with the cluster, and the exporter when this is dropped.
#[derive(Debug)]
pub struct Monitoring {
    pub url: String,
    /// The CA of its certificate.
    pub ca: PathBuf,
    client: reqwest::Client,
    exposed: Arc<Mutex<String>>,
    sets: u32,
    _exporting: AbortOnDropHandle<()>,
}

impl Monitoring {
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        Self::start_with(cluster, "").await
    }

    /// The same with more `scrape_configs`.
    pub async fn start_with(cluster: &Cluster, more: &str) -> anyhow::Result<Self> {
        let folder = cluster.dir().join(PROCESS);
        files::make_dir(&folder)?;
        let certificates = Certificates::new(&["localhost".to_owned()])?;
        certificates.write(&folder)?;
        let exposed: Arc<Mutex<String>> = Arc::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let exporter = listener.local_addr()?;
        let text = exposed.clone();
        let router = Router::new()
            .route("/metrics", get(move || async move { text.lock().unwrap_or_else(PoisonError::into_inner).clone() }));
        let exporting = tokio::spawn(async move {
            let _ended = axum::serve(listener, router).await;
        });
        let config = format!(
            "global:\n  scrape_interval: 50ms\n  scrape_timeout: 50ms\nscrape_configs:\n- job_name: lab\n  honor_labels: true\n  static_configs:\n  \
             - targets: ['{exporter}']\n{more}"
        );
        files::write(&folder.join("prometheus.yml"), config)?;
        files::write(&folder.join("web.yml"), "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n")?;
        let port = cluster.port("prometheus");
        let at = |name: &str| folder.join(name).display().to_string();
        let arguments = [
            format!("--config.file={}", at("prometheus.yml")),
            format!("--web.config.file={}", at("web.yml")),
            format!("--storage.tsdb.path={}", at("data")),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--web.enable-admin-api".to_owned(),
        ];
        cluster.spawn(Launch::new(PROCESS, Toolbox::find()?.service("prometheus")?, arguments))?;
        crate::harness::install_tls_provider();
        let authority = reqwest::Certificate::from_pem(certificates.authority.as_bytes())?;
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).build()?;
        let url = format!("https://localhost:{port}");
        let ready = async || client.get(format!("{url}/-/ready")).send().await?.error_for_status();
        cluster.until("Prometheus to be ready", &[PROCESS]).answer(ready).await?;
        let exporting = AbortOnDropHandle::new(exporting);
        Ok(Self { url, ca: folder.join("ca.pem"), client, exposed, sets: 0, _exporting: exporting })
    }

    /// Arguments of a daemon that queries this Prometheus.
    pub fn arguments(&self) -> [String; 7] {
        let ca = self.ca.display().to_string();
        let flags = ["--metrics-url", &self.url, "--metrics-ca-bundle-file", &ca, "--metrics-token-file", ""];
        let [a, b, c, d, e, f] = flags.map(str::to_owned);
        [a, b, c, d, e, f, "--use-dns-for-services".to_owned()]
    }

    /// Replaces all series by these, each `{"labels": {"__name__": ..., ...}, "value": ...}`, also those of the past, and waits
    /// until they have been scraped.
    pub async fn set(&mut self, series: &[Value]) -> anyhow::Result<()> {
        self.expose(&[])?;
        self.until_scraped().await?;
        let delete = format!("{}/api/v1/admin/tsdb/delete_series", self.url);
        let deleted = self.client.post(delete).query(&[("match[]", "{__name__=~\".+\"}")]).send().await?;
        ensure!(deleted.status().is_success(), "series not deleted: {}", deleted.status());
        self.expose(series)?;
        self.until_scraped().await
    }

    fn expose(&mut self, series: &[Value]) -> anyhow::Result<()> {
        self.sets += 1;
        let mut text = format!("{MARK} {}\n", self.sets);
        for one in series {
            let labels = one["labels"].as_object().context("a series has labels")?;
            let name = labels.get("__name__").and_then(Value::as_str).context("a series has a name")?;
            let pairs = labels.iter().filter(|(key, _)| *key != "__name__");
            let pairs: Vec<_> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
            text.push_str(&format!("{name}{{{}}} {}\n", pairs.join(","), one["value"]));
        }
        *self.exposed.lock().unwrap_or_else(PoisonError::into_inner) = text;
        Ok(())
    }

    async fn until_scraped(&self) -> anyhow::Result<()> {
        let query = format!("{MARK} == bool {}", self.sets);
        // Prometheus has no way to wait for a scrape.
        let scraped = async || match self.matches(&query).await? {
            true => Ok(()),
            false => Err("older series".to_owned()),
        };
        Ok(until("the series to be scraped", Duration::from_secs(60)).answer(scraped).await?)
    }

    /// What the daemon makes of the answer to a query.
    pub async fn matches(&self, query: &str) -> Result<bool, String> {
        let url = cvo::testing::updates::promql::query_url(&self.url, query)?;
        let response = self.client.get(url).send().await.map_err(|e| e.to_string())?;
        let body = response.bytes().await.map_err(|e| e.to_string())?;
        cvo::testing::updates::promql::answer(&body).map(|answer| answer.matches)
    }
}
