//! A proxy between a client and the API server, which does on demand what API servers and networks do on bad days
//! (see `faults`). HTTP/2 on both sides; watches stream through it.
//!
//! Who shows a token keeps it. Others are passed on with the administrator's certificate, since no proxy can pass on a
//! client's; with it goes the header that says whom they act as.

use super::faults::{Chance, Fate, Faults, Tally, writes};
use crate::harness::Cluster;
use anyhow::Context;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, Response, Uri, Version, header},
};
use futures::{StreamExt, TryStreamExt};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use kube::{client::ConfigExt, config::AuthInfo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// As many as the API server grants.
const STREAMS: u32 = 100;

/// Ends with the value.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    office: Arc<Office>,
    accepting: JoinHandle<()>,
    stop: CancellationToken,
}

/// What all connections share.
#[derive(Debug)]
struct Office {
    /// `127.0.0.1:<port>` of the API server.
    server: String,
    as_admin: rustls::ClientConfig,
    as_bearer: rustls::ClientConfig,
    faults: Mutex<Faults>,
    chance: Mutex<Chance>,
    tally: watch::Sender<Tally>,
}

/// One connection of the client: it has connections of its own to the API server, as it would have without a proxy.
#[derive(Debug, Clone)]
struct Line {
    office: Arc<Office>,
    as_admin: Client<HttpsConnector<HttpConnector>, Body>,
    as_bearer: Client<HttpsConnector<HttpConnector>, Body>,
    /// Ends the connection.
    hang_up: CancellationToken,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
        self.accepting.abort();
    }
}

impl Proxy {
    /// Listens on a free port of loopback, with the API server's own certificate, and passes everything on.
    pub async fn start(cluster: &Cluster, seed: &str) -> anyhow::Result<Self> {
        let config = cluster.config().await?;
        let mut bearer = config.clone();
        bearer.auth_info = AuthInfo::default();
        let office = Arc::new(Office {
            server: cluster.server().trim_start_matches("https://").to_owned(),
            as_admin: config.rustls_client_config()?,
            as_bearer: bearer.rustls_client_config()?,
            faults: Mutex::default(),
            chance: Mutex::new(Chance::new(seed)),
            tally: watch::Sender::default(),
        });
        let acceptor = TlsAcceptor::from(Arc::new(serving(&cluster.dir().join("pki"))?));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, acceptor, office.clone(), stop.clone()));
        Ok(Self { address, office, accepting, stop })
    }

    /// Makes whoever uses this kubeconfig (as the harness writes them, in JSON) go through the proxy.
    pub fn stand_before(&self, kubeconfig: &Path) -> anyhow::Result<()> {
        let mut config: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig)?)?;
        let server = config.pointer_mut("/clusters/0/cluster/server").context("the kubeconfig names no server")?;
        *server = format!("https://{}", self.address).into();
        Ok(std::fs::write(kubeconfig, config.to_string())?)
    }

    /// From now on this goes wrong, and the tally begins anew.
    pub fn set(&self, faults: Faults) {
        *self.office.faults.lock().unwrap() = faults;
        self.office.tally.send_replace(Tally::default());
    }

    /// What was done since `set`.
    pub fn tally(&self) -> Tally {
        self.office.tally.borrow().clone()
    }

    /// Waits until the tally is so. The requests that made it so are on their way, not answered.
    pub async fn until(&self, what: &str, limit: Duration, reached: impl Fn(&Tally) -> bool) {
        let mut tally = self.office.tally.subscribe();
        let wait = tokio::time::timeout(limit, tally.wait_for(|tally| reached(tally))).await;
        assert!(wait.is_ok(), "waited in vain for {what}: {:?}", self.tally());
    }
}

fn serving(pki: &Path) -> anyhow::Result<rustls::ServerConfig> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(pki.join("serving.crt"))?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(pki.join("serving.key"))?;
    let mut config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, office: Arc<Office>, stop: CancellationToken) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let line = Line {
            as_admin: client(&office.as_admin),
            as_bearer: client(&office.as_bearer),
            office: office.clone(),
            hang_up: stop.child_token(),
        };
        tokio::spawn(serve(stream, acceptor.clone(), line));
    }
}

/// One connection from its beginning to its end.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, line: Line) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let hang_up = line.hang_up.clone();
    let router = Router::new().fallback(pass).with_state(line);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // How a connection ends is nobody's business.
    let _ended = hang_up.run_until_cancelled(connection).await;
}

fn client(tls: &rustls::ClientConfig) -> Client<HttpsConnector<HttpConnector>, Body> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let https = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_only().enable_http2();
    Client::builder(TokioExecutor::new()).http2_adaptive_window(true).build(https.wrap_connector(tcp))
}

/// One request.
async fn pass(State(line): State<Line>, request: Request) -> Response<Body> {
    let office = &line.office;
    let faults = *office.faults.lock().unwrap();
    let (uri, method) = (request.uri().clone(), request.method().clone());
    let (fate, delay) = {
        let mut chance = office.chance.lock().unwrap();
        (chance.fate(&faults, &method, uri.path()), chance.moment(faults.delay))
    };
    office.note(&method, &uri, fate);
    tokio::time::sleep(delay).await;
    match fate {
        Fate::Refused(refusal) if !refusal.after_the_deed => refusal.answer(&uri),
        Fate::Refused(refusal) => {
            line.forward(request).await;
            refusal.answer(&uri)
        }
        Fate::Lost => {
            line.forward(request).await;
            line.hang_up().await
        }
        Fate::Answered => {
            let answer = line.forward(request).await;
            match faults.watch_life.filter(|_| is_watch(&uri) && answer.status().is_success()) {
                Some(life) => answer.map(|body| office.cut(body, life)),
                None => answer,
            }
        }
    }
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| part == "watch=true" || part == "watch=1"))
}

impl Line {
    /// The API server's answer. Where there is none, the client gets none either: its connection ends.
    async fn forward(&self, request: Request) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(uri) = format!("https://{}{path}", self.office.server).parse() else { return self.hang_up().await };
        parts.uri = uri;
        parts.version = Version::HTTP_11;
        parts.headers.remove(header::HOST);
        let bearer = parts.headers.contains_key(header::AUTHORIZATION);
        let client = if bearer { &self.as_bearer } else { &self.as_admin };
        match client.request(Request::from_parts(parts, body)).await {
            Ok(answer) => answer.map(Body::new),
            Err(_) => self.hang_up().await,
        }
    }

    async fn hang_up(&self) -> Response<Body> {
        self.hang_up.cancel();
        // Nothing is answered any more.
        std::future::pending().await
    }
}

impl Office {
    fn note(&self, method: &Method, uri: &Uri, fate: Fate) {
        self.tally.send_modify(|tally| {
            tally.requests += 1;
            let write = usize::from(writes(method, uri.path()));
            tally.writes += write;
            match fate {
                Fate::Refused(refusal) => {
                    *tally.refused.entry(refusal.code).or_default() += 1;
                    tally.refused_writes += write;
                }
                Fate::Lost => tally.lost += 1,
                Fate::Answered => {}
            }
        });
    }

    /// The body for so long; every other one then breaks off.
    fn cut(self: &Arc<Self>, body: Body, life: Duration) -> Body {
        let breaks = self.chance.lock().unwrap().below(2) == 1;
        let office = self.clone();
        let end = async move {
            tokio::time::sleep(life).await;
            office.tally.send_modify(|tally| tally.watches_cut += 1);
        };
        let whole = body.into_data_stream().map_err(std::io::Error::other).take_until(Box::pin(end));
        let broken = breaks.then(|| Err(std::io::Error::other("cut")));
        Body::from_stream(whole.chain(futures::stream::iter(broken)))
    }
}
