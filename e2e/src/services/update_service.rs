//! An update service, and a signature store beside it: what it answers can be changed while it runs, and its requests can be
//! waited for.

use super::certificates::Certificates;
use crate::simulator::cluster::LIMIT;
use crate::until::until;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// What a test has set, and what was asked for.
#[derive(Debug, Clone)]
struct Answers {
    graph: watch::Sender<(StatusCode, Value)>,
    /// The queries of all requests, in order.
    asked: watch::Sender<Vec<String>>,
    signatures: PathBuf,
}

/// Ends when it is dropped.
#[derive(Debug)]
pub struct UpdateService {
    answers: Answers,
    pub address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl UpdateService {
    /// Listens on an address; with TLS if there are certificates. With `only`, other clients are cut off as by a firewall.
    /// Below `/signatures` are the files of a folder.
    pub async fn start(
        listen: IpAddr,
        certificates: Option<&Certificates>,
        only: Option<IpAddr>,
        signatures: PathBuf,
    ) -> anyhow::Result<Self> {
        let empty = (StatusCode::OK, json!({"nodes": [], "edges": []}));
        let answers = Answers { graph: watch::channel(empty).0, asked: watch::channel(Vec::new()).0, signatures };
        let router = Router::new()
            .route("/graph", get(graph))
            .route("/signatures/{*path}", get(signature))
            .with_state(answers.clone());
        let listener = TcpListener::bind((listen, 0)).await?;
        let address = listener.local_addr()?;
        let tls = certificates.map(|certificates| TlsAcceptor::from(certificates.config.clone()));
        let serving = tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                if only.is_some_and(|only| only != peer.ip()) {
                    continue;
                }
                let (service, tls) = (TowerToHyperService::new(router.clone()), tls.clone());
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    match tls {
                        None => builder.serve_connection(TokioIo::new(stream), service).await.is_ok(),
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => builder.serve_connection(TokioIo::new(stream), service).await.is_ok(),
                            Err(_) => false,
                        },
                    }
                });
            }
        });
        Ok(Self { answers, address, _serving: AbortOnDropHandle::new(serving) })
    }

    pub fn answer(&self, graph: Value) {
        self.answers.graph.send_replace((StatusCode::OK, graph));
    }

    pub fn fail(&self, status: StatusCode, body: Value) {
        self.answers.graph.send_replace((status, body));
    }

    /// How often it was asked so far.
    pub fn count(&self) -> usize {
        self.answers.asked.borrow().len()
    }

    /// Waits until it was asked more often than that.
    pub async fn until_asked(&self, more_than: usize) -> anyhow::Result<()> {
        self.until("another request", |asked| asked.len() > more_than).await
    }

    /// Waits until its newest query has these words.
    pub async fn until_asked_for(&self, words: &str) -> anyhow::Result<()> {
        self.until(words, |asked| asked.last().is_some_and(|query| query.contains(words))).await
    }

    async fn until(&self, what: &str, ok: impl FnMut(&Vec<String>) -> bool) -> anyhow::Result<()> {
        let what = format!("the update service to be asked: {what}");
        until(what, LIMIT).value(self.answers.asked.subscribe(), ok).await?;
        Ok(())
    }
}

async fn graph(State(answers): State<Answers>, RawQuery(query): RawQuery) -> Response {
    answers.asked.send_modify(|asked| asked.push(query.unwrap_or_default()));
    let (status, body) = answers.graph.borrow().clone();
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

async fn signature(State(answers): State<Answers>, axum::extract::Path(path): axum::extract::Path<String>) -> Response {
    match tokio::fs::read(answers.signatures.join(path)).await {
        Ok(bytes) => bytes.into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}
